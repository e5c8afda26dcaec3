//! Waiting for what a process that has just ended is about to give free.

use std::time::Duration;

/// How often it is tried again.
const ATTEMPTS: u32 = 40;

/// The time between two attempts; all of them take 2 s. What is waited for takes microseconds, or a few
/// turns of the scheduler on a busy machine.
const PAUSE: Duration = Duration::from_millis(50);

/// What `attempt` returns once it returns something, or `None` where another process keeps what it wants.
///
/// A process that is killed while it starts a program, such as `nft`, leaves a child that has everything
/// of its parent's open until it becomes that program. The next start would find it in use.
pub(crate) fn take_patiently<T, E>(
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
