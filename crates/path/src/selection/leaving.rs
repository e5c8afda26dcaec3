//! A path in use that may be dead: it is probed, and left if another one answers and it does not.

use super::probing::Proof;
use super::suspicion::{Cause, Suspicion};
use super::{LEAVE_AFTER, PROBE_AGAIN, SILENCE, Selection, SelectionOutput};
use culvert_base::BootTime;
use culvert_relay_core::probe::PairEnd;
use std::net::SocketAddr;
use std::time::Duration;

/// The longest time that a probe of the path in use may take: two of the longest round trips in use (satellites).
const LONGEST_ANSWER: Duration = Duration::from_secs(2);

/// A path is suspected for this long at most; then other rules look for another one.
const SUSPICION_MAX: Duration = Duration::from_secs(60);

/// All paths are probed at the shortest interval for this long: an end whose network begins to block UDP is reached by TLS
/// after 2 to 3 s.
const QUICK_FOR: Duration = Duration::from_secs(4);

/// The least time between two records that only show the peer where this end is.
const REMIND_EVERY: Duration = Duration::from_secs(1);

impl Selection {
    /// The peer sends to where this end was before: a record shows it where this end is.
    pub(super) fn remind(&mut self, current: SocketAddr, now: BootTime) {
        if now.has_passed(self.reminded, REMIND_EVERY) {
            self.reminded = now;
            self.outputs.push_back(SelectionOutput::Use(current));
        }
    }

    /// Takes another path if the one in use had time to answer and another has answered.
    pub(super) fn check_suspicion(&mut self, now: BootTime) {
        let Some(mut suspicion) = self.suspicion else {
            return;
        };
        if suspicion.until.take_if(|until| *until <= now).is_some() {
            suspicion.again = now;
        }
        self.suspicion = Some(suspicion);
        if suspicion.until.is_none() {
            // Probes may be lost where records are not.
            let is_answered = suspicion.cause == Cause::Silence && self.unanswered.is_none();
            if is_answered || now.has_passed(suspicion.since, SUSPICION_MAX) {
                self.suspicion = None;
                self.silence_from = now;
                return;
            }
            if let Some(other) = self.best_since(suspicion.since) {
                return self.take(other, now);
            }
        }
        if suspicion.again <= now {
            let so_far = now.saturating_since(suspicion.since);
            let pause = match suspicion.until {
                Some(until) => pause_before(until, now),
                None if so_far < QUICK_FOR => SILENCE,
                // The longer it takes the less it matters when it ends.
                None => so_far / 2,
            };
            suspicion.again = now.saturating_add(pause);
            self.suspicion = Some(suspicion);
            match suspicion.until {
                Some(_) => self.probe_in_use(now),
                None => self.probe_all(now),
            }
        }
    }

    /// The best other path that was proven since: a direct one before relays, UDP before TLS, a short one before a long one.
    fn best_since(&self, since: BootTime) -> Option<SocketAddr> {
        let proven = self.probing.proofs().filter(|proof| proof.at >= since);
        let others = proven.filter(|proof| Some(proof.address) != self.current);
        let known = others.filter(|proof| {
            self.candidates.kind_of(proof.address).is_some() && self.may_use(proof.address)
        });
        let rank = |proof: &&Proof| (self.rank(proof.address), proof.round_trip);
        known.min_by_key(rank).map(|proof| proof.address)
    }

    /// The path in use may be dead since `since`.
    pub(super) fn suspect(&mut self, cause: Cause, since: BootTime, now: BootTime) {
        if self.end == PairEnd::Gateway {
            return;
        }
        let known = self.current.and_then(|it| self.probing.proof(it));
        let round_trips = known.map_or(Duration::ZERO, |proof| 2 * proof.round_trip);
        let answer = round_trips.clamp(LEAVE_AFTER - SILENCE, LONGEST_ANSWER);
        let begun = now.max(since.saturating_add(SILENCE));
        let begun = if cause == Cause::Silence { begun } else { now };
        let until = begun.saturating_add(answer);
        self.suspicion = Some(Suspicion {
            cause,
            since: now,
            until: Some(until),
            again: now.saturating_add(pause_before(until, now)),
        });
        self.outputs.push_back(SelectionOutput::CheckRelays);
        match cause {
            // A peer that has nothing to send back is silent for longer, again and again.
            Cause::Silence => self.probe_in_use(now),
            Cause::HeardElsewhere | Cause::Network => self.probe_all(now),
        }
    }

    /// Probes the path in use, and the relays.
    fn probe_in_use(&mut self, now: BootTime) {
        let current = self.current.filter(|it| !self.usable.contains(it));
        for address in current.into_iter().chain(self.usable.clone()) {
            self.probe(address, now);
        }
    }

    /// The time since which the path in use is silent, as far as that is known.
    pub(super) fn silent_since(&self) -> Option<BootTime> {
        let current = self.current?;
        let proven = self.probing.proof(current).map(|proof| proof.at);
        let answered = proven.unwrap_or(BootTime::ZERO).max(self.silence_from);
        Some(self.unanswered?.max(answered))
    }

    /// The time at which the path in use is suspected.
    pub(super) fn silent_at(&self) -> Option<BootTime> {
        if self.suspicion.is_some() || self.end == PairEnd::Gateway {
            return None;
        }
        Some(self.silent_since()?.saturating_add(SILENCE))
    }
}

/// The pause until the next probe of a path that has to answer by `until`: closer and closer.
fn pause_before(until: BootTime, now: BootTime) -> Duration {
    (until.saturating_since(now) / 2).max(PROBE_AGAIN)
}
