//! The suspicion that a path in use is dead.

use culvert_base::BootTime;

/// The path in use may be dead.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspicion {
    pub(super) cause: Cause,
    /// Only what was proven since counts.
    pub(super) since: BootTime,
    /// The time from which another path is taken, unless this one has answered; `None` once that time is over.
    pub(super) until: Option<BootTime>,
    /// The time of the next round.
    pub(super) again: BootTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Data is not answered.
    Silence,
    /// The peer's records come from elsewhere.
    HeardElsewhere,
    /// The host's network is another one, the relay in use is gone, or a probe was not answered.
    Network,
}
