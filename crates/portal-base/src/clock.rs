//! The clock of this machine, and what ids are made of.

use culvert_ids::RANDOM_LEN;
use culvert_wire::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock of this machine.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_ms = since.map_or(0, |since| since.as_millis());
    Timestamp::from_unix_ms(u64::try_from(unix_ms).unwrap_or(u64::MAX))
}

/// The parts of a new id: the time, in Unix milliseconds, and random bytes.
pub type Birth = Result<(u64, [u8; RANDOM_LEN]), getrandom::Error>;

/// The parts of an id that is made now.
///
/// # Errors
/// The operating system gave no random bytes.
pub fn birth() -> Birth {
    let mut random = [0; RANDOM_LEN];
    getrandom::fill(&mut random)?;
    Ok((now().unix_ms(), random))
}
