use crate::input::Input;
use crate::naive;
use culvert_packet::ip::{IpView, Protocol};
use culvert_packet::{
    Accept, Coalescer, Cut, Gso, MAX_PACKETS, MAX_UDP_GROUP_PACKETS, PacketError, VnetHeader,
};
use std::ops::Range;

/// Packets of a few flows, in order and out of order, whole and damaged, are coalesced. Every packet
/// leaves once. The frames, cut again, are the packets that went in. No two packets that a receiver
/// could tell apart only by their order have changed it.
///
/// # Panics
/// If a property does not hold.
pub fn coalesce(data: &[u8]) {
    let mut input = Input::new(data);
    let accept = accept(input.u8());
    let packets = packets(&mut input);
    let (mut buffer, ranges) = laid_out(&packets);
    let mut coalescer = Coalescer::new(accept);
    for range in &ranges {
        let pushed = coalescer.push(&buffer, range.clone());
        pushed.expect("there is room for the packets of one batch");
    }
    let beyond = buffer.len()..buffer.len() + 1;
    assert_eq!(
        coalescer.push(&buffer, beyond),
        Err(PacketError::OutOfRange)
    );
    assert_eq!(coalescer.len(), packets.len());

    let mut emitted = Vec::new();
    coalescer.flush(&mut buffer, |mut gathered| {
        let count = gathered.packets();
        let first = gathered.first().to_vec();
        let (later_bytes, later_tcp_flags) = (gathered.later_bytes(), gathered.later_tcp_flags());
        let (vnet, buffer, parts) = gathered.finish();
        let members = members(&ranges, parts);
        assert_eq!(first, packets[members[0]], "as it came");
        let later = &members[1..];
        assert_later(&packets, later, later_bytes, later_tcp_flags);
        assert_eq!(members.len(), count);
        let frame = parts.iter().flat_map(|part| &buffer[part.clone()]);
        let frame: Vec<u8> = frame.copied().collect();
        assert_frame(&vnet, &frame, &members, &packets, accept);
        emitted.extend(members);
    });
    assert!(coalescer.is_empty());
    let mut sorted = emitted.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..packets.len()), "each packet once");
    assert_order(&packets, &emitted);
}

/// Compares the facts reported of packets behind the first, and holds that a check of the headers covers
/// them with the first.
fn assert_later(packets: &[Vec<u8>], later: &[usize], bytes: usize, tcp_flags: u8) {
    const FIN_PSH_ACK_ECE: u8 = 0x59;
    let (mut all_bytes, mut all_flags) = (0, 0);
    for number in later {
        let packet = &packets[*number];
        let view = IpView::parse(packet).expect("a packet of a group");
        let transport = view.transport();
        let header_len = match view.protocol() {
            Protocol::TCP => {
                all_flags |= transport[13];
                usize::from(transport[12] >> 4) * 4
            }
            _ => 8,
        };
        all_bytes += transport.len() - header_len;
    }
    assert_eq!((bytes, tcp_flags), (all_bytes, all_flags));
    assert_eq!(tcp_flags & !FIN_PSH_ACK_ECE, 0);
}

fn accept(bits: u8) -> Accept {
    Accept {
        // Usually everything.
        tcp4: bits & 1 == 0,
        tcp6: bits & 2 == 0,
        udp4: bits & 4 == 0,
        udp6: bits & 8 == 0,
    }
}

/// The packets in one buffer, with gaps as between records.
fn laid_out(packets: &[Vec<u8>]) -> (Vec<u8>, Vec<Range<usize>>) {
    let mut buffer = Vec::new();
    let place = |packet: &Vec<u8>| {
        buffer.extend([0xEE; 16]);
        let start = buffer.len();
        buffer.extend(packet);
        start..buffer.len()
    };
    let ranges = packets.iter().map(place).collect();
    (buffer, ranges)
}

/// The numbers of the packets that a frame is made of: the first part begins where its packet does,
/// every other ends where its packet does.
fn members(ranges: &[Range<usize>], parts: &[Range<usize>]) -> Vec<usize> {
    let number = |(index, part): (usize, &Range<usize>)| {
        let of_part = |range: &Range<usize>| match index {
            0 => range == part,
            _ => range.start < part.start && range.end == part.end,
        };
        ranges.iter().position(of_part).expect("a packet's part")
    };
    parts.iter().enumerate().map(number).collect()
}

fn assert_frame(
    vnet: &VnetHeader,
    frame: &[u8],
    members: &[usize],
    packets: &[Vec<u8>],
    accept: Accept,
) {
    if let [alone] = *members {
        assert_eq!(*vnet, VnetHeader::default());
        assert_eq!(frame, packets[alone]);
        return;
    }
    let is_v4 = frame[0] >> 4 == 4;
    match vnet.gso {
        Gso::Tcp4 => assert!(accept.tcp4 && is_v4),
        Gso::Tcp6 => assert!(accept.tcp6 && !is_v4),
        Gso::Udp => {
            assert!(if is_v4 { accept.udp4 } else { accept.udp6 });
            assert!(members.len() <= MAX_UDP_GROUP_PACKETS);
        }
        Gso::None => panic!("several packets without a way to cut them"),
    }
    assert!(vnet.needs_checksum);
    let cut = Cut::plan(vnet, frame).expect("a frame of our own can be cut");
    assert_eq!(cut.segments(), members.len());
    for (index, member) in members.iter().enumerate() {
        let mut packet = vec![0xA5; cut.segment_len(index)];
        cut.write_segment(frame, index, &mut packet);
        assert_eq!(comparable(&packet), comparable(&packets[*member]));
    }
}

