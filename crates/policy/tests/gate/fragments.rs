//! Fragments: only the first one says which ports it is for.

use crate::packets::{
    ACK, fragments, tcp_with, udp, udp_with, with_empty_extension, with_extension,
};
use crate::setup::{
    CLIENT, CLIENT_V6, NAME, NAME_V6, OTHER_CLIENT, OTHER_PEER, PEER, Setup, grant, named,
};
use culvert_base::BootTime;
use culvert_policy::gate::{DropReason, Gate, PeerKey, Seed};

const SERVER: &str = "10.0.0.1";
const SERVER_V6: &str = "fd01::1";

fn setup() -> Setup {
    Setup::new(vec![
        grant(1, "10.0.0.0/8", &["udp 53"]),
        grant(2, "fd01::/16", &["udp 53"]),
    ])
}

/// Client and server of both families.
const ENDS: [(&str, &str); 2] = [(CLIENT, SERVER), (CLIENT_V6, SERVER_V6)];

#[test]
fn later_fragments_follow_the_first_one() {
    for (client, server) in ENDS {
        let mut setup = setup();
        let [first, later] = fragments(&udp_with((client, 1), (server, 53), &[7; 100]), 64, 9);
        setup.assert_refuses(&later, DropReason::Fragment);
        setup.assert_sends(&first);
        setup.assert_sends(&later);
        // Of another datagram, and the other way round.
        let [_, stranger] = fragments(&udp_with((client, 1), (server, 53), &[7; 100]), 64, 10);
        setup.assert_refuses(&stranger, DropReason::Fragment);
        setup.assert_no_answer(&later, DropReason::Fragment);
        // And answers.
        let [first, later] = fragments(&udp_with((server, 53), (client, 1), &[7; 100]), 64, 9);
        setup.assert_no_answer(&later, DropReason::Fragment);
        setup.assert_answers(&first);
        setup.assert_answers(&later);
        assert_eq!(setup.gate.flows().next().unwrap().to_client.packets, 2);
    }
}

#[test]
fn a_later_fragment_of_another_protocol_is_of_another_datagram() {
    // RFC 791 §2.3: the protocol is part of what identifies a datagram.
    let mut setup = setup();
    let [first, later] = fragments(&udp_with((CLIENT, 1), (SERVER, 53), &[7; 100]), 64, 9);
    setup.assert_sends(&first);
    for protocol in [1, 6, 47] {
        let mut stranger = later.clone();
        stranger[9] = protocol;
        setup.assert_refuses(&stranger, DropReason::Fragment);
    }
    setup.assert_sends(&later);
}

#[test]
fn a_later_fragment_of_ipv6_may_name_another_next_header() {
    // RFC 8200 §4.5: "The Next Header values in the Fragment headers of different fragments of the
    // same original packet may differ. Only the value from the Offset zero fragment packet is used".
    let mut setup = setup();
    let [first, later] = fragments(&udp_with((CLIENT_V6, 1), (SERVER_V6, 53), &[7; 100]), 64, 9);
    setup.assert_sends(&first);
    for next in [6, 47, 60] {
        let mut later = later.clone();
        later[40] = next;
        setup.assert_sends(&later);
    }
}

#[test]
fn fragments_of_what_is_refused_are_refused() {
    for (client, server) in ENDS {
        let mut setup = setup();
        let [first, later] = fragments(&udp_with((client, 1), (server, 54), &[7; 100]), 64, 9);
        setup.assert_refuses(&first, DropReason::Port);
        setup.assert_refuses(&later, DropReason::Fragment);
    }
}

#[test]
fn a_fragment_does_not_outlive_its_grant() {
    for (client, server) in ENDS {
        let mut setup = setup();
        let [first, later] = fragments(&udp_with((client, 1), (server, 53), &[7; 100]), 64, 9);
        setup.assert_sends(&first);
        setup.set(vec![]);
        setup.assert_refuses(&later, DropReason::NoGrant);
        setup.assert_refuses(&later, DropReason::Fragment);
    }
}

