//! From the cursor to the socket: packets are cut into records of a batch, which is sealed and sent.

use super::{Cursor, Outbound, usable};
use crate::context::Context;
use crate::counters::Dropped;
use crate::mechanisms::Mechanism;
use crate::peer::Peer;
use crate::shell::Shell;
use crate::snapshot::Snapshot;
use crate::splitter::Splitter;
use crate::transmit;
use culvert_base::datagrams::PRIORITY_CLASS;
use culvert_packet::VNET_HEADER_LEN;
use culvert_packet::ecn;
use culvert_packet::record::RecordShape;
use culvert_session::DATA_HEADER_LEN;

impl Outbound {
    /// Cuts the frame in the buffer into records of the batch; a batch that takes no more is sealed.
    pub(super) fn cut<S: Shell>(&mut self, snapshot: &Snapshot, context: &mut Context<S>) {
        let Some(mut cursor) = self.cursor.take() else {
            return;
        };
        let peer = snapshot.peer(cursor.peer);
        let peer = peer.filter(|peer| peer.public_key == cursor.public_key);
        let Some((peer, sending)) = peer.and_then(|peer| Some((peer, usable(peer, context)?)))
        else {
            // The peer or its key went while the frame waited behind a full socket.
            context
                .counters
                .count_drop(Dropped::PeerGone, cursor.packets_left());
            return;
        };
        let mut class = ecn::encapsulate(cursor.cut.ip().ecn).bits();
        if cursor.is_priority && context.mechanisms.has(Mechanism::Priority) {
            class |= PRIORITY_CLASS;
        }
        if !self.batch.takes(peer, &sending, class) {
            self.cursor = Some(cursor);
            self.seal(context);
            return;
        }
        if cursor.next == 0 && !self.batch.is_empty() {
            context.counters.frames_joined.add(1);
        }
        self.batch.address(peer, &sending, class);
        let shape = RecordShape {
            mtu: usize::from(snapshot.mtu),
        };
        let (is_cut, sent_bytes) = self.lay_out(&mut cursor, peer, shape);
        let traffic = &context.counters.traffic;
        traffic.count_sent(cursor.counted, sent_bytes);
        if !is_cut {
            self.cursor = Some(cursor);
            self.seal(context);
            return;
        }
        peer.activity.data_sent(context.now);
        context.note_active(peer);
    }

    /// Lays packets from the cursor on out in the batch. Returns if all of them are, and the bytes of those that are.
    #[inline]
    fn lay_out(&mut self, cursor: &mut Cursor, peer: &Peer, shape: RecordShape) -> (bool, usize) {
        let packet = &self.frame[VNET_HEADER_LEN..cursor.len];
        let splits = Splitter::limit(peer, packet);
        let mut sent_bytes = 0;
        while cursor.next < cursor.cut.segments() {
            let inner_len = cursor.cut.segment_len(cursor.next);
            if let Some(longest) = splits.filter(|&longest| inner_len > longest) {
                if !self.batch.is_empty() {
                    // The parts of a packet have a send of their own.
                    return (false, sent_bytes);
                }
                self.splitter.take(inner_len, |segment| {
                    cursor.cut.write_segment(packet, cursor.next, segment);
                    if cursor.next == 0 && cursor.is_marked {
                        ecn::mark_ce(segment);
                    }
                });
                if self.splitter.split(longest, shape, &mut self.batch) {
                    cursor.next += 1;
                    sent_bytes += inner_len;
                    continue;
                }
            }
            let Some(record) = self.batch.add(shape.record_len(inner_len)) else {
                return (false, sent_bytes);
            };
            let (inner, padding) = record[DATA_HEADER_LEN..].split_at_mut(inner_len);
            cursor.cut.write_segment(packet, cursor.next, inner);
            if cursor.next == 0 && cursor.is_marked {
                ecn::mark_ce(inner);
            }
            padding.fill(0);
            cursor.next += 1;
            sent_bytes += inner_len;
        }
        (true, sent_bytes)
    }

    /// Seals the batch; one that finds no counters left is dropped.
    pub(super) fn seal<S: Shell>(&mut self, context: &mut Context<S>) {
        if self.batch.is_empty() {
            // Addressed but nothing fitted: a packet so long, on an interface with so large an MTU, that
            // its record exceeds what one UDP datagram carries.
            if let Some(cursor) = self.cursor.take() {
                context
                    .counters
                    .count_drop(Dropped::SendTooBig, cursor.packets_left());
            }
            self.batch.reset();
            return;
        }
        if context.may_be_copied()
            && let Some((_, sending)) = self.batch.to()
        {
            sending.transport.retire();
        }
        let records = self.batch.records();
        if self.batch.seal(context.now) {
            context.counters.sealed.record(records);
        } else {
            context
                .counters
                .count_drop(Dropped::CountersExhausted, records as u64);
            if let Some((peer, _)) = self.batch.to() {
                context.want_handshake(peer);
            }
            self.batch.reset();
        }
    }

    /// Sends the sealed batch. False if it must wait.
    pub(super) fn send<S: Shell>(&mut self, context: &mut Context<S>) -> bool {
        match transmit::send(&mut self.batch, context) {
            Ok(()) => true,
            Err(reason) => {
                self.batch.wait_for(reason);
                false
            }
        }
    }

    /// Drops what can't leave any more: the link went down.
    pub(crate) fn abandon<S: Shell>(&mut self, context: &Context<S>) {
        if let (Some((_, sending)), Some(sealed)) = (self.batch.to(), self.batch.sealed()) {
            context.wake_workers(sending.turns.depart(sealed.end));
        }
        let cursor = self.cursor.take();
        let uncut = cursor.map_or(0, |cursor| cursor.packets_left());
        context
            .counters
            .count_drop(Dropped::SendFailed, self.batch.records() as u64 + uncut);
        self.batch.reset();
    }
}
