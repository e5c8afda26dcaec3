//! Packets that no peer has a route for, and those that a peer refuses, for an owner who may know better.

use crate::event::Command;
use crate::refusal::RouteRefusal;
use culvert_packet::VNET_HEADER_LEN;
use culvert_packet::ip::IpView;
use std::fmt;
use std::net::IpAddr;

/// A packet, or a superframe of them, that came from the TUN and that no peer has a route for, or what its peer has quoted of a
/// packet that it refuses.
///
/// Its owner gives it back once there is a route.
pub struct Unrouted {
    /// With the virtio-net header.
    frame: Box<[u8]>,
    worker: usize,
    refused: Option<RouteRefusal>,
}

impl Unrouted {
    /// A frame that worker `worker` has read.
    #[must_use]
    pub fn new(frame: &[u8], worker: usize) -> Self {
        Self {
            frame: frame.into(),
            worker,
            refused: None,
        }
    }

    /// The part of a packet that a peer quotes when it does not let it pass.
    #[must_use]
    pub fn refused(quoted: &[u8], refusal: RouteRefusal, worker: usize) -> Self {
        Self {
            frame: [[0; VNET_HEADER_LEN].as_slice(), quoted].concat().into(),
            worker,
            refused: Some(refusal),
        }
    }

    /// The reason for which its peer did not let it pass; `None` where it had no route.
    #[must_use]
    pub fn refused_by_peer(&self) -> Option<RouteRefusal> {
        self.refused
    }

    /// From its IP header on. A superframe has more payload than its length field can say, and a packet that a peer
    /// refuses may be cut short.
    #[must_use]
    pub fn packet(&self) -> &[u8] {
        self.frame.get(VNET_HEADER_LEN..).unwrap_or_default()
    }

    /// Its destination. The road has looked at the headers already.
    #[must_use]
    pub fn destination(&self) -> Option<IpAddr> {
        IpView::parse(self.packet()).ok().map(|ip| ip.destination())
    }

    /// Bytes it takes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.frame.len()
    }

    /// The worker that read it, and a request to it once it sees snapshot `generation`.
    #[must_use]
    pub fn resume_at(self, generation: u64) -> (usize, Command) {
        let frame = self.frame;
        (self.worker, Command::Resume { frame, generation })
    }

    /// The worker that read it, and a request to it where the packet may go nowhere.
    #[must_use]
    pub fn refuse(self, refusal: RouteRefusal) -> (usize, Command) {
        let frame = self.frame;
        (self.worker, Command::Refuse { frame, refusal })
    }
}

impl fmt::Debug for Unrouted {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Unrouted({} bytes)", self.frame.len())
    }
}
