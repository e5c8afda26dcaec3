//! The front of a batch that can be opened at all.

use crate::{Layout, MAX_RECORDS};

/// The number of records in a buffer that can be opened at all: those that have a nonce and a bit
/// in [`Opened`](crate::Opened), and are long enough.
pub(super) fn openable(nonces: &[u64], buffer_len: usize, layout: Layout) -> usize {
    let count = layout.count(buffer_len).min(MAX_RECORDS);
    (0..count.min(nonces.len()))
        .take_while(|&index| layout.sealed(index, buffer_len).is_some())
        .count()
}
