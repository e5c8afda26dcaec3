use crate::naive;
use culvert_packet::checksum::{ChecksumState, verify_transport};
use culvert_packet::ip::{IpView, Protocol};
use culvert_packet::{Cut, Gso, MAX_SEGMENTS, VNET_HEADER_LEN, VnetHeader};

/// A frame as it is read from a TUN, vnet header first, is refused or cut into packets. Each packet
/// is complete and has right checksums. Together they are the frame's payload, once and in order.
///
/// # Panics
/// If a property does not hold.
pub fn cut(data: &[u8]) {
    let Some((header, frame)) = data.split_first_chunk::<VNET_HEADER_LEN>() else {
        return;
    };
    let Ok(vnet) = VnetHeader::parse(header) else {
        return;
    };
    let mut written = [0; VNET_HEADER_LEN];
    vnet.write(&mut written);
    assert_eq!(VnetHeader::parse(&written), Ok(vnet));

    let Ok(cut) = Cut::plan(&vnet, frame) else {
        return;
    };
    let view = IpView::parse(frame).expect("only IP packets are cut");
    assert!((1..=MAX_SEGMENTS).contains(&cut.segments()));
    assert_eq!(cut.ip().source, view.source());
    assert_eq!(cut.ip().destination, view.destination());
    let packets: Vec<Vec<u8>> = (0..cut.segments())
        .map(|index| {
            // Not clean: what is not written shows.
            let mut out = vec![0xA5; cut.segment_len(index)];
            cut.write_segment(frame, index, &mut out);
            out
        })
        .collect();
    match (vnet.gso, vnet.needs_checksum) {
        (Gso::None, false) => assert_eq!(packets, [view.bytes()]),
        (Gso::None, true) => assert_finished(&vnet, view.bytes(), &packets),
        (Gso::Tcp4 | Gso::Tcp6 | Gso::Udp, _) => assert_segments(&vnet, &view, &packets),
    }
}

/// One packet, of which only the checksum field changed: to what makes the sum right.
fn assert_finished(vnet: &VnetHeader, whole: &[u8], packets: &[Vec<u8>]) {
    assert_eq!(packets.len(), 1);
    let start = usize::from(vnet.checksum_start);
    let field = start + usize::from(vnet.checksum_offset);
    let mut expected = whole.to_vec();
    let checksum = match !naive::sum(&whole[start..]) {
        0 => 0xFFFF,
        checksum => checksum,
    };
    expected[field..field + 2].copy_from_slice(&checksum.to_be_bytes());
    assert_eq!(packets[0], expected);
}

fn assert_segments(vnet: &VnetHeader, whole: &IpView<'_>, packets: &[Vec<u8>]) {
    let protocol = whole.protocol();
    assert_eq!(protocol == Protocol::UDP, vnet.gso == Gso::Udp);
    let header_len = whole.header_len() + transport_header_len(whole);
    let stride = usize::from(vnet.gso_size);
    let mut payload: Vec<u8> = Vec::new();
    for (index, packet) in packets.iter().enumerate() {
        let view = IpView::parse(packet).expect("a segment is an IP packet");
        assert_eq!(view.total_len(), packet.len());
        let start = view.header_len();
        assert!(naive::is_header_checksum_right(packet));
        assert!(naive::is_transport_checksum_right(
            packet, start, protocol.0
        ));
        assert_eq!(verify_transport(&view), ChecksumState::Right);
        let is_last = index + 1 == packets.len();
        assert!(packet.len() == header_len + stride || is_last);
        let header = expected_header(whole, index, payload.len(), packet.len(), is_last);
        assert_eq!(packet[..header_len], header);
        payload.extend(&packet[header_len..]);
    }
    assert_eq!(payload, whole.bytes()[header_len..]);
}

/// The headers of segment `index`, which begins `offset` bytes into the payload: those of the frame
/// but for lengths and checksums. The IPv4 identification and the sequence number count on; FIN and
/// PSH stay with the last segment, CWR with the first.
fn expected_header(
    whole: &IpView<'_>,
    index: usize,
    offset: usize,
    total_len: usize,
    is_last: bool,
) -> Vec<u8> {
    const FIN_AND_PSH: u8 = 0x09;
    const CWR: u8 = 0x80;
    let start = whole.header_len();
    let mut packet = whole.bytes().to_vec();
    if whole.is_v4() {
        put(&mut packet, 2, total_len as u16);
        let id = u16::from_be_bytes([packet[4], packet[5]]);
        put(&mut packet, 4, id.wrapping_add(index as u16));
    } else {
        put(&mut packet, 4, (total_len - 40) as u16);
    }
    if whole.protocol() == Protocol::UDP {
        put(&mut packet, start + 4, (total_len - start) as u16);
    } else {
        let field = start + 4..start + 8;
        let sequence = packet[field.clone()]
            .first_chunk()
            .map_or(0, |it| u32::from_be_bytes(*it));
        let sequence = sequence.wrapping_add(offset as u32);
        packet[field].copy_from_slice(&sequence.to_be_bytes());
        if !is_last {
            packet[start + 13] &= !FIN_AND_PSH;
        }
        if index > 0 {
            packet[start + 13] &= !CWR;
        }
    }
    // The segment as it was before its checksums, with the payload that belongs to it.
    let header_len = start + transport_header_len(whole);
    let mut segment = packet[..header_len].to_vec();
    segment.extend(&packet[header_len + offset..][..total_len - header_len]);
    naive::write_checksums(&mut segment, start, whole.protocol().0);
    segment.truncate(header_len);
    segment
}

fn transport_header_len(whole: &IpView<'_>) -> usize {
    match whole.protocol() {
        Protocol::UDP => 8,
        _ => usize::from(whole.transport()[12] >> 4) * 4,
    }
}

fn put(packet: &mut [u8], at: usize, value: u16) {
    packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
}
