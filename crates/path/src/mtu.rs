//! The largest packet that a path carries, found by probing (RFC 8899, "Packetization Layer Path MTU Discovery for
//! Datagram Transports").
//!
//! ICMP tells of a narrow link only where nobody filters it. A probe is a record of a given length that the peer
//! answers, so an answer proves the length. A *search* begins with the first full-size packet that leaves by a path:
//!
//! | round | asked for | then |
//! |---|---|---|
//! | first | the length in use and the floor | the length in use answered: done; the floor alone: the next round; neither: again, up to [`ATTEMPTS`] times |
//! | ladder | up to [`PROBES_PER_ROUND`] lengths between the largest that passed and the smallest that did not | asked for twice; repeated between the two neighbours until they are one [`STEP`] apart |
//!
//! The length in use is the full one until a search has found less. It is checked by another search [`CHECK_EVERY`] after
//! the last one, while full-size packets leave.
//!
//! A peer that answers nothing is another implementation of WireGuard, or away: nothing is concluded about its path.
//!
//! Lengths are of inner packets, in bytes. There is no clock and no I/O in here. Events and time go in through
//! `handle_*`; then send what [`MtuSearch::poll_probe`] returns, and call [`MtuSearch::handle_timeout`] at
//! [`MtuSearch::poll_timeout`].

use culvert_base::BootTime;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Between two lengths that a search tells apart: records are padded to it.
pub const STEP: u16 = 16;

/// Probes of one round: with steps of [`STEP`], one ladder covers all paths from 1,280 to 1,500 bytes, and three the
/// largest length there is. 16 full-size packets are a burst that the smallest buffers of routers take.
pub const PROBES_PER_ROUND: usize = 16;

/// Ladders of one search: three find any length where nothing is lost by chance, and as many again make up for loss. The
/// largest length that passed by then is used.
pub const LADDERS_MAX: u8 = 6;

/// The number of times that the first round is tried before silence means something: with 1 % loss, one in a million
/// searches is wrong.
pub const ATTEMPTS: u8 = 3;

/// The time that a length that was answered is relied on while full-size packets leave. A path that becomes narrower is
/// noticed before TCP repeats a segment for the fourth time, after three seconds. Two probes in that time are 11
/// kbit/s.
pub const CHECK_EVERY: Duration = Duration::from_secs(2);

/// The time that a length below the full one is relied on before the full one is tried again (RFC 8899 section
/// 5.1.1, `PMTU_RAISE_TIMER`).
pub const RAISE_AFTER: Duration = Duration::from_secs(600);

/// The time after which a peer that answered nothing is asked again: its keys live that long, and another program may
/// run there then.
pub const ASK_SILENT_AFTER: Duration = Duration::from_secs(120);

/// The least and the most that an answer is waited for. The least covers a control thread that is late; the most is
/// the longest round trip in use.
const WAIT_MIN: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The time to wait for the first answer while the round trip is unknown.
const WAIT_UNKNOWN: Duration = Duration::from_millis(300);

/// The lengths between which a path is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Taken to pass by every path that carries anything.
    pub floor: u16,
    /// The longest packet that is ever sent.
    pub ceiling: u16,
}

/// A packet to be sent as a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Of the search, so that an answer to an earlier one proves nothing.
    pub generation: u16,
    /// Of the packet, in bytes.
    pub len: u16,
}

