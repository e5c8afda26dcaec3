//! The end of the road in: packets of one peer gathered into superframes → judged by the gate → one
//! write to the TUN each.
//!
//! The gate judges a superframe once, by its first packet: what the coalescer has joined to it is of the
//! same flow, and has nothing that a verdict could depend on and the first has not.

use super::context::Context;
use super::is_udp;
use crate::counters::{Dropped, WorkerCounters};
use crate::gates::Gates;
use crate::peer::Peer;
use crate::snapshot::Snapshot;
use culvert_packet::ip::IpView;
use culvert_packet::{Coalescer, Cut, Gathered, MAX_PACKETS, VNET_HEADER_LEN, VnetHeader};
use culvert_policy::gate::{DropReason, Frame, Later, PeerKey, Verdict};
use culvert_session::{PeerId, Time};
use culvert_tun::Queue;
use std::io::{self, IoSlice};
use std::ops::Range;

/// Delivers the packets of one receive.
pub(super) struct Delivery<'a> {
    coalescer: &'a mut Coalescer,
    /// Room to put a superframe together that the TUN refused in parts.
    refused: &'a mut Vec<u8>,
    writer: &'a Queue,
    sender: Option<Sender>,
    superframes_refused: bool,
}

/// Whose packets the coalescer holds.
#[derive(Clone, Copy)]
struct Sender {
    id: PeerId,
    /// By which number the gate's table knows the peer.
    key: Option<PeerKey>,
}

impl<'a> Delivery<'a> {
    pub(super) fn new(
        coalescer: &'a mut Coalescer,
        refused: &'a mut Vec<u8>,
        writer: &'a Queue,
    ) -> Self {
        Self {
            coalescer,
            refused,
            writer,
            sender: None,
            superframes_refused: false,
        }
    }

    /// Says whose packets come next. Those of another peer go first: an address may have gone from one
    /// to the other between two runs, and nothing of the one may be judged as the other's.
    pub(super) fn begin(
        &mut self,
        peer: &Peer,
        snapshot: &Snapshot,
        context: &mut Context,
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
    pub(super) fn push(&mut self, bytes: &[u8], packet: Range<usize>) {
        // One receive holds at most MAX_PACKETS records, and the coalescer as many packets.
        let _fits = self.coalescer.push(bytes, packet);
    }

    /// Delivers what was offered. What the gate or the TUN refuses is counted.
    pub(super) fn flush(&mut self, snapshot: &Snapshot, context: &mut Context, bytes: &mut [u8]) {
        let key = self.sender.and_then(|sender| sender.key);
        let counters = &context.counters;
        self.coalescer.flush(bytes, |mut gathered| {
            let packets = gathered.packets();
            if let Some(gates) = &context.shared.gates
                && let Some(reason) = refusal(gates, snapshot, context.now, key, &mut gathered)
            {
                counters.count_gate_drop(reason, packets as u64);
                return;
            }
            counters.coalesced.record(packets);
            let (vnet, buffer, parts) = gathered.finish();
            let refused_whole = write(counters, self.writer, &vnet, buffer, parts);
            if refused_whole && packets > 1 {
                self.superframes_refused = true;
                write_apart(counters, self.writer, self.refused, &vnet, buffer, parts);
            }
            let is_udp = is_udp(&buffer[parts[0].clone()]);
            context.mix.note(is_udp, packets);
        });
    }

    /// Whether the TUN has refused a superframe that it had promised to take.
    pub(super) const fn superframes_refused(&self) -> bool {
        self.superframes_refused
    }
}

/// Why the gate does not let packets of a client pass; those that pass may have been translated.
fn refusal(
    gates: &Gates,
    snapshot: &Snapshot,
    now: Time,
    key: Option<PeerKey>,
    gathered: &mut Gathered<'_>,
) -> Option<DropReason> {
    let (Some(table), Some(peer)) = (snapshot.gate.as_deref(), key) else {
        return Some(DropReason::NoGrant);
    };
    let later = Later {
        bytes: gathered.later_bytes(),
        tcp_flags: gathered.later_tcp_flags(),
    };
    let packets = gathered.packets() as u32;
    let packet = gathered.first();
    let Ok(client) = IpView::parse(packet).map(|view| view.source()) else {
        return Some(DropReason::Malformed);
    };
    let frame = Frame {
        packets,
        later,
        ..Frame::packet(packet)
    };
    match gates.admit_from_client(table, now, client, peer, frame) {
        Verdict::Admit(_) => None,
        Verdict::Drop(reason) => Some(reason),
    }
}

/// Writes one frame to the TUN. True where it does not take a superframe of this kind, which says
/// nothing of its packets; one that can't be written at all is counted.
fn write(
    counters: &WorkerCounters,
    writer: &Queue,
    vnet: &VnetHeader,
    buffer: &[u8],
    parts: &[Range<usize>],
) -> bool {
    let mut header = [0; VNET_HEADER_LEN];
    vnet.write(&mut header);
    let mut slices = [IoSlice::new(&[]); 1 + MAX_PACKETS];
    slices[0] = IoSlice::new(&header);
    for (slice, part) in slices[1..].iter_mut().zip(parts) {
        *slice = IoSlice::new(&buffer[part.clone()]);
    }
    match writer.send(&slices[..=parts.len()]) {
        Ok(_) => {
            counters.tun_frames_sent.add(1);
            false
        }
        Err(error) => {
            tracing::trace!(%error, "write to the TUN");
            // Anything else, such as a link that is down, befalls every frame alike.
            let is_kind = error.kind() == io::ErrorKind::InvalidInput && parts.len() > 1;
            if !is_kind {
                let packets = parts.len() as u64;
                counters.count_drop(Dropped::TunWriteFailed, packets);
            }
            is_kind
        }
    }
}

/// Writes a superframe that the TUN refused packet by packet.
fn write_apart(
    counters: &WorkerCounters,
    writer: &Queue,
    whole: &mut Vec<u8>,
    vnet: &VnetHeader,
    buffer: &[u8],
    parts: &[Range<usize>],
) {
    counters.superframe_refused.add(1);
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
        let all = 0..len;
        write(
            counters,
            writer,
            &VnetHeader::default(),
            &packet,
            std::slice::from_ref(&all),
        );
    }
}
