//! Waiting for a condition, never for a time.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// The interval between two checks of a condition. Short against every deadline in use (a second
/// and more), long enough that looking costs next to nothing.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

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
    while !condition() {
        if start.elapsed() >= deadline {
            bail!("waited {} s in vain for {what}", deadline.as_secs_f32());
        }
        thread::sleep(POLL_INTERVAL);
    }
    Ok(())
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
