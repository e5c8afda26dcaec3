//! The program is run by the kernel on made-up packets and compared with a model written here from the module's text.
//! Needs CAP_BPF: without it these tests fail, and say so.

use std::collections::HashSet;
use std::os::fd::AsFd;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

const STEERING: Steering = Steering {
    priority_queues: true,
    bulk_queues: 4,
};

fn loaded(steering: Steering) -> OwnedFd {
    steering
        .load()
        .expect("loading the program needs CAP_BPF: run the tests as root")
}

/// The answer of the program of `STEERING`. It is loaded once, because the kernel frees programs late and limits their
/// memory.
fn queue_of(packet: &[u8]) -> usize {
    static PROGRAM: LazyLock<OwnedFd> = LazyLock::new(|| loaded(STEERING));
    culvert_bpf::run::socket_filter(PROGRAM.as_fd(), packet).expect("the kernel runs the program")
        as usize
}

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
const PSH: u8 = 0x08;
const FIN: u8 = 0x01;
const RST: u8 = 0x04;
const URG: u8 = 0x20;
const ECE: u8 = 0x40;
const CWR: u8 = 0x80;

/// An IPv4 packet from 10.0.0.1 to 10.0.0.`host`, with `words` words of options.
fn ipv4(host: u8, protocol: u8, words: u8, fragment: u16, content: &[u8]) -> Vec<u8> {
    let header = 20 + 4 * usize::from(words);
    let length = ((header + content.len()) as u16).to_be_bytes();
    let fragment = fragment.to_be_bytes();
    let mut packet = vec![
        0x45 + words,
        0,
        length[0],
        length[1],
        0,
        1,
        fragment[0],
        fragment[1],
        64,
        protocol,
        0,
        0,
    ];
    packet.extend([10, 0, 0, 1, 10, 0, 0, host]);
    packet.resize(header, 1); // option 1: no operation
    packet.extend_from_slice(content);
    packet
}

fn ipv6(host: u8, next_header: u8, content: &[u8]) -> Vec<u8> {
    let length = (content.len() as u16).to_be_bytes();
    let mut packet = vec![0x60, 0, 0, 0, length[0], length[1], next_header, 64];
    packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
    packet.extend_from_slice(content);
    packet
}

fn tcp(source: u16, destination: u16, flags: u8, option_words: u8, payload: usize) -> Vec<u8> {
    let mut segment = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    segment.extend([0; 8]);
    segment.extend([(5 + option_words) << 4, flags, 255, 255, 0, 0, 0, 0]);
    segment.resize(20 + 4 * usize::from(option_words) + payload, 1);
    segment
}

fn udp(source: u16, destination: u16, payload: usize) -> Vec<u8> {
    let mut datagram = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    datagram.extend(((8 + payload) as u16).to_be_bytes());
    datagram.resize(8 + payload, 0);
    datagram
}

/// Both IP versions around one transport segment; ICMP takes `protocols` of its own in each.
fn both(protocols: (u8, u8), content: &[u8]) -> [Vec<u8>; 2] {
    [
        ipv4(2, protocols.0, 0, 0, content),
        ipv6(2, protocols.1, content),
    ]
}

#[test]
fn icmp_goes_to_the_priority_queue() {
    for packet in both((1, 58), &[8, 0, 0, 0, 0, 1, 0, 1]) {
        assert_eq!(queue_of(&packet), PRIORITY_QUEUE);
    }
}

#[test]
fn the_icmp_of_the_other_ip_version_is_not_icmp() {
    for packet in both((58, 1), &[8, 0, 0, 0, 0, 1, 0, 1]) {
        assert_ne!(queue_of(&packet), PRIORITY_QUEUE);
    }
}

#[test]
fn dns_goes_to_the_priority_queue_both_ways_over_udp_and_tcp() {
    for packet in [
        both((17, 17), &udp(40_000, 53, 30)),
        both((17, 17), &udp(53, 40_000, 300)),
        both((6, 6), &tcp(40_000, 53, ACK | PSH, 0, 30)),
        both((6, 6), &tcp(53, 40_000, ACK | PSH, 0, 300)),
    ]
    .concat()
    {
        assert_eq!(queue_of(&packet), PRIORITY_QUEUE);
    }
}

