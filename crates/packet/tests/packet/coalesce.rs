//! The rules for joining a group, one by one.

use std::ops::Range;

use culvert_packet::{
    Accept, Coalescer, Gso, MAX_OPEN_GROUPS, MAX_PACKETS, MAX_UDP_GROUP_PACKETS, PacketError,
    VnetHeader,
};

use crate::build::{
    ACK, CWR, ECE, FIN, PSH, RST, SYN, Spec, Transport, URG, naive_sum, payload, repaired,
};

/// A frame that was emitted: its bytes put together, and the number of packets in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) vnet: VnetHeader,
    pub(crate) bytes: Vec<u8>,
    pub(crate) packets: usize,
}

/// Lays the packets into a buffer with gaps, as records lie in a receive buffer, and coalesces.
pub(crate) fn coalesce(accept: Accept, packets: &[Vec<u8>]) -> Vec<Frame> {
    run(&mut Coalescer::new(accept), packets)
}

pub(crate) fn run(coalescer: &mut Coalescer, packets: &[Vec<u8>]) -> Vec<Frame> {
    let mut buffer = Vec::new();
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for packet in packets {
        buffer.extend([0xEE; 16]);
        ranges.push(buffer.len()..buffer.len() + packet.len());
        buffer.extend(packet);
        buffer.extend([0xDD; 16]);
    }
    for range in ranges {
        coalescer.push(&buffer, range).expect("room for one more");
    }
    let mut frames = Vec::new();
    coalescer.flush(&mut buffer, |gathered| {
        let packets = gathered.packets();
        let (vnet, buffer, ranges) = gathered.finish();
        let bytes = ranges.iter().flat_map(|range| &buffer[range.clone()]);
        frames.push(Frame {
            vnet,
            bytes: bytes.copied().collect(),
            packets,
        });
    });
    assert!(coalescer.is_empty());
    frames
}

/// The number of packets in each emitted frame.
fn groups(specs: &[Spec]) -> Vec<usize> {
    let packets: Vec<Vec<u8>> = specs.iter().map(Spec::bytes).collect();
    let frames = coalesce(Accept::ALL, &packets);
    frames.iter().map(|frame| frame.packets).collect()
}

/// True if `second`, changed by `change`, still joins the train that `first` begins.
fn joins(first: &Spec, change: impl FnOnce(&mut Spec)) -> bool {
    let mut second = first.followed_by(payload(100));
    change(&mut second);
    groups(&[first.clone(), second]) == [2]
}

fn all_kinds() -> [Spec; 4] {
    [
        Spec::tcp4(payload(100)),
        Spec::tcp6(payload(100)),
        Spec::udp4(payload(100)),
        Spec::udp6(payload(100)),
    ]
}

#[test]
fn consecutive_packets_of_a_flow_become_one_frame() {
    for first in all_kinds() {
        let second = first.followed_by(payload(100));
        let third = second.followed_by(payload(40));
        let mut packets = vec![first.bytes(), second.bytes(), third.bytes()];
        if first.ip_header_len() == 20 {
            // Identifications count up.
            assert_ne!(packets[0][4..6], packets[1][4..6]);
        }
        let frames = coalesce(Accept::ALL, &packets);
        assert_eq!(frames.len(), 1);
        let frame = &frames[0];
        assert_eq!(frame.packets, 3);

        // The frame is the first packet with all payloads, except for its checksum: that is the
        // pseudo-header's sum alone.
        let whole = Spec {
            payload: [payload(100), payload(100), payload(40)].concat(),
            ..first.clone()
        };
        let mut expected = whole.bytes();
        let start = first.ip_header_len();
        let offset = if first.transport == Transport::Udp {
            6
        } else {
            16
        };
        let partial = naive_sum(&whole.pseudo_header(expected.len() - start));
        expected[start + offset..][..2].copy_from_slice(&partial.to_be_bytes());
        assert_eq!(frame.bytes, expected);
        let gso = match (&first.transport, first.source.is_ipv4()) {
            (Transport::Tcp(_), true) => Gso::Tcp4,
            (Transport::Tcp(_), false) => Gso::Tcp6,
            (Transport::Udp, _) => Gso::Udp,
        };
        let vnet = VnetHeader {
            needs_checksum: true,
            gso,
            ecn: false,
            header_len: first.header_len() as u16,
            gso_size: 100,
            checksum_start: start as u16,
            checksum_offset: offset as u16,
        };
        assert_eq!(frame.vnet, vnet);
        // One packet alone is emitted as it came.
        packets.truncate(1);
        let frames = coalesce(Accept::ALL, &packets);
        assert_eq!(frames[0].vnet, VnetHeader::default());
        assert_eq!(frames[0].bytes, packets[0]);
    }
}

