//! Between client and portal.

use super::portals::PortalSet;
use super::relay::{NatMapping, PathKind, RelayAccess, RelayPlace, RelayReach};
use super::shared::{Interface, MAX_NAMES, Ranges, Reason, ResolvedName, WantedName};
use crate::model::{Dns, Resource, understood};
use crate::{Cipher, Message, PresharedKey, PublicKey, Timestamp};
use culvert_ids::{ClientId, GatewayId, GrantId, RelayId, ResourceId};
use culvert_policy::conditions::OperatingSystem;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// The longest message of a client in bytes. A request has up to [`MAX_NAMES`] names of at most 340
/// bytes each: a name of 253 bytes, its two addresses, and the JSON around them. That makes 87,040
/// bytes, and half as much again is left for later versions. A portal holds as much for each of its
/// clients that is not done yet with what it says.
pub const MAX_CLIENT_MESSAGE_LEN: usize = 128 * 1024;

const _: () = assert!(MAX_CLIENT_MESSAGE_LEN >= MAX_NAMES * 340 * 3 / 2);

/// A message of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromClient {
    /// The first message.
    Hello {
        /// Protocol versions that the client speaks.
        protocols: Vec<u32>,
        /// The client's software version, for people.
        version: String,
        /// A text that the machine keeps for itself: with the token's actor it names the client,
        /// so that the same machine is the same client after a new start.
        machine: String,
        /// The machine's name, for people.
        name: String,
        /// Its key.
        public_key: PublicKey,
        /// Suites that its processor does fast; those that the reader does not know are left out.
        #[serde(deserialize_with = "understood")]
        ciphers: Vec<Cipher>,
        /// The client's optional features. A reader leaves out those that it does not know.
        #[serde(
            default,
            skip_serializing_if = "Vec::is_empty",
            deserialize_with = "understood"
        )]
        features: Vec<ClientFeature>,
        /// Its operating system, as it says; older clients do not say it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        os: Option<OperatingSystem>,
    },
    /// Asks for access to a resource, or for a new grant before the old one ends.
    RequestAccess {
        /// The client's number of this request; the answer repeats it.
        request: u64,
        /// The resource.
        resource: ResourceId,
        /// Names that are wanted, where the resource is a DNS pattern; at most [`MAX_NAMES`].
        /// Those that the client's grant for the resource has already need not be repeated.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<WantedName>,
        /// Gateways that did not answer the client.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        avoid: Vec<GatewayId>,
    },
    /// Others wait for the answer to a request: the gateway is to answer it now, without the names that the DNS has not
    /// answered for yet ([`Existence::Pending`](super::Existence::Pending)).
    AnswerNow {
        /// The number of the request.
        request: u64,
        /// The resource.
        resource: ResourceId,
    },
    /// A grant is no longer needed.
    ReleaseAccess {
        /// The grant.
        grant: GrantId,
    },
    /// The addresses at which gateways may reach the client; said by clients with the feature `relays`.
    CandidatesChanged {
        /// All of them.
        candidates: Vec<SocketAddr>,
    },
    /// Relays that the client reaches, and how fast.
    RelaysReached {
        /// All of them.
        relays: Vec<RelayReach>,
    },
    /// The path to a gateway is another one.
    PathChanged {
        /// The gateway.
        gateway: GatewayId,
        /// Its kind.
        path: PathKind,
        /// The relay, where it goes through one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        relay: Option<RelayId>,
        /// The round trip of the path in microseconds, if it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        round_trip_us: Option<u32>,
    },
    /// The NAT in front of it is another one, as far as relays show it.
    NatFound {
        /// Its mapping.
        mapping: NatMapping,
    },
    /// A message of the portal was of a kind that this client does not know.
    Unsupported {
        /// Its `type`.
        kind: String,
    },
}

/// A feature that not every client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientFeature {
    /// It keeps a resource's rule about applications, or does not let anything reach the resource.
    Applications,
    /// It follows the account's rules about names, and is told of them.
    Dns,
    /// It keeps the portal's addresses and certificates, and is told of others.
    Portals,
    /// It uses relays, and looks for direct paths behind NATs.
    Relays,
    /// It refuses packets to where access has ended, and is told of the account's rule about them.
    EndedAccess,
}

