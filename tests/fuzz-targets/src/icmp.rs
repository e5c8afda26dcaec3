use crate::input::Input;
use crate::naive;
use culvert_packet::icmp::{MAX_V4_LEN, MAX_V6_LEN, Unreachable, packet_too_big, unreachable};
use culvert_packet::ip::{IpView, Protocol};

/// Any packet is answered with a well-formed ICMP error, or with none: never an error about an
/// error, a later fragment, or a packet from or to a group.
///
/// # Panics
/// If a property does not hold.
pub fn icmp(data: &[u8]) {
    let mut input = Input::new(data);
    let choice = input.u8();
    let mtu = input.u16();
    let room = usize::from(input.u16()) % (MAX_V6_LEN + 1);
    let original = input.rest();
    let answer = |out: &mut [u8]| match choice % 5 {
        0 => packet_too_big(original, mtu, out),
        1 => unreachable(original, Unreachable::NoRoute, out),
        2 => unreachable(original, Unreachable::Host, out),
        3 => unreachable(original, Unreachable::Prohibited, out),
        _ => unreachable(original, Unreachable::Port, out),
    };
    let mut out = [0xA5; MAX_V6_LEN];
    let len = answer(&mut out);
    let mut short = vec![0xA5; room];
    let short_len = answer(&mut short);
    let Some(len) = len else {
        assert_eq!(short_len, None, "less room makes no answer possible");
        return;
    };
    assert_eq!(short_len, (len <= room).then_some(len));
    assert_eq!(
        short[..short_len.unwrap_or(0)],
        out[..short_len.unwrap_or(0)]
    );
    let cause = IpView::parse(original)
        .or_else(|_| IpView::parse_quoted(original))
        .expect("only IP packets and their beginnings are answered");
    assert_error(&cause, &out[..len]);
}

fn assert_error(cause: &IpView<'_>, error: &[u8]) {
    let view = IpView::parse(error).expect("an ICMP error is an IP packet");
    assert_eq!(view.total_len(), error.len());
    assert_eq!(view.version(), cause.version());
    assert_eq!(view.source(), cause.destination());
    assert_eq!(view.destination(), cause.source());
    assert!(!cause.is_later_fragment());
    assert!(!cause.source().is_multicast() && !cause.source().is_unspecified());
    assert!(!cause.destination().is_multicast());
    assert!(naive::is_header_checksum_right(error));
    if view.is_v4() {
        assert!(error.len() <= MAX_V4_LEN);
        assert_eq!(view.protocol(), Protocol::ICMP);
        assert_eq!(naive::sum(view.transport()), 0xFFFF);
    } else {
        assert!(error.len() <= MAX_V6_LEN);
        assert_eq!(view.protocol(), Protocol::ICMPV6);
        let start = view.header_len();
        assert!(naive::is_transport_checksum_right(error, start, 58));
    }
    // The quote is the beginning of the cause.
    let quoted = &view.transport()[8..];
    assert!(cause.bytes().starts_with(quoted));
    // And no error follows from this error.
    let mut out = [0; MAX_V6_LEN];
    assert_eq!(packet_too_big(error, 1280, &mut out), None);
    assert_eq!(unreachable(error, Unreachable::Host, &mut out), None);
}
