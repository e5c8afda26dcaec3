//! Nothing that comes in can make this crate panic, write out of bounds or lose a packet.

use culvert_packet::checksum::verify_transport;
use culvert_packet::icmp::{Unreachable, packet_too_big, unreachable};
use culvert_packet::ip::IpView;
use culvert_packet::{Accept, VnetHeader, ecn};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::build::{Spec, any_tcp, any_udp, payload};
use crate::coalesce::coalesce;
use crate::split::{split, superframe_header};

/// Bytes that look like a packet at first, then less and less: any bytes, a packet with some of
/// its bytes replaced, and a packet cut short.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let damage = vec((any::<Index>(), any::<u8>()), 0..4);
    let shape = (0_usize..300, damage, any::<Index>(), any::<bool>());
    let damaged = (prop_oneof![any_tcp(), any_udp()], shape).prop_map(
        |(mut spec, (len, damage, cut, shorten))| {
            spec.payload = payload(len);
            let headers = spec.header_len();
            let mut packet = spec.bytes();
            for (place, byte) in damage {
                packet[place.index(headers)] = byte;
            }
            if shorten {
                packet.truncate(cut.index(packet.len()));
            }
            packet
        },
    );
    prop_oneof![1 => vec(any::<u8>(), 0..200), 4 => damaged]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_frame_is_split_or_refused(header: [u8; 10], frame in any_frame(), plausible: bool) {
        let Ok(mut vnet) = VnetHeader::parse(&header) else { return Ok(()) };
        if plausible {
            let spec = if frame.first().is_some_and(|byte| byte >> 4 == 6) {
                Spec::tcp6(Vec::new())
            } else {
                Spec::tcp4(Vec::new())
            };
            vnet = superframe_header(&spec, vnet.gso_size % 200);
        }
        if let Ok(packets) = split(&vnet, &frame) {
            for packet in packets {
                prop_assert_eq!(IpView::parse(&packet).map(|view| view.total_len()), Ok(packet.len()));
            }
        }
    }

    #[test]
    fn any_packets_are_emitted_once_each(packets in vec(any_frame(), 0..20)) {
        let frames = coalesce(Accept::ALL, &packets);
        prop_assert_eq!(frames.iter().map(|frame| frame.packets).sum::<usize>(), packets.len());
        for frame in frames.iter().filter(|frame| frame.packets == 1) {
            prop_assert!(packets.contains(&frame.bytes));
        }
    }

    #[test]
    fn any_bytes_can_be_viewed_checked_marked_and_answered(mut bytes in any_frame()) {
        let mut out = [0; 1280];
        if let Ok(view) = IpView::parse(&bytes) {
            let _ = (view.source(), view.destination(), view.ports(), view.transport());
            let _ = verify_transport(&view);
            prop_assert!(view.header_len() <= view.total_len());
            prop_assert!(view.total_len() <= bytes.len());
        }
        for len in [packet_too_big(&bytes, 1400, &mut out), unreachable(&bytes, Unreachable::Host, &mut out)]
            .into_iter()
            .flatten()
        {
            prop_assert_eq!(IpView::parse(&out[..len]).map(|view| view.total_len()), Ok(len));
        }
        let before = bytes.clone();
        ecn::mark_ce(&mut bytes);
        prop_assert_eq!(bytes.len(), before.len());
    }
}
