//! The pauses between attempts to reach the portal.

/// No attempt comes sooner after the last one, in milliseconds: what a portal allows one address
/// and token.
const MIN_WAIT_MS: u64 = 1_000;

/// The random part of a wait grows up to this, in milliseconds.
const MAX_SPREAD_MS: u64 = 30_000;

/// Most that a portal's `Retry-After` is obeyed, in milliseconds: an hour. A portal that says more
/// has a wrong clock or a proxy with a wrong setting in front of it.
const MAX_RETRY_AFTER_MS: u64 = 3_600_000;

/// The waits between attempts: 1 s and a random time of up to 1 s, which doubles with each attempt
/// until it is 30 s. Thousands that lost a portal at one moment so do not come back at one moment.
#[derive(Clone, Debug)]
pub struct Backoff {
    spread_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            spread_ms: MIN_WAIT_MS,
        }
    }
}

impl Backoff {
    /// The next wait in milliseconds. `random` decides where between the bounds it lies; what the
    /// portal asked for, `retry_after_ms`, is added to the random part.
    pub fn next_wait_ms(&mut self, random: u64, retry_after_ms: Option<u64>) -> u64 {
        self.next_wait_within(random, retry_after_ms, u64::MAX)
    }

    /// The same for something that may end at any time, of which the machine learns only by an attempt: the
    /// random part keeps the wait below `longest_ms`, unless the portal asked for more.
    pub(crate) fn next_wait_within(
        &mut self,
        random: u64,
        retry_after_ms: Option<u64>,
        longest_ms: u64,
    ) -> u64 {
        let least_ms = retry_after_ms
            .unwrap_or(0)
            .clamp(MIN_WAIT_MS, MAX_RETRY_AFTER_MS);
        let spread_ms = self.spread_ms.min(longest_ms.saturating_sub(least_ms));
        let wait_ms = least_ms + random % (spread_ms + 1);
        self.spread_ms = (self.spread_ms * 2).min(MAX_SPREAD_MS);
        wait_ms
    }

    /// The longest wait for an attempt that somebody is waiting for, in milliseconds: the first of
    /// the series. It does not advance the series.
    #[must_use]
    pub fn hurried_wait_ms(random: u64) -> u64 {
        MIN_WAIT_MS + random % (MIN_WAIT_MS + 1)
    }

    /// Begins again with the shortest wait: the portal said `welcome`.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_longest_waits_double_from_2_s_to_31_s() {
        let mut backoff = Backoff::default();
        let waits: Vec<u64> = (0..8)
            .map(|_| {
                // The largest random part is the spread itself.
                let spread_ms = backoff.spread_ms;
                backoff.next_wait_ms(spread_ms, None)
            })
            .collect();
        assert_eq!(
            waits,
            [2_000, 3_000, 5_000, 9_000, 17_000, 31_000, 31_000, 31_000]
        );
    }

    proptest! {
        #[test]
        fn no_wait_is_shorter_than_a_second_or_retry_after(
            randoms in prop::collection::vec((any::<u64>(), prop::option::of(0_u64..100_000)), 1..20)
        ) {
            let mut backoff = Backoff::default();
            for (random, retry_after_ms) in randoms {
                let wait_ms = backoff.next_wait_ms(random, retry_after_ms);
                let least_ms = retry_after_ms.unwrap_or(0).max(1_000);
                prop_assert!((least_ms..=least_ms + 30_000).contains(&wait_ms));
            }
            backoff.reset();
            prop_assert!(backoff.next_wait_ms(u64::MAX, None) <= 2_000);
        }

        #[test]
        fn a_longest_wait_is_kept_unless_the_portal_asks_for_more(
            randoms in prop::collection::vec((any::<u64>(), prop::option::of(0_u64..60_000)), 1..20)
        ) {
            let mut backoff = Backoff::default();
            for (random, retry_after_ms) in randoms {
                let wait_ms = backoff.next_wait_within(random, retry_after_ms, 25_000);
                let least_ms = retry_after_ms.unwrap_or(0).max(1_000);
                prop_assert!((least_ms..=least_ms.max(25_000)).contains(&wait_ms));
            }
        }

        #[test]
        fn waits_are_spread(random in any::<u64>()) {
            let wait_ms = Backoff::hurried_wait_ms(random);
            prop_assert!((1_000..=2_000).contains(&wait_ms));
        }
    }
}
