//! The sockets of the workers.

use culvert_datapath::{Lane, Snapshot};
use culvert_udp::Socket;
use std::sync::Arc;

/// The view of the workers: a snapshot, and the sockets that belong to it.
pub(crate) struct View {
    pub(crate) path: Arc<Snapshot>,
    /// Those of each worker; `None` while the link is down.
    pub(crate) sockets: Option<Arc<[WorkerSockets]>>,
}

/// A worker's sockets. A host without IPv6 has none of that family, one without IPv4 none of that.
pub(crate) struct WorkerSockets {
    pub(crate) v4: Option<Socket>,
    pub(crate) v6: Option<Socket>,
    /// Datagrams with priority arrive here, where the device has
    /// [`Mechanism::Priority`](culvert_datapath::Mechanism::Priority). Nothing is sent from them.
    pub(crate) priority_v4: Option<Socket>,
    pub(crate) priority_v6: Option<Socket>,
    /// Shared by all sockets on a port, and the last field: fields are dropped in the order of their
    /// declaration, so that once nobody holds it every socket is closed. The references to the sets
    /// themselves are gone before that, and a socket with much to read takes a while to close.
    pub(crate) open: Arc<()>,
}

impl WorkerSockets {
    /// The socket of a lane.
    pub(crate) fn lane(&self, lane: Lane) -> Option<&Socket> {
        match lane {
            Lane::V4 => self.v4.as_ref(),
            Lane::V6 => self.v6.as_ref(),
            Lane::PriorityV4 => self.priority_v4.as_ref(),
            Lane::PriorityV6 => self.priority_v6.as_ref(),
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
