//! The road in: datagrams received together → records opened in place → packets checked → delivered.

mod inner;

use crate::context::Context;
use crate::counters::Dropped;
use crate::delivery::Delivery;
use crate::event::{Event, HandshakeMessage, PATH_MESSAGE_PREFIX, PathMessage};
use crate::key_table::Receiving;
use crate::lane::Lane;
use crate::peer::Peer;
use crate::shell::{Datagrams, Receive, Received, Shell};
use crate::snapshot::{InUse, Snapshot};
use crate::splitter::narrow_mtu;
use crate::superframes::Superframes;
use culvert_base::LocalAddress;
use culvert_packet::ecn::Ecn;
use culvert_packet::{Accept, Coalescer};
use culvert_session::parse::{DataHeader, Message};
use culvert_session::{DATA_HEADER_LEN, DATA_OVERHEAD, Index};
use inner::{OpenedRun, OwnSource};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Receives that one turn carries in: as many superframes as the outbound direction gets.
pub(crate) const RECEIVE_BUFFERS: usize = 4;

/// Datagrams that one receive takes from the priority lane: with those of full size, a fifth of the bytes of a
/// superframe. The turn with the most looks has nine, one first and two around each of four superframes that go out, so whoever
/// marks all as priority takes two fifths of what the rest has.
pub(crate) const PRIORITY_BUFFERS: usize = 8;

/// Bytes of the tag behind each record's plaintext.
const TAG_LEN: usize = DATA_OVERHEAD - DATA_HEADER_LEN;

/// The receiving side of one worker.
pub(crate) struct Inbound<R> {
    bulk: R,
    priority: R,
    coalescer: Coalescer,
    superframes: Superframes,
    /// Room to put a superframe together that the TUN refused in parts; allocated on first need.
    refused: Vec<u8>,
}

/// The sender and the headers of the datagrams of one receive.
#[derive(Clone, Copy)]
struct Arrival {
    stride: usize,
    source: SocketAddr,
    local: Option<LocalAddress>,
    outer_ecn: Ecn,
}

impl<R: Received> Inbound<R> {
    pub(crate) fn new(accept: Accept) -> Self {
        Self {
            bulk: R::with_runs(RECEIVE_BUFFERS),
            priority: R::with_runs(PRIORITY_BUFFERS),
            coalescer: Coalescer::new(accept),
            superframes: Superframes::new(accept),
            refused: Vec::new(),
        }
    }

    /// Replaces what is kept of `lane` by what one receive call returns.
    pub(crate) fn fetch<S: Shell<Received = R>>(&mut self, lane: Lane, shell: &mut S) -> Receive {
        let received = match lane {
            Lane::V4 | Lane::V6 => &mut self.bulk,
            Lane::PriorityV4 | Lane::PriorityV6 => &mut self.priority,
        };
        shell.receive(lane, received)
    }

    /// Carries in one run of what was fetched. Packets that the TUN refuses are counted.
    pub(crate) fn forward<S: Shell<Received = R>>(
        &mut self,
        lane: Lane,
        run: usize,
        in_use: &mut InUse,
        context: &mut Context<S>,
    ) {
        let received = match lane {
            Lane::V4 | Lane::V6 => &mut self.bulk,
            Lane::PriorityV4 | Lane::PriorityV6 => &mut self.priority,
        };
        let Some(entry) = received.run(run) else {
            return;
        };
        if entry.bytes.is_empty() {
            context.counters.count_drop(Dropped::DatagramUnknown, 1);
            return;
        }
        if entry.is_truncated || entry.stride == 0 {
            context.counters.count_drop(Dropped::DatagramTruncated, 1);
            return;
        }
        let Datagrams {
            bytes,
            stride,
            source,
            local,
            ecn,
            ..
        } = entry;
        let arrival = Arrival {
            stride,
            source,
            local,
            outer_ecn: ecn,
        };
        context
            .counters
            .received
            .record(bytes.len().div_ceil(stride));
        if let Some(accept) = self.superframes.tried_again(context.now) {
            self.coalescer.set_accept(accept);
        }
        let had_refusals = self.superframes.had_refusals();
        let mut delivery = Delivery::new(&mut self.coalescer, &mut self.refused, had_refusals);
        open_all(&mut delivery, in_use, context, bytes, arrival);
        delivery.flush(&in_use.snapshot, context, bytes);
        let (refused, taken) = (delivery.refused_kinds(), delivery.taken_kinds());
        if refused != Accept::NONE || taken != Accept::NONE {
            self.note_superframes(refused, taken, context);
        }
    }
}

impl<R: Received> Inbound<R> {
    #[cold]
    fn note_superframes<S: Shell>(&mut self, refused: Accept, taken: Accept, context: &Context<S>) {
        let news = self.superframes.note(refused, taken, context.now);
        if let Some(kinds) = news.off {
            self.coalescer.set_accept(self.superframes.accept());
            context.tell(Event::SuperframesRefused(kinds));
        }
        if let Some(kinds) = news.on {
            context.tell(Event::SuperframesTaken(kinds));
        }
    }
}

/// Opens the records of one receive, run by run of one key, and hands their packets to `delivery`.
fn open_all<S: Shell>(
    delivery: &mut Delivery<'_>,
    in_use: &mut InUse,
    context: &mut Context<S>,
    bytes: &mut [u8],
    arrival: Arrival,
) {
    let mut start = 0;
    while start < bytes.len() {
        let record_end = (start + arrival.stride).min(bytes.len());
        let datagram = &bytes[start..record_end];
        start = match Message::parse(datagram) {
            Some(Message::Data(DataHeader { receiver, .. })) => {
                let end = end_of_run(bytes, record_end, arrival.stride, receiver);
                let run = start..end;
                open_run(delivery, in_use, context, bytes, run, receiver, arrival);
                end
            }
            Some(Message::Initiation(_) | Message::Response(_) | Message::CookieReply(_)) => {
                hand_over(context, datagram, arrival);
                record_end
            }
            None => {
                take_other(context, datagram, arrival);
                record_end
            }
        };
    }
}

