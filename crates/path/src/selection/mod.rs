//! The choice between the paths of a pair, by probes: direct ones, and those through relays.
//!
//! Both ends of the pair have a [`Selection`]. The client's decides, the gateway follows the client's records. A
//! datagram of a [`Selection`] is a probe or the answer to one (`culvert_relay_core::probe`).
//!
//! | | |
//! |---|---|
//! | an authentic probe | it is answered to where it came from, [`ANSWERS_PER_SECOND`] times a second at most |
//! | it came from an unknown address | the address is a candidate, and is probed at once |
//! | an answer from where the probe went | the path is proven in both directions; nothing else proves one |
//! | the path in use is relayed, a direct one is proven | the direct one is used |
//! | the path in use goes through TLS, one by UDP is proven | the one by UDP is used |
//! | the end's registration at the relay in use moves between UDP and TLS | the path moves with it |
//! | data unanswered for [`SILENCE`] | the path in use and the relays are probed; it has until [`LEAVE_AFTER`] to answer |
//! | it does not, another does | the other is used: a direct one first, then the relay with the shortest round trip, then TLS |
//! | nothing answers | all paths are probed, every [`SILENCE`] and then less and less often |
//! | new candidates, another network | rounds of probes at [`ROUNDS`] |
//! | a direct path was lost | a round every [`LOST_EVERY`] for [`LOST_FOR`] |
//!
//! A round opens the NATs on the way, so both ends make theirs at the same time. The client's rounds go through the
//! relays too, and tell the gateway when to make its own.

mod leaving;
mod probing;
mod schedule;
mod suspicion;

use crate::candidates::{Candidate, Candidates, Kind, RelayPath};
use crate::guard::{CandidateRefusal, Guard, canonical};
use culvert_base::{BootTime, Random, TokenBucket, TokenRate};
use culvert_ids::RelayId;
use culvert_relay_core::message::{Message, PROBE_LEN, Tag};
use culvert_relay_core::probe::{AuthenticProbe, PairEnd, PairProbes};
use probing::Probing;
use schedule::Schedule;
pub use schedule::{LOST_EVERY, LOST_FOR, ROUND_EVERY, ROUNDS};
use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use suspicion::{Cause, Suspicion};

/// The time for which data stays unanswered until the path in use is probed. A peer answers within a round trip, or
/// sends a keepalive after 750 ms: one that only receives is probed a few times a second.
pub const SILENCE: Duration = Duration::from_millis(250);

/// The time for which data stays unanswered until the path in use is left: [`SILENCE`], and a round trip of 200 ms.
/// A path whose known round trip is longer than 100 ms has twice that to answer.
///
/// TCP sends again after about 200, 600 and 1,400 ms (RFC 6298 with the kernel's least timeout). The second of these
/// must find the other path, and the peer's next record has to cross it before.
pub const LEAVE_AFTER: Duration = Duration::from_millis(450);

/// The least time between two probes of a path that is suspected. One lost probe is no reason to leave it, so there are
/// three until [`LEAVE_AFTER`].
const PROBE_AGAIN: Duration = Duration::from_millis(60);

/// The interval of probes that keep the NATs on a direct path open. NATs forget a UDP mapping after 30 s in the worst
/// common case (RFC 4787 asks for two minutes).
pub const KEEP_OPEN_EVERY: Duration = Duration::from_secs(20);

/// A path is kept open for this long after the last traffic: the life of a session.
pub const KEEP_OPEN_FOR: Duration = Duration::from_secs(180);

/// The time that the answer to such a probe may take.
const KEEP_OPEN_ANSWER: Duration = Duration::from_secs(1);

/// A direct path that answers probes and not records is not promoted for this long: some firewall knows WireGuard.
const DISTRUST_FOR: Duration = Duration::from_secs(120);

/// Answers to probes, and probes of observed addresses, in a second.
pub const ANSWERS_PER_SECOND: u32 = 64;

const ANSWER_RATE: TokenRate = TokenRate::per_second(ANSWERS_PER_SECOND, ANSWERS_PER_SECOND);

/// The least time between two rounds that the peer's probes through a relay ask for.
///
/// A little less than [`LOST_EVERY`], so that each round of a peer that looks for a lost path is met by one. A client that
/// names others' addresses as its own has no more than that sent to them.
const ASKED_ROUND_EVERY: Duration = Duration::from_millis(900);

