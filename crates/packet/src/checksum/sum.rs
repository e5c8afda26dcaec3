//! The sum of words, and the checksum that is made of it.

use super::lanes::{BLOCK, sum_lanes, tail_sum};
use super::wide;

/// A ones' complement sum of 16-bit words, not yet folded, in the byte order of the machine: the
/// sum does not depend on it (RFC 1071 §2 B), so nothing is swapped until the end.
///
/// The sum of `n` bytes is below `n × 2^15 + 2^36`: a `u64` holds the sums of 2^40 bytes. Two of the same bytes may
/// differ before they are folded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum(pub(super) u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// The sum of `bytes`, an odd last byte being followed by a zero.
    ///
    /// A part that is added to another must begin at an even offset of the whole.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        if bytes.len() < BLOCK {
            return Self(tail_sum(bytes));
        }
        Self(wide::sum(bytes).unwrap_or_else(|| sum_lanes(bytes)))
    }

    /// Copies `from` into `to` and returns the sum of what was copied.
    ///
    /// # Panics
    /// If the lengths differ.
    #[must_use]
    pub fn of_copy(from: &[u8], to: &mut [u8]) -> Self {
        assert_eq!(from.len(), to.len(), "a copy is as long as what is copied");
        let sum = wide::copy_and_sum(from, to).unwrap_or_else(|| {
            to.copy_from_slice(from);
            sum_lanes(to)
        });
        Self(sum)
    }

    /// The sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// Adds one 16-bit field.
    #[must_use]
    pub const fn plus_u16(self, field: u16) -> Self {
        Self(self.0 + field.to_be() as u64)
    }

    /// Adds one 32-bit field that begins at an even offset.
    #[must_use]
    pub const fn plus_u32(self, field: u32) -> Self {
        Self(self.0 + field.to_be() as u64)
    }

    /// The sum as the 16-bit field of a header, not complemented: what a partial checksum holds.
    #[must_use]
    pub const fn folded(self) -> u16 {
        let mut sum = (self.0 & 0xFFFF_FFFF) + (self.0 >> 32);
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        sum = (sum & 0xFFFF) + (sum >> 16);
        u16::from_be(sum as u16)
    }

    /// The checksum to be stored: the complement of the sum.
    #[must_use]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// The checksum as UDP stores it (RFC 768): "If the computed checksum is zero, it is
    /// transmitted as all ones".
    #[must_use]
    pub const fn checksum_never_zero(self) -> u16 {
        match self.checksum() {
            0 => 0xFFFF,
            sum => sum,
        }
    }

    /// True if this, a sum over everything including the checksum field, shows no error.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.folded() == 0xFFFF
    }
}

/// A header checksum after one of the 16-bit fields it covers changed from `old` to `new`:
/// RFC 1624, equation 3, `HC' = ~(~HC + ~m + m')`.
#[must_use]
pub const fn update(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO
        .plus_u16(!checksum)
        .plus_u16(!old)
        .plus_u16(new)
        .checksum()
}
