//! A view of an IP packet: RFC 791 and RFC 8200, as far as a tunnel needs it.

mod protocol;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::PacketError;
use crate::checksum::{Sum, pseudo_v4, pseudo_v6};
use crate::ecn::Ecn;
pub use protocol::Protocol;

/// Length of an IPv4 header without options, in bytes.
pub const IPV4_HEADER_LEN: usize = 20;
/// Length of the fixed IPv6 header, in bytes.
pub const IPV6_HEADER_LEN: usize = 40;
/// Extension headers that are walked on the way to the transport header. RFC 8200 §4.1 lists
/// seven that may follow each other, destination options being allowed twice: eight. RFC 8504
/// §5.3 lets a node bound the number.
pub const MAX_EXTENSION_HEADERS: usize = 8;

/// The version of an IP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// An IP packet whose fixed header and lengths have been checked, without anything behind its
/// total length.
#[derive(Debug, Clone, Copy)]
pub struct IpView<'a> {
    /// Exactly the packet: `total_len` bytes.
    packet: &'a [u8],
    version: IpVersion,
    chain: Chain,
}

/// The facts from the headers ahead of the transport header.
#[derive(Debug, Clone, Copy)]
struct Chain {
    /// Length of all of them, at most that of the packet.
    header_len: usize,
    protocol: Protocol,
    fragment: Fragment,
    source_routed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fragment {
    Whole,
    First,
    Later,
}

impl<'a> IpView<'a> {
    /// Parses the packet at the start of `bytes`. Bytes behind its total length are allowed and
    /// not part of the view: WireGuard pads the packets it seals, and their IP length undoes it.
    ///
    /// The walk over IPv6 extension headers ends early if the chain is too long, truncated or of an
    /// unknown kind. The packet can still be routed, and [`IpView::protocol`] then names the header
    /// that was not understood.
    ///
    /// # Errors
    /// [`PacketError::Truncated`], [`PacketError::Version`], [`PacketError::HeaderLength`] and
    /// [`PacketError::TotalLength`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let Some(first) = bytes.first() else {
            return Err(PacketError::Truncated {
                len: 0,
                needed: IPV4_HEADER_LEN,
            });
        };
        match first >> 4 {
            4 => Self::parse_v4(bytes),
            6 => Self::parse_v6(bytes),
            version => Err(PacketError::Version(version)),
        }
    }

    /// Parses the start of a packet that may be cut short, as an ICMP error quotes it. The view holds
    /// what is there: its length is not that of the packet, and there may be no transport header.
    ///
    /// # Errors
    /// As [`Self::parse`], but for a total length beyond `bytes`.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let fixed_len = match bytes.first().map(|first| first >> 4) {
            Some(4) => IPV4_HEADER_LEN,
            Some(6) => IPV6_HEADER_LEN,
            Some(version) => return Err(PacketError::Version(version)),
            None => IPV4_HEADER_LEN,
        };
        if bytes.len() < fixed_len {
            return Err(PacketError::Truncated {
                len: bytes.len(),
                needed: fixed_len,
            });
        }
        match fixed_len {
            IPV4_HEADER_LEN => Self::of_v4(bytes),
            _ => Ok(Self::of_v6(bytes)),
        }
    }

    /// The bytes of the packet, exactly.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.packet
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> IpVersion {
        self.version
    }

    /// True if this is IPv4.
    #[must_use]
    pub fn is_v4(&self) -> bool {
        self.version == IpVersion::V4
    }

    /// Bytes up to the transport header: the IPv4 header with its options, or the IPv6 header
    /// with its extension headers.
    #[must_use]
    pub const fn header_len(&self) -> usize {
        self.chain.header_len
    }

    /// Length of the packet in bytes, as its header says.
    #[must_use]
    pub const fn total_len(&self) -> usize {
        self.packet.len()
    }

    /// The source address.
    #[must_use]
    pub fn source(&self) -> IpAddr {
        match self.version {
            IpVersion::V4 => IpAddr::V4(Ipv4Addr::from(array(self.packet, 12))),
            IpVersion::V6 => IpAddr::V6(Ipv6Addr::from(array(self.packet, 8))),
        }
    }

    /// True if `address` is its source. It costs less than a comparison with [`IpView::source`].
    #[must_use]
    pub fn is_from(&self, address: IpAddr) -> bool {
        match (self.version, address) {
            (IpVersion::V4, IpAddr::V4(address)) => {
                u32::from_be_bytes(array(self.packet, 12)) == address.to_bits()
            }
            (IpVersion::V6, IpAddr::V6(address)) => {
                u128::from_be_bytes(array(self.packet, 8)) == address.to_bits()
            }
            _ => false,
        }
    }

    /// The destination address: on a source-routed packet that of the next waypoint.
    #[must_use]
    pub fn destination(&self) -> IpAddr {
        match self.version {
            IpVersion::V4 => IpAddr::V4(Ipv4Addr::from(array(self.packet, 16))),
            IpVersion::V6 => IpAddr::V6(Ipv6Addr::from(array(self.packet, 24))),
        }
    }

    /// The transport protocol.
    #[must_use]
    pub const fn protocol(&self) -> Protocol {
        self.chain.protocol
    }

    /// The ECN field.
    #[must_use]
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.traffic_class())
    }

    /// The differentiated services codepoint, 0 to 63.
    #[must_use]
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// True if this is a fragment of a datagram, the first one included.
    #[must_use]
    pub fn is_fragment(&self) -> bool {
        self.chain.fragment != Fragment::Whole
    }

    /// True if this is a fragment other than the first, and so has no transport header.
    #[must_use]
    pub fn is_later_fragment(&self) -> bool {
        self.chain.fragment == Fragment::Later
    }

    /// True if routers must not fragment this packet: the DF bit, and every IPv6 packet.
    #[must_use]
    pub fn dont_fragment(&self) -> bool {
        match self.version {
            IpVersion::V4 => self.packet[6] & 0x40 != 0,
            IpVersion::V6 => true,
        }
    }

    /// True if an IPv6 routing header was walked over. The destination may then differ from the one
    /// that the transport checksum covers.
    #[must_use]
    pub const fn is_source_routed(&self) -> bool {
        self.chain.source_routed
    }

    /// The transport header and its payload.
    #[must_use]
    pub fn transport(&self) -> &'a [u8] {
        &self.packet[self.chain.header_len..]
    }

    /// Source and destination port of a TCP segment or UDP datagram that has them: none on later
    /// fragments and truncated headers.
    #[must_use]
    pub fn ports(&self) -> Option<(u16, u16)> {
        let has_ports = matches!(self.chain.protocol, Protocol::TCP | Protocol::UDP);
        match self.transport() {
            [a, b, c, d, ..] if has_ports && !self.is_later_fragment() => {
                Some((u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])))
            }
            _ => None,
        }
    }

    /// The sum of the pseudo-header for `len` bytes of transport header and payload.
    #[must_use]
    pub fn pseudo_header(&self, len: usize) -> Sum {
        let protocol = self.chain.protocol;
        match (self.source(), self.destination()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                pseudo_v4(source, destination, protocol, len)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                pseudo_v6(source, destination, protocol, len)
            }
            // Both come from one header.
            _ => Sum::ZERO,
        }
    }

    fn traffic_class(&self) -> u8 {
        match self.version {
            IpVersion::V4 => self.packet[1],
            IpVersion::V6 => self.packet[0] << 4 | self.packet[1] >> 4,
        }
    }

    fn parse_v4(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let packet = trim(bytes, IPV4_HEADER_LEN, |bytes| {
            usize::from(u16::from_be_bytes(array(bytes, 2)))
        })?;
        Self::of_v4(packet)
    }

    /// Reads what is behind the lengths; `packet` has a fixed header.
    fn of_v4(packet: &'a [u8]) -> Result<Self, PacketError> {
        let header_len = usize::from(packet[0] & 0xF) * 4;
        if header_len < IPV4_HEADER_LEN || header_len > packet.len() {
            return Err(PacketError::HeaderLength(header_len));
        }
        let position = u16::from_be_bytes(array(packet, 6));
        let fragment = match (position & 0x1FFF, position & 0x2000 != 0) {
            (0, false) => Fragment::Whole,
            (0, true) => Fragment::First,
            _ => Fragment::Later,
        };
        let chain = Chain {
            header_len,
            protocol: Protocol(packet[9]),
            fragment,
            source_routed: false,
        };
        Ok(Self {
            packet,
            version: IpVersion::V4,
            chain,
        })
    }

    fn parse_v6(bytes: &'a [u8]) -> Result<Self, PacketError> {
        let packet = trim(bytes, IPV6_HEADER_LEN, |bytes| {
            IPV6_HEADER_LEN + usize::from(u16::from_be_bytes(array(bytes, 4)))
        })?;
        Ok(Self::of_v6(packet))
    }

    /// Reads what is behind the lengths; `packet` has a fixed header.
    fn of_v6(packet: &'a [u8]) -> Self {
        Self {
            packet,
            version: IpVersion::V6,
            chain: walk_extensions(packet),
        }
    }
}

