//! Peers and routes as the workers see them: one immutable value, replaced whole.
//!
//! Keys are reached through it and are no part of it. A handshake changes them for one peer, and replaces nothing.

use crate::allowed_ips::AllowedIps;
use crate::key_table::KeyTable;
use crate::peer::Peer;
use crate::peer_table::PeerTable;
use crate::route::Route;
use crate::service_routes::ServiceRoutes;
use culvert_policy::gate::{GateTable, InboundRules};
use culvert_session::{ClockOffset, PeerId};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The addresses of this end in the tunnel. An ICMP error that quotes a packet from there to a peer passes from that peer,
/// whatever router behind it wrote the error. Packets from anywhere else are not sent: a peer would drop them without a
/// word. A device that is not told of any keeps to allowed IPs alone, as WireGuard does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Of IPv4.
    pub v4: Ipv4Addr,
    /// Of IPv6.
    pub v6: Ipv6Addr,
}

impl Inside {
    /// True if it is one of them.
    #[must_use]
    pub fn contains(self, address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => address == self.v4,
            IpAddr::V6(address) => address == self.v6,
        }
    }
}

/// The knowledge that workers need to carry packets, at one moment.
pub struct Snapshot {
    /// The owners of inner addresses.
    pub routes: AllowedIps<Route>,
    /// The peers, each with the key to seal with.
    pub peers: PeerTable,
    /// The keys that records may arrive under.
    pub keys: Arc<KeyTable>,
    /// The port of the sockets; 0 while the link is down.
    pub port: u16,
    /// MTU of the interface, in bytes.
    pub mtu: u16,
    /// Routes that are for some services alone; `None` where there are none, which is so but for moments.
    pub service_routes: Option<Arc<ServiceRoutes>>,
    /// The grants of each client; `None` lets nothing pass on a device that has gates.
    pub gate: Option<Arc<GateTable>>,
    /// At a client: what resources may begin at its host; `None` where that is nothing.
    pub inbound: Option<Arc<InboundRules>>,
    /// This end's addresses in the tunnel, where errors about their packets pass from any source.
    pub inside: Option<Inside>,
    /// Of the machine that these keys are for: where a worker finds another one, the machine may be a
    /// copy of that.
    pub wall_offset: ClockOffset,
}

impl Snapshot {
    /// A device that is down and knows nobody.
    #[must_use]
    pub fn empty(mtu: u16, wall_offset: ClockOffset) -> Self {
        Self {
            routes: AllowedIps::default(),
            peers: PeerTable::default(),
            keys: Arc::default(),
            port: 0,
            mtu,
            service_routes: None,
            gate: None,
            inbound: None,
            inside: None,
            wall_offset,
        }
    }

    /// The peer that this inner address belongs to.
    #[must_use]
    pub fn owner(&self, address: IpAddr) -> Option<PeerId> {
        self.routes.owner(address).map(|route| route.peer)
    }

    /// The peer with this number.
    #[must_use]
    pub fn peer(&self, id: PeerId) -> Option<&Arc<Peer>> {
        self.peers.get(id)
    }

    /// Nobody seals any more under the keys of now.
    pub fn retire_keys(&self) {
        for peer in self.peers.iter() {
            peer.retire_key();
        }
        self.keys.retire();
    }
}

/// The snapshot that a worker uses.
pub(crate) struct InUse {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Changes since the worker last adopted a snapshot.
    pub(crate) news: Option<News>,
}

/// The news of a newer snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum News {
    /// Peers, keys or routes alone.
    SameSockets,
    /// Other sockets, or none any more.
    OtherSockets,
    /// Sockets that can't be used.
    Ended,
}