#[test]
fn a_datagram_is_forgotten_after_fifteen_seconds() {
    for (client, server) in ENDS {
        let mut setup = setup();
        let [first, later] = fragments(&udp_with((client, 1), (server, 53), &[7; 100]), 64, 9);
        setup.assert_sends(&first);
        setup.now_ms += 14_999;
        setup.assert_sends(&later);
        setup.now_ms += 1;
        setup.assert_refuses(&later, DropReason::Fragment);
    }
}

#[test]
fn nobody_adds_fragments_to_the_datagrams_of_others() {
    for (client, server) in ENDS {
        let mut setup = setup();
        let [first, later] = fragments(&udp_with((client, 1), (server, 53), &[7; 100]), 64, 9);
        setup.assert_sends(&first);
        assert_eq!(
            setup.send_from(OTHER_PEER, &later),
            Err(DropReason::ForgedSource)
        );
    }
}

#[test]
fn a_first_fragment_too_short_for_its_ports_is_refused() {
    // "Tiny fragments" (RFC 1858) of TCP end before the flags.
    let mut setup = Setup::new(vec![
        grant(1, "0.0.0.0/0", &["any"]),
        grant(2, "::/0", &["any"]),
    ]);
    for (client, server) in ENDS {
        let whole = tcp_with((client, 1), (server, 53), ACK, &[7; 100]);
        let [tiny, rest] = fragments(&whole, 8, 9);
        setup.assert_refuses(&tiny, DropReason::Malformed);
        setup.assert_refuses(&rest, DropReason::Fragment);
    }
}

#[test]
fn an_atomic_fragment_is_a_whole_packet() {
    // RFC 6946: offset zero and nothing to follow.
    let mut setup = setup();
    let packet = udp((CLIENT_V6, 1), (SERVER_V6, 53));
    let atomic = with_empty_extension(&packet, 44);
    setup.assert_sends(&atomic);
    let [_, later] = fragments(&packet, 8, 0);
    setup.assert_refuses(&later, DropReason::Fragment);
}

#[test]
fn a_first_fragment_with_options_before_its_ports_is_refused() {
    // A later fragment begins eight bytes in, and so could write over ports behind eight of options.
    let mut setup = Setup::new(vec![grant(2, "::/0", &["any"])]);
    let packet = udp((CLIENT_V6, 1), (SERVER_V6, 53));
    let inner = with_empty_extension(&packet, 60);
    let first = [60, 0, 0, 1, 0, 0, 0, 1];
    setup.assert_refuses(
        &with_extension(&inner, 44, &first, &inner[40..]),
        DropReason::HeaderChain,
    );
    let atomic = [60, 0, 0, 0, 0, 0, 0, 1];
    setup.assert_sends(&with_extension(&inner, 44, &atomic, &inner[40..]));
}

#[test]
fn a_fragment_of_a_fragment_is_refused() {
    let mut setup = Setup::new(vec![grant(2, "::/0", &["any"])]);
    let packet = udp((CLIENT_V6, 1), (SERVER_V6, 53));
    let inner = with_empty_extension(&packet, 44);
    for place in [[0, 0], [0, 1]] {
        let outer = [44, 0, place[0], place[1], 0, 0, 0, 1];
        setup.assert_refuses(
            &with_extension(&inner, 44, &outer, &inner[40..]),
            DropReason::HeaderChain,
        );
    }
    // The inner one claims to be a later one.
    let mut later = with_empty_extension(&inner, 44);
    later[40 + 8 + 3] = 8;
    setup.assert_refuses(&later, DropReason::HeaderChain);
}

#[test]
fn fragments_are_translated() {
    let mappings = [(NAME, "10.9.9.9"), (NAME_V6, "fd09::9")];
    let ends = [(CLIENT, NAME, "10.9.9.9"), (CLIENT_V6, NAME_V6, "fd09::9")];
    for (client, name, resolved) in ends {
        let mut setup = Setup::new(vec![named(1, &mappings, &["udp 53"])]);
        let cut = |from, to| fragments(&udp_with(from, to, &[7; 101]), 64, 9);
        let sent = cut((client, 1), (name, 53));
        for (sent, expected) in sent.iter().zip(cut((client, 1), (resolved, 53))) {
            assert_eq!(setup.send(sent).unwrap(), expected);
        }
        for (answer, expected) in cut((resolved, 53), (client, 1))
            .iter()
            .zip(cut((name, 53), (client, 1)))
        {
            assert_eq!(setup.answer(answer).unwrap(), expected);
        }
    }
}

