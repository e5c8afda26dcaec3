//! The part of the gateway's status that the core knows.

use culvert_ids::{ClientId, GrantId, RelayId, ResourceId};
use culvert_wire::{Cipher, PublicKey, Timestamp};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// Clients that are listed at most, by their ids: with the grants and names below the whole is 8 MB, a
/// quarter of what the socket takes. `client_count` of the status counts them all.
pub const MAX_LISTED_CLIENTS: usize = 4_096;

/// Grants that are listed at most, over all clients. `grant_count` counts them all.
pub const MAX_LISTED_GRANTS: usize = 16_384;

/// Names that are listed at most. `name_count` counts them all.
pub const MAX_LISTED_NAMES: usize = 4_096;

/// A client that holds a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// The client's id.
    pub id: ClientId,
    /// Its key.
    pub public_key: PublicKey,
    /// The only address that its packets may come from.
    pub ipv4: Ipv4Addr,
    /// The same of the other family.
    pub ipv6: Ipv6Addr,
    /// The suite of the tunnel.
    pub cipher: Cipher,
    /// The address from which it was last heard.
    pub endpoint: Option<SocketAddr>,
    /// The relay through which it comes, if it comes through one.
    #[serde(default)]
    pub relay_name: Option<String>,
    /// The time since the last handshake, in milliseconds.
    pub handshake_age_ms: Option<u64>,
    /// The time since its last packet, in milliseconds.
    pub heard_ms_ago: Option<u64>,
    /// Bytes that came from it.
    pub rx_bytes: u64,
    /// Bytes that went to it.
    pub tx_bytes: u64,
    /// Bytes a second that come from it.
    pub rx_bytes_per_s: u64,
    /// Bytes a second that go to it.
    pub tx_bytes_per_s: u64,
    /// The grants that it holds.
    pub grants: Vec<GrantStatus>,
    /// The number of its grants.
    pub grant_count: usize,
}

/// A relay through which clients come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayStatus {
    /// The relay's id.
    pub id: RelayId,
    /// Its name, for people.
    pub name: String,
    /// Its address, with the gateway's port.
    pub address: SocketAddr,
    /// True if the gateway is registered there.
    pub registered: bool,
    /// It is reached by TLS, since UDP gets no answer.
    #[serde(default)]
    pub by_tls: bool,
    /// The round trip to it in microseconds, if it has answered.
    pub round_trip_us: Option<u32>,
}

/// A grant in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantStatus {
    /// The grant's id.
    pub id: GrantId,
    /// The resource that it is for.
    pub resource: ResourceId,
    /// The resource's network, address or name pattern.
    pub target: String,
    /// The time of its end, by this machine's clock.
    pub expires: Timestamp,
}

/// A name that is resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameStatus {
    /// The name.
    pub name: String,
    /// True if the DNS has answered for it.
    pub answered: bool,
    /// The address that it leads to, where it has one of this family.
    pub ipv4: Option<Ipv4Addr>,
    /// The same of the other family.
    pub ipv6: Option<Ipv6Addr>,
    /// The time until it is asked for again, in milliseconds.
    pub renewed_in_ms: u64,
}
