//! The end of the road in: packets of one peer gathered into superframes → judged by the gate → one
//! write to the TUN each.

use crate::context::Context;
use crate::counters::{Dropped, WorkerCounters};
use crate::gate::{Judged, judge_at_client, judge_from_client};
use crate::mix::is_udp;
use crate::peer::Peer;
use crate::shell::Shell;
use crate::snapshot::Snapshot;
use culvert_base::frames::QueueFault;
use culvert_packet::{Accept, Coalescer, Cut, MAX_PACKETS, VNET_HEADER_LEN, VnetHeader};
use culvert_policy::gate::PeerKey;
use culvert_session::PeerId;
use std::io::IoSlice;
use std::ops::Range;

/// Delivers the packets of one receive.
pub(crate) struct Delivery<'a> {
    coalescer: &'a mut Coalescer,
    /// Room to put a superframe together that the TUN refused in parts.
    refused: &'a mut Vec<u8>,
    sender: Option<Sender>,
    refused_kinds: Accept,
    /// Kinds of superframes that the TUN has taken, where that is asked for.
    taken_kinds: Option<Accept>,
}

/// The peer whose packets the coalescer holds.
#[derive(Clone, Copy)]
struct Sender {
    id: PeerId,
    /// By which number the gate's table knows the peer.
    key: Option<PeerKey>,
}

impl<'a> Delivery<'a> {
    pub(crate) fn new(
        coalescer: &'a mut Coalescer,
        refused: &'a mut Vec<u8>,
        wants_taken: bool,
    ) -> Self {
        Self {
            coalescer,
            refused,
            sender: None,
            refused_kinds: Accept::NONE,
            taken_kinds: wants_taken.then_some(Accept::NONE),
        }
    }

    /// Says whose packets come next. Those of another peer go first: an address may have gone from one
    /// to the other between two runs, and nothing of the one may be judged as the other's.
    pub(crate) fn begin<S: Shell>(
        &mut self,
        peer: &Peer,
        snapshot: &Snapshot,
        context: &mut Context<S>,
        bytes: &mut [u8],
    ) {
        if self.sender.is_some_and(|sender| sender.id != peer.id) {
            self.flush(snapshot, context, bytes);
        }
        self.sender = Some(Sender {
            id: peer.id,
            key: peer.gate_key(),
        });
    }

    /// Offers the packet at `bytes[packet]`.
    pub(crate) fn push(&mut self, bytes: &[u8], packet: Range<usize>) {
        // One receive holds at most MAX_PACKETS records, and the coalescer as many packets.
        let _fits = self.coalescer.push(bytes, packet);
    }

    /// Delivers what was offered. Packets that the gate or the TUN refuses are counted.
    pub(crate) fn flush<S: Shell>(
        &mut self,
        snapshot: &Snapshot,
        context: &mut Context<S>,
        bytes: &mut [u8],
    ) {
        let sender = self.sender;
        let key = sender.and_then(|sender| sender.key);
        let (counters, shell) = (&context.counters, &context.shell);
        let refusals = &mut context.refusals;
        self.coalescer.flush(bytes, |mut gathered| {
            let packets = gathered.packets();
            let mut released = Vec::new();
            if let Some(gates) = context.gates.as_deref() {
                match judge_from_client(gates, snapshot, context.now, key, &mut gathered) {
                    Judged::Passes => {}
                    Judged::Releases(fragments) => released = fragments,
                    Judged::Waits => return,
                    Judged::Refused(reason) => {
                        counters.count_gate_drop(reason, packets as u64);
                        if let Some(sender) = sender {
                            refusals.note(sender.id, gathered.first(), reason, context.now);
                        }
                        return;
                    }
                }
            } else if let Some(gate) = context.client_gate.as_deref() {
                let from = sender.map(|sender| sender.id);
                match judge_at_client(gate, snapshot, context.now, from, &mut gathered) {
                    Judged::Passes => {}
                    Judged::Releases(fragments) => released = fragments,
                    Judged::Waits => return,
                    // Nobody hears of it: an answer would tell that somebody is here.
                    Judged::Refused(reason) => {
                        counters.count_gate_drop(reason, packets as u64);
                        return;
                    }
                }
            }
            counters.coalesced.record(packets);
            let (vnet, buffer, parts) = gathered.finish();
            let kind = || Accept::kind(vnet.gso, buffer[parts[0].start] >> 4 == 4);
            match write(counters, shell, &vnet, buffer, parts) {
                Ok(()) => {
                    if let Some(taken) = self.taken_kinds.as_mut().filter(|_| packets > 1) {
                        *taken = taken.or(kind());
                    }
                }
                Err(fault) if packets == 1 => {
                    write_again(counters, shell, &vnet, buffer, parts, fault);
                }
                Err(fault) if fault.is_lasting() => {
                    counters.count_drop(Dropped::TunWriteFailed, packets as u64);
                }
                Err(fault) => {
                    // It does not take a superframe of this kind, which says nothing of its packets.
                    if fault == QueueFault::Refused {
                        self.refused_kinds = self.refused_kinds.or(kind());
                        counters.superframe_refused.add(1);
                    }
                    write_apart(counters, shell, self.refused, &vnet, buffer, parts);
                }
            }
            let is_udp = is_udp(&buffer[parts[0].clone()]);
            context.mix.note(is_udp, packets);
            for packet in released {
                let all = 0..packet.len();
                let part = std::slice::from_ref(&all);
                let plain = VnetHeader::default();
                if let Err(fault) = write(counters, shell, &plain, &packet, part) {
                    write_again(counters, shell, &plain, &packet, part, fault);
                }
            }
        });
    }

