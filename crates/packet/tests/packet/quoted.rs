//! Errors from behind a peer: those about this end's own packets pass, and nothing else does.

use crate::build::{Spec, payload};
use crate::oracle::assert_accepted;
use culvert_packet::icmp::{
    Unexpected, Unreachable, about_own_packet, packet_too_big, refusal, unreachable,
};
use culvert_packet::ip::IpView;
use proptest::prelude::*;
use std::net::IpAddr;

/// A router that nobody has granted anything of.
const ROUTERS: [&str; 2] = ["10.77.0.1", "fd77::1"];

fn own(v6: bool) -> IpAddr {
    spec(v6).source
}

fn spec(v6: bool) -> Spec {
    let spec = Spec::udp4(payload(600));
    if v6 { spec.over_v6() } else { spec }
}

/// The verdict of the end at [`own`], whose peer has the destinations of [`spec`].
fn verdict(packet: &[u8]) -> Option<Unexpected<'_>> {
    let view = IpView::parse(packet).expect("a packet");
    about_own_packet(
        &view,
        |address| address == own(false) || address == own(true),
        |address| address == spec(false).destination || address == spec(true).destination,
    )
}

fn passes(packet: &[u8]) -> bool {
    matches!(verdict(packet), Some(Unexpected::Relayed))
}

/// `error` from the router. The checksums are the kernel's to look at.
fn from_router(mut error: Vec<u8>) -> Vec<u8> {
    let v6 = error[0] >> 4 == 6;
    match ROUTERS[usize::from(v6)].parse().expect("an address") {
        IpAddr::V4(router) => error[12..16].copy_from_slice(&router.octets()),
        IpAddr::V6(router) => error[8..24].copy_from_slice(&router.octets()),
    }
    error
}

fn too_big(original: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 1280];
    let len = packet_too_big(original, 1300, &mut out).expect("an error");
    out.truncate(len);
    from_router(out)
}

/// The place of the ICMP header.
fn icmp_at(error: &[u8]) -> usize {
    if error[0] >> 4 == 4 { 20 } else { 40 }
}

fn with_kind(mut error: Vec<u8>, kind: u8) -> Vec<u8> {
    let at = icmp_at(&error);
    error[at] = kind;
    error
}

/// An error that quotes these bytes.
fn quoting(v6: bool, quoted: &[u8]) -> Vec<u8> {
    let mut error = too_big(&spec(v6).bytes());
    error.truncate(icmp_at(&error) + 8);
    error.extend_from_slice(quoted);
    let len = error.len();
    let (at, claimed) = if v6 { (4, len - 40) } else { (2, len) };
    error[at..at + 2].copy_from_slice(
        &u16::try_from(claimed)
            .expect("a short packet")
            .to_be_bytes(),
    );
    error
}

/// The packet of [`spec`] over IPv6, with these headers before its transport header.
fn extended(first: u8, headers: &[u8]) -> Vec<u8> {
    let mut packet = spec(true).bytes();
    packet[6] = first;
    packet.splice(40..40, headers.iter().copied());
    packet
}

#[test]
fn errors_of_a_router_about_own_packets_pass_in_both_families() {
    for (v6, kinds) in [(false, [3, 11, 12, 12]), (true, [1, 2, 3, 4])] {
        let error = too_big(&spec(v6).bytes());
        assert!(passes(&error));
        for kind in kinds {
            assert!(passes(&with_kind(error.clone(), kind)), "type {kind}");
        }
    }
}

#[test]
fn no_other_type_passes_whatever_it_quotes() {
    for v6 in [false, true] {
        let error = too_big(&spec(v6).bytes());
        let errors: &[u8] = if v6 { &[1, 2, 3, 4] } else { &[3, 11, 12] };
        for kind in (0..=255).filter(|kind| !errors.contains(kind)) {
            assert!(!passes(&with_kind(error.clone(), kind)), "type {kind}");
        }
    }
}

#[test]
fn an_error_about_the_packet_of_another_end_does_not_pass() {
    for v6 in [false, true] {
        let mut other = spec(v6);
        other.source = spec(v6).destination;
        // It comes to this end although it quotes what another one sent.
        let quoted = other.bytes();
        assert!(!passes(&quoting(v6, &quoted)));
        // It goes to the other end.
        assert!(!passes(&too_big(&quoted)));
    }
}

#[test]
fn an_error_about_a_packet_to_another_peer_does_not_pass() {
    for v6 in [false, true] {
        let mut foreign = spec(v6);
        foreign.destination = ROUTERS[usize::from(v6)].parse().expect("an address");
        assert!(!passes(&too_big(&foreign.bytes())));
    }
}

#[test]
fn a_quotation_that_is_cut_before_the_ports_end_does_not_pass() {
    for (v6, header) in [(false, 20), (true, 40)] {
        let quoted = spec(v6).bytes();
        for len in 0..header + 8 {
            assert!(!passes(&quoting(v6, &quoted[..len])), "{len} bytes");
        }
        assert!(passes(&quoting(v6, &quoted[..header + 8])));
    }
}

#[test]
fn an_error_about_an_error_never_passes() {
    for v6 in [false, true] {
        let inner = spec(v6);
        let mut quoted = inner.bytes();
        let at = icmp_at(&quoted);
        quoted[if v6 { 6 } else { 9 }] = if v6 { 58 } else { 1 };
        for (kind, is_error) in [(3, true), (if v6 { 128 } else { 8 }, false)] {
            quoted[at] = kind;
            assert_eq!(passes(&quoting(v6, &quoted)), !is_error, "type {kind}");
        }
    }
}

