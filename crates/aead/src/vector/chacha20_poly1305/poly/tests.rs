use super::*;
use crate::Suite;
use crate::vector::chacha20_poly1305::chacha;
use crate::vector::tests::{hex, present};
use crate::wycheproof::{Vector, vectors};
use proptest::prelude::*;

const CLAMP: u128 = 0x0fff_fffc_0fff_fffc_0fff_fffc_0fff_ffff;

/// A number modulo p as its bits from 128 on and those below, worked on a bit at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Slow(u8, u128);

impl Slow {
    const P: Self = Self(3, u128::MAX - 4);

    fn plus(self, other: Self) -> Self {
        let (low, carry) = self.1.overflowing_add(other.1);
        let mut sum = Self(self.0 + other.0 + u8::from(carry), low);
        while sum >= Self::P {
            let (low, borrow) = sum.1.overflowing_sub(Self::P.1);
            sum = Self(sum.0 - Self::P.0 - u8::from(borrow), low);
        }
        sum
    }

    fn times(self, factor: u128) -> Self {
        (0..128).rev().fold(Self(0, 0), |product, bit| {
            let doubled = product.plus(product);
            if factor >> bit & 1 == 1 {
                doubled.plus(self)
            } else {
                doubled
            }
        })
    }
}

/// A block as a number below 2^129: whether it has the bit 2^128, and the rest.
type Block = (bool, u128);

/// RFC 8439 §2.5: "add one bit beyond the number of octets".
fn blocks_of(message: &[u8]) -> Vec<Block> {
    message
        .chunks(BLOCK_LEN)
        .map(|chunk| {
            let mut bytes = [0; BLOCK_LEN];
            bytes[..chunk.len()].copy_from_slice(chunk);
            if let Some(behind) = bytes.get_mut(chunk.len()) {
                *behind = 1;
            }
            (chunk.len() == BLOCK_LEN, u128::from_le_bytes(bytes))
        })
        .collect()
}

/// RFC 8439 §2.8.
fn aead_blocks_of(associated: &[u8], message: &[u8]) -> Vec<Block> {
    let mut padded = Vec::new();
    for part in [associated, message] {
        padded.extend_from_slice(part);
        padded.resize(padded.len().next_multiple_of(BLOCK_LEN), 0);
    }
    for part in [associated, message] {
        padded.extend((part.len() as u64).to_le_bytes());
    }
    blocks_of(&padded)
}

fn reference(r: u128, s: u128, blocks: &[Block]) -> u128 {
    let h = blocks.iter().fold(Slow(0, 0), |h, &(high, low)| {
        h.plus(Slow(u8::from(high), low)).times(r & CLAMP)
    });
    h.1.wrapping_add(s)
}

fn halves(numbers: [u128; LANES]) -> [[u64; LANES]; 2] {
    [
        numbers.map(|number| number as u64),
        numbers.map(|number| (number >> 64) as u64),
    ]
}

#[target_feature(enable = "avx512f")]
fn keys(r: [u128; LANES], s: [u128; LANES]) -> Keys {
    Keys {
        r: halves(r).map(|words| memory::load_double_words(&words)),
        s: halves(s).map(|words| memory::load_double_words(&words)),
    }
}

#[target_feature(enable = "avx512f")]
fn numbers(tags: Tags) -> [u128; LANES] {
    let [low, high] = tags.0.map(|words| memory::double_words(words));
    core::array::from_fn(|lane| u128::from(high[lane]) << 64 | u128::from(low[lane]))
}

/// The same blocks in all lanes under eight keys, four at a time, null blocks in front.
fn absorbed(r: [u128; LANES], s: [u128; LANES], blocks: &[Block]) -> [u128; LANES] {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma,avx512vbmi2")]
    fn inner(r: [u128; LANES], s: [u128; LANES], blocks: &[Block]) -> [u128; LANES] {
        let keys = keys(r, s);
        let powers = Powers::new(keys.r);
        let mut h = [_mm512_setzero_si512(); 3];
        for row in blocks.chunks(BLOCKS_PER_ROW) {
            let mut bytes = [0; ROW_LEN];
            for (bytes, (_, low)) in bytes.chunks_mut(BLOCK_LEN).zip(row) {
                bytes.copy_from_slice(&low.to_le_bytes());
            }
            let high_bits = core::array::from_fn(|index| {
                _mm512_set1_epi64(if row[index].0 { HIGH_BIT } else { 0 })
            });
            h = absorb(&powers, h, [memory::load(&bytes); LANES], high_bits);
        }
        numbers(finish(h, keys.s))
    }
    let mut padded = vec![(false, 0); blocks.len().next_multiple_of(BLOCKS_PER_ROW) - blocks.len()];
    padded.extend(blocks);
    // SAFETY: the callers return where the processor lacks the features.
    unsafe { inner(r, s, &padded) }
}

