//! The numbers of clients.

/// A peer of the tunnel. The number is the caller's choice; equal numbers are the same peer for as
/// long as the gates live that see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerKey(pub u32);
