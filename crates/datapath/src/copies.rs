//! A worker's own look at the clocks: a machine that was restored from a snapshot must not seal a
//! record under the keys of before in the moment that the control thread takes to notice.
//!
//! A turn compares the wall clock with the boot-time clock, and each batch with the turn. That is one
//! reading of a clock for each, 20 ns to 30 ns without a system call, beside the microseconds of a
//! send.

use culvert_base::BootTime;
use culvert_session::{CLOCK_JUMP, ClockOffset, GenerationChange};
use std::time::Duration;

pub(crate) struct CopyWatch {
    /// The wall clock at the beginning of the turn.
    wall: Duration,
    /// The generation of the snapshot whose keys a copy may have, and why.
    found: Option<(u64, GenerationChange)>,
    /// The control thread has not heard of it.
    is_untold: bool,
}

impl CopyWatch {
    pub(crate) fn new(wall: Duration) -> Self {
        Self {
            wall,
            found: None,
            is_untold: false,
        }
    }

    /// A turn begins at `now`, with the keys of snapshot `generation`, made where the wall clock has the
    /// offset `expected`. True if a copy may have those keys.
    pub(crate) fn begin_turn(
        &mut self,
        now: BootTime,
        wall: Duration,
        expected: ClockOffset,
        generation: u64,
        read_again: impl FnOnce() -> ClockOffset,
    ) -> bool {
        self.wall = wall;
        // Read once more where it differs: the control thread may have seen the jump, and the worker
        // may have waited between its two readings.
        let has_jumped = ClockOffset::between(now, self.wall).has_jumped_since(expected)
            && read_again().has_jumped_since(expected);
        self.note(generation, has_jumped.then_some(GenerationChange::ClockSet))
    }

    /// The same in the middle of a turn.
    pub(crate) fn look(&mut self, wall: Duration, generation: u64) -> bool {
        self.note(generation, self.compare(wall))
    }

    /// The news for the control thread.
    pub(crate) fn untold(&self) -> Option<(u64, GenerationChange)> {
        self.found.filter(|_| self.is_untold)
    }

    pub(crate) fn is_told(&mut self) {
        self.is_untold = false;
    }

    /// No turn takes as long as [`CLOCK_JUMP`], and no clock goes back: the clock was set, or the
    /// machine stood still.
    fn compare(&self, wall: Duration) -> Option<GenerationChange> {
        (self.wall.abs_diff(wall) > CLOCK_JUMP).then_some(GenerationChange::StoodStill)
    }

    /// The keys of a snapshot that were found once stay so until there is a newer one.
    fn note(&mut self, generation: u64, change: Option<GenerationChange>) -> bool {
        let is_known = self.found.is_some_and(|(found, _)| found == generation);
        if let Some(change) = change.filter(|_| !is_known) {
            self.found = Some((generation, change));
            self.is_untold = true;
        }
        is_known || change.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: BootTime = BootTime::from_nanos(1_000_000_000_000);
    const WALL: Duration = Duration::from_secs(1_800_000_000);

    fn offset_in(ahead: Duration) -> ClockOffset {
        ClockOffset::between(NOW, WALL + ahead)
    }

    /// A turn of a machine whose clocks agree with each other.
    fn begin_turn(copies: &mut CopyWatch, expected: ClockOffset, generation: u64) -> bool {
        copies.begin_turn(NOW, WALL, expected, generation, || {
            offset_in(Duration::ZERO)
        })
    }

    #[test]
    fn a_turn_with_the_clocks_of_the_snapshot_goes_on() {
        let mut copies = CopyWatch::new(WALL);
        assert!(!begin_turn(&mut copies, offset_in(Duration::ZERO), 1));
        assert!(!copies.look(WALL, 1));
        assert_eq!(copies.untold(), None);
    }

    #[test]
    fn a_worker_that_waited_between_its_two_readings_is_no_copy() {
        let mut copies = CopyWatch::new(WALL);
        let late = WALL + Duration::from_secs(5);
        let expected = offset_in(Duration::ZERO);
        assert!(!copies.begin_turn(NOW, late, expected, 1, || expected));
    }

    #[test]
    fn keys_that_a_copy_may_have_are_told_once_and_not_used_until_there_are_others() {
        let mut copies = CopyWatch::new(WALL);
        let (here, ahead) = (offset_in(Duration::ZERO), offset_in(Duration::from_secs(5)));
        assert!(begin_turn(&mut copies, ahead, 7));
        assert_eq!(copies.untold(), Some((7, GenerationChange::ClockSet)));
        copies.is_told();
        assert!(copies.look(WALL, 7), "however right the clock is");
        assert!(begin_turn(&mut copies, here, 7));
        assert_eq!(copies.untold(), None);
        assert!(!begin_turn(&mut copies, here, 8));
        assert!(!copies.look(WALL, 8));
    }

    #[test]
    fn what_is_found_in_the_middle_of_a_turn_holds_for_the_next() {
        let mut copies = CopyWatch::new(WALL);
        let here = offset_in(Duration::ZERO);
        assert!(!begin_turn(&mut copies, here, 7));
        assert!(copies.look(WALL + Duration::from_secs(60), 7));
        assert_eq!(copies.untold(), Some((7, GenerationChange::StoodStill)));
        assert!(begin_turn(&mut copies, here, 7));
    }

    #[test]
    fn a_turn_that_began_long_before_or_after_is_one_of_a_copy() {
        let copies = CopyWatch::new(WALL);
        let moved = |millis: i64| {
            let at = 1_800_000_000_000_i64 + millis;
            copies.compare(Duration::from_millis(u64::try_from(at).unwrap()))
        };
        assert_eq!(moved(2000), None);
        assert_eq!(moved(-2000), None);
        assert_eq!(moved(2001), Some(GenerationChange::StoodStill));
        assert_eq!(moved(-2001), Some(GenerationChange::StoodStill));
    }
}
