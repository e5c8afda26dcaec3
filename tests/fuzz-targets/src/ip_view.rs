use crate::naive;
use culvert_packet::checksum::{ChecksumState, verify_transport};
use culvert_packet::ecn::{self, Ecn};
use culvert_packet::ip::IpView;
use std::net::IpAddr;

/// Any bytes are viewed as an IP packet or refused. A view stays within the bytes, agrees with
/// itself and with a slow checksum, and marking the packet changes its ECN field alone.
///
/// # Panics
/// If a property does not hold.
pub fn ip_view(data: &[u8]) {
    let Ok(view) = IpView::parse(data) else {
        let mut marked = data.to_vec();
        ecn::mark_ce(&mut marked);
        assert_eq!(marked.len(), data.len());
        return;
    };
    assert_eq!(view.bytes(), &data[..view.total_len()]);
    assert!(view.header_len() <= view.total_len());
    assert_eq!(view.transport().len(), view.total_len() - view.header_len());
    assert_eq!(view.is_v4(), matches!(view.source(), IpAddr::V4(_)));
    assert_eq!(view.is_v4(), view.destination().is_ipv4());
    assert!(view.dscp() < 64);
    assert!(view.is_fragment() || !view.is_later_fragment());
    if let Some((source, destination)) = view.ports() {
        let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
        assert_eq!(view.transport()[..4], ports);
        assert!(!view.is_later_fragment());
    }
    // The view of the packet without what lies behind it is the same.
    let trimmed = IpView::parse(view.bytes()).expect("a packet that was accepted");
    assert_eq!(trimmed.bytes(), view.bytes());
    assert_eq!(trimmed.header_len(), view.header_len());
    assert_eq!(trimmed.protocol(), view.protocol());

    assert_verdict(&view);
    assert_marking(&view);
}

/// The verdict on TCP and ICMP, whose checksums cover all of the transport.
fn assert_verdict(view: &IpView<'_>) {
    let protocol = view.protocol().0;
    let right = match protocol {
        1 => naive::sum(view.transport()) == 0xFFFF,
        6 | 58 => naive::is_transport_checksum_right(view.bytes(), view.header_len(), protocol),
        _ => return,
    };
    let expected = match (view.is_fragment() || view.is_source_routed(), right) {
        (true, _) => ChecksumState::Unknown,
        (false, true) => ChecksumState::Right,
        (false, false) => ChecksumState::Wrong,
    };
    assert_eq!(verify_transport(view), expected);
}

fn assert_marking(view: &IpView<'_>) {
    for codepoint in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        let mut marked = view.bytes().to_vec();
        if view.is_v4() {
            marked[10..12].fill(0);
            let checksum = !naive::sum(&marked[..view.header_len()]);
            marked[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        ecn::set(&mut marked, codepoint);
        let after = IpView::parse(&marked).expect("marking keeps a packet a packet");
        assert_eq!(after.ecn(), codepoint);
        assert_eq!(after.dscp(), view.dscp());
        assert!(naive::is_header_checksum_right(&marked));
        assert_eq!(after.transport(), view.transport());
    }
}
