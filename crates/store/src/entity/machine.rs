//! Machines that enrolled.

use super::stamp::Stamp;
use culvert_ids::{ActorId, ClientId, GatewayId, RelayId, SiteId, TokenId};
use culvert_wire::{PublicKey, Timestamp};
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A machine that uses resources. It comes into being by [`crate::Store::enrol_client`]; an
/// administrator changes its name, verifies it and revokes it, which is final. A plain client comes into being by
/// [`crate::Store::add_plain_client`] instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its id.
    pub id: ClientId,
    /// Its owner.
    pub actor: ActorId,
    /// The text that the machine keeps for itself; with the actor it says which client this is.
    pub machine: String,
    /// The name that people give it; no two of an account alike that are not revoked.
    pub name: String,
    /// Its key; no two machines of an account have the same.
    pub public_key: PublicKey,
    /// Its address inside the tunnel.
    pub ipv4: Ipv4Addr,
    /// The same of the other family.
    pub ipv6: Ipv6Addr,
    /// The gateways whose keys are in its file, in the file's order, if it is a plain WireGuard peer: a device without
    /// Culvert, which has no token and no session. At most [`crate::MAX_PLAIN_CLIENT_GATEWAYS`]. Any other client has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gateways: Vec<GatewayId>,
    /// Its file sends each of these gateways a share of the ranges for names, as
    /// [`name_share`](culvert_wire::messages::Ranges::name_share) has it. A file of an earlier version sends both ranges to the
    /// first one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub name_shares: bool,
    /// The time since which an administrator vouches for it, or rather for its key: a new key ends
    /// it.
    pub verified: Option<Timestamp>,
    /// The time since which it is not let in.
    pub revoked: Option<Timestamp>,
    /// The time and address at which it was last seen. Not configuration: it is not in the change
    /// log, and changes no version.
    #[serde(skip)]
    pub seen: Option<Seen>,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}

impl Client {
    /// True if it is a plain WireGuard device.
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        !self.gateways.is_empty()
    }
}

/// A machine that gives access to the resources of its site. It comes into being by
/// [`crate::Store::enrol_gateway`]; an administrator changes its name, verifies it, drains it and
/// revokes it, which is final.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gateway {
    /// Its id.
    pub id: GatewayId,
    /// Its site.
    pub site: SiteId,
    /// The text that the machine keeps for itself; with the site it says which gateway this is.
    pub machine: String,
    /// The name that people give it; no two of an account alike that are not revoked.
    pub name: String,
    /// Its key; no two machines of an account have the same.
    pub public_key: PublicKey,
    /// Its address inside the tunnel.
    pub ipv4: Ipv4Addr,
    /// The same of the other family.
    pub ipv6: Ipv6Addr,
    /// The time since which an administrator vouches for it, or rather for its key: a new key ends
    /// it.
    #[serde(default)]
    pub verified: Option<Timestamp>,
    /// The token that it presented with its key. Unknown for gateways from before it was recorded.
    #[serde(default)]
    pub enrolled_with: Option<TokenId>,
    /// It gets no new clients.
    pub draining: bool,
    /// The time since which it is not let in.
    pub revoked: Option<Timestamp>,
    /// The time and address at which it was last seen. Not configuration: it is not in the change
    /// log, and changes no version.
    #[serde(skip)]
    pub seen: Option<Seen>,
    /// Version and times.
    #[serde(flatten)]
    pub stamp: Stamp,
}

/// The last that was seen of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The time.
    pub at: Timestamp,
    /// The address that its session came from, as the portal saw it.
    pub address: Option<IpAddr>,
    /// The version of its software.
    pub software: String,
}

/// A client, a gateway or a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MachineId {
    /// A client.
    Client(ClientId),
    /// A gateway.
    Gateway(GatewayId),
    /// A relay.
    Relay(RelayId),
}
