//! The result for each record of a batch, without allocation.

use core::fmt;
use core::ops::Range;
use culvert_aead::MAX_RECORDS;

/// A set of records of one batch, by their position.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordSet(u128);

impl RecordSet {
    /// True if record `index` is in the set.
    pub fn contains(self, index: usize) -> bool {
        index < MAX_RECORDS && self.0 >> index & 1 == 1
    }

    /// The number of records in the set.
    pub fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The records in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        core::iter::from_fn(move || {
            let index = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(index)
        })
    }

    /// The records `0..count`.
    fn first(count: usize) -> Self {
        match MAX_RECORDS.checked_sub(count) {
            Some(MAX_RECORDS) => Self(0),
            Some(unused) => Self(u128::MAX >> unused),
            None => Self(u128::MAX),
        }
    }
}

impl fmt::Debug for RecordSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The results for the records of a batch. Each is in exactly one of the sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenedBatch {
    opened: RecordSet,
    replayed: RecordSet,
    too_old: RecordSet,
    not_authentic: RecordSet,
    expired: RecordSet,
    malformed: RecordSet,
}

/// The reason why a record was not opened.
#[derive(Clone, Copy, Debug)]
pub(super) enum Outcome {
    Replayed,
    TooOld,
    NotAuthentic,
    Expired,
    Malformed,
}

impl OpenedBatch {
    /// Authentic, fresh, and decrypted in place.
    pub fn opened(&self) -> RecordSet {
        self.opened
    }

    /// The counter was received before.
    pub fn replayed(&self) -> RecordSet {
        self.replayed
    }

    /// The counter lies behind the replay window.
    pub fn too_old(&self) -> RecordSet {
        self.too_old
    }

    /// Not sealed by the peer, or damaged under way. The bytes are unspecified.
    pub fn not_authentic(&self) -> RecordSet {
        self.not_authentic
    }

    /// The keys, or the counter, are past their limit.
    pub fn expired(&self) -> RecordSet {
        self.expired
    }

    /// No data message for the receiver index of these keys.
    pub fn malformed(&self) -> RecordSet {
        self.malformed
    }

    pub(super) fn of(records: usize) -> Self {
        Self {
            opened: RecordSet::first(records),
            ..Self::default()
        }
    }

    /// Takes `record`, which must be below [`MAX_RECORDS`], out of the opened ones.
    pub(super) fn put(&mut self, record: usize, outcome: Outcome) {
        let bit = 1 << record;
        self.opened.0 &= !bit;
        self.set(outcome).0 |= bit;
    }

    pub(super) fn put_all(&mut self, outcome: Outcome) {
        let records = core::mem::take(&mut self.opened);
        self.set(outcome).0 |= records.0;
    }

    /// The first run of candidates at or after `start`: so far opened means not yet refused.
    pub(super) fn next_candidates(&self, start: usize) -> Option<Range<usize>> {
        let rest = u128::MAX.checked_shl(u32::try_from(start).ok()?)? & self.opened.0;
        let first = (rest != 0).then(|| rest.trailing_zeros())?;
        let len = (rest >> first).trailing_ones();
        Some(first as usize..(first + len) as usize)
    }

    fn set(&mut self, outcome: Outcome) -> &mut RecordSet {
        match outcome {
            Outcome::Replayed => &mut self.replayed,
            Outcome::TooOld => &mut self.too_old,
            Outcome::NotAuthentic => &mut self.not_authentic,
            Outcome::Expired => &mut self.expired,
            Outcome::Malformed => &mut self.malformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_candidates_skip_what_was_refused() {
        let mut batch = OpenedBatch::of(6);
        batch.put(0, Outcome::Replayed);
        batch.put(3, Outcome::Malformed);
        assert_eq!(batch.next_candidates(0), Some(1..3));
        assert_eq!(batch.next_candidates(3), Some(4..6));
        assert_eq!(batch.next_candidates(6), None);
        assert_eq!(
            OpenedBatch::of(MAX_RECORDS).next_candidates(0),
            Some(0..128)
        );
        assert_eq!(OpenedBatch::of(MAX_RECORDS).next_candidates(128), None);
        assert_eq!(OpenedBatch::of(0).next_candidates(0), None);
    }

    #[test]
    fn a_set_lists_its_records_in_order() {
        let mut batch = OpenedBatch::of(128);
        batch.put_all(Outcome::Expired);
        assert!(batch.opened().is_empty());
        assert!(batch.expired().iter().eq(0..128));
        assert_eq!(batch.expired().len(), 128);
        assert!(batch.expired().contains(127));
        assert!(!batch.expired().contains(MAX_RECORDS));
    }

    #[test]
    fn a_set_shows_its_records() {
        let mut batch = OpenedBatch::of(4);
        batch.put(1, Outcome::Replayed);
        assert_eq!(format!("{:?}", batch.opened()), "{0, 2, 3}");
    }
}
