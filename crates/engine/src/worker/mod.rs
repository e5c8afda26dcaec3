//! A packet worker: one thread that carries both directions to completion.
//!
//! A turn loads the newest snapshot, asks which devices are ready, carries one budget of superframes
//! in and one out, so that neither direction starves. Nothing here waits for anything but `epoll`.

mod affinity;
mod backlog;
mod batch;
mod busy_poll;
mod codel;
mod context;
mod copies;
mod delivery;
mod gate;
mod icmp_rate;
mod inbound;
mod interrupt_moderation;
mod key_wait;
mod mix;
mod mtu_answers;
mod outbound;
mod own;
mod poller;
mod queue_bound;
mod queues;
mod refusals;
mod splitter;
mod staging;
mod superframes;
mod transmit;

use crate::clock;
use crate::configuration::Refusal;
use crate::control::Shared;
use crate::counters::{Dropped, WorkerCounters};
use crate::mechanisms::{Mechanism, Mechanisms};
use crate::snapshot::{Lane, Snapshot, SocketPair};
use crate::unrouted::Unrouted;
use affinity::Affinity;
use backlog::Backlogs;
use busy_poll::Side;
use context::Context;
use culvert_packet::{Accept, MtuMessage, VNET_HEADER_LEN, icmp};
use culvert_session::PeerId;
use culvert_tun::{Account, Queue};
use inbound::Inbound;
use interrupt_moderation::InterruptModeration;
use outbound::{BUDGET_FRAMES, Outbound, Progress, Scope};
use poller::Poller;
use queues::Queues;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use transmit::Blocked;

/// Signals that wait at one worker: as many as commands fit its mailbox, where what more there are stays.
const MAX_SIGNALS: usize = 1024;

/// Urgent frames that are carried out at each look: what belongs there is small and rare, and a flood of
/// it must not starve the rest.
const URGENT_BUDGET_FRAMES: usize = 32;

/// What the control thread asks of a worker.
pub(crate) enum Command {
    /// Seal an empty record for the peer.
    Keepalive(PeerId),
    /// Seal a record about the path MTU for the peer.
    Mtu(PeerId, MtuMessage),
    /// Nobody answered: drop what waits for the peer's handshake.
    DropStaged(PeerId),
    /// Carry out a frame, virtio-net header included, that had no route before.
    Resume {
        frame: Box<[u8]>,
        /// The snapshot that has one.
        generation: u64,
    },
    /// Tell the sender of such a frame that it goes nowhere.
    Refuse { frame: Box<[u8]>, refusal: Refusal },
}

/// A record that carries no packet of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Signal {
    Keepalive,
    Mtu(MtuMessage),
}

/// How a worker is made.
pub(crate) struct WorkerOptions {
    pub(crate) worker: usize,
    pub(crate) queues: Vec<Queue>,
    /// Of each queue, where the kernel bounds them in bytes.
    pub(crate) accounts: Vec<Account>,
    /// A descriptor of the TUN to write to; which queue it is does not matter to the kernel.
    pub(crate) writer: Queue,
    /// Whether the first of `queues` are the TUN's priority queues.
    pub(crate) has_priority: bool,
    /// What the TUN takes coalesced.
    pub(crate) accept: Accept,
    pub(crate) mechanisms: Mechanisms,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) unrouted: Option<SyncSender<Unrouted>>,
}

/// A packet worker, ready to run on a thread of its own.
pub(crate) struct Worker {
    context: Context,
    snapshot: Arc<Snapshot>,
    queues: Queues,
    outbound: Outbound,
    inbound: Inbound,
    poller: Poller,
    /// By lane: it has not been found empty since something arrived there.
    ready: [bool; Lane::ALL.len()],
    /// By lane: what was last seen to have come there, of those for what is urgent.
    arrivals: [u64; Lane::ALL.len()],
    /// By lane: receive calls that failed one after the other.
    receive_failures: [u8; Lane::ALL.len()],
    /// The outbound direction used its budget up and may have more to carry.
    has_more: bool,
    /// `None` before the first sockets, and where their buffers are left alone.
    backlogs: Option<Backlogs>,
    /// Signals that wait for the batch before them, at most [`MAX_SIGNALS`].
    signals: VecDeque<(PeerId, Signal)>,
}

/// Receive calls that may fail one after the other before a socket is left alone until something arrives there: a busy loop
/// over a socket that is broken would take the processor from all others.
const MAX_RECEIVE_FAILURES: u8 = 8;

/// What an epoll event is about. TUN queues have their own number.
const TOKEN_WAKE: u64 = 1 << 32;
/// The first of as many as there are lanes.
const TOKEN_LANES: u64 = TOKEN_WAKE + 1;

