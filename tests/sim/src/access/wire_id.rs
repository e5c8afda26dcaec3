//! The names of control connections.

/// A control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WireId(pub(crate) u64);
