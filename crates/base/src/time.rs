//! Time as an argument.

use std::time::Duration;

/// An instant of the host's boot-time clock, which runs on while the machine sleeps; in nanoseconds since the start of
/// the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(u64);

const NANOS_PER_MILLI: u64 = 1_000_000;

impl BootTime {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);

    /// The instant `nanos` nanoseconds after the start of the clock.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since the start of the clock.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The instant `millis` milliseconds after the start of the clock; the end of the clock (584 years) if it lies
    /// before that.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(NANOS_PER_MILLI))
    }

    /// Whole milliseconds since the start of the clock.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / NANOS_PER_MILLI
    }

    /// Time since the start of the clock.
    #[must_use]
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// `None` past the end of the clock.
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let nanos = u64::try_from(duration.as_nanos()).ok()?;
        self.0.checked_add(nanos).map(Self)
    }

    /// The end of the clock if the sum lies past it: a deadline there never comes.
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self(u64::MAX))
    }

    /// Time since `earlier`, zero if `earlier` is later: threads read the clock independently.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// True if at least `duration` has passed since `earlier`.
    #[must_use]
    pub fn has_passed(self, earlier: Self, duration: Duration) -> bool {
        self.saturating_since(earlier) >= duration
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_clock_is_no_earlier_instant() {
        let end = BootTime::from_millis(u64::MAX);
        assert_eq!(end, BootTime::from_nanos(u64::MAX));
        assert_eq!(BootTime::ZERO.saturating_add(Duration::MAX), end);
        assert_eq!(BootTime::ZERO.saturating_since(end), Duration::ZERO);
        assert_eq!(end.checked_add(Duration::from_nanos(1)), None);
    }

    #[test]
    fn milliseconds_are_whole() {
        let instant = BootTime::from_nanos(1_999_999);
        assert_eq!(instant.as_millis(), 1);
        assert_eq!(BootTime::from_millis(1).as_nanos(), NANOS_PER_MILLI);
    }
}
