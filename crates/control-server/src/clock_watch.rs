//! Notices that the wall clock was set.

use culvert_base::{BootTime, UnixTime};
use std::time::Duration;

/// The wall clock beside the time since the machine was booted, which nobody sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct ClockWatch {
    wall: UnixTime,
    boot: BootTime,
    /// The difference that counts.
    limit: Duration,
}

impl ClockWatch {
    pub(super) const fn new(limit: Duration, (wall, boot): (UnixTime, BootTime)) -> Self {
        Self { wall, boot, limit }
    }

    /// True if the wall clock was set since the start, or since it last was. Small steps add up.
    pub(super) fn was_set(&mut self, (wall, boot): (UnixTime, BootTime)) -> bool {
        let expected = self.wall.saturating_add(boot.saturating_since(self.boot));
        let was_set = wall.abs_diff(expected) >= self.limit;
        if was_set {
            (self.wall, self.boot) = (wall, boot);
        }
        was_set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall_s: u64, boot_s: u64) -> (UnixTime, BootTime) {
        let wall = UnixTime::from_millis(wall_s * 1_000);
        (wall, BootTime::from_millis(boot_s * 1_000))
    }

    #[test]
    fn a_clock_that_was_set_back_or_ahead_is_noticed_once() {
        let mut watch = ClockWatch::new(Duration::from_secs(30), at(100_000, 50));
        assert!(!watch.was_set(at(103_600, 3_650)), "it runs on");
        assert!(watch.was_set(at(100_000, 3_650)));
        assert!(!watch.was_set(at(100_010, 3_660)));
        assert!(watch.was_set(at(200_000, 3_660)));
        assert!(!watch.was_set(at(200_000, 3_660)));
    }

    #[test]
    fn small_steps_add_up() {
        let mut watch = ClockWatch::new(Duration::from_secs(30), at(100_000, 50));
        let set: Vec<bool> = (1..=6)
            .map(|step| watch.was_set(at(100_000 + 10 * step, 50)))
            .collect();
        assert_eq!(set, [false, false, true, false, false, true]);
    }
}
