//! Places and what lies there.

use super::stamp::Stamp;
use culvert_ids::{RelayId, ResourceId, SiteId};
use culvert_wire::model;
use serde::{Deserialize, Serialize};

/// A place with resources and the gateways that reach them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Its id.
    pub id: SiteId,
    /// The name that people give it.
    pub name: String,
    /// The only relays that its gateways use; all of the account where it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relays: Option<Vec<RelayId>>,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}

/// A network, an address or a name pattern. The store keeps target and filters as they were given:
/// whoever writes them has checked them, whoever acts on them converts them again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Its id.
    pub id: ResourceId,
    /// The site that it belongs to.
    pub site: SiteId,
    /// The name that people give it.
    pub name: String,
    /// Its addresses or names.
    pub target: model::Target,
    /// The services of it that may be used; an empty list is none.
    pub filters: Vec<model::Filter>,
    /// The services of a client's own host that its addresses may use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbound: Vec<model::Filter>,
    /// The programs of a client that may reach it.
    #[serde(default)]
    pub applications: model::Applications,
    /// Of names: the only networks that their addresses may be in; none where they may lead anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<String>>,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}
