//! ICMP errors of a peer from addresses that are not the peer's: routers and hosts behind it.
//!
//! A tunnel knows which addresses a peer may send from, and any router on the way to them may have an
//! error to tell. Its address says nothing; the packet that it quotes does.

use super::{ICMP_HEADER_LEN, Unreachable, is_icmp_error, is_single_host};
use crate::ip::{IpVersion, IpView, Protocol};
use std::net::IpAddr;

/// The bytes behind the IP headers that a quotation has at least: "64 bits of original data datagram"
/// (RFC 792). Ports are in there.
const MIN_QUOTED_TRANSPORT: usize = 8;

/// An error about a packet of this end, from an address that is not the peer's.
#[derive(Debug, Clone, Copy)]
pub enum Unexpected<'a> {
    /// A router or a host behind the peer wrote it: it goes to who sent the packet.
    Relayed,
    /// The peer itself refuses this packet, the start of which is here ([`super::refusal`]).
    Refused(&'a [u8], Unreachable),
}

/// Judges `packet`, which came from a peer whose address its source is not. `is_own` holds for the
/// addresses of this end in the tunnel, `leads_to_peer` for those whose packets go to this very peer.
///
/// It passes as an error about a packet that this end can have sent to the peer. The types are those that
/// change no route: destination unreachable, packet too big, time exceeded, parameter problem. `None` is
/// for all else: other types, fragments, no single sender, a quotation of another end's packet, of one to
/// another peer, of an error, of a later fragment, and one too short for ports.
#[must_use]
pub fn about_own_packet<'a>(
    packet: &IpView<'a>,
    is_own: impl Fn(IpAddr) -> bool,
    leads_to_peer: impl Fn(IpAddr) -> bool,
) -> Option<Unexpected<'a>> {
    if !is_error(packet) || !is_forwarded_from(packet.source()) {
        return None;
    }
    let bytes = packet.transport().get(ICMP_HEADER_LEN..)?;
    let quoted = IpView::parse_quoted(bytes).ok()?;
    let is_about_own = quoted.source() == packet.destination()
        && is_own(quoted.source())
        && leads_to_peer(quoted.destination());
    if !is_about_own || !is_whole_enough(&quoted) {
        return None;
    }
    if packet.source() != packet.destination() {
        return Some(Unexpected::Relayed);
    }
    let kind = match packet.transport() {
        [3, 13, ..] if packet.is_v4() => Unreachable::Prohibited,
        [1, 1, ..] if !packet.is_v4() => Unreachable::Prohibited,
        _ => Unreachable::Host,
    };
    Some(Unexpected::Refused(bytes, kind))
}

/// True if it is an error by its type. Redirects (5, and 137 of IPv6) would change routes, and source
/// quench (4) is obsolete (RFC 6633).
fn is_error(packet: &IpView<'_>) -> bool {
    let kind = packet.transport().first();
    let kind = kind.filter(|_| !packet.is_fragment() && !packet.is_source_routed());
    match (packet.version(), packet.protocol()) {
        (IpVersion::V4, Protocol::ICMP) => matches!(kind, Some(3 | 11 | 12)),
        (IpVersion::V6, Protocol::ICMPV6) => matches!(kind, Some(1..=4)),
        _ => false,
    }
}

/// True if a router may forward packets from this address (RFC 6890): it is a single host, and not
/// link-local.
fn is_forwarded_from(address: IpAddr) -> bool {
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    is_single_host(address) && !is_link_local
}

/// True if the quotation shows whose packet it was, because its transport header begins in it.
fn is_whole_enough(quoted: &IpView<'_>) -> bool {
    // Over IPv4 these numbers are protocols like any other, such as AH's.
    let is_unfinished = quoted.version() == IpVersion::V6 && quoted.protocol().is_extension();
    !quoted.is_later_fragment()
        && !quoted.is_source_routed()
        && !is_unfinished
        && !is_icmp_error(quoted)
        && quoted.transport().len() >= MIN_QUOTED_TRANSPORT
}