#[test]
fn many_datagrams_at_once_stay_within_the_bound() {
    let mut setup = setup();
    let cut = |number| fragments(&udp_with((CLIENT, 1), (SERVER, 53), &[7; 100]), 64, number);
    for number in 0..5000 {
        setup.assert_sends(&cut(number)[0]);
        setup.now_ms += 1;
    }
    // The newest one is always there.
    setup.assert_sends(&cut(4999)[1]);
    let admitted = (0..5000).filter(|number| setup.send(&cut(*number)[1]).is_ok());
    assert!(admitted.eq(5000 - 64..5000), "the newest of one client");
}

#[test]
fn a_client_with_many_datagrams_on_their_way_pushes_out_none_of_others() {
    let mut setup = setup();
    setup.add_client(
        OTHER_PEER,
        OTHER_CLIENT,
        vec![grant(1, "10.0.0.0/8", &["udp 53"])],
    );
    let datagram = udp_with((OTHER_CLIENT, 1), (SERVER, 53), &[7; 100]);
    let [first, later] = fragments(&datagram, 64, 9);
    assert!(setup.send_from(OTHER_PEER, &first).is_ok());
    for number in 0..5000 {
        let datagram = udp_with((CLIENT, 1), (SERVER, 53), &[7; 100]);
        setup.assert_sends(&fragments(&datagram, 64, number)[0]);
    }
    assert!(setup.send_from(OTHER_PEER, &later).is_ok());
}

#[test]
fn a_client_has_64_datagrams_on_their_way() {
    let mut setup = setup();
    let cut = |number: u32| {
        let datagram = udp_with((CLIENT, 1), (SERVER, 53), &[7; 100]);
        fragments(&datagram, 64, number)
    };
    // Of 4,096.
    for number in 0..65 {
        setup.assert_sends(&cut(number)[0]);
    }
    setup.assert_refuses(&cut(0)[1], DropReason::Fragment);
    for number in 1..65 {
        setup.assert_sends(&cut(number)[1]);
    }
    assert_eq!(setup.gate.evicted().datagrams, 1);
}

#[test]
fn many_clients_with_datagrams_on_their_way_leave_room_for_those_of_another() {
    let mut setup = setup();
    let addresses: Vec<String> = (0..101)
        .map(|client| format!("100.64.1.{client}"))
        .collect();
    let peer = |client: usize| PeerKey(100 + client as u32);
    for (client, address) in addresses.iter().enumerate() {
        let grants = vec![grant(1, "10.0.0.0/8", &["udp 53"])];
        setup.add_client(peer(client), address, grants);
    }
    let cut = |client: usize, number: u32| {
        let datagram = udp_with((&addresses[client], 1), (SERVER, 53), &[7; 100]);
        fragments(&datagram, 64, number)
    };
    let send = |setup: &mut Setup, client: usize, packet: &[u8]| {
        setup.send_from(peer(client), packet).is_ok()
    };
    // A hundred with 60 each are more than all there is room for.
    for number in 0..60 {
        for client in 0..100 {
            assert!(send(&mut setup, client, &cut(client, number)[0]));
        }
    }
    let [first, later] = cut(100, 0);
    let [first_of_next, later_of_next] = cut(100, 1);
    assert!(send(&mut setup, 100, &first));
    assert!(send(&mut setup, 100, &first_of_next));
    for number in 60..120 {
        for client in 0..100 {
            assert!(send(&mut setup, client, &cut(client, number)[0]));
        }
    }
    assert!(send(&mut setup, 100, &later));
    assert!(send(&mut setup, 100, &later_of_next));
    // Expired entries make room first.
    setup.now_ms += 15_000;
    for number in 0..60 {
        let [first, _] = cut(1, 1000 + number);
        assert!(send(&mut setup, 1, &first));
    }
    for number in 0..60 {
        assert!(send(&mut setup, 1, &cut(1, 1000 + number)[1]));
    }
}

