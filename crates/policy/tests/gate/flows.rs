//! Flows: who begins them, when they end, what they report.

use crate::packets::{ACK, FIN, RST, SYN, echo, other, tcp, tcp_with, udp};
use crate::setup::{CLIENT, EXPIRY_MS, OTHER_CLIENT, OTHER_PEER, PEER, Setup, grant};
use culvert_base::BootTime;
use culvert_policy::gate::{DropReason, End, Evicted, GateTable, MAX_ENDED, PeerKey, Tally};
use std::time::Duration;

const SERVER: &str = "10.0.0.1";
const SECOND_MS: u64 = 1000;

fn setup() -> Setup {
    Setup::new(vec![grant(1, "10.0.0.0/8", &["any"])])
}

#[test]
fn only_clients_begin_flows() {
    let mut setup = setup();
    let answer = udp((SERVER, 53), (CLIENT, 5000));
    setup.assert_no_answer(&answer, DropReason::NotAFlow);
    setup.assert_sends(&udp((CLIENT, 5000), (SERVER, 53)));
    setup.assert_answers(&answer);
    for stranger in [
        udp((SERVER, 54), (CLIENT, 5000)),
        udp((SERVER, 53), (CLIENT, 5001)),
        udp(("10.0.0.2", 53), (CLIENT, 5000)),
        udp((SERVER, 53), ("100.64.0.2", 5000)),
        tcp((SERVER, 53), (CLIENT, 5000)),
        echo(SERVER, CLIENT, 5000, false),
    ] {
        setup.assert_no_answer(&stranger, DropReason::NotAFlow);
    }
}

#[test]
fn a_flow_that_is_silent_for_too_long_ends() {
    let table = [
        // Five minutes of UDP, one of ICMP, ten of what is unknown, four of a connection that
        // nobody answered.
        (
            udp((CLIENT, 1), (SERVER, 2)),
            udp((SERVER, 2), (CLIENT, 1)),
            false,
            300,
        ),
        (
            echo(CLIENT, SERVER, 1, false),
            echo(SERVER, CLIENT, 1, true),
            false,
            60,
        ),
        (
            other(CLIENT, SERVER, 47),
            other(SERVER, CLIENT, 47),
            false,
            600,
        ),
        (
            tcp((CLIENT, 1), (SERVER, 2)),
            tcp((SERVER, 2), (CLIENT, 1)),
            false,
            240,
        ),
        // More than two hours of one that was.
        (
            tcp((CLIENT, 1), (SERVER, 2)),
            tcp((SERVER, 2), (CLIENT, 1)),
            true,
            7440,
        ),
    ];
    for (query, answer, is_answered, idle_s) in table {
        let mut setup = setup();
        setup.assert_sends(&query);
        if is_answered {
            setup.assert_answers(&answer);
        }
        setup.now_ms += idle_s * SECOND_MS;
        setup.assert_no_answer(&answer, DropReason::NotAFlow);
        assert_eq!(setup.ended()[0].ended, Some(End::Idle));
        setup.assert_sends(&query);
        setup.now_ms += idle_s.min(240) * SECOND_MS - 1;
        setup.assert_answers(&answer);
    }
}

#[test]
fn a_client_that_comes_back_begins_another_flow() {
    let mut setup = setup();
    let query = udp((CLIENT, 1), (SERVER, 2));
    setup.assert_sends(&query);
    let started = setup.now();
    setup.now_ms += 300 * SECOND_MS;
    setup.assert_sends(&query);
    let ended = setup.ended();
    assert_eq!(ended.len(), 1);
    assert_eq!((ended[0].started, ended[0].last), (started, started));
    assert_eq!(
        ended[0].to_remote,
        Tally {
            packets: 1,
            bytes: query.len() as u64
        }
    );
    assert_eq!(setup.gate.flow_count(), 1);
}

