//! The data path of one worker: what a turn carries, and in which order.
//!
//! A turn takes over the newest snapshot, carries in one budget of superframes and out another one, so that neither
//! direction starves. Frames and datagrams with priority are carried before, between and after the superframes.

use crate::batch::Blocked;
use crate::busy_poll::Side;
use crate::context::Context;
use crate::counters::{Dropped, WorkerCounters};
use crate::event::{Command, Signal};
use crate::frame::packets_in;
use crate::gates::Gates;
use crate::inbound::Inbound;
use crate::lane::Lane;
use crate::mechanisms::{Mechanism, Mechanisms};
use crate::mix::Mix;
use crate::outbound::{BUDGET_FRAMES, Outbound, Progress, Scope};
use crate::queues::Queues;
use crate::refusal::RouteRefusal;
use crate::send_limit::SendLimits;
use crate::shell::{Ended, Ready, Receive, Shell};
use crate::snapshot::{InUse, News, Snapshot};
use culvert_base::BootTime;
use culvert_packet::{Accept, MtuMessage, VNET_HEADER_LEN, icmp};
use culvert_policy::gate::ClientGate;
use culvert_session::{ClockOffset, PeerId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Signals that wait at one worker: as many as commands fit its mailbox, where what more there are stays.
const MAX_SIGNALS: usize = 1024;

/// Frames with priority that are carried out at each poll: what belongs there is small and rare, and a flood of
/// it must not starve the rest.
const PRIORITY_BUDGET_FRAMES: usize = 32;

/// Receive calls that may fail one after the other before a socket is left alone until something arrives there: a busy loop
/// over a socket that is broken would take the processor from all others.
const MAX_RECEIVE_FAILURES: u8 = 8;

/// The parts of a data path.
pub struct Options<A> {
    /// The worker's number, below 64.
    pub worker: usize,
    /// The number of TUN queues that it reads, at most 64.
    pub queues: usize,
    /// Of each queue, where the kernel bounds them in bytes; otherwise empty.
    pub credits: Vec<A>,
    /// True if the first of the queues are the TUN's priority queues.
    pub has_priority: bool,
    /// The kinds of superframes that the TUN takes.
    pub accept: Accept,
    /// The mechanisms that make it fast.
    pub mechanisms: Mechanisms,
    /// Its counters.
    pub counters: Arc<WorkerCounters>,
    /// Of a device whose packets are judged.
    pub gates: Option<Arc<Gates>>,
    /// Of a client's device, where nothing comes in but answers to what left.
    pub client_gate: Option<Arc<ClientGate>>,
    /// Random: where the identifications of IPv6 fragments begin.
    pub identification: u32,
}

/// The data path of one worker.
pub struct DataPath<S: Shell> {
    context: Context<S>,
    in_use: InUse,
    queues: Queues<S::QueueCredit>,
    outbound: Outbound,
    inbound: Inbound<S::Received>,
    /// By lane: it has not been found empty since something arrived there.
    ready: [bool; Lane::ALL.len()],
    /// By lane: what was last seen to have come there, of those with priority.
    arrivals: [u64; Lane::ALL.len()],
    /// By lane: receive calls that failed one after the other.
    receive_failures: [u8; Lane::ALL.len()],
    /// The outbound direction used its budget up and may have more to carry.
    has_more: bool,
    /// `None` before the first sockets, and where their buffers are left alone.
    send_limits: Option<SendLimits>,
    /// Signals that wait for the batch before them, at most [`MAX_SIGNALS`].
    signals: VecDeque<(PeerId, Signal)>,
}

/// The rest of a worker before it looks at its devices again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Nothing: there is work.
    None,
    /// It pauses for [`PAUSE`](crate::PAUSE), so that a batch comes together.
    Pause,
    /// It polls: an answer is likely to come at once.
    Poll,
    /// It sleeps until a device is ready, at most for the time given.
    Sleep(Option<Duration>),
}

impl<S: Shell> DataPath<S> {
    /// A data path that has taken over the newest snapshot.
    ///
    /// # Errors
    /// Those of the shell.
    pub fn new(shell: S, options: Options<S::QueueCredit>) -> Result<Self, Ended> {
        let wall_offset = ClockOffset::between(shell.now(), shell.wall());
        let mut data_path = Self {
            context: Context::new(
                shell,
                options.worker,
                options.mechanisms,
                options.counters,
                options.gates,
            )
            .with_client_gate(options.client_gate),
            in_use: InUse {
                snapshot: Arc::new(Snapshot::empty(0, wall_offset)),
                news: None,
            },
            queues: Queues::new(options.queues, options.credits, options.has_priority),
            outbound: Outbound::new(options.identification),
            inbound: Inbound::new(options.accept),
            ready: [false; Lane::ALL.len()],
            arrivals: [0; Lane::ALL.len()],
            receive_failures: [0; Lane::ALL.len()],
            has_more: false,
            send_limits: None,
            signals: VecDeque::new(),
        };
        data_path.renew()?;
        Ok(data_path)
    }

