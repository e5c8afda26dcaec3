use crate::Timestamp;
use culvert_ids::{ActorId, GroupId, MembershipId};
use serde::{Deserialize, Serialize};

/// A set of actors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Group {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: GroupId,
    /// Unique in the account.
    pub name: String,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// A group to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewGroup {
    /// 1 to 100 characters.
    pub name: String,
}

/// A change of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GroupPatch {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An actor's place in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Member {
    /// The membership.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: MembershipId,
    /// The group.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub group: GroupId,
    /// The member.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub actor: ActorId,
    /// The actor's name.
    pub actor_name: String,
    /// The time of joining.
    pub created: Timestamp,
}

/// An actor to add to a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewMember {
    /// The new member.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub actor: ActorId,
}
