//! ICMP errors, written for the inside and read from a peer: RFC 792, RFC 1191, RFC 1812 §4.3.2 for IPv4,
//! RFC 4443 for IPv6.

mod quoted;

pub use quoted::{Unexpected, about_own_packet};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::{Sum, pseudo_v6};
use crate::ip::{IPV4_HEADER_LEN, IPV6_HEADER_LEN, IpVersion, IpView, Protocol};

/// The longest ICMPv4 error, in bytes. RFC 1812 §4.3.2.3: "as much of the original datagram as
/// possible without the length of the ICMP datagram exceeding 576 bytes".
pub const MAX_V4_LEN: usize = 576;
/// The longest ICMPv6 error, in bytes. RFC 4443 §2.4 (c): as much of the packet as fits "without
/// making the error message packet exceed the minimum IPv6 MTU".
pub const MAX_V6_LEN: usize = 1280;

/// Type, code, checksum and the four bytes that depend on the type.
const ICMP_HEADER_LEN: usize = 8;
/// Time to live of what we send: the recommended default (RFC 1700).
const HOP_LIMIT: u8 = 64;
/// RFC 1812 §4.3.2.5: errors have precedence 6, internetwork control.
const TOS_INTERNETWORK_CONTROL: u8 = 0xC0;

/// The reason why a packet cannot be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// There is no route to the destination.
    NoRoute,
    /// There is a route, but the host behind it cannot be reached.
    Host,
    /// Policy forbids it.
    Prohibited,
    /// Nobody listens on the port.
    Port,
}

impl Unreachable {
    /// The code of ICMPv4 type 3 (RFC 1812 §5.2.7.1).
    const fn v4_code(self) -> u8 {
        match self {
            Self::NoRoute => 0,
            Self::Host => 1,
            Self::Prohibited => 13,
            Self::Port => 3,
        }
    }

    /// The code of ICMPv6 type 1 (RFC 4443 §3.1).
    const fn v6_code(self) -> u8 {
        match self {
            Self::NoRoute => 0,
            Self::Prohibited => 1,
            Self::Host => 3,
            Self::Port => 4,
        }
    }
}

/// Writes "fragmentation needed and DF set" (RFC 1191) or "packet too big" (RFC 4443 §3.2) for
/// `original` into `out` and returns its length in bytes. It comes from the original's
/// destination, as the host has routes for that.
///
/// `None` where no error may be sent: about an IPv4 packet that may be fragmented, an ICMP error, a
/// later fragment, a packet from or to no single host; and where `out` is too short. [`MAX_V6_LEN`]
/// bytes always suffice. The caller must limit the rate of errors.
#[must_use]
pub fn packet_too_big(original: &[u8], mtu: u16, out: &mut [u8]) -> Option<usize> {
    let original = IpView::parse(original).ok()?;
    if !original.dont_fragment() {
        return None;
    }
    let (from, rest) = (original.destination(), u32::from(mtu));
    match original.version() {
        IpVersion::V4 => write_error(&original, from, [3, 4], rest, out),
        IpVersion::V6 => write_error(&original, from, [2, 0], rest, out),
    }
}

/// Writes "destination unreachable" for `original` into `out` and returns its length in bytes. Of the
/// original there may be as little as an error quotes.
///
/// `None` where no error may be sent, as for [`packet_too_big`] but for the first case.
#[must_use]
pub fn unreachable(original: &[u8], kind: Unreachable, out: &mut [u8]) -> Option<usize> {
    let original = IpView::parse(original).or_else(|_| IpView::parse_quoted(original));
    let original = original.ok()?;
    write_unreachable(&original, original.destination(), kind, out)
}

/// Writes the same as the peer's own word to the sender's tunnel: it comes from the very address that it
/// goes to, which is nobody else's, so that [`about_own_packet`] knows it.
#[must_use]
pub fn refusal(original: &[u8], kind: Unreachable, out: &mut [u8]) -> Option<usize> {
    let original = IpView::parse(original).ok()?;
    write_unreachable(&original, original.source(), kind, out)
}

fn write_unreachable(
    original: &IpView<'_>,
    from: IpAddr,
    kind: Unreachable,
    out: &mut [u8],
) -> Option<usize> {
    match original.version() {
        IpVersion::V4 => write_error(original, from, [3, kind.v4_code()], 0, out),
        IpVersion::V6 => write_error(original, from, [1, kind.v6_code()], 0, out),
    }
}

