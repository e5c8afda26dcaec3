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

/// Attempts at what has to be fast. A machine that others share stands still now and then; a program that is slow is slow
/// each time.
const ATTEMPTS: usize = 3;

/// Makes attempts until one is fast enough.
///
/// # Errors
/// When none is; the message has what each of them told.
pub fn in_one_of_some_attempts(mut attempt: impl FnMut() -> Result<(), String>) -> Result<()> {
    let mut told = Vec::new();
    while told.len() < ATTEMPTS {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(slow) => told.push(slow),
        }
    }
    bail!("slow in each of {ATTEMPTS} attempts: {}", told.join("; "))
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
    fn one_attempt_that_is_fast_is_enough_and_none_is_an_error_with_all_of_them() {
        let mut made = 0;
        let mut until = |fast: usize| {
            in_one_of_some_attempts(|| {
                made += 1;
                match made % ATTEMPTS == fast {
                    true => Ok(()),
                    false => Err(format!("attempt {made}")),
                }
            })
        };
        assert!(until(2).is_ok());
        let error = until(ATTEMPTS).unwrap_err().to_string();
        for attempt in ["attempt 3", "attempt 4", "attempt 5"] {
            assert!(error.contains(attempt), "{error}");
        }
    }

    #[test]
    fn a_condition_that_stays_false_is_named_in_the_error() {
        let error = wait_until("rain in the desert", Duration::ZERO, || false).unwrap_err();
        assert!(error.to_string().contains("rain in the desert"));
    }
}
