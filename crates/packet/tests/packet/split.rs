//! Frames from the TUN become the packets that a network card would have made of them.

use culvert_packet::{Cut, Gso, MAX_SEGMENTS, PacketError, VnetHeader};
use proptest::prelude::*;

use crate::build::{ACK, CWR, FIN, PSH, Spec, Transport, any_tcp, any_udp, naive_sum, payload};
use crate::oracle::assert_accepted;

/// The vnet header with which the kernel would hand out `spec` as a superframe.
pub(crate) fn superframe_header(spec: &Spec, gso_size: u16) -> VnetHeader {
    let (gso, checksum_offset) = match (&spec.transport, spec.source.is_ipv4()) {
        (Transport::Tcp(_), true) => (Gso::Tcp4, 16),
        (Transport::Tcp(_), false) => (Gso::Tcp6, 16),
        (Transport::Udp, _) => (Gso::Udp, 6),
    };
    VnetHeader {
        needs_checksum: true,
        gso,
        ecn: false,
        header_len: spec.header_len() as u16,
        gso_size,
        checksum_start: spec.ip_header_len() as u16,
        checksum_offset,
    }
}

/// Every packet of the frame, in a buffer that was not clean.
pub(crate) fn split(vnet: &VnetHeader, frame: &[u8]) -> Result<Vec<Vec<u8>>, PacketError> {
    let cut = Cut::plan(vnet, frame)?;
    Ok((0..cut.segments())
        .map(|index| {
            let mut out = vec![0xA5; cut.segment_len(index)];
            cut.write_segment(frame, index, &mut out);
            out
        })
        .collect())
}

/// The expected segments of `spec`.
pub(crate) fn expected_segments(spec: &Spec, gso_size: usize) -> Vec<Spec> {
    let count = spec.payload.len().div_ceil(gso_size).max(1);
    (0..count)
        .map(|index| {
            let start = index * gso_size;
            let end = spec.payload.len().min(start + gso_size);
            let mut segment = Spec {
                id: spec.id.wrapping_add(index as u16),
                payload: spec.payload[start..end].to_vec(),
                ..spec.clone()
            };
            if let Transport::Tcp(tcp) = &mut segment.transport {
                tcp.sequence = tcp.sequence.wrapping_add(start as u32);
                if index + 1 < count {
                    tcp.flags &= !(FIN | PSH);
                }
                if index > 0 {
                    tcp.flags &= !CWR;
                }
            }
            segment
        })
        .collect()
}

fn assert_split(spec: &Spec, gso_size: usize) {
    let packets = split(&superframe_header(spec, gso_size as u16), &spec.bytes())
        .expect("a well-formed superframe");
    let expected = expected_segments(spec, gso_size);
    assert_eq!(packets.len(), expected.len());
    for (packet, expected) in packets.iter().zip(&expected) {
        assert_eq!(*packet, expected.bytes());
        assert_accepted(packet);
    }
}

proptest! {
    #[test]
    fn a_tcp_superframe_becomes_the_segments_the_sender_meant(
        mut spec in any_tcp(),
        flags: u8,
        ip_options in 0_usize..=10,
        len in 0_usize..8000,
        gso_size in 100_usize..2000,
    ) {
        spec.tcp().flags = flags;
        spec.tcp().urgent = 7;
        spec.payload = payload(len);
        if spec.source.is_ipv4() {
            spec.ip_options = vec![1; ip_options * 4];
        }
        assert_split(&spec, gso_size);
    }

    #[test]
    fn a_udp_superframe_becomes_datagrams(
        mut spec in any_udp(),
        len in 0_usize..8000,
        gso_size in 100_usize..2000,
    ) {
        spec.payload = payload(len);
        assert_split(&spec, gso_size);
    }

    #[test]
    fn an_unfinished_checksum_is_finished(mut spec in prop_oneof![any_tcp(), any_udp()], len in 0_usize..2000) {
        spec.payload = payload(len);
        let complete = spec.bytes();
        let mut frame = complete.clone();
        let vnet = VnetHeader { gso: Gso::None, ..superframe_header(&spec, 0) };
        let field = usize::from(vnet.checksum_start + vnet.checksum_offset);
        let partial = naive_sum(&spec.pseudo_header(frame.len() - spec.ip_header_len()));
        frame[field..field + 2].copy_from_slice(&partial.to_be_bytes());
        let packets = split(&vnet, &frame).expect("a well-formed frame");
        prop_assert_eq!(packets, vec![complete]);
    }
}

