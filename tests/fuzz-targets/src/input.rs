//! Turns a fuzzer's bytes into choices, first byte first.

/// The bytes not yet used. Past the end everything is zero, so that any input is a whole one.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.array())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.array())
    }

    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut array = [0; N];
        let taken = self.take(N);
        array[..taken.len()].copy_from_slice(taken);
        array
    }

    /// The next `len` bytes, or as many as are left.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.take(self.0.len())
    }

    /// Overwrites up to three bytes of `bytes`, each told by its place and its new value.
    pub(crate) fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..self.u8() % 4 {
            let (place, value) = (usize::from(self.u16()), self.u8());
            if let Some(byte) = bytes.get_mut(place % bytes.len().max(1)) {
                *byte = value;
            }
        }
    }
}
