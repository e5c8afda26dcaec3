//! The rate at which a table is put back that another program takes away.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// As often within [`WINDOW`] as administrators reload a firewall by hand, and services at their start.
const MAX_REPAIRS: usize = 5;

const WINDOW: Duration = Duration::from_secs(60);

/// Puts tables back at once, but does not fight another program that takes them away again and again:
/// what they guard stays closed meanwhile.
#[derive(Debug, Default)]
pub struct RepairPace {
    /// The newest ones, at most [`MAX_REPAIRS`].
    repairs: VecDeque<Instant>,
}

impl RepairPace {
    /// Takes note of a repair, if one may be made now; otherwise how long from now one may.
    ///
    /// # Errors
    /// The time until the next attempt is allowed.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let oldest = self.repairs.front().copied();
        if let Some(oldest) = oldest
            && self.repairs.len() == MAX_REPAIRS
        {
            let since = now.saturating_duration_since(oldest);
            if since < WINDOW {
                return Err(WINDOW - since);
            }
            self.repairs.pop_front();
        }
        self.repairs.push_back(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repairs_are_made_at_once_but_only_some_in_a_minute() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut pace = RepairPace::default();
        for s in 0..5 {
            assert_eq!(pace.take(at(s)), Ok(()));
        }
        assert_eq!(pace.take(at(5)), Err(Duration::from_secs(55)));
        assert_eq!(pace.take(at(59)), Err(Duration::from_secs(1)));
        assert_eq!(pace.take(at(60)), Ok(()));
        assert_eq!(pace.take(at(60)), Err(Duration::from_secs(1)));
    }
}
