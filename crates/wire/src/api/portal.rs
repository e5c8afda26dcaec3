use crate::Timestamp;
use culvert_ids::PortalId;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A portal of the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PortalOfDatabase {
    /// Its id, from its start to its end.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub portal: PortalId,
    /// The address at which other portals reach it; none where there can't be others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub address: Option<SocketAddr>,
    /// The version of its software.
    pub version: String,
    /// The time of its start.
    pub started: Timestamp,
    /// The time of its last report to the database.
    pub seen: Timestamp,
    /// It reported within the last five seconds.
    pub runs: bool,
    /// It leads: it decides about access, for the machines of all portals.
    pub leads: bool,
    /// It is the one that answers this request.
    pub answers: bool,
    /// The time by which its clock is ahead of the database's, in milliseconds.
    pub clock_ahead_ms: i64,
}
