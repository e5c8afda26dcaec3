//! The times of rounds of probes.

use culvert_base::BootTime;
use std::time::Duration;

/// The times of the first rounds after there is something to probe.
pub const ROUNDS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(120),
];

/// The rounds of an end that is asked for more by its peer.
const FIRST_ROUNDS: usize = 4;

/// The interval of rounds after the last of [`ROUNDS`].
pub const ROUND_EVERY: Duration = Duration::from_secs(120);

/// The interval of rounds after a direct path was lost.
pub const LOST_EVERY: Duration = Duration::from_secs(1);

/// The time for which they are that close.
pub const LOST_FOR: Duration = Duration::from_secs(30);

/// The time of the next round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Schedule {
    course: Option<Course>,
}

#[derive(Clone, Copy, Debug)]
enum Course {
    /// After new candidates: the number of the next round.
    Search {
        begun: BootTime,
        round: usize,
        goes_on: bool,
    },
    /// After the loss of a direct path.
    Lost { begun: BootTime, next: BootTime },
    /// From time to time.
    Rarely { next: BootTime },
}

impl Schedule {
    /// Begins with the first round. `goes_on` is true for the end that looks for a path as long as there is none.
    pub(super) const fn begin(&mut self, now: BootTime, goes_on: bool) {
        self.course = Some(Course::Search {
            begun: now,
            round: 0,
            goes_on,
        });
    }

    /// A direct path was lost.
    pub(super) const fn lost(&mut self, now: BootTime) {
        self.course = Some(Course::Lost {
            begun: now,
            next: now,
        });
    }

    pub(super) const fn stop(&mut self) {
        self.course = None;
    }

    pub(super) const fn is_running(&self) -> bool {
        self.course.is_some()
    }

    pub(super) fn next(&self) -> Option<BootTime> {
        Some(match self.course? {
            Course::Search { begun, round, .. } => begun.saturating_add(ROUNDS[round]),
            Course::Lost { next, .. } | Course::Rarely { next } => next,
        })
    }

    /// True if a round is due, and sets the time of the next.
    pub(super) fn take_due(&mut self, now: BootTime) -> bool {
        if self.next().is_none_or(|next| next > now) {
            return false;
        }
        let rarely = || Course::Rarely {
            next: now.saturating_add(ROUND_EVERY),
        };
        self.course = match self.course {
            Some(Course::Search {
                begun,
                round,
                goes_on,
            }) => match round + 1 {
                next if next < FIRST_ROUNDS || (goes_on && next < ROUNDS.len()) => {
                    Some(Course::Search {
                        begun,
                        round: next,
                        goes_on,
                    })
                }
                _ => goes_on.then(rarely),
            },
            Some(Course::Lost { begun, .. }) if !now.has_passed(begun, LOST_FOR) => {
                Some(Course::Lost {
                    begun,
                    next: now.saturating_add(LOST_EVERY),
                })
            }
            Some(Course::Lost { .. } | Course::Rarely { .. }) => Some(rarely()),
            None => None,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of the rounds within ten minutes, in milliseconds since the start.
    fn rounds(mut schedule: Schedule, start: BootTime) -> Vec<u64> {
        let mut rounds = Vec::new();
        while let Some(next) = schedule.next() {
            let since = next.saturating_since(start);
            if since > Duration::from_secs(600) {
                break;
            }
            assert!(schedule.take_due(next));
            rounds.push(u64::try_from(since.as_millis()).unwrap());
        }
        rounds
    }

    const START: BootTime = BootTime::from_nanos(1_000_000_000_000);

    #[test]
    fn a_search_begins_often_and_goes_on_rarely() {
        let mut schedule = Schedule::default();
        schedule.begin(START, true);
        let first = [0, 200, 1_000, 5_000, 30_000, 120_000];
        let then = [240_000, 360_000, 480_000, 600_000];
        assert_eq!(rounds(schedule, START), [first.as_slice(), &then].concat());
        schedule.begin(START, false);
        assert_eq!(rounds(schedule, START), first[..4]);
    }

    #[test]
    fn a_lost_path_is_looked_for_every_second_and_then_rarely() {
        let mut schedule = Schedule::default();
        schedule.lost(START);
        let rounds = rounds(schedule, START);
        let often: Vec<u64> = (0..=30).map(|second| second * 1_000).collect();
        assert_eq!(rounds[..31], often);
        assert_eq!(rounds[31..], [150_000, 270_000, 390_000, 510_000]);
    }

    #[test]
    fn a_late_look_makes_one_round_and_not_all_that_were_missed() {
        let mut schedule = Schedule::default();
        schedule.lost(START);
        let late = START.saturating_add(Duration::from_secs(10));
        assert!(schedule.take_due(late));
        assert!(!schedule.take_due(late));
    }
}
