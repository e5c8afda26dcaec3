//! The road out: TUN frame → peer → records laid out and sealed → one segmented send.

mod resumed;

use crate::batch::{Batch, Blocked};
use crate::busy_poll::Side;
use crate::context::Context;
use crate::counters::Dropped;
use crate::event::Signal;
use crate::gate;
use crate::interrupt_moderation::InterruptModeration;
use crate::mechanisms::Mechanism;
use crate::mix::is_udp;
use crate::own;
use crate::peer::Sending;
use crate::queues::Queues;
use crate::shell::{Ended, Shell};
use crate::snapshot::{Road, Snapshot};
use crate::splitter::{Splitter, inner_mtu, told_mtu};
use crate::staging::Staging;
use crate::transmit;
use culvert_base::datagrams::{MAX_SEGMENTS, PRIORITY_CLASS};
use culvert_base::frames::MAX_FRAME_BYTES;
use culvert_packet::ecn::{self, Ecn};
use culvert_packet::record::RecordShape;
use culvert_packet::{Cut, VNET_HEADER_LEN, VnetHeader, icmp};
use culvert_session::{DATA_HEADER_LEN, DATA_OVERHEAD, PeerId, PublicKey};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Frames that one turn carries out: four superframes are 250 KB, which fits the level-2 cache, and
/// keeps a turn below 150 µs, so that the other direction does not wait.
const BUDGET_SUPERFRAMES: usize = 4;

/// Plain packets that one turn carries out: one full batch.
pub(crate) const BUDGET_FRAMES: usize = MAX_SEGMENTS;

/// The least MTU of IPv6 (RFC 8200 section 5), which every path carries.
pub const MIN_PATH_MTU: u16 = 1280;

/// The longest packet that passes every path that carries the least MTU of IPv6: a longer one has its path measured.
const LONGEST_UNPROBED: usize = MIN_PATH_MTU as usize - IPV6_AND_UDP_LEN - DATA_OVERHEAD;

/// Bytes of the longest headers in front of a datagram.
const IPV6_AND_UDP_LEN: usize = 48;

/// What one worker needs to send.
pub(crate) struct Outbound {
    frame: Box<[u8]>,
    /// The frame that is being cut; what follows it waits in the TUN.
    cursor: Option<Cursor>,
    batch: Batch,
    splitter: Splitter,
    pub(crate) staging: Staging,
    /// The snapshot that had a key for none of the peers whose frames are staged: only a newer one can.
    keyless: Option<u64>,
    pub(crate) moderation: InterruptModeration,
    /// Frames that have been given a route or a receiver: the mailbox's bound.
    resumed: VecDeque<Resumed>,
}

/// How far the frame in the buffer has been cut.
struct Cursor {
    len: usize,
    cut: Cut,
    peer: PeerId,
    /// Whose frame it is: `peer` may be somebody else's number by the time the socket has room.
    public_key: PublicKey,
    next: usize,
    /// The first packet tells of congestion.
    is_marked: bool,
    is_priority: bool,
}

impl Cursor {
    /// Packets that have not been cut yet.
    const fn packets_left(&self) -> u64 {
        (self.cut.segments() - self.next) as u64
    }
}

/// A frame that waits for its turn.
struct Resumed {
    frame: Box<[u8]>,
    /// The snapshot that routes it.
    generation: u64,
    /// Whom this end itself has written it for: no gate judges it, and no route leads it.
    answer_to: Option<PeerId>,
}

/// What a turn carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// Frames of the priority queue.
    Priority,
}

/// What a turn left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing to read.
    Idle,
    /// A superframe has been laid out or has left: there may be a priority packet.
    Pause,
    /// The budget was used up.
    More,
    /// See [`Outbound::is_blocked`].
    Blocked,
}

impl Outbound {
    pub(crate) fn new(identification: u32) -> Self {
        Self {
            frame: vec![0; MAX_FRAME_BYTES].into_boxed_slice(),
            cursor: None,
            batch: Batch::new(),
            splitter: Splitter::new(identification),
            staging: Staging::default(),
            keyless: None,
            moderation: InterruptModeration::new(),
            resumed: VecDeque::new(),
        }
    }

