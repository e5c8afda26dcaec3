//! Both ciphers, whole, against AWS-LC. Ciphers for which the processor lacks instructions are
//! passed over; `batches_are_worked_on_as_a_whole_where_the_processor_can` in `tests/batch.rs` names
//! those.

mod wycheproof;

use super::*;
use crate::{Key, MAX_RECORDS, TAG_LEN};
use aes_gcm::tests::TestedLanes;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

const HEAD_LEN: usize = 16;

/// The implementations that are compared with AWS-LC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tested {
    ChaCha20Poly1305,
    Aes256Gcm(TestedLanes),
}

const ALL: [Tested; 4] = [
    Tested::ChaCha20Poly1305,
    Tested::Aes256Gcm(TestedLanes::Two),
    Tested::Aes256Gcm(TestedLanes::Four),
    Tested::Aes256Gcm(TestedLanes::TwiceTwo),
];

impl Tested {
    fn suite(self) -> Suite {
        match self {
            Self::ChaCha20Poly1305 => Suite::ChaCha20Poly1305,
            Self::Aes256Gcm(_) => Suite::Aes256Gcm,
        }
    }

    /// `None` where the processor lacks the instructions.
    fn key(self, bytes: &[u8; KEY_LEN]) -> Option<Box<dyn Batches>> {
        match self {
            Self::ChaCha20Poly1305 => Some(Box::new(chacha20_poly1305::Wide::detect(bytes)?)),
            Self::Aes256Gcm(lanes) => aes_gcm::tests::key(lanes, bytes),
        }
    }
}

pub(super) trait Batches {
    fn seal_batch(&self, first_nonce: u64, buffer: &mut [u8], layout: Layout);
    fn open_batch(&self, nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened;
}

impl Batches for chacha20_poly1305::Wide {
    fn seal_batch(&self, first_nonce: u64, buffer: &mut [u8], layout: Layout) {
        self.seal_batch(first_nonce, buffer, layout);
    }

    fn open_batch(&self, nonces: &[u64], buffer: &mut [u8], layout: Layout) -> Opened {
        self.open_batch(nonces, buffer, layout)
    }
}

/// True if this processor has the instructions.
pub(super) fn present(suite: Suite) -> bool {
    Wide::detect(suite, &[0; KEY_LEN]).is_some()
}

pub(super) fn hex(text: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).expect("a hexadecimal digit") as u8;
    let digits: Vec<u8> = text.bytes().map(digit).collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// A batch and both implementations of its key.
struct Case {
    wide: Box<dyn Batches>,
    portable: Key,
    layout: Layout,
    clear: Vec<u8>,
}

impl Case {
    /// `count` records of `plaintext_len` bytes, the last of `last_len`; `None` where the
    /// processor lacks the instructions.
    fn new(
        tested: Tested,
        key: [u8; 32],
        count: usize,
        plaintext_len: usize,
        last_len: usize,
    ) -> Option<Self> {
        let stride = HEAD_LEN + plaintext_len + TAG_LEN;
        let len = stride * (count - 1) + HEAD_LEN + last_len + TAG_LEN;
        Some(Self {
            wide: tested.key(&key)?,
            portable: Key::new_portable(tested.suite(), &key),
            layout: Layout {
                head_len: HEAD_LEN,
                stride,
            },
            clear: (0..len).map(|at| (at * 167 / 3) as u8).collect(),
        })
    }

    fn count(&self) -> usize {
        self.layout.count(self.clear.len())
    }

    fn sealed(&self, first_nonce: u64) -> Vec<u8> {
        let mut buffer = self.clear.clone();
        self.wide.seal_batch(first_nonce, &mut buffer, self.layout);
        buffer
    }

    /// As AWS-LC seals it.
    fn expected(&self, nonces: impl IntoIterator<Item = u64>) -> Vec<u8> {
        let mut buffer = self.clear.clone();
        for (index, nonce) in (0..self.count()).zip(nonces) {
            let record = &mut buffer[self.layout.record(index, self.clear.len())];
            let (plaintext, tag) = record[HEAD_LEN..]
                .split_last_chunk_mut()
                .expect("has a tag");
            *tag = self.portable.seal(nonce, &[], plaintext);
        }
        buffer
    }