#[test]
fn a_connection_that_was_closed_is_forgotten_soon() {
    for flags in [[ACK | FIN, ACK | FIN], [RST, ACK], [ACK, RST]] {
        let mut setup = setup();
        setup.assert_sends(&tcp_with((CLIENT, 1), (SERVER, 2), flags[0], b""));
        setup.assert_answers(&tcp_with((SERVER, 2), (CLIENT, 1), flags[1], b""));
        // While it is remembered, it is told as what it is.
        let remembered = setup.gate.flows().next().unwrap();
        assert_eq!(remembered.ended, Some(End::Closed), "{flags:?}");
        setup.now_ms += 29 * SECOND_MS;
        setup.assert_answers(&tcp_with((SERVER, 2), (CLIENT, 1), ACK, b""));
        setup.now_ms += 30 * SECOND_MS;
        let now = setup.now();
        setup.gate.sweep(&setup.table, now, 10);
        assert_eq!(setup.ended()[0].ended, Some(End::Closed), "{flags:?}");
        assert_eq!(setup.gate.flow_count(), 0);
    }
    // One side alone does not close it.
    let mut setup = setup();
    setup.assert_sends(&tcp_with((CLIENT, 1), (SERVER, 2), FIN, b""));
    assert_eq!(setup.gate.flows().next().unwrap().ended, None);
    setup.assert_answers(&tcp_with((SERVER, 2), (CLIENT, 1), ACK, b""));
    setup.now_ms += 7000 * SECOND_MS;
    setup.assert_answers(&tcp_with((SERVER, 2), (CLIENT, 1), ACK, b""));
}

/// The sender of a packet of a connection.
#[derive(Clone, Copy, Debug)]
enum By {
    Client,
    Server,
}

impl Setup {
    fn assert_exchanges(&mut self, packets: &[(By, u8)]) {
        for (by, flags) in packets {
            match by {
                By::Client => self.assert_sends(&tcp_with((CLIENT, 1), (SERVER, 2), *flags, b"")),
                By::Server => self.assert_answers(&tcp_with((SERVER, 2), (CLIENT, 1), *flags, b"")),
            }
        }
    }
}

#[test]
fn a_connection_closes_once_both_ends_have_finished_or_one_has_reset_it() {
    use By::{Client, Server};
    let table: [(&[(By, u8)], bool); 9] = [
        (&[(Client, SYN), (Server, SYN | ACK), (Client, ACK)], false),
        (&[(Client, ACK), (Server, ACK | FIN), (Client, ACK)], false),
        (&[(Client, ACK | FIN), (Server, ACK), (Client, ACK)], false),
        (&[(Client, ACK | FIN), (Client, FIN), (Server, ACK)], false),
        (&[(Client, ACK), (Server, ACK | FIN), (Server, FIN)], false),
        (&[(Client, ACK | FIN), (Server, ACK | FIN)], true),
        (&[(Client, ACK), (Server, FIN), (Client, ACK | FIN)], true),
        (&[(Client, SYN), (Server, RST | ACK)], true),
        (&[(Client, SYN), (Server, ACK), (Client, RST)], true),
    ];
    for (packets, closes) in table {
        let mut setup = setup();
        setup.assert_exchanges(packets);
        let end = setup.gate.flows().next().unwrap().ended;
        assert_eq!(end, closes.then_some(End::Closed), "{packets:?}");
        // Half a minute of one that is closed, two hours and four minutes of one that lasts.
        let (idle_s, end) = match closes {
            true => (30, End::Closed),
            false => (7440, End::Idle),
        };
        setup.now_ms += idle_s * SECOND_MS - 1;
        let now = setup.now();
        setup.gate.sweep(&setup.table, now, 10);
        assert_eq!(setup.ended(), [], "{packets:?}");
        setup.now_ms += 1;
        let now = setup.now();
        setup.gate.sweep(&setup.table, now, 10);
        assert_eq!(setup.ended()[0].ended, Some(end), "{packets:?}");
    }
}

#[test]
fn a_new_connection_between_the_same_ports_is_another_flow() {
    use By::{Client, Server};
    let open: &[(By, u8)] = &[(Client, SYN), (Server, SYN | ACK)];
    let reset: &[(By, u8)] = &[(Client, SYN), (Server, RST | ACK)];
    let finished: &[(By, u8)] = &[(Client, FIN | ACK), (Server, FIN | ACK)];
    let table = [
        // Only a SYN begins one, and only once the last one is over.
        (reset, SYN, true),
        (finished, SYN, true),
        (reset, ACK, false),
        (finished, ACK, false),
        (finished, FIN | ACK, false),
        (finished, RST, false),
        // A SYN of one that is open was sent again.
        (open, SYN, false),
        (open, ACK, false),
    ];
    for (packets, flags, begins) in table {
        let mut setup = setup();
        setup.assert_exchanges(packets);
        setup.assert_exchanges(&[(Client, flags)]);
        let ended: Vec<_> = setup.ended().iter().map(|record| record.ended).collect();
        let expected = match begins {
            true => (vec![Some(End::Closed)], 1),
            false => (vec![], 2),
        };
        let sent = setup.gate.flows().next().unwrap().to_remote.packets;
        assert_eq!((ended, sent), expected, "{packets:?} {flags}");
    }
}

