use super::ApiRole;
use crate::Timestamp;
use culvert_ids::ActorId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an actor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A person who may have API tokens.
    Admin,
    /// A person.
    User,
    /// A machine.
    ServiceAccount,
}

/// Who acts: an admin, a user or a service account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Actor {
    /// Which one.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: ActorId,
    /// What it is.
    pub kind: ActorKind,
    /// Unique in the account, whatever the case of its letters.
    pub name: String,
    /// Its tokens and clients are refused.
    pub disabled: bool,
    /// That it signs in to the console, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignIn>,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last changed.
    pub updated: Timestamp,
}

/// That a person signs in: with a password, by an identity provider, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignIn {
    /// What the person may do then.
    pub role: ApiRole,
    /// Since when the password is the one that it is, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_set: Option<Timestamp>,
    /// Since when a code is asked for beside it, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_factor: Option<Timestamp>,
    /// Recovery codes that the person has left.
    #[serde(default)]
    pub recovery_codes: u32,
    /// Passkeys that the person has.
    #[serde(default)]
    pub passkeys: u32,
}

/// How a person is to sign in. It ends the sessions that the person has.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSignIn {
    /// What the person may do then: as `user` any person, otherwise an actor of kind `admin`.
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
    /// What it is; it stays that.
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
    /// Whether its tokens and clients are refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
}
