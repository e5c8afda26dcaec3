//! The ways by which datagrams come to a worker.

/// A way by which datagrams come to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Lane {
    /// Datagrams with priority, of IPv4.
    PriorityV4,
    /// The same of IPv6.
    PriorityV6,
    /// All others of IPv4.
    V4,
    /// All others of IPv6.
    V6,
}

impl Lane {
    /// Those of datagrams with priority. Nothing is sent from them.
    pub const PRIORITY: [Self; 2] = [Self::PriorityV4, Self::PriorityV6];

    /// Those of all others.
    pub const BULK: [Self; 2] = [Self::V4, Self::V6];

    /// All of them.
    pub const ALL: [Self; 4] = [Self::PriorityV4, Self::PriorityV6, Self::V4, Self::V6];
}