#[test]
fn what_the_device_does_not_accept_is_not_coalesced() {
    for (index, first) in all_kinds().into_iter().enumerate() {
        let packets = [first.bytes(), first.followed_by(payload(100)).bytes()];
        assert_eq!(coalesce(Accept::NONE, &packets).len(), 2);
        let only = |kind| Accept {
            tcp4: kind == 0,
            tcp6: kind == 1,
            udp4: kind == 2,
            udp6: kind == 3,
        };
        for kind in 0..4 {
            let frames = coalesce(only(kind), &packets);
            assert_eq!(frames.len(), if kind == index { 1 } else { 2 });
        }
    }
}

#[test]
fn every_field_of_the_ip_header_must_be_equal() {
    for first in all_kinds() {
        assert!(joins(&first, |_| {}));
        assert!(!joins(&first, |next| next.traffic_class = 4));
        assert!(!joins(&first, |next| next.traffic_class = 3), "a CE mark");
        assert!(!joins(&first, |next| next.hop_limit = 63));
        if first.source.is_ipv4() {
            assert!(!joins(&first, |next| next.dont_fragment = false));
            assert!(!joins(&first, |next| next.ip_options = vec![1; 4]));
        } else {
            assert!(!joins(&first, |next| next.flow_label = 1));
        }
    }
}

#[test]
fn the_identification_counts_up_where_packets_may_be_fragmented() {
    for mut first in [Spec::tcp4(payload(100)), Spec::udp4(payload(100))] {
        assert!(joins(&first, |next| next.id = 9), "DF gives it no meaning");
        first.dont_fragment = false;
        first.id = u16::MAX;
        assert!(joins(&first, |next| assert_eq!(next.id, 0)));
        assert!(!joins(&first, |next| next.id = u16::MAX));
        assert!(!joins(&first, |next| next.id = 1));
    }
}