    /// Carries frames out until the queues are empty, the budget is used up, or the socket is full.
    ///
    /// A partial batch is kept while more is queued and leaves as soon as nothing is: no timer.
    ///
    /// # Errors
    /// Those of reading the TUN.
    pub(crate) fn turn<S: Shell>(
        &mut self,
        snapshot: &Snapshot,
        context: &mut Context<S>,
        queues: &mut Queues<S::QueueCredit>,
        scope: Scope,
        budget: &mut usize,
    ) -> Result<Progress, Ended> {
        let superframe_cost = BUDGET_FRAMES / BUDGET_SUPERFRAMES;
        // There was a pause before a sealed batch left, and there is one after.
        let mut is_look_due = scope == Scope::All && self.batch.sealed().is_some();
        loop {
            if self.batch.sealed().is_some() && !self.send(context) {
                return Ok(Progress::Blocked);
            }
            if self.cursor.is_some() {
                self.cut(snapshot, context);
                if self.cursor.is_none() && !context.mechanisms.has(Mechanism::Batching) {
                    self.seal(context);
                }
            } else if is_look_due && context.mechanisms.has(Mechanism::Priority) {
                if self.batch.is_full() {
                    // It takes no more, and what is found in the pause may not overtake it.
                    self.seal(context);
                }
                return Ok(Progress::Pause);
            } else if *budget == 0 {
                self.seal(context);
                if self.batch.sealed().is_none() {
                    return Ok(Progress::More);
                }
            } else if let Some(segments) = self.next_frame(snapshot, context, queues, scope)? {
                let is_superframe = segments > 1;
                is_look_due |= is_superframe;
                let cost = if is_superframe { superframe_cost } else { 1 };
                *budget = budget.saturating_sub(cost);
            } else if self.batch.is_empty() {
                return Ok(Progress::Idle);
            } else {
                self.seal(context);
            }
        }
    }

    /// Seals a record of its own for `signal`. False where something else must leave first.
    pub(crate) fn signal<S: Shell>(
        &mut self,
        snapshot: &Snapshot,
        context: &mut Context<S>,
        id: PeerId,
        signal: Signal,
    ) -> bool {
        if self.cursor.is_some() || !self.batch.is_empty() {
            return false;
        }
        let Some(road) = snapshot.road(id) else {
            return true;
        };
        let Some(sending) = usable(road, context) else {
            context.want_handshake(&road.peer);
            return true;
        };
        self.batch.address(road, sending, Ecn::NotEct.bits());
        let inner_len = match signal {
            Signal::Keepalive => 0,
            Signal::Mtu(message) => message.packet_len(),
        };
        let record = self.batch.add(DATA_OVERHEAD + inner_len);
        if let (Signal::Mtu(message), Some(record)) = (signal, record) {
            message.write(&mut record[DATA_HEADER_LEN..][..inner_len]);
        }
        self.seal(context);
        // It leaves with the turn that follows, which knows what to do when the socket is full.
        road.peer.activity.keepalive_sent(context.now);
        true
    }

    /// Reads, routes and plans one frame. Returns its number of segments, 0 where it went no
    /// further, `None` where there is none.
    fn next_frame<S: Shell>(
        &mut self,
        snapshot: &Snapshot,
        context: &mut Context<S>,
        queues: &mut Queues<S::QueueCredit>,
        scope: Scope,
    ) -> Result<Option<usize>, Ended> {
        let only_priority = scope == Scope::Priority;
        let kept = match only_priority {
            true => None,
            false => self.take_kept(snapshot, context),
        };
        let (mut queue, mut is_congested, mut is_priority) = (None, false, false);
        let len = if let Some(Resumed {
            frame, answer_to, ..
        }) = kept
        {
            self.frame[..frame.len()].copy_from_slice(&frame);
            if let Some(peer) = answer_to {
                self.point_at_answer(snapshot, context, peer, frame.len());
                return Ok(Some(0));
            }
            frame.len()
        } else {
            let received = queues.receive(
                &mut context.shell,
                &mut self.frame,
                context.now,
                only_priority,
                &context.counters,
            )?;
            let Some(received) = received else {
                return Ok(None);
            };
            context.counters.tun_frames_received.add(1);
            (queue, is_congested) = (received.queue, received.is_congested);
            is_priority = received.is_priority;
            if is_priority {
                context.note_answer(Side::Inside);
            }
            received.len
        };
        let segments = self.route(snapshot, context, len).unwrap_or(0);
        if let (Some(queue), Some(cursor)) = (queue, &self.cursor) {
            let road = snapshot.road(cursor.peer);
            let round_trip = road.and_then(|road| road.peer.round_trip());
            queues.note_path(queue, round_trip, context.now);
        }
        if is_congested {
            self.tell_sender(context);
        }
        if let Some(cursor) = &mut self.cursor {
            cursor.is_priority = is_priority;
            if is_priority {
                context.expect_answer(Side::Outside);
            }
        }
        Ok(Some(segments))
    }

