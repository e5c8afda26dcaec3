//! The road out: TUN frame → peer → records laid out and sealed → one segmented send.

mod reading;
mod records;
mod resumed;

use crate::batch::{Batch, Blocked};
use crate::context::Context;
use crate::event::Signal;
use crate::interrupt_moderation::InterruptModeration;
use crate::mechanisms::Mechanism;
use crate::peer::Peer;
use crate::peer_keys::SendingKey;
use crate::queues::Queues;
use crate::shell::{Ended, Shell};
use crate::snapshot::Snapshot;
use crate::splitter::Splitter;
use crate::staging::Staging;
use culvert_base::TrafficSlot;
use culvert_base::datagrams::MAX_SEGMENTS;
use culvert_base::frames::MAX_FRAME_BYTES;
use culvert_packet::Cut;
use culvert_packet::ecn::Ecn;
use culvert_session::{DATA_HEADER_LEN, DATA_OVERHEAD, PeerId, PublicKey};
use std::collections::VecDeque;

/// Frames that one turn carries out: four superframes are 250 KB, which fits the level-2 cache, and
/// keeps a turn below 150 µs, so that the other direction does not wait.
const BUDGET_SUPERFRAMES: usize = 4;

/// Plain packets that one turn carries out: one full batch.
pub(crate) const BUDGET_FRAMES: usize = MAX_SEGMENTS;

/// The least MTU of IPv6 (RFC 8200 section 5), which every path carries.
pub const MIN_PATH_MTU: u16 = 1280;

/// The sending side of one worker.
pub(crate) struct Outbound {
    frame: Box<[u8]>,
    /// The frame that is being cut; what follows it waits in the TUN.
    cursor: Option<Cursor>,
    batch: Batch,
    splitter: Splitter,
    pub(crate) staging: Staging,
    /// The snapshot, and the number of key changes, with which there was a key for none of the peers whose frames are
    /// staged.
    keyless: Option<(u64, u64)>,
    pub(crate) interrupt_moderation: InterruptModeration,
    /// Frames that have been given a route or a receiver: the mailbox's bound.
    resumed: VecDeque<Resumed>,
}

/// The progress of cutting the frame in the buffer.
struct Cursor {
    len: usize,
    cut: Cut,
    peer: PeerId,
    /// The place where the bytes of the frame's destination are counted.
    counted: Option<TrafficSlot>,
    /// The key of the peer: `peer` may be somebody else's number by the time the socket has room.
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
    /// The peer that this end itself has written it for: no gate judges it, and no route leads it.
    answer_to: Option<PeerId>,
}

/// The frames that a turn carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// Frames of the priority queue.
    Priority,
}

/// The end of a turn.
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
            interrupt_moderation: InterruptModeration::new(),
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
        let Some(peer) = snapshot.peer(id) else {
            return true;
        };
        let Some(sending) = usable(peer, context) else {
            context.want_handshake(peer);
            return true;
        };
        self.batch.address(peer, &sending, Ecn::NotEct.bits());
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
        peer.activity.keepalive_sent(context.now);
        true
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

    /// True if the batch on its way out goes to an IPv4 endpoint.
    pub(crate) fn sends_to_v4(&self) -> bool {
        let to = self.batch.to().and_then(|(peer, _)| peer.endpoint());
        to.is_none_or(|to| to.address.is_ipv4())
    }

    /// True if there is work that does not wait for a device.
    pub(crate) fn has_work(&self) -> bool {
        !self.is_blocked()
            && (self.cursor.is_some() || !self.batch.is_empty() || !self.resumed.is_empty())
    }
}

/// The key to seal with at this moment.
fn usable<S: Shell>(peer: &Peer, context: &Context<S>) -> Option<SendingKey> {
    peer.sending()
        .filter(|sending| sending.transport.can_send(context.now))
}

#[cfg(test)]
mod tests;
