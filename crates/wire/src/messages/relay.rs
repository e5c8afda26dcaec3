//! The messages of a relay's session, and what the ends of a tunnel are told about relays.

use super::portals::PortalSet;
use super::shared::Reason;
use crate::token::CertificatePin;
use crate::{Message, PresharedKey, PublicKey, Timestamp};
use culvert_ids::{ClientId, GatewayId, RelayId};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Addresses of a relay that are told: four of each family.
pub const MAX_RELAY_ADDRESSES: usize = 8;

/// Relays that an end is told of for one gateway: one in use, and one to fall back to.
pub const RELAYS_PER_GATEWAY: usize = 2;

/// Relays that a client is told of in all, to measure their round trips.
pub const MAX_RELAY_PLACES: usize = 16;

/// A relay, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayPlace {
    /// The relay.
    pub relay: RelayId,
    /// Its name, for people.
    pub name: String,
    /// Its addresses, each with its main port; at most [`MAX_RELAY_ADDRESSES`].
    pub addresses: Vec<SocketAddr>,
    /// The relay takes TLS connections too, for networks that block UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<RelayTls>,
}

/// The TLS listener of a relay, at the same addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayTls {
    /// Its TCP port.
    pub port: u16,
    /// SHA-256 of its certificate.
    pub pin: CertificatePin,
}

/// The permission to use a relay for one gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayAccess {
    /// The relay.
    #[serde(flatten)]
    pub place: RelayPlace,
    /// The gateway's port at the relay, where both ends register.
    pub port: u16,
    /// The encrypted claims ([`RelayClaims`]), for the relay.
    pub token: String,
    /// The key of the registration's proofs.
    pub key: PresharedKey,
    /// The time from which the token no longer counts. Another one comes before.
    pub expires: Timestamp,
}

/// The claims of a relay's token: an end may register at one port of one relay.
///
/// They travel as the payload of a PASETO v4.local token, under the key that the portal gave the relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayClaims {
    /// The relay that accepts it; all others refuse it.
    pub relay: RelayId,
    /// The gateway's port.
    pub port: u16,
    /// The gateway to which the port belongs.
    pub gateway: GatewayId,
    /// The client that may reach the gateway; `None` for the gateway itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// The end's WireGuard key.
    pub public_key: PublicKey,
    /// The key of the registration's proofs.
    pub key: PresharedKey,
    /// Bytes a second that the end may send, over a second.
    pub rate_bytes_per_s: u64,
    /// The time of issue: of two registrations of one end, the later counts.
    pub iat: Timestamp,
    /// The time of expiry.
    pub exp: Timestamp,
}

/// The round trip to a relay, as an end measured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayReach {
    /// The relay.
    pub relay: RelayId,
    /// The round trip in microseconds.
    pub round_trip_us: u32,
    /// The end is registered there for its gateway port.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub registered: bool,
    /// The relay is reached by TLS only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tls: bool,
}

/// The kind of the path between a client and a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathKind {
    /// From end to end.
    Direct,
    /// Through a relay.
    Relayed,
    /// Through a relay by TLS, since UDP is blocked.
    RelayedTls,
    /// A kind of a later version.
    #[serde(other)]
    Other,
}

impl PathKind {
    /// All that this version knows.
    pub const ALL: [Self; 4] = [Self::Direct, Self::Relayed, Self::RelayedTls, Self::Other];

    /// Its name in messages and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relayed => "relayed",
            Self::RelayedTls => "relayed_tls",
            Self::Other => "other",
        }
    }

    /// The kind of this name; [`Self::Other`] if this version does not know it.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let mut known = Self::ALL.into_iter();
        known
            .find(|kind| kind.as_str() == name)
            .unwrap_or(Self::Other)
    }
}

/// The mapping of the NAT in front of an end, as relays see it (RFC 4787 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NatMapping {
    /// There is no NAT.
    None,
    /// All destinations see the same address and port.
    EndpointIndependent,
    /// Destinations see different ports: the NAT is symmetric, or nearly.
    EndpointDependent,
    /// It is not known, for example since only one relay was asked.
    #[serde(other)]
    Unknown,
}

/// Messages from a relay to the portal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromRelay {
    /// The first message.
    Hello {
        /// Protocol versions that the relay speaks.
        protocols: Vec<u32>,
        /// The relay's software version, for people.
        version: String,
        /// A text that the machine keeps for itself: it names the relay.
        machine: String,
        /// The machine's name, for people.
        name: String,
        /// The addresses at which it is reached, each with its main port.
        addresses: Vec<SocketAddr>,
        /// Its first gateway port.
        first_port: u16,
        /// The number of its gateway ports.
        ports: u16,
        /// Its TLS listener, if it has one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tls: Option<RelayTls>,
        /// It takes no new ends.
        draining: bool,
        /// The gateways that have a port now.
        assigned: Vec<RelayPort>,
    },
    /// The load of the relay.
    Load(RelayLoad),
    /// It is reached at other addresses from now on.
    AddressesChanged {
        /// All of them.
        addresses: Vec<SocketAddr>,
    },
    /// It begins or ends to drain.
    Draining {
        /// True if it drains.
        on: bool,
    },
    /// A message of the portal was of a kind that this relay does not know.
    Unsupported {
        /// Its `type`.
        kind: String,
    },
}

/// A port of a relay that belongs to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayPort {
    /// The port.
    pub port: u16,
    /// The gateway.
    pub gateway: GatewayId,
}

/// The load of a relay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayLoad {
    /// Gateways that are registered.
    pub gateways: u32,
    /// Clients that are registered.
    pub clients: u32,
    /// Bytes a second that it forwarded, over the last interval.
    pub rate_bytes_per_s: u64,
    /// Share of all its processors that it used over the last interval, in thousandths.
    pub processor_permille: u16,
}

/// Messages from the portal to a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ToRelay {
    /// The answer to `hello`.
    Welcome {
        /// The protocol version that both speak from here on.
        protocol: u32,
        /// The id of the relay.
        relay: RelayId,
        /// The key of the tokens. Earlier keys of the relay's run count on until their tokens expire.
        key: PresharedKey,
        /// An administrator asked it to drain.
        draining: bool,
        /// The portal's addresses from now on.
        #[serde(default, skip_serializing_if = "PortalSet::is_empty")]
        portals: PortalSet,
    },
    /// The session does not come about, or ends here; the socket is closed after it.
    Refused {
        /// The reason.
        reason: Reason,
        /// The relay comes back after this time at the earliest; never, where it is missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_s: Option<u32>,
    },
    /// An end may use the relay no more, whatever token it has. Tokens that are issued later count.
    Withdraw {
        /// The gateway.
        gateway: GatewayId,
        /// The client that may no longer reach it; `None`: the gateway, and with it all its clients.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        client: Option<ClientId>,
        /// Tokens up to this time of issue count no more.
        until: Timestamp,
    },
    /// An administrator asks it to drain, or to stop draining.
    Drain {
        /// True if it is to drain.
        on: bool,
    },
    /// The portal is somewhere else, or has other certificates.
    PortalsSet {
        /// As they are now.
        portals: PortalSet,
    },
    /// A message of the relay was of a kind that this portal does not know.
    Unsupported {
        /// Its `type`.
        kind: String,
    },
}

impl Message for FromRelay {
    const KINDS: &'static [&'static str] = &[
        "hello",
        "load",
        "addresses_changed",
        "draining",
        "unsupported",
    ];
}

impl Message for ToRelay {
    const KINDS: &'static [&'static str] = &[
        "welcome",
        "refused",
        "withdraw",
        "drain",
        "portals_set",
        "unsupported",
    ];
}