const fn token_of(lane: Lane) -> u64 {
    TOKEN_LANES + lane as u64
}

const fn lane_of(token: u64) -> Lane {
    Lane::ALL[(token - TOKEN_LANES) as usize]
}

impl Worker {
    /// Registers the worker's devices.
    ///
    /// # Errors
    /// Those of `epoll`: no descriptors or no memory left.
    pub(crate) fn new(options: WorkerOptions) -> io::Result<Self> {
        let poller = Poller::new()?;
        for (queue, number) in options.queues.iter().zip(0..) {
            poller.add(queue, number)?;
        }
        let waker = options.shared.worker_waker(options.worker);
        poller.add(waker, TOKEN_WAKE)?;
        let mut context = Context::new(
            options.worker,
            options.mechanisms,
            options.counters,
            options.shared,
            options.unrouted,
        );
        let mut snapshot = Arc::new(Snapshot::empty(0));
        context.refresh(&mut snapshot);
        let mut worker = Self {
            context,
            snapshot,
            queues: Queues::new(
                options.queues,
                options.accounts,
                options.writer,
                options.has_priority,
            ),
            outbound: Outbound::new(),
            inbound: Inbound::new(options.accept),
            poller,
            ready: [false; Lane::ALL.len()],
            arrivals: [0; Lane::ALL.len()],
            receive_failures: [0; Lane::ALL.len()],
            has_more: false,
            backlogs: None,
            signals: VecDeque::new(),
        };
        worker.adopt(None)?;
        Ok(worker)
    }

    /// Carries packets until the device ends.
    ///
    /// # Errors
    /// Those of the TUN: the interface was deleted.
    pub(crate) fn run(mut self) -> io::Result<()> {
        interrupt_moderation::sleep_exactly();
        let may_stay = self.context.mechanisms.has(Mechanism::Placement);
        let mut affinity = may_stay
            .then(|| Affinity::of_this_thread(clock::now()))
            .flatten();
        while !self.context.shared.is_stopping() {
            self.context.counters.turns.add(1);
            self.wait()?;
            self.context.now = clock::now();
            self.queues.doubt(self.context.now);
            self.renew()?;
            self.check_machine();
            self.command();
            self.receive()?;
            self.send()?;
            if let Some(affinity) = &mut affinity
                && affinity.look(self.context.now, &mut self.context.mix)
            {
                self.context.counters.stays.add(1);
            }
        }
        Ok(())
    }

    /// Asks which devices are ready; sleeps where there is nothing to do meanwhile.
    fn wait(&mut self) -> io::Result<()> {
        let has_signals = !self.signals.is_empty() || !self.context.mtu_answers.is_empty();
        let busy = self.ready.contains(&true)
            || self.outbound.has_work()
            || (self.outbound.blocked.is_none()
                && (self.has_more || self.queues.is_ready() || has_signals));
        let may_pause = self.context.mechanisms.has(Mechanism::Moderation);
        let busy = if !busy && may_pause && self.outbound.moderation.is_due(self.context.now) {
            InterruptModeration::pause();
            // What came meanwhile is looked for; a pause that brought nothing is the last.
            self.context.counters.pauses.add(1);
            true
        } else {
            busy
        };
        let busy = if !busy && self.context.busy_poll.is_due(self.context.now) {
            rustix::thread::sched_yield();
            true
        } else {
            busy
        };
        let at_most = self.queues.doubts_after();
        self.poller.wait(busy, at_most, &self.context.counters)?;
        self.take_events()
    }

    /// Takes in what the last look at the devices found.
    fn take_events(&mut self) -> io::Result<()> {
        let mut has_room = None;
        for (token, room) in self.poller.ready() {
            match token {
                TOKEN_WAKE => {
                    self.context.shared.worker_awake(self.context.worker);
                    self.outbound.unblock(Blocked::Turn);
                }
                TOKEN_LANES.. => {
                    let lane = lane_of(token);
                    if room {
                        self.outbound.unblock(Blocked::Socket);
                        has_room = Some(lane);
                    }
                    self.ready[lane as usize] = true;
                }
                queue => self.queues.set_ready(queue as usize),
            }
        }
        match has_room {
            Some(lane) => {
                self.note_room(lane);
                self.watch_for_room(lane, false)
            }
            None => Ok(()),
        }
    }

    /// Takes over the newest snapshot.
    fn renew(&mut self) -> io::Result<()> {
        let old = Arc::clone(&self.snapshot);
        if self.context.refresh(&mut self.snapshot) {
            self.adopt(Some(&old))?;
        }
        Ok(())
    }

    /// Gives up the keys, and what was sealed under them, where this machine may be a copy of that which
    /// they are for.
    fn check_machine(&mut self) {
        if self.context.begin_turn(&self.snapshot) {
            self.snapshot.retire_keys();
            self.outbound.abandon(&self.context);
        }
    }

