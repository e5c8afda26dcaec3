//! Cutting a frame that was read from the TUN into IP packets: what a network card does for a
//! kernel that hands it superframes (TSO, USO) and unfinished checksums.

use std::net::IpAddr;

use crate::checksum::Sum;
use crate::ecn::Ecn;
use crate::ip::{IPV6_HEADER_LEN, IpVersion, IpView, Protocol};
use crate::{Gso, PacketError, VnetHeader, tcp, udp};

/// The most packets that one frame is cut into.
///
/// The kernel's smallest TCP segment is 8 bytes of payload (`TCP_MIN_GSO_SIZE`: the smallest
/// accepted MSS, 48, less the largest TCP options, 40), so the longest frame, 65,535 bytes, has
/// at most ⌊65,535 / 8⌋ of them. Nothing is allocated per segment, so the bound only keeps a
/// malformed frame from asking for tens of thousands of packets of a byte each.
pub const MAX_SEGMENTS: usize = crate::MAX_PACKET_LEN / 8;

/// A plan to cut a frame read from the TUN into packets. The parts that all packets share are
/// computed once, above all the sums of the headers.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    ip: IpSummary,
    kind: Kind,
    /// Length of the frame's IP packet; what the frame has behind it is ignored.
    total_len: usize,
    /// Length of all headers, IP and transport, each packet carries its own copy of; 0 for a
    /// frame that is one packet already.
    header_len: usize,
    /// Payload bytes of every packet but the last.
    stride: usize,
    segments: usize,
}

/// The fields that the IP headers of all packets of a frame share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpSummary {
    /// The version.
    pub version: IpVersion,
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub destination: IpAddr,
    /// The ECN field.
    pub ecn: Ecn,
    /// True if routers must not fragment it; always so for IPv6.
    pub dont_fragment: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// One complete packet.
    Whole,
    /// One packet whose checksum is to be finished.
    Unfinished {
        /// The start of the summed bytes.
        start: usize,
        /// The place of the checksum field.
        field: usize,
    },
    Tcp(Template),
    Udp(Template),
}

/// The parts that the headers of all segments share.
#[derive(Debug, Clone, Copy)]
struct Template {
    ip: IpTemplate,
    /// The start of the transport header.
    transport: usize,
    /// The sum of the pseudo-header and the transport header, without the fields that differ.
    sum: Sum,
}

#[derive(Debug, Clone, Copy)]
enum IpTemplate {
    V4 {
        /// The identification of the first segment.
        id: u16,
        /// The sum of the header without total length, identification and checksum.
        sum: Sum,
    },
    V6,
}

impl Cut {
    /// Plans the packets of `frame`, the bytes behind the vnet header.
    ///
    /// The kernel's `header_len` is not trusted, the headers are parsed again. The same `frame`
    /// must be given to [`Cut::write_segment`].
    ///
    /// # Errors
    /// Everything that [`IpView::parse`] refuses; [`PacketError::ChecksumField`] where the
    /// unfinished checksum lies outside of the packet; for superframes
    /// [`PacketError::GsoMismatch`], [`PacketError::GsoSize`], [`PacketError::GsoUnsplittable`],
    /// [`PacketError::HeaderLength`] and [`PacketError::TooManySegments`].
    pub fn plan(vnet: &VnetHeader, frame: &[u8]) -> Result<Self, PacketError> {
        let view = IpView::parse(frame)?;
        let ip = IpSummary {
            version: view.version(),
            source: view.source(),
            destination: view.destination(),
            ecn: view.ecn(),
            dont_fragment: view.dont_fragment(),
        };
        let whole = Self {
            ip,
            kind: Kind::Whole,
            total_len: view.total_len(),
            header_len: 0,
            stride: view.total_len(),
            segments: 1,
        };
        if view.total_len() > crate::MAX_PACKET_LEN {
            return Err(PacketError::TotalLength {
                claimed: view.total_len(),
                len: frame.len(),
            });
        }
        match vnet.gso {
            Gso::None if !vnet.needs_checksum => Ok(whole),
            Gso::None => whole.with_unfinished_checksum(vnet),
            Gso::Tcp4 | Gso::Tcp6 | Gso::Udp => whole.into_segments(vnet, &view),
        }
    }

    /// The number of packets: at least one, at most [`MAX_SEGMENTS`].
    #[must_use]
    pub const fn segments(&self) -> usize {
        self.segments
    }

