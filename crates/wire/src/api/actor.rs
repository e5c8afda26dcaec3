use crate::Timestamp;
use culvert_ids::ActorId;
use serde::{Deserialize, Serialize};

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
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last changed.
    pub updated: Timestamp,
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
