//! Actors, groups and memberships.

use super::stamp::Stamp;
use super::token::Role;
use culvert_ids::{ActorId, GroupId, MembershipId};
use culvert_wire::Timestamp;
use serde::{Deserialize, Serialize};

/// The kind of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    /// A person who was created to administer, and may hold API tokens.
    Admin,
    /// A person.
    User,
    /// A machine.
    ServiceAccount,
}

/// An actor: a person or a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// Its id.
    pub id: ActorId,
    /// Its kind.
    pub kind: ActorKind,
    /// The name that people give it. No two of an account are alike, whatever the case of their
    /// letters.
    pub name: String,
    /// Its tokens are not accepted, and it does not sign in.
    pub disabled: bool,
    /// That it signs in, where it does. A new actor has no password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignIn>,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}

impl Actor {
    /// True for a person who administers or may be about to: created for it, or with a role above `user`.
    #[must_use]
    pub fn is_administrator(&self) -> bool {
        let role = self.sign_in.map(|sign_in| sign_in.role);
        self.kind == ActorKind::Admin || role.is_some_and(|role| role > Role::User)
    }
}

/// That a person signs in: with a password under the actor's name, by an [`Identity`](super::Identity),
/// or both. The hash lies apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignIn {
    /// The person's role.
    pub role: Role,
    /// The time at which the password was last set; none without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_set: Option<Timestamp>,
    /// The time since which codes of an app are asked for beside the password; none if they are
    /// not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_factor: Option<Timestamp>,
    /// Recovery codes that are left.
    #[serde(default)]
    pub recovery_codes: u32,
    /// Passkeys, each of which signs in by itself and stands beside the password.
    #[serde(default)]
    pub passkeys: u32,
    /// The end of the link by which the person may set a password, once. None without such a link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation_ends: Option<Timestamp>,
}

impl SignIn {
    /// True if something is asked for beside the password.
    pub const fn has_second_factor(&self) -> bool {
        self.second_factor.is_some() || self.passkeys > 0
    }
}

/// A set of actors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its id.
    pub id: GroupId,
    /// The name that people give it.
    pub name: String,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}

/// An actor's place in a group. It is made and deleted, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Its id.
    pub id: MembershipId,
    /// The group.
    pub group: GroupId,
    /// The actor that is in it.
    pub actor: ActorId,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}