fn write_error(
    original: &IpView<'_>,
    from: IpAddr,
    kind: [u8; 2],
    rest: u32,
    out: &mut [u8],
) -> Option<usize> {
    if !deserves_error(original) {
        return None;
    }
    match (from, original.source()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let (out, len) = quote(original, IPV4_HEADER_LEN, MAX_V4_LEN, out)?;
            let (ip, icmp) = out.split_at_mut(IPV4_HEADER_LEN);
            write_v4_header(ip, from, to, len);
            write_icmp(icmp, kind, rest, Sum::ZERO);
            Some(len)
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let (out, len) = quote(original, IPV6_HEADER_LEN, MAX_V6_LEN, out)?;
            let (ip, icmp) = out.split_at_mut(IPV6_HEADER_LEN);
            write_v6_header(ip, from, to, icmp.len());
            let pseudo = pseudo_v6(from, to, Protocol::ICMPV6, icmp.len());
            write_icmp(icmp, kind, rest, pseudo);
            Some(len)
        }
        // Both are of one header's family.
        _ => None,
    }
}

/// RFC 1812 §4.3.2.7 and RFC 4443 §2.4 (e): no error about an error, a later fragment, or a
/// packet that does not name one host as its source and one as its destination.
fn deserves_error(original: &IpView<'_>) -> bool {
    !original.is_later_fragment()
        && is_single_host(original.source())
        && is_single_host(original.destination())
        && !is_icmp_error(original)
}

fn is_single_host(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            !address.is_unspecified()
                && !address.is_loopback()
                // Multicast, class E and the limited broadcast.
                && address.octets()[0] < 224
        }
        IpAddr::V6(address) => {
            !address.is_unspecified() && !address.is_loopback() && !address.is_multicast()
        }
    }
}

/// True if the packet is itself an ICMP error, or might be one: an ICMP packet without a type.
#[must_use]
pub fn is_icmp_error(original: &IpView<'_>) -> bool {
    let kind = original.transport().first();
    match (original.version(), original.protocol()) {
        // Everything but the queries, echo and its reply, router discovery, timestamps,
        // information, address masks (RFC 1122 §3.2.2), and the extended echo (RFC 8335).
        (IpVersion::V4, Protocol::ICMP) => {
            !kind.is_some_and(|kind| matches!(kind, 0 | 8..=10 | 13..=18 | 42 | 43))
        }
        // "Error messages are identified as such by a zero in the high-order bit of their message
        // Type field values" (RFC 4443 §2.1); redirects are to be treated as errors (§2.4 (e.2)).
        (IpVersion::V6, Protocol::ICMPV6) => kind.is_none_or(|&kind| kind < 128 || kind == 137),
        _ => false,
    }
}

/// Copies as much of the original as may be quoted behind the headers; returns the error's bytes
/// and length.
fn quote<'o>(
    original: &IpView<'_>,
    ip_header_len: usize,
    max_len: usize,
    out: &'o mut [u8],
) -> Option<(&'o mut [u8], usize)> {
    let headers = ip_header_len + ICMP_HEADER_LEN;
    let quoted = original.total_len().min(max_len - headers);
    let out = out.get_mut(..headers + quoted)?;
    out[headers..].copy_from_slice(&original.bytes()[..quoted]);
    Some((out, headers + quoted))
}

fn write_v4_header(ip: &mut [u8], from: Ipv4Addr, to: Ipv4Addr, len: usize) {
    ip.fill(0);
    ip[0] = 0x45;
    ip[1] = TOS_INTERNETWORK_CONTROL;
    ip[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    // DF: an atomic datagram needs no identification (RFC 6864 §4.1).
    ip[6] = 0x40;
    ip[8] = HOP_LIMIT;
    ip[9] = Protocol::ICMP.0;
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..20].copy_from_slice(&to.octets());
    let sum = Sum::of(ip).checksum();
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn write_v6_header(ip: &mut [u8], from: Ipv6Addr, to: Ipv6Addr, payload_len: usize) {
    ip.fill(0);
    ip[0] = 0x60;
    ip[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
    ip[6] = Protocol::ICMPV6.0;
    ip[7] = HOP_LIMIT;
    ip[8..24].copy_from_slice(&from.octets());
    ip[24..40].copy_from_slice(&to.octets());
}

/// Writes the ICMP header, its type and code first, ahead of the quotation; `rest` is the 32-bit word that the type uses.
fn write_icmp(icmp: &mut [u8], [kind, code]: [u8; 2], rest: u32, pseudo: Sum) {
    icmp[..4].copy_from_slice(&[kind, code, 0, 0]);
    // RFC 1191 §4 has the MTU in the low-order 16 bits, RFC 4443 §3.2 in all 32.
    icmp[4..8].copy_from_slice(&rest.to_be_bytes());
    let sum = pseudo.plus(Sum::of(icmp)).checksum();
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
}
