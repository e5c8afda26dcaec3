use crate::Timestamp;
use crate::model::{Applications, Filter, TargetKind};
use culvert_ids::{ResourceId, SiteId};
use serde::{Deserialize, Serialize};

/// A network, an address or a name pattern that can be used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Resource {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: ResourceId,
    /// The site of the resource.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub site: SiteId,
    /// Unique in the account.
    pub name: String,
    /// The kind of `address`.
    pub kind: TargetKind,
    /// `10.0.0.0/8`, `10.1.2.3`, `db.corp.example` or `*.corp.example`.
    pub address: String,
    /// The protocols and ports that may be used; an empty list allows nothing.
    pub filters: Vec<Filter>,
    /// Of addresses: the protocols and ports of a client's own host that they may use, while the client has access. An empty
    /// list opens nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbound: Vec<Filter>,
    /// The programs of a client that may reach it, by the applications that they run in.
    #[serde(default)]
    pub applications: Applications,
    /// Of names: the only networks that their addresses may be in. Absent: they may lead anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<String>>,
    /// Warnings for the administrator about the resource. A list leaves out that others have the same address.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// A resource to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewResource {
    /// The site of the resource.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub site: SiteId,
    /// 1 to 100 characters.
    pub name: String,
    /// The kind of `address`.
    pub kind: TargetKind,
    /// `10.0.0.0/8`, `10.1.2.3`, `db.corp.example` or `*.corp.example`.
    pub address: String,
    /// The protocols and ports that may be used; an empty list allows nothing.
    pub filters: Vec<Filter>,
    /// Of addresses: the protocols and ports of a client's own host that they may use, while the client has access. An empty
    /// list opens nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbound: Vec<Filter>,
    /// The programs of a client that may reach it; every one if absent.
    #[serde(default, skip_serializing_if = "Applications::is_any")]
    pub applications: Applications,
    /// Of names: the only networks that their addresses may be in; `["anywhere"]`, or absent: no matter
    /// where they are. An empty list is an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<String>>,
}

/// A change of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ResourcePatch {
    /// Another site.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<SiteId>,
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Another kind; `address` must come with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<TargetKind>,
    /// Another address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Other filters, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Vec<Filter>>,
    /// Other protocols and ports of a client's own host, all of them; an empty list closes all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbound: Option<Vec<Filter>>,
    /// Other programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applications: Option<Applications>,
    /// Of names: other networks, all of them; `["anywhere"]` takes the restriction away. An empty list is
    /// an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Vec<String>>,
}
