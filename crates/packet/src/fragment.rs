//! Splitting a packet into fragments, for a path that is narrower than what the packet's protocol promises.
//!
//! RFC 8200 section 5: "On any link that cannot convey a 1280-octet packet in one piece, link-specific fragmentation
//! and reassembly must be provided at a layer below IPv6." A tunnel over a path of 1,280 bytes is such a link, and
//! WireGuard has no layer for it. So the packet itself is split, and its destination reassembles it, whatever
//! program the other end of the tunnel is. IPv4 allows that to every router (RFC 791 section 3.2).

use crate::checksum::Sum;
use crate::ip::{IPV6_HEADER_LEN, IpView, Protocol};

/// Length of the fragment header of IPv6, in bytes (RFC 8200 section 4.5).
const FRAGMENT_HEADER_LEN: usize = 8;
/// Fragments begin at multiples of this many bytes.
const UNIT: usize = 8;
const MORE_FRAGMENTS_V4: u16 = 0x2000;
const OFFSET_V4: u16 = 0x1fff;
const MORE_FRAGMENTS_V6: u16 = 1;

/// A plan to split one packet.
#[derive(Clone, Copy, Debug)]
pub struct Fragments<'a> {
    packet: &'a [u8],
    kind: Kind,
    /// Bytes of the packet that each fragment repeats.
    repeated: usize,
    /// The place in the packet from which on it is split.
    payload: usize,
    /// Bytes of the payload in each fragment but the last, a multiple of [`UNIT`].
    chunk: usize,
    /// Of the packet itself where it is a fragment already, in bytes.
    offset: usize,
    /// The packet itself is a fragment, and not the last.
    more: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    V4,
    V6 {
        next_header: u8,
        identification: u32,
    },
}

impl<'a> Fragments<'a> {
    /// Splits `packet` into fragments of at most `longest` bytes. `identification` is for a packet of IPv6 that has
    /// none yet: another one for each packet (RFC 8200 section 4.5).
    ///
    /// `None` if it may not be split: an IPv4 packet whose sender forbids it or that has options, or an IPv6 packet
    /// with other extension headers. `None` also if `longest` has no room for a header and eight bytes.
    #[must_use]
    pub fn plan(packet: &'a [u8], longest: usize, identification: u32) -> Option<Self> {
        let view = IpView::parse(packet).ok()?;
        let packet = view.bytes();
        if view.is_v4() {
            Self::plan_v4(view, packet, longest)
        } else {
            Self::plan_v6(packet, longest, identification)
        }
    }

    fn plan_v4(view: IpView<'a>, packet: &'a [u8], longest: usize) -> Option<Self> {
        if view.dont_fragment() || view.header_len() != crate::ip::IPV4_HEADER_LEN {
            return None;
        }
        let field = u16::from_be_bytes([packet[6], packet[7]]);
        Self {
            packet,
            kind: Kind::V4,
            repeated: view.header_len(),
            payload: view.header_len(),
            chunk: 0,
            offset: usize::from(field & OFFSET_V4) * UNIT,
            more: field & MORE_FRAGMENTS_V4 != 0,
        }
        .cut_to(longest, view.header_len())
    }

