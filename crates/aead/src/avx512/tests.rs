//! The whole implementation against AWS-LC. Where the processor lacks AVX-512 these tests pass
//! without testing anything; `batches_are_worked_on_as_a_whole_where_the_processor_can` in
//! `tests/batch.rs` says which.

use super::*;
use crate::{Key, Suite, TAG_LEN};
use proptest::prelude::*;

const HEAD_LEN: usize = 16;

/// Whether this processor has the instructions.
pub(super) fn present() -> bool {
    Wide::detect(&[0; KEY_LEN]).is_some()
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
    wide: Wide,
    portable: Key,
    layout: Layout,
    clear: Vec<u8>,
}

impl Case {
    /// `count` records of `plaintext_len` bytes, the last of `last_len`; `None` where the
    /// processor lacks the instructions.
    fn new(key: [u8; 32], count: usize, plaintext_len: usize, last_len: usize) -> Option<Self> {
        let stride = HEAD_LEN + plaintext_len + TAG_LEN;
        let len = stride * (count - 1) + HEAD_LEN + last_len + TAG_LEN;
        Some(Self {
            wide: Wide::detect(&key)?,
            portable: Key::new_portable(Suite::ChaCha20Poly1305, &key),
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

fn shape() -> impl Strategy<Value = (usize, usize, usize)> {
    (
        1usize..=MAX_RECORDS,
        prop_oneof![0usize..300, 0usize..=2000],
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
    for len in 0..=130 {
        for count in [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 33, 45] {
            for last_len in [len, len / 2, 0] {
                let Some(case) = Case::new([9; 32], count, len, last_len) else {
                    return;
                };
                let nonces: Vec<u64> = (5..).take(count).collect();
                let sealed = case.sealed(5);
                assert!(
                    sealed == case.expected(nonces.iter().copied()),
                    "{count} × {len}, {last_len}"
                );
                case.assert_opens(&nonces, &sealed);
            }
        }
    }
}

#[test]
fn refused_records_stay_as_they_were() {
    let Some(case) = Case::new([3; 32], 20, 500, 77) else {
        return;
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
        assert_eq!(opened.get(index), !refused);
        assert_eq!(buffer[record.clone()] == sealed[record], refused);
    }
}

#[test]
#[should_panic(expected = "every record has room for head and tag")]
fn a_last_record_without_room_for_its_tag_is_the_callers_fault() {
    let case = Case::new([3; 32], 3, 100, 0).expect("every record has room for head and tag");
    let mut short = case.clear[..case.clear.len() - 1].to_vec();
    case.wide.seal_batch(0, &mut short, case.layout);
}

#[test]
fn records_past_the_limit_past_the_nonces_or_too_short_are_refused() {
    let Some(case) = Case::new([3; 32], MAX_RECORDS + 2, 10, 10) else {
        return;
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

proptest! {
    #[test]
    fn a_sealed_batch_is_what_aws_lc_makes_of_it(
        key: [u8; 32], first in counter(), (count, len, last_len) in shape(),
    ) {
        let Some(case) = Case::new(key, count, len, last_len) else {
            return Ok(());
        };
        let nonces = (0..count as u64).map(|index| first.wrapping_add(index));
        prop_assert!(case.sealed(first) == case.expected(nonces));
    }

    #[test]
    fn what_aws_lc_sealed_under_any_nonces_opens(
        key: [u8; 32], (count, len, last_len) in shape(),
        nonces in prop::collection::vec(counter(), MAX_RECORDS),
    ) {
        let Some(case) = Case::new(key, count, len, last_len) else {
            return Ok(());
        };
        case.assert_opens(&nonces, &case.expected(nonces.iter().copied()));
    }

    #[test]
    fn exactly_the_records_with_flipped_bits_are_refused(
        (count, len, last_len) in shape(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..6),
    ) {
        let Some(case) = Case::new([1; 32], count, len, last_len) else {
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
}