    /// The superframes that the TUN has refused although it had promised to take such.
    pub(crate) const fn refused_kinds(&self) -> Accept {
        self.refused_kinds
    }

    /// The superframes that the TUN has taken, where that was asked for.
    pub(crate) fn taken_kinds(&self) -> Accept {
        self.taken_kinds.unwrap_or(Accept::NONE)
    }
}

/// Writes one frame to the TUN.
fn write(
    counters: &WorkerCounters,
    shell: &impl Shell,
    vnet: &VnetHeader,
    buffer: &[u8],
    parts: &[Range<usize>],
) -> Result<(), QueueFault> {
    let mut header = [0; VNET_HEADER_LEN];
    vnet.write(&mut header);
    let mut slices = [IoSlice::new(&[]); 1 + MAX_PACKETS];
    slices[0] = IoSlice::new(&header);
    for (slice, part) in slices[1..].iter_mut().zip(parts) {
        *slice = IoSlice::new(&buffer[part.clone()]);
    }
    shell.write_frame(&slices[..=parts.len()])?;
    counters.tun_frames_sent.add(1);
    Ok(())
}

/// Writes a single packet once more, where the fault of the first time may have been of the moment. One that can't be
/// written is counted. False where no other can either.
#[cold]
fn write_again(
    counters: &WorkerCounters,
    shell: &impl Shell,
    vnet: &VnetHeader,
    buffer: &[u8],
    parts: &[Range<usize>],
    fault: QueueFault,
) -> bool {
    let again = match fault {
        QueueFault::Refused | QueueFault::Passing | QueueFault::Down => {
            write(counters, shell, vnet, buffer, parts)
        }
        QueueFault::NotReady | QueueFault::Gone | QueueFault::Broken => Err(fault),
    };
    let Err(second) = again else {
        return true;
    };
    counters.count_drop(Dropped::TunWriteFailed, 1);
    // A link that is down refuses every packet alike.
    second != QueueFault::Down && !fault.is_lasting()
}