#[test]
fn every_field_of_the_tcp_header_must_continue() {
    for first in [Spec::tcp4(payload(100)), Spec::tcp6(payload(100))] {
        let first = first.with_tcp(|tcp| tcp.options = vec![1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        assert!(joins(&first, |_| {}));
        assert!(!joins(&first, |next| next.tcp().sequence += 1));
        assert!(!joins(&first, |next| next.tcp().sequence -= 1));
        assert!(!joins(&first, |next| next.tcp().acknowledgment += 1));
        assert!(!joins(&first, |next| next.tcp().window += 1));
        assert!(!joins(&first, |next| next.tcp().urgent = 1));
        assert!(!joins(&first, |next| next.tcp().options[7] = 2));
        assert!(!joins(&first, |next| next.tcp().options.truncate(8)));
        assert!(!joins(&first, |next| next.tcp().options.extend([0; 4])));
        assert!(
            !joins(&first, |next| next.payload.clear()),
            "a pure acknowledgment"
        );
    }
}

#[test]
fn other_flags_than_those_of_a_train_never_join() {
    let first = Spec::tcp4(payload(100));
    for flag in [SYN, RST, URG, CWR] {
        assert!(!joins(&first, |next| next.tcp().flags |= flag));
        let leading = first.clone().with_tcp(|tcp| tcp.flags |= flag);
        assert!(!joins(&leading, |_| {}), "both have it");
        assert!(!joins(&leading, |next| next.tcp().flags = ACK));
    }
    assert!(!joins(&first, |next| next.tcp().flags = 0));
    // ECE is on every packet of a sender that saw congestion.
    assert!(!joins(&first, |next| next.tcp().flags |= ECE));
    let echoing = first.with_tcp(|tcp| tcp.flags |= ECE);
    assert!(joins(&echoing, |_| {}));
}

#[test]
fn push_and_fin_end_a_train_and_are_kept() {
    for flag in [PSH, FIN] {
        let first = Spec::tcp6(payload(100));
        let second = first
            .followed_by(payload(100))
            .with_tcp(|tcp| tcp.flags |= flag);
        let third = second
            .followed_by(payload(100))
            .with_tcp(|tcp| tcp.flags = ACK);
        let packets = [first.bytes(), second.bytes(), third.bytes()];
        let frames = coalesce(Accept::ALL, &packets);
        assert_eq!(
            frames.iter().map(|frame| frame.packets).collect::<Vec<_>>(),
            [2, 1]
        );
        assert_eq!(frames[0].bytes[53], ACK | flag);
        assert_eq!(groups(&[second, third]), [1, 1]);
    }
}

#[test]
fn a_shorter_packet_ends_a_train_and_a_longer_one_begins_another() {
    for first in all_kinds() {
        let short = first.followed_by(payload(99));
        let next = short.followed_by(payload(99));
        assert_eq!(groups(&[first.clone(), short, next]), [2, 1]);
        let long = first.followed_by(payload(101));
        let next = long.followed_by(payload(101));
        assert_eq!(groups(&[first, long, next]), [1, 2]);
    }
}

#[test]
fn a_frame_never_exceeds_the_longest_packet() {
    for first in [
        Spec::tcp4(payload(1400)),
        Spec::tcp6(payload(1400)),
        Spec::udp4(payload(1400)),
    ] {
        let mut train = vec![first];
        for index in 1..60 {
            train.push(train[index - 1].followed_by(payload(1400)));
        }
        let first_len = groups(&train)[0];
        let len = train[0].header_len() + first_len * 1400;
        assert!(len <= 65_535 && len + 1400 > 65_535, "{len}");
    }
}

#[test]
fn a_udp_frame_has_no_more_datagrams_than_a_kernel_takes() {
    let mut train = vec![Spec::udp4(payload(100))];
    for index in 1..MAX_PACKETS {
        train.push(train[index - 1].followed_by(payload(100)));
    }
    assert_eq!(groups(&train), [MAX_UDP_GROUP_PACKETS; 2]);
}

#[test]
fn flows_that_differ_in_any_part_of_the_tuple_stay_apart() {
    for first in all_kinds() {
        for change in [
            (|next| next.ports.0 = 1) as fn(&mut Spec),
            |next| next.ports.1 = 1,
            |next| match &mut next.source {
                std::net::IpAddr::V4(address) => *address = [10, 1, 2, 4].into(),
                std::net::IpAddr::V6(address) => *address = [0xFD00, 1, 2, 3, 4, 5, 6, 8].into(),
            },
            |next| match &mut next.destination {
                std::net::IpAddr::V4(address) => *address = [11, 4, 5, 6].into(),
                std::net::IpAddr::V6(address) => *address = [0xFD01, 1, 2, 3, 4, 5, 6, 7].into(),
            },
        ] {
            assert!(!joins(&first, change));
        }
    }
}

#[test]
fn flows_that_alternate_are_coalesced_each() {
    let mut a = Spec::tcp4(payload(100));
    let mut b = Spec::tcp4(payload(100));
    b.ports.0 = 9;
    let mut specs = Vec::new();
    for _ in 0..10 {
        specs.extend([a.clone(), b.clone()]);
        a = a.followed_by(payload(100));
        b = b.followed_by(payload(100));
    }
    assert_eq!(groups(&specs), [10, 10]);
}

#[test]
fn one_flow_more_than_can_be_open_closes_the_oldest() {
    let flow = |port| {
        let mut spec = Spec::tcp4(payload(100));
        spec.ports.0 = port;
        spec
    };
    let firsts: Vec<Spec> = (0..=MAX_OPEN_GROUPS as u16).map(flow).collect();
    let seconds = [0, 1, 8].map(|index: usize| firsts[index].followed_by(payload(100)));
    // The first flow's second packet begins a group, which closes that of the second flow.
    let specs = [firsts, seconds.to_vec()].concat();
    assert_eq!(groups(&specs), [1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1]);
}

#[test]
fn a_lost_packet_begins_a_new_group() {
    let first = Spec::tcp4(payload(100));
    let lost = first.followed_by(payload(100));
    let third = lost.followed_by(payload(100));
    let fourth = third.followed_by(payload(100));
    assert_eq!(groups(&[first, third, fourth]), [1, 2]);
}

#[test]
fn a_packet_that_cannot_join_is_emitted_behind_what_came_before_it() {
    let first = Spec::tcp4(payload(100));
    let second = first.followed_by(payload(100));
    let pure_ack = second.followed_by(Vec::new());
    let third = second.followed_by(payload(100));
    let packets: Vec<Vec<u8>> = [first, second, pure_ack.clone(), third.clone()]
        .iter()
        .map(Spec::bytes)
        .collect();
    let frames = coalesce(Accept::ALL, &packets);
    assert_eq!(
        frames.iter().map(|frame| frame.packets).collect::<Vec<_>>(),
        [2, 1, 1]
    );
    assert_eq!(frames[1].bytes, pure_ack.bytes());
    assert_eq!(frames[2].bytes, third.bytes());
}

#[test]
fn a_fragment_closes_the_groups_between_its_hosts() {
    for first in [Spec::udp4(payload(96)), Spec::udp6(payload(96))] {
        let second = first.followed_by(payload(96));
        let mut other_host = first.clone();
        other_host.source = if first.source.is_ipv4() {
            [10, 9, 9, 9].into()
        } else {
            [0xFD00, 9, 9, 9, 9, 9, 9, 9].into()
        };
        let other_next = other_host.followed_by(payload(96));
        let mut fragment = first.bytes();
        if first.source.is_ipv4() {
            fragment[6..8].copy_from_slice(&[0, 3]);
        } else {
            fragment[6] = 44;
        }
        let packets = [
            first.bytes(),
            other_host.bytes(),
            fragment,
            second.bytes(),
            other_next.bytes(),
        ];
        let frames = coalesce(Accept::ALL, &packets);
        let counts: Vec<usize> = frames.iter().map(|frame| frame.packets).collect();
        assert_eq!(counts, [1, 2, 1, 1]);
    }
}

#[test]
fn a_bad_checksum_is_never_coalesced() {
    for first in all_kinds() {
        let second = first.followed_by(payload(100));
        let third = second.followed_by(payload(100));
        let packets = [first.bytes(), second.bytes(), third.bytes()];
        let transport = first.ip_header_len();
        // In the first, second and third packet: of the payload, and of the IPv4 header.
        let mut places = vec![
            packets[0].len() - 1,
            transport + first.header_len() - transport,
        ];
        if transport == 20 {
            places.push(10);
        }
        for place in places {
            for (bad, expected) in [(0, vec![1, 2]), (1, vec![1, 1, 1]), (2, vec![2, 1])] {
                let mut packets = packets.clone();
                packets[bad][place] ^= 0x10;
                let frames = coalesce(Accept::ALL, &packets);
                let counts: Vec<usize> = frames.iter().map(|frame| frame.packets).collect();
                assert_eq!(counts, expected, "byte {place} of packet {bad}");
                let alone = frames.iter().find(|frame| frame.bytes == packets[bad]);
                assert_eq!(alone.map(|frame| frame.vnet), Some(VnetHeader::default()));
            }
        }
    }
}

/// True if the train's second packet joins when `change` is made to the bytes of both, and their
/// checksums are right for it.
fn joins_when_both(first: &Spec, change: impl Fn(&mut Vec<u8>)) -> bool {
    let packets = [first.clone(), first.followed_by(payload(100))].map(|spec| {
        let mut packet = spec.bytes();
        change(&mut packet);
        repaired(packet)
    });
    coalesce(Accept::ALL, &packets).len() == 1
}

#[test]
fn a_datagram_without_checksum_is_not_coalesced() {
    let mut first = Spec::udp4(payload(100));
    // Its sum is zero, so that the missing checksum looks right.
    let sum = u16::from_be_bytes([first.bytes()[26], first.bytes()[27]]);
    let word = u16::from_be_bytes([first.payload[0], first.payload[1]]);
    let sum = naive_sum(&[sum.to_be_bytes(), word.to_be_bytes()].concat());
    first.payload[..2].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(first.bytes()[26..28], [0xFF, 0xFF]);
    let mut packet = first.bytes();
    assert_eq!(
        coalesce(Accept::ALL, &[packet.clone(), packet.clone()]).len(),
        1
    );
    packet[26..28].fill(0);
    assert_eq!(coalesce(Accept::ALL, &[packet.clone(), packet]).len(), 2);
}

#[test]
fn a_packet_whose_lengths_disagree_is_not_coalesced() {
    for first in all_kinds() {
        assert!(joins_when_both(&first, |_| {}));
        let (high, low) = if first.source.is_ipv4() {
            (2, 3)
        } else {
            (4, 5)
        };
        assert!(!joins_when_both(&first, |packet| packet[low] -= 1));
        assert!(!joins_when_both(&first, |packet| packet[high] += 1));
    }
    assert!(!joins_when_both(&Spec::udp4(payload(100)), |packet| {
        packet[25] -= 1;
    }));
    assert!(!joins_when_both(&Spec::udp6(payload(100)), |packet| {
        packet[45] += 1;
    }));
}

#[test]
fn fragments_and_packets_with_the_reserved_bit_are_not_coalesced() {
    for first in [Spec::tcp4(payload(100)), Spec::udp4(payload(100))] {
        assert!(
            !joins_when_both(&first, |packet| packet[6] |= 0x20),
            "more fragments"
        );
        assert!(
            !joins_when_both(&first, |packet| packet[7] |= 1),
            "an offset"
        );
        assert!(
            !joins_when_both(&first, |packet| packet[6] |= 0x80),
            "the reserved bit"
        );
    }
}

#[test]
fn the_accurate_ecn_flag_must_be_equal() {
    let first = Spec::tcp4(payload(100));
    let ae = |packet: &mut Vec<u8>| packet[32] |= 1;
    assert!(joins_when_both(&first, ae));
    let mut second = first.followed_by(payload(100)).bytes();
    ae(&mut second);
    assert_eq!(
        coalesce(Accept::ALL, &[first.bytes(), repaired(second)]).len(),
        2
    );
}

#[test]
fn tcp_and_udp_between_the_same_ports_are_two_flows() {
    let tcp = Spec::tcp4(payload(100));
    let udp = Spec::udp4(payload(100));
    let specs = [
        tcp.clone(),
        udp.clone(),
        tcp.followed_by(payload(100)),
        udp.followed_by(payload(100)),
    ];
    assert_eq!(groups(&specs), [2, 2]);
}

#[test]
fn bytes_that_are_no_packet_close_every_group() {
    for garbage in [vec![], vec![0x45; 19], vec![0x60; 39], vec![0; 100]] {
        let first = Spec::tcp6(payload(100));
        let packets = [
            first.bytes(),
            garbage,
            first.followed_by(payload(100)).bytes(),
        ];
        assert_eq!(coalesce(Accept::ALL, &packets).len(), 3);
    }
}

#[test]
fn tunnels_inside_the_tunnel_are_not_coalesced() {
    for port in [4789, 6081, 8472] {
        for ports in [(port, 1), (1, port)] {
            let mut first = Spec::udp6(payload(100));
            first.ports = ports;
            assert!(!joins(&first, |_| {}));
        }
    }
}

#[test]
fn a_packet_that_is_not_exactly_its_range_stays_alone() {
    let first = Spec::tcp4(payload(100));
    let mut padded = first.bytes();
    padded.push(0);
    let packets = [padded, first.followed_by(payload(100)).bytes()];
    assert_eq!(coalesce(Accept::ALL, &packets).len(), 2);
}

#[test]
fn a_coalescer_can_be_used_again() {
    let mut coalescer = Coalescer::new(Accept::ALL);
    let first = Spec::tcp4(payload(100));
    let second = first.followed_by(payload(100));
    for _ in 0..3 {
        // A second packet does not join the first of the buffer before.
        let frames = run(&mut coalescer, &[second.bytes()]);
        assert_eq!(frames.len(), 1);
        let frames = run(&mut coalescer, &[first.bytes(), second.bytes()]);
        assert_eq!(frames.len(), 1);
    }
    coalescer.set_accept(Accept::NONE);
    assert_eq!(
        run(&mut coalescer, &[first.bytes(), second.bytes()]).len(),
        2
    );
}

#[test]
fn a_full_coalescer_refuses_and_keeps_what_it_has() {
    let mut coalescer = Coalescer::new(Accept::ALL);
    let mut buffer = Spec::tcp4(Vec::new()).bytes();
    let range = 0..buffer.len();
    for _ in 0..MAX_PACKETS {
        assert_eq!(coalescer.push(&buffer, range.clone()), Ok(()));
    }
    assert_eq!(coalescer.push(&buffer, range), Err(PacketError::Full));
    let mut emitted = 0;
    coalescer.flush(&mut buffer, |gathered| emitted += gathered.packets());
    assert_eq!(emitted, MAX_PACKETS);
}

#[test]
fn a_range_outside_of_the_buffer_is_refused() {
    let mut coalescer = Coalescer::new(Accept::ALL);
    assert_eq!(
        coalescer.push(&[0; 10], 0..11),
        Err(PacketError::OutOfRange)
    );
    assert!(coalescer.is_empty());
}

#[test]
fn a_kind_that_is_refused_is_taken_from_what_is_accepted_and_no_other() {
    let kinds = [
        (Gso::Tcp4, true),
        (Gso::Tcp6, false),
        (Gso::Udp, true),
        (Gso::Udp, false),
    ];
    let kinds = kinds.map(|(gso, is_v4)| Accept::kind(gso, is_v4));
    for refused in kinds {
        let left = Accept::ALL.without(refused);
        assert_ne!(left, Accept::ALL);
        assert_eq!(left.or(refused), Accept::ALL);
    }
    let all = kinds.into_iter().fold(Accept::NONE, Accept::or);
    assert_eq!(all, Accept::ALL);
    assert_eq!(Accept::kind(Gso::None, true), Accept::NONE);
}
