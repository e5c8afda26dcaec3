//! The surroundings of a worker besides its devices: the time of this turn, counters, the way to the control thread and
//! to the other workers.

use crate::busy_poll::{BusyPoll, Side};
use crate::copies::CopyWatch;
use crate::counters::{Dropped, WorkerCounters};
use crate::event::{Event, HandshakeMessage};
use crate::gates::Gates;
use crate::icmp_rate::ICMP_RATE;
use crate::mechanisms::{Mechanism, Mechanisms};
use crate::mix::Mix;
use crate::mtu_answers::MtuAnswers;
use crate::peer::Peer;
use crate::refusal::RouteRefusal;
use crate::refusals::Refusals;
use crate::shell::{Ended, Shell};
use crate::snapshot::{InUse, News, Snapshot};
use crate::unrouted::Unrouted;
use culvert_base::{BootTime, TokenBucket};
use culvert_packet::{MtuMessage, VNET_HEADER_LEN};
use culvert_policy::gate::ClientGate;
use culvert_session::{ClockOffset, OpenedBatch};
use std::io::IoSlice;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The time from one report of datagrams that come back to the next. The control thread has something to do at the
/// first; the later ones say that it was in vain.
const LOOP_INTERVAL: Duration = Duration::from_millis(100);

/// The same, of a sender that it did not hear of last: two containers may begin within a moment, and each may send once.
/// Senders that take turns cost the control thread 200 messages a second, of some microseconds each.
const OTHER_SOURCE_INTERVAL: Duration = Duration::from_millis(5);

/// The largest ICMP message written: the minimum MTU of IPv6, which RFC 4443 section 2.4(c) bounds
/// error messages by.
const MAX_ICMP_LEN: usize = 1280;

/// The surroundings of a worker besides its devices.
pub(crate) struct Context<S> {
    pub(crate) shell: S,
    pub(crate) worker: usize,
    pub(crate) now: BootTime,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) mechanisms: Mechanisms,
    /// Of a device whose packets are judged.
    pub(crate) gates: Option<Arc<Gates>>,
    /// Of a client's device, where nothing comes in but answers.
    pub(crate) client_gate: Option<Arc<ClientGate>>,
    /// Of the snapshot in use.
    pub(crate) generation: u64,
    copies: CopyWatch,
    /// The time at which the control thread was last told of a loop.
    loop_told: Option<BootTime>,
    foreign_told: Option<(IpAddr, BootTime)>,
    icmp_tokens: TokenBucket<BootTime>,
    /// Answers to clients whose packets the gate does not let pass.
    pub(crate) refusals: Refusals,
    pub(crate) mtu_answers: MtuAnswers,
    /// Of both directions.
    pub(crate) mix: Mix,
    pub(crate) busy_poll: BusyPoll,
}

impl<S: Shell> Context<S> {
    pub(crate) fn new(
        shell: S,
        worker: usize,
        mechanisms: Mechanisms,
        counters: Arc<WorkerCounters>,
        gates: Option<Arc<Gates>>,
    ) -> Self {
        let (now, wall) = (shell.now(), shell.wall());
        Self {
            shell,
            worker,
            now,
            counters,
            mechanisms,
            gates,
            client_gate: None,
            generation: 0,
            copies: CopyWatch::new(wall),
            loop_told: None,
            foreign_told: None,
            icmp_tokens: TokenBucket::FULL,
            refusals: Refusals::new(),
            mtu_answers: MtuAnswers::default(),
            mix: Mix::new(now),
            busy_poll: BusyPoll::new(),
        }
    }

    /// Tells the control thread. False where its queue is full.
    pub(crate) fn tell(&self, event: Event) -> bool {
        self.shell.tell(event)
    }

    /// Hands a handshake message to the control thread. False where its queue is full.
    pub(crate) fn hand_over(&self, message: HandshakeMessage) -> bool {
        self.shell.hand_over(message)
    }