/// The end of the run of data messages for `index` that goes on at `at`.
fn end_of_run(bytes: &[u8], mut at: usize, stride: usize, index: Index) -> usize {
    while at < bytes.len() {
        let end = (at + stride).min(bytes.len());
        match DataHeader::parse(&bytes[at..end]) {
            Some(header) if header.receiver == index => at = end,
            _ => break,
        }
    }
    at
}

/// Hands a handshake message to the control thread.
fn hand_over<S: Shell>(context: &Context<S>, datagram: &[u8], arrival: Arrival) {
    let Some(message) = HandshakeMessage::new(datagram, arrival.source, arrival.local) else {
        context.counters.count_drop(Dropped::DatagramUnknown, 1);
        return;
    };
    if !context.hand_over(message) {
        context.counters.count_drop(Dropped::HandshakeQueueFull, 1);
    }
}

/// Hands a message about paths to its owner. Anything else that is no WireGuard message is dropped.
#[cold]
fn take_other<S: Shell>(context: &Context<S>, datagram: &[u8], arrival: Arrival) {
    let message = Some(datagram)
        .filter(|bytes| bytes.starts_with(&PATH_MESSAGE_PREFIX))
        .filter(|_| context.shell.takes_path_messages())
        .and_then(|bytes| PathMessage::new(bytes, arrival.source, arrival.local));
    let Some(message) = message else {
        context.counters.count_drop(Dropped::DatagramUnknown, 1);
        return;
    };
    if !context.shell.hand_over_path(message) {
        context.counters.count_drop(Dropped::PathQueueFull, 1);
    }
}

/// Opens `bytes[run]`, all for one key, and offers what is inside for delivery.
fn open_run<S: Shell>(
    delivery: &mut Delivery<'_>,
    in_use: &mut InUse,
    context: &mut Context<S>,
    bytes: &mut [u8],
    run: Range<usize>,
    index: Index,
    arrival: Arrival,
) {
    let count = run.len().div_ceil(arrival.stride);
    let Some(receiving) = receiving(in_use, context, index) else {
        context
            .counters
            .count_drop(Dropped::UnknownIndex, count as u64);
        return;
    };
    let (snapshot, receiving) = (&in_use.snapshot, &*receiving);
    let transport = &receiving.transport;
    let opened = transport.open_batch(&mut bytes[run.clone()], arrival.stride, context.now);
    context.count_refused(&opened);
    if opened.opened().is_empty() {
        return;
    }
    delivery.begin(&receiving.peer, snapshot, context, bytes);
    let mut data = 0;
    let mut received_bytes = 0;
    let mut source = OwnSource::default();
    let opened_run = OpenedRun {
        snapshot,
        receiving,
        narrow: narrow_mtu(&receiving.peer),
        outer_ecn: arrival.outer_ecn,
    };
    for (number, start) in run.clone().step_by(arrival.stride).enumerate() {
        if !opened.opened().contains(number) {
            continue;
        }
        let record = start..(start + arrival.stride).min(run.end);
        received_bytes += record.len();
        let inner = record.start + DATA_HEADER_LEN..record.end - TAG_LEN;
        if inner.is_empty() {
            continue;
        }
        data += usize::from(opened_run.offer(delivery, context, bytes, inner, &mut source));
    }
    source.end(&context.counters.traffic);
    note_arrival(
        snapshot,
        context,
        receiving,
        index,
        data,
        received_bytes,
        arrival,
    );
}

/// The key with this index, if it is of a peer of the snapshot.
fn receiving<S: Shell>(
    in_use: &mut InUse,
    context: &mut Context<S>,
    index: Index,
) -> Option<Arc<Receiving>> {
    let receiving = in_use.snapshot.keys.get(index)?;
    if !is_peer_of(&in_use.snapshot, &receiving.peer) {
        // The peer may be younger than this turn, and have the number of one that was removed, whose ranges are not its.
        context.refresh(in_use);
    }
    Some(receiving).filter(|receiving| is_peer_of(&in_use.snapshot, &receiving.peer))
}

fn is_peer_of(snapshot: &Snapshot, peer: &Arc<Peer>) -> bool {
    let known = snapshot.peer(peer.id);
    known.is_some_and(|known| Arc::ptr_eq(known, peer))
}

/// Notes for its peer that an authentic run has come: the peer lives, and this is its address.
fn note_arrival<S: Shell>(
    snapshot: &Snapshot,
    context: &mut Context<S>,
    receiving: &Receiving,
    index: Index,
    data: usize,
    received_bytes: usize,
    arrival: Arrival,
) {
    let Receiving {
        transport, peer, ..
    } = receiving;
    peer.roam(arrival.source, arrival.local);
    peer.rx_bytes
        .fetch_add(received_bytes as u64, Ordering::Relaxed);
    if data > 0 {
        peer.activity.data_received(context.now);
        context.note_active(peer);
    } else {
        peer.activity.keepalive_received(context.now);
    }
    if transport.confirm(context.now) {
        if peer.confirm_key(transport) {
            snapshot.keys.note_change();
            context.wake_workers(peer.take_waiting());
        }
        // If the queue is full, the handshaker finds it out by itself.
        let _found_out = context.tell(Event::Confirmed(peer.id, index));
    }
    if transport.wants_rekey_on_receive(context.now) {
        context.want_handshake(peer);
    }
}