/// The packet with right checksums cleared, of which two forms of zero exist, and without the IPv4
/// identification if DF is set, as it means nothing then (RFC 6864 §4).
fn comparable(packet: &[u8]) -> Vec<u8> {
    let view = IpView::parse(packet).expect("a packet of a group");
    let (start, protocol) = (view.header_len(), view.protocol());
    assert!(naive::is_header_checksum_right(packet));
    assert!(naive::is_transport_checksum_right(
        packet, start, protocol.0
    ));
    let mut packet = packet.to_vec();
    let field = start + if protocol == Protocol::TCP { 16 } else { 6 };
    packet[field..field + 2].fill(0);
    if view.is_v4() {
        packet[10..12].fill(0);
        if view.dont_fragment() {
            packet[4..6].fill(0);
        }
    }
    packet
}

/// Packets between the same hosts are in order where they are of one flow, or where one of them, a
/// fragment say, cannot be told to be of another.
fn assert_order(packets: &[Vec<u8>], emitted: &[usize]) {
    let mut place = vec![0; packets.len()];
    for (at, number) in emitted.iter().enumerate() {
        place[*number] = at;
    }
    let views: Vec<_> = packets.iter().map(|packet| IpView::parse(packet)).collect();
    for (later, second) in views.iter().enumerate() {
        for (earlier, first) in views[..later].iter().enumerate() {
            let (Ok(first), Ok(second)) = (first, second) else {
                continue;
            };
            if may_be_one_flow(first, second) {
                assert!(place[earlier] < place[later], "{earlier} before {later}");
            }
        }
    }
}

fn may_be_one_flow(first: &IpView<'_>, second: &IpView<'_>) -> bool {
    let same_hosts =
        first.source() == second.source() && first.destination() == second.destination();
    let unknown = first.ports().is_none() || second.ports().is_none();
    let same_flow = first.protocol() == second.protocol() && first.ports() == second.ports();
    same_hosts && (unknown || same_flow)
}

/// The state of a flow: the beginning of its next packet.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flow {
    sequence: u32,
    id: u16,
}

fn packets(input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let mut flows = [Flow::default(); 16];
    let mut packets = Vec::new();
    while !input.is_empty() && packets.len() < MAX_PACKETS {
        let choice = input.u8();
        let number = choice % 16;
        let flow = &mut flows[usize::from(number)];
        let (flags, len) = match choice >> 4 {
            // Mostly the next full packet of a bulk transfer.
            0..=7 => (ACK, 100),
            8 | 9 => (ACK, usize::from(input.u8())),
            10 | 11 => (input.u8(), 100),
            // Larger ones, so that a frame fills up.
            12 => (ACK, usize::from(input.u16()) % 4000),
            13 => {
                flow.sequence = flow.sequence.wrapping_add(u32::from(input.u8()));
                (ACK, 100)
            }
            _ => (ACK, 100),
        };
        let (mut packet, transport) = packet(number, flow, flags, len);
        flow.sequence = flow.sequence.wrapping_add(len as u32);
        flow.id = flow.id.wrapping_add(1);
        if choice >> 4 == 14 {
            input.damage(&mut packet);
            let protocol = if number & 2 == 0 { 6 } else { 17 };
            naive::write_checksums(&mut packet, transport, protocol);
        } else if choice >> 4 == 15 {
            input.damage(&mut packet);
            packet.truncate(packet.len() - usize::from(input.u8()).min(packet.len()));
        }
        packets.push(packet);
    }
    packets
}

pub(crate) const ACK: u8 = 0x10;

/// A packet of flow `number`, whose bits choose IP version, transport, port and DF; and where its
/// transport header begins.
pub(crate) fn packet(number: u8, flow: &Flow, flags: u8, len: usize) -> (Vec<u8>, usize) {
    let (is_v6, is_udp) = (number & 1 != 0, number & 2 != 0);
    let protocol = if is_udp { 17 } else { 6 };
    let transport_len = len + if is_udp { 8 } else { 20 };
    let mut packet = Vec::new();
    if is_v6 {
        packet.extend([0x60, 0, 0, 0]);
        packet.extend((transport_len as u16).to_be_bytes());
        packet.extend([protocol, 64]);
        packet.extend([0xFD; 16]);
        packet.extend([0xFE; 16]);
    } else {
        packet.extend([0x45, 0]);
        packet.extend((20 + transport_len as u16).to_be_bytes());
        packet.extend(flow.id.to_be_bytes());
        packet.extend([
            if number & 8 != 0 { 0x40 } else { 0 },
            0,
            64,
            protocol,
            0,
            0,
        ]);
        packet.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    }
    let transport = packet.len();
    packet.extend((1000 + u16::from(number & 4)).to_be_bytes());
    packet.extend(443_u16.to_be_bytes());
    if is_udp {
        packet.extend((transport_len as u16).to_be_bytes());
        packet.extend([0, 0]);
    } else {
        packet.extend(flow.sequence.to_be_bytes());
        packet.extend([0, 0, 0, 9, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    }
    packet.extend((0..len).map(|index| (flow.sequence as usize + index) as u8));
    naive::write_checksums(&mut packet, transport, protocol);
    (packet, transport)
}