    /// A frame that waited for a key or for a route, and has it.
    fn take_kept<S: Shell>(
        &mut self,
        snapshot: &Snapshot,
        context: &Context<S>,
    ) -> Option<Resumed> {
        let has_key = |id| {
            let road = snapshot.road(id);
            road.is_some_and(|road| usable(road, context).is_some())
        };
        if self.keyless != Some(context.generation) {
            if let Some((_, frame)) = self.staging.pop_ready(has_key) {
                return Some(Resumed {
                    frame,
                    generation: context.generation,
                    answer_to: None,
                });
            }
            self.keyless = Some(context.generation);
        }
        self.take_resumed(context)
    }

    /// Tells the sender of the frame that the cursor points at that it should slow down: by a mark on its first packet
    /// where its transport understands that (RFC 3168), by the loss of it otherwise.
    fn tell_sender<S: Shell>(&mut self, context: &Context<S>) {
        let Some(cursor) = &mut self.cursor else {
            return;
        };
        if cursor.cut.ip().ecn == Ecn::NotEct {
            context.counters.count_drop(Dropped::Codel, 1);
            cursor.next = 1;
            if cursor.cut.segments() == 1 {
                self.cursor = None;
            }
        } else {
            context.counters.queue_marked.add(1);
            cursor.is_marked = true;
        }
    }

    /// Finds the peer of the frame in the buffer and points the cursor at it, or stages or drops it.
    fn route<S: Shell>(
        &mut self,
        snapshot: &Snapshot,
        context: &mut Context<S>,
        len: usize,
    ) -> Option<usize> {
        let Some((vnet, packet)) = self.frame[..len].split_first_chunk::<VNET_HEADER_LEN>() else {
            context.counters.count_drop(Dropped::TunMalformed, 1);
            return None;
        };
        let Ok(mut cut) = VnetHeader::parse(vnet).and_then(|vnet| Cut::plan(&vnet, packet)) else {
            context.counters.count_drop(Dropped::TunMalformed, 1);
            return None;
        };
        if own::is_from_port(packet, snapshot.port)
            && let Some(to) = own::loops_to(snapshot, packet, |address| {
                context.shell.is_own_address(address)
            })
        {
            context.count_loop(to, cut.segments() as u64);
            return None;
        }
        let source = cut.ip().source;
        if snapshot
            .inside
            .is_some_and(|inside| !inside.contains(source))
        {
            context.count_foreign(source, cut.segments() as u64);
            context.reply(|out| icmp::unreachable(packet, icmp::Unreachable::Prohibited, out));
            return None;
        }
        let owner = snapshot.routes.owner(cut.ip().destination);
        let road = owner.and_then(|id| snapshot.road(id));
        let mut before_gate = None;
        if context.gates.is_some() {
            if road.is_some_and(|road| usable(road, context).is_none()) {
                // It will wait for a handshake, and pass the gate again then, as it came: what the gate
                // has translated once belongs to no flow.
                before_gate = Some(Box::<[u8]>::from(&self.frame[..len]));
            }
            cut = gate::pass_to_client(snapshot, context, &mut self.frame[..len], &cut)?;
        }
        let packet = &self.frame[VNET_HEADER_LEN..len];
        let service_routes = snapshot.service_routes.as_deref();
        if service_routes.is_some_and(|routes| routes.lacks_route(packet))
            && context.hand_over_unrouted(&self.frame[..len], cut.segments())
        {
            return None;
        }
        let Some(road) = road else {
            if context.hand_over_unrouted(&self.frame[..len], cut.segments()) {
                return None;
            }
            context
                .counters
                .count_drop(Dropped::NoPeer, cut.segments() as u64);
            context.reply(|out| icmp::unreachable(packet, icmp::Unreachable::Host, out));
            return None;
        };
        let Some(endpoint) = road.peer.endpoint() else {
            context
                .counters
                .count_drop(Dropped::NoEndpoint, cut.segments() as u64);
            context.reply(|out| icmp::unreachable(packet, icmp::Unreachable::Host, out));
            return None;
        };
        let Some(_) = usable(road, context) else {
            let frame = before_gate.as_deref().unwrap_or(&self.frame[..len]);
            self.staging.push(road.peer.id, frame, &context.counters);
            context.want_handshake(&road.peer);
            return None;
        };
        if cut.segment_len(0) > LONGEST_UNPROBED
            && !road.peer.full_size_left.load(Ordering::Relaxed)
        {
            context.note_full_size(&road.peer);
        }
        let path_mtu = road.peer.path_mtu.load(Ordering::Relaxed);
        if path_mtu != 0 {
            // Longer records leave nevertheless: the host may send them in fragments. Their sender hears how to avoid that.
            let fits = inner_mtu(path_mtu, &endpoint.address);
            let told = told_mtu(fits, packet);
            if cut.segment_len(0) > usize::from(told) {
                context.reply(|out| icmp::packet_too_big(packet, told, out));
            }
        }
        context.counters.cut.record(cut.segments());
        let segments = cut.segments();
        let is_udp = is_udp(packet);
        self.moderation.note(segments == 1 && is_udp);
        context.mix.note(is_udp, segments);
        self.cursor = Some(Cursor {
            len,
            cut,
            peer: road.peer.id,
            public_key: road.peer.public_key,
            next: 0,
            is_marked: false,
            is_priority: false,
        });
        Some(segments)
    }

