//! GHASH (NIST SP 800-38D §6.4) of several blocks in a vector.
//!
//! GHASH takes the first bit of a block for the lowest coefficient. Reversing the bytes of a block
//! makes the number that POLYVAL takes, and GHASH under `H` is POLYVAL under `H · x`: "GHASH(H, X_1,
//! ..., X_n) = ByteReverse(POLYVAL(mulX_POLYVAL(ByteReverse(H)), ByteReverse(X_1), ...,
//! ByteReverse(X_n)))" (RFC 8452 appendix A). So everything here is in POLYVAL's terms: polynomials
//! modulo `x^128 + x^127 + x^126 + x^121 + 1`, multiplied as `a · b · x^-128`.
//!
//! The hash of `n` blocks is the sum of their products with the powers `H^n` to `H^1`. Those are
//! ready in a table, so no product waits for another, and all of them are summed up before the sum
//! is reduced once.

use super::vectors::{Block, Vectors};

/// The highest power of the table. A record of 1500 bytes and its length block are within it, so that
/// no sum of theirs is reduced before its end.
pub(super) const POWERS: usize = 96;

/// The most lanes that a vector has.
pub(super) const MAX_LANES: usize = 4;

/// The powers of a key's `H`, the highest first. Behind `H^1` follow zeros, for vectors that begin
/// with it or shortly before.
pub(super) struct Powers([Block; POWERS + MAX_LANES]);

impl Powers {
    pub(super) const ZERO: Self = Self([[0; 16]; POWERS + MAX_LANES]);

    /// `hash_key` is `H`, "the block cipher applied to the zero block".
    #[inline(always)]
    pub(super) fn fill<const LANES: usize>(
        &mut self,
        vectors: impl Vectors<LANES>,
        hash_key: Block,
    ) {
        let first = times_x(u128::from_be_bytes(hash_key)).to_le_bytes();
        let first = vectors.spread(&first);
        let mut power = first;
        let mut lanes = [[0; 16]; LANES];
        for lane in lanes.iter_mut().rev() {
            *lane = vectors.blocks(power)[0];
            power = product(vectors, power, first);
        }
        let step = vectors.spread(&lanes[0]);
        let mut row = vectors.load(&lanes);
        for powers in self.0[..POWERS].as_chunks_mut().0.iter_mut().rev() {
            vectors.store(powers, row);
            row = product(vectors, row, step);
        }
    }

    /// The factors for blocks, as many at a time as a vector has. The first block is multiplied
    /// with `H^highest`.
    #[inline(always)]
    pub(super) fn from<const LANES: usize>(&self, highest: usize) -> &[[Block; LANES]] {
        self.0[POWERS - highest..].as_chunks().0
    }

    /// `H` for each block of a vector.
    #[inline(always)]
    fn first<V: Vectors<LANES>, const LANES: usize>(&self, vectors: V) -> V::Vector {
        vectors.spread(&self.0[POWERS - 1])
    }

    pub(super) fn zeroize(&mut self) {
        zeroize::Zeroize::zeroize(&mut self.0);
    }
}

/// A sum of products that are not reduced yet, in lanes that are still to be added up.
#[derive(Clone, Copy)]
pub(super) struct Sum<V: Vectors<LANES>, const LANES: usize> {
    vectors: V,
    low: V::Vector,
    middle: V::Vector,
    high: V::Vector,
}

impl<V: Vectors<LANES>, const LANES: usize> Sum<V, LANES> {
    #[inline(always)]
    pub(super) fn zero(vectors: V) -> Self {
        let zero = vectors.zero();
        Self {
            vectors,
            low: zero,
            middle: zero,
            high: zero,
        }
    }