#[test]
fn what_flows_carry_is_counted() {
    let mut setup = setup();
    let (query, answer) = (tcp((CLIENT, 1), (SERVER, 2)), tcp((SERVER, 2), (CLIENT, 1)));
    for _ in 0..3 {
        setup.assert_sends(&query);
    }
    setup.now_ms += 5;
    // A superframe of 44 packets.
    assert!(setup.answer_partial(&answer, 44).is_ok());
    // Dropped packets are not counted.
    setup.assert_no_answer(&tcp((SERVER, 3), (CLIENT, 1)), DropReason::NotAFlow);
    let flow = setup.gate.flows().next().unwrap();
    assert_eq!(flow.ended, None);
    assert_eq!(flow.peer, PEER);
    assert_eq!(
        flow.to_remote,
        Tally {
            packets: 3,
            bytes: 3 * query.len() as u64
        }
    );
    assert_eq!(
        flow.to_client,
        Tally {
            packets: 44,
            bytes: answer.len() as u64
        }
    );
    assert_eq!(
        (flow.client_port, flow.remote_port, flow.protocol.0),
        (1, 2, 6)
    );
    assert_eq!(flow.client.to_string(), CLIENT);
    assert_eq!(flow.visible.to_string(), SERVER);
    assert_eq!(flow.remote.to_string(), SERVER);
    assert_eq!(
        flow.last.saturating_since(flow.started),
        Duration::from_millis(5)
    );
}

#[test]
fn bytes_behind_the_packet_are_neither_counted_nor_touched() {
    let mut setup = setup();
    let query = udp((CLIENT, 1), (SERVER, 2));
    let padded = [query.as_slice(), &[0; 13]].concat();
    setup.assert_sends(&padded);
    assert_eq!(
        setup.gate.flows().next().unwrap().to_remote.bytes,
        query.len() as u64
    );
}

#[test]
fn flows_beyond_the_bound_take_the_place_of_the_most_silent_ones() {
    let grants = vec![grant(1, "10.0.0.0/8", &["any"])];
    // An eighth of them for one client.
    let mut setup = Setup::with_max_flows(grants, 64);
    for port in 0..8 {
        setup.assert_sends(&udp((CLIENT, port), (SERVER, 53)));
        setup.now_ms += 1;
    }
    // The first one speaks again: the second one is the most silent.
    setup.assert_answers(&udp((SERVER, 53), (CLIENT, 0)));
    setup.assert_sends(&udp((CLIENT, 100), (SERVER, 53)));
    assert_eq!(setup.gate.flow_count(), 8);
    let ended = setup.ended();
    assert_eq!(
        (ended[0].client_port, ended[0].ended),
        (1, Some(End::Evicted))
    );
    setup.assert_no_answer(&udp((SERVER, 53), (CLIENT, 1)), DropReason::NotAFlow);
    for port in [0, 2, 7, 100] {
        setup.assert_answers(&udp((SERVER, 53), (CLIENT, port)));
    }
    // A flow that lost its place begins again with the next packet of the client.
    setup.assert_sends(&udp((CLIENT, 1), (SERVER, 53)));
    setup.assert_answers(&udp((SERVER, 53), (CLIENT, 1)));
}

#[test]
fn a_flood_of_flows_stays_within_its_bounds() {
    let grants = vec![grant(1, "10.0.0.0/8", &["any"])];
    let mut setup = Setup::with_max_flows(grants, 512);
    let count = MAX_ENDED as u64 + 200;
    for number in 0..count {
        let mut packet = udp((CLIENT, (number % 60_000) as u16), (SERVER, 53));
        packet[19] = (number % 250) as u8;
        assert!(setup.send(&packet).is_ok());
        setup.now_ms += 1;
    }
    assert_eq!(setup.gate.flow_count(), 64);
    assert_eq!(setup.ended().len(), MAX_ENDED);
    assert_eq!(setup.gate.records_lost(), count - 64 - MAX_ENDED as u64);
}

fn anywhere() -> Vec<culvert_policy::gate::Grant> {
    vec![grant(1, "10.0.0.0/8", &["any"])]
}

fn flows_of(setup: &Setup, peer: PeerKey) -> usize {
    let flows = setup.gate.flows();
    flows.filter(|flow| flow.peer == peer).count()
}