    /// Length of packet `index` in bytes, IP header included. All are equal but the last, which
    /// is never longer.
    #[must_use]
    pub const fn segment_len(&self, index: usize) -> usize {
        self.header_len + self.payload_len(index)
    }

    /// The fields that the IP headers share.
    #[must_use]
    pub const fn ip(&self) -> IpSummary {
        self.ip
    }

    /// Writes packet `index` into `out`, complete and with all checksums right.
    ///
    /// # Panics
    /// If `index` is not below [`Cut::segments`], if `out` is not exactly
    /// [`Cut::segment_len`] long, or if `frame` is shorter than the planned one.
    pub fn write_segment(&self, frame: &[u8], index: usize, out: &mut [u8]) {
        assert!(
            index < self.segments,
            "segment {index} of {}",
            self.segments
        );
        assert_eq!(out.len(), self.segment_len(index));
        match &self.kind {
            Kind::Whole => out.copy_from_slice(&frame[..self.total_len]),
            Kind::Unfinished { start, field } => {
                let (before, summed) = out.split_at_mut(*start);
                before.copy_from_slice(&frame[..*start]);
                // The field's own content is part of the sum: it holds the pseudo-header's.
                let sum = Sum::of_copy(&frame[*start..self.total_len], summed);
                put_u16(summed, field - start, sum.checksum_never_zero());
            }
            Kind::Tcp(template) => self.write_tcp(template, frame, index, out),
            Kind::Udp(template) => self.write_udp(template, frame, index, out),
        }
    }

    const fn payload_len(&self, index: usize) -> usize {
        let rest = self.total_len - self.header_len - index * self.stride;
        if rest < self.stride {
            rest
        } else {
            self.stride
        }
    }

    fn with_unfinished_checksum(self, vnet: &VnetHeader) -> Result<Self, PacketError> {
        let start = usize::from(vnet.checksum_start);
        let field = start + usize::from(vnet.checksum_offset);
        if field + 2 > self.total_len {
            return Err(PacketError::ChecksumField);
        }
        Ok(Self {
            kind: Kind::Unfinished { start, field },
            ..self
        })
    }

    fn into_segments(self, vnet: &VnetHeader, view: &IpView<'_>) -> Result<Self, PacketError> {
        let expected = match vnet.gso {
            Gso::Tcp4 => (IpVersion::V4, Protocol::TCP),
            Gso::Tcp6 => (IpVersion::V6, Protocol::TCP),
            Gso::Udp | Gso::None => (view.version(), Protocol::UDP),
        };
        if (view.version(), view.protocol()) != expected {
            return Err(PacketError::GsoMismatch);
        }
        if view.is_fragment() || view.is_source_routed() {
            return Err(PacketError::GsoUnsplittable);
        }
        let stride = usize::from(vnet.gso_size);
        if stride == 0 {
            return Err(PacketError::GsoSize);
        }
        let (transport_len, kind) = if view.protocol() == Protocol::TCP {
            let (len, sum) = tcp_common(view)?;
            (len, Kind::Tcp(Template::new(view, sum)))
        } else {
            let (len, sum) = udp_common(view)?;
            (len, Kind::Udp(Template::new(view, sum)))
        };
        let header_len = view.header_len() + transport_len;
        // A superframe without payload is one packet still.
        let segments = (view.total_len() - header_len).div_ceil(stride).max(1);
        if segments > MAX_SEGMENTS {
            return Err(PacketError::TooManySegments(segments));
        }
        Ok(Self {
            kind,
            header_len,
            stride,
            segments,
            ..self
        })
    }

    fn write_tcp(&self, template: &Template, frame: &[u8], index: usize, out: &mut [u8]) {
        let (header, payload_sum) = self.copy_segment(frame, index, out);
        template.ip.patch(header, self.segment_len(index), index);
        let segment_len = self.segment_len(index) - template.transport;
        let header = &mut header[template.transport..];

        let sequence = u32::from_be_bytes(crate::ip::array(header, tcp::SEQUENCE));
        let sequence = sequence.wrapping_add((index * self.stride) as u32);
        header[tcp::SEQUENCE..][..4].copy_from_slice(&sequence.to_be_bytes());
        // The kernel's own segmentation (`tcp_gso_segment`) does the same: the end of the train
        // is told by its last segment, the reduced window (RFC 3168 §6.1.2) by its first.
        if index + 1 < self.segments {
            header[tcp::FLAGS] &= !(tcp::FIN | tcp::PSH);
        }
        if index > 0 {
            header[tcp::FLAGS] &= !tcp::CWR;
        }
        let flags = u16::from_be_bytes(crate::ip::array(header, tcp::DATA_OFFSET));
        let sum = template
            .sum
            .plus(payload_sum)
            .plus_u16(segment_len as u16)
            .plus_u32(sequence)
            .plus_u16(flags);
        put_u16(header, tcp::CHECKSUM, sum.checksum());
    }

