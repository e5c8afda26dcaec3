//! The parts of AES-256-GCM, for vectors of every width.

mod twice;

use super::*;
use crate::Suite;
use crate::vector::tests::{Batches, hex};
use ghash::Powers;
use proptest::prelude::*;
use schedule::Schedule;
use twice::Twice;

/// The vectors to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vector) enum TestedLanes {
    Two,
    Four,
    /// Two vectors of two as one of four, so that what is common to all widths is tested with four
    /// lanes on more processors.
    TwiceTwo,
}

/// `None` where the processor lacks the instructions.
pub(in crate::vector) fn key(
    lanes: TestedLanes,
    bytes: &[u8; KEY_LEN],
) -> Option<Box<dyn Batches>> {
    Some(match lanes {
        TestedLanes::Two => Box::new(Key::new(Avx2::detect()?, bytes)),
        TestedLanes::Four => Box::new(Key::new(Avx512::detect()?, bytes)),
        TestedLanes::TwiceTwo => Box::new(Key::new(Twice::detect()?, bytes)),
    })
}

impl<V: Vectors<LANES>, const LANES: usize> Batches for Key<V, LANES> {
    fn seal_batch(&self, first_nonce: u64, buffer: &mut [u8], layout: Layout) {
        self.seal_batch(first_nonce, buffer, layout);
    }