#[test]
fn where_others_have_all_datagrams_one_that_has_certainly_passed_makes_room() {
    let mut setup = setup();
    let address = |client: u32| format!("100.65.{}.{}", client / 256, client % 256);
    let cut = |client: u32| {
        let datagram = udp_with((&address(client), 1), (SERVER, 53), &[7; 100]);
        fragments(&datagram, 64, 9)
    };
    let send = |setup: &mut Setup, client: u32, packet: &[u8]| {
        let peer = PeerKey(1000 + client);
        if setup.table.client(peer).is_none() {
            let grants = vec![grant(1, "10.0.0.0/8", &["udp 53"])];
            setup.add_client(peer, &address(client), grants);
        }
        setup.send_from(peer, packet)
    };
    setup.gate = Gate::new(Seed::new([3; 32]));
    for client in 0..4096 {
        assert!(send(&mut setup, client, &cut(client)[0]).is_ok());
    }
    // Those of all others are on their way: this one can't be remembered.
    assert!(send(&mut setup, 5000, &cut(5000)[0]).is_ok());
    let refused = send(&mut setup, 5000, &cut(5000)[1]);
    assert_eq!(refused, Err(DropReason::Fragment));
    assert!(send(&mut setup, 4095, &cut(4095)[1]).is_ok());
    setup.now_ms += 1000;
    assert!(send(&mut setup, 5000, &cut(5000)[0]).is_ok());
    assert!(send(&mut setup, 5000, &cut(5000)[1]).is_ok());
}

#[test]
fn a_fragment_that_came_before_the_first_one_follows_it() {
    for (client, server) in ENDS {
        let mut setup = setup();
        let [first, later] = fragments(&udp_with((client, 1), (server, 53), &[7; 100]), 64, 9);
        let [other_first, other] =
            fragments(&udp_with((client, 2), (server, 53), &[8; 100]), 64, 10);
        for early in [&later, &other] {
            setup.assert_refuses(early, DropReason::Fragment);
            // With bytes behind it, as padding has them.
            let padded = [&early[..], &[0; 8]].concat();
            let now = setup.now();
            assert!(setup.gate.hold(now, PEER, &padded));
        }
        assert!(setup.gate.take_released().is_empty());
        setup.now_ms += 5;
        setup.assert_sends(&first);
        assert_eq!(
            setup.gate.take_released(),
            [later.clone().into_boxed_slice()]
        );
        setup.assert_sends(&later);
        assert!(setup.gate.take_released().is_empty());
        setup.assert_sends(&other_first);
        assert_eq!(setup.gate.take_released(), [other.into_boxed_slice()]);
        assert_eq!(setup.gate.fragments_lost(), 0);
    }
}

#[test]
fn fragments_that_wait_for_what_is_refused_are_lost_after_a_second() {
    for (client, server) in ENDS {
        let mut setup = setup();
        let [first, later] = fragments(&udp_with((client, 1), (server, 54), &[7; 100]), 64, 9);
        let now = setup.now();
        assert!(setup.gate.hold(now, PEER, &later));
        setup.assert_refuses(&first, DropReason::Port);
        assert!(setup.gate.take_released().is_empty());
        setup.now_ms += 999;
        let now = setup.now();
        setup.gate.sweep(&setup.table, now, 1);
        assert_eq!(setup.gate.fragments_lost(), 0);
        setup.now_ms += 1;
        let now = setup.now();
        setup.gate.sweep(&setup.table, now, 1);
        assert_eq!(setup.gate.fragments_lost(), 1);
    }
}

#[test]
fn nothing_but_a_later_fragment_waits() {
    let mut setup = setup();
    let whole = udp_with((CLIENT, 1), (SERVER, 53), &[7; 100]);
    let [first, later] = fragments(&whole, 64, 9);
    assert!(!setup.gate.hold(BootTime::ZERO, PEER, &whole));
    assert!(!setup.gate.hold(BootTime::ZERO, PEER, &first));
    assert!(!setup.gate.hold(BootTime::ZERO, PEER, &later[..20]));
    assert!(!setup.gate.hold(BootTime::ZERO, PEER, &[]));
}
