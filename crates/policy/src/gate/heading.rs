//! The fields of a packet that a verdict needs.

use super::DropReason;
use culvert_packet::ip::{
    IPV4_HEADER_LEN, IPV6_HEADER_LEN, IpVersion, IpView, MAX_EXTENSION_HEADERS, Protocol,
};
use std::net::IpAddr;

const TCP_HEADER_LEN: usize = 20;
const UDP_HEADER_LEN: usize = 8;
const ICMP_HEADER_LEN: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const DESTINATION_OPTIONS: u8 = 60;

/// An address as a number, IPv4 in the low bits: what flows are looked up by.
pub(crate) type AddressBits = u128;

/// The headers of one packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading {
    pub(crate) version: IpVersion,
    pub(crate) protocol: Protocol,
    pub(crate) kind: Kind,
    /// Of TCP; otherwise 0.
    pub(super) tcp_flags: u8,
    /// Of TCP and UDP. A query of ICMP has its identifier here, an answer in the other one.
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
    /// Of a fragment: which datagram it is of.
    pub(super) identification: u32,
    /// True if later fragments of its datagram follow.
    pub(super) is_first_fragment: bool,
    /// The beginning of the transport header, in bytes from the packet's start.
    pub(crate) transport: usize,
    /// Bytes of the packet; of a quoted one 0, as errors cut it short.
    pub(crate) len: usize,
    pub(crate) source: AddressBits,
    pub(crate) destination: AddressBits,
}

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A packet of TCP, UDP, or of a protocol without ports.
    Plain,
    /// A query of ICMP or ICMPv6.
    Query,
    /// An answer to one.
    Answer,
    /// An error of ICMP or ICMPv6 about another packet.
    Error,
    /// A fragment without a transport header.
    LaterFragment,
}

impl Heading {
    /// Of no packet yet.
    pub(super) const NONE: Self = Self {
        version: IpVersion::V4,
        protocol: Protocol(0),
        kind: Kind::LaterFragment,
        tcp_flags: 0,
        source_port: 0,
        destination_port: 0,
        identification: 0,
        is_first_fragment: false,
        transport: 0,
        len: 0,
        source: 0,
        destination: 0,
    };

    /// Reads the headers of the packet at the start of `bytes`; what is behind its total length is
    /// not looked at. (In place: returned in a `Result` they would be copied once more, which takes
    /// a fifth of the whole verdict.)
    #[inline(always)]
    pub(super) fn read(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        let view = IpView::parse(bytes).map_err(|_| DropReason::Malformed)?;
        let packet = view.bytes();
        let transport = view.header_len();
        match view.version() {
            IpVersion::V4 => {
                if transport > IPV4_HEADER_LEN {
                    refuse_source_route(&packet[IPV4_HEADER_LEN..transport])?;
                }
                (self.source, self.destination) = addresses_v4(packet);
            }
            IpVersion::V6 => {
                if view.is_source_routed() {
                    return Err(DropReason::SourceRouted);
                }
                if !view.is_later_fragment() && is_unfinished(view.protocol()) {
                    return Err(DropReason::HeaderChain);
                }
                (self.source, self.destination) = addresses_v6(packet);
            }
        }
        self.version = view.version();
        self.protocol = view.protocol();
        self.transport = transport;
        self.len = packet.len();
        if view.is_fragment() {
            self.read_fragment(&view)?;
            if view.is_later_fragment() {
                self.kind = Kind::LaterFragment;
                return Ok(());
            }
        }
        self.read_transport(view.transport())?;
        if self.kind == Kind::Error && self.is_first_fragment {
            // RFC 792 and RFC 4443 §2.4 (c) keep errors shorter than what is fragmented, and what
            // they quote could not be translated in parts.
            return Err(DropReason::Malformed);
        }
        Ok(())
    }

    #[inline(always)]
    fn read_transport(&mut self, transport: &[u8]) -> Result<(), DropReason> {
        match self.protocol {
            Protocol::TCP => {
                let Some((header, _)) = transport.split_first_chunk::<TCP_HEADER_LEN>() else {
                    return Err(DropReason::Malformed);
                };
                self.tcp_flags = header[13];
                self.read_ports(header);
            }
            Protocol::UDP => {
                let Some((header, _)) = transport.split_first_chunk::<UDP_HEADER_LEN>() else {
                    return Err(DropReason::Malformed);
                };
                self.read_ports(header);
            }
            Protocol::ICMP if self.version == IpVersion::V4 => return self.read_icmp(transport),
            Protocol::ICMPV6 if self.version == IpVersion::V6 => return self.read_icmp(transport),
            _ => self.kind = Kind::Plain,
        }
        Ok(())
    }

    #[inline(always)]
    fn read_ports(&mut self, header: &[u8]) {
        self.kind = Kind::Plain;
        self.source_port = u16::from_be_bytes(array(header, 0));
        self.destination_port = u16::from_be_bytes(array(header, 2));
    }

