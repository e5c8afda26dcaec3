//! The clock of this machine, and what ids are made of.

use culvert_base::UnixTime;
use culvert_ids::RANDOM_LEN;
use culvert_wire::Timestamp;
use std::time::{SystemTime, UNIX_EPOCH};

/// The clock of this machine.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::from(UnixTime::after_epoch(since.unwrap_or_default()))
}

/// The parts of a new id: the time, and random bytes.
pub type Birth = Result<(UnixTime, [u8; RANDOM_LEN]), getrandom::Error>;

/// The parts of an id that is made now.
///
/// # Errors
/// The operating system gave no random bytes.
pub fn birth() -> Birth {
    let mut random = [0; RANDOM_LEN];
    getrandom::fill(&mut random)?;
    Ok((now().unix_time(), random))
}