/// The tags of eight messages under eight keys.
fn tagged(r: [u128; LANES], s: [u128; LANES], messages: [&[u8]; LANES]) -> [u128; LANES] {
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512ifma,avx512vbmi2")]
    fn inner(r: [u128; LANES], s: [u128; LANES], messages: [&[u8]; LANES]) -> [u128; LANES] {
        numbers(tags(&keys(r, s), messages))
    }
    // SAFETY: the callers return where the processor lacks the features.
    unsafe { inner(r, s, messages) }
}

fn number(text: &str) -> u128 {
    u128::from_le_bytes(hex(text).try_into().expect("sixteen bytes"))
}

/// (r, s, message, tag)
fn rfc_8439_vectors() -> Vec<(u128, u128, Vec<u8>, u128)> {
    let contribution = "Any submission to the IETF intended by the Contributor for publication as \
        all or part of an IETF Internet-Draft or RFC and any statement made within the context of \
        an IETF activity is considered an \"IETF Contribution\". Such statements include oral \
        statements in IETF sessions, as well as written and electronic communications made at any \
        time or place, which are addressed to";
    let poem = "'Twas brillig, and the slithy toves\nDid gyre and gimble in the wabe:\n\
        All mimsy were the borogoves,\nAnd the mome raths outgrabe.";
    let text = |text: &str| text.as_bytes().to_vec();
    let key = number("36e5f6b5c5e06070f0efca96227a863e");
    let ones = "ffffffffffffffffffffffffffffffff";
    let carry = "e33594d7505e43b900000000000000003394d7505e4379cd0100000000000000\
                 00000000000000000000000000000000";
    let one_of_four = 4 << 64 | 1;
    vec![
        // §2.5.2
        (
            number("85d6be7857556d337f4452fe42d506a8"),
            number("0103808afb0db2fd4abff6af4149f51b"),
            text("Cryptographic Forum Research Group"),
            number("a8061dc1305136c6c22b8baf0c0127a9"),
        ),
        // Appendix A.3, 1 to 11
        (0, 0, vec![0; 64], 0),
        (0, key, text(contribution), key),
        (
            key,
            0,
            text(contribution),
            number("f3477e7cd95417af89a6b8794c310cf0"),
        ),
        (
            number("1c9240a5eb55d38af333888604f6b5f0"),
            number("473917c1402b80099dca5cbc207075c0"),
            text(poem),
            number("4541669a7eaaee61e708dc7cbcc5eb62"),
        ),
        (2, 0, hex(ones), 3),
        (2, u128::MAX, [2].into_iter().chain([0; 15]).collect(), 3),
        (
            1,
            0,
            hex(&[
                ones,
                "f0ffffffffffffffffffffffffffffff",
                "11000000000000000000000000000000",
            ]
            .concat()),
            5,
        ),
        (
            1,
            0,
            hex(&[
                ones,
                "fbfefefefefefefefefefefefefefefe",
                "01010101010101010101010101010101",
            ]
            .concat()),
            0,
        ),
        (2, 0, hex("fdffffffffffffffffffffffffffffff"), u128::MAX - 5),
        (
            one_of_four,
            0,
            hex(&[carry, "01000000000000000000000000000000"].concat()),
            number("14000000000000005500000000000000"),
        ),
        (one_of_four, 0, hex(carry), 0x13),
    ]
}

/// Blocks and keys at which carries run through all limbs.
fn extreme() -> impl Strategy<Value = u128> {
    prop_oneof![
        Just(0),
        Just(1),
        Just(u128::MAX),
        (0u128..8).prop_map(|below| u128::MAX - below),
        (0u32..128).prop_map(|bit| 1 << bit),
        (0u32..128).prop_map(|bit| (1 << bit) - 1),
        Just(CLAMP),
        any::<u128>(),
    ]
}

#[test]
fn the_reference_matches_rfc_8439_section_2_5_2_and_appendix_a_3() {
    for (r, s, message, tag) in rfc_8439_vectors() {
        assert_eq!(reference(r, s, &blocks_of(&message)), tag);
    }
}

#[test]
fn every_lane_matches_rfc_8439_section_2_5_2_and_appendix_a_3() {
    if !present(Suite::ChaCha20Poly1305) {
        return;
    }
    for (r, s, message, tag) in rfc_8439_vectors() {
        assert_eq!(
            absorbed([r; LANES], [s; LANES], &blocks_of(&message)),
            [tag; LANES]
        );
    }
}

/// The one-time key of a record, by the reference of the block function: `r` and `s`.
fn one_time_key(vector: &Vector) -> [u128; 2] {
    let block = chacha::tests::reference(&vector.key, 0, vector.nonce);
    let (words, _) = block.as_chunks();
    [0, 1].map(|half| u128::from_le_bytes(words[half]))
}

