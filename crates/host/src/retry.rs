//! Retries for locks that a process which has just ended still holds.

use std::time::Duration;

/// Attempts before the last one.
const ATTEMPTS: u32 = 40;

/// The time between two attempts; all of them take 2 s. A lock is released within microseconds, or a few
/// turns of the scheduler on a busy machine.
const PAUSE: Duration = Duration::from_millis(50);

/// The first result of `attempt` that is something, or `None` if another process holds the lock to the end.
///
/// A process that is killed while it starts a program, such as `nft`, leaves a child that has everything
/// of its parent's open until it becomes that program. The next start would find it in use.
pub(crate) fn retry_until_released<T, E>(
    mut attempt: impl FnMut() -> Result<Option<T>, E>,
) -> Result<Option<T>, E> {
    for _ in 0..ATTEMPTS {
        if let Some(taken) = attempt()? {
            return Ok(Some(taken));
        }
        std::thread::sleep(PAUSE);
    }
    attempt()
}
