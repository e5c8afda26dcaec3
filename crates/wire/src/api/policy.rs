use crate::Timestamp;
use crate::model::Condition;
use culvert_ids::{GroupId, PolicyId, ResourceId};
use serde::{Deserialize, Serialize};

/// A group's permission to use a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Policy {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: PolicyId,
    /// Unique in the account.
    pub name: String,
    /// The group that may use the resource.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub group: GroupId,
    /// The resource that they may use.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub resource: ResourceId,
    /// It allows nothing for now.
    pub disabled: bool,
    /// All must hold.
    pub conditions: Vec<Condition>,
    /// Warnings for the administrator about the policy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// A policy to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewPolicy {
    /// 1 to 100 characters.
    pub name: String,
    /// The group that may use the resource.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub group: GroupId,
    /// The resource that they may use.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub resource: ResourceId,
    /// It allows nothing for now.
    #[serde(default)]
    pub disabled: bool,
    /// All must hold; without any, the policy always does.
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// A change of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyPatch {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Another group that may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub group: Option<GroupId>,
    /// Something else that they may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub resource: Option<ResourceId>,
    /// True to let the policy allow nothing for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Other conditions, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
}