/// The search on the path to one peer.
#[derive(Clone, Debug, Default)]
pub struct MtuSearch {
    /// The path that all of this is about.
    path: Option<Path>,
    generation: u16,
    state: State,
    /// The peer has answered a probe, by whatever path.
    answers: bool,
    /// Ladders of the search that is under way.
    ladders: u8,
    /// A probe of the longest packet that is sent was answered.
    is_measured: bool,
    /// The longest packet known to pass, where that is less than the ceiling.
    passes: Option<u16>,
    /// The time of the last probe of the full length; `None` where one is due.
    full_asked_at: Option<BootTime>,
    probes: VecDeque<Probe>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Path {
    to: SocketAddr,
    limits: Limits,
}

#[derive(Clone, Debug, Default)]
enum State {
    /// Nothing is asked until a full-size packet leaves.
    #[default]
    Idle,
    Asking(Round),
    /// An answer, or the lack of one, is relied on until then.
    Resting {
        until: BootTime,
    },
}

#[derive(Clone, Debug)]
struct Round {
    kind: Kind,
    /// In descending order: of two that leave together the longer one arrives first, so an answer to the shorter one
    /// alone says something.
    lens: Vec<u16>,
    /// The longest that was answered.
    answered: Option<u16>,
    attempt: u8,
    asked_at: BootTime,
    until: BootTime,
    wait: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    First,
    /// `low` passes, the longest of the lengths did not yet.
    Ladder {
        low: u16,
    },
}

impl MtuSearch {
    /// The longest packet that passes the path, where that is less than the ceiling.
    pub fn passes(&self) -> Option<u16> {
        self.passes
    }

    /// The longest packet that a probe proved to pass, once the search has ended.
    pub fn measured(&self) -> Option<u16> {
        let ceiling = self.path?.limits.ceiling;
        self.is_measured.then_some(self.passes.unwrap_or(ceiling))
    }

    /// The host's network changed, so packets to the same address may take another path.
    ///
    /// The length in use stays until the next full-size packet has the path measured: most changes, such as an address
    /// of another interface, leave the path alone, and traffic must not stop for them.
    pub fn measure_again(&mut self) {
        self.state = State::Idle;
        self.probes.clear();
        self.full_asked_at = None;
    }

    /// Forgets the path: it is another one.
    fn forget(&mut self) {
        *self = Self {
            generation: self.generation,
            answers: self.answers,
            ..Self::default()
        };
    }

    /// A packet of full size left for `to`. `round_trip` is that of the path, where it is known.
    pub fn handle_full_size(
        &mut self,
        to: SocketAddr,
        limits: Limits,
        round_trip: Option<Duration>,
        now: BootTime,
    ) {
        let path = Path { to, limits };
        if self.path != Some(path) {
            self.forget();
            self.path = Some(path);
        }
        if limits.ceiling <= limits.floor || !matches!(self.state, State::Idle) {
            return;
        }
        let wait = round_trip.map_or(WAIT_UNKNOWN, |round_trip| {
            (round_trip * 2).clamp(WAIT_UNKNOWN, WAIT_MAX)
        });
        let is_raise_due = self
            .full_asked_at
            .is_none_or(|at| now.saturating_since(at) >= RAISE_AFTER);
        let target = match self.passes {
            Some(len) if !is_raise_due => len,
            _ => limits.ceiling,
        };
        self.ask(Kind::First, vec![target, limits.floor], wait, now);
    }

    /// The peer got the probe of `len` bytes of search `generation`.
    pub fn handle_answer(&mut self, generation: u16, len: u16, now: BootTime) {
        let Some(path) = self.path else { return };
        let State::Asking(round) = &mut self.state else {
            return;
        };
        if generation != self.generation || !round.lens.contains(&len) {
            return;
        }
        self.answers = true;
        round.answered = round.answered.max(Some(len));
        if len == path.limits.ceiling {
            self.passes = None;
            self.is_measured = true;
            self.rest(CHECK_EVERY, now);
        } else if round.kind == Kind::First && round.lens.first() == Some(&len) {
            self.rest(CHECK_EVERY, now);
        } else {
            // The others left at the same time: they have as long again.
            let took = now.saturating_since(round.asked_at);
            round.wait = (took * 2).clamp(WAIT_MIN, WAIT_MAX);
            round.until = round.until.min(now.saturating_add(round.wait));
        }
    }