#[test]
fn a_plain_packet_is_one_segment_untouched() {
    // Its checksum is wrong, which is the sender's business.
    let mut packet = Spec::tcp4(payload(500)).bytes();
    packet[36] ^= 1;
    assert_eq!(split(&VnetHeader::default(), &packet), Ok(vec![packet]));
}

#[test]
fn what_lies_behind_the_packet_is_not_sent() {
    let spec = Spec::tcp6(payload(500));
    let mut frame = spec.bytes();
    frame.extend([1, 2, 3]);
    assert_eq!(
        split(&VnetHeader::default(), &frame),
        Ok(vec![spec.bytes()])
    );
    let packets = split(&superframe_header(&spec, 300), &frame).expect("a superframe");
    assert_eq!(packets.len(), 2);
    assert_eq!(packets[1], expected_segments(&spec, 300)[1].bytes());
}

#[test]
fn the_kernels_header_length_is_not_trusted() {
    let spec = Spec::tcp4(payload(500));
    for header_len in [0, 20, 41, 500, u16::MAX] {
        let vnet = VnetHeader {
            header_len,
            ..superframe_header(&spec, 200)
        };
        assert_eq!(
            split(&vnet, &spec.bytes()).map(|packets| packets.len()),
            Ok(3)
        );
    }
}

#[test]
fn the_end_of_a_train_is_told_last_and_the_reduced_window_first() {
    let spec = Spec::tcp4(payload(500)).with_tcp(|tcp| tcp.flags = ACK | PSH | FIN | CWR);
    let packets = split(&superframe_header(&spec, 200), &spec.bytes()).expect("a superframe");
    let flags: Vec<u8> = packets.iter().map(|packet| packet[33]).collect();
    assert_eq!(flags, [ACK | CWR, ACK, ACK | PSH | FIN]);
}

#[test]
fn sequence_and_identification_wrap() {
    let mut spec = Spec::tcp4(payload(600)).with_tcp(|tcp| tcp.sequence = u32::MAX - 250);
    spec.id = u16::MAX;
    assert_split(&spec, 200);
}

#[test]
fn a_datagrams_checksum_of_zero_is_sent_as_ones() {
    let mut spec = Spec::udp4(vec![0; 200]);
    // Two payload bytes that bring the sum of the first datagram to zero.
    spec.payload.truncate(100);
    let complement = u16::from_be_bytes([spec.bytes()[26], spec.bytes()[27]]);
    spec.payload[..2].copy_from_slice(&complement.to_be_bytes());
    assert_eq!(spec.bytes()[26..28], [0xFF, 0xFF]);
    let first = spec.clone();
    spec.payload.extend([0; 100]);
    let packets = split(&superframe_header(&spec, 100), &spec.bytes()).expect("a superframe");
    assert_eq!(packets[0], first.bytes());
    // And for one that only needs its checksum finished.
    let mut frame = first.bytes();
    let partial = naive_sum(&first.pseudo_header(108));
    frame[26..28].copy_from_slice(&partial.to_be_bytes());
    let vnet = VnetHeader {
        gso: Gso::None,
        ..superframe_header(&first, 0)
    };
    assert_eq!(split(&vnet, &frame), Ok(vec![first.bytes()]));
}

#[test]
fn all_segments_are_equally_long_but_the_last() {
    let spec = Spec::udp6(payload(1001));
    let frame = spec.bytes();
    let cut = Cut::plan(&superframe_header(&spec, 250), &frame).expect("a superframe");
    let lens: Vec<usize> = (0..cut.segments())
        .map(|index| cut.segment_len(index))
        .collect();
    assert_eq!(lens, [298, 298, 298, 298, 49]);
}

#[test]
fn the_summary_is_that_of_the_ip_header() {
    let mut spec = Spec::tcp4(payload(10));
    spec.traffic_class = 2;
    spec.dont_fragment = false;
    let ip = Cut::plan(&VnetHeader::default(), &spec.bytes())
        .expect("a packet")
        .ip();
    assert_eq!((ip.source, ip.destination), (spec.source, spec.destination));
    assert_eq!(ip.ecn, culvert_packet::ecn::Ecn::Ect0);
    assert!(!ip.dont_fragment);
}

#[test]
fn the_smallest_segments_the_kernel_makes_are_within_the_bound() {
    let spec = Spec::tcp4(payload(65_495));
    let packets = split(&superframe_header(&spec, 8), &spec.bytes()).expect("a superframe");
    assert_eq!(packets.len(), 65_495_usize.div_ceil(8));
    assert!(packets.len() <= MAX_SEGMENTS);
}