/// An effect, to be carried out in the order in which [`Selection::poll_output`] returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SelectionOutput {
    /// Send this probe, or answer to one.
    Send {
        /// The datagram.
        datagram: [u8; PROBE_LEN],
        /// Its destination.
        to: SocketAddr,
    },
    /// Send records there from now on, and one at once, so that the peer follows.
    Use(SocketAddr),
    /// The path in use may be dead: ask the relays whether they live ([`Relays::check`](crate::Relays::check)).
    CheckRelays,
    /// The path is another one now: [`Selection::path`].
    Changed,
}

/// The kinds of paths, the best first. None is left for a better one before that one is proven, and a path through TLS is
/// taken only where none of the others lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Direct,
    Relay,
    Tls,
}

impl Rank {
    fn of(kind: Option<Kind>) -> Self {
        match kind {
            Some(Kind::RelayedTls(_)) => Self::Tls,
            Some(Kind::Relayed(_)) => Self::Relay,
            _ => Self::Direct,
        }
    }
}

/// The path in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectedPath {
    /// The address that records are sent to.
    pub address: SocketAddr,
    /// The relay that it belongs to, if it is one.
    pub relay: Option<RelayId>,
    /// The relay is reached by TLS, since UDP gets no answer.
    pub by_tls: bool,
    /// The round trip that the last probe found.
    pub round_trip: Option<Duration>,
}

/// The paths of one pair, as one of its ends sees them.
pub struct Selection {
    end: PairEnd,
    probes: PairProbes,
    candidates: Candidates,
    /// The address that records are sent to, as far as is known.
    current: Option<SocketAddr>,
    /// The relay that it belongs to, also once the portal names that relay no more.
    current_relay: Option<Kind>,
    /// The relays at which this end is registered.
    usable: Vec<SocketAddr>,
    probing: Probing,
    schedule: Schedule,
    /// The path in use is suspected.
    suspicion: Option<Suspicion>,
    /// The first data since which nothing was heard.
    unanswered: Option<BootTime>,
    /// Silence counts from here at the earliest: the path was taken, or a suspicion ended.
    silence_from: BootTime,
    /// The last packet of the pair in either direction.
    traffic: BootTime,
    /// The time at which the direct path in use was last probed to keep it open, or was taken.
    kept_open: BootTime,
    /// The time at which that probe should have been answered.
    keep_open_answer: Option<BootTime>,
    /// A direct path whose probes are answered, and whose records are not.
    distrusted: Option<(SocketAddr, BootTime)>,
    /// The time at which the peer was last shown where it is reached.
    reminded: BootTime,
    answers: TokenBucket<BootTime>,
    asked_round: Option<BootTime>,
    random: Random,
    outputs: VecDeque<SelectionOutput>,
}

impl Selection {
    /// The paths of a pair of which nothing is known yet. `seed` is random: no two runs of an end have the same.
    pub fn new(probes: PairProbes, end: PairEnd, guard: Guard, seed: u64) -> Self {
        Self {
            end,
            probes,
            candidates: Candidates::new(guard),
            current: None,
            current_relay: None,
            usable: Vec::new(),
            probing: Probing::default(),
            schedule: Schedule::default(),
            suspicion: None,
            unanswered: None,
            silence_from: BootTime::ZERO,
            traffic: BootTime::ZERO,
            kept_open: BootTime::ZERO,
            keep_open_answer: None,
            distrusted: None,
            reminded: BootTime::ZERO,
            answers: TokenBucket::FULL,
            asked_round: None,
            random: Random::new(seed),
            outputs: VecDeque::new(),
        }
    }

    /// The tag of probes for this end.
    pub const fn own_tag(&self) -> Tag {
        self.probes.own_tag()
    }

    /// The addresses at which the peer says that it may be reached. Returns what is not taken, and why.
    pub fn set_candidates(
        &mut self,
        addresses: &[SocketAddr],
        now: BootTime,
    ) -> Vec<(SocketAddr, CandidateRefusal)> {
        let before = self.directs();
        let refused = self
            .candidates
            .replace(Kind::Public, addresses.iter().copied());
        let is_new = |address: &SocketAddr| !before.contains(address);
        if self.directs().iter().any(is_new) {
            self.search(now);
        }
        refused
    }

