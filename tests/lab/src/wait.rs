//! Waiting for a condition, never for a time.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The shortest pause between two checks of a condition. Short against every deadline in use (a second and more).
const MIN_PAUSE: Duration = Duration::from_millis(20);

/// The longest pause: a fifth of the shortest deadline.
const MAX_PAUSE: Duration = Duration::from_millis(200);

/// A pause is as many times as long as the check before it. Many checks start programs: tests that run at
/// the same time are to have the processors.
const PAUSE_PER_CHECK: u32 = 6;

/// Waits until `condition` holds.
///
/// # Errors
/// When it does not hold within `deadline`; the message names `what` was awaited.
pub fn wait_until(
    what: &str,
    deadline: Duration,
    mut condition: impl FnMut() -> bool,
) -> Result<()> {
    let start = Instant::now();
    loop {
        let checked_at = Instant::now();
        if condition() {
            return Ok(());
        }
        let pause = (checked_at.elapsed() * PAUSE_PER_CHECK).clamp(MIN_PAUSE, MAX_PAUSE);
        if start.elapsed() >= deadline {
            bail!("waited {} s in vain for {what}", deadline.as_secs_f32());
        }
        thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_comes_true_is_awaited() {
        let mut looks = 0;
        let result = wait_until("the third look", Duration::from_secs(60), || {
            looks += 1;
            looks == 3
        });
        assert!(result.is_ok());
        assert_eq!(looks, 3);
    }

    #[test]
    fn a_condition_that_stays_false_is_named_in_the_error() {
        let error = wait_until("rain in the desert", Duration::ZERO, || false).unwrap_err();
        assert!(error.to_string().contains("rain in the desert"));
    }
}
