//! The flows that a host began: their answers come in, for as long as they last.

use crate::client::{
    DNS, GATEWAY, HOME, HOME_V6, Host, OTHER_ADDRESS, OTHER_GATEWAY, PING, PINGED, PORT, UDP_PORT,
    WEB, WEB_V6,
};
use crate::packets::{ACK, FIN, RST, SYN, echo, fragments, tcp, tcp_with, udp, unreachable};
use culvert_packet::ip::Protocol;
use culvert_policy::gate::{DropReason, Later, Verdict};
use std::net::SocketAddr;

#[test]
fn answers_to_the_hosts_own_flows_come_in() {
    let mut host = Host::busy();
    for (peer, packet) in [
        (GATEWAY, tcp(WEB, (HOME, PORT))),
        (GATEWAY, tcp(WEB_V6, (HOME_V6, PORT))),
        (OTHER_GATEWAY, tcp(OTHER_ADDRESS, (HOME, PORT))),
        (GATEWAY, udp(DNS, (HOME, UDP_PORT))),
        (GATEWAY, echo(PINGED, HOME, PING, true)),
    ] {
        assert_eq!(host.hear(peer, &packet), Ok(()), "{packet:?}");
    }
}

#[test]
fn icmp_errors_about_the_hosts_own_flows_come_in_from_any_router() {
    let mut host = Host::busy();
    let router = "10.77.0.1";
    for cause in [
        tcp((HOME, PORT), WEB),
        udp((HOME, UDP_PORT), DNS),
        echo(HOME, PINGED, PING, false),
    ] {
        for quoted in [28, 36, 200] {
            let error = unreachable(router, HOME, &cause, quoted);
            assert_eq!(host.hear(GATEWAY, &error), Ok(()), "{quoted}");
        }
    }
    let cause = tcp((HOME_V6, PORT), WEB_V6);
    let error = unreachable("fd10::99", HOME_V6, &cause, 200);
    assert_eq!(host.hear(GATEWAY, &error), Ok(()));
}

#[test]
fn a_packet_that_a_gateway_refuses_is_known_if_the_host_sent_it() {
    let host = Host::busy();
    let home = culvert_policy::gate::TunnelAddresses {
        v4: HOME.parse().unwrap(),
        v6: HOME_V6.parse().unwrap(),
    };
    let sent = |packet: &[u8]| host.gate.has_sent(host.now(), Some(home), packet);
    let own = tcp((HOME, PORT), WEB);
    assert!(sent(&own) && sent(&own[..28]));
    assert!(!sent(&own[..27]));
    assert!(!sent(&tcp((HOME, PORT + 1), WEB)));
    assert!(!sent(&tcp(("100.64.0.8", PORT), WEB)));
    assert!(!host.gate.has_sent(host.now(), None, &own));
    assert!(!sent(&[]) && !sent(&[0; 64]));
}

#[test]
fn a_udp_flow_is_forgotten_after_five_silent_minutes() {
    let mut host = Host::busy();
    let answer = udp(DNS, (HOME, UDP_PORT));
    host.now_s += 299;
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
    host.now_s += 299;
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
    host.now_s += 300;
    assert_eq!(host.hear(GATEWAY, &answer), Err(DropReason::NotAFlow));
    host.send(&udp((HOME, UDP_PORT), DNS));
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
}

#[test]
fn a_connection_without_an_answer_is_forgotten_after_four_minutes_and_one_with_it_after_two_hours()
{
    let mut host = Host::busy();
    let unanswered = ((HOME, 41_000), WEB);
    host.send(&tcp_with(unanswered.0, unanswered.1, SYN, b""));
    host.now_s += 240;
    let late = tcp_with(unanswered.1, unanswered.0, SYN | ACK, b"");
    assert_eq!(host.hear(GATEWAY, &late), Err(DropReason::NotAFlow));
    let answer = tcp(WEB, (HOME, PORT));
    host.now_s += 7_439 - 240;
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
    host.now_s += 7_440;
    assert_eq!(host.hear(GATEWAY, &answer), Err(DropReason::NotAFlow));
}

#[test]
fn a_closed_connection_is_forgotten_after_half_a_minute_whatever_still_comes() {
    for closing in [
        vec![(true, FIN | ACK), (false, FIN | ACK)],
        vec![(true, RST)],
        vec![(false, RST)],
    ] {
        let mut host = Host::busy();
        for (is_ours, flags) in closing {
            match is_ours {
                true => host.send(&tcp_with((HOME, PORT), WEB, flags, b"")),
                false => {
                    let packet = tcp_with(WEB, (HOME, PORT), flags, b"");
                    assert_eq!(host.hear(GATEWAY, &packet), Ok(()));
                }
            }
        }
        let late = tcp(WEB, (HOME, PORT));
        host.now_s += 29;
        assert_eq!(host.hear(GATEWAY, &late), Ok(()));
        host.now_s += 1;
        assert_eq!(host.hear(GATEWAY, &late), Err(DropReason::NotAFlow));
        // The same ports may be used again.
        host.send(&tcp_with((HOME, PORT), WEB, SYN, b""));
        assert_eq!(host.hear(GATEWAY, &late), Ok(()));
    }
}

#[test]
fn a_new_connection_between_the_ports_of_a_closed_one_is_open() {
    let mut host = Host::busy();
    host.send(&tcp_with((HOME, PORT), WEB, RST, b""));
    host.send(&tcp_with((HOME, PORT), WEB, SYN, b""));
    host.now_s += 100;
    let answer = tcp_with(WEB, (HOME, PORT), SYN | ACK, b"");
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
}