/// A message of the portal to a client, inside [`super::Sequenced`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToClient {
    /// The answer to `hello`.
    Welcome {
        /// The protocol version that both speak from here on.
        protocol: u32,
        /// The id of the client.
        client: ClientId,
        /// Its addresses inside the tunnel.
        interface: Interface,
        /// The networks in use.
        ranges: Ranges,
        /// Every resource that the client may ask for, but those that follow.
        resources: Vec<Resource>,
        /// So many resources follow at once, as `resource_set`. With the last of them, those that the client has from an
        /// earlier session are gone.
        #[serde(default, skip_serializing_if = "is_zero")]
        later_resources: u32,
        /// The client's grants that are still valid; any other that it holds has ended while it was
        /// away.
        #[serde(default)]
        grants: Vec<GrantId>,
        /// The longest lifetime of a grant in seconds.
        grant_lifetime_s: u32,
        /// The account's rules about names, where the client can follow them.
        #[serde(default, skip_serializing_if = "Dns::is_empty")]
        dns: Dns,
        /// The portal's addresses from now on; an older portal does not say them.
        #[serde(default, skip_serializing_if = "PortalSet::is_empty")]
        portals: PortalSet,
        /// The relays of the account, to learn one's own address and to measure them; at most
        /// [`MAX_RELAY_PLACES`](super::MAX_RELAY_PLACES).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        relays: Vec<RelayPlace>,
        /// Destinations of access that ended leave the client by the host's own routes. Otherwise they are refused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        releases_ended_access: bool,
    },
    /// The session does not come about, or ends here; the socket is closed after it.
    Refused {
        /// The reason.
        reason: Reason,
        /// The client comes back after this time at the earliest; never, where it is missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_s: Option<u32>,
    },
    /// A resource is new or has changed.
    ResourceSet {
        /// As it is now.
        resource: Resource,
    },
    /// A resource is gone, or no longer for this client; its grants are revoked apart.
    ResourceRemoved {
        /// The resource.
        resource: ResourceId,
    },
    /// The account's rules about names are others; said to clients that can follow them.
    DnsSet {
        /// As they are now.
        dns: Dns,
    },
    /// The account's rule about access that ended is another; said to clients that can follow it.
    EndedAccessSet {
        /// Its destinations leave by the host's own routes.
        releases: bool,
    },
    /// The portal is somewhere else, or has other certificates; said to clients that keep this.
    PortalsSet {
        /// As they are now.
        portals: PortalSet,
    },
    /// Access is granted, and the gateway knows of it.
    AccessGranted {
        /// The request that this answers.
        request: u64,
        /// The resource.
        resource: ResourceId,
        /// The grant.
        grant: GrantId,
        /// The time of expiry.
        expires: Timestamp,
        /// The gateway.
        gateway: GatewayId,
        /// The gateway's name, for people.
        gateway_name: String,
        /// The gateway's key.
        gateway_key: PublicKey,
        /// Its addresses inside the tunnel.
        gateway_interface: Interface,
        /// The addresses at which the gateway may be reached.
        candidates: Vec<SocketAddr>,
        /// The secret of the pair, the same for all of the pair's grants.
        preshared_key: PresharedKey,
        /// The suite of the pair's tunnel.
        cipher: Cipher,
        /// The names that were asked for, with the families of their addresses.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        names: Vec<ResolvedName>,
        /// The gateway answers DNS questions about the resource's names, at its address in the tunnel and
        /// [`SITE_DNS_PORT`](super::SITE_DNS_PORT).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        answers_dns: bool,
        /// Relays through which the gateway is reached; at most [`RELAYS_PER_GATEWAY`](super::RELAYS_PER_GATEWAY).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        relays: Vec<RelayAccess>,
    },
    /// The relays of the account are others from now on.
    RelayPlacesSet {
        /// All of them.
        relays: Vec<RelayPlace>,
    },
    /// A gateway is reached through other relays from now on, or with other tokens.
    RelaysSet {
        /// The gateway.
        gateway: GatewayId,
        /// All of them.
        relays: Vec<RelayAccess>,
    },
    /// Access is denied.
    AccessDenied {
        /// The request that this answers.
        request: u64,
        /// The resource.
        resource: ResourceId,
        /// The reason.
        reason: Reason,
    },
    /// A grant ends now.
    AccessRevoked {
        /// The grant.
        grant: GrantId,
        /// The reason.
        reason: Reason,
    },
    /// A gateway is gone, and every grant through it.
    GatewayLost {
        /// The gateway.
        gateway: GatewayId,
    },
    /// A gateway is about to end every grant through it: the client asks anew for those in use, which another gateway of
    /// the site gets. To a client that does not know the message, `gateway_lost` follows.
    GatewayDraining {
        /// The gateway.
        gateway: GatewayId,
    },
    /// A gateway is reached at other addresses from now on.
    GatewayMoved {
        /// The gateway.
        gateway: GatewayId,
        /// All of them.
        candidates: Vec<SocketAddr>,
    },
    /// A message of the client was of a kind that this portal does not know.
    Unsupported {
        /// Its `type`.
        kind: String,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Message for FromClient {
    const KINDS: &'static [&'static str] = &[
        "hello",
        "request_access",
        "answer_now",
        "release_access",
        "candidates_changed",
        "relays_reached",
        "path_changed",
        "nat_found",
        "unsupported",
    ];
    const MAX_LEN: usize = MAX_CLIENT_MESSAGE_LEN;
}

impl Message for ToClient {
    const KINDS: &'static [&'static str] = &[
        "welcome",
        "refused",
        "resource_set",
        "resource_removed",
        "dns_set",
        "ended_access_set",
        "portals_set",
        "access_granted",
        "access_denied",
        "access_revoked",
        "gateway_lost",
        "gateway_draining",
        "gateway_moved",
        "relay_places_set",
        "relays_set",
        "unsupported",
    ];
}