    /// Its shell.
    pub const fn shell(&self) -> &S {
        &self.context.shell
    }

    /// Its shell.
    pub const fn shell_mut(&mut self) -> &mut S {
        &mut self.context.shell
    }

    /// The beginning of the last turn.
    pub const fn now(&self) -> BootTime {
        self.context.now
    }

    /// The mix of what it carries, for whoever places the worker.
    pub const fn mix_mut(&mut self) -> &mut Mix {
        &mut self.context.mix
    }

    /// The rest before the next turn.
    pub fn rest(&mut self) -> Rest {
        let has_signals = !self.signals.is_empty() || !self.context.mtu_answers.is_empty();
        let is_busy = self.ready.contains(&true)
            || self.outbound.has_work()
            || (!self.outbound.is_blocked()
                && (self.has_more || self.queues.is_ready() || has_signals));
        if is_busy {
            return Rest::None;
        }
        let may_pause = self.context.mechanisms.has(Mechanism::InterruptModeration);
        if may_pause && self.outbound.interrupt_moderation.is_due(self.context.now) {
            // A pause that brought nothing is the last.
            self.context.counters.pauses.add(1);
            return Rest::Pause;
        }
        if self.context.busy_poll.is_due(self.context.now) {
            return Rest::Poll;
        }
        Rest::Sleep(self.queues.rechecks_after())
    }

    /// Takes in which devices have become ready.
    ///
    /// # Errors
    /// Those of the shell.
    pub fn take_ready(&mut self, ready: &Ready) -> Result<(), Ended> {
        if ready.is_woken {
            self.outbound.unblock(Blocked::Turn);
        }
        self.queues.set_ready(ready.queues);
        for lane in Lane::ALL {
            if ready.lanes[lane as usize] {
                self.ready[lane as usize] = true;
            }
            if ready.room[lane as usize] {
                self.outbound.unblock(Blocked::Socket);
                if let Some(limits) = &mut self.send_limits {
                    limits.note_room(&self.context.shell, lane);
                }
                self.context.shell.watch_for_room(lane, false)?;
            }
        }
        Ok(())
    }

    /// Carries one budget in each direction.
    ///
    /// # Errors
    /// Those of the shell: the interface was deleted.
    pub fn turn(&mut self) -> Result<(), Ended> {
        self.context.counters.turns.add(1);
        self.context.now = self.context.shell.now();
        self.queues.recheck(self.context.now);
        self.renew()?;
        self.check_machine();
        self.take_commands();
        self.receive()?;
        self.send()
    }

    /// Takes over the newest snapshot.
    fn renew(&mut self) -> Result<(), Ended> {
        self.context.refresh(&mut self.in_use);
        self.adopt()
    }

    /// Gives up the keys, and what was sealed under them, where this machine may be a copy of that which
    /// they are for.
    fn check_machine(&mut self) {
        if self.context.begin_turn(&self.in_use.snapshot) {
            self.in_use.snapshot.retire_keys();
            self.outbound.abandon(&self.context);
        }
    }

    /// Follows what a newer snapshot has brought.
    fn adopt(&mut self) -> Result<(), Ended> {
        match self.in_use.news.take() {
            None => return Ok(()),
            Some(News::Ended) => return Err(Ended),
            Some(News::OtherSockets) => self.adopt_sockets(),
            Some(News::SameSockets) => {}
        }
        let snapshot = &self.in_use.snapshot;
        self.outbound.staging.retain(
            |peer| snapshot.port != 0 && snapshot.peer(peer).is_some(),
            Dropped::PeerGone,
            &self.context.counters,
        );
        Ok(())
    }

    fn adopt_sockets(&mut self) {
        let shell = &self.context.shell;
        // Datagrams may have arrived before the sockets were watched.
        self.ready = Lane::ALL.map(|lane| shell.has_socket(lane));
        if self.ready.contains(&true) {
            let is_limited = self.context.mechanisms.has(Mechanism::SendLimit);
            self.send_limits = is_limited.then(|| SendLimits::new(shell));
        } else {
            self.outbound.abandon(&self.context);
        }
        self.outbound.unblock_all();
    }

