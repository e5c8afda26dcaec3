//! The decisions when a handshake is raced over all paths, and when a peer is dead.

use crate::candidates::{Candidate, Candidates, Kind, RelayPath, TARGETS_MAX};
use crate::guard::{CandidateRefusal, Guard};
use culvert_base::BootTime;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// The time that one may send without hearing anything before the path is suspected. A peer that gets
/// data answers within a round trip (TCP), and within a second at most (delayed ACKs, DNS, ping). So does
/// a gateway that has nothing to send back: it sends a keepalive (`PROMPT_KEEPALIVE_TIMEOUT` in
/// `session`). This is twice that second.
pub const LISTEN: Duration = Duration::from_secs(2);

/// The time that a suspected peer has to answer a handshake: the longest round trip in use (1 s by
/// satellite, under load), once for each of two attempts. With [`LISTEN`] and twice [`LATE_MAX`]
/// that is 5 s, in which traffic is to flow over another gateway.
pub const ANSWER: Duration = Duration::from_secs(2);

/// The time after which an unanswered initiation is followed by another, because one lost datagram
/// does not make a peer dead. It is half of [`ANSWER`], plus the delay that a control thread may
/// have. So it is more than the second that `session` leaves between two initiations to one peer
/// (`RECHECK_INTERVAL`).
pub const SECOND_ATTEMPT: Duration = Duration::from_millis(1100);

/// A deadline that is noticed later than this says nothing about the peer: the machine slept, or had
/// no time to look whether something came. The peer gets its [`ANSWER`] once more.
pub const LATE_MAX: Duration = Duration::from_millis(500);

/// An effect, to be carried out in the order in which [`Race::poll_output`] returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// [`Race::targets`] are others now: initiations go to them from here on, those too that begin
    /// of themselves.
    TargetsChanged,
    /// Begin a handshake at once, however fresh the keys are. Its initiation goes to
    /// [`Race::targets`].
    BeginHandshake,
    /// The peer does not answer. Said once, until it is heard again, has a new
    /// candidate, or the network changes.
    Dead,
}

/// The paths of one peer.
#[derive(Clone, Debug)]
pub struct Race {
    candidates: Candidates,
    /// The address at which the peer last proved to be.
    current: Option<SocketAddr>,
    running: Option<Running>,
    /// From the first packet that was sent after the peer was last heard.
    silence: Option<Silence>,
    last_received: Option<BootTime>,
    last_sent: Option<BootTime>,
    reported: Vec<SocketAddr>,
    /// At most one of each kind, in the order of events.
    outputs: VecDeque<Output>,
}

/// A race that is not decided.
#[derive(Clone, Copy, Debug)]
struct Running {
    begun_at: BootTime,
    /// The time at which the second attempt is due; `None` once it was made.
    second_at: Option<BootTime>,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The first packet, or silence: any authentic packet ends it.
    Silence,
    /// A change of the network. Received packets may still come from before the change, so only a
    /// handshake ends it.
    Network,
}

#[derive(Clone, Copy, Debug)]
struct Silence {
    since: BootTime,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// It may answer yet; from `until` on the path is suspected.
    Listening { until: BootTime },
    /// A race was begun for it.
    Rechecking { dead_at: BootTime, was_late: bool },
    /// It was said to be dead.
    Dead,
}

