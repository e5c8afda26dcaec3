//! The client's state, as its status socket tells it and `culvert status` shows it.

pub use culvert_client_core::status::{
    AccessState, GatewayStatus, NameStatus, ReasonStatus, RelayStatus, ResourceStatus,
    UnreadableStatus, ZoneStatus,
};
pub use culvert_client_core::{SignInFailure, SignInStatus};
pub use culvert_control::{CounterStatus, DropStatus, PortalState, PortalStatus};
use culvert_host::Sandbox;
use culvert_ids::ClientId;
use culvert_wire::{PublicKey, Timestamp};
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
    /// The time at which this was written.
    pub at: Timestamp,
    /// For how long the client has been running, in milliseconds.
    pub running_for_ms: u64,
    /// The tunnel's interface; none while it is not up.
    pub interface: Option<String>,
    /// The MTU that it was made with.
    #[serde(default)]
    pub mtu_bytes: Option<u16>,
    /// The display name of the machine.
    pub name: String,
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// The client's id, once the portal has said it.
    pub client: Option<ClientId>,
    /// Its key.
    pub public_key: PublicKey,
    /// Its addresses inside the tunnel.
    pub ipv4: Option<Ipv4Addr>,
    /// The same of the other family.
    pub ipv6: Option<Ipv6Addr>,
    /// The wish to be connected, and the authority that decides it.
    #[serde(default)]
    pub service: ServiceStatus,
    /// The rights of the process on this machine.
    #[serde(default)]
    pub privileges: Option<PrivilegesStatus>,
    /// The parts of the machine that are closed to the process, if any.
    #[serde(default)]
    pub sandbox: Option<Sandbox>,
    /// The portal's URL; empty while the client is signed out.
    pub portal_url: String,
    /// SHA-256 of the portal's certificate, in base64url, where the token names it.
    #[serde(default)]
    pub portal_pin: Option<String>,
    /// The session with the portal.
    pub portal: PortalStatus,
    /// True if packets for resources have somewhere to go: as `/readyz` tells it.
    pub ready: bool,
    /// The reason why it is not ready.
    pub not_ready_because: Option<String>,
    /// Every resource that the client may ask for.
    pub resources: Vec<ResourceStatus>,
    /// Resources that this version can't read, to which there is no access.
    #[serde(default)]
    pub unreadable: Vec<UnreadableStatus>,
    /// Gateways in use.
    pub gateways: Vec<GatewayStatus>,
    /// The relays of the account.
    #[serde(default)]
    pub relays: Vec<RelayStatus>,
    /// Names in use.
    pub names: Vec<NameStatus>,
    /// The resolver for names.
    pub dns: DnsStatus,
    /// The drops since the start, without those that are zero.
    pub drops: Vec<DropStatus>,
    /// The number of events, by name.
    pub counters: Vec<CounterStatus>,
    /// The refusals of programs by rules about applications.
    #[serde(default)]
    pub applications: ApplicationsStatus,
    /// The problems on this machine at the moment, each a line with its fix.
    #[serde(default)]
    pub problems: Vec<String>,
}

impl Status {
    /// True if a part of it is for those alone who may command.
    pub(crate) fn is_confidential(&self) -> bool {
        let sign_in = self.service.sign_in.as_ref();
        sign_in.is_some_and(SignInStatus::is_confidential)
    }

    /// Removes the parts that are for those alone who may command.
    pub(crate) fn conceal(&mut self) {
        if let Some(sign_in) = &mut self.service.sign_in {
            sign_in.conceal();
        }
    }
}

/// The service that the client gives, and its progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// The authority that decides if it is to be connected.
    pub control: Control,
    /// The progress.
    pub state: ServiceState,
    /// The reason why it is not up although it is to be.
    pub trouble: Option<TroubleStatus>,
    /// True if the client can sign in with a browser.
    #[serde(default)]
    pub signs_in: bool,
    /// The sign-in with a browser that is under way, or that has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignInStatus>,
    /// The number of sign-ins with a browser that brought a token since the start.
    #[serde(default)]
    pub sign_ins: u64,
    /// The settings that commands change; none with the administrator's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<SettingsStatus>,
}

/// The settings that commands change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingsStatus {
    /// True if the system is to ask the client for names.
    pub dns: bool,
}

/// The authority that decides if the client is to be connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Control {
    /// The administrator, by a token on the machine: it is, as long as it runs.
    #[default]
    Token,
    /// The users of its socket.
    Commands,
}

/// The progress of the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceState {
    /// It has no token. Nothing of the host is changed.
    SignedOut,
    /// It has a token, and is not to be connected. Nothing of the host is changed.
    Down,
    /// It is connected, or tries to be: `portal` and `ready` say which.
    #[default]
    Up,
    /// It takes back what it changed.
    GoingDown,
    /// The portal will not have it. Destinations of resources stay unreachable, unless the account releases them.
    Refused,
    /// It could not go up, or on, by a fault of this machine, and tries again.
    Failed,
}

/// The rights of the process on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivilegesStatus {
    /// The number of its user.
    pub uid: u32,
    /// The rights of root that it has, such as `CAP_NET_ADMIN`.
    pub capabilities: Vec<String>,
}

/// The reason why the client is not up although it is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TroubleStatus {
    /// For programs.
    pub code: Trouble,
    /// For people: a line with the fix.
    pub text: String,
}

/// The kinds of reason why the client is not up although it is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The portal does not know the token, or no longer.
    NotEnrolled,
    /// An administrator has revoked this client.
    Denied,
    /// Another answers than the portal that the token names.
    WrongPortal,
    /// The portal ended the session for good for another reason.
    Refused,
    /// Something of this machine.
    Failed,
}

/// The refusals of programs by rules about applications, since the client's start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApplicationsStatus {
    /// Of applications that rules name, where there were any.
    pub refused: Vec<RefusedStatus>,
    /// Packets of programs that are in no such application, and of those that this machine forwards
    /// for.
    pub refused_others: u64,
}

/// The refusals of programs of one application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedStatus {
    /// Its name.
    pub application: String,
    /// Packets.
    pub packets: u64,
}

/// The resolver for names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsStatus {
    /// The addresses at which it answers.
    pub listening: Vec<SocketAddr>,
    /// The servers that answer all other names.
    pub upstreams: Vec<SocketAddr>,
    /// Those of them that are asked over TLS.
    #[serde(default)]
    pub over_tls: Vec<TlsUpstreamStatus>,
    /// The way in which the system is set to ask here; none before that is known.
    #[serde(default)]
    pub control: Option<DnsControlStatus>,
    /// The search domains for short names, as the account's administrator sets them.
    #[serde(default)]
    pub search: Vec<String>,
    /// Domains whose names are asked of servers of their own, as the account's administrator says.
    #[serde(default)]
    pub zones: Vec<ZoneStatus>,
}

/// A resolver that is asked over TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsUpstreamStatus {
    /// Its address and port.
    pub address: SocketAddr,
    /// The name or address that its certificate must be for.
    pub name: String,
    /// The failure of the last attempt to connect, if it failed.
    pub trouble: Option<String>,
}

/// The way in which the system is set to ask the client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DnsControlStatus {
    /// `resolved`, `resolvconf`, `file` or `off`.
    pub mode: String,
    /// True if it does ask here.
    pub applied: bool,
    /// The domains that are asked here; none where every name is.
    pub domains: Option<Vec<String>>,
}
