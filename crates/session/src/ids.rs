//! Newtypes for the two kinds of number that name things.

use core::fmt;

/// A receiver index: chosen at random by the end that will receive under it (§5.4.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub u32);

impl Index {
    /// Reads the index from its little-endian form on the wire.
    pub const fn from_wire(bytes: [u8; 4]) -> Self {
        Self(u32::from_le_bytes(bytes))
    }

    /// The little-endian form on the wire.
    pub const fn to_wire(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({:#010x})", self.0)
    }
}

/// The slot of a peer in its [`Handshaker`](crate::Handshaker); used again only after the peer's
/// removal. Always below [`MAX_PEERS`](crate::MAX_PEERS), so it can index an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u32);

impl PeerId {
    /// The slot number, for indexing.
    pub const fn slot(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_shows_as_eight_hexadecimal_digits() {
        for (number, shown) in [(0, "Index(0x00000000)"), (0xab_cdef, "Index(0x00abcdef)")] {
            assert_eq!(format!("{:?}", Index(number)), shown);
        }
    }
}