#[test]
fn a_syn_and_its_answer_go_to_the_priority_queue() {
    for flags in [SYN, SYN | ACK, SYN | ECE | CWR] {
        for packet in both((6, 6), &tcp(40_000, 443, flags, 5, 0)) {
            assert_eq!(queue_of(&packet), PRIORITY_QUEUE);
        }
    }
}

#[test]
fn a_pure_acknowledgement_goes_to_the_queue_of_those_whatever_its_options_and_ecn() {
    for flags in [ACK, ACK | ECE, ACK | CWR, ACK | ECE | CWR] {
        for options in [0, 3, 10] {
            for packet in both((6, 6), &tcp(40_000, 443, flags, options, 0)) {
                assert_eq!(queue_of(&packet), ACKNOWLEDGEMENT_QUEUE);
            }
            assert_eq!(
                queue_of(&ipv4(2, 6, 10, 0, &tcp(40_000, 443, flags, options, 0))),
                ACKNOWLEDGEMENT_QUEUE
            );
        }
    }
}

#[test]
fn data_stays_with_its_flow_however_little_it_is() {
    let flow = queue_of(&ipv4(2, 6, 0, 0, &tcp(40_000, 443, ACK, 3, 1400)));
    assert!(flow >= RESERVED_QUEUES);
    // A test run takes at most a page; superframes are sent by the kernel itself in `tests/device.rs`.
    for payload in [1, 2, 1400, 3000] {
        assert_eq!(
            queue_of(&ipv4(2, 6, 0, 0, &tcp(40_000, 443, ACK, 3, payload))),
            flow
        );
    }
}

#[test]
fn what_ends_or_pushes_a_flow_stays_with_it() {
    let flow = queue_of(&ipv4(2, 6, 0, 0, &tcp(40_000, 443, ACK, 3, 1400)));
    for flags in [ACK | FIN, ACK | RST, RST, ACK | PSH, ACK | URG, FIN, 0] {
        assert_eq!(
            queue_of(&ipv4(2, 6, 0, 0, &tcp(40_000, 443, flags, 3, 0))),
            flow,
            "flags {flags:#x}"
        );
    }
}

#[test]
fn fragments_of_a_datagram_stay_together_whichever_has_the_ports() {
    const MORE: u16 = 0x2000;
    let first = queue_of(&ipv4(2, 17, 0, MORE, &udp(40_000, 53, 1000)));
    let middle = queue_of(&ipv4(2, 17, 0, MORE | 126, &[0; 1000]));
    let last = queue_of(&ipv4(2, 17, 0, 252, &[0; 10]));
    assert!(first >= RESERVED_QUEUES);
    assert_eq!([first, first], [middle, last]);
    assert_eq!(
        queue_of(&ipv4(2, 1, 0, MORE, &[8; 1000])),
        first,
        "a fragment of an echo request"
    );
}

#[test]
fn ipv6_with_extension_headers_is_steered_by_addresses_alone() {
    const HOP_BY_HOP: u8 = 0;
    const FRAGMENT: u8 = 44;
    let queues: HashSet<usize> = [HOP_BY_HOP, FRAGMENT]
        .into_iter()
        .flat_map(|header| {
            [5_u8, 6].map(|port| queue_of(&ipv6(2, header, &[58, 0, port, port, 1, 4, 0, 0, 9, 9])))
        })
        .collect();
    assert_eq!(queues.len(), 1);
    assert!(queues.iter().all(|queue| *queue >= RESERVED_QUEUES));
}

#[test]
fn many_flows_reach_every_bulk_queue_evenly() {
    let flows = 4000_u16;
    for version in [4, 6] {
        let mut count = [0_u32; RESERVED_QUEUES + 4];
        for port in 0..flows {
            let content = udp(30_000 + port, 443, 10);
            let packet = if version == 4 {
                ipv4(2, 17, 0, 0, &content)
            } else {
                ipv6(2, 17, &content)
            };
            count[queue_of(&packet)] += 1;
        }
        assert_eq!(count[..RESERVED_QUEUES], [0, 0]);
        assert!(
            count[RESERVED_QUEUES..]
                .iter()
                .all(|flows| (900..1100).contains(flows)),
            "{count:?}"
        );
    }
}

