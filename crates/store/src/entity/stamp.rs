//! The fields that the store writes on every row.

use culvert_wire::Timestamp;
use serde::{Deserialize, Serialize};

/// The fields that the store writes on every row. Values that a caller puts here when it creates
/// one are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// 1 for a new row, one more with every change: the row's `ETag`.
    pub version: u64,
    /// The time of the row's creation.
    pub created: Timestamp,
    /// The time of its last change.
    pub updated: Timestamp,
}
