//! Between gateway and portal.

use super::devices::{AdmittedDevice, DeviceEndpoint};
use super::flows::{FlowReport, GatewayFeature};
use super::portals::PortalSet;
use super::relay::{NatMapping, RelayAccess, RelayReach};
use super::shared::{Interface, Ranges, Reason, ResolvedName, WantedName};
use super::site_names::{NameElsewhere, SiteAnswer};
use crate::model::{Filter, Understood, understood};
use crate::{Cipher, Message, PresharedKey, PublicKey};
use culvert_ids::{ClientId, GatewayId, GrantId, ResourceId, SiteId};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Ids of grants in one message, [`FromGateway::Hello`] and [`ToGateway::Welcome`] included. At 33 bytes each they take
/// 540 kB, about half of the longest message. It is also what a portal or a gateway without
/// [`GatewayFeature::GrantPages`] takes at most.
pub const GRANTS_PER_PAGE: usize = 16_384;

const _: () = assert!(GRANTS_PER_PAGE * 33 * 3 <= crate::MAX_MESSAGE_LEN * 2);

/// A message of a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromGateway {
    /// The first message.
    Hello {
        /// Protocol versions that the gateway speaks.
        protocols: Vec<u32>,
        /// The gateway's software version, for people.
        version: String,
        /// A text that the machine keeps for itself: with the token's site it names the gateway.
        machine: String,
        /// The machine's name, for people.
        name: String,
        /// Its key.
        public_key: PublicKey,
        /// Suites that its processor does fast; those that the reader does not know are left out.
        #[serde(deserialize_with = "understood")]
        ciphers: Vec<Cipher>,
        /// The addresses at which clients may reach it.
        candidates: Vec<SocketAddr>,
        /// It takes no new clients.
        draining: bool,
        /// Grants that it still holds, at most [`GRANTS_PER_PAGE`].
        grants: Vec<GrantId>,
        /// More of them follow at once, in `grants_held`. An older portal goes by those of `grants` alone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more_grants: bool,
        /// The gateway's optional features. A reader leaves out those that it does not know.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "understood"
        )]
        features: Vec<GatewayFeature>,
    },
    /// More of the grants that `hello` began to list.
    GrantsHeld {
        /// At most [`GRANTS_PER_PAGE`].
        grants: Vec<GrantId>,
        /// More follow.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// A grant is in force.
    GrantAccepted {
        /// The grant.
        grant: GrantId,
        /// The names that were asked for, with the families of their addresses.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<ResolvedName>,
    },
    /// A grant is not in force.
    GrantRefused {
        /// The grant.
        grant: GrantId,
        /// The reason.
        reason: Reason,
    },
    /// The load of the gateway.
    Load(GatewayLoad),
    /// Flows that have ended, where the portal asked for them.
    Flows(FlowReport),
    /// It is reached at other addresses from now on.
    CandidatesChanged {
        /// All of them.
        candidates: Vec<SocketAddr>,
    },
    /// Relays that the gateway reaches, and how fast.
    RelaysReached {
        /// All of them.
        relays: Vec<RelayReach>,
    },
    /// It begins or ends to drain.
    Draining {
        /// True if it drains.
        on: bool,
    },
    /// The NAT in front of it is another one, as far as relays show it.
    NatFound {
        /// Its mapping.
        mapping: NatMapping,
    },
    /// Plain WireGuard devices that are somewhere else, or had another handshake. The first message of a session begins
    /// the list of all that the gateway hears.
    DeviceEndpoints {
        /// At most [`MAX_DEVICES_PER_MESSAGE`](super::MAX_DEVICES_PER_MESSAGE).
        devices: Vec<DeviceEndpoint>,
        /// More of the session's first list follow.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// A plain WireGuard device asks for a name of a resource at another site ([`ToGateway::NamesElsewhere`]).
    AskName {
        /// 1, 2, 3… within the gateway's run. The answer has it.
        ask: u64,
        /// The device.
        client: ClientId,
        /// The resource.
        resource: ResourceId,
        /// The name, and the addresses by which the device will know it.
        name: WantedName,
    },
    /// The answer to [`ToGateway::ResolveName`].
    NameAnswered {
        /// The number of the question.
        ask: u64,
        /// The answer.
        answer: SiteAnswer,
    },
    /// A message of the portal was of a kind that this gateway does not know.
    Unsupported {
        /// Its `type`.
        kind: String,
    },
}

/// The load of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayLoad {
    /// Clients that hold a grant.
    pub clients: u32,
    /// Flows that are alive.
    pub flows: u32,
    /// Bytes a second in both directions, over the last interval.
    pub rate_bytes_per_s: u64,
    /// Share of all its processors that it used over the last interval, in thousandths.
    pub processor_permille: u16,
}

