//! Packets that the coalescer has gathered behind a first one.

use crate::packets::{ACK, End, FIN, RST, SYN, fragments, tcp_at, udp_with};
use crate::setup::{CLIENT, CLIENT_V6, NAME, NAME_V6, OTHER_CLIENT, PEER, Setup, grant, named};
use culvert_packet::{Accept, Coalescer, Cut};
use culvert_policy::gate::{End as FlowEnd, FlowRecord, Frame, Later, Tally, Verdict};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PAYLOAD_LEN: usize = 100;

/// Source and destination: translated, forwarded as they are, denied, and forged.
const WAYS: [(End<'static>, End<'static>); 6] = [
    ((CLIENT, 5000), (NAME, 443)),
    ((CLIENT, 5001), (NAME, 443)),
    ((CLIENT_V6, 5000), (NAME_V6, 443)),
    ((CLIENT, 5000), ("10.1.0.1", 80)),
    ((CLIENT, 5000), ("10.1.0.1", 81)),
    ((OTHER_CLIENT, 5000), ("10.1.0.1", 80)),
];

fn setup() -> Setup {
    let names = [(NAME, "10.9.9.9"), (NAME_V6, "fd09::9")];
    Setup::new(vec![
        named(1, &names, &["any"]),
        grant(2, "10.1.0.0/16", &["tcp 80", "udp 80"]),
    ])
}

/// A packet of the client: its direction and its content.
#[derive(Clone, Copy, Debug)]
struct Sent {
    way: usize,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Tcp { flags: u8, len: usize },
    Udp { len: usize },
    Fragment,
}

fn sent() -> impl Strategy<Value = Sent> {
    let flags = prop_oneof![8 => Just(ACK), 1 => Just(ACK | FIN), 1 => Just(SYN), 1 => Just(RST)];
    let len = prop_oneof![6 => Just(PAYLOAD_LEN), 1 => 0..PAYLOAD_LEN];
    let what = prop_oneof![
        12 => (flags, len.clone()).prop_map(|(flags, len)| What::Tcp { flags, len }),
        4 => len.prop_map(|len| What::Udp { len }),
        1 => Just(What::Fragment),
    ];
    // Mostly one way, so that there is something to gather.
    let way = prop_oneof![3 => Just(0), 4 => 0..WAYS.len()];
    (way, what).prop_map(|(way, what)| Sent { way, what })
}

fn packets(all: &[Sent]) -> Vec<Vec<u8>> {
    let mut sequences = [7_u32; WAYS.len()];
    let packet = |&Sent { way, what }: &Sent| {
        let (from, to) = WAYS[way];
        match what {
            What::Tcp { flags, len } => {
                let sequence = sequences[way];
                sequences[way] += len as u32;
                tcp_at(sequence, from, to, flags, &vec![way as u8; len])
            }
            What::Udp { len } => udp_with(from, to, &vec![way as u8; len]),
            What::Fragment => {
                let [first, _] = fragments(&udp_with(from, to, &[0; 64]), 16, 3);
                first
            }
        }
    };
    all.iter().map(packet).collect()
}

/// The packets that pass, by flow, where each is judged by itself.
fn apart(setup: &mut Setup, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let passed = packets.iter().filter_map(|packet| setup.send(packet).ok());
    passed.map(comparable).collect()
}

/// The packets that pass where they are gathered first; and how many were judged with another.
fn together(setup: &mut Setup, packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, usize) {
    let mut buffer = packets.concat();
    let mut coalescer = Coalescer::new(Accept::ALL);
    let mut start = 0;
    for packet in packets {
        let range = start..start + packet.len();
        start = range.end;
        coalescer.push(&buffer, range).unwrap();
    }
    let mut passed = Vec::new();
    let mut later_packets = 0;
    coalescer.flush(&mut buffer, |mut gathered| {
        let later = Later {
            bytes: gathered.later_bytes(),
            tcp_flags: gathered.later_tcp_flags(),
        };
        let packets = gathered.packets();
        later_packets += packets - 1;
        let frame = Frame {
            packets: packets as u32,
            later,
            ..Frame::packet(gathered.first())
        };
        let now = setup.now();
        let verdict = setup.gate.admit_from_client(&setup.table, now, PEER, frame);
        if verdict != Verdict::Admit(PEER) {
            return;
        }
        let (vnet, buffer, parts) = gathered.finish();
        let whole: Vec<u8> = parts
            .iter()
            .flat_map(|part| &buffer[part.clone()])
            .copied()
            .collect();
        if packets == 1 {
            passed.push(comparable(whole));
            return;
        }
        let cut = Cut::plan(&vnet, &whole).unwrap();
        assert_eq!(cut.segments(), packets);
        for index in 0..packets {
            let mut packet = vec![0; cut.segment_len(index)];
            cut.write_segment(&whole, index, &mut packet);
            passed.push(comparable(packet));
        }
    });
    (passed, later_packets)
}

/// Without what a cut makes anew: the identification, and with it the checksum of the header.
fn comparable(mut packet: Vec<u8>) -> Vec<u8> {
    if packet[0] >> 4 == 4 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

/// In the order of each flow: between flows there is none.
fn by_flow(packets: Vec<Vec<u8>>) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let mut flows = BTreeMap::<_, Vec<_>>::new();
    for packet in packets {
        let key = match packet[0] >> 4 {
            4 => [&packet[9..10], &packet[12..24]].concat(),
            _ => [&packet[6..7], &packet[8..44]].concat(),
        };
        flows.entry(key).or_default().push(packet);
    }
    flows
}

