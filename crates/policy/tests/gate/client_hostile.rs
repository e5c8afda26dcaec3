//! Packets of a gateway that was taken over, or of somebody with its key: each is dropped, for its reason, and none of them
//! helps another to come in.

use crate::client::{
    DNS, GATEWAY, HOME, HOME_V6, Host, OTHER_ADDRESS, PING, PINGED, PORT, UDP_PORT, WEB, WEB_V6,
};
use crate::packets::{
    ACK, FIN, RST, SYN, echo, fragments, icmp, other, tcp, tcp_with, udp, udp_with, unreachable,
    with_extension,
};
use culvert_policy::gate::DropReason::{self, *};

/// The packet of a row, and the reason for which it is dropped.
type Row = (&'static str, Vec<u8>, DropReason);

/// A listener of the host.
const SSH: (&str, u16) = (HOME, 22);

/// Sends all packets twice, in this order and in the other one, to a host that is busy. Its own flows go on.
fn are_dropped(rows: &[Row]) {
    let mut host = Host::busy();
    for (what, packet, reason) in rows.iter().chain(rows.iter().rev()) {
        assert_eq!(host.hear(GATEWAY, packet), Err(*reason), "{what}");
    }
    assert_eq!(host.hear(GATEWAY, &tcp(WEB, (HOME, PORT))), Ok(()));
    assert_eq!(host.hear(GATEWAY, &udp(DNS, (HOME, UDP_PORT))), Ok(()));
    assert_eq!(host.gate.flow_count(host.now()), 5);
}

#[test]
fn nobody_opens_a_connection_to_the_host() {
    are_dropped(&[
        (
            "a SYN to a listening port",
            tcp_with(WEB, SSH, SYN, b""),
            NotOpened,
        ),
        (
            "a SYN with data (TCP Fast Open)",
            tcp_with(WEB, SSH, SYN, b"GET /"),
            NotOpened,
        ),
        (
            "a SYN to a listening port by IPv6",
            tcp_with(WEB_V6, (HOME_V6, 22), SYN, b""),
            NotOpened,
        ),
        (
            "a SYN between the ports of a connection",
            tcp_with(WEB, (HOME, PORT), SYN, b""),
            NotOpened,
        ),
        (
            "a SYN with a FIN",
            tcp_with(WEB, SSH, SYN | FIN, b""),
            NotOpened,
        ),
        (
            "a SYN with a RST",
            tcp_with(WEB, SSH, SYN | RST, b""),
            NotOpened,
        ),
        (
            "a datagram to a port of UDP",
            udp(DNS, (HOME, 5_353)),
            NotAFlow,
        ),
        ("a datagram to port 0", udp(DNS, (HOME, 0)), NotAFlow),
        ("a packet of GRE", other(WEB.0, HOME, 47), NotAFlow),
        ("a packet of SCTP", other(WEB.0, HOME, 132), NotAFlow),
        ("IPv6 in IPv4", other(WEB.0, HOME, 41), NotAFlow),
        (
            "a packet of ICMPv6 over IPv4",
            other(WEB.0, HOME, 58),
            NotAFlow,
        ),
        ("an echo request", echo(WEB.0, HOME, PING, false), NotOpened),
        (
            "an echo request by IPv6",
            echo(WEB_V6.0, HOME_V6, PING, false),
            NotOpened,
        ),
        (
            "a timestamp request",
            icmp(WEB.0, HOME, 13, 0, [0, 7, 0, 1], &[0; 12]),
            NotOpened,
        ),
    ]);
}

#[test]
fn nobody_finds_out_which_connections_there_are() {
    are_dropped(&[
        (
            "a SYN-ACK to a port that is not of a flow",
            tcp_with(WEB, (HOME, PORT + 1), SYN | ACK, b""),
            NotAFlow,
        ),
        (
            "an ACK to a listening port",
            tcp_with(WEB, SSH, ACK, b""),
            NotAFlow,
        ),
        (
            "an ACK from another port of the server",
            tcp_with((WEB.0, 444), (HOME, PORT), ACK, b""),
            NotAFlow,
        ),
        (
            "an ACK from another server",
            tcp_with(("10.0.0.9", 443), (HOME, PORT), ACK, b""),
            NotAFlow,
        ),
        (
            "a RST from another port of the server",
            tcp_with((WEB.0, 444), (HOME, PORT), RST, b""),
            NotAFlow,
        ),
        (
            "a RST to another port of the host",
            tcp_with(WEB, (HOME, PORT + 1), RST, b""),
            NotAFlow,
        ),
        ("a FIN", tcp_with(WEB, SSH, FIN, b""), NotAFlow),
        (
            "a packet without flags",
            tcp_with(WEB, SSH, 0, b""),
            NotAFlow,
        ),
        (
            "an answer of a DNS server that nobody asked",
            udp(("10.0.0.9", 53), (HOME, UDP_PORT)),
            NotAFlow,
        ),
        (
            "a DNS answer to a port that did not ask",
            udp(DNS, (HOME, UDP_PORT + 1)),
            NotAFlow,
        ),
        (
            "an answer to an echo request of another number",
            echo(PINGED, HOME, PING + 1, true),
            NotAFlow,
        ),
        (
            "an answer to an echo request from another host",
            echo("10.0.0.9", HOME, PING, true),
            NotAFlow,
        ),
        (
            "UDP between the ports of a TCP connection",
            udp(WEB, (HOME, PORT)),
            NotAFlow,
        ),
        (
            "TCP of the other family between the ports of a connection",
            tcp(("fd10::2", 443), (HOME_V6, PORT)),
            NotAFlow,
        ),
    ]);
}

#[test]
fn icmp_changes_nothing_that_is_not_about_an_own_flow() {
    let own = tcp((HOME, PORT), WEB);
    let error = |cause: &[u8]| unreachable(WEB.0, HOME, cause, 200);
    let mut of_other_version = own.clone();
    of_other_version[0] = 0x65;
    are_dropped(&[
        (
            "a redirect",
            icmp(WEB.0, HOME, 5, 1, [10, 0, 0, 66], &own[..28]),
            IcmpType,
        ),
        (
            "a redirect of ICMPv6",
            icmp(WEB_V6.0, HOME_V6, 137, 0, [0; 4], &[0; 32]),
            IcmpType,
        ),
        (
            "a router advertisement",
            icmp(WEB_V6.0, HOME_V6, 134, 0, [0; 4], &[0; 8]),
            IcmpType,
        ),
        (
            "a neighbour advertisement",
            icmp(WEB_V6.0, HOME_V6, 136, 0, [0; 4], &[0; 16]),
            IcmpType,
        ),
        (
            "source quench",
            icmp(WEB.0, HOME, 4, 0, [0; 4], &own[..28]),
            IcmpType,
        ),
        (
            "an error about a connection that is not there",
            error(&tcp((HOME, PORT + 1), WEB)),
            NotAFlow,
        ),
        (
            "an error about a packet of another host",
            error(&tcp(("100.64.0.8", PORT), WEB)),
            NotAFlow,
        ),
        (
            "an error about an answer to the host",
            error(&tcp(WEB, (HOME, PORT))),
            NotAFlow,
        ),
        (
            "an error that quotes too little",
            unreachable(WEB.0, HOME, &own, 27),
            NotAFlow,
        ),
        ("an error that quotes nothing", error(&[]), NotAFlow),
        ("an error about an error", error(&error(&own)), NotAFlow),
        (
            "an error that quotes a packet of another version",
            error(&of_other_version),
            NotAFlow,
        ),
        (
            "packet too big, about a connection through another gateway",
            icmp(
                WEB.0,
                HOME,
                3,
                4,
                [0, 0, 2, 0],
                &tcp((HOME, PORT), OTHER_ADDRESS),
            ),
            OtherGateway,
        ),
        (
            "an error about an own flow, to another address",
            unreachable(WEB.0, "100.64.0.8", &own, 200),
            ForeignDestination,
        ),
    ]);
}

#[test]
fn fragments_bring_in_nothing_that_a_whole_packet_would_not() {
    let [open_first, open_later] = fragments(&tcp_with(WEB, SSH, SYN, &[7; 64]), 32, 1);
    let [first, later] = fragments(&udp_with(DNS, (HOME, 5_353), &[7; 64]), 16, 2);
    let [first_v6, later_v6] = fragments(
        &udp_with(("fd10::2", 53), (HOME_V6, 5_353), &[7; 64]),
        16,
        3,
    );
    // Four bytes of the ports in one fragment, the rest in the next.
    let [tiny, _] = fragments(&tcp_with(WEB, SSH, SYN, &[7; 64]), 8, 4);
    let error = unreachable(WEB.0, HOME, &tcp((HOME, PORT), WEB), 200);
    let [error_first, _] = fragments(&error, 64, 5);
    are_dropped(&[
        ("the first fragment of a SYN", open_first, NotOpened),
        ("a later fragment of it", open_later, Fragment),
        ("the first fragment of a datagram", first, NotAFlow),
        ("a later fragment of it", later, Fragment),
        (
            "the first fragment of a datagram of IPv6",
            first_v6,
            NotAFlow,
        ),
        ("a later fragment of it", later_v6, Fragment),
        ("a fragment too short for its ports", tiny, Malformed),
        ("the first fragment of an error", error_first, Malformed),
    ]);
}

#[test]
fn a_fragment_that_overlaps_another_one_opens_no_other_port() {
    let mut host = Host::busy();
    let [first, later] = fragments(&udp_with(DNS, (HOME, UDP_PORT), &[7; 64]), 16, 9);
    assert_eq!(host.hear(GATEWAY, &first), Ok(()));
    // The second one of the same datagram with other ports is judged by those.
    let [lie, _] = fragments(&udp_with(DNS, (HOME, 5_353), &[7; 64]), 16, 9);
    assert_eq!(host.hear(GATEWAY, &lie), Err(NotAFlow));
    // A later one reaches no port: the first eight bytes are out of its reach.
    assert_eq!(host.hear(GATEWAY, &later), Ok(()));
    let [_, outside] = fragments(&udp_with(DNS, (HOME, UDP_PORT), &[7; 64]), 16, 10);
    assert_eq!(host.hear(GATEWAY, &outside), Err(Fragment));
}

#[test]
fn addresses_that_are_not_the_hosts_get_nothing() {
    are_dropped(&[
        (
            "a packet to another machine of the tunnel",
            tcp_with(WEB, ("100.64.0.8", 22), SYN, b""),
            ForeignDestination,
        ),
        (
            "a packet to an address of the host outside of the tunnel",
            tcp_with(WEB, ("192.0.2.7", 22), SYN, b""),
            ForeignDestination,
        ),
        (
            "a packet to loopback",
            tcp_with(WEB, ("127.0.0.1", 631), SYN, b""),
            ForeignDestination,
        ),
        (
            "a broadcast",
            udp(DNS, ("255.255.255.255", 67)),
            ForeignDestination,
        ),
        (
            "multicast",
            udp(DNS, ("224.0.0.251", 5_353)),
            ForeignDestination,
        ),
        (
            "multicast of IPv6",
            udp(("fd10::2", 53), ("ff02::fb", 5_353)),
            ForeignDestination,
        ),
        (
            "a packet to a link-local address",
            tcp_with(WEB_V6, ("fe80::1", 22), SYN, b""),
            ForeignDestination,
        ),
        (
            "an answer to an own flow, at another address",
            tcp(WEB, ("100.64.0.8", PORT)),
            ForeignDestination,
        ),
    ]);
}

#[test]
fn sources_that_are_nobodys_behind_a_gateway_are_forged() {
    are_dropped(&[
        (
            "the host's own address",
            tcp_with((HOME, 22), SSH, SYN, b""),
            ForgedSource,
        ),
        (
            "the host's own address by IPv6",
            udp((HOME_V6, 53), (HOME_V6, 53)),
            ForgedSource,
        ),
        (
            "loopback",
            tcp_with(("127.0.0.1", 443), SSH, SYN, b""),
            ForgedSource,
        ),
        (
            "a broadcast",
            udp(("255.255.255.255", 53), SSH),
            ForgedSource,
        ),
        (
            "multicast",
            echo("224.0.0.1", HOME, PING, false),
            ForgedSource,
        ),
        (
            "an error from the host itself",
            unreachable(HOME, HOME, &tcp((HOME, PORT), WEB), 200),
            ForgedSource,
        ),
        (
            "a fragment from loopback",
            fragments(&udp_with(("127.0.0.1", 53), SSH, &[7; 64]), 16, 11)[1].clone(),
            ForgedSource,
        ),
    ]);
}

#[test]
fn headers_that_lie_or_lead_elsewhere_are_refused() {
    let answer = tcp(WEB, (HOME, PORT));
    let answer_v6 = tcp(WEB_V6, (HOME_V6, PORT));
    let cut_short = |packet: &[u8], len: usize| packet[..len].to_vec();
    let mut with_route = answer.clone();
    with_route.splice(20..20, [131, 7, 4, 10, 0, 0, 66, 0]);
    with_route[0] = 0x47;
    let len = with_route.len() as u16;
    with_route[2..4].copy_from_slice(&len.to_be_bytes());
    let mut too_long = answer.clone();
    too_long[2..4].copy_from_slice(&1_500_u16.to_be_bytes());
    let routing = [
        6, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9,
    ];
    let fragment = [44, 0, 0, 1, 0, 0, 0, 1, 6, 0, 0, 1, 0, 0, 0, 2];
    let options = [0_u8, 0, 1, 4, 0, 0, 0, 0].repeat(30);
    are_dropped(&[
        ("a packet cut short", cut_short(&answer, 30), Malformed),
        ("no packet", b"no packet".to_vec(), Malformed),
        ("a packet that says that it is longer", too_long, Malformed),
        ("a packet that names its way", with_route, SourceRouted),
        (
            "a routing header",
            with_extension(&answer_v6, 43, &routing, &answer_v6[40..]),
            SourceRouted,
        ),
        (
            "a fragment in a fragment",
            with_extension(&answer_v6, 44, &fragment, &answer_v6[40..]),
            HeaderChain,
        ),
        (
            "more extension headers than anybody needs",
            with_extension(&answer_v6, 0, &options, &answer_v6[40..]),
            HeaderChain,
        ),
        (
            "an ACK to a listening port behind an extension header",
            {
                let probe = tcp_with(WEB_V6, (HOME_V6, 22), ACK, b"");
                with_extension(&probe, 60, &[6, 0, 1, 4, 0, 0, 0, 0], &probe[40..])
            },
            NotAFlow,
        ),
    ]);
}

#[test]
fn headers_that_routers_add_keep_no_answer_out() {
    let mut host = Host::busy();
    let answer = tcp(WEB_V6, (HOME_V6, PORT));
    let packet = with_extension(&answer, 60, &[6, 0, 1, 4, 0, 0, 0, 0], &answer[40..]);
    assert_eq!(host.hear(GATEWAY, &packet), Ok(()));
}
