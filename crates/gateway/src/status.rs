//! The gateway's state, as its status socket tells it and `culvert gateway status` shows it.

pub use culvert_control::{CounterStatus, DropStatus, PortalState, PortalStatus};
pub use culvert_gateway_core::status::{
    ClientStatus, GrantStatus, MAX_LISTED_CLIENTS, MAX_LISTED_GRANTS, MAX_LISTED_NAMES, NameStatus,
    RelayStatus,
};
use culvert_host::Sandbox;
use culvert_ids::{GatewayId, SiteId};
use culvert_wire::{PublicKey, Timestamp};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// The version of this form. Fields may be added within one version; none changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// A gateway at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The software's version.
    pub version: String,
    /// The time at which this was written.
    pub at: Timestamp,
    /// For how long the gateway has been running, in milliseconds.
    pub running_for_ms: u64,
    /// The tunnel's interface.
    pub interface: String,
    /// The display name of the machine.
    pub name: String,
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// The gateway's id, once the portal has said it.
    pub gateway: Option<GatewayId>,
    /// Its site, once the portal has said so.
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
    /// The addresses at which clients may reach it.
    pub candidates: Vec<SocketAddr>,
    /// The relays through which clients may come.
    #[serde(default)]
    pub relays: Vec<RelayStatus>,
    /// The portal's URL.
    pub portal_url: String,
    /// The session with the portal.
    pub portal: PortalStatus,
    /// True if it serves clients, or would serve any that come: as `/readyz` tells it.
    pub ready: bool,
    /// The reason why it is not ready.
    pub not_ready_because: Option<String>,
    /// True if it takes no new clients.
    pub draining: bool,
    /// True if somebody at this machine asked for that.
    pub draining_by_itself: bool,
    /// Clients that hold a grant.
    pub clients: Vec<ClientStatus>,
    /// The number of clients.
    pub client_count: usize,
    /// The number of grants in force.
    pub grant_count: usize,
    /// Grants that wait for the DNS.
    pub waiting_grants: usize,
    /// Names that are resolved.
    pub names: Vec<NameStatus>,
    /// The number of names.
    pub name_count: usize,
    /// The load.
    pub load: LoadStatus,
    /// The parts of the machine that are closed to the process, if any.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// Its table in the kernel's packet filter.
    pub firewall: FirewallStatus,
    /// The drops since the start, without those that are zero.
    pub drops: Vec<DropStatus>,
    /// The number of events, by name.
    pub counters: Vec<CounterStatus>,
    /// The problems on this machine at the moment, each a line with its fix.
    #[serde(default)]
    pub problems: Vec<String>,
}

/// The load of the gateway, over the last seconds.
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
    /// The state of the table.
    pub state: FirewallState,
    /// Since it was looked at, in milliseconds.
    pub checked_ms_ago: Option<u64>,
    /// The number of times that somebody had changed or removed it, and it was put back.
    pub restored: u64,
}

/// The state of the table. If it can't be put back, the gateway ends.
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