    /// Time passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        match &self.state {
            State::Asking(round) if now >= round.until => {
                let round = round.clone();
                self.conclude(round, now);
            }
            State::Resting { until } if now >= *until => self.state = State::Idle,
            _ => {}
        }
    }

    /// The time at which [`Self::handle_timeout`] is due; `None` if no search is under way.
    pub fn poll_timeout(&self) -> Option<BootTime> {
        match &self.state {
            State::Idle => None,
            State::Asking(round) => Some(round.until),
            State::Resting { until } => Some(*until),
        }
    }

    /// A probe to be sent now.
    pub fn poll_probe(&mut self) -> Option<Probe> {
        self.probes.pop_front()
    }

    /// The time for answers to `round` is over.
    fn conclude(&mut self, round: Round, now: BootTime) {
        let Some(Path { limits, .. }) = self.path else {
            return;
        };
        let again = round.attempt + 1;
        match (round.kind, round.answered) {
            (Kind::First, Some(low)) => {
                let target = round.lens.first().copied().unwrap_or(limits.ceiling);
                let lens = ladder(low, target);
                self.ask(Kind::Ladder { low }, lens, round.wait, now);
            }
            (Kind::First, None) if again < ATTEMPTS => {
                self.ask_again(
                    Round {
                        attempt: again,
                        wait: round.wait * 2,
                        ..round
                    },
                    now,
                );
            }
            // Nothing is known, so nothing changes.
            (Kind::First, None) if self.answers => self.rest(CHECK_EVERY, now),
            (Kind::First, None) => self.rest(ASK_SILENT_AFTER, now),
            (Kind::Ladder { low }, answered) => {
                let low = answered.map_or(low, |len| len.max(low));
                let unanswered = round.lens.iter().copied().filter(|&len| len > low);
                let lens: Vec<u16> = unanswered.collect();
                match lens.last().copied() {
                    // Of those that were lost by chance, most pass now.
                    Some(_) if again == 1 => {
                        let kind = Kind::Ladder { low };
                        self.ask_again(
                            Round {
                                kind,
                                lens,
                                attempt: again,
                                ..round
                            },
                            now,
                        );
                    }
                    next if self.ladders == LADDERS_MAX
                        || next.is_some_and(|next| next - low <= STEP) =>
                    {
                        self.passes = Some(low);
                        self.is_measured = true;
                        self.rest(CHECK_EVERY, now);
                    }
                    next => {
                        let lens = ladder(low, next.unwrap_or(limits.ceiling));
                        self.ask(Kind::Ladder { low }, lens, round.wait, now);
                    }
                }
            }
        }
    }

    fn ask(&mut self, kind: Kind, lens: Vec<u16>, wait: Duration, now: BootTime) {
        match kind {
            Kind::First => self.ladders = 0,
            Kind::Ladder { .. } => self.ladders += 1,
        }
        if self
            .path
            .is_some_and(|path| lens.contains(&path.limits.ceiling))
        {
            self.full_asked_at = Some(now);
        }
        self.generation = self.generation.wrapping_add(1);
        self.ask_again(
            Round {
                kind,
                lens,
                answered: None,
                attempt: 0,
                asked_at: now,
                until: now,
                wait,
            },
            now,
        );
    }

    fn ask_again(&mut self, round: Round, now: BootTime) {
        let wait = round.wait.min(WAIT_MAX);
        let generation = self.generation;
        self.probes = round
            .lens
            .iter()
            .map(|&len| Probe { generation, len })
            .collect();
        self.state = State::Asking(Round {
            asked_at: now,
            until: now.saturating_add(wait),
            wait,
            ..round
        });
    }

    fn rest(&mut self, duration: Duration, now: BootTime) {
        self.probes.clear();
        self.state = State::Resting {
            until: now.saturating_add(duration),
        };
    }
}

/// Lengths above `low` up to `high`, at most [`PROBES_PER_ROUND`], whole steps apart, in descending order.
fn ladder(low: u16, high: u16) -> Vec<u16> {
    let steps = (high - low).div_ceil(STEP);
    let rungs = u16::try_from(PROBES_PER_ROUND - 1).unwrap_or(u16::MAX);
    let stride = steps.div_ceil(rungs + 1).max(1) * STEP;
    let below = (1..=rungs)
        .map_while(|rung| low.checked_add(rung.checked_mul(stride)?))
        .take_while(|&len| len < high);
    let mut lens: Vec<u16> = below.collect();
    lens.push(high);
    lens.reverse();
    lens
}

#[cfg(test)]
mod tests;