/// Writes a superframe that the TUN refused packet by packet.
#[cold]
fn write_apart(
    counters: &WorkerCounters,
    shell: &impl Shell,
    whole: &mut Vec<u8>,
    vnet: &VnetHeader,
    buffer: &[u8],
    parts: &[Range<usize>],
) {
    whole.clear();
    for part in parts {
        whole.extend_from_slice(&buffer[part.clone()]);
    }
    let Ok(cut) = Cut::plan(vnet, whole) else {
        counters.count_drop(Dropped::TunWriteFailed, parts.len() as u64);
        return;
    };
    let mut packet = vec![0; cut.segment_len(0)];
    for index in 0..cut.segments() {
        let len = cut.segment_len(index);
        cut.write_segment(whole, index, &mut packet[..len]);
        let (all, alone) = (0..len, VnetHeader::default());
        let parts = std::slice::from_ref(&all);
        if let Err(fault) = write(counters, shell, &alone, &packet, parts)
            && !write_again(counters, shell, &alone, &packet, parts, fault)
        {
            let rest = cut.segments() - index - 1;
            counters.count_drop(Dropped::TunWriteFailed, rest as u64);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gates::Gates;
    use crate::mechanisms::Mechanisms;
    use crate::testing::{self, MemoryShell};
    use culvert_base::BootTime;
    use culvert_policy::Filters;
    use culvert_policy::gate::{ClientGrants, DropReason, GateTable, Grant, Reach};
    use culvert_session::PublicKey;
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    const GRANT: &str = "grt_00000000000000000000000001";
    const RESOURCE: &str = "res_00000000000000000000000002";
    const SERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const CLIENTS: [Ipv4Addr; 2] = [Ipv4Addr::new(100, 64, 0, 1), Ipv4Addr::new(100, 64, 0, 2)];
    const PACKET_LEN: usize = 32;

    /// A UDP packet of a client to the server, without a checksum.
    fn packet(client: Ipv4Addr) -> [u8; PACKET_LEN] {
        let mut packet = [0; PACKET_LEN];
        packet[..10].copy_from_slice(&[0x45, 0, 0, PACKET_LEN as u8, 0, 0, 0, 0, 64, 17]);
        packet[12..16].copy_from_slice(&client.octets());
        packet[16..20].copy_from_slice(&SERVER.octets());
        packet[20..26].copy_from_slice(&[0x9c, 0x40, 0, 53, 0, PACKET_LEN as u8 - 20]);
        packet
    }

    /// A peer that the gate knows by the number of its slot.
    fn peer(slot: u32) -> Peer {
        let public_key = PublicKey::from_bytes([slot as u8; 32]);
        let peer = Peer::new(PeerId(slot), public_key, Arc::default());
        peer.set_gate_key(PeerKey(slot));
        peer
    }

    /// Each client may reach the server, and each has one peer.
    fn snapshot() -> Snapshot {
        let mut table = GateTable::new();
        for (client, slot) in CLIENTS.into_iter().zip(0..) {
            let grant = Grant {
                id: GRANT.parse().unwrap(),
                resource: RESOURCE.parse().unwrap(),
                reach: Reach::Addresses("10.0.0.0/24".parse().unwrap()),
                filters: Filters::any(),
                inbound: Filters::none(),
                expires: BootTime::MAX,
            };
            let grants = ClientGrants::new(PeerKey(slot), vec![client.into()], vec![grant]);
            table.set_client(grants.unwrap()).unwrap();
        }
        Snapshot {
            gate: Some(Arc::new(table)),
            ..testing::snapshot(1420)
        }
    }

    fn context() -> Context<MemoryShell> {
        let gates = Gates::new([[0; 32]], true);
        let shell = MemoryShell::new(1);
        Context::new(
            shell,
            0,
            Mechanisms::ALL,
            Arc::default(),
            Some(Arc::new(gates)),
        )
    }

    /// The packets that have arrived inside.
    fn arrived(context: &Context<MemoryShell>) -> Vec<Vec<u8>> {
        let written = context.shell.written.borrow_mut();
        let packets = written
            .iter()
            .map(|frame| frame[VNET_HEADER_LEN..].to_vec());
        packets.collect()
    }

    /// Delivers one receive with a packet from each address, under the key of the peer with each number. Returns what has
    /// arrived inside, and what was dropped as forged.
    fn deliver(packets: &[(u32, Ipv4Addr)]) -> (Vec<Vec<u8>>, u64) {
        let (snapshot, mut context) = (snapshot(), context());
        let mut coalescer = Coalescer::new(Accept::NONE);
        let mut refused = Vec::new();
        let mut bytes: Vec<u8> = packets.iter().flat_map(|&(_, from)| packet(from)).collect();

        let mut delivery = Delivery::new(&mut coalescer, &mut refused, false);
        for (place, &(slot, _)) in packets.iter().enumerate() {
            delivery.begin(&peer(slot), &snapshot, &mut context, &mut bytes);
            delivery.push(&bytes, place * PACKET_LEN..(place + 1) * PACKET_LEN);
        }
        delivery.flush(&snapshot, &mut context, &mut bytes);
        let forged = context.counters.dropped_by_gate(DropReason::ForgedSource);
        (arrived(&context), forged)
    }

    #[test]
    fn packets_of_two_peers_that_came_in_one_receive_are_each_judged_as_those_of_their_own() {
        let [one, other] = CLIENTS;
        let (arrived, forged) = deliver(&[(0, one), (1, other)]);
        assert_eq!(arrived, [packet(one), packet(other)]);
        assert_eq!(forged, 0);
    }

    #[test]
    fn a_packet_from_the_address_of_another_client_is_dropped_and_counted() {
        assert_eq!(deliver(&[(1, CLIENTS[0])]), (Vec::new(), 1));
    }

    #[test]
    fn a_packet_that_no_grant_allows_is_answered_to_the_peer_that_it_came_from() {
        let (snapshot, mut context) = (snapshot(), context());
        let mut coalescer = Coalescer::new(Accept::NONE);
        let mut refused = Vec::new();
        let mut bytes = packet(CLIENTS[1]);
        bytes[16..20].copy_from_slice(&[192, 0, 2, 1]);
        let sent = bytes;
        let mut delivery = Delivery::new(&mut coalescer, &mut refused, false);
        delivery.begin(&peer(1), &snapshot, &mut context, &mut bytes);
        delivery.push(&bytes, 0..PACKET_LEN);
        delivery.flush(&snapshot, &mut context, &mut bytes);
        assert_eq!(context.counters.dropped_by_gate(DropReason::NoGrant), 1);
        let (to, answer) = context.refusals.pop().unwrap();
        assert_eq!(to, PeerId(1));
        assert!(answer.ends_with(&sent), "it quotes the packet");
        assert!(context.refusals.pop().is_none());
    }

    #[test]
    fn a_later_fragment_that_comes_first_arrives_behind_the_first_one() {
        // Sixteen bytes in each: the first has the ports, and more follow.
        let fragment = |place: [u8; 2]| {
            let mut fragment = packet(CLIENTS[0]);
            fragment[2..4].copy_from_slice(&36_u16.to_be_bytes());
            let mut fragment = [&fragment[..], &[0; 4]].concat();
            fragment[6..8].copy_from_slice(&place);
            fragment
        };
        let (later, first) = (fragment([0, 2]), fragment([0x20, 0]));
        let (snapshot, mut context) = (snapshot(), context());
        let mut coalescer = Coalescer::new(Accept::NONE);
        let mut refused = Vec::new();
        let mut delivery = Delivery::new(&mut coalescer, &mut refused, false);
        for (fragment, expected) in [
            (&later, vec![]),
            (&first, vec![first.clone(), later.clone()]),
        ] {
            let mut bytes = fragment.clone();
            delivery.begin(&peer(0), &snapshot, &mut context, &mut bytes);
            delivery.push(&bytes, 0..bytes.len());
            delivery.flush(&snapshot, &mut context, &mut bytes);
            assert_eq!(arrived(&context), expected);
        }
        assert_eq!(context.counters.dropped_by_gate(DropReason::Fragment), 0);
    }

    /// Delivers a packet of a client to a TUN whose next writes fail like this. Returns how many have arrived, and how
    /// many are counted as lost.
    fn deliver_with(faults: &[QueueFault]) -> (usize, u64) {
        let (snapshot, mut context) = (snapshot(), context());
        context.shell.write_faults.borrow_mut().extend(faults);
        let mut coalescer = Coalescer::new(Accept::NONE);
        let (mut refused, mut bytes) = (Vec::new(), packet(CLIENTS[0]));
        let mut delivery = Delivery::new(&mut coalescer, &mut refused, false);
        delivery.begin(&peer(0), &snapshot, &mut context, &mut bytes);
        delivery.push(&bytes, 0..PACKET_LEN);
        delivery.flush(&snapshot, &mut context, &mut bytes);
        let lost = context.counters.dropped(Dropped::TunWriteFailed);
        (arrived(&context).len(), lost)
    }

    #[test]
    fn a_packet_whose_write_fails_for_the_moment_is_written_again() {
        assert_eq!(deliver_with(&[QueueFault::Passing]), (1, 0));
        assert_eq!(deliver_with(&[QueueFault::Down]), (1, 0));
    }

    #[test]
    fn a_packet_whose_second_write_fails_is_counted_as_lost() {
        assert_eq!(deliver_with(&[QueueFault::Passing; 2]), (0, 1));
        assert_eq!(deliver_with(&[QueueFault::Gone]), (0, 1));
    }
}