    fn open_batch(&self, nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened {
        self.open_batch(nonces, buffer, layout)
    }
}

/// Has `$check` called with the vectors of every width that the processor has instructions for.
macro_rules! with_every_width {
    ($check:ident($($argument:expr),*)) => {
        if let Some(vectors) = Avx2::detect() {
            $check(vectors, $($argument),*);
        }
        if let Some(vectors) = Avx512::detect() {
            $check(vectors, $($argument),*);
        }
        if let Some(vectors) = Twice::detect() {
            $check(vectors, $($argument),*);
        }
    };
}

mod wycheproof;

/// SP 800-38D §6.3: "multiplication … on blocks", a bit at a time.
fn slow_product(x: u128, y: u128) -> u128 {
    let mut z = 0;
    let mut v = y;
    for bit in (0..128).rev() {
        if x >> bit & 1 == 1 {
            z ^= v;
        }
        v = v >> 1 ^ if v & 1 == 1 { 0xe1 << 120 } else { 0 };
    }
    z
}

/// SP 800-38D §6.4.
fn slow_hash(h: u128, blocks: impl IntoIterator<Item = u128>) -> u128 {
    blocks.into_iter().fold(0, |y, x| slow_product(y ^ x, h))
}

/// The hash of `blocks` and of their length, made in one reduction.
fn fast_hash<const LANES: usize>(vectors: impl Vectors<LANES>, h: u128, blocks: &[u128]) -> u128 {
    let mut powers = Powers::ZERO;
    powers.fill(vectors, h.to_be_bytes());
    let mut sum = Sum::zero(vectors);
    for (row, powers) in blocks.chunks(LANES).zip(powers.from(blocks.len() + 1)) {
        let mut bytes = [[0; 16]; LANES];
        for (bytes, block) in bytes.iter_mut().zip(row) {
            *bytes = block.to_be_bytes();
        }
        let row = vectors.reverse(vectors.load(&bytes));
        sum.add(row, vectors.load(powers));
    }
    let mut sums = [Sum::zero(vectors); LANES];
    let mut bit_lens = [0; LANES];
    sums[1] = sum;
    bit_lens[1] = 128 * blocks.len() as u64;
    let hashes = vectors.blocks(ghash::hashes(&powers, &sums, bit_lens));
    for (lane, hash) in hashes.iter().enumerate() {
        assert!(lane == 1 || *hash == [0; 16]);
    }
    u128::from_be_bytes(hashes[1])
}

fn assert_hashes_equal<const LANES: usize>(vectors: impl Vectors<LANES>, h: u128, blocks: &[u128]) {
    let len = 128 * blocks.len() as u128;
    let slow = slow_hash(h, blocks.iter().copied().chain([len]));
    assert_eq!(fast_hash(vectors, h, blocks), slow);
}

/// Blocks at whose bits products carry or are cut off, and any others.
fn block() -> impl Strategy<Value = u128> {
    prop_oneof![
        Just(0),
        Just(u128::MAX),
        (0u32..128).prop_map(|bit| 1 << bit),
        any::<u128>()
    ]
}

/// The key, the nonce, the plaintext, the ciphertext and the tag of a test case.
fn assert_sealed_as_published<const LANES: usize>(
    vectors: impl Vectors<LANES>,
    [key, nonce, clear, cipher, tag]: [&str; 5],
) {
    let key = hex(key).try_into().expect("a key of 256 bits");
    let mut block = [0; 16];
    block[..12].copy_from_slice(&hex(nonce));
    let mut buffer = hex(clear);
    buffer.extend([0; TAG_LEN]);
    let layout = Layout {
        head_len: 0,
        stride: buffer.len(),
    };
    let key = Key::new(vectors, &key);
    let tags = key
        .secrets
        .crypt::<true>(0..1, &[block; LANES], &mut buffer, layout);
    assert_eq!(buffer[..buffer.len() - TAG_LEN], hex(cipher));
    assert_eq!(vectors.blocks(tags)[0], *hex(tag));
}

fn assert_encrypted_as_published<const LANES: usize>(vectors: impl Vectors<LANES>) {
    let mut schedule = Schedule::ZERO;
    schedule.fill(vectors, &core::array::from_fn(|index| index as u8));
    let block: [u8; 16] = core::array::from_fn(|index| index as u8 * 0x11);
    let expected = hex("8ea2b7ca516745bfeafc49904b496089");
    for lane in 0..LANES {
        let mut blocks = [[0; 16]; LANES];
        blocks[lane] = block;
        let encrypted = schedule.encrypt(vectors, vectors.load(&blocks));
        assert_eq!(vectors.blocks(encrypted)[lane], *expected);
    }
}

/// FIPS 197 appendix C.3.
#[test]
fn each_block_of_a_vector_is_encrypted_as_the_standard_shows() {
    with_every_width!(assert_encrypted_as_published());
}

/// Test cases 13 to 15 of the GCM specification (McGrew and Viega), all that have a key of 256 bits,
/// a nonce of 96 and no associated data.
#[test]
fn records_are_sealed_as_the_specification_of_gcm_shows() {
    let zeros = "00".repeat(32);
    with_every_width!(assert_sealed_as_published([
        &zeros,
        &zeros[..24],
        "",
        "",
        "530f8afbc74536b9a963b4f1c4cb738b",
    ]));
    with_every_width!(assert_sealed_as_published([
        &zeros,
        &zeros[..24],
        &zeros[..32],
        "cea7403d4d606b6e074ec5d3baf39d18",
        "d0d1c8a799996bf0265b98b5d48ab919",
    ]));
    with_every_width!(assert_sealed_as_published([
        &"feffe9928665731c6d6a8f9467308308".repeat(2),
        "cafebabefacedbaddecaf888",
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
         1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
         8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
        "b094dac5d93471bdec1a502270e3cc6c",
    ]));
}

#[test]
fn tags_that_differ_in_one_bit_are_told_apart_in_every_lane() {
    with_every_width!(assert_tells_differences());
}

fn assert_tells_differences<const LANES: usize>(vectors: impl Vectors<LANES>) {
    let tags = [[0x5a; 16]; LANES];
    let loaded = vectors.load(&tags);
    assert_eq!(vectors.differences(loaded, loaded), 0);
    for bit in 0..LANES * 128 {
        let mut others = tags;
        others.as_flattened_mut()[bit / 8] ^= 1 << (bit % 8);
        let differences = vectors.differences(loaded, vectors.load(&others));
        assert_eq!(differences, 1 << (bit / 64));
    }
}

proptest! {
    #[test]
    fn a_sum_that_is_reduced_once_is_the_hash_worked_out_bit_by_bit(
        h in block(), blocks in prop::collection::vec(block(), 0..ghash::POWERS),
    ) {
        with_every_width!(assert_hashes_equal(h, &blocks));
    }
}
