use crate::Timestamp;
use culvert_ids::RelayId;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A machine that forwards what clients and gateways behind NATs send each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Relay {
    /// The id.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub id: RelayId,
    /// The name that the machine reported, until someone renames it.
    pub name: String,
    /// The addresses that it reported when it last connected, each with its main port.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub addresses: Vec<SocketAddr>,
    /// It gets no new ends.
    pub draining: bool,
    /// The time since which it may not connect any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Timestamp>,
    /// The version of its software, as it said when it last connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<String>,
    /// The time of the last connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// Counts its changes; the `ETag`.
    pub version: u64,
    /// The time of creation.
    pub created: Timestamp,
    /// The time of the last change.
    pub updated: Timestamp,
}

/// A change of a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RelayPatch {
    /// Another name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A connected relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RelaySession {
    /// The relay.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub relay: RelayId,
    /// The time since which it is so.
    pub since: Timestamp,
    /// It gets no new ends: an administrator asked for it, or its operator.
    pub draining: bool,
    /// The addresses at which it is reached, each with its main port.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>))]
    pub addresses: Vec<SocketAddr>,
    /// The TCP port for networks that block UDP, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_port: Option<u16>,
    /// Gateways that are to be reached through it.
    pub given: u64,
    /// Gateways that are registered there, as it said last.
    pub gateways: u64,
    /// Clients that are registered there, as it said last.
    pub clients: u64,
    /// Share of all its processors in use, in thousandths, as it said last.
    pub processor_permille: u16,
    /// Traffic that it forwards, in bytes per second, as it said last.
    pub rate_bytes_per_s: u64,
}

/// The path from a client to a gateway, as the client told it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ClientPath {
    /// The gateway.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub gateway: culvert_ids::GatewayId,
    /// `direct`, `relayed`, `relayed_tls` (through a relay by TLS, since UDP is blocked), or a kind of a later version.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub path: crate::messages::PathKind,
    /// The relay, where it goes through one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub relay: Option<RelayId>,
    /// The round trip of the path in microseconds, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_us: Option<u32>,
    /// The reason why it is no direct one, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The time since which it is the path.
    pub since: Timestamp,
}
