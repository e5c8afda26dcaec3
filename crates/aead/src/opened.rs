/// The most records that one batch may hold.
///
/// A receive with UDP GRO returns at most 64 KiB. Linux puts at most 128 datagrams into one
/// segmented send (`UDP_MAX_SEGMENTS`, 64 before 6.9), and a veth pair hands that send to the
/// receiver whole.
pub const MAX_RECORDS: usize = 128;

/// The set of authentic records of a batch: bit `i` speaks of record `i`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opened(u128);

impl Opened {
    /// No record at all.
    pub const NONE: Self = Self(0);

    /// True if record `index` was authentic; false past [`MAX_RECORDS`].
    pub fn get(self, index: usize) -> bool {
        index < MAX_RECORDS && self.0 >> index & 1 == 1
    }

    /// Marks record `index`, which must be below [`MAX_RECORDS`].
    pub fn set(&mut self, index: usize) {
        debug_assert!(index < MAX_RECORDS);
        self.0 |= 1 << index;
    }

    /// Unmarks record `index`, which must be below [`MAX_RECORDS`].
    pub fn clear(&mut self, index: usize) {
        debug_assert!(index < MAX_RECORDS);
        self.0 &= !(1 << index);
    }

    /// The number of records that are marked.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}