    #[inline(never)]
    fn read_icmp(&mut self, transport: &[u8]) -> Result<(), DropReason> {
        let Some((header, _)) = transport.split_first_chunk::<ICMP_HEADER_LEN>() else {
            return Err(DropReason::Malformed);
        };
        let kind = match self.version {
            IpVersion::V4 => icmp_v4(header[0]),
            IpVersion::V6 => icmp_v6(header[0]),
        };
        self.kind = kind.ok_or(DropReason::IcmpType)?;
        let identifier = u16::from_be_bytes(array(header, 4));
        match self.kind {
            Kind::Query => self.source_port = identifier,
            Kind::Answer => self.destination_port = identifier,
            Kind::Plain | Kind::Error | Kind::LaterFragment => {}
        }
        Ok(())
    }

    /// Reads the place of a fragment in its datagram.
    #[cold]
    fn read_fragment(&mut self, view: &IpView<'_>) -> Result<(), DropReason> {
        let bytes = view.bytes();
        match view.version() {
            IpVersion::V4 => {
                self.identification = u16::from_be_bytes(array(bytes, 4)).into();
                self.is_first_fragment = !view.is_later_fragment();
            }
            IpVersion::V6 => {
                let chain = walk(bytes);
                // The content of a fragment inside a fragment shows only after two reassemblies.
                let only = chain.fragment.filter(|_| chain.fragments == 1);
                let fragment = only.ok_or(DropReason::HeaderChain)?;
                if fragment.has_more && chain.is_fragment_chained {
                    // Behind options the ports lie where a later fragment could write over them.
                    return Err(DropReason::HeaderChain);
                }
                self.identification = fragment.identification;
                // An atomic fragment (RFC 6946) has neither an offset nor later ones.
                self.is_first_fragment = fragment.has_more && !view.is_later_fragment();
            }
        }
        Ok(())
    }
}

/// The start of a packet that an ICMP error quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quotation {
    pub(crate) heading: Heading,
    /// Its beginning, in bytes from the start of the packet that quotes it.
    pub(crate) start: usize,
}

impl Quotation {
    /// Reads the packet quoted by `packet`, an ICMP error: at least the ports or the identifier
    /// must be there. None if they are not. The quoted packet may be an error itself, which belongs
    /// to no flow.
    pub(super) fn parse(packet: &[u8], error: &Heading) -> Option<Self> {
        let start = error.transport + ICMP_HEADER_LEN;
        let bytes = packet.get(start..error.len)?;
        let heading = match error.version {
            IpVersion::V4 => quoted_v4(bytes)?,
            IpVersion::V6 => quoted_v6(bytes)?,
        };
        Some(Self { heading, start })
    }
}

/// The heading of a packet that something quotes, from its first byte on.
pub(super) fn quoted_heading(bytes: &[u8]) -> Option<Heading> {
    match bytes.first()? >> 4 {
        4 => quoted_v4(bytes),
        6 => quoted_v6(bytes),
        _ => None,
    }
}

fn quoted_v4(bytes: &[u8]) -> Option<Heading> {
    let (fixed, _) = bytes.split_first_chunk::<IPV4_HEADER_LEN>()?;
    let header_len = usize::from(fixed[0] & 0xF) * 4;
    let offset = u16::from_be_bytes([fixed[6], fixed[7]]) & 0x1FFF;
    if fixed[0] >> 4 != 4 || header_len < IPV4_HEADER_LEN || offset != 0 {
        return None;
    }
    quoted(IpVersion::V4, Protocol(fixed[9]), header_len, bytes)
}

fn quoted_v6(bytes: &[u8]) -> Option<Heading> {
    let (fixed, _) = bytes.split_first_chunk::<IPV6_HEADER_LEN>()?;
    if fixed[0] >> 4 != 6 {
        return None;
    }
    let chain = walk(bytes);
    let is_later = chain.fragment.is_some_and(|fragment| fragment.offset != 0);
    if is_later || chain.is_source_routed {
        return None;
    }
    // An unfinished chain ends with a protocol that no flow has.
    quoted(IpVersion::V6, chain.protocol, chain.len, bytes)
}

fn quoted(
    version: IpVersion,
    protocol: Protocol,
    transport: usize,
    bytes: &[u8],
) -> Option<Heading> {
    let (source, destination) = match version {
        IpVersion::V4 => addresses_v4(bytes),
        IpVersion::V6 => addresses_v6(bytes),
    };
    let mut heading = Heading {
        version,
        protocol,
        transport,
        source,
        destination,
        ..Heading::NONE
    };
    // As little as an error has to quote: "64 bits of original data datagram" (RFC 792).
    let there = bytes.get(transport..).filter(|there| there.len() >= 8)?;
    let mut header = [0; TCP_HEADER_LEN];
    let len = there.len().min(TCP_HEADER_LEN);
    header[..len].copy_from_slice(&there[..len]);
    heading.read_transport(&header).ok()?;
    Some(heading)
}