    /// Cuts the frame in the buffer into records of the batch; a batch that takes no more is sealed.
    fn cut<S: Shell>(&mut self, snapshot: &Snapshot, context: &mut Context<S>) {
        let Some(mut cursor) = self.cursor.take() else {
            return;
        };
        let road = snapshot.road(cursor.peer);
        let road = road.filter(|road| road.peer.public_key == cursor.public_key);
        let Some((road, sending)) = road.and_then(|road| Some((road, usable(road, context)?)))
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
        if !self.batch.takes(road, sending, class) {
            self.cursor = Some(cursor);
            self.seal(context);
            return;
        }
        if cursor.next == 0 && !self.batch.is_empty() {
            context.counters.frames_joined.add(1);
        }
        self.batch.address(road, sending, class);
        let shape = RecordShape {
            mtu: usize::from(snapshot.mtu),
        };
        let packet = &self.frame[VNET_HEADER_LEN..cursor.len];
        let splits = Splitter::limit(&road.peer, packet);
        while cursor.next < cursor.cut.segments() {
            let inner_len = cursor.cut.segment_len(cursor.next);
            if let Some(longest) = splits.filter(|&longest| inner_len > longest) {
                if !self.batch.is_empty() {
                    // The parts of a packet have a send of their own.
                    self.cursor = Some(cursor);
                    self.seal(context);
                    return;
                }
                self.splitter.take(inner_len, |segment| {
                    cursor.cut.write_segment(packet, cursor.next, segment);
                    if cursor.next == 0 && cursor.is_marked {
                        ecn::mark_ce(segment);
                    }
                });
                if self.splitter.split(longest, shape, &mut self.batch) {
                    cursor.next += 1;
                    continue;
                }
            }
            let Some(record) = self.batch.add(shape.record_len(inner_len)) else {
                self.cursor = Some(cursor);
                self.seal(context);
                return;
            };
            let (inner, padding) = record[DATA_HEADER_LEN..].split_at_mut(inner_len);
            cursor.cut.write_segment(packet, cursor.next, inner);
            if cursor.next == 0 && cursor.is_marked {
                ecn::mark_ce(inner);
            }
            padding.fill(0);
            cursor.next += 1;
        }
        road.peer.activity.data_sent(context.now);
    }

    /// Seals the batch; one that finds no counters left is dropped.
    fn seal<S: Shell>(&mut self, context: &mut Context<S>) {
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
    fn send<S: Shell>(&mut self, context: &mut Context<S>) -> bool {
        match transmit::send(&mut self.batch, context) {
            Ok(()) => true,
            Err(reason) => {
                self.batch.wait_for(reason);
                false
            }
        }
    }

    /// True if the sealed batch can't leave for now. Nothing else is carried out meanwhile.
    pub(crate) fn is_blocked(&self) -> bool {
        self.batch.waits_for().is_some()
    }

    /// True if the sealed batch waits for this.
    pub(crate) fn waits_for(&self, reason: Blocked) -> bool {
        self.batch.waits_for() == Some(reason)
    }

    /// The reason for which this direction stands may be gone: it tries again.
    pub(crate) fn unblock(&mut self, reason: Blocked) {
        if self.waits_for(reason) {
            self.unblock_all();
        }
    }

    /// Tries again, whatever the reason was.
    pub(crate) fn unblock_all(&mut self) {
        self.batch.try_again();
    }

    /// Whether the batch on its way out goes to an IPv4 endpoint.
    pub(crate) fn sends_to_v4(&self) -> bool {
        let to = self.batch.to().and_then(|(peer, _)| peer.endpoint());
        to.is_none_or(|to| to.address.is_ipv4())
    }

    /// Whether there is work that does not wait for a device.
    pub(crate) fn has_work(&self) -> bool {
        !self.is_blocked()
            && (self.cursor.is_some() || !self.batch.is_empty() || !self.resumed.is_empty())
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

/// The key to seal with at this moment.
fn usable<'a, S: Shell>(road: &'a Road, context: &Context<S>) -> Option<&'a Arc<Sending>> {
    road.sending
        .as_ref()
        .filter(|sending| sending.transport.can_send(context.now))
}

#[cfg(test)]
mod tests;