    /// Asserts that the whole batch opens to what was sealed, heads and tags left as they were.
    fn assert_opens(&self, nonces: &[u64], sealed: &[u8]) {
        let mut buffer = sealed.to_vec();
        let opened = self.wide.open_batch(nonces, &mut buffer, self.layout);
        assert_eq!(opened.count(), self.count());
        let mut expected = sealed.to_vec();
        for index in 0..self.count() {
            let record = self.layout.record(index, buffer.len());
            let plaintext = record.start + HEAD_LEN..record.end - TAG_LEN;
            expected[plaintext.clone()].copy_from_slice(&self.clear[plaintext]);
        }
        assert!(buffer == expected);
    }
}

fn tested() -> impl Strategy<Value = Tested> {
    prop::sample::select(&ALL[..])
}

fn shape() -> impl Strategy<Value = (usize, usize, usize)> {
    (
        1usize..=MAX_RECORDS,
        prop_oneof![0usize..300, 0usize..=3000],
    )
        .prop_flat_map(|(count, len)| (Just(count), Just(len), prop_oneof![Just(len), 0..=len]))
}

/// Counters at whose neighbours a word carries.
fn counter() -> impl Strategy<Value = u64> {
    let around =
        |edge: u64| (0..=MAX_RECORDS as u64).prop_map(move |below| edge.wrapping_sub(below));
    prop_oneof![
        around(0),
        around(1 << 32),
        around(1 << 31),
        around(1 << 63),
        any::<u64>()
    ]
}

#[test]
fn tails_of_every_length_are_sealed_and_opened_in_groups_of_every_size() {
    for (tested, len) in ALL
        .into_iter()
        .flat_map(|tested| (0..=130).map(move |len| (tested, len)))
    {
        for count in [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33, 45] {
            for last_len in [len, len / 2, 0] {
                let Some(case) = Case::new(tested, [9; 32], count, len, last_len) else {
                    continue;
                };
                let nonces: Vec<u64> = (5..).take(count).collect();
                let sealed = case.sealed(5);
                assert!(
                    sealed == case.expected(nonces.iter().copied()),
                    "{tested:?}: {count} × {len}, {last_len}"
                );
                case.assert_opens(&nonces, &sealed);
            }
        }
    }
}

#[test]
fn records_of_every_length_up_to_3000_bytes_are_sealed_and_opened() {
    for (tested, len) in ALL
        .into_iter()
        .flat_map(|tested| (0..=3000).map(move |len| (tested, len)))
    {
        let count = 1 + len % 5;
        let Some(case) = Case::new(tested, [0xa5; 32], count, len, len / 3) else {
            continue;
        };
        let nonces: Vec<u64> = (1 << 40..).take(count).collect();
        let sealed = case.sealed(1 << 40);
        assert!(
            sealed == case.expected(nonces.iter().copied()),
            "{tested:?}: {len}"
        );
        case.assert_opens(&nonces, &sealed);
    }
}

#[test]
fn records_longer_than_any_packet_are_sealed_and_opened() {
    // The counters of the blocks of the last need more than 16 bits.
    for (tested, len) in ALL
        .into_iter()
        .flat_map(|tested| [9_000, 70_000, 1_100_003].map(|len| (tested, len)))
    {
        let Some(case) = Case::new(tested, [0x33; 32], 2, len, len - 1) else {
            continue;
        };
        let sealed = case.sealed(3);
        assert!(sealed == case.expected([3, 4]), "{tested:?}: {len}");
        case.assert_opens(&[3, 4], &sealed);
    }
}

#[test]
fn refused_records_hold_no_plaintext_and_others_are_whole() {
    for tested in ALL {
        let Some(case) = Case::new(tested, [3; 32], 20, 500, 77) else {
            continue;
        };
        let mut sealed = case.sealed(0);
        for index in [1, 15, 16, 19] {
            let record = case.layout.record(index, sealed.len());
            sealed[record.end - 1] ^= 0x80;
        }
        let nonces: Vec<u64> = (0..20).collect();
        let mut buffer = sealed.clone();
        let opened = case.wide.open_batch(&nonces, &mut buffer, case.layout);
        for index in 0..20 {
            let refused = [1, 15, 16, 19].contains(&index);
            let record = case.layout.record(index, sealed.len());
            let data = record.start + HEAD_LEN..record.end - TAG_LEN;
            assert_eq!(opened.get(index), !refused);
            let expected = match (refused, tested.suite()) {
                (false, _) => case.clear[data.clone()].to_vec(),
                (true, Suite::ChaCha20Poly1305) => sealed[data.clone()].to_vec(),
                (true, Suite::Aes256Gcm) => vec![0; data.len()],
            };
            assert!(buffer[data.clone()] == expected, "{tested:?}: {index}");
            assert_eq!(
                buffer[record.start..data.start],
                sealed[record.start..data.start]
            );
            assert_eq!(buffer[data.end..record.end], sealed[data.end..record.end]);
        }
    }
}

#[test]
fn a_last_record_without_room_for_its_tag_is_the_callers_fault() {
    for tested in ALL {
        let Some(case) = Case::new(tested, [3; 32], 3, 100, 0) else {
            continue;
        };
        let mut short = case.clear[..case.clear.len() - 1].to_vec();
        let seal = AssertUnwindSafe(|| case.wide.seal_batch(0, &mut short, case.layout));
        let panic = catch_unwind(seal).expect_err("there is no room for the tag");
        let message = panic.downcast_ref::<&str>().map(ToString::to_string);
        let message = message.or_else(|| panic.downcast_ref::<String>().cloned());
        assert_eq!(
            message.as_deref(),
            Some("every record has room for head and tag")
        );
    }
}

#[test]
fn records_past_the_limit_past_the_nonces_or_too_short_are_refused() {
    for tested in ALL {
        let Some(case) = Case::new(tested, [3; 32], MAX_RECORDS + 2, 10, 10) else {
            continue;
        };
        let nonces: Vec<u64> = (0..200).collect();
        let sealed = case.sealed(0);
        let open = |nonces: &[u64], len: usize| {
            case.wide
                .open_batch(nonces, &mut sealed[..len].to_vec(), case.layout)
        };
        assert_eq!(open(&nonces, sealed.len()).count(), MAX_RECORDS);
        assert_eq!(open(&nonces[..21], sealed.len()).count(), 21);
        assert_eq!(open(&[], sealed.len()), Opened::NONE);
        let five = 5 * case.layout.stride;
        assert_eq!(open(&nonces, five + HEAD_LEN + TAG_LEN - 1).count(), 5);
    }
}

proptest! {
    #[test]
    fn a_sealed_batch_is_what_aws_lc_makes_of_it(
        tested in tested(), key: [u8; 32], first in counter(), (count, len, last_len) in shape(),
    ) {
        let Some(case) = Case::new(tested, key, count, len, last_len) else {
            return Ok(());
        };
        let nonces = (0..count as u64).map(|index| first.wrapping_add(index));
        prop_assert!(case.sealed(first) == case.expected(nonces));
    }

    #[test]
    fn what_aws_lc_sealed_under_any_nonces_opens(
        tested in tested(), key: [u8; 32], (count, len, last_len) in shape(),
        nonces in prop::collection::vec(counter(), MAX_RECORDS),
    ) {
        let Some(case) = Case::new(tested, key, count, len, last_len) else {
            return Ok(());
        };
        case.assert_opens(&nonces, &case.expected(nonces.iter().copied()));
    }

    #[test]
    fn exactly_the_records_with_flipped_bits_are_refused(
        tested in tested(), (count, len, last_len) in shape(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..6),
    ) {
        let Some(case) = Case::new(tested, [1; 32], count, len, last_len) else {
            return Ok(());
        };
        let intact = case.sealed(0);
        let mut buffer = intact.clone();
        for (at, bit) in flips {
            buffer[at.index(intact.len())] ^= 1 << bit;
        }
        let changed: Vec<bool> = (0..count)
            .map(|index| case.layout.record(index, intact.len()))
            .map(|record| record.start + HEAD_LEN..record.end)
            .map(|sealed| buffer[sealed.clone()] != intact[sealed])
            .collect();
        let nonces: Vec<u64> = (0..count as u64).collect();
        let opened = case.wide.open_batch(&nonces, &mut buffer, case.layout);
        for (index, changed) in changed.into_iter().enumerate() {
            prop_assert_eq!(opened.get(index), !changed);
        }
    }

    #[test]
    fn a_record_is_refused_under_any_other_nonce(
        tested in tested(), nonce in counter(), bit in 0u32..64, len in 0usize..2000,
    ) {
        let Some(case) = Case::new(tested, [7; 32], 3, len, len) else {
            return Ok(());
        };
        let nonces = [0, 1, 2].map(|index| nonce.wrapping_add(index));
        let mut buffer = case.sealed(nonce);
        let given = [nonces[0], nonces[1] ^ 1u64 << bit, nonces[2]];
        let opened = case.wide.open_batch(&given, &mut buffer, case.layout);
        prop_assert_eq!([0, 1, 2].map(|index| opened.get(index)), [true, false, true]);
    }
}
