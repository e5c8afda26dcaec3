//! Splitting and coalescing undo each other, and order is kept.

use culvert_packet::Accept;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::build::{ACK, FIN, PSH, Spec, Transport, any_tcp, any_udp, payload};
use crate::coalesce::{Frame, coalesce};
use crate::oracle::assert_accepted;
use crate::split::{expected_segments, split, superframe_header};

/// A superframe that coalescing can have made: at least two segments, no more than it takes.
fn any_superframe() -> impl Strategy<Value = (Spec, usize)> {
    let shape = (100_usize..1500, 2_usize..45, any::<Index>(), any::<u8>());
    (prop_oneof![any_tcp(), any_udp()], shape).prop_map(
        |(mut spec, (gso_size, segments, last, flags))| {
            let segments = segments.min((65_535 - 160) / gso_size);
            let last_len = last.index(gso_size) + 1;
            spec.payload = payload((segments - 1) * gso_size + last_len);
            if let Transport::Tcp(tcp) = &mut spec.transport {
                tcp.flags |= flags & (PSH | FIN);
            }
            (spec, gso_size)
        },
    )
}

/// Takes the frames apart again into packets.
fn split_all(frames: &[Frame]) -> Vec<Vec<u8>> {
    let split = |frame: &Frame| split(&frame.vnet, &frame.bytes).expect("a frame of our own");
    frames.iter().flat_map(split).collect()
}

/// Packets of a few flows, interleaved, with losses, repetitions, odd sizes and flags: what the
/// network may make of them.
fn any_mixture() -> impl Strategy<Value = Vec<Spec>> {
    // Flow, length of the payload, TCP flags, whether the packet before it is lost or repeated.
    let step = (
        0_usize..12,
        prop_oneof![Just(100), 0_usize..120],
        any_flags(),
        0_u8..10,
    );
    vec(step, 1..100).prop_map(|steps| {
        let mut heads: Vec<Spec> = (0..12).map(flow).collect();
        let mut sent = Vec::new();
        for (flow, len, flags, accident) in steps {
            let mut packet = Spec {
                payload: payload(len),
                ..heads[flow].clone()
            };
            if let Transport::Tcp(tcp) = &mut packet.transport {
                tcp.flags = flags;
            }
            heads[flow] = packet.followed_by(Vec::new());
            if accident != 0 {
                sent.push(packet.clone());
            }
            if accident == 1 {
                sent.push(packet);
            }
        }
        sent
    })
}

fn any_flags() -> impl Strategy<Value = u8> {
    prop_oneof![8 => Just(ACK), 1 => Just(ACK | PSH), 1 => any::<u8>()]
}

fn flow(index: u16) -> Spec {
    let mut spec = match index % 4 {
        0 => Spec::tcp4(Vec::new()),
        1 => Spec::tcp6(Vec::new()),
        2 => Spec::udp4(Vec::new()),
        _ => Spec::udp6(Vec::new()),
    };
    spec.ports.0 = 1000 + index;
    spec.dont_fragment = index.is_multiple_of(3);
    spec
}

/// The flow of a packet that was built here.
fn flow_of(packet: &[u8]) -> (u8, Vec<u8>) {
    match packet[0] >> 4 {
        4 => (packet[9], packet[12..24].to_vec()),
        _ => (packet[6], packet[8..44].to_vec()),
    }
}

proptest! {
    #[test]
    fn coalescing_undoes_splitting((spec, gso_size) in any_superframe()) {
        let vnet = superframe_header(&spec, gso_size as u16);
        let packets = split(&vnet, &spec.bytes()).expect("a superframe");
        for packet in &packets {
            assert_accepted(packet);
        }
        let frames = coalesce(Accept::ALL, &packets);
        prop_assert_eq!(frames.len(), 1);
        prop_assert_eq!(frames[0].vnet, vnet);
        // Equal to the original but for the checksum, of which only the pseudo-header is in.
        let mut bytes = frames[0].bytes.clone();
        let field = usize::from(vnet.checksum_start + vnet.checksum_offset);
        bytes[field..field + 2].copy_from_slice(&spec.bytes()[field..field + 2]);
        prop_assert_eq!(bytes, spec.bytes());
    }

    #[test]
    fn splitting_undoes_coalescing((spec, gso_size) in any_superframe()) {
        let packets: Vec<Vec<u8>> =
            expected_segments(&spec, gso_size).iter().map(Spec::bytes).collect();
        prop_assert_eq!(split_all(&coalesce(Accept::ALL, &packets)), packets);
    }

    #[test]
    fn every_flow_keeps_its_packets_and_their_order(specs in any_mixture()) {
        let packets: Vec<Vec<u8>> = specs.iter().map(Spec::bytes).collect();
        let emitted = split_all(&coalesce(Accept::ALL, &packets));
        prop_assert_eq!(emitted.len(), packets.len());
        for packet in &packets {
            let of_flow = |packets: &[Vec<u8>]| -> Vec<Vec<u8>> {
                let same = |other: &&Vec<u8>| flow_of(other) == flow_of(packet);
                // Under DF an identification may be renumbered.
                packets.iter().filter(same).map(|packet| without_id(packet)).collect()
            };
            prop_assert_eq!(of_flow(&emitted), of_flow(&packets));
        }
    }

    #[test]
    fn a_corrupted_packet_is_emitted_alone_as_it_came(
        (spec, gso_size) in any_superframe(),
        which: Index,
        bit: Index,
    ) {
        let mut packets: Vec<Vec<u8>> =
            expected_segments(&spec, gso_size).iter().map(Spec::bytes).collect();
        let which = which.index(packets.len());
        // An IPv6 header has no checksum: what is changed there is either compared or part of
        // the pseudo-header; all that is left is the hop limit and the like of a packet that
        // stays alone. Flip a bit behind it.
        let start = if spec.source.is_ipv4() { 0 } else { 40 };
        let bit = start * 8 + bit.index((packets[which].len() - start) * 8);
        packets[which][bit / 8] ^= 1 << (bit % 8);
        let frames = coalesce(Accept::ALL, &packets);
        let alone = frames.iter().filter(|frame| frame.bytes == packets[which]);
        prop_assert_eq!(alone.map(|frame| frame.packets).collect::<Vec<_>>(), vec![1]);
        prop_assert_eq!(frames.iter().map(|frame| frame.packets).sum::<usize>(), packets.len());
    }
}

/// The packet without the IPv4 identification and the checksum over it, if DF is set.
fn without_id(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet[0] >> 4 == 4 && packet[6] & 0x40 != 0 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}