#[test]
fn a_client_that_scans_a_network_pushes_out_no_flows_but_its_own() {
    let mut setup = Setup::with_max_flows(anywhere(), 256);
    setup.add_client(OTHER_PEER, OTHER_CLIENT, anywhere());
    for port in 0..20 {
        let query = udp((OTHER_CLIENT, port), (SERVER, 53));
        assert!(setup.send_from(OTHER_PEER, &query).is_ok());
    }
    for number in 0..1000 {
        setup.now_ms += 1;
        setup.assert_sends(&tcp_with((CLIENT, number), (SERVER, 443), SYN, b""));
    }
    assert_eq!(flows_of(&setup, PEER), 32, "an eighth of all");
    // The other has been silent for longer than any flow of the scan, and has lost none.
    for port in 0..20 {
        assert!(setup.is_answered(&udp((SERVER, 53), (OTHER_CLIENT, port))));
    }
    let evicted = Evicted {
        own_share: 1000 - 32,
        ..Evicted::default()
    };
    assert_eq!(setup.gate.evicted(), evicted);
    let ended = setup.ended();
    let is_of_scan = |record: &culvert_policy::gate::FlowRecord| {
        (record.peer, record.ended) == (PEER, Some(End::Evicted))
    };
    assert!(ended.iter().all(is_of_scan));
}

#[test]
fn clients_that_begin_many_flows_leave_room_for_others_and_take_nothing_from_them() {
    let mut setup = Setup::with_max_flows(anywhere(), 64);
    let address = |client: u32| format!("100.64.1.{client}");
    let begin = |setup: &mut Setup, client: u32, port: u16| {
        setup.now_ms += 1;
        let query = udp((&address(client), port), (SERVER, 53));
        setup.send_from(PeerKey(100 + client), &query).map(drop)
    };
    let counts = |setup: &Setup| -> Vec<usize> {
        let count = |client: u32| flows_of(setup, PeerKey(100 + client));
        (0..30).map(count).collect()
    };
    for client in 0..30 {
        setup.add_client(PeerKey(100 + client), &address(client), anywhere());
        for port in 0..20 {
            assert_eq!(begin(&mut setup, client, port), Ok(()));
        }
    }
    // An eighth each at first. Once there are 30, an equal part is two, and the last ones took it from those that had the most.
    let all = counts(&setup);
    assert_eq!(all.iter().sum::<usize>(), 64, "{all:?}");
    assert!(all.iter().all(|count| (2..=3).contains(count)), "{all:?}");
    assert!(setup.gate.evicted().full > 0);
    // A client keeps its part, however many the others begin.
    for port in 100..200 {
        for client in 1..30 {
            assert_eq!(begin(&mut setup, client, port), Ok(()));
        }
    }
    assert_eq!(counts(&setup)[0], all[0]);
}

#[test]
fn a_client_has_an_equal_part_where_few_places_are_free() {
    let mut setup = Setup::with_max_flows(anywhere(), 64);
    // Seven with eight each leave eight.
    for client in 0..7_u32 {
        let (peer, address) = (PeerKey(100 + client), format!("100.64.1.{client}"));
        setup.add_client(peer, &address, anywhere());
        for port in 0..8 {
            let query = udp((&address, port), (SERVER, 53));
            assert!(setup.send_from(peer, &query).is_ok());
        }
    }
    for port in 0..100 {
        setup.now_ms += 1;
        setup.assert_sends(&udp((CLIENT, port), (SERVER, 53)));
    }
    // An equal part is eight: it may have all the rest.
    assert_eq!(flows_of(&setup, PEER), 8);
    setup.add_client(PeerKey(200), "100.64.2.1", anywhere());
    for port in 0..100 {
        let query = udp(("100.64.2.1", port), (SERVER, 53));
        assert!(setup.send_from(PeerKey(200), &query).is_ok());
    }
    assert_eq!(
        flows_of(&setup, PeerKey(200)),
        7,
        "an equal part of 64 among nine"
    );
    assert!(flows_of(&setup, PEER) >= 7);
}