    /// The relays that lead to the peer, and those of them where this end is registered, which are used. If the one in use
    /// is no longer among those, another path is looked for.
    pub fn set_relays(&mut self, known: &[RelayPath], usable: &[RelayPath], now: BootTime) {
        self.candidates.replace_relays(known.iter().copied());
        let is_known = |address: &SocketAddr| self.is_relay(*address);
        let addresses = usable.iter().map(|path| canonical(path.address));
        let addresses: Vec<SocketAddr> = addresses.filter(is_known).collect();
        let before = std::mem::replace(&mut self.usable, addresses);
        let current_kind = self.current.and_then(|it| self.candidates.kind_of(it));
        let relay_kind = current_kind.filter(|kind| kind.relay().is_some());
        self.current_relay = relay_kind.or(self.current_relay);
        if let Some(moved) = self.moved_registration(usable) {
            return self.take(moved, now);
        }
        let is_gone =
            |address: SocketAddr| before.contains(&address) && !self.usable.contains(&address);
        if self.current.is_some_and(is_gone) && self.suspicion.is_none() {
            self.suspect(Cause::Network, now, now);
        }
        let is_new = |address: &SocketAddr| !before.contains(address);
        if !self.usable.iter().any(is_new) {
            return;
        }
        if !self.is_direct() {
            self.search(now);
        } else if self.suspicion.is_some() {
            // It may be the only path that is left.
            self.probe_all(now);
        }
    }

    /// The address that stands for the relay in use since the registration there moved between UDP and TLS.
    ///
    /// The relay forwards from that address alone now. It has answered there, and its way to the peer is the same.
    fn moved_registration(&self, usable: &[RelayPath]) -> Option<SocketAddr> {
        let current = self.current.filter(|it| !self.usable.contains(it))?;
        let relay = self.current_relay.and_then(Kind::relay)?;
        if self.end == PairEnd::Gateway {
            return None;
        }
        let moved = usable.iter().find(|path| path.relay == relay)?;
        let address = canonical(moved.address);
        (address != current && self.usable.contains(&address)).then_some(address)
    }

    /// The tunnel's ranges changed: nothing inside them is a path.
    pub fn set_guard(&mut self, guard: Guard) {
        self.candidates.set_guard(guard);
    }

    /// A message came from `source`. True if it was a probe, or an answer, of this pair.
    pub fn handle_message(
        &mut self,
        message: &Message<'_>,
        source: SocketAddr,
        now: BootTime,
    ) -> bool {
        let (Some(probe), Ok(source)) = (self.probes.open(message), self.candidates.admit(source))
        else {
            return false;
        };
        match probe {
            AuthenticProbe::Question { nonce } => self.handle_question(nonce, source, now),
            AuthenticProbe::Answer { nonce } => {
                if self.probing.handle_answer(nonce, source, now) {
                    self.handle_proof(source, now);
                }
            }
        }
        true
    }

    /// The data plane sends there: after a handshake, or since the peer's records come from there.
    pub fn handle_endpoint(&mut self, endpoint: SocketAddr, now: BootTime) {
        let endpoint = canonical(endpoint);
        if self.current == Some(endpoint) {
            return;
        }
        if self.candidates.kind_of(endpoint).is_none() {
            let _ = self.candidates.learn(endpoint, Kind::Observed);
        }
        let was_silent = |since: BootTime| now.has_passed(since, LEAVE_AFTER);
        if let Some(left) = self.current.filter(|_| self.is_direct())
            && self.is_relay(endpoint)
            && self.unanswered.is_some_and(was_silent)
        {
            self.distrusted = Some((left, now.saturating_add(DISTRUST_FOR)));
        }
        self.become_current(endpoint, now);
    }

    /// Authentic records come from there, although this end sends elsewhere: the peer may have moved.
    pub fn handle_heard_from(&mut self, source: SocketAddr, now: BootTime) {
        let Ok(source) = self.candidates.admit(source) else {
            return;
        };
        if Some(source) == self.current || self.end == PairEnd::Gateway {
            return;
        }
        if self.candidates.kind_of(source).is_none() {
            let _ = self.candidates.learn(source, Kind::Observed);
        }
        if self.suspicion.is_none() {
            self.suspect(Cause::HeardElsewhere, now, now);
        }
    }

