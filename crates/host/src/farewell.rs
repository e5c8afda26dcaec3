//! How a service is to end.

/// What a service that is told to end leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// The host as it was before.
    ForGood,
    /// What it has set up, for the process that comes in its place.
    ForRestart,
}
