//! The gateway's state, as its status socket tells it and `culvert gateway status` shows it.

use culvert_host::Sandbox;
use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId, SiteId};
pub use culvert_link::{CounterStatus, DropStatus, PortalState, PortalStatus};
use culvert_wire::{Cipher, PublicKey, Timestamp};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The version of this form. Fields may be added within one version; none changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Clients that are listed at most, by their ids: with the grants and names below the whole is 8 MB, a
/// quarter of what the socket takes. [`Status::client_count`] counts them all.
pub const MAX_LISTED_CLIENTS: usize = 4_096;

/// Grants that are listed at most, over all clients. [`Status::grant_count`] counts them all.
pub const MAX_LISTED_GRANTS: usize = 16_384;

/// Names that are listed at most. [`Status::name_count`] counts them all.
pub const MAX_LISTED_NAMES: usize = 4_096;

/// A gateway at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The software's version.
    pub version: String,
    /// When this was written.
    pub at: Timestamp,
    /// For how long the gateway has been running, in milliseconds.
    pub running_for_ms: u64,
    /// The tunnel's interface.
    pub interface: String,
    /// What people call the machine.
    pub name: String,
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// Who the gateway is, once the portal has said so.
    pub gateway: Option<GatewayId>,
    /// Where it stands, once the portal has said so.
    pub site: Option<SiteId>,
    /// The name of that site.
    #[serde(default)]
    pub site_name: Option<String>,
    /// Its key.
    pub public_key: PublicKey,
    /// The key's fingerprint, as console and command line show it.
    #[serde(default)]
    pub fingerprint: String,
    /// True while the gateway waits for verification by an administrator, and has no grants.
    #[serde(default)]
    pub awaits_verification: bool,
    /// Its addresses inside the tunnel.
    pub ipv4: Option<Ipv4Addr>,
    /// The same of the other family.
    pub ipv6: Option<Ipv6Addr>,
    /// UDP port that clients send to.
    pub listen_port: u16,
    /// Where clients may reach it.
    pub candidates: Vec<SocketAddr>,
    /// The portal's URL.
    pub portal_url: String,
    /// The session with the portal.
    pub portal: PortalStatus,
    /// Whether it serves, or would serve whoever comes: as `/readyz` tells it.
    pub ready: bool,
    /// Why it is not ready.
    pub not_ready_because: Option<String>,
    /// Whether it takes no new clients.
    pub draining: bool,
    /// Whether somebody at this machine asked for that.
    pub draining_by_itself: bool,
    /// Clients that hold a grant.
    pub clients: Vec<ClientStatus>,
    /// How many there are.
    pub client_count: usize,
    /// How many grants are in force.
    pub grant_count: usize,
    /// Grants that wait for the DNS.
    pub waiting_grants: usize,
    /// Names that are resolved.
    pub names: Vec<NameStatus>,
    /// How many there are.
    pub name_count: usize,
    /// How busy it is.
    pub load: LoadStatus,
    /// What is closed to the process, if it closes anything.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// Its table in the kernel's packet filter.
    pub firewall: FirewallStatus,
    /// What was dropped, since the start, where it is not zero.
    pub drops: Vec<DropStatus>,
    /// How often what happened, by name.
    pub counters: Vec<CounterStatus>,
    /// What is wrong on this machine at the moment, each a line with its fix.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// A client that holds a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Which.
    pub id: ClientId,
    /// Its key.
    pub public_key: PublicKey,
    /// The only address that its packets may come from.
    pub ipv4: Ipv4Addr,
    /// The same of the other family.
    pub ipv6: Ipv6Addr,
    /// The suite of the tunnel.
    pub cipher: Cipher,
    /// Where it was last heard.
    pub endpoint: Option<SocketAddr>,
    /// Since the last handshake, in milliseconds.
    pub handshake_age_ms: Option<u64>,
    /// Since anything was heard of it, in milliseconds.
    pub heard_ms_ago: Option<u64>,
    /// Bytes that came from it.
    pub rx_bytes: u64,
    /// Bytes that went to it.
    pub tx_bytes: u64,
    /// Bytes a second that come from it.
    pub rx_bytes_per_s: u64,
    /// Bytes a second that go to it.
    pub tx_bytes_per_s: u64,
    /// What it may reach.
    pub grants: Vec<GrantStatus>,
    /// How many grants it has.
    pub grant_count: usize,
}

/// A grant in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantStatus {
    /// Which.
    pub id: GrantId,
    /// For what.
    pub resource: ResourceId,
    /// The resource's network, address or name pattern.
    pub target: String,
    /// When it ends, by this machine's clock.
    pub expires: Timestamp,
}

/// A name that is resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameStatus {
    /// The name.
    pub name: String,
    /// Whether the DNS has answered for it.
    pub answered: bool,
    /// The address that it leads to, where it has one of this family.
    pub ipv4: Option<Ipv4Addr>,
    /// The same of the other family.
    pub ipv6: Option<Ipv6Addr>,
    /// When it is asked for again, in milliseconds.
    pub renewed_in_ms: u64,
}

/// How busy the gateway is, over the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadStatus {
    /// Flows that pass.
    pub flows: usize,
    /// Bytes a second, both directions.
    pub bytes_per_s: u64,
    /// Thousandths of the machine's processors that this program uses.
    pub processor_permille: u16,
}

/// The gateway's table in the kernel's packet filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FirewallStatus {
    /// Its name, of the family `inet`.
    pub table: String,
    /// How it stands.
    pub state: FirewallState,
    /// Since it was looked at, in milliseconds.
    pub checked_ms_ago: Option<u64>,
    /// How often somebody had changed or removed it, and it was put back.
    pub restored: u64,
}

/// How the table stands. Where it can't be put back the gateway ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FirewallState {
    /// The portal has not said yet which addresses the tunnel has: nothing is forwarded.
    Absent,
    /// As it should.
    Intact,
    /// Another program takes it away again and again: nothing is forwarded.
    Lost,
}