/// Edge cases of the arithmetic and of the key, modified tags, with associated data: the hash takes
/// any blocks, so it meets every vector as it is.
#[test]
fn every_lane_makes_the_tags_of_wycheproof() {
    if !present(Suite::ChaCha20Poly1305) {
        return;
    }
    let mut ran = 0;
    for vector in vectors(Suite::ChaCha20Poly1305) {
        let [r, s] = one_time_key(&vector);
        let blocks = aead_blocks_of(&vector.associated, &vector.cipher);
        let expected = u128::from_le_bytes(vector.tag);
        for tag in absorbed([r; LANES], [s; LANES], &blocks) {
            assert_eq!(tag == expected, vector.valid, "{}", vector.id);
        }
        if vector.associated.is_empty() {
            let tags = tagged([r; LANES], [s; LANES], [&vector.cipher; LANES]);
            assert_eq!(tags, [expected; LANES], "{}", vector.id);
        }
        ran += 1;
    }
    eprintln!("{ran} vectors");
    assert_eq!(ran, 316);
}

#[test]
fn sums_around_p_and_its_multiples_are_reduced_fully() {
    if !present(Suite::ChaCha20Poly1305) {
        return;
    }
    // With r = 1 the hash is the sum of the blocks: 2^130 - 5 is three blocks of 2^128 and more.
    for parts in 0..3 {
        for offset in -8..=8i128 {
            for multiple in 1..=2u8 {
                let mut blocks = vec![(true, 0); usize::from(4 * multiple) - 1];
                let rest = (-5 * i128::from(multiple) + offset).cast_unsigned();
                // The rest is split, so that the carry happens at different steps.
                for part in 0..parts {
                    blocks.push((false, 7 << (40 * part)));
                }
                let taken = (0..parts).fold(0, |sum, part| sum + (7 << (40 * part)));
                blocks.push((rest.cast_signed() >= 0, rest.wrapping_sub(taken)));
                let tags = absorbed([1; LANES], [0; LANES], &blocks);
                assert_eq!(
                    tags,
                    [reference(1, 0, &blocks); LANES],
                    "{parts} {offset} {multiple}"
                );
            }
        }
    }
}

#[test]
fn limbs_as_large_as_a_reduction_leaves_them_are_reduced_fully() {
    #[target_feature(enable = "avx512f,avx512dq")]
    fn inner(limbs: [u64; 3]) -> u128 {
        let h = limbs.map(|limb| _mm512_set1_epi64(limb.cast_signed()));
        numbers(finish(h, [_mm512_setzero_si512(); 2]))[0]
    }
    if !present(Suite::ChaCha20Poly1305) {
        return;
    }
    let [low, middle, top] = [1 << 44, (1 << 44) + (1 << 10), 1 << 42];
    for h0 in (0..8).chain(low - 8..low) {
        for h1 in [0, 1]
            .into_iter()
            .chain((1 << 44) - 2..(1 << 44) + 2)
            .chain([middle - 1])
        {
            for h2 in [0, 1, top - 2, top - 1] {
                let [bits_44, bits_88] = [1 << 44, 1 << 88];
                let value = Slow(0, h0.into())
                    .plus(Slow(0, u128::from(h1) * bits_44))
                    .plus(Slow(0, h2.into()).times(bits_88));
                // SAFETY: this returns above where the processor lacks the features.
                let reduced = unsafe { inner([h0, h1, h2]) };
                assert_eq!(reduced, value.1, "{h0:#x} {h1:#x} {h2:#x}");
            }
        }
    }
}

#[test]
fn messages_of_every_length_are_padded_and_carry_their_length() {
    if !present(Suite::ChaCha20Poly1305) {
        return;
    }
    let message: Vec<u8> = (0..=255).collect();
    let r = core::array::from_fn(|lane| u128::MAX / (lane as u128 + 1));
    let s = core::array::from_fn(|lane| u128::MAX / (lane as u128 + 3));
    for len in 0..=message.len() {
        let tags = tagged(r, s, [&message[..len]; LANES]);
        let expected =
            |lane: usize| reference(r[lane], s[lane], &aead_blocks_of(&[], &message[..len]));
        assert_eq!(tags, core::array::from_fn(expected), "{len} bytes");
    }
}

proptest! {
    #[test]
    fn extreme_keys_and_blocks_give_the_tags_of_the_reference(
        r in prop::array::uniform8(extreme()), s in prop::array::uniform8(extreme()),
        blocks in prop::collection::vec((any::<bool>(), extreme()), 1..24),
    ) {
        if !present(Suite::ChaCha20Poly1305) {
            return Ok(());
        }
        let expected = core::array::from_fn(|lane| reference(r[lane], s[lane], &blocks));
        prop_assert_eq!(absorbed(r, s, &blocks), expected);
    }

    #[test]
    fn messages_of_different_lengths_share_the_lanes(
        r: [u128; LANES], s: [u128; LANES],
        messages in prop::array::uniform8(prop::collection::vec(any::<u8>(), 0..400)),
    ) {
        if !present(Suite::ChaCha20Poly1305) {
            return Ok(());
        }
        let tags = tagged(r, s, messages.each_ref().map(Vec::as_slice));
        for lane in 0..LANES {
            let expected = reference(r[lane], s[lane], &aead_blocks_of(&[], &messages[lane]));
            prop_assert_eq!(tags[lane], expected);
        }
    }
}