#[test]
fn where_others_have_all_flows_the_next_client_is_refused_and_waits() {
    let mut setup = Setup::with_max_flows(anywhere(), 2);
    let clients = [
        (PEER, CLIENT),
        (OTHER_PEER, OTHER_CLIENT),
        (PeerKey(3), "100.64.0.3"),
    ];
    for (peer, address) in clients {
        setup.add_client(peer, address, anywhere());
    }
    let begin = |setup: &mut Setup, client: usize, port: u16| {
        let (peer, address) = clients[client];
        let query = udp((address, port), (SERVER, 53));
        setup.send_from(peer, &query).map(drop)
    };
    assert_eq!(begin(&mut setup, 0, 1), Ok(()));
    assert_eq!(begin(&mut setup, 1, 1), Ok(()));
    assert_eq!(begin(&mut setup, 2, 1), Err(DropReason::FlowsFull));
    // Those that have one go on, with another one too.
    assert_eq!(begin(&mut setup, 0, 2), Ok(()));
    assert_eq!(flows_of(&setup, PEER), 1);
    assert_eq!(begin(&mut setup, 2, 1), Err(DropReason::FlowsFull));
    setup.now_ms += 300 * SECOND_MS;
    let now = setup.now();
    setup.gate.sweep(&setup.table, now, 10);
    assert_eq!(begin(&mut setup, 2, 1), Ok(()));
}

#[test]
fn what_lasts_is_told_in_parts_and_completely() {
    let mut setup = Setup::new(anywhere());
    for port in 0..10 {
        setup.assert_sends(&udp((CLIENT, port), (SERVER, 53)));
    }
    let ports = |part: usize| -> Option<Vec<u16>> {
        let flows = setup.gate.some_flows(4 * part, 4)?;
        Some(flows.map(|flow| flow.client_port).collect())
    };
    assert_eq!(ports(0), Some(vec![0, 1, 2, 3]));
    assert_eq!(ports(2), Some(vec![8, 9]));
    assert_eq!(ports(3), None);
    assert_eq!(setup.gate.flows().count(), 10);
}

#[test]
fn a_sweep_ends_what_the_table_no_longer_allows() {
    let mut setup = setup();
    for port in 0..10 {
        setup.assert_sends(&udp((CLIENT, port), (SERVER, 53)));
    }
    setup.set(vec![]);
    let now = setup.now();
    setup.gate.sweep(&setup.table, now, 4);
    assert_eq!(setup.gate.flow_count(), 6);
    let now = setup.now();
    setup.gate.sweep(&setup.table, now, 6);
    assert_eq!(setup.gate.flow_count(), 0);
    let ended = setup.ended();
    assert!(
        ended
            .iter()
            .all(|record| record.ended == Some(End::Denied(DropReason::NoGrant)))
    );
    assert_eq!(ended.len(), 10);
    setup.gate.sweep(&GateTable::new(), BootTime::ZERO, 100);
}

#[test]
fn a_sweep_ends_flows_whose_grants_have_expired() {
    let mut setup = setup();
    setup.now_ms = EXPIRY_MS - 1;
    setup.assert_sends(&udp((CLIENT, 1), (SERVER, 53)));
    setup
        .gate
        .sweep(&setup.table, BootTime::from_millis(EXPIRY_MS - 1), 10);
    assert_eq!(setup.gate.flow_count(), 1);
    setup
        .gate
        .sweep(&setup.table, BootTime::from_millis(EXPIRY_MS), 10);
    assert_eq!(
        setup.ended()[0].ended,
        Some(End::Denied(DropReason::Expired))
    );
}

#[test]
fn a_clock_that_goes_back_ends_no_flow() {
    let mut setup = setup();
    setup.assert_sends(&udp((CLIENT, 1), (SERVER, 53)));
    setup.now_ms = 0;
    setup.assert_answers(&udp((SERVER, 53), (CLIENT, 1)));
}

#[test]
fn a_flow_that_makes_room_ends_for_its_own_reason() {
    let (closed, silent, lasting) = (30, 300, 1);
    for (is_tcp, silent_s, end) in [
        (true, closed, End::Closed),
        (false, silent, End::Idle),
        (false, lasting, End::Evicted),
        (true, lasting, End::Evicted),
    ] {
        let mut setup = Setup::with_max_flows(anywhere(), 2);
        if is_tcp {
            setup.assert_sends(&tcp_with((CLIENT, 1), (SERVER, 2), RST, b""));
        } else {
            setup.assert_sends(&udp((CLIENT, 1), (SERVER, 2)));
        }
        setup.now_ms += silent_s * SECOND_MS;
        setup.assert_sends(&udp((CLIENT, 3), (SERVER, 4)));
        let ended: Vec<_> = setup.ended().iter().map(|flow| flow.ended).collect();
        assert_eq!(ended, [Some(end)]);
        let evicted = u64::from(end == End::Evicted);
        assert_eq!(setup.gate.evicted().own_share, evicted);
    }
}
