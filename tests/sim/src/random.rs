//! The source of the network's moods.

use std::ops::Range;
use std::time::Duration;

/// SplitMix64: small, seeded, good enough to decide which packet is lost.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 even bits.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`; 0 where there is none.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound.max(1)
    }

    /// One of `things`, of which there is at least one.
    ///
    /// # Panics
    /// If there is none.
    pub fn pick<T: Copy>(&mut self, things: &[T]) -> T {
        let place = self.below(things.len() as u64);
        things[usize::try_from(place).unwrap_or(0)]
    }

    /// True in `per_mille` of a thousand cases.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.draw() % 1000 < u64::from(per_mille)
    }

    /// A duration from `range`; its start where the range is empty.
    pub fn duration(&mut self, range: &Range<Duration>) -> Duration {
        let width = range.end.saturating_sub(range.start).as_nanos().max(1);
        let offset = u128::from(self.draw()) % width;
        range.start + Duration::from_nanos(u64::try_from(offset).unwrap_or(u64::MAX))
    }

    /// 32 bytes, for keys and seeds.
    pub fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        for chunk in bytes.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.draw().to_le_bytes());
        }
        bytes
    }
}
