//! The operations on vectors that AES-256-GCM needs, whatever their width.

/// A block of AES and of GHASH.
pub(super) type Block = [u8; 16];

/// The stack depth of a batch in bytes: the frames of the code that [`Vectors::enter`] runs, in an
/// optimised build.
pub(super) const STACK_LEN: usize = 2048;

/// Vectors of `LANES` blocks. A value is the proof that this processor has the instructions.
///
/// Every method is one instruction or a few, and comes to that only where the compiler may use them:
/// in what runs inside of [`enter`](Self::enter) and is inlined there. Hence `#[inline(always)]` on
/// all that is generic over this.
pub(super) trait Vectors<const LANES: usize>: Copy {
    type Vector: Copy;

    /// Runs `work` in a function that is compiled for the instructions.
    fn enter<W: Work>(self, work: W) -> W::Output;

    fn zero(self) -> Self::Vector;
    fn load(self, blocks: &[Block; LANES]) -> Self::Vector;
    fn store(self, blocks: &mut [Block; LANES], value: Self::Vector);
    /// Loads at most one vector; behind the end of `bytes` it is zero.
    fn load_partial(self, bytes: &[u8]) -> Self::Vector;
    /// Stores the front of `value` to at most one vector.
    fn store_partial(self, bytes: &mut [u8], value: Self::Vector);
    /// The first `len` bytes; the rest is zero.
    fn front(self, value: Self::Vector, len: usize) -> Self::Vector;

    fn xor(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;
    fn xor3(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector;
    /// A round of AES.
    fn round(self, state: Self::Vector, key: Self::Vector) -> Self::Vector;
    /// The last round of AES.
    fn last_round(self, state: Self::Vector, key: Self::Vector) -> Self::Vector;
    /// Carry-less products of one half of each block of `a` and of `b`: bit 0 of `HALVES` chooses
    /// that of `a`, bit 4 that of `b`; the high one where set.
    fn product<const HALVES: i32>(self, a: Self::Vector, b: Self::Vector) -> Self::Vector;

    /// Reverses the bytes of each block.
    fn reverse(self, value: Self::Vector) -> Self::Vector;
    /// Each block as a number, shifted left by 64 bits.
    fn shift_left(self, value: Self::Vector) -> Self::Vector;
    /// Each block as a number, shifted right by 64 bits.
    fn shift_right(self, value: Self::Vector) -> Self::Vector;
    fn swap_halves(self, value: Self::Vector) -> Self::Vector;
    /// Lane `i` is the sum of the lanes of `values[i]`.
    fn add_lanes(self, values: [Self::Vector; LANES]) -> Self::Vector;
    /// Bits `2 * i` and `2 * i + 1` say whether the halves of block `i` differ. Without branches.
    fn differences(self, a: Self::Vector, b: Self::Vector) -> u32;

    /// Has `value` ready here: no instruction, but the compiler keeps such places in their order.
    /// Left alone it gathers what is alike, and the processor sees too few instructions ahead to
    /// find work for all of its units.
    fn in_order(self, value: &mut Self::Vector);
    /// Wipes what the functions that its caller called before have left on the stack: powers,
    /// keystream. The compiler promises nothing about where those lay, so this is the best that can
    /// be done, not a guarantee; registers are overwritten by whatever comes next.
    fn wipe_stack(self);

    /// The blocks of a vector.
    #[inline(always)]
    fn blocks(self, value: Self::Vector) -> [Block; LANES] {
        let mut blocks = [[0; 16]; LANES];
        self.store(&mut blocks, value);
        blocks
    }

    /// `block` in every lane.
    #[inline(always)]
    fn spread(self, block: &Block) -> Self::Vector {
        self.load(&[*block; LANES])
    }
}

/// Something to be compiled for certain instructions.
pub(super) trait Work {
    type Output;

    /// To be marked `#[inline(always)]`.
    fn run(self) -> Self::Output;
}
