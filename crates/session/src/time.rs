//! The clocks of a handshake: the boot-time clock for the timers, a TAI64N stamp for the initiation.

use core::fmt;
use culvert_base::BootTime;
use std::time::Duration;

/// A TAI64N label: eight bytes of seconds and four of nanoseconds, big-endian, so that bytes
/// compare as times do (§5.4.2).
///
/// "Whitened" to 2^24 ns (16.8 ms), as all implementations have it: the stamp is sent to peers and need
/// not reveal the exact clock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tai64n([u8; 12]);

impl Tai64n {
    /// Distance between two labels: the largest power of two below 20 ms, the time that Linux leaves
    /// between two initiations (`INITIATIONS_PER_SECOND`).
    const STEP_NANOS: u32 = 1 << 24;

    /// TAI64 labels count from 2^62; TAI was 10 s ahead of UTC at the Unix epoch. Leap seconds
    /// since then are left out, as every implementation does: only the order matters.
    const UNIX_EPOCH_SECONDS: u64 = (1 << 62) + 10;

    /// The label of a time since the Unix epoch; `nanos` below 10^9.
    pub fn from_unix(secs: u64, nanos: u32) -> Self {
        let seconds = secs.saturating_add(Self::UNIX_EPOCH_SECONDS);
        Self::from_parts(seconds, Self::whitened(nanos))
    }

    /// Time since the Unix epoch; zero for labels before it.
    pub fn to_unix(self) -> Duration {
        let (seconds, nanos) = self.parts();
        Duration::new(seconds.saturating_sub(Self::UNIX_EPOCH_SECONDS), nanos)
    }

    /// The label as it was received.
    pub const fn from_bytes(bytes: [u8; 12]) -> Self {
        Self(bytes)
    }

    /// The label as it is sent.
    pub const fn to_bytes(self) -> [u8; 12] {
        self.0
    }

    /// The least label that [`from_unix`](Self::from_unix) makes after this one.
    pub(crate) fn successor(self) -> Self {
        let (seconds, nanos) = self.parts();
        let next = Duration::from_secs(seconds)
            .saturating_add(Duration::from_nanos(nanos.into()))
            .saturating_add(Duration::from_nanos(Self::STEP_NANOS.into()));
        // If that lies in the next second, whitening makes it the first label of that second.
        Self::from_parts(next.as_secs(), Self::whitened(next.subsec_nanos()))
    }

    const fn whitened(nanos: u32) -> u32 {
        nanos & !(Self::STEP_NANOS - 1)
    }

    fn from_parts(seconds: u64, nanos: u32) -> Self {
        let mut bytes = [0; 12];
        bytes[..8].copy_from_slice(&seconds.to_be_bytes());
        bytes[8..].copy_from_slice(&nanos.to_be_bytes());
        Self(bytes)
    }

    fn parts(self) -> (u64, u32) {
        let [a, b, c, d, e, f, g, h, nanos @ ..] = self.0;
        let seconds = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        (seconds, u32::from_be_bytes(nanos))
    }
}

impl fmt::Debug for Tai64n {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, nanos) = self.parts();
        write!(f, "Tai64n({seconds:#x}, {nanos} ns)")
    }
}

/// Both clocks, read together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// The boot-time clock, for timers.
    pub now: BootTime,
    /// The wall clock, for the stamp in initiations and for the time of the last handshake.
    pub wall: Tai64n,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_unix_epoch_has_the_label_of_the_tai64_specification() {
        let label = Tai64n::from_unix(0, 0);
        assert_eq!(label.to_bytes(), [0x40, 0, 0, 0, 0, 0, 0, 0x0a, 0, 0, 0, 0]);
    }

    #[test]
    fn labels_are_whitened_to_two_to_the_24_nanoseconds() {
        let early = Tai64n::from_unix(7, 1 << 24);
        let late = Tai64n::from_unix(7, (2 << 24) - 1);
        assert_eq!(early, late);
        assert!(late < Tai64n::from_unix(7, 2 << 24));
    }

    #[test]
    fn after_the_last_label_of_a_second_comes_the_first_of_the_next() {
        let last = Tai64n::from_unix(7, 999_999_999);
        let first_of_next = Tai64n::from_unix(8, 0);
        assert_eq!(last.successor(), first_of_next);
        assert!(first_of_next < first_of_next.successor());
        let before_last = Tai64n::from_unix(7, 999_999_999 - (1 << 24));
        assert_eq!(before_last.successor(), last);
    }

    #[test]
    fn a_label_shows_its_seconds_and_nanoseconds() {
        let label = Tai64n::from_unix(0, 1 << 24);
        assert_eq!(
            format!("{label:?}"),
            "Tai64n(0x400000000000000a, 16777216 ns)"
        );
    }

    proptest! {
        #[test]
        fn labels_compare_as_the_times_do(a in any::<u32>(), b in any::<u32>(), nanos in 0u32..1_000_000_000) {
            let (first, second) = (Tai64n::from_unix(a.into(), nanos), Tai64n::from_unix(b.into(), nanos));
            prop_assert_eq!(first.cmp(&second), a.cmp(&b));
        }

        #[test]
        fn the_successor_is_the_next_whitened_label(seconds in any::<u32>(), nanos in 0u32..1_000_000_000) {
            let label = Tai64n::from_unix(seconds.into(), nanos);
            let successor = label.successor();
            prop_assert!(label < successor);
            let unix = successor.to_unix();
            prop_assert_eq!(Tai64n::from_unix(unix.as_secs(), unix.subsec_nanos()), successor);
            prop_assert!(unix - label.to_unix() <= Duration::from_nanos(1 << 24));
        }
    }
}
