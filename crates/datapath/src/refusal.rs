//! The answer to the sender of a packet without a route.

/// The answer to the sender of a packet without a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteRefusal {
    /// An administrator does not allow it.
    Prohibited,
    /// There is no way to it now.
    Unreachable,
}
