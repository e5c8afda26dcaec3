//! Peers, keys, routes and sockets as the workers see them: one immutable value, replaced whole.

use crate::allowed_ips::AllowedIps;
use crate::clock;
use crate::configuration::Inside;
use crate::peer::{Peer, Sending};
use crate::service_routes::ServiceRoutes;
use culvert_policy::gate::GateTable;
use culvert_session::{ClockOffset, Index, PeerId, Transport};
use culvert_udp::Socket;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// What workers need to know to carry packets, at one moment.
pub(crate) struct Snapshot {
    pub(crate) routes: Arc<AllowedIps<PeerId>>,
    /// By the number of [`PeerId`].
    pub(crate) peers: Vec<Option<Road>>,
    pub(crate) receiving: ReceivingKeys,
    /// One pair per worker; `None` while the link is down.
    pub(crate) sockets: Option<Arc<[SocketPair]>>,
    /// The port of the sockets; 0 while the link is down.
    pub(crate) port: u16,
    /// MTU of the interface, in bytes.
    pub(crate) mtu: u16,
    /// Routes that are for some services alone; `None` where there are none, which is so but for moments.
    pub(crate) service_routes: Option<Arc<ServiceRoutes>>,
    /// What each client may reach; `None` lets nothing pass on a device that has gates.
    pub(crate) gate: Option<Arc<GateTable>>,
    /// This end's addresses in the tunnel, where errors about their packets pass from any source.
    pub(crate) inside: Option<Inside>,
    /// Of the machine that these keys are for: where a worker finds another one, the machine may be a
    /// copy of that.
    pub(crate) wall_offset: ClockOffset,
}

impl Snapshot {
    /// A device that is down and knows nobody.
    pub(crate) fn empty(mtu: u16) -> Self {
        Self {
            routes: Arc::new(AllowedIps::new(&Default::default())),
            peers: Vec::new(),
            receiving: ReceivingKeys::default(),
            sockets: None,
            port: 0,
            mtu,
            service_routes: None,
            gate: None,
            inside: None,
            wall_offset: clock::wall_offset(),
        }
    }

    pub(crate) fn road(&self, id: PeerId) -> Option<&Road> {
        self.peers.get(id.slot())?.as_ref()
    }

    /// Nobody seals under these keys any more.
    pub(crate) fn retire_keys(&self) {
        let sending = self.peers.iter().flatten();
        for sending in sending.filter_map(|road| road.sending.as_ref()) {
            sending.transport.retire();
        }
        for receiving in self.receiving.values() {
            receiving.transport.retire();
        }
    }
}

/// The way to one peer.
#[derive(Clone)]
pub(crate) struct Road {
    pub(crate) peer: Arc<Peer>,
    /// `None` until a handshake has completed.
    pub(crate) sending: Option<Arc<Sending>>,
}

/// A key that records may arrive under.
pub(crate) struct Receiving {
    pub(crate) transport: Arc<Transport>,
    pub(crate) peer: Arc<Peer>,
    /// A responder's key that the control thread has not yet heard to be confirmed by data.
    pub(crate) is_unconfirmed: bool,
}

/// Keys by receiver index. At most three per peer: previous, current and next.
pub(crate) type ReceivingKeys = HashMap<Index, Receiving, BuildHasherDefault<IndexHasher>>;

/// Receiver indices are random numbers that this end drew: they are their own hash.
#[derive(Default)]
pub(crate) struct IndexHasher(u64);

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

/// A worker's sockets. A host without IPv6 has none of that family, one without IPv4 none of that.
pub(crate) struct SocketPair {
    pub(crate) v4: Option<Socket>,
    pub(crate) v6: Option<Socket>,
    /// What is urgent arrives here, where the device has [`Mechanism::Express`](crate::Mechanism::Express). Nothing is sent from
    /// them.
    pub(crate) express_v4: Option<Socket>,
    pub(crate) express_v6: Option<Socket>,
    /// Shared by all pairs on a port, and the last field: fields are dropped in the order of their
    /// declaration, so that once nobody holds it every socket is closed. The references to the pairs
    /// themselves are gone before that, and a socket with much to read takes a while to close.
    pub(crate) open: Arc<()>,
}

impl SocketPair {
    /// The socket of a lane.
    pub(crate) fn lane(&self, lane: Lane) -> Option<&Socket> {
        match lane {
            Lane::V4 => self.v4.as_ref(),
            Lane::V6 => self.v6.as_ref(),
            Lane::ExpressV4 => self.express_v4.as_ref(),
            Lane::ExpressV6 => self.express_v6.as_ref(),
        }
    }

    /// The socket that reaches addresses of `to`'s family.
    pub(crate) fn towards(&self, to: std::net::SocketAddr) -> Option<&Socket> {
        if to.is_ipv4() {
            self.v4.as_ref()
        } else {
            self.v6.as_ref()
        }
    }
}

/// Where datagrams of a worker come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Lane {
    ExpressV4,
    ExpressV6,
    V4,
    V6,
}

impl Lane {
    /// Those of what is urgent.
    pub(crate) const EXPRESS: [Self; 2] = [Self::ExpressV4, Self::ExpressV6];
    /// Those of all else.
    pub(crate) const BULK: [Self; 2] = [Self::V4, Self::V6];
    pub(crate) const ALL: [Self; 4] = [Self::ExpressV4, Self::ExpressV6, Self::V4, Self::V6];
}
