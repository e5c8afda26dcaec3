//! The relay's state, as its status socket tells it and `culvert relay status` shows it.

pub use culvert_control::{CounterStatus, DropStatus, PortalState, PortalStatus};
use culvert_host::Sandbox;
use culvert_ids::{GatewayId, RelayId};
use culvert_wire::Timestamp;
use culvert_wire::token::CertificatePin;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The version of this form. Fields may be added within one version; none changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// A relay at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The software's version.
    pub version: String,
    /// The time at which this was written.
    pub at: Timestamp,
    /// For how long the relay has been running, in milliseconds.
    pub running_for_ms: u64,
    /// The display name of the machine.
    pub name: String,
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// The relay's id, once the portal has said it.
    pub relay: Option<RelayId>,
    /// The addresses at which ends reach it, with its main port.
    pub addresses: Vec<SocketAddr>,
    /// Its main port.
    pub port: u16,
    /// Its first gateway port.
    pub first_gateway_port: u16,
    /// The number of its gateway ports.
    pub gateway_ports: u16,
    /// The TLS listener, if there is one.
    #[serde(default)]
    pub tls: Option<TlsStatus>,
    /// Threads that carry records.
    pub workers: u32,
    /// The most that it forwards, in bytes a second.
    pub rate_limit_bytes_per_s: Option<u64>,
    /// The portal's URL.
    pub portal_url: String,
    /// The session with the portal.
    pub portal: PortalStatus,
    /// True if ends may be sent to it: as `/readyz` tells it.
    pub ready: bool,
    /// The reason why it is not ready.
    pub not_ready_because: Option<String>,
    /// True if it takes no new ends.
    pub draining: bool,
    /// True if somebody at this machine asked for that.
    pub draining_by_itself: bool,
    /// The gateways that have a port.
    pub gateways: Vec<GatewayPort>,
    /// Gateways that are registered.
    pub gateway_count: usize,
    /// Clients that are registered.
    pub client_count: usize,
    /// The load.
    pub load: LoadStatus,
    /// The parts of the machine that are closed to the process, if any.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// The drops since the start, without those that are zero.
    pub drops: Vec<DropStatus>,
    /// The number of events, by name.
    pub counters: Vec<CounterStatus>,
    /// The problems on this machine at the moment, each a line with its fix.
    pub problems: Vec<String>,
}

/// The TLS listener of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsStatus {
    /// Its TCP port.
    pub port: u16,
    /// SHA-256 of its certificate.
    pub pin: CertificatePin,
    /// Streams of ends that are registered.
    pub streams: u64,
    /// Streams that have not registered yet.
    pub newcomers: u64,
}

/// A port that a gateway has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayPort {
    /// The port.
    pub port: u16,
    /// The gateway.
    pub gateway: GatewayId,
    /// True while the gateway itself is registered.
    pub registered: bool,
    /// Its clients that are registered.
    pub clients: usize,
}

/// The load of the relay, over the last seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadStatus {
    /// Bytes a second that it forwarded.
    pub bytes_per_s: u64,
    /// Thousandths of the machine's processors that this program uses.
    pub processor_permille: u16,
}
