//! Places and what lies there.

use super::Stamp;
use culvert_ids::{ResourceId, SiteId};
use culvert_wire::model;
use serde::{Deserialize, Serialize};

/// A place with resources and the gateways that reach them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Which one.
    pub id: SiteId,
    /// What people call it.
    pub name: String,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}

/// A network, an address or a name pattern. The store keeps target and filters as they were given:
/// whoever writes them has checked them, whoever acts on them converts them again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Which one.
    pub id: ResourceId,
    /// Where it lies.
    pub site: SiteId,
    /// What people call it.
    pub name: String,
    /// Which addresses or names it is.
    pub target: model::Target,
    /// What of it may be used; an empty list is nothing.
    pub filters: Vec<model::Filter>,
    /// Which programs of a client may reach it.
    #[serde(default)]
    pub applications: model::Applications,
    /// Of names: the only networks that their addresses may be in; none where they may lead anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<String>>,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}