/// The names of a grant's ends. Nothing is decided by it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrantLabels {
    /// The client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
}

impl GrantLabels {
    /// True if neither is known.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.client.is_none() && self.resource.is_none()
    }
}

/// A message of the portal to a gateway, inside [`super::Sequenced`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToGateway {
    /// The answer to `hello`.
    Welcome {
        /// The protocol version that both speak from here on.
        protocol: u32,
        /// The id of the gateway.
        gateway: GatewayId,
        /// The gateway's site, for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site: Option<SiteId>,
        /// The name of that site.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        site_name: Option<String>,
        /// Its addresses inside the tunnel.
        interface: Interface,
        /// The networks in use.
        ranges: Ranges,
        /// Public keys (Ed25519, base64) whose signature on a grant counts.
        grant_keys: Vec<String>,
        /// Those of the gateway's grants that are still valid, at most [`GRANTS_PER_PAGE`]. Unless more follow, the
        /// others end now.
        grants: Vec<GrantId>,
        /// More of them follow at once, in `grants_retained`; only to gateways with [`GatewayFeature::GrantPages`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more_grants: bool,
        /// An administrator asked it to drain.
        draining: bool,
        /// The account requires verified gateways, and no administrator has verified this one's key:
        /// it gets no grants until `verification` says otherwise.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        verification_awaited: bool,
        /// The portal's addresses from now on; an older portal does not say them.
        #[serde(default, skip_serializing_if = "PortalSet::is_empty")]
        portals: PortalSet,
    },
    /// More of the grants that `welcome` began to list. With the last of these messages, the gateway ends all others.
    GrantsRetained {
        /// At most [`GRANTS_PER_PAGE`].
        grants: Vec<GrantId>,
        /// More follow.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
    },
    /// The session does not come about, or ends here; the socket is closed after it.
    Refused {
        /// The reason.
        reason: Reason,
        /// The gateway comes back after this time at the earliest; never, where it is missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_s: Option<u32>,
    },
    /// A new grant.
    Grant {
        /// The signed claims ([`crate::GrantClaims`]).
        token: String,
        /// The secret of the pair.
        preshared_key: PresharedKey,
        /// A grant of the same client and resource that this one replaces without a gap. Its
        /// names go over to the new one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaces: Option<GrantId>,
        /// Names that the client wants besides, where the resource is a DNS pattern. They are the
        /// client's word, and checked against the pattern and the range for names.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<WantedName>,
        /// The names of the client and the resource, for the log.
        #[serde(default, skip_serializing_if = "GrantLabels::is_empty")]
        labels: GrantLabels,
    },
    /// Others wait for the answer to a grant: the gateway is to give it now, without the names that the DNS has not answered
    /// for yet ([`Existence::Pending`](super::Existence::Pending)).
    AnswerNow {
        /// The grant.
        grant: GrantId,
    },
    /// A grant ends now, and its flows with it.
    Revoke {
        /// The grant.
        grant: GrantId,
    },
    /// A resource's filters are others from now on.
    FiltersChanged {
        /// The resource.
        resource: ResourceId,
        /// All of them.
        filters: Understood<Filter>,
        /// All that it may use of its clients' own hosts.
        #[serde(default, skip_serializing_if = "Understood::is_nothing")]
        inbound: Understood<Filter>,
    },
    /// An administrator asks it to drain, or to stop draining.
    Drain {
        /// True if it is to drain.
        on: bool,
    },
    /// Tells the gateway that it waits for verification by an administrator, or no longer does. While it waits, it has no grants.
    Verification {
        /// True while it waits.
        awaited: bool,
    },
    /// The switch of the flow log: on if the gateway is to report flows that have ended. A gateway
    /// with the feature gets this message after `welcome`, and after each change. It reports
    /// nothing until then.
    FlowLog {
        /// True if it is to report them.
        on: bool,
    },
    /// The portal is somewhere else, or has other certificates; said to gateways that keep this.
    PortalsSet {
        /// As they are now.
        portals: PortalSet,
    },
    /// The relays through which the gateway is reached from now on, with its tokens.
    RelaysSet {
        /// All of them; at most [`RELAYS_PER_GATEWAY`](super::RELAYS_PER_GATEWAY).
        relays: Vec<RelayAccess>,
    },
    /// The addresses at which a client may be reached. It comes before the client's first grant, and after each change.
    ClientCandidates {
        /// The client.
        client: ClientId,
        /// Its key.
        client_key: PublicKey,
        /// All of them.
        candidates: Vec<SocketAddr>,
    },
    /// A report of flows is in the log, and need not be kept any longer.
    FlowsTaken {
        /// The report's run.
        run: u64,
        /// The number of the batch in the run.
        batch: u64,
    },
    /// All plain WireGuard devices that the gateway admits without a grant; only to gateways with
    /// [`GatewayFeature::DeviceEndpoints`], after `welcome`. With the last of these messages, it admits no others.
    DevicesAdmitted {
        /// At most [`MAX_DEVICES_PER_MESSAGE`](super::MAX_DEVICES_PER_MESSAGE).
        devices: Vec<AdmittedDevice>,
        /// More follow at once.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        more: bool,
        /// The time for which the gateway admits them after the session has ended, in seconds: that of a grant.
        kept_s: u32,
    },
    /// One more device is admitted, or has another key.
    DeviceAdmitted {
        /// The device.
        device: AdmittedDevice,
    },
    /// A device is admitted no more: without a grant, its tunnel ends.
    DeviceDismissed {
        /// The device.
        client: ClientId,
    },
    /// The resources by name at other sites of a plain WireGuard device that asks this gateway for names. It comes after
    /// `welcome`, for each such device that has any, and after each change.
    NamesElsewhere {
        /// The device.
        client: ClientId,
        /// The place of this gateway in the device's file, counted from 0.
        #[serde(default, skip_serializing_if = "is_first")]
        place: u8,
        /// All of them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<NameElsewhere>,
    },
    /// A plain WireGuard device with a grant of this gateway asked another gateway for a name: this one is to resolve it, to
    /// lead the addresses there, and to answer.
    ResolveName {
        /// The answer has this number.
        ask: u64,
        /// The device.
        client: ClientId,
        /// The resource.
        resource: ResourceId,
        /// The name, and the addresses by which the device will know it.
        name: WantedName,
    },
    /// The answer to [`FromGateway::AskName`].
    NameAnswered {
        /// The number of the question.
        ask: u64,
        /// The answer.
        answer: SiteAnswer,
    },
    /// A message of the gateway was of a kind that this portal does not know.
    Unsupported {
        /// Its `type`.
        kind: String,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_first(place: &u8) -> bool {
    *place == 0
}

impl Message for FromGateway {
    const KINDS: &'static [&'static str] = &[
        "hello",
        "grants_held",
        "grant_accepted",
        "grant_refused",
        "load",
        "flows",
        "candidates_changed",
        "relays_reached",
        "draining",
        "nat_found",
        "device_endpoints",
        "ask_name",
        "name_answered",
        "unsupported",
    ];
}

impl Message for ToGateway {
    const KINDS: &'static [&'static str] = &[
        "welcome",
        "grants_retained",
        "refused",
        "grant",
        "answer_now",
        "revoke",
        "filters_changed",
        "drain",
        "verification",
        "flow_log",
        "portals_set",
        "relays_set",
        "client_candidates",
        "flows_taken",
        "devices_admitted",
        "device_admitted",
        "device_dismissed",
        "names_elsewhere",
        "resolve_name",
        "name_answered",
        "unsupported",
    ];
}
