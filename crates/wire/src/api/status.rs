use super::ClientPath;
use crate::Timestamp;
use culvert_ids::{ClientId, GatewayId, RelayId};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The state of the portal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PortalStatus {
    /// The version of its software.
    pub version: String,
    /// The time of its start.
    pub started: Timestamp,
    /// It serves: the database answers, the feed of changes is current, sessions are accepted.
    pub ready: bool,
    /// The reasons why the portal does not serve.
    pub reasons: Vec<String>,
    /// The last change that the sessions know.
    pub feed_seq: u64,
    /// Changes after it that the sessions do not know yet; at most 1,000 are counted.
    pub feed_lag: u64,
    /// Rows of the configuration that can't be understood and therefore allow nothing.
    pub faults: u64,
    /// Connected clients.
    pub clients: u64,
    /// Connected gateways.
    pub gateways: u64,
    /// Those of them that wait to be verified by an administrator.
    #[serde(default)]
    pub gateways_awaiting_verification: u64,
    /// Connected relays.
    #[serde(default)]
    pub relays: u64,
    /// Grants that are good now.
    pub grants: u64,
    /// Records that wait for the database, such as lines of the access log; they are tried again.
    #[serde(default)]
    pub records_waiting: u64,
    /// Lines of logs and grants that were never written down, since the portal's start: too many waited.
    #[serde(default)]
    pub records_lost: u64,
    /// The database; none if it does not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database: Option<DatabaseStatus>,
    /// The relay that the portal which answers runs beside itself (`--relay`); none if it runs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_relay: Option<OwnRelayStatus>,
}

/// The relay that a portal runs beside itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OwnRelayStatus {
    /// The relay, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub relay: Option<RelayId>,
    /// Ends may be sent to it.
    pub ready: bool,
    /// The addresses at which ends reach it, each with its main port.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub addresses: Vec<SocketAddr>,
    /// The UDP ports that a firewall must let in: the main one, and those of gateways, such as `3478 and 3479-3542`.
    pub ports: String,
    /// Each a line with its fix: the reason why it is not ready, and its other problems.
    pub problems: Vec<String>,
}

/// The database of the portals, as the one that answers sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DatabaseStatus {
    /// The program behind it: `PostgreSQL` or `SQLite`.
    pub program: String,
    /// The version of that program.
    pub version: String,
    /// Its name at a server; none of a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The space that it takes.
    pub size_bytes: u64,
    /// The time that it took to say so, in microseconds.
    pub answered_in_us: u64,
}

/// A connected client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClientSession {
    /// The client.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub client: ClientId,
    /// The time since which it is so.
    pub since: Timestamp,
    /// Its grants.
    pub grants: u64,
    /// Resources that it was told of.
    pub resources: u64,
    /// The paths to its gateways, as it told them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<ClientPath>,
}

/// A connected gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GatewaySession {
    /// The gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gateway: GatewayId,
    /// The time since which it is so.
    pub since: Timestamp,
    /// It gets no new grants.
    pub draining: bool,
    /// It has no grants, and gets none, until an administrator verifies it.
    #[serde(default)]
    pub awaits_verification: bool,
    /// The addresses at which clients try to reach it.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub candidates: Vec<SocketAddr>,
    /// Clients with grants through it.
    pub clients: u64,
    /// Grants through it.
    pub grants: u64,
    /// Flows that it carries, as it said last.
    pub flows: u64,
    /// Share of all its processors in use, in thousandths, as it said last.
    pub processor_permille: u16,
    /// Traffic in both directions, in bytes per second, as it said last.
    pub rate_bytes_per_s: u64,
    /// The relays through which it is reached, the best one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub relays: Vec<RelayId>,
}
