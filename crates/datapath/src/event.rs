//! Events and commands between workers and the control thread.

use crate::refusal::RouteRefusal;
use culvert_base::LocalAddress;
use culvert_packet::{Accept, MtuMessage, MtuProbe};
use culvert_session::parse::INITIATION_LEN;
use culvert_session::{GenerationChange, Index, PeerId};
use std::net::{IpAddr, SocketAddr};

/// News of a worker for the control thread.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A packet waits, or the key grows old.
    HandshakeWanted(PeerId),
    /// Data of a peer was marked whose timers nobody looks at.
    Active(PeerId),
    /// The first record arrived under a key that this end made as responder.
    Confirmed(PeerId, Index),
    /// The worker's clocks, with this snapshot, say that the machine may be a copy.
    PerhapsCopied {
        /// The snapshot.
        generation: u64,
        /// The sign of it.
        change: GenerationChange,
    },
    /// A packet left that a narrow path would lose.
    FullSizeLeft(PeerId),
    /// The peer got this probe.
    MtuAnswered(PeerId, MtuProbe),
    /// The path to the peer refused a run of datagrams of so many bytes: perhaps its MTU shrank.
    SegmentationRefused(PeerId, usize),
    /// A datagram to this address came back into the TUN.
    Looped(SocketAddr),
    /// A packet from this address, which is not this end's in the tunnel, was about to go in.
    ForeignSource(IpAddr),
    /// The TUN refused superframes of these kinds again and again: none are made for a while.
    SuperframesRefused(Accept),
    /// The TUN takes superframes of these kinds again.
    SuperframesTaken(Accept),
}

/// A request of the control thread to a worker.
#[derive(Debug)]
pub enum Command {
    /// Seal an empty record for the peer.
    Keepalive(PeerId),
    /// Seal a record about the path MTU for the peer.
    Mtu(PeerId, MtuMessage),
    /// Nobody answered: drop what waits for the peer's handshake.
    DropStaged(PeerId),
    /// Carry out a frame, virtio-net header included, that had no route before.
    Resume {
        /// The frame.
        frame: Box<[u8]>,
        /// The snapshot that has one.
        generation: u64,
    },
    /// Tell the sender of such a frame that it goes nowhere.
    Refuse {
        /// The frame.
        frame: Box<[u8]>,
        /// The answer to its sender.
        refusal: RouteRefusal,
    },
}

/// A record that carries no packet of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    Keepalive,
    Mtu(MtuMessage),
}

/// The first bytes of messages about paths: those with relays, and probes between ends. No WireGuard message begins so.
pub const PATH_MESSAGE_PREFIX: [u8; 3] = *b"CVR";

/// The longest message about paths that an end takes.
pub const MAX_PATH_MESSAGE_LEN: usize = 64;

/// A handshake message as it was received.
pub type HandshakeMessage = OuterMessage<INITIATION_LEN>;

/// A message about paths as it was received.
pub type PathMessage = OuterMessage<MAX_PATH_MESSAGE_LEN>;

/// A datagram of at most `MAX` bytes as it was received.
#[derive(Clone, Debug)]
pub struct OuterMessage<const MAX: usize> {
    bytes: [u8; MAX],
    len: u8,
    /// Its sender.
    pub source: SocketAddr,
    /// The address that it came to.
    pub local: Option<LocalAddress>,
}

impl<const MAX: usize> OuterMessage<MAX> {
    /// Copies `datagram`; `None` where it is too long.
    #[must_use]
    pub fn new(datagram: &[u8], source: SocketAddr, local: Option<LocalAddress>) -> Option<Self> {
        let mut bytes = [0; MAX];
        bytes.get_mut(..datagram.len())?.copy_from_slice(datagram);
        Some(Self {
            bytes,
            len: u8::try_from(datagram.len()).ok()?,
            source,
            local,
        })
    }

    /// The message.
    #[must_use]
    pub fn datagram(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}
