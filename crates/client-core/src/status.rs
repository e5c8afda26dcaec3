//! The part of the client's status that the core knows.

use culvert_ids::{GatewayId, GrantId, RelayId, ResourceId, SiteId};
use culvert_wire::{Cipher, PublicKey, Timestamp};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A resource and the access to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// The resource's id.
    pub id: ResourceId,
    /// The name that people see.
    pub name: String,
    /// Its network, address or name pattern.
    pub target: String,
    /// The site that it belongs to.
    pub site: SiteId,
    /// The state of the access.
    pub state: AccessState,
    /// The reason for which the last request was denied, or access taken back.
    pub why: Option<ReasonStatus>,
    /// Through which gateway.
    pub gateway: Option<GatewayId>,
    /// By which grant.
    pub grant: Option<GrantId>,
    /// When the grant ends, by this machine's clock.
    pub expires: Option<Timestamp>,
    /// True if the grant is being asked for again.
    pub renewing: bool,
    /// Packets that wait for access.
    pub held_packets: usize,
    /// Services of it that may be used, each as `allow` of access.toml has it; an empty list is nothing. Absent: an older
    /// client does not say.
    #[serde(default)]
    pub allow: Option<Vec<String>>,
    /// Filters that this version does not understand: what they allow can't be used.
    #[serde(default)]
    pub unknown_filters: usize,
    /// The programs of this machine that may reach it, in words; none where every one may.
    #[serde(default)]
    pub applications: Option<String>,
    /// Services of this machine that its addresses may use while there is a grant, each as `inbound` of access.toml has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbound: Vec<String>,
    /// Bytes of packets to its addresses, without what the tunnel adds, since the client's start; none before the first grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent_bytes: Option<u64>,
    /// Bytes of packets from its addresses, counted in the same way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received_bytes: Option<u64>,
}

/// The state of the access to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessState {
    /// Nobody has used it lately; the first packet or query asks for access.
    Idle,
    /// Access is asked for.
    Asking,
    /// There is a grant.
    Granted,
    /// Access was denied or taken back.
    Denied,
}

/// The reason of a denial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonStatus {
    /// For programs.
    pub code: String,
    /// For people.
    pub text: String,
    /// The time since then, in milliseconds.
    pub ago_ms: u64,
}

/// A resource that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableStatus {
    /// The resource's id.
    pub id: ResourceId,
    /// The name that people see.
    #[serde(default)]
    pub name: Option<String>,
    /// The reason.
    pub why: String,
}

/// A gateway in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// The gateway's id.
    pub id: GatewayId,
    /// The name that people see.
    pub name: String,
    /// Its key.
    pub public_key: PublicKey,
    /// `direct`, `relayed`, or `none` before it has answered.
    pub path: String,
    /// The relay, where the path goes through one.
    #[serde(default)]
    pub relay: Option<RelayId>,
    /// Its name, for people.
    #[serde(default)]
    pub relay_name: Option<String>,
    /// The relay is reached by TLS, since UDP gets no answer.
    #[serde(default)]
    pub by_tls: bool,
    /// The round trip of the path in microseconds, as the last probe found it; only a gateway with relays is probed.
    #[serde(default)]
    pub round_trip_us: Option<u32>,
    /// The reason why the path is not direct, in words.
    #[serde(default)]
    pub why: Option<String>,
    /// The address at which it is reached.
    pub endpoint: Option<SocketAddr>,
    /// Addresses at which it may be reached.
    pub candidates: Vec<SocketAddr>,
    /// The suite of the tunnel.
    pub cipher: Cipher,
    /// Since the last handshake, in milliseconds.
    pub handshake_age_ms: Option<u64>,
    /// Since anything was heard of it, in milliseconds.
    pub heard_ms_ago: Option<u64>,
    /// For how long packets were sent to it without anything heard, in milliseconds.
    pub silent_for_ms: Option<u64>,
    /// Bytes that came from it.
    pub rx_bytes: u64,
    /// Bytes that went to it.
    pub tx_bytes: u64,
    /// Bytes a second that come from it.
    pub rx_bytes_per_s: u64,
    /// Bytes a second that go to it.
    pub tx_bytes_per_s: u64,
    /// The longest packet that a probe proved to pass the path to it, in bytes with all headers; `None` before one of full
    /// size was sent.
    #[serde(default)]
    pub path_mtu_bytes: Option<u16>,
    /// Resources through it.
    pub resources: Vec<ResourceId>,
}

/// A relay of the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayStatus {
    /// The relay's id.
    pub id: RelayId,
    /// The name that people see.
    pub name: String,
    /// Its addresses, each with its main port.
    pub addresses: Vec<SocketAddr>,
    /// The TCP port of its TLS listener, if it has one.
    pub tls_port: Option<u16>,
    /// SHA-256 of its certificate, in base64url.
    pub tls_pin: Option<String>,
    /// The round trip in microseconds; `None` if it does not answer.
    pub round_trip_us: Option<u32>,
    /// The client is registered there for a gateway in use.
    pub registered: bool,
    /// It is reached by TLS only: UDP gets no answer.
    #[serde(default)]
    pub by_tls: bool,
}

/// A name that a gateway translates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameStatus {
    /// The name.
    pub name: String,
    /// The resource that it belongs to.
    pub resource: ResourceId,
    /// Its address inside the tunnel, where it has one of this family.
    pub ipv4: Option<Ipv4Addr>,
    /// The same of the other family.
    pub ipv6: Option<Ipv6Addr>,
}

/// A domain whose names are asked of servers of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneStatus {
    /// It and all below it; `.` is every name.
    pub name: String,
    /// Its servers, in the order in which they are asked.
    pub servers: Vec<IpAddr>,
}