#[test]
fn a_fin_behind_the_first_of_joined_packets_closes_a_connection_too() {
    let mut host = Host::busy();
    let answer = tcp(WEB, (HOME, PORT));
    let later = Later {
        bytes: 100,
        tcp_flags: FIN | ACK,
    };
    host.send(&tcp_with((HOME, PORT), WEB, FIN | ACK, b""));
    assert!(matches!(
        host.verdict(GATEWAY, &answer, later),
        Verdict::Admit(_)
    ));
    host.now_s += 30;
    assert_eq!(host.hear(GATEWAY, &answer), Err(DropReason::NotAFlow));
}

#[test]
fn a_connection_that_is_older_than_the_gate_goes_on_with_the_hosts_next_packet() {
    let mut host = Host::new();
    let answer = tcp(WEB, (HOME, PORT));
    assert_eq!(host.hear(GATEWAY, &answer), Err(DropReason::NotAFlow));
    host.send(&tcp((HOME, PORT), WEB));
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
    host.now_s += 7_439;
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
}

#[test]
fn a_flow_that_the_host_tells_of_is_open_as_if_it_had_been_seen() {
    let mut host = Host::new();
    for (protocol, home, remote, answer) in [
        (Protocol::TCP, HOME, WEB, tcp(WEB, (HOME, PORT))),
        (Protocol::UDP, HOME, DNS, udp(DNS, (HOME, PORT))),
        (Protocol::TCP, HOME_V6, WEB_V6, tcp(WEB_V6, (HOME_V6, PORT))),
    ] {
        assert_eq!(host.hear(GATEWAY, &answer), Err(DropReason::NotAFlow));
        let end = |(address, port): (&str, u16)| SocketAddr::new(address.parse().unwrap(), port);
        for _ in 0..2 {
            let now = host.now();
            host.gate
                .adopt(now, protocol, end((home, PORT)), end(remote));
        }
        assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
    }
    assert_eq!(host.gate.flow_count(host.now()), 3);
    host.now_s += 7_439;
    assert_eq!(host.hear(GATEWAY, &tcp(WEB, (HOME, PORT))), Ok(()));
}

#[test]
fn what_the_host_answers_begins_no_flow() {
    for flags in [RST, RST | ACK, SYN | ACK, FIN, 0] {
        let mut host = Host::new();
        host.send(&tcp_with((HOME, 22), WEB, flags, b""));
        let next = tcp(WEB, (HOME, 22));
        assert_eq!(
            host.hear(GATEWAY, &next),
            Err(DropReason::NotAFlow),
            "{flags}"
        );
    }
    let mut host = Host::new();
    host.send(&echo(HOME, PINGED, PING, true));
    let answer = echo(PINGED, HOME, PING, true);
    assert_eq!(host.hear(GATEWAY, &answer), Err(DropReason::NotAFlow));
}

#[test]
fn a_fragmented_answer_comes_in_whatever_its_order() {
    for (home, dns) in [(HOME, "10.0.0.2"), (HOME_V6, "fd10::2")] {
        let mut host = Host::new();
        host.send(&udp((home, UDP_PORT), (dns, 53)));
        let [first, later] = fragments(&udp((dns, 53), (home, UDP_PORT)), 16, 77);
        assert_eq!(host.hear(GATEWAY, &later), Err(DropReason::Fragment));
        assert!(host.gate.hold(host.now(), GATEWAY, &later));
        let verdict = host.verdict(GATEWAY, &first, Later::default());
        assert_eq!(verdict, Verdict::AdmitFirst(GATEWAY));
        let released = host.gate.take_released(host.now(), GATEWAY, &first);
        assert_eq!(released.len(), 1);
        assert_eq!(*released[0], later[..]);
        assert_eq!(host.hear(GATEWAY, &later), Ok(()));
        host.now_s += 15;
        assert_eq!(host.hear(GATEWAY, &later), Err(DropReason::Fragment));
    }
}

#[test]
fn answered_flows_keep_their_place_beside_a_program_that_scans() {
    let mut host = Host::with_max_flows(64);
    host.send(&tcp_with((HOME, PORT), WEB, SYN, b""));
    let answer = tcp_with(WEB, (HOME, PORT), SYN | ACK, b"");
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
    for port in 1..=5_000 {
        host.send(&udp((HOME, UDP_PORT), ("10.9.9.9", port)));
    }
    assert_eq!(host.hear(GATEWAY, &tcp(WEB, (HOME, PORT))), Ok(()));
    assert!(host.gate.flow_count(host.now()) <= 64);
    assert!(host.gate.displaced() > 4_000);
    host.now_s += 7_440;
    assert_eq!(host.gate.flow_count(host.now()), 0);
}

#[test]
fn nothing_comes_in_before_the_address_is_known() {
    let mut host = Host::busy();
    let mut answer = tcp(WEB, (HOME, PORT));
    let frame = culvert_policy::gate::Frame::packet(&mut answer);
    let verdict = host
        .gate
        .admit(host.now(), GATEWAY, None, None, |_| true, &frame);
    assert_eq!(verdict, Verdict::Drop(DropReason::ForeignDestination));
    host.now_s += 1;
    assert_eq!(host.hear(GATEWAY, &answer), Ok(()));
}