    /// Does what the control thread asked for.
    fn take_commands(&mut self) {
        while self.signals.len() < MAX_SIGNALS {
            match self.context.shell.next_command() {
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
        if !self.outbound.is_blocked()
            && let Some(&(peer, signal)) = self.signals.front()
            && self
                .outbound
                .signal(&self.in_use.snapshot, &mut self.context, peer, signal)
        {
            self.signals.pop_front();
        }
    }

    fn refuse(&mut self, frame: &[u8], refusal: RouteRefusal) {
        let code = match refusal {
            RouteRefusal::Prohibited => icmp::Unreachable::Prohibited,
            RouteRefusal::Unreachable => icmp::Unreachable::Host,
        };
        let packet = frame.get(VNET_HEADER_LEN..).unwrap_or_default();
        self.context
            .counters
            .count_drop(Dropped::NoPeer, packets_in(frame));
        self.context
            .reply(|out| icmp::unreachable(packet, code, out));
    }

    /// Carries in one budget from each socket, and before each of several runs what has priority.
    fn receive(&mut self) -> Result<(), Ended> {
        self.forward_priority()?;
        for lane in Lane::BULK {
            let runs = self.fetch(lane);
            for run in 0..runs {
                // To receive a single one takes no time in which something with priority would have to wait.
                if runs > 1 {
                    self.poll_priority()?;
                }
                self.forward_in(lane, run)?;
            }
        }
        // The host may have answered by now, such as an echo.
        self.forward_priority_out()
    }

    /// Receives from a lane. Returns the number of runs.
    fn fetch(&mut self, lane: Lane) -> usize {
        if !self.ready[lane as usize] {
            return 0;
        }
        let (runs, may_have_more) = match self.inbound.fetch(lane, &mut self.context.shell) {
            Receive::NoSocket => (0, false),
            Receive::Runs {
                runs,
                may_have_more,
            } => {
                if runs > 0 || !may_have_more {
                    self.receive_failures[lane as usize] = 0;
                }
                (runs, may_have_more)
            }
            Receive::Failed => {
                // No event will tell of datagrams that are there already.
                self.context.counters.udp_receive_failures.add(1);
                let failures = &mut self.receive_failures[lane as usize];
                *failures += 1;
                let tries_again = *failures < MAX_RECEIVE_FAILURES;
                if !tries_again {
                    *failures = 0;
                }
                (0, tries_again)
            }
        };
        self.ready[lane as usize] = may_have_more;
        if runs > 0 {
            self.context.counters.udp_receives.add(1);
            self.context.note_answer(Side::Outside);
        }
        runs
    }

    fn forward_in(&mut self, lane: Lane, run: usize) -> Result<(), Ended> {
        self.inbound
            .forward(lane, run, &mut self.in_use, &mut self.context);
        self.adopt()
    }

    /// Looks for what has priority, and carries it, in the middle of a turn.
    fn poll_priority(&mut self) -> Result<(), Ended> {
        if !self.context.mechanisms.has(Mechanism::Priority) {
            return Ok(());
        }
        if !self.queues.are_counted() {
            let mut ready = Ready::default();
            self.context.shell.look(&mut ready)?;
            self.take_ready(&ready)?;
        }
        self.note_arrivals();
        let received = self.forward_priority()?;
        self.context.counters.mid_turn.add(received);
        Ok(())
    }

    /// Finds out which lanes something with priority has come to. Costs no system call. A counted datagram joins its queue a moment
    /// later, so a lane may be found empty now: the event that follows is taken in before the next turn.
    fn note_arrivals(&mut self) {
        for lane in Lane::PRIORITY {
            if let Some(arrivals) = self.context.shell.arrivals(lane)
                && arrivals != self.arrivals[lane as usize]
            {
                self.arrivals[lane as usize] = arrivals;
                self.ready[lane as usize] = true;
            }
        }
    }

    /// Carries what has priority in both directions. Returns the datagrams that came in.
    fn forward_priority(&mut self) -> Result<u64, Ended> {
        let mut received = 0;
        for lane in Lane::PRIORITY {
            for run in 0..self.fetch(lane) {
                self.forward_in(lane, run)?;
                self.context.expect_answer(Side::Inside);
                received += 1;
            }
        }
        self.forward_priority_out()?;
        Ok(received)
    }

    fn forward_priority_out(&mut self) -> Result<(), Ended> {
        let mut budget = PRIORITY_BUDGET_FRAMES;
        if self.queues.priority_waits() && !self.outbound.is_blocked() {
            self.execute(Scope::Priority, &mut budget)?;
        }
        Ok(())
    }

    /// Carries out one budget, and around the sending of its superframes what has priority.
    fn send(&mut self) -> Result<(), Ended> {
        self.outbound.answer(&mut self.context);
        let mut budget = BUDGET_FRAMES;
        while !self.outbound.is_blocked() {
            let progress = self.execute(Scope::All, &mut budget)?;
            self.has_more = progress != Progress::Idle;
            if progress != Progress::Pause {
                break;
            }
            self.poll_priority()?;
        }
        Ok(())
    }

    fn execute(&mut self, scope: Scope, budget: &mut usize) -> Result<Progress, Ended> {
        let progress = self.outbound.turn(
            &self.in_use.snapshot,
            &mut self.context,
            &mut self.queues,
            scope,
            budget,
        )?;
        if progress == Progress::Blocked && self.outbound.waits_for(Blocked::Socket) {
            let lane = match self.outbound.sends_to_v4() {
                true => Lane::V4,
                false => Lane::V6,
            };
            self.context.shell.watch_for_room(lane, true)?;
        }
        Ok(progress)
    }
}
