use crate::Timestamp;
use culvert_ids::{RelayId, SiteId};
use serde::{Deserialize, Serialize};

/// A place with resources, and the gateways that reach them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Site {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: SiteId,
    /// Unique in the account.
    pub name: String,
    /// The only relays that its gateways use; absent: all of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub relays: Option<Vec<RelayId>>,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// A site to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSite {
    /// 1 to 100 characters.
    pub name: String,
}

/// A change of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SitePatch {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The ids of the only relays that its gateways use; `["any"]` takes the restriction away, and an empty list leaves
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relays: Option<Vec<String>>,
}
