//! Time as an argument: three clocks, and a type for each, so that none is given for another.

use std::time::Duration;

/// An instant of the host's boot-time clock, which runs on while the machine sleeps; in nanoseconds since the start of
/// the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BootTime(u64);

const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
const MILLIS_PER_SECOND: u64 = 1_000;

impl BootTime {
    /// The start of the clock.
    pub const ZERO: Self = Self(0);

    /// The end of the clock: a deadline there never comes.
    pub const MAX: Self = Self(u64::MAX);

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
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(saturating_nanos(duration)))
    }

    /// The start of the clock if the difference lies before it.
    #[must_use]
    pub const fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(saturating_nanos(duration)))
    }

    /// Time since `earlier`, zero if `earlier` is later: threads read the clock independently.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Time between two instants, whichever is the earlier one.
    #[must_use]
    pub const fn abs_diff(self, other: Self) -> Duration {
        Duration::from_nanos(self.0.abs_diff(other.0))
    }

    /// True if at least `duration` has passed since `earlier`.
    #[must_use]
    pub const fn has_passed(self, earlier: Self, duration: Duration) -> bool {
        // Asked for every packet: no division, as a comparison of durations would need.
        self.0.saturating_sub(earlier.0) >= saturating_nanos(duration)
    }
}

/// An instant of wall-clock time: milliseconds since the Unix epoch.
///
/// Somebody may set the clock, so an earlier instant may be read after a later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixTime(u64);

impl UnixTime {
    /// The start of 1970, which a machine without a clock shows.
    pub const EPOCH: Self = Self(0);

    /// The last instant. A deadline there never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `millis` milliseconds after the epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The instant `span` after the epoch, in whole milliseconds; [`Self::MAX`] past the last one.
    #[must_use]
    pub const fn after_epoch(span: Duration) -> Self {
        Self::EPOCH.saturating_add(span)
    }

    /// Time since the epoch.
    #[must_use]
    pub const fn since_epoch(self) -> Duration {
        Duration::from_millis(self.0)
    }

    /// [`Self::MAX`] past the last instant. Parts of a millisecond do not count.
    #[must_use]
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(whole_millis(duration)))
    }

    /// The epoch if the difference lies before it.
    #[must_use]
    pub const fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(whole_millis(duration)))
    }

    /// Time since `earlier`, zero if `earlier` is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Time between two instants, whichever is the earlier one.
    #[must_use]
    pub const fn abs_diff(self, other: Self) -> Duration {
        Duration::from_millis(self.0.abs_diff(other.0))
    }
}

/// An instant of a process's own clock: nanoseconds since an instant that its owner chose, such as its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uptime(u64);

impl Uptime {
    /// The instant from which the owner counts.
    pub const ZERO: Self = Self(0);

    /// The instant `span` after [`Self::ZERO`]; half a millennium at most.
    #[must_use]
    pub const fn after(span: Duration) -> Self {
        Self(saturating_nanos(span))
    }
}

/// An instant of one of the clocks, for what counts by any.
pub trait ClockTime: Copy {
    /// Nanoseconds since the clock's zero, half a millennium at most.
    fn nanos(self) -> u64;

    /// True if at least `duration` has passed since `earlier`.
    #[must_use]
    fn has_passed(self, earlier: Self, duration: Duration) -> bool {
        self.nanos().saturating_sub(earlier.nanos()) >= saturating_nanos(duration)
    }
}

impl ClockTime for BootTime {
    fn nanos(self) -> u64 {
        self.0
    }
}

impl ClockTime for UnixTime {
    fn nanos(self) -> u64 {
        self.0.saturating_mul(NANOS_PER_MILLI)
    }
}

impl ClockTime for Uptime {
    fn nanos(self) -> u64 {
        self.0
    }
}

pub(crate) const fn saturating_nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(NANOS_PER_SECOND);
    seconds.saturating_add(duration.subsec_nanos() as u64)
}

/// A span in whole milliseconds, as messages and statuses have it; what is beyond them becomes the longest.
#[must_use]
pub const fn whole_millis(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(MILLIS_PER_SECOND);
    seconds.saturating_add(duration.subsec_millis() as u64)
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
        assert_eq!(end, BootTime::MAX);
        assert_eq!(end.saturating_sub(Duration::MAX), BootTime::ZERO);
    }

    #[test]
    fn a_duration_has_passed_from_its_last_nanosecond_on() {
        let (start, second) = (BootTime::from_millis(7), Duration::from_secs(1));
        let due = start.saturating_add(second);
        assert!(due.has_passed(start, second));
        assert!(
            !due.saturating_sub(Duration::from_nanos(1))
                .has_passed(start, second)
        );
        assert!(
            !BootTime::ZERO.has_passed(due, second),
            "a clock that went back"
        );
    }

    #[test]
    fn wall_clock_time_ends_and_begins() {
        let millisecond = Duration::from_millis(1);
        assert_eq!(UnixTime::MAX.saturating_add(millisecond), UnixTime::MAX);
        assert_eq!(UnixTime::after_epoch(Duration::MAX), UnixTime::MAX);
        assert_eq!(UnixTime::MAX.saturating_sub(Duration::MAX), UnixTime::EPOCH);
        assert_eq!(
            UnixTime::EPOCH.saturating_since(UnixTime::MAX),
            Duration::ZERO
        );
        let (earlier, later) = (UnixTime::from_millis(3), UnixTime::from_millis(10));
        assert_eq!(later.saturating_since(earlier), Duration::from_millis(7));
        assert_eq!(earlier.abs_diff(later), later.abs_diff(earlier));
    }

    #[test]
    fn wall_clock_time_has_whole_milliseconds() {
        let instant = UnixTime::after_epoch(Duration::from_micros(1_999));
        assert_eq!(instant, UnixTime::from_millis(1));
        assert_eq!(instant.since_epoch(), Duration::from_millis(1));
        let later = instant.saturating_add(Duration::from_micros(999));
        assert_eq!(later, instant);
    }

    #[test]
    fn every_clock_counts_in_nanoseconds() {
        let second = Duration::from_secs(1);
        let clocks = [
            BootTime::ZERO.saturating_add(second).nanos(),
            UnixTime::after_epoch(second).nanos(),
            Uptime::after(second).nanos(),
        ];
        assert_eq!(clocks, [NANOS_PER_SECOND; 3]);
        assert!(Uptime::after(second).has_passed(Uptime::ZERO, second));
        assert!(!Uptime::ZERO.has_passed(Uptime::after(second), second));
    }

    #[test]
    fn milliseconds_are_whole() {
        let instant = BootTime::from_nanos(1_999_999);
        assert_eq!(instant.as_millis(), 1);
        assert_eq!(BootTime::from_millis(1).as_nanos(), NANOS_PER_MILLI);
    }
}