    /// Since when data was sent without anything heard; `None` if everything is answered.
    pub fn handle_unanswered(&mut self, since: Option<BootTime>) {
        self.unanswered = since;
    }

    /// The pair's last packet, in either direction, was at `at`.
    pub fn handle_traffic(&mut self, at: BootTime) {
        self.traffic = self.traffic.max(at);
    }

    /// The host's network is another one: every path is to be proven anew.
    pub fn handle_network_changed(&mut self, now: BootTime) {
        self.probing.forget_proofs();
        self.search(now);
        if self.current.is_some() && self.end == PairEnd::Client {
            self.suspect(Cause::Network, now, now);
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        self.probing.forget_lost(now);
        if self.silent_at().is_some_and(|at| at <= now) {
            let since = self.silent_since().unwrap_or(now);
            self.suspect(Cause::Silence, since, now);
        }
        if self.keep_open_answer.take_if(|at| *at <= now).is_some() && self.suspicion.is_none() {
            self.suspect(Cause::Network, now, now);
        }
        self.check_suspicion(now);
        if self.schedule.take_due(now) {
            self.begin_round(now);
        }
        if self.keep_open_at().is_some_and(|at| at <= now)
            && let Some(current) = self.current
        {
            self.kept_open = now;
            self.keep_open_answer = Some(now.saturating_add(KEEP_OPEN_ANSWER));
            self.probe(current, now);
        }
    }

    /// The time at which [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<BootTime> {
        let suspicion = self.suspicion;
        let parts = [
            self.silent_at(),
            suspicion.map(|suspicion| suspicion.again),
            suspicion.and_then(|suspicion| suspicion.until),
            self.keep_open_answer,
            self.schedule.next(),
            self.keep_open_at(),
        ];
        parts.into_iter().flatten().min()
    }

    /// The time at which the path in use is judged. [`Self::handle_unanswered`] must be told just before, since what it
    /// was told last may have been answered meanwhile.
    pub fn poll_judgement(&self) -> Option<BootTime> {
        let until = self.suspicion.and_then(|suspicion| suspicion.until);
        [self.silent_at(), until].into_iter().flatten().min()
    }

    /// The next output, if there is one.
    pub fn poll_output(&mut self) -> Option<SelectionOutput> {
        self.outputs.pop_front()
    }

    /// The path in use.
    pub fn path(&self) -> Option<SelectedPath> {
        let address = self.current?;
        Some(SelectedPath {
            address,
            relay: self.current_relay.and_then(Kind::relay),
            by_tls: self.current_relay.is_some_and(Kind::by_tls),
            round_trip: self.probing.proof(address).map(|proof| proof.round_trip),
        })
    }

    /// All candidates, what matters most first.
    pub fn candidates(&self) -> &[Candidate] {
        self.candidates.as_slice()
    }
}

impl fmt::Debug for Selection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Selection")
            .field("end", &self.end)
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

impl Selection {
    fn handle_question(&mut self, nonce: [u8; 8], source: SocketAddr, now: BootTime) {
        if self.answers.take(ANSWER_RATE, now).is_err() {
            return;
        }
        self.outputs.push_back(SelectionOutput::Send {
            datagram: self.probes.answer(nonce),
            to: source,
        });
        match self.candidates.kind_of(source) {
            // The peer looks for a path: this end's probes open the NATs for it.
            Some(Kind::Relayed(_) | Kind::RelayedTls(_)) => self.handle_asked_round(now),
            Some(_) => {}
            None => {
                let learned = self.candidates.learn(source, Kind::Observed);
                // One datagram for one: nobody makes this end a flood for another by repeating a probe.
                if learned.is_ok() && self.answers.take(ANSWER_RATE, now).is_ok() {
                    self.probe(source, now);
                }
            }
        }
    }

    /// Makes a round since the peer makes one. The client's rounds have a schedule.
    fn handle_asked_round(&mut self, now: BootTime) {
        let was_lately = |at: BootTime| !now.has_passed(at, ASKED_ROUND_EVERY);
        if self.end == PairEnd::Client || self.asked_round.is_some_and(was_lately) {
            return;
        }
        self.asked_round = Some(now);
        for address in self.directs() {
            self.probe(address, now);
        }
    }

