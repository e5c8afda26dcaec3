use crate::TAG_LEN;
use core::ops::Range;

/// The layout of the records of a batch in their buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes before each record's plaintext that are neither encrypted nor authenticated.
    pub head_len: usize,
    /// Distance between the starts of two records: head, plaintext and tag of each but the last.
    pub stride: usize,
}

impl Layout {
    /// The number of records in a buffer of `buffer_len` bytes; the last may be shorter than the
    /// stride. An empty buffer holds none.
    pub fn count(&self, buffer_len: usize) -> usize {
        buffer_len.div_ceil(self.stride.max(1))
    }

    /// The bytes of record `index`, head and tag included.
    pub fn record(&self, index: usize, buffer_len: usize) -> Range<usize> {
        let start = index * self.stride;
        start..(start + self.stride).min(buffer_len)
    }

    /// The encrypted part of record `index`: plaintext and tag. `None` where the record is too
    /// short to hold a head and a tag.
    pub(crate) fn sealed(&self, index: usize, buffer_len: usize) -> Option<Range<usize>> {
        let record = self.record(index, buffer_len);
        (record.len() >= self.head_len + TAG_LEN).then(|| record.start + self.head_len..record.end)
    }
}