impl Race {
    /// A peer of whom nothing is known yet.
    pub fn new(guard: Guard) -> Self {
        Self {
            candidates: Candidates::new(guard),
            current: None,
            running: None,
            silence: None,
            last_received: None,
            last_sent: None,
            reported: Vec::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Adds a candidate.
    ///
    /// # Errors
    ///
    /// The reason why it is no candidate.
    pub fn learn(&mut self, address: SocketAddr, kind: Kind) -> Result<(), CandidateRefusal> {
        if self.candidates.learn(address, kind)? {
            self.revive();
        }
        self.report_targets();
        Ok(())
    }

    /// Replaces all candidates of one kind, as they are announced. The path in use stays. Returns
    /// what is not taken, and why.
    pub fn replace(
        &mut self,
        kind: Kind,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Vec<(SocketAddr, CandidateRefusal)> {
        let known: Vec<_> = self.addresses().collect();
        let refused = self.candidates.replace(kind, addresses);
        if self.addresses().any(|address| !known.contains(&address)) {
            self.revive();
        }
        self.report_targets();
        refused
    }

    /// The tunnel's ranges changed: what is inside them is no candidate any more, and no path.
    pub fn set_guard(&mut self, guard: Guard) {
        self.candidates.set_guard(guard);
        let candidates = &self.candidates;
        self.current = self.current.filter(|it| candidates.admit(*it).is_ok());
        self.report_targets();
    }

    /// A handshake with the peer was completed, and it came from `address`: the race is decided, and
    /// this is the path.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be the path. The path does not change, and the race is not decided:
    /// packets that come out of the tunnel show no path to the peer, whoever sent them.
    pub fn handle_confirmed(
        &mut self,
        address: SocketAddr,
        now: BootTime,
    ) -> Result<(), CandidateRefusal> {
        self.handle_roamed(address, now)?;
        self.running = None;
        self.report_targets();
        Ok(())
    }

    /// An authentic packet came from `address`, which is where the peer is now.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be. The path does not change.
    pub fn handle_roamed(
        &mut self,
        address: SocketAddr,
        now: BootTime,
    ) -> Result<(), CandidateRefusal> {
        let address = self.candidates.admit(address)?;
        if self.candidates.kind_of(address).is_none() {
            // With as many announced ones as there may be it is a path all the same.
            let _ = self.candidates.learn(address, Kind::Observed);
        }
        self.current = Some(address);
        self.handle_received(now);
        self.report_targets();
        Ok(())
    }

    /// An authentic packet of the peer arrived at `at`.
    pub fn handle_received(&mut self, at: BootTime) {
        self.last_received = self.last_received.max(Some(at));
        if self.silence.is_some_and(|silence| silence.since <= at) {
            self.revive();
            self.silence = None;
        }
        if let Some(running) = self.running
            && running.cause == Cause::Silence
            && running.begun_at <= at
        {
            self.running = None;
            self.report_targets();
        }
        // Packets that were sent since are not answered by this.
        if let Some(sent) = self.last_sent.filter(|sent| *sent > at) {
            self.handle_sent(sent);
        }
    }

    /// A packet was sent to the peer at `at`, or waits until it can be.
    pub fn handle_sent(&mut self, at: BootTime) {
        self.last_sent = self.last_sent.max(Some(at));
        let is_answered = self.last_received.is_some_and(|received| at <= received);
        if is_answered || self.silence.is_some() {
            return;
        }
        if self.current.is_some() {
            let stage = Stage::Listening {
                until: at.saturating_add(LISTEN),
            };
            self.silence = Some(Silence { since: at, stage });
            return;
        }
        self.connect(Cause::Silence, at);
    }

    /// The host's network changed: the path that was best need not exist any more, and silence up to
    /// now was perhaps not the peer's.
    pub fn handle_network_changed(&mut self, now: BootTime) {
        match self.silence {
            Some(_) => self.connect(Cause::Network, now),
            None if self.current.is_some() => self.begin(Cause::Network, now),
            None => {}
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        if let Some(running) = &mut self.running
            && running.second_at.is_some_and(|at| at <= now)
        {
            running.second_at = None;
            self.report_targets();
            self.push(Output::BeginHandshake);
        }
        let Some(silence) = self.silence else {
            return;
        };
        match silence.stage {
            Stage::Listening { until } if until <= now => self.recheck(silence, now, false),
            Stage::Rechecking { dead_at, was_late } if dead_at <= now => {
                if now.saturating_since(dead_at) > LATE_MAX && !was_late {
                    self.recheck(silence, now, true);
                } else {
                    self.die(silence);
                }
            }
            Stage::Listening { .. } | Stage::Rechecking { .. } | Stage::Dead => {}
        }
    }

    /// The time at which [`Race::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<BootTime> {
        let second_at = self.running.and_then(|running| running.second_at);
        let stage_ends = match self.silence.map(|silence| silence.stage) {
            Some(Stage::Listening { until }) => Some(until),
            Some(Stage::Rechecking { dead_at, .. }) => Some(dead_at),
            Some(Stage::Dead) | None => None,
        };
        second_at.into_iter().chain(stage_ends).min()
    }

    /// Returns the next output, if there is one.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The destinations of a handshake initiation: the path in use, all relays, and all direct candidates. At most
    /// [`TARGETS_MAX`], the path in use and the relays among them.
    ///
    /// Relays take part at once, so that nothing waits for a direct path that may not exist. The first answer
    /// wins, and probes take a direct path afterwards.
    pub fn targets(&self) -> Vec<SocketAddr> {
        let candidates = self.candidates.as_slice();
        let is_relay = |candidate: &&Candidate| candidate.kind.relay().is_some();
        let relays = candidates.iter().filter(is_relay);
        let directs = candidates.iter().filter(|it| !is_relay(it));
        let mut targets = Vec::with_capacity(TARGETS_MAX + 1);
        targets.extend(self.current);
        targets.extend(
            relays
                .chain(directs)
                .map(|it| it.address)
                .filter(|address| Some(*address) != self.current),
        );
        targets.truncate(TARGETS_MAX);
        targets
    }

    /// Replaces all relays, in the order of their use. The path in use stays.
    pub fn replace_relays(&mut self, relays: &[RelayPath]) {
        let known: Vec<_> = self.addresses().collect();
        self.candidates.replace_relays(relays.iter().copied());
        if self.addresses().any(|address| !known.contains(&address)) {
            self.revive();
        }
        self.report_targets();
    }

    /// The address at which the peer last proved to be, and its origin.
    pub fn current(&self) -> Option<(SocketAddr, Kind)> {
        let address = self.current?;
        let kind = self.candidates.kind_of(address);
        Some((address, kind.unwrap_or(Kind::Observed)))
    }

    /// All candidates, what matters most first.
    pub fn candidates(&self) -> &[Candidate] {
        self.candidates.as_slice()
    }

    /// The time since which packets were sent without anything heard.
    pub fn silent_since(&self) -> Option<BootTime> {
        self.silence.map(|silence| silence.since)
    }

    /// True if the peer was said to be dead, and was not heard since.
    pub fn is_dead(&self) -> bool {
        matches!(
            self.silence,
            Some(Silence {
                stage: Stage::Dead,
                ..
            })
        )
    }

    /// A race over a path of which nothing is known. If there is nobody to ask, nobody answers.
    fn connect(&mut self, cause: Cause, since: BootTime) {
        let stage = Stage::Rechecking {
            dead_at: since.saturating_add(LISTEN).saturating_add(ANSWER),
            was_late: false,
        };
        let silence = Silence { since, stage };
        self.silence = Some(silence);
        if self.targets().is_empty() {
            self.die(silence);
        } else {
            self.begin(cause, since);
        }
    }

    /// There is reason to believe that the peer is not dead: what it is sent counts again.
    fn revive(&mut self) {
        if self.is_dead() {
            self.silence = None;
            self.outputs.retain(|output| *output != Output::Dead);
        }
    }

    fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.candidates.as_slice().iter().map(|it| it.address)
    }

    /// The peer should have been heard: a race decides.
    fn recheck(&mut self, silence: Silence, now: BootTime, was_late: bool) {
        let stage = Stage::Rechecking {
            dead_at: now.saturating_add(ANSWER),
            was_late,
        };
        self.silence = Some(Silence { stage, ..silence });
        self.begin(Cause::Silence, now);
    }

    fn die(&mut self, silence: Silence) {
        self.silence = Some(Silence {
            stage: Stage::Dead,
            ..silence
        });
        self.running = None;
        self.report_targets();
        self.push(Output::Dead);
    }

    fn begin(&mut self, cause: Cause, now: BootTime) {
        let cause = match self.running {
            Some(running) if running.cause == Cause::Network => Cause::Network,
            Some(_) | None => cause,
        };
        self.running = Some(Running {
            begun_at: now,
            second_at: Some(now.saturating_add(SECOND_ATTEMPT)),
            cause,
        });
        self.report_targets();
        self.push(Output::BeginHandshake);
    }

    fn report_targets(&mut self) {
        let targets = self.targets();
        if self.reported != targets {
            self.reported = targets;
            self.push(Output::TargetsChanged);
        }
    }

    /// An output that waits already is not said twice, so no more than one of each kind waits.
    fn push(&mut self, output: Output) {
        if !self.outputs.contains(&output) {
            self.outputs.push_back(output);
        }
    }
}
