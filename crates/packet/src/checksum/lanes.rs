//! Summing by loops that are compiled to the vectors that every processor has.

/// Bytes per step of the wide loop: four 128-bit vectors, enough to hide the latency of the adds.
pub(super) const BLOCK: usize = 64;
/// Blocks per run: a lane of `high` grows by at most 0xFFFF a block, so 65,537 blocks would just
/// fit a `u32`.
pub(super) const RUN_BLOCKS: usize = 65_536;
const LANES: usize = BLOCK / 4;

/// Sixteen 32-bit lanes, each summing two 16-bit words a block. The obvious way widens both
/// words, four vector operations; this takes three, as all words' low halves follow from `all`:
/// modulo 2^32, `all = low + (high << 16)`, and `low` itself is below 2^32.
#[derive(Default)]
struct Lanes {
    all: [u32; LANES],
    high: [u32; LANES],
}

impl Lanes {
    #[inline(always)]
    fn add(&mut self, block: &[u8; BLOCK]) {
        let (words, _) = block.as_chunks::<4>();
        for ((all, high), word) in self.all.iter_mut().zip(&mut self.high).zip(words) {
            let word = u32::from_ne_bytes(*word);
            *all = all.wrapping_add(word);
            *high += word >> 16;
        }
    }

    #[inline(always)]
    fn total(&self) -> u64 {
        let mut total = 0;
        for (all, high) in self.all.iter().zip(&self.high) {
            let low = all.wrapping_sub(high << 16);
            total += u64::from(low) + u64::from(*high);
        }
        total
    }
}

pub(super) fn sum_lanes(bytes: &[u8]) -> u64 {
    let (blocks, tail) = bytes.as_chunks::<BLOCK>();
    let mut total = tail_sum(tail);
    for run in blocks.chunks(RUN_BLOCKS) {
        let mut lanes = Lanes::default();
        for block in run {
            lanes.add(block);
        }
        total += lanes.total();
    }
    total
}

/// The sum of fewer bytes than a block, or of a short header.
#[inline(always)]
pub(super) fn tail_sum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut total = 0;
    for word in words {
        total += u64::from(u32::from_ne_bytes(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    total + u64::from(u32::from_ne_bytes(last))
}