    fn write_udp(&self, template: &Template, frame: &[u8], index: usize, out: &mut [u8]) {
        let (header, payload_sum) = self.copy_segment(frame, index, out);
        template.ip.patch(header, self.segment_len(index), index);
        let datagram_len = (self.segment_len(index) - template.transport) as u16;
        let header = &mut header[template.transport..];

        put_u16(header, udp::LENGTH, datagram_len);
        let sum = template
            .sum
            .plus(payload_sum)
            // Once for the pseudo-header, once for the header's own field.
            .plus_u16(datagram_len)
            .plus_u16(datagram_len);
        put_u16(header, udp::CHECKSUM, sum.checksum_never_zero());
    }

    /// Copies headers and payload; returns the headers, to be patched, and the payload's sum.
    #[inline(always)]
    fn copy_segment<'o>(
        &self,
        frame: &[u8],
        index: usize,
        out: &'o mut [u8],
    ) -> (&'o mut [u8], Sum) {
        let (header, payload) = out.split_at_mut(self.header_len);
        header.copy_from_slice(&frame[..self.header_len]);
        let start = self.header_len + index * self.stride;
        let sum = Sum::of_copy(&frame[start..start + payload.len()], payload);
        (header, sum)
    }
}

impl Template {
    fn new(view: &IpView<'_>, transport_sum: Sum) -> Self {
        Self {
            ip: IpTemplate::new(view),
            transport: view.header_len(),
            sum: view.pseudo_header(0).plus(transport_sum),
        }
    }
}

impl IpTemplate {
    fn new(view: &IpView<'_>) -> Self {
        match view.version() {
            IpVersion::V4 => {
                let header = &view.bytes()[..view.header_len()];
                Self::V4 {
                    id: u16::from_be_bytes([header[4], header[5]]),
                    sum: Sum::of(&header[..2])
                        .plus(Sum::of(&header[6..10]))
                        .plus(Sum::of(&header[12..])),
                }
            }
            IpVersion::V6 => Self::V6,
        }
    }

    /// Stamps packet `index`, `total_len` bytes long.
    #[inline(always)]
    fn patch(self, header: &mut [u8], total_len: usize, index: usize) {
        match self {
            Self::V4 { id, sum } => {
                // As the kernel's segmentation counts (`inet_gso_segment`), with DF set too.
                let id = id.wrapping_add(index as u16);
                let sum = sum.plus_u16(total_len as u16).plus_u16(id);
                put_u16(header, 2, total_len as u16);
                put_u16(header, 4, id);
                put_u16(header, 10, sum.checksum());
            }
            Self::V6 => {
                put_u16(header, 4, (total_len - IPV6_HEADER_LEN) as u16);
            }
        }
    }
}

/// Length of the TCP header and its sum without sequence number, flags (with the data offset
/// beside them) and checksum.
fn tcp_common(view: &IpView<'_>) -> Result<(usize, Sum), PacketError> {
    let segment = view.transport();
    let Some(len) = tcp::header_len(segment) else {
        return Err(PacketError::HeaderLength(segment.len()));
    };
    let sum = Sum::of(&segment[..tcp::SEQUENCE])
        .plus(Sum::of(&segment[tcp::ACKNOWLEDGMENT..tcp::DATA_OFFSET]))
        .plus(Sum::of(&segment[tcp::WINDOW..tcp::CHECKSUM]))
        .plus(Sum::of(&segment[tcp::URGENT..len]));
    Ok((len, sum))
}

/// Length of the UDP header and its sum without length and checksum.
fn udp_common(view: &IpView<'_>) -> Result<(usize, Sum), PacketError> {
    let datagram = view.transport();
    if datagram.len() < udp::HEADER_LEN {
        return Err(PacketError::HeaderLength(datagram.len()));
    }
    Ok((udp::HEADER_LEN, Sum::of(&datagram[..udp::LENGTH])))
}

#[inline(always)]
fn put_u16(bytes: &mut [u8], offset: usize, value: u16) {
    bytes[offset..offset + 2].copy_from_slice(&value.to_be_bytes());
}
