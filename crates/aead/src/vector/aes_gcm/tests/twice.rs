//! Vectors of four blocks, made of two vectors of two.

use super::*;
use core::array::from_fn;

#[derive(Clone, Copy)]
pub(super) struct Twice(Avx2);

impl Twice {
    pub(super) fn detect() -> Option<Self> {
        Avx2::detect().map(Self)
    }
}

type Half = <Avx2 as Vectors<2>>::Vector;

/// The two halves of four blocks.
fn halves(blocks: &[Block; 4]) -> &[[Block; 2]; 2] {
    blocks.as_chunks().0.try_into().expect("four are twice two")
}

/// The number of bytes, of `len`, in each half.
fn lens(len: usize) -> [usize; 2] {
    [len.min(32), len.saturating_sub(32)]
}

impl Vectors<4> for Twice {
    type Vector = [Half; 2];

    fn enter<W: Work>(self, work: W) -> W::Output {
        self.0.enter(work)
    }

    fn zero(self) -> [Half; 2] {
        [self.0.zero(); 2]
    }

    fn load(self, blocks: &[Block; 4]) -> [Half; 2] {
        halves(blocks).each_ref().map(|half| self.0.load(half))
    }

    fn store(self, blocks: &mut [Block; 4], value: [Half; 2]) {
        for (half, value) in blocks.as_chunks_mut().0.iter_mut().zip(value) {
            self.0.store(half, value);
        }
    }

    fn load_partial(self, bytes: &[u8]) -> [Half; 2] {
        let (front, back) = bytes.split_at(lens(bytes.len())[0]);
        [front, back].map(|half| self.0.load_partial(half))
    }

    fn store_partial(self, bytes: &mut [u8], [front, back]: [Half; 2]) {
        let (front_bytes, back_bytes) = bytes.split_at_mut(lens(bytes.len())[0]);
        self.0.store_partial(front_bytes, front);
        self.0.store_partial(back_bytes, back);
    }

    fn front(self, value: [Half; 2], len: usize) -> [Half; 2] {
        from_fn(|half| self.0.front(value[half], lens(len)[half]))
    }

    fn xor(self, a: [Half; 2], b: [Half; 2]) -> [Half; 2] {
        from_fn(|half| self.0.xor(a[half], b[half]))
    }

    fn xor3(self, a: [Half; 2], b: [Half; 2], c: [Half; 2]) -> [Half; 2] {
        from_fn(|half| self.0.xor3(a[half], b[half], c[half]))
    }

    fn round(self, state: [Half; 2], key: [Half; 2]) -> [Half; 2] {
        from_fn(|half| self.0.round(state[half], key[half]))
    }

    fn last_round(self, state: [Half; 2], key: [Half; 2]) -> [Half; 2] {
        from_fn(|half| self.0.last_round(state[half], key[half]))
    }

    fn product<const HALVES: i32>(self, a: [Half; 2], b: [Half; 2]) -> [Half; 2] {
        from_fn(|half| self.0.product::<HALVES>(a[half], b[half]))
    }

    fn reverse(self, value: [Half; 2]) -> [Half; 2] {
        value.map(|half| self.0.reverse(half))
    }

    fn shift_left(self, value: [Half; 2]) -> [Half; 2] {
        value.map(|half| self.0.shift_left(half))
    }

    fn shift_right(self, value: [Half; 2]) -> [Half; 2] {
        value.map(|half| self.0.shift_right(half))
    }

    fn swap_halves(self, value: [Half; 2]) -> [Half; 2] {
        value.map(|half| self.0.swap_halves(half))
    }

    fn add_lanes(self, values: [[Half; 2]; 4]) -> [Half; 2] {
        let [a, b, c, d] = values.map(|[front, back]| self.0.xor(front, back));
        [self.0.add_lanes([a, b]), self.0.add_lanes([c, d])]
    }

    fn differences(self, a: [Half; 2], b: [Half; 2]) -> u32 {
        let [front, back] = from_fn(|half| self.0.differences(a[half], b[half]));
        front | back << 4
    }

    fn in_order(self, value: &mut [Half; 2]) {
        for half in value {
            self.0.in_order(half);
        }
    }

    fn wipe_stack(self) {
        self.0.wipe_stack();
    }
}