#[test]
fn without_priority_queues_every_packet_is_spread_by_its_flow() {
    let program = loaded(Steering {
        priority_queues: false,
        bulk_queues: 3,
    });
    let queue_of = |packet: &[u8]| {
        culvert_bpf::run::socket_filter(program.as_fd(), packet)
            .expect("the kernel runs the program")
    };
    let syn = queue_of(&ipv4(2, 6, 0, 0, &tcp(40_000, 443, SYN, 0, 0)));
    assert_eq!(
        syn,
        queue_of(&ipv4(2, 6, 0, 0, &tcp(40_000, 443, ACK, 0, 0)))
    );
    assert_eq!(
        syn,
        queue_of(&ipv4(2, 6, 0, 0, &tcp(40_000, 443, ACK, 0, 1000)))
    );
    let used: HashSet<u32> = (0..64)
        .map(|port| queue_of(&ipv4(2, 17, 0, 0, &udp(port, 53, 0))))
        .collect();
    assert_eq!(used, HashSet::from([0, 1, 2]));
}

#[test]
fn the_number_of_queues_is_bounded() {
    let check = |priority_queues, bulk_queues| {
        Steering {
            priority_queues,
            bulk_queues,
        }
        .validate()
        .is_ok()
    };
    assert!(check(true, 1) && check(true, 254) && check(false, 256));
    assert!(!check(true, 0) && !check(true, 255) && !check(false, 257));
}

/// The priority queue of a packet that has one, read from the packet by other means than the program's.
fn model_of_priority(packet: &[u8]) -> Option<usize> {
    let byte = |offset: usize| packet.get(offset).copied();
    let (protocol, start) = match packet[0] >> 4 {
        4 if packet.len() >= 20 => {
            let fragment = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff != 0;
            if fragment {
                return None;
            }
            (packet[9], usize::from(packet[0] & 15) * 4)
        }
        6 if packet.len() >= 40 => (packet[6], 40),
        _ => return None,
    };
    let is_icmp = protocol == if packet[0] >> 4 == 4 { 1 } else { 58 };
    let ports = packet
        .get(start..start + 4)
        .map(|ports| [[ports[0], ports[1]], [ports[2], ports[3]]]);
    let is_dns = ports.is_some_and(|ports| ports.contains(&[0, 53]));
    let priority_if = |is_priority: bool| is_priority.then_some(PRIORITY_QUEUE);
    match protocol {
        _ if is_icmp => Some(PRIORITY_QUEUE),
        17 => priority_if(is_dns),
        6 => match (byte(start + 12), byte(start + 13)) {
            (Some(offset), Some(flags)) => {
                let ends_with_header = start + usize::from(offset >> 4) * 4 == packet.len();
                let pure =
                    flags & ACK != 0 && flags & (FIN | RST | PSH | URG) == 0 && ends_with_header;
                priority_if(is_dns || flags & SYN != 0).or(pure.then_some(ACKNOWLEDGEMENT_QUEUE))
            }
            _ => None,
        },
        _ => None,
    }
}

fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let protocol = prop_oneof![Just(1_u8), Just(6), Just(17), Just(58), any::<u8>()];
    let port = prop_oneof![Just(53_u16), Just(443), any::<u16>()];
    let fragment = prop_oneof![4 => Just(0_u16), 2 => Just(0x4000), 1 => any::<u16>()];
    let transport = (
        port.clone(),
        port,
        any::<u8>(),
        0_u8..=10,
        prop_oneof![Just(0_usize), 0_usize..80],
    );
    let cut = prop_oneof![3 => Just(usize::MAX), 1 => 1_usize..100];
    (any::<bool>(), protocol, 0_u8..=10, fragment, transport, cut).prop_map(
        |(
            is_v6,
            protocol,
            words,
            fragment,
            (source, destination, flags, options, payload),
            cut,
        )| {
            let content = match protocol {
                17 => udp(source, destination, payload),
                _ => tcp(source, destination, flags, options, payload),
            };
            let mut packet = if is_v6 {
                ipv6(2, protocol, &content)
            } else {
                ipv4(2, protocol, words, fragment, &content)
            };
            packet.truncate(cut);
            packet
        },
    )
}

proptest! {
    #[test]
    fn the_program_and_the_model_agree_on_any_packet(packet in any_packet()) {
        let queue = queue_of(&packet);
        prop_assert!(queue < STEERING.queues());
        prop_assert_eq!(Some(queue).filter(|queue| *queue < RESERVED_QUEUES), model_of_priority(&packet));
    }
}
