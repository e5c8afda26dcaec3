use super::ApiRole;
use crate::Timestamp;
use culvert_ids::{ActorId, GroupId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A person who was created to administer, and may have API tokens without signing in.
    Admin,
    /// A person. They may have API tokens while they sign in with a role above `user`.
    User,
    /// A machine.
    ServiceAccount,
}

/// An admin, a user or a service account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Actor {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: ActorId,
    /// The kind of the actor.
    pub kind: ActorKind,
    /// Unique in the account, whatever the case of its letters.
    pub name: String,
    /// Its tokens and clients are refused.
    pub disabled: bool,
    /// The actor's sign-in to the console, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignIn>,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// The sign-in of a person: with a password, by an identity provider, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignIn {
    /// The role of the person's sessions.
    pub role: ApiRole,
    /// The time of the last change of the password, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_set: Option<Timestamp>,
    /// The time since which a code is asked for besides it, if one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_factor: Option<Timestamp>,
    /// Recovery codes that the person has left.
    #[serde(default)]
    pub recovery_codes: u32,
    /// Passkeys that the person has.
    #[serde(default)]
    pub passkeys: u32,
    /// The end of the link by which the person may set a password, once. None without such a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation_ends: Option<Timestamp>,
}

/// A person to invite.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewPerson {
    /// 1 to 100 characters. The person signs in under it.
    pub name: String,
    /// The role of the person's sessions: no more than the role of who invites.
    pub role: ApiRole,
    /// The groups that the person is in from now on; at most 100.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub groups: Vec<GroupId>,
}

/// Another link for a person.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewInvitation {
    /// The role of a person who does not sign in yet; `user` if it is left out. The role of others stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<ApiRole>,
}

/// A link by which a person sets a password, once. An earlier link of the person is void.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssuedInvitation {
    /// The person.
    pub actor: Actor,
    /// The address to open in a browser. It is a secret, and is shown this once.
    pub link: String,
    /// The first instant at which the link is no longer accepted.
    pub ends: Timestamp,
}

impl fmt::Debug for IssuedInvitation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("IssuedInvitation")
            .field("actor", &self.actor.id)
            .field("ends", &self.ends)
            .finish_non_exhaustive()
    }
}

/// A new way for a person to sign in. It ends the sessions that the person has.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSignIn {
    /// The role of the person's sessions: any, for any person. It is the most that their API tokens may do.
    pub role: ApiRole,
    /// 12 to 256 characters. Without one, the password stays what it is, and who has none signs in by an
    /// identity provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<String>,
}

impl fmt::Debug for NewSignIn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("NewSignIn")
            .field("role", &self.role)
            .finish_non_exhaustive()
    }
}

/// An actor to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewActor {
    /// The kind of the actor; it cannot be changed.
    pub kind: ActorKind,
    /// 1 to 100 characters.
    pub name: String,
}

/// A change of an actor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ActorPatch {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// True to refuse the actor's tokens and clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}
