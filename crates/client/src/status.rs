//! The client's state, as its status socket tells it and `culvert status` shows it.

use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId, SiteId};
pub use culvert_link::{CounterStatus, DropStatus, PortalState, PortalStatus};
use culvert_wire::{Cipher, PublicKey, Timestamp};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The version of this form. Fields may be added within one version; none changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// A client at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The software's version.
    pub version: String,
    /// When this was written.
    pub at: Timestamp,
    /// For how long the client has been running, in milliseconds.
    pub running_for_ms: u64,
    /// The tunnel's interface.
    pub interface: Option<String>,
    /// What people call the machine.
    pub name: String,
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// Who the client is, once the portal has said so.
    pub client: Option<ClientId>,
    /// Its key.
    pub public_key: PublicKey,
    /// Its addresses inside the tunnel.
    pub ipv4: Option<Ipv4Addr>,
    /// The same of the other family.
    pub ipv6: Option<Ipv6Addr>,
    /// The portal's URL.
    pub portal_url: String,
    /// The session with the portal.
    pub portal: PortalStatus,
    /// Whether packets for resources have somewhere to go: as `/readyz` tells it.
    pub ready: bool,
    /// Why it is not ready.
    pub not_ready_because: Option<String>,
    /// Every resource that the client may ask for.
    pub resources: Vec<ResourceStatus>,
    /// Resources that this version can't read, to which there is no access.
    #[serde(default)]
    pub unreadable: Vec<UnreadableStatus>,
    /// Gateways in use.
    pub gateways: Vec<GatewayStatus>,
    /// Names in use.
    pub names: Vec<NameStatus>,
    /// The resolver for names.
    pub dns: DnsStatus,
    /// What was dropped, since the start, where it is not zero.
    pub drops: Vec<DropStatus>,
    /// How often what happened, by name.
    pub counters: Vec<CounterStatus>,
    /// What is wrong on this machine at the moment, each a line with its fix.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// A resource and the access to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceStatus {
    /// Which.
    pub id: ResourceId,
    /// What people call it.
    pub name: String,
    /// Its network, address or name pattern.
    pub target: String,
    /// Where it lies.
    pub site: SiteId,
    /// Whether there is access.
    pub state: AccessState,
    /// Why the last request was denied, or access taken back.
    pub why: Option<ReasonStatus>,
    /// Through which gateway.
    pub gateway: Option<GatewayId>,
    /// By which grant.
    pub grant: Option<GrantId>,
    /// When the grant ends, by this machine's clock.
    pub expires: Option<Timestamp>,
    /// Whether the grant is being asked for again.
    pub renewing: bool,
    /// Packets that wait for access.
    pub held_packets: usize,
    /// Filters that this version does not understand: what they allow can't be used.
    #[serde(default)]
    pub unknown_filters: usize,
}

/// Whether there is access to a resource.
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

/// Why something was denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReasonStatus {
    /// For programs.
    pub code: String,
    /// For people.
    pub text: String,
    /// How long ago, in milliseconds.
    pub ago_ms: u64,
}

/// A resource that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableStatus {
    /// Which.
    pub id: ResourceId,
    /// What people call it.
    #[serde(default)]
    pub name: Option<String>,
    /// Why.
    pub why: String,
}

/// A gateway in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// Which.
    pub id: GatewayId,
    /// What people call it.
    pub name: String,
    /// Its key.
    pub public_key: PublicKey,
    /// `direct`, `relayed`, or `none` before it has answered.
    pub path: String,
    /// Where it is reached.
    pub endpoint: Option<SocketAddr>,
    /// Where it may be reached.
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
    /// Resources through it.
    pub resources: Vec<ResourceId>,
}

/// A name that a gateway translates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameStatus {
    /// The name.
    pub name: String,
    /// Whose it is.
    pub resource: ResourceId,
    /// Its address inside the tunnel, where it has one of this family.
    pub ipv4: Option<Ipv4Addr>,
    /// The same of the other family.
    pub ipv6: Option<Ipv6Addr>,
}

/// The resolver for names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsStatus {
    /// Where it answers.
    pub listening: Vec<SocketAddr>,
    /// Who answers all other names.
    pub upstreams: Vec<SocketAddr>,
    /// How the system comes to ask here; none before that is known.
    #[serde(default)]
    pub control: Option<DnsControlStatus>,
}

/// How the system comes to ask the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsControlStatus {
    /// `resolved`, `resolvconf`, `file` or `off`.
    pub mode: String,
    /// Whether it does ask here.
    pub applied: bool,
    /// The domains that are asked here; none where every name is.
    pub domains: Option<Vec<String>>,
}