    /// Begins a turn at this moment. True where the machine may be a copy of that which `snapshot` has
    /// the keys of: nothing may be sealed under them.
    pub(crate) fn begin_turn(&mut self, snapshot: &Snapshot) -> bool {
        let expected = snapshot.wall_offset;
        let shell = &self.shell;
        let (now, generation) = (self.now, self.generation);
        let found = self
            .copies
            .begin_turn(now, shell.wall(), expected, generation, || {
                ClockOffset::between(shell.now(), shell.wall())
            });
        self.tell_of_copy();
        found
    }

    /// True if the machine may have become a copy since the turn began: nothing may be sealed.
    pub(crate) fn may_be_copied(&mut self) -> bool {
        let found = self.copies.look(self.shell.wall(), self.generation);
        self.tell_of_copy();
        found
    }

    fn tell_of_copy(&mut self) {
        if let Some((generation, change)) = self.copies.untold() {
            // If the queue is full, the next look tells it again.
            if self.tell(Event::PerhapsCopied { generation, change }) {
                self.copies.is_told();
            }
        }
    }

    /// Asks the control thread for a handshake, once until it has heard.
    pub(crate) fn want_handshake(&self, peer: &Peer) {
        if !peer.handshake_wanted.swap(true, Ordering::AcqRel)
            && !self.tell(Event::HandshakeWanted(peer.id))
        {
            // The queue is full: the next packet asks again.
            peer.handshake_wanted.store(false, Ordering::Release);
        }
    }

    /// Tells the control thread of data that was marked, if nobody looks at the timers of the peer.
    pub(crate) fn note_active(&self, peer: &Peer) {
        if peer.activity.wants_watch() && !self.tell(Event::Active(peer.id)) {
            // The queue is full: the next batch tells it again.
            peer.activity.unwatch();
        }
    }

    /// Tells the control thread that a packet of full size leaves, once until it has measured the path.
    pub(crate) fn note_full_size(&self, peer: &Peer) {
        if !peer.full_size_left.swap(true, Ordering::AcqRel)
            && !self.tell(Event::FullSizeLeft(peer.id))
        {
            // The queue is full: the next packet tells it again.
            peer.full_size_left.store(false, Ordering::Release);
        }
    }

    /// Hears a message of the peer about the path MTU. An answer that finds no room is as good as lost: the probe is
    /// repeated.
    pub(crate) fn hear_of_mtu(&mut self, peer: &Peer, message: MtuMessage) {
        match message {
            MtuMessage::Probe(probe) => self.mtu_answers.push(peer.id, probe),
            MtuMessage::Answer(probe) => {
                if peer.takes_probe_answer() {
                    let _repeated = self.tell(Event::MtuAnswered(peer.id, probe));
                }
            }
        }
    }

    /// Takes over the newest snapshot. False where there is none newer than the one in use.
    pub(crate) fn refresh(&mut self, in_use: &mut InUse) -> bool {
        let news = match self.shell.newer_snapshot(&mut self.generation) {
            Ok(None) => return false,
            Ok(Some(renewed)) => {
                in_use.snapshot = renewed.snapshot;
                match renewed.has_other_sockets {
                    true => News::OtherSockets,
                    false => News::SameSockets,
                }
            }
            Err(Ended) => News::Ended,
        };
        in_use.news = in_use.news.max(Some(news));
        news != News::Ended
    }

    /// Wakes each worker whose bit is set in `mask`.
    pub(crate) fn wake_workers(&self, mask: u64) {
        if mask != 0 {
            self.shell.wake_workers(mask & !(1 << self.worker));
        }
    }

    /// Hands over the part of a packet that a peer quotes when it refuses it.
    pub(crate) fn hand_over_refused(&self, quoted: &[u8], refusal: RouteRefusal) {
        if self.shell.takes_unrouted() {
            self.give(Unrouted::refused(quoted, refusal, self.worker), 1);
        }
    }

    /// Hands a frame without a route to whoever wants it. False where nobody does.
    pub(crate) fn hand_over_unrouted(&self, frame: &[u8], packets: usize) -> bool {
        let is_wanted = self.shell.takes_unrouted();
        if is_wanted {
            self.give(Unrouted::new(frame, self.worker), packets as u64);
        }
        is_wanted
    }