    fn adopt(&mut self, old: Option<&Snapshot>) -> io::Result<()> {
        let snapshot = Arc::clone(&self.snapshot);
        let old_sockets = old.and_then(|old| old.sockets.as_ref());
        let same = match (old_sockets, &snapshot.sockets) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (None, None) => true,
            _ => false,
        };
        if !same {
            // A socket that closes leaves epoll by itself once its last reference is gone.
            if let Some(pair) = old_sockets.map(|all| &all[self.context.worker]) {
                for socket in Lane::ALL.into_iter().filter_map(|lane| pair.lane(lane)) {
                    self.poller.remove(socket);
                }
            }
            match &snapshot.sockets {
                Some(all) => self.watch_sockets(&all[self.context.worker])?,
                None => self.outbound.abandon(&self.context),
            }
            self.outbound.blocked = None;
        }
        self.outbound.staging.retain(
            |peer| snapshot.sockets.is_some() && snapshot.road(peer).is_some(),
            Dropped::PeerGone,
            &self.context.counters,
        );
        Ok(())
    }

    fn watch_sockets(&mut self, pair: &SocketPair) -> io::Result<()> {
        for lane in Lane::ALL {
            let socket = pair.lane(lane);
            // What arrived before the sockets were watched.
            self.ready[lane as usize] = socket.is_some();
            let Some(socket) = socket else { continue };
            self.poller.add(socket, token_of(lane))?;
        }
        let has_brake = self.context.mechanisms.has(Mechanism::Backlog);
        self.backlogs = has_brake.then(|| Backlogs::new(pair));
        Ok(())
    }

    /// Does what the control thread asked for.
    fn command(&mut self) {
        while self.signals.len() < MAX_SIGNALS {
            match self.context.shared.next_command(self.context.worker) {
                Some(Command::Keepalive(peer)) => self.signals.push_back((peer, Signal::Keepalive)),
                Some(Command::Mtu(peer, message)) => {
                    self.signals.push_back((peer, Signal::Mtu(message)));
                }
                Some(Command::DropStaged(peer)) => self.outbound.staging.discard(
                    peer,
                    Dropped::HandshakeFailed,
                    &self.context.counters,
                ),
                Some(Command::Resume { frame, generation }) => {
                    self.outbound.resume(frame, generation, &self.context);
                }
                Some(Command::Refuse { frame, refusal }) => self.refuse(&frame, refusal),
                None => break,
            }
        }
        while self.signals.len() < MAX_SIGNALS
            && let Some((peer, probe)) = self.context.mtu_answers.pop()
        {
            let answer = Signal::Mtu(MtuMessage::Answer(probe));
            self.signals.push_back((peer, answer));
        }
        if self.outbound.blocked.is_none()
            && let Some(&(peer, signal)) = self.signals.front()
            && self
                .outbound
                .signal(&self.snapshot, &mut self.context, peer, signal)
        {
            self.signals.pop_front();
        }
    }

    fn refuse(&mut self, frame: &[u8], refusal: Refusal) {
        let code = match refusal {
            Refusal::Prohibited => icmp::Unreachable::Prohibited,
            Refusal::Unreachable => icmp::Unreachable::Host,
        };
        let packet = frame.get(VNET_HEADER_LEN..).unwrap_or_default();
        self.context.counters.count_drop(Dropped::NoPeer, 1);
        self.context
            .reply(&self.queues, |out| icmp::unreachable(packet, code, out));
    }

    /// Carries in one budget from each socket, and before each of several runs what is urgent.
    fn receive(&mut self) -> io::Result<()> {
        self.carry_urgent()?;
        for lane in Lane::BULK {
            let runs = self.fetch(lane)?;
            for run in 0..runs {
                // To receive a single one takes no time in which something urgent would have to wait.
                if runs > 1 {
                    self.attend()?;
                }
                self.carry_in(lane, run)?;
            }
        }
        // What the host has answered by now, such as an echo.
        self.carry_urgent_out()
    }

    /// Receives from a lane. Returns the number of runs.
    fn fetch(&mut self, lane: Lane) -> io::Result<usize> {
        if !self.ready[lane as usize] {
            return Ok(0);
        }
        let sockets = self.snapshot.sockets.as_ref();
        let Some(socket) = sockets.and_then(|all| all[self.context.worker].lane(lane)) else {
            self.ready[lane as usize] = false;
            return Ok(0);
        };
        let (runs, may_have_more) = match self.inbound.fetch(lane, socket) {
            Ok(fetched) => fetched,
            Err(error) => {
                // The socket has lost something, or memory is short. What is there already tells of itself no more.
                tracing::debug!(%error, "receive");
                self.context.counters.udp_receive_failures.add(1);
                let failures = &mut self.receive_failures[lane as usize];
                *failures += 1;
                (0, *failures < MAX_RECEIVE_FAILURES)
            }
        };
        self.ready[lane as usize] = may_have_more;
        if runs > 0 || !may_have_more {
            self.receive_failures[lane as usize] = 0;
        }
        if runs > 0 {
            self.context.counters.udp_receives.add(1);
            self.context.note_answer(Side::Outside);
        }
        Ok(runs)
    }

    fn carry_in(&mut self, lane: Lane, run: usize) -> io::Result<()> {
        let old = Arc::clone(&self.snapshot);
        let (snapshot, context) = (&mut self.snapshot, &mut self.context);
        self.inbound
            .carry(lane, run, snapshot, context, &self.queues);
        if !Arc::ptr_eq(&old, &self.snapshot) {
            self.adopt(Some(&old))?;
        }
        Ok(())
    }

    /// Looks for what is urgent, and carries it, in the middle of a turn.
    fn attend(&mut self) -> io::Result<()> {
        if !self.context.mechanisms.has(Mechanism::Express) {
            return Ok(());
        }
        if !self.queues.are_counted() {
            self.poller.look()?;
            self.take_events()?;
        }
        self.note_arrivals();
        let received = self.carry_urgent()?;
        self.context.counters.attended.add(received);
        Ok(())
    }

    /// Finds out which lanes something urgent has come to. Costs no system call. What is counted joins its queue a moment
    /// later, so a lane may be found empty now: the event that follows is taken in before the next turn.
    fn note_arrivals(&mut self) {
        let Some(sockets) = &self.snapshot.sockets else {
            return;
        };
        let pair = &sockets[self.context.worker];
        for lane in Lane::EXPRESS {
            let arrivals = pair.lane(lane).and_then(culvert_udp::Socket::arrivals);
            if let Some(arrivals) = arrivals
                && arrivals != self.arrivals[lane as usize]
            {
                self.arrivals[lane as usize] = arrivals;
                self.ready[lane as usize] = true;
            }
        }
    }

    /// Carries what is urgent in both directions. Returns the datagrams that came in.
    fn carry_urgent(&mut self) -> io::Result<u64> {
        let mut received = 0;
        for lane in Lane::EXPRESS {
            for run in 0..self.fetch(lane)? {
                self.carry_in(lane, run)?;
                self.context.expect_answer(Side::Inside);
                received += 1;
            }
        }
        self.carry_urgent_out()?;
        Ok(received)
    }

    fn carry_urgent_out(&mut self) -> io::Result<()> {
        let mut budget = URGENT_BUDGET_FRAMES;
        if self.queues.has_urgent() && self.outbound.blocked.is_none() {
            self.carry_out(Scope::Urgent, &mut budget)?;
        }
        Ok(())
    }

    /// Carries out one budget, and around the sending of its superframes what is urgent.
    fn send(&mut self) -> io::Result<()> {
        self.outbound.answer(&mut self.context);
        let mut budget = BUDGET_FRAMES;
        while self.outbound.blocked.is_none() {
            let progress = self.carry_out(Scope::All, &mut budget)?;
            self.has_more = progress != Progress::Idle;
            if progress != Progress::Pause {
                break;
            }
            self.attend()?;
        }
        Ok(())
    }

    fn carry_out(&mut self, scope: Scope, budget: &mut usize) -> io::Result<Progress> {
        let snapshot = Arc::clone(&self.snapshot);
        let (context, queues) = (&mut self.context, &mut self.queues);
        let progress = self
            .outbound
            .turn(&snapshot, context, queues, scope, budget)?;
        if progress == Progress::Blocked && self.outbound.blocked == Some(Blocked::Socket) {
            let lane = if self.outbound.sends_to_v4() {
                Lane::V4
            } else {
                Lane::V6
            };
            self.watch_for_room(lane, true)?;
        }
        Ok(progress)
    }

    /// Tells the backlog of `lane` that its socket has room again.
    fn note_room(&mut self, lane: Lane) {
        if let (Some(backlogs), Some(sockets)) = (&mut self.backlogs, &self.snapshot.sockets) {
            backlogs.note_room(&sockets[self.context.worker], lane);
        }
    }

    /// Asks to be told when the socket of `lane` has room again, or no longer: while it is watched for room it
    /// reports every datagram that leaves it.
    fn watch_for_room(&self, lane: Lane, on: bool) -> io::Result<()> {
        let sockets = self.snapshot.sockets.as_ref();
        match sockets.and_then(|all| all[self.context.worker].lane(lane)) {
            Some(socket) => self.poller.watch_for_room(socket, token_of(lane), on),
            None => Ok(()),
        }
    }
}