    /// Adds the products of blocks, as numbers, with as many powers.
    #[inline(always)]
    pub(super) fn add(&mut self, blocks: V::Vector, powers: V::Vector) {
        let vectors = self.vectors;
        // All four before the first sum: where sums come between, the processor spreads what
        // follows less evenly over its units, and a chunk takes a tenth longer.
        let mut products = [
            vectors.product::<0x00>(blocks, powers),
            vectors.product::<0x11>(blocks, powers),
            vectors.product::<0x01>(blocks, powers),
            vectors.product::<0x10>(blocks, powers),
        ];
        for product in &mut products {
            vectors.in_order(product);
        }
        let [low, high, cross, other_cross] = products;
        self.low = vectors.xor(self.low, low);
        self.high = vectors.xor(self.high, high);
        self.middle = vectors.xor3(self.middle, cross, other_cross);
    }

    /// Has the sum ready here.
    #[inline(always)]
    pub(super) fn in_order(&mut self) {
        self.vectors.in_order(&mut self.low);
        self.vectors.in_order(&mut self.middle);
        self.vectors.in_order(&mut self.high);
    }

    /// The sum as a number, in each lane apart.
    #[inline(always)]
    fn reduce(self) -> V::Vector {
        let vectors = self.vectors;
        let low = vectors.xor(self.low, vectors.shift_left(self.middle));
        let high = vectors.shift_right(self.middle);
        // Twice: the multiple of the modulus that clears the lowest 64 bits, and a division by x^64.
        let folded = fold(vectors, fold(vectors, low));
        vectors.xor3(folded, high, self.high)
    }

    /// The hash in lane 0, zeros in the others.
    #[inline(always)]
    pub(super) fn hash(self) -> V::Vector {
        let mut sums = [self.vectors.zero(); LANES];
        sums[0] = self.reduce();
        self.vectors.add_lanes(sums)
    }
}

/// The hashes of as many records as a vector has blocks, as bytes. Each hash is over the blocks
/// summed up in `sums`, and over the block that ends the hash of a record without associated data,
/// "0^64 || [len(C)]_64". `C` has as many bits as `bit_lens` says.
#[inline(always)]
pub(super) fn hashes<V: Vectors<LANES>, const LANES: usize>(
    powers: &Powers,
    sums: &[Sum<V, LANES>; LANES],
    bit_lens: [u64; LANES],
) -> V::Vector {
    let vectors = sums[0].vectors;
    let mut sum = Sum {
        vectors,
        low: vectors.add_lanes(sums.map(|sum| sum.low)),
        middle: vectors.add_lanes(sums.map(|sum| sum.middle)),
        high: vectors.add_lanes(sums.map(|sum| sum.high)),
    };
    let lens = bit_lens.map(|len| u128::from(len).to_le_bytes());
    sum.add(vectors.load(&lens), powers.first(vectors));
    vectors.reverse(sum.reduce())
}

#[inline(always)]
fn product<V: Vectors<LANES>, const LANES: usize>(
    vectors: V,
    a: V::Vector,
    b: V::Vector,
) -> V::Vector {
    let mut sum = Sum::zero(vectors);
    sum.add(a, b);
    sum.reduce()
}

/// Half of a reduction. The modulus is 1 modulo x^64, so its multiple by the low half clears that.
#[inline(always)]
fn fold<V: Vectors<LANES>, const LANES: usize>(vectors: V, low: V::Vector) -> V::Vector {
    // x^63 + x^62 + x^57: the middle of the modulus, divided by x^64.
    const MODULUS: u128 = 0xc200_0000_0000_0000;
    let modulus = vectors.spread(&MODULUS.to_le_bytes());
    vectors.xor(
        vectors.swap_halves(low),
        vectors.product::<0x00>(low, modulus),
    )
}

/// `a · x`, "mulX_POLYVAL" of RFC 8452 appendix A.
fn times_x(a: u128) -> u128 {
    const MODULUS: u128 = 1 << 127 | 1 << 126 | 1 << 121 | 1;
    a << 1 ^ ((a >> 127).wrapping_neg() & MODULUS)
}