#[test]
fn more_segments_than_the_bound_are_refused() {
    let spec = Spec::tcp4(payload(60_000));
    assert_eq!(
        split(&superframe_header(&spec, 7), &spec.bytes()),
        Err(PacketError::TooManySegments(8572))
    );
    assert_eq!(
        split(&superframe_header(&spec, 0), &spec.bytes()),
        Err(PacketError::GsoSize)
    );
}

#[test]
fn a_frame_of_another_kind_than_its_type_is_refused() {
    let frames = [
        Spec::tcp4(payload(500)),
        Spec::tcp6(payload(500)),
        Spec::udp4(payload(500)),
    ];
    for (index, frame) in frames.iter().enumerate() {
        for (other, vnet) in frames.iter().enumerate() {
            let result = split(&superframe_header(vnet, 100), &frame.bytes());
            assert_eq!(result.is_ok(), index == other);
            if index != other {
                assert_eq!(result, Err(PacketError::GsoMismatch));
            }
        }
    }
}

#[test]
fn a_fragment_cannot_be_split() {
    let spec = Spec::tcp4(payload(500));
    let mut frame = spec.bytes();
    frame[6] = 0x20;
    let vnet = superframe_header(&spec, 100);
    assert_eq!(split(&vnet, &frame), Err(PacketError::GsoUnsplittable));
}

#[test]
fn a_source_routed_superframe_is_refused() {
    let spec = Spec::tcp6(payload(500));
    let plain = spec.bytes();
    let routing = [6, 0, 4, 1, 0, 0, 0, 0];
    let mut frame = [&plain[..40], &routing, &plain[40..]].concat();
    let payload_len = (frame.len() - 40) as u16;
    frame[4..6].copy_from_slice(&payload_len.to_be_bytes());
    frame[6] = 43;
    let vnet = superframe_header(&spec, 100);
    assert_eq!(split(&vnet, &frame), Err(PacketError::GsoUnsplittable));
}

#[test]
fn a_superframe_without_payload_is_one_packet() {
    for spec in [Spec::tcp4(Vec::new()), Spec::udp6(Vec::new())] {
        assert_split(&spec, 100);
    }
}

#[test]
fn a_packet_longer_than_a_buffer_is_refused() {
    let mut packet = vec![0; 40 + 65_535];
    packet[0] = 0x60;
    packet[4..6].fill(0xFF);
    assert_eq!(
        split(&VnetHeader::default(), &packet),
        Err(PacketError::TotalLength {
            claimed: 65_575,
            len: 65_575
        })
    );
}

#[test]
fn a_tcp_header_beyond_the_frame_is_refused() {
    let spec = Spec::tcp4(payload(10));
    for words in [0_u8, 4, 15] {
        let mut frame = spec.bytes();
        frame[32] = words << 4;
        assert_eq!(
            split(&superframe_header(&spec, 5), &frame),
            Err(PacketError::HeaderLength(30))
        );
    }
}

#[test]
fn a_checksum_field_outside_of_the_packet_is_refused() {
    let spec = Spec::udp4(payload(10));
    let mut frame = spec.bytes();
    frame.extend([0; 20]);
    for (checksum_start, checksum_offset, ok) in [
        (20, 16, true),
        (20, 17, false),
        (36, 0, true),
        (38, 0, false),
        (u16::MAX, u16::MAX, false),
    ] {
        let vnet = VnetHeader {
            needs_checksum: true,
            checksum_start,
            checksum_offset,
            ..VnetHeader::default()
        };
        assert_eq!(
            Cut::plan(&vnet, &frame).is_ok(),
            ok,
            "{checksum_start}+{checksum_offset}"
        );
    }
}

#[test]
fn extension_headers_are_carried_by_every_segment() {
    let spec = Spec::tcp6(payload(500));
    let plain = spec.bytes();
    let extension = [6, 0, 1, 4, 0, 0, 0, 0];
    let with_extension = |plain: &[u8]| {
        let mut packet = [&plain[..40], &extension, &plain[40..]].concat();
        packet[6] = 60;
        let payload_len = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&payload_len.to_be_bytes());
        packet
    };
    let vnet = superframe_header(&spec, 200);
    let packets = split(&vnet, &with_extension(&plain)).expect("a superframe");
    let expected: Vec<Vec<u8>> = expected_segments(&spec, 200)
        .iter()
        .map(|segment| with_extension(&segment.bytes()))
        .collect();
    assert_eq!(packets, expected);
}
