//! The bounds of ranges over pairs of ids.

/// The smallest and the largest id, for ranges.
pub(super) const MIN: [u8; culvert_ids::ID_LEN] = [0; culvert_ids::ID_LEN];
pub(super) const MAX: [u8; culvert_ids::ID_LEN] = [u8::MAX; culvert_ids::ID_LEN];
