//! The status of the client's service, as far as the window shows it (docs/socket.md).
//!
//! The types are tolerant: fields that are missing have a default, unknown fields are ignored, and unknown values become
//! `Other`. Within one `schema_version` the service only adds, so a newer service stays readable.

use serde::Deserialize;

/// The version of the socket's form that this program speaks.
pub const SCHEMA_VERSION: u32 = 1;

/// The service at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// [`SCHEMA_VERSION`], or that of another service.
    pub schema_version: u32,
    /// The version of the service's software.
    pub version: String,
    /// The display name of the machine.
    pub name: String,
    /// The portal's URL; empty while nobody is signed in.
    pub portal_url: String,
    /// The service and its progress.
    pub service: Service,
    /// The session with the portal.
    pub portal: Portal,
    /// True if packets for resources have a path.
    pub ready: bool,
    /// The reason why they have none.
    pub not_ready_because: Option<String>,
    /// Every resource that this machine may ask for.
    pub resources: Vec<Resource>,
    /// Gateways in use.
    pub gateways: Vec<Gateway>,
    /// Problems of this machine, each a line with its fix.
    pub problems: Vec<String>,
}

/// The wish to be connected, and the authority that decides it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Service {
    /// The authority that decides if the client is connected.
    pub control: Control,
    /// The progress.
    pub state: ServiceState,
    /// The reason why it is not up although it is to be.
    pub trouble: Option<Trouble>,
}

/// The authority that decides if the client is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// The administrator, by a token on the machine.
    #[default]
    Token,
    /// The users of the socket.
    Commands,
    /// A value of a later service.
    #[serde(other)]
    Other,
}

/// The progress of the service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// There is no token.
    SignedOut,
    /// It is told not to connect.
    Down,
    /// It is connected, or tries to be.
    #[default]
    Up,
    /// It reverts its changes.
    GoingDown,
    /// The portal refuses it.
    Refused,
    /// A fault of this machine.
    Failed,
    /// A value of a later service.
    #[serde(other)]
    Other,
}

/// The reason why the service is not up although it is to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Trouble {
    /// For programs.
    pub code: String,
    /// For people, in English.
    pub text: String,
}

/// The session with the portal.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Portal {
    /// The state of the session.
    pub state: PortalState,
    /// Milliseconds since the session was opened, or lost.
    pub state_for_ms: u64,
    /// Milliseconds until the next attempt.
    pub next_attempt_in_ms: Option<u64>,
    /// The reason why there is no session, in English.
    pub last_error: Option<String>,
    /// Sessions since the service's start.
    pub sessions: u64,
    /// True while the owner of this client is disabled.
    pub owner_disabled: bool,
}

/// The state of the session with the portal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortalState {
    /// There is a session.
    Connected,
    /// An attempt is under way.
    Connecting,
    /// The next attempt waits.
    Waiting,
    /// The portal refuses this machine.
    Refused,
    /// There is to be no session.
    #[default]
    Off,
    /// A value of a later service.
    #[serde(other)]
    Other,
}

/// A resource and the access to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Resource {
    /// Its id.
    pub id: String,
    /// The name that people see.
    pub name: String,
    /// Its network, address or name pattern.
    pub target: String,
    /// The state of the access.
    pub state: AccessState,
    /// The reason for the last denial.
    pub why: Option<Reason>,
    /// The gateway in use.
    pub gateway: Option<String>,
    /// The time at which the grant ends, as the service writes it.
    pub expires: Option<String>,
    /// The services of it that may be used; absent from an older service.
    pub allow: Option<Vec<String>>,
    /// The programs of this machine that may reach it, in words.
    pub applications: Option<String>,
}

/// The state of the access to a resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessState {
    /// Nobody has used it lately.
    #[default]
    Idle,
    /// Access is asked for.
    Asking,
    /// There is a grant.
    Granted,
    /// Access was denied or taken back.
    Denied,
    /// A value of a later service.
    #[serde(other)]
    Other,
}

/// The reason of a denial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Reason {
    /// For programs.
    pub code: String,
    /// For people, in English.
    pub text: String,
    /// Milliseconds since the denial.
    pub ago_ms: u64,
}

/// A gateway in use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Gateway {
    /// Its id.
    pub id: String,
    /// The name that people see.
    pub name: String,
    /// `direct`, `relayed` or `none`.
    pub path: String,
    /// The relay of the path, for people.
    pub relay_name: Option<String>,
    /// True if the relay is reached by TLS.
    pub by_tls: bool,
    /// The round trip of the path, in microseconds.
    pub round_trip_us: Option<u32>,
    /// The reason why the path is not direct, in English.
    pub why: Option<String>,
    /// The address at which it is reached.
    pub endpoint: Option<String>,
    /// Milliseconds since the last handshake.
    pub handshake_age_ms: Option<u64>,
    /// Milliseconds without an answer although packets were sent.
    pub silent_for_ms: Option<u64>,
    /// Bytes a second from it.
    pub rx_bytes_per_s: u64,
    /// Bytes a second to it.
    pub tx_bytes_per_s: u64,
}

impl Status {
    /// The gateway with this id.
    #[must_use]
    pub fn gateway(&self, id: &str) -> Option<&Gateway> {
        self.gateways.iter().find(|gateway| gateway.id == id)
    }
}
