//! Peers, keys and routes as the workers see them: one immutable value, replaced whole.

use crate::allowed_ips::AllowedIps;
use crate::peer::{Peer, Sending};
use crate::service_routes::ServiceRoutes;
use culvert_policy::gate::GateTable;
use culvert_session::{ClockOffset, Index, PeerId, Transport};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
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
    pub routes: Arc<AllowedIps<PeerId>>,
    /// By the number of [`PeerId`].
    pub peers: Vec<Option<Road>>,
    /// The keys that records may arrive under.
    pub receiving: ReceivingKeys,
    /// The port of the sockets; 0 while the link is down.
    pub port: u16,
    /// MTU of the interface, in bytes.
    pub mtu: u16,
    /// Routes that are for some services alone; `None` where there are none, which is so but for moments.
    pub service_routes: Option<Arc<ServiceRoutes>>,
    /// The grants of each client; `None` lets nothing pass on a device that has gates.
    pub gate: Option<Arc<GateTable>>,
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
            routes: Arc::new(AllowedIps::new(&Default::default())),
            peers: Vec::new(),
            receiving: ReceivingKeys::default(),
            port: 0,
            mtu,
            service_routes: None,
            gate: None,
            inside: None,
            wall_offset,
        }
    }

    /// The way to a peer.
    #[must_use]
    pub fn road(&self, id: PeerId) -> Option<&Road> {
        self.peers.get(id.slot())?.as_ref()
    }

    /// Nobody seals under these keys any more.
    pub fn retire_keys(&self) {
        let sending = self.peers.iter().flatten();
        for sending in sending.filter_map(|road| road.sending.as_ref()) {
            sending.transport.retire();
        }
        for receiving in self.receiving.values() {
            receiving.transport.retire();
        }
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

/// The way to one peer.
#[derive(Clone)]
pub struct Road {
    /// To whom.
    pub peer: Arc<Peer>,
    /// The key to seal with; `None` until a handshake has completed.
    pub sending: Option<Arc<Sending>>,
}

/// A key that records may arrive under.
pub struct Receiving {
    /// The key.
    pub transport: Arc<Transport>,
    /// Its peer.
    pub peer: Arc<Peer>,
    /// A responder's key that the control thread has not yet heard to be confirmed by data.
    pub is_unconfirmed: bool,
}

/// Keys by receiver index. At most three per peer: previous, current and next.
pub type ReceivingKeys = HashMap<Index, Receiving, BuildHasherDefault<IndexHasher>>;

/// Receiver indices are random numbers that this end drew: they are their own hash.
#[derive(Default)]
pub struct IndexHasher(u64);

impl Hasher for IndexHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0 << 8 | u64::from(byte);
        }
    }

    fn write_u32(&mut self, index: u32) {
        // The table takes its position from the low bits and its tag from the high ones.
        self.0 = u64::from(index) << 32 | u64::from(index);
    }
}