    /// The path to `address` leads there and back.
    fn handle_proof(&mut self, address: SocketAddr, now: BootTime) {
        if self.end == PairEnd::Gateway {
            return;
        }
        if Some(address) == self.current {
            self.keep_open_answer = None;
            let cause = self.suspicion.take().map(|suspicion| suspicion.cause);
            if cause == Some(Cause::HeardElsewhere) {
                self.remind(address, now);
            }
            return;
        }
        let is_distrusted = |(it, until): (SocketAddr, BootTime)| it == address && now < until;
        // Before the first record nothing is known but that a relay is there.
        let in_use = self.current.map_or(Rank::Relay, |_| self.current_rank());
        let is_better = self.rank(address) < in_use && self.may_use(address);
        if is_better && !self.distrusted.is_some_and(is_distrusted) {
            self.take(address, now);
        } else {
            self.check_suspicion(now);
        }
    }

    fn take(&mut self, address: SocketAddr, now: BootTime) {
        self.outputs.push_back(SelectionOutput::Use(address));
        self.become_current(address, now);
    }

    /// The path is another one.
    fn become_current(&mut self, address: SocketAddr, now: BootTime) {
        let was_direct = self.is_direct();
        self.current = Some(address);
        let kind = self.candidates.kind_of(address);
        self.current_relay = kind.filter(|kind| kind.relay().is_some());
        self.suspicion = None;
        self.silence_from = now;
        self.kept_open = now;
        self.keep_open_answer = None;
        match (was_direct, self.is_direct()) {
            (_, true) => self.schedule.stop(),
            (true, false) => self.schedule.lost(now),
            (false, false) if !self.schedule.is_running() => self.search(now),
            (false, false) => {}
        }
        if !self.outputs.contains(&SelectionOutput::Changed) {
            self.outputs.push_back(SelectionOutput::Changed);
        }
    }

    /// Probes begin anew by the schedule.
    fn search(&mut self, now: BootTime) {
        if self.is_direct() && self.suspicion.is_none() && self.end == PairEnd::Client {
            return;
        }
        self.schedule.begin(now, self.end == PairEnd::Client);
    }

    fn begin_round(&mut self, now: BootTime) {
        if self.is_direct() && self.suspicion.is_none() && self.end == PairEnd::Client {
            return self.schedule.stop();
        }
        self.probe_all(now);
    }

    fn probe_all(&mut self, now: BootTime) {
        let mut targets = self.directs();
        // The gateway's probes through a relay would tell the client nothing: it decides by its own.
        if self.end == PairEnd::Client {
            targets.extend(&self.usable);
        }
        if let Some(current) = self.current.filter(|current| !targets.contains(current)) {
            targets.push(current);
        }
        for address in targets {
            self.probe(address, now);
        }
    }

    fn probe(&mut self, to: SocketAddr, now: BootTime) {
        let nonce = self.random.next().to_be_bytes();
        self.probing.sent(nonce, to, now);
        self.outputs.push_back(SelectionOutput::Send {
            datagram: self.probes.question(nonce),
            to,
        });
    }

    /// The time at which the path in use is probed so that it stays open.
    fn keep_open_at(&self) -> Option<BootTime> {
        let at = self.kept_open.saturating_add(KEEP_OPEN_EVERY);
        let is_in_use = at <= self.traffic.saturating_add(KEEP_OPEN_FOR);
        (self.end == PairEnd::Client && self.is_direct() && is_in_use).then_some(at)
    }

    fn rank(&self, address: SocketAddr) -> Rank {
        Rank::of(self.candidates.kind_of(address))
    }

    /// The rank of the path in use, also once the portal names its relay no more.
    fn current_rank(&self) -> Rank {
        Rank::of(self.current_relay)
    }

    /// True for a direct path, and for a relay where this end is registered.
    fn may_use(&self, address: SocketAddr) -> bool {
        !self.is_relay(address) || self.usable.contains(&address)
    }

    fn is_relay(&self, address: SocketAddr) -> bool {
        let kind = self.candidates.kind_of(address);
        kind.is_some_and(|kind| kind.relay().is_some())
    }

    fn is_direct(&self) -> bool {
        self.current.is_some() && self.current_relay.is_none()
    }

    fn directs(&self) -> Vec<SocketAddr> {
        let candidates = self.candidates.as_slice().iter();
        let directs = candidates.filter(|candidate| candidate.kind.relay().is_none());
        directs.map(|candidate| candidate.address).collect()
    }
}