    fn plan_v6(packet: &'a [u8], longest: usize, identification: u32) -> Option<Self> {
        const EXTENSIONS: [Protocol; 4] = [
            Protocol::HOP_BY_HOP,
            Protocol::ROUTING,
            Protocol::AUTHENTICATION,
            Protocol::DESTINATION_OPTIONS,
        ];
        let next_header = *packet.get(6)?;
        if EXTENSIONS.contains(&Protocol(next_header)) {
            return None;
        }
        let whole = Self {
            packet,
            kind: Kind::V6 {
                next_header,
                identification,
            },
            repeated: IPV6_HEADER_LEN,
            payload: IPV6_HEADER_LEN,
            chunk: 0,
            offset: 0,
            more: false,
        };
        let plan = if Protocol(next_header) == Protocol::FRAGMENT {
            let header = packet
                .get(IPV6_HEADER_LEN..)?
                .first_chunk::<FRAGMENT_HEADER_LEN>()?;
            let &[next_header, _, f0, f1, i0, i1, i2, i3] = header;
            let field = u16::from_be_bytes([f0, f1]);
            Self {
                kind: Kind::V6 {
                    next_header,
                    identification: u32::from_be_bytes([i0, i1, i2, i3]),
                },
                payload: IPV6_HEADER_LEN + FRAGMENT_HEADER_LEN,
                offset: usize::from(field & !7),
                more: field & MORE_FRAGMENTS_V6 != 0,
                ..whole
            }
        } else {
            whole
        };
        plan.cut_to(longest, IPV6_HEADER_LEN + FRAGMENT_HEADER_LEN)
    }

    fn cut_to(mut self, longest: usize, header_len: usize) -> Option<Self> {
        let room = longest.checked_sub(header_len)?;
        self.chunk = room - room % UNIT;
        // The 13 bits of the offset count units.
        let end = self.offset + self.packet.len().checked_sub(self.payload)?;
        (self.chunk > 0 && end <= usize::from(OFFSET_V4) * UNIT).then_some(self)
    }

    /// The number of fragments.
    #[must_use]
    pub fn count(&self) -> usize {
        (self.packet.len() - self.payload).div_ceil(self.chunk)
    }

    /// Length of fragment `index`, headers included. All but the last are equally long.
    #[must_use]
    pub fn len(&self, index: usize) -> usize {
        self.header_len() + self.part(index).len()
    }

    /// Writes fragment `index` into `out`, which has [`Self::len`] bytes.
    ///
    /// # Panics
    /// If it has another length, or there is no such fragment.
    pub fn write(&self, index: usize, out: &mut [u8]) {
        let part = self.part(index);
        let more = self.more || index + 1 < self.count();
        let offset = self.offset + index * self.chunk;
        let len = out.len();
        let (header, payload) = out.split_at_mut(self.header_len());
        header[..self.repeated].copy_from_slice(&self.packet[..self.repeated]);
        payload.copy_from_slice(part);
        match self.kind {
            Kind::V4 => {
                let flag = if more { MORE_FRAGMENTS_V4 } else { 0 };
                let field = units(offset) | flag;
                header[2..4].copy_from_slice(&in_u16(len).to_be_bytes());
                header[6..8].copy_from_slice(&field.to_be_bytes());
                header[10..12].fill(0);
                let checksum = Sum::of(header).checksum();
                header[10..12].copy_from_slice(&checksum.to_be_bytes());
            }
            Kind::V6 {
                next_header,
                identification,
            } => {
                let field = units(offset) << 3 | u16::from(more);
                header[4..6].copy_from_slice(&in_u16(len - IPV6_HEADER_LEN).to_be_bytes());
                header[6] = Protocol::FRAGMENT.0;
                let header = &mut header[IPV6_HEADER_LEN..];
                header[..2].copy_from_slice(&[next_header, 0]);
                header[2..4].copy_from_slice(&field.to_be_bytes());
                header[4..].copy_from_slice(&identification.to_be_bytes());
            }
        }
    }

    fn header_len(&self) -> usize {
        match self.kind {
            Kind::V4 => self.repeated,
            Kind::V6 { .. } => self.repeated + FRAGMENT_HEADER_LEN,
        }
    }

    fn part(&self, index: usize) -> &'a [u8] {
        let payload = &self.packet[self.payload..];
        let start = index * self.chunk;
        &payload[start..(start + self.chunk).min(payload.len())]
    }
}

fn units(bytes: usize) -> u16 {
    in_u16(bytes / UNIT)
}

/// Lengths here are below [`crate::MAX_PACKET_LEN`].
fn in_u16(value: usize) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}