/// The types of RFC 792 and RFC 8335. Redirects (5) are errors that would change routes: refused.
/// Source quench (4) is obsolete (RFC 6633), and so are information and mask requests (RFC 6918).
const fn icmp_v4(kind: u8) -> Option<Kind> {
    match kind {
        3 | 11 | 12 => Some(Kind::Error),
        8 | 13 | 42 => Some(Kind::Query),
        0 | 14 | 43 => Some(Kind::Answer),
        _ => None,
    }
}

/// The types of RFC 4443 and RFC 8335. Neighbour discovery and multicast listeners concern one
/// link, which a tunnel is not.
const fn icmp_v6(kind: u8) -> Option<Kind> {
    match kind {
        1..=4 => Some(Kind::Error),
        128 | 160 => Some(Kind::Query),
        129 | 161 => Some(Kind::Answer),
        _ => None,
    }
}

/// True if the walk over extension headers ended at one of them.
const fn is_unfinished(protocol: Protocol) -> bool {
    matches!(
        protocol.0,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION_OPTIONS
    )
}

/// Refuses the options by which a packet names routers to pass (RFC 791 §3.1: 131 and 137), and
/// options that cannot be read to their end.
#[cold]
fn refuse_source_route(mut options: &[u8]) -> Result<(), DropReason> {
    const END: u8 = 0;
    const NO_OPERATION: u8 = 1;
    const LOOSE_SOURCE_ROUTE: u8 = 131;
    const STRICT_SOURCE_ROUTE: u8 = 137;
    loop {
        options = match options {
            [] | [END, ..] => return Ok(()),
            [NO_OPERATION, rest @ ..] => rest,
            [LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE, ..] => return Err(DropReason::SourceRouted),
            [_, len, ..] if *len >= 2 => match options.get(usize::from(*len)..) {
                Some(rest) => rest,
                None => return Err(DropReason::Malformed),
            },
            _ => return Err(DropReason::Malformed),
        };
    }
}

#[derive(Clone, Copy, Debug)]
struct FragmentHeader {
    /// In units of eight bytes.
    offset: u16,
    has_more: bool,
    identification: u32,
}

/// The extension headers at the start of an IPv6 packet, which may be cut short behind them.
#[derive(Clone, Copy, Debug)]
struct Walk {
    protocol: Protocol,
    len: usize,
    is_source_routed: bool,
    fragments: usize,
    fragment: Option<FragmentHeader>,
    /// True if further headers follow that of a fragment.
    is_fragment_chained: bool,
}

/// Walks as [`IpView::parse`] does, over bytes that need not be a whole packet; `bytes` has a
/// fixed header. A header that is cut short ends the walk behind `bytes`, where no transport header
/// is.
fn walk(bytes: &[u8]) -> Walk {
    let mut walk = Walk {
        protocol: Protocol(bytes[6]),
        len: IPV6_HEADER_LEN,
        is_source_routed: false,
        fragments: 0,
        fragment: None,
        is_fragment_chained: false,
    };
    for _ in 0..MAX_EXTENSION_HEADERS {
        let Some([next, length, high, low, id @ ..]) = bytes
            .get(walk.len..)
            .and_then(|rest| rest.first_chunk::<8>())
        else {
            break;
        };
        let len = match walk.protocol.0 {
            HOP_BY_HOP | DESTINATION_OPTIONS | ROUTING => (usize::from(*length) + 1) * 8,
            FRAGMENT => 8,
            AUTHENTICATION => (usize::from(*length) + 2) * 4,
            _ => break,
        };
        walk.is_source_routed |= walk.protocol.0 == ROUTING;
        walk.is_fragment_chained |= walk.fragment.is_some();
        let is_fragment = walk.protocol.0 == FRAGMENT;
        walk.len += len;
        walk.protocol = Protocol(*next);
        if is_fragment {
            let place = u16::from_be_bytes([*high, *low]);
            let offset = place >> 3;
            walk.fragments += 1;
            walk.fragment = Some(FragmentHeader {
                offset,
                has_more: place & 1 != 0,
                identification: u32::from_be_bytes(*id),
            });
            if offset != 0 {
                break;
            }
        }
    }
    walk
}

#[inline(always)]
fn addresses_v4(packet: &[u8]) -> (AddressBits, AddressBits) {
    let address = |at| AddressBits::from(u32::from_be_bytes(array(packet, at)));
    (address(12), address(16))
}

#[inline(always)]
fn addresses_v6(packet: &[u8]) -> (AddressBits, AddressBits) {
    let address = |at| AddressBits::from_be_bytes(array(packet, at));
    (address(8), address(24))
}

pub(super) fn address_bits(address: IpAddr) -> AddressBits {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

pub(super) fn address(version: IpVersion, bits: AddressBits) -> IpAddr {
    match version {
        IpVersion::V4 => IpAddr::V4((bits as u32).into()),
        IpVersion::V6 => IpAddr::V6(bits.into()),
    }
}

/// `N` bytes at `at`, which the caller knows to be there.
#[inline(always)]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}