/// Cuts `bytes` down to the packet's total length once the fixed header is known to be there.
fn trim(
    bytes: &[u8],
    fixed_len: usize,
    total_len: impl Fn(&[u8]) -> usize,
) -> Result<&[u8], PacketError> {
    if bytes.len() < fixed_len {
        return Err(PacketError::Truncated {
            len: bytes.len(),
            needed: fixed_len,
        });
    }
    let claimed = total_len(bytes);
    if claimed < fixed_len {
        return Err(PacketError::TotalLength {
            claimed,
            len: bytes.len(),
        });
    }
    bytes.get(..claimed).ok_or(PacketError::TotalLength {
        claimed,
        len: bytes.len(),
    })
}

/// Walks from the fixed IPv6 header to the transport header.
fn walk_extensions(packet: &[u8]) -> Chain {
    let mut chain = Chain {
        header_len: IPV6_HEADER_LEN,
        protocol: Protocol(packet[6]),
        fragment: Fragment::Whole,
        source_routed: false,
    };
    for _ in 0..MAX_EXTENSION_HEADERS {
        let [next, length, high, low, ..] = packet[chain.header_len..] else {
            break;
        };
        let extension_len = match chain.protocol {
            Protocol::HOP_BY_HOP | Protocol::DESTINATION_OPTIONS | Protocol::ROUTING => {
                (usize::from(length) + 1) * 8
            }
            Protocol::FRAGMENT => 8,
            // RFC 4302 §2.2: in 32-bit words, minus two.
            Protocol::AUTHENTICATION => (usize::from(length) + 2) * 4,
            _ => break,
        };
        if chain.header_len + extension_len > packet.len() {
            break;
        }
        chain.source_routed |= chain.protocol == Protocol::ROUTING;
        if chain.protocol == Protocol::FRAGMENT {
            let later = u16::from_be_bytes([high, low]) & 0xFFF8 != 0;
            chain.fragment = if later {
                Fragment::Later
            } else {
                Fragment::First
            };
        }
        chain.header_len += extension_len;
        chain.protocol = Protocol(next);
        if chain.fragment == Fragment::Later {
            break;
        }
    }
    chain
}

/// `N` bytes at `offset`, which the caller knows to be there.
#[inline(always)]
pub(crate) fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}
