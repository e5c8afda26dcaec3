//! A group that leaves the coalescer.

use std::ops::Range;

use super::group::Group;
use crate::VnetHeader;

/// Packets that become one frame, or one that stayed alone, whose headers are still those that came.
///
/// A check of headers needs to look only at the first packet. The others have its addresses,
/// protocol and ports, and only those TCP flags that it has or that [`Self::later_tcp_flags`]
/// lists.
#[derive(Debug)]
pub struct Gathered<'a> {
    group: &'a Group,
    buffer: &'a mut [u8],
    /// The first packet, and the payloads of the others.
    parts: &'a [Range<usize>],
}

impl<'a> Gathered<'a> {
    pub(super) fn new(group: &'a Group, buffer: &'a mut [u8], parts: &'a [Range<usize>]) -> Self {
        Self {
            group,
            buffer,
            parts,
        }
    }

    /// The number of packets.
    #[must_use]
    pub const fn packets(&self) -> usize {
        self.parts.len()
    }

    /// The first packet. Addresses, ports and checksums may be changed, for all of them; lengths may
    /// not.
    pub fn first(&mut self) -> &mut [u8] {
        &mut self.buffer[self.parts[0].clone()]
    }

    /// Bytes of payload behind the first packet's.
    #[must_use]
    pub fn later_bytes(&self) -> usize {
        self.parts[1..].iter().map(Range::len).sum()
    }

    /// Flags of TCP that packets behind the first have; no packet with SYN, RST or URG is ever there.
    #[must_use]
    pub const fn later_tcp_flags(&self) -> u8 {
        self.group.later_tcp_flags()
    }

    /// Makes one frame of it: the vnet header, the buffer, and the parts of it that make up the frame,
    /// the first with the headers and the first payload, the others payloads.
    ///
    /// A group of several has its first packet's headers patched in place: lengths, IPv4 header
    /// checksum, FIN and PSH of the last packet, and the pseudo-header's sum in the checksum field. A
    /// packet that stayed alone is left as it is, with an empty vnet header: the kernel checks it.
    #[must_use]
    pub fn finish(self) -> (VnetHeader, &'a [u8], &'a [Range<usize>]) {
        let vnet = self.group.finish(self.buffer);
        (vnet, self.buffer, self.parts)
    }
}