#[test]
fn extension_headers_of_what_is_quoted_are_walked_to_the_ports_or_not_at_all() {
    const UDP: u8 = 17;
    let options = [UDP, 0, 1, 4, 0, 0, 0, 0];
    assert!(passes(&quoting(true, &extended(60, &options))));
    assert!(passes(&quoting(true, &extended(60, &options)[..56])));
    assert!(!passes(&quoting(true, &extended(60, &options)[..55])));
    // The first fragment passes, a later one has no ports.
    let fragment = |offset: u8| [UDP, 0, 0, offset, 0, 0, 0, 7];
    assert!(passes(&quoting(true, &extended(44, &fragment(1)))));
    assert!(!passes(&quoting(true, &extended(44, &fragment(9)))));
    // A routing header: the destination is not where the packet was to go.
    let routing = [
        UDP, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert!(!passes(&quoting(true, &extended(43, &routing))));
    // A header that says that it is longer than what there is.
    let endless = [UDP, 255, 1, 4, 0, 0, 0, 0];
    assert!(!passes(&quoting(true, &extended(60, &endless))));
    // More of them than are walked.
    let mut many = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
    many[64] = UDP;
    assert!(!passes(&quoting(true, &extended(60, &many))));
}

/// ICMP requests, TCP, and protocols without ports. Over IPv4 the numbers of IPv6's extension headers are some of them.
#[test]
fn errors_about_every_protocol_over_ipv4_pass() {
    for protocol in [
        2, 4, 6, 47, 50, 51, 89, 103, 112, 132, 136, 253, 0, 43, 44, 60,
    ] {
        let mut quoted = spec(false).bytes();
        quoted[9] = protocol;
        assert!(passes(&quoting(false, &quoted)), "{protocol}");
    }
    // Over IPv6 a header that is not walked to its end is none.
    for protocol in [0, 43, 44, 51, 60] {
        let mut quoted = spec(true).bytes();
        quoted[6] = protocol;
        quoted[41] = 255;
        assert!(!passes(&quoting(true, &quoted)), "{protocol}");
    }
}

#[test]
fn a_later_fragment_is_quoted_by_no_error_that_passes_and_no_error_comes_in_fragments() {
    let mut quoted = spec(false).bytes();
    quoted[6..8].copy_from_slice(&[0, 9]);
    assert!(!passes(&quoting(false, &quoted)));
    for place in [[0x20, 0], [0, 9]] {
        let mut error = too_big(&spec(false).bytes());
        error[6..8].copy_from_slice(&place);
        assert!(!passes(&error));
    }
}

#[test]
fn an_error_from_no_address_that_a_router_forwards_from_does_not_pass() {
    for source in [
        "127.0.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "169.254.1.1",
    ] {
        let mut error = too_big(&spec(false).bytes());
        error[12..16].copy_from_slice(&source.parse::<std::net::Ipv4Addr>().unwrap().octets());
        assert!(!passes(&error), "{source}");
    }
    for source in ["::", "::1", "ff02::1", "fe80::1"] {
        let mut error = too_big(&spec(true).bytes());
        error[8..24].copy_from_slice(&source.parse::<std::net::Ipv6Addr>().unwrap().octets());
        assert!(!passes(&error), "{source}");
    }
}

#[test]
fn a_refusal_of_the_peer_is_told_from_what_it_relays_and_quotes_what_it_refuses() {
    for v6 in [false, true] {
        for kind in [Unreachable::Prohibited, Unreachable::Host] {
            let original = spec(v6).bytes();
            let mut out = vec![0; 1280];
            let len = refusal(&original, kind, &mut out).expect("an answer");
            assert_accepted(&out[..len]);
            let Some(Unexpected::Refused(quoted, told)) = verdict(&out[..len]) else {
                panic!("it is no refusal");
            };
            assert_eq!(told, kind);
            assert!(original.starts_with(quoted) && quoted.len() >= 500);
            // The sender hears it as from where its packet went.
            let mut error = vec![0; 1280];
            let len = unreachable(quoted, told, &mut error).expect("an error");
            assert_accepted(&error[..len]);
            let view = IpView::parse(&error[..len]).unwrap();
            assert_eq!(view.source(), spec(v6).destination);
            assert_eq!(view.destination(), own(v6));
        }
    }
}

proptest! {
    /// Bytes that are written over an error change nothing of the rule: whatever passes quotes a packet from this
    /// end to the peer.
    #[test]
    fn whatever_passes_quotes_a_packet_of_this_end_to_the_peer(
        v6: bool,
        changes in proptest::collection::vec((0_usize..120, any::<u8>()), 0..6),
        len in 0_usize..200,
    ) {
        let mut error = quoting(v6, &spec(v6).bytes()[..len]);
        for (at, byte) in changes {
            if let Some(place) = error.get_mut(at) {
                *place = byte;
            }
        }
        let Ok(view) = IpView::parse(&error) else { return Ok(()) };
        let is_own = |address| address == own(v6);
        let leads = |address| address == spec(v6).destination;
        if about_own_packet(&view, is_own, leads).is_some() {
            let start = view.header_len() + 8;
            let quoted = IpView::parse_quoted(&view.bytes()[start..]).unwrap();
            prop_assert_eq!(quoted.source(), own(v6));
            prop_assert_eq!(quoted.destination(), spec(v6).destination);
            prop_assert_eq!(view.destination(), own(v6));
            prop_assert!(quoted.transport().len() >= 8);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(view) = IpView::parse(&bytes) {
            let _verdict = about_own_packet(&view, |_| true, |_| true);
        }
        let _quoted = IpView::parse_quoted(&bytes);
    }
}
