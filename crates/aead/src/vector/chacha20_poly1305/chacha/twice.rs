//! The block function on thirty-two blocks, in assembly: two states, `x` in registers 0 to 15 and `y` in
//! registers 16 to 31, keep the vector units busy while each waits for its own results.
//!
//! The states fill the 32 registers exactly. The compiler, which puts operations in an order of its own,
//! then keeps part of them in memory. The order counts too: Zen 4 starts two operations a cycle at most,
//! one of them a rotation, and comes closer to that where a step is done everywhere before the next
//! (ADR 0003).

use super::{Blocks, CONSTANTS, DOUBLE_ROUNDS, Positions};
use core::arch::asm;

/// `operation` on registers, each `to` with its `from`.
macro_rules! registers {
    ($operation:literal, $([$to:literal, $from:literal])+) => {
        concat!($($operation, " zmm", $to, ", zmm", $to, ", zmm", $from, "\n"),+)
    };
}

macro_rules! rotate {
    ($bits:literal, $($word:literal)+) => {
        concat!($("vprold zmm", $word, ", zmm", $word, ", ", $bits, "\n"),+)
    };
}

/// Half of each quarter round (RFC 8439 §2.1): a += b; d ^= a; rotate d; c += d; b ^= c; rotate b.
macro_rules! half {
    ($d_bits:literal, $b_bits:literal, $([$a:literal, $b:literal, $c:literal, $d:literal])+) => {
        concat!(
            registers!("vpaddd", $([$a, $b])+),
            registers!("vpxord", $([$d, $a])+),
            rotate!($d_bits, $($d)+),
            registers!("vpaddd", $([$c, $d])+),
            registers!("vpxord", $([$b, $c])+),
            rotate!($b_bits, $($b)+),
        )
    };
}

/// Quarter rounds side by side: those of `x` and of `y` in turn.
macro_rules! quarter_rounds {
    ($($lines:tt)+) => {
        concat!(half!(16, 12, $($lines)+), half!(8, 7, $($lines)+))
    };
}

/// A word that all blocks of both states share, from memory: four bytes at `offset`.
macro_rules! load_shared {
    ($from:literal, $([$x:literal, $y:literal, $offset:literal])+) => {
        concat!($(
            "vpbroadcastd zmm", $x, ", dword ptr [{", $from, "} + ", $offset, "]\n",
            "vmovdqa64 zmm", $y, ", zmm", $x, "\n",
        )+)
    };
}

macro_rules! add_shared {
    ($from:literal, $([$x:literal, $y:literal, $offset:literal])+) => {
        concat!($(
            "vpaddd zmm", $x, ", zmm", $x, ", dword ptr [{", $from, "} + ", $offset, "]{{1to16}}\n",
            "vpaddd zmm", $y, ", zmm", $y, ", dword ptr [{", $from, "} + ", $offset, "]{{1to16}}\n",
        )+)
    };
}

/// A word of one state, from memory: a vector at `offset`.
macro_rules! load {
    ($from:literal, $([$word:literal, $offset:literal])+) => {
        concat!($("vmovdqa64 zmm", $word, ", zmmword ptr [{", $from, "} + ", $offset, "]\n"),+)
    };
}

macro_rules! add {
    ($from:literal, $([$word:literal, $offset:literal])+) => {
        concat!($("vpaddd zmm", $word, ", zmm", $word, ", zmmword ptr [{", $from, "} + ", $offset, "]\n"),+)
    };
}

macro_rules! store {
    ($to:literal, $($word:literal)+) => {
        concat!($("vmovdqa64 zmmword ptr [{", $to, "} + 64 * ", $word, "], zmm", $word, "\n"),+)
    };
}

/// The keystream of thirty-two blocks, word by word.
#[target_feature(enable = "avx512f")]
#[inline]
pub(in super::super) fn blocks_twice(
    key: &[u32; 8],
    at: &[Positions; 2],
    blocks: &mut [Blocks; 2],
) {
    const { assert!(size_of::<Positions>() == 3 * 64 && size_of::<[Blocks; 2]>() == 32 * 64) };
    // SAFETY: reads what `CONSTANTS`, `key` and `at` hold and writes what `blocks` does, by aligned vectors
    // where those are vectors. Every register that it writes is named.
    unsafe {
        asm!(
            load_shared!("constants", [0, 16, 0] [1, 17, 4] [2, 18, 8] [3, 19, 12]),
            load_shared!("key", [4, 20, 0] [5, 21, 4] [6, 22, 8] [7, 23, 12]),
            load_shared!("key", [8, 24, 16] [9, 25, 20] [10, 26, 24] [11, 27, 28]),
            load!("at", [12, 0] [14, 64] [15, 128] [28, 192] [30, 256] [31, 320]),
            "vpxord zmm13, zmm13, zmm13",
            "vpxord zmm29, zmm29, zmm29",
            "2:",
            quarter_rounds!(
                [0, 4, 8, 12] [16, 20, 24, 28] [1, 5, 9, 13] [17, 21, 25, 29]
                [2, 6, 10, 14] [18, 22, 26, 30] [3, 7, 11, 15] [19, 23, 27, 31]
            ),
            quarter_rounds!(
                [0, 5, 10, 15] [16, 21, 26, 31] [1, 6, 11, 12] [17, 22, 27, 28]
                [2, 7, 8, 13] [18, 23, 24, 29] [3, 4, 9, 14] [19, 20, 25, 30]
            ),
            "dec {double_rounds:e}",
            "jnz 2b",
            add_shared!("constants", [0, 16, 0] [1, 17, 4] [2, 18, 8] [3, 19, 12]),
            add_shared!("key", [4, 20, 0] [5, 21, 4] [6, 22, 8] [7, 23, 12]),
            add_shared!("key", [8, 24, 16] [9, 25, 20] [10, 26, 24] [11, 27, 28]),
            add!("at", [12, 0] [14, 64] [15, 128] [28, 192] [30, 256] [31, 320]),
            store!("blocks", 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15),
            store!("blocks", 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31),
            constants = in(reg) &raw const CONSTANTS,
            key = in(reg) &raw const *key,
            at = in(reg) &raw const *at,
            blocks = in(reg) &raw mut *blocks,
            double_rounds = inout(reg) DOUBLE_ROUNDS => _,
            out("zmm0") _,
            out("zmm1") _,
            out("zmm2") _,
            out("zmm3") _,
            out("zmm4") _,
            out("zmm5") _,
            out("zmm6") _,
            out("zmm7") _,
            out("zmm8") _,
            out("zmm9") _,
            out("zmm10") _,
            out("zmm11") _,
            out("zmm12") _,
            out("zmm13") _,
            out("zmm14") _,
            out("zmm15") _,
            out("zmm16") _,
            out("zmm17") _,
            out("zmm18") _,
            out("zmm19") _,
            out("zmm20") _,
            out("zmm21") _,
            out("zmm22") _,
            out("zmm23") _,
            out("zmm24") _,
            out("zmm25") _,
            out("zmm26") _,
            out("zmm27") _,
            out("zmm28") _,
            out("zmm29") _,
            out("zmm30") _,
            out("zmm31") _,
            options(nostack),
        );
    }
}
