//! Policies: a group may use a resource.

use super::stamp::Stamp;
use culvert_ids::{GroupId, PolicyId, ResourceId};
use culvert_wire::model;
use serde::{Deserialize, Serialize};

/// A group's permission to use a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Its id.
    pub id: PolicyId,
    /// The name that people give it.
    pub name: String,
    /// The group whose members may use the resource.
    pub group: GroupId,
    /// The resource.
    pub resource: ResourceId,
    /// It allows nothing for now.
    pub disabled: bool,
    /// All of them must hold.
    pub conditions: Vec<model::Condition>,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}