/// The remembered and reported flows, without their byte counts: a frame counts its headers once.
fn records(setup: &mut Setup) -> Vec<FlowRecord> {
    let mut records: Vec<_> = setup.gate.flows().collect();
    records.extend(setup.ended());
    for record in &mut records {
        record.to_remote.bytes = 0;
    }
    records.sort_unstable_by_key(|record| {
        let FlowRecord {
            protocol,
            visible,
            client_port,
            to_remote,
            ended,
            ..
        } = *record;
        (protocol.0, visible, client_port, ended, to_remote.packets)
    });
    records
}

proptest! {
    #[test]
    fn packets_judged_together_fare_as_each_by_itself(all in prop::collection::vec(sent(), 1..100)) {
        let packets = packets(&all);
        let (mut one, mut other) = (setup(), setup());
        let expected = apart(&mut one, &packets);
        let (passed, _) = together(&mut other, &packets);
        prop_assert_eq!(by_flow(passed), by_flow(expected));
        prop_assert_eq!(records(&mut other), records(&mut one));
    }
}

#[test]
fn packets_behind_the_first_count_and_close_the_connection() {
    let tcp = |flags| What::Tcp {
        flags,
        len: PAYLOAD_LEN,
    };
    let all = [tcp(ACK), tcp(ACK), tcp(ACK | FIN)].map(|what| Sent { way: 0, what });
    let mut setup = setup();
    let (passed, later_packets) = together(&mut setup, &packets(&all));
    assert_eq!((passed.len(), later_packets), (3, 2));
    let flow = setup.gate.flows().next().unwrap();
    assert_eq!(flow.to_remote.packets, 3);
    assert_eq!(flow.to_remote.bytes, 20 + 20 + 3 * PAYLOAD_LEN as u64);
    let (from, to) = (("10.9.9.9", 443), (CLIENT, 5000));
    assert!(setup.answer(&tcp_at(9, from, to, ACK | FIN, b"")).is_ok());
    let flow = setup.gate.flows().next().unwrap();
    assert_eq!(flow.ended, Some(FlowEnd::Closed));
}

#[test]
fn a_superframe_of_either_end_has_the_flags_and_the_bytes_of_all_its_packets() {
    let table = [
        (ACK, ACK, false),
        (ACK, ACK | FIN, true),
        (ACK | FIN, ACK, true),
        (ACK | FIN, ACK | FIN, true),
    ];
    let ends = [(CLIENT, 5000), ("10.1.0.1", 80)];
    for (first, later, finishes) in table {
        for is_of_client in [true, false] {
            let mut setup = setup();
            let [client, server] = ends;
            let plain = |from, to, flags| tcp_at(7, from, to, flags, &[7; PAYLOAD_LEN]);
            let len = 40 + PAYLOAD_LEN as u64;
            setup.assert_sends(&plain(client, server, ACK));
            let later = Later {
                bytes: 2 * PAYLOAD_LEN,
                tcp_flags: later,
            };
            let (from, to) = if is_of_client {
                (client, server)
            } else {
                (server, client)
            };
            let mut packet = plain(from, to, first);
            let frame = Frame {
                packets: 3,
                later,
                ..Frame::packet(&mut packet)
            };
            let now = setup.now();
            let Setup { gate, table, .. } = &mut setup;
            let verdict = if is_of_client {
                gate.admit_from_client(table, now, PEER, frame)
            } else {
                gate.admit_to_client(table, now, frame)
            };
            assert_eq!(verdict, Verdict::Admit(PEER));
            let superframe = Tally {
                packets: 3,
                bytes: len + 2 * PAYLOAD_LEN as u64,
            };
            let flow = setup.gate.flows().next().unwrap();
            let (to_remote, to_client) = if is_of_client {
                let all = Tally {
                    packets: 4,
                    bytes: superframe.bytes + len,
                };
                (all, Tally::default())
            } else {
                let one = Tally {
                    packets: 1,
                    bytes: len,
                };
                (one, superframe)
            };
            assert_eq!((flow.to_remote, flow.to_client), (to_remote, to_client));
            // The other end finishes: it is over if this one has finished too.
            if is_of_client {
                setup.assert_answers(&plain(server, client, ACK | FIN));
            } else {
                setup.assert_sends(&plain(client, server, ACK | FIN));
            }
            let ended = setup.gate.flows().next().unwrap().ended;
            let expected = finishes.then_some(FlowEnd::Closed);
            assert_eq!(ended, expected, "{first} {later:?} {is_of_client}");
        }
    }
}

#[test]
fn packets_behind_a_first_that_is_denied_do_not_pass() {
    let what = What::Tcp {
        flags: ACK,
        len: PAYLOAD_LEN,
    };
    for way in [4, 5] {
        let mut setup = setup();
        let (passed, later_packets) = together(&mut setup, &packets(&[Sent { way, what }; 3]));
        assert_eq!((passed, later_packets), (Vec::new(), 2));
        assert_eq!(setup.gate.flow_count(), 0);
    }
}