    fn give(&self, unrouted: Unrouted, packets: u64) {
        if !self.shell.give_unrouted(unrouted) {
            self.counters.count_drop(Dropped::UnroutedFull, packets);
        }
    }

    /// Notes that a priority packet is on its way to the other side, and is likely to be answered.
    pub(crate) fn expect_answer(&mut self, from: Side) {
        if self.mechanisms.has(Mechanism::Priority) && self.busy_poll.expect(from, self.now) {
            self.counters.busy_polls.add(1);
        }
    }

    /// Notes what may be such an answer.
    pub(crate) fn note_answer(&mut self, from: Side) {
        if self.busy_poll.arrived(from, self.now) {
            self.counters.busy_polls_answered.add(1);
        }
    }

    /// Counts packets to `to` that this device itself has sent, and tells the control thread, which need not hear of each.
    pub(crate) fn count_loop(&mut self, to: SocketAddr, packets: u64) {
        self.counters.count_drop(Dropped::OwnDatagram, packets);
        let due = self
            .loop_told
            .is_none_or(|last| self.now.saturating_since(last) >= LOOP_INTERVAL);
        if due && self.tell(Event::Looped(to)) {
            self.loop_told = Some(self.now);
        }
    }

    /// Counts packets from `source`, which is not this end's in the tunnel, and tells the control thread, which need not
    /// hear of each.
    #[cold]
    pub(crate) fn count_foreign(&mut self, source: IpAddr, packets: u64) {
        self.counters.count_drop(Dropped::SourceForeign, packets);
        let due = self.foreign_told.is_none_or(|(last, told)| {
            let interval = if last == source {
                LOOP_INTERVAL
            } else {
                OTHER_SOURCE_INTERVAL
            };
            self.now.saturating_since(told) >= interval
        });
        // The kernel's own multicast reports come from link-local addresses.
        let is_global = match source {
            IpAddr::V4(source) => !source.is_link_local() && !source.is_unspecified(),
            IpAddr::V6(source) => !source.is_unicast_link_local() && !source.is_unspecified(),
        };
        if due && is_global && self.tell(Event::ForeignSource(source)) {
            self.foreign_told = Some((source, self.now));
        }
    }

    /// The same with a client's gate, if there is one.
    pub(crate) fn with_client_gate(self, client_gate: Option<Arc<ClientGate>>) -> Self {
        Self {
            client_gate,
            ..self
        }
    }

    /// The gates, where this device has them.
    pub(crate) fn gates(&self) -> Option<&Gates> {
        self.gates.as_deref()
    }

    pub(crate) fn count_refused(&self, opened: &OpenedBatch) {
        let counters = &self.counters;
        counters.count_drop(
            Dropped::Replayed,
            (opened.replayed().len() + opened.too_old().len()) as u64,
        );
        counters.count_drop(Dropped::NotAuthentic, opened.not_authentic().len() as u64);
        counters.count_drop(Dropped::KeyExpired, opened.expired().len() as u64);
        counters.count_drop(Dropped::DatagramUnknown, opened.malformed().len() as u64);
    }

    /// Writes an ICMP message to the inside, unless many were written a moment ago. `make` fills its
    /// argument and returns the length, or declines.
    pub(crate) fn reply(&mut self, make: impl FnOnce(&mut [u8]) -> Option<usize>) {
        let now = self.now;
        if !self.icmp_tokens.wait(ICMP_RATE, now).is_zero() {
            return;
        }
        let mut message = [0; MAX_ICMP_LEN];
        let Some(len) = make(&mut message) else {
            return;
        };
        // It was there a moment ago.
        let _taken = self.icmp_tokens.take(ICMP_RATE, now);
        let vnet = [0; VNET_HEADER_LEN];
        if self
            .shell
            .write_frame(&[IoSlice::new(&vnet), IoSlice::new(&message[..len])])
            .is_ok()
        {
            self.counters.icmp_sent.add(1);
        }
    }
}
