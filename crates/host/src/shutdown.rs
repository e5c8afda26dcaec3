//! The ways in which a service ends.

/// The state that a service leaves on the host when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// The host as it was before.
    ForGood,
    /// The set-up stays for the process that comes in its place.
    ForRestart,
}
