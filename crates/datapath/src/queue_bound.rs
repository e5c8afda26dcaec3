//! The bound of a TUN queue, by the bandwidth-delay product of the path: more for a long path.
//!
//! A connection keeps as many bytes in flight as fit its path, and at its start it sends them in bursts. If the peer is
//! near, a long queue is of no use: it only fills. If it is far, a short queue loses those bursts, and the connection
//! never gets up to speed.

use culvert_base::BootTime;
use culvert_base::frames::{MAX_BOUND_BYTES, MIN_BOUND_BYTES};
use std::time::Duration;

/// Bytes that a queue holds for each millisecond of the round trip: one millisecond at 10 Gbit/s.
const BYTES_PER_MS: u64 = 1_250_000;

/// The part of a round trip that is no path. On a host that has other work, threads that wake up and two Diffie-Hellman
/// exchanges need that much. The lowest bound holds it anyway.
const HOST: Duration = Duration::from_millis(2);

/// The time for which a bound stays after the last frame that wanted it: several bursts of one flow.
const KEEP: Duration = Duration::from_secs(1);

/// The bound of one queue.
#[derive(Default)]
pub(crate) struct QueueBound {
    bytes: u64,
    keep_until: BootTime,
}

impl QueueBound {
    /// Notes that a frame goes to a peer at the end of a path of this `round_trip`, unknown if it is none. Returns the
    /// bound to set in bytes where it changed.
    pub(crate) fn note(&mut self, round_trip: Option<Duration>, now: BootTime) -> Option<u64> {
        let wanted = bytes_for(round_trip);
        if wanted < self.bytes && now < self.keep_until {
            return None;
        }
        self.keep_until = now.saturating_add(KEEP);
        let before = std::mem::replace(&mut self.bytes, wanted);
        (before != wanted).then_some(wanted)
    }
}

fn bytes_for(round_trip: Option<Duration>) -> u64 {
    let path = round_trip.unwrap_or_default().saturating_sub(HOST);
    let bytes = u64::try_from(path.as_micros()).unwrap_or(u64::MAX);
    let bytes = bytes.saturating_mul(BYTES_PER_MS) / 1_000;
    bytes.saturating_add(MIN_BOUND_BYTES).min(MAX_BOUND_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Option<Duration> = Some(Duration::from_micros(700));
    const FAR: Option<Duration> = Some(Duration::from_millis(10));

    fn at_ms(ms: u64) -> BootTime {
        BootTime::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn a_near_peer_has_the_lowest_bound_and_a_far_one_what_fits_its_path() {
        assert_eq!(bytes_for(None), MIN_BOUND_BYTES);
        assert_eq!(bytes_for(NEAR), MIN_BOUND_BYTES);
        assert_eq!(bytes_for(FAR), MIN_BOUND_BYTES + 10_000_000);
        assert_eq!(bytes_for(Some(Duration::from_secs(5))), MAX_BOUND_BYTES);
    }

    #[test]
    fn the_bound_is_that_of_the_farthest_peer_until_it_was_silent_for_a_while() {
        let mut bound = QueueBound::default();
        assert_eq!(bound.note(NEAR, at_ms(0)), Some(bytes_for(NEAR)));
        assert_eq!(bound.note(FAR, at_ms(1)), Some(bytes_for(FAR)));
        assert_eq!(bound.note(NEAR, at_ms(2)), None);
        assert_eq!(bound.note(FAR, at_ms(900)), None);
        assert_eq!(bound.note(NEAR, at_ms(1_800)), None);
        assert_eq!(bound.note(NEAR, at_ms(1_901)), Some(bytes_for(NEAR)));
    }
}
