//! The question to a gate, and its answer.

use super::{DropReason, PeerKey};
use crate::translate::Checksum;

/// The verdict on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on, translated where that was due: from this peer, or to it.
    Admit(PeerKey),
    /// It goes on, and is the first fragment of a datagram of which later ones wait ([`Gate::take_released`](super::Gate::take_released)).
    AdmitFirst(PeerKey),
    /// It ends here.
    Drop(DropReason),
}

impl From<Result<PeerKey, DropReason>> for Verdict {
    #[inline(always)]
    fn from(result: Result<PeerKey, DropReason>) -> Self {
        match result {
            Ok(peer) => Self::Admit(peer),
            Err(reason) => Self::Drop(reason),
        }
    }
}

/// A packet to be judged, or a superframe that stands for several.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The IP packet; bytes behind its total length are left alone. If it is admitted, its
    /// addresses, ports and checksums may have been changed, its length never.
    pub packet: &'a mut [u8],
    /// The number of packets that it stands for.
    pub packets: u32,
    /// The sums of those behind the first, where they are still apart and `packet` is the first.
    pub later: Later,
    /// The state of its transport checksum field.
    pub checksum: Checksum,
}

impl<'a> Frame<'a> {
    /// One packet with its checksum.
    #[must_use]
    pub fn packet(packet: &'a mut [u8]) -> Self {
        Self {
            packet,
            packets: 1,
            later: Later::default(),
            checksum: Checksum::Complete,
        }
    }
}

/// The sums of packets that are judged with a first one: of the same addresses, protocol and ports, no
/// fragments, without options, and none of them with SYN or RST.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Later {
    /// Bytes of their payloads.
    pub bytes: usize,
    /// Flags of TCP that any of them has.
    pub tcp_flags: u8,
}
