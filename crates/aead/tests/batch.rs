//! The batch interface against single records and against published vectors.

use culvert_aead::{Key, Layout, MAX_RECORDS, Opened, Suite, TAG_LEN};
use proptest::prelude::*;

const HEAD_LEN: usize = 16;

fn suite() -> impl Strategy<Value = Suite> {
    prop_oneof![Just(Suite::ChaCha20Poly1305), Just(Suite::Aes256Gcm)]
}

/// A buffer of `count` records with `plaintext_len` bytes each, the last with `last_len`.
fn batch() -> impl Strategy<Value = (usize, Vec<u8>)> {
    (0usize..200, 1usize..=MAX_RECORDS).prop_flat_map(|(plaintext_len, count)| {
        (0..=plaintext_len).prop_flat_map(move |last_len| {
            let stride = HEAD_LEN + plaintext_len + TAG_LEN;
            let total = stride * (count - 1) + HEAD_LEN + last_len + TAG_LEN;
            (Just(stride), prop::collection::vec(any::<u8>(), total))
        })
    })
}

proptest! {
    #[test]
    fn a_sealed_batch_opens_to_what_was_sealed(
        suite in suite(), key: [u8; 32], first in 0u64..=u64::MAX - MAX_RECORDS as u64,
        (stride, clear) in batch(),
    ) {
        let key = Key::new(suite, &key);
        let layout = Layout { head_len: HEAD_LEN, stride };
        let count = layout.count(clear.len());
        let mut buffer = clear.clone();
        key.seal_batch(first, &mut buffer, layout);
        let nonces: Vec<u64> = (first..).take(count).collect();
        let opened = key.open_batch(&nonces, &mut buffer, layout);
        prop_assert_eq!(opened.count(), count);
        for index in 0..count {
            let record = layout.record(index, clear.len());
            let without_tag = record.start..record.end - TAG_LEN;
            prop_assert_eq!(&buffer[without_tag.clone()], &clear[without_tag]);
        }
    }

    #[test]
    fn a_batch_equals_its_records_sealed_one_by_one(
        suite in suite(), key: [u8; 32], first in 0u64..1 << 60, (stride, clear) in batch(),
    ) {
        let key = Key::new(suite, &key);
        let layout = Layout { head_len: HEAD_LEN, stride };
        let mut together = clear.clone();
        key.seal_batch(first, &mut together, layout);
        let mut apart = clear;
        let total = apart.len();
        for index in 0..layout.count(total) {
            let record = &mut apart[layout.record(index, total)];
            let tag_at = record.len() - TAG_LEN;
            let tag = key.seal(first + index as u64, &[], &mut record[HEAD_LEN..tag_at]);
            record[tag_at..].copy_from_slice(&tag);
        }
        prop_assert_eq!(together, apart);
    }

    #[test]
    fn only_the_record_with_a_flipped_bit_is_refused(
        suite in suite(), key: [u8; 32], (stride, clear) in batch(), spot: prop::sample::Index, bit in 0u8..8,
    ) {
        let key = Key::new(suite, &key);
        let layout = Layout { head_len: HEAD_LEN, stride };
        let mut buffer = clear;
        let total = buffer.len();
        key.seal_batch(7, &mut buffer, layout);
        let at = spot.index(total);
        buffer[at] ^= 1 << bit;
        let count = layout.count(total);
        let nonces: Vec<u64> = (7..).take(count).collect();
        let opened = key.open_batch(&nonces, &mut buffer, layout);
        for index in 0..count {
            let record = layout.record(index, total);
            let in_head = at < record.start + HEAD_LEN;
            prop_assert_eq!(opened.get(index), !record.contains(&at) || in_head);
        }
    }

    #[test]
    fn a_buffer_of_any_length_and_stride_is_opened_without_a_panic(
        suite in suite(), mut buffer in prop::collection::vec(any::<u8>(), 0..4096), stride in 0usize..200,
    ) {
        let key = Key::new(suite, &[1; 32]);
        let layout = Layout { head_len: HEAD_LEN, stride };
        prop_assert_eq!(key.open_batch(&[0; MAX_RECORDS], &mut buffer, layout), Opened::NONE);
    }
}

/// RFC 8439 appendix A.5 uses associated data and a nonce that a counter can't make, so the vector
/// here is that of an empty message under the zero key, which every implementation agrees on.
#[test]
fn chacha20_poly1305_of_nothing_under_the_zero_key_is_the_known_tag() {
    let key = Key::new(Suite::ChaCha20Poly1305, &[0; 32]);
    assert_eq!(
        key.seal(0, &[], &mut []),
        [
            0x4e, 0xb9, 0x72, 0xc9, 0xa8, 0xfb, 0x3a, 0x1b, 0x38, 0x2b, 0xb4, 0xd3, 0x6f, 0x5f,
            0xfa, 0xd1
        ]
    );
}

/// The AES-256 test cases 13 and 14 of the GCM specification (McGrew and Viega), by themselves and in
/// front of a batch.
#[test]
fn aes_256_gcm_matches_the_test_cases_of_its_specification() {
    let nothing = [
        0x53, 0x0f, 0x8a, 0xfb, 0xc7, 0x45, 0x36, 0xb9, 0xa9, 0x63, 0xb4, 0xf1, 0xc4, 0xcb, 0x73,
        0x8b,
    ];
    let block = [
        0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5, 0xd3, 0xba, 0xf3, 0x9d,
        0x18,
    ];
    let tag = [
        0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0, 0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9,
        0x19,
    ];
    for key in [Key::new, Key::new_portable].map(|key| key(Suite::Aes256Gcm, &[0; 32])) {
        assert_eq!(key.seal(0, &[], &mut []), nothing);
        let mut alone = [0; 16];
        assert_eq!(key.seal(0, &[], &mut alone), tag);
        assert_eq!(alone, block);
        for count in [1, 2, 7] {
            let layout = |stride| Layout {
                head_len: 0,
                stride,
            };
            let mut batch = vec![0; 16 * count];
            key.seal_batch(0, &mut batch, layout(16));
            assert_eq!(batch[..16], nothing);
            let mut batch = vec![0; 32 * count];
            key.seal_batch(0, &mut batch, layout(32));
            assert_eq!(batch[..32], [block, tag].concat());
        }
    }
}

#[test]
fn the_key_does_not_show_in_debug_output() {
    let key = Key::new(Suite::Aes256Gcm, &[0xab; 32]);
    assert_eq!(format!("{key:?}"), "Key { suite: Aes256Gcm, .. }");
    let key = Key::new(Suite::ChaCha20Poly1305, &[0xab; 32]);
    assert_eq!(format!("{key:?}"), "Key { suite: ChaCha20Poly1305, .. }");
}

/// `/proc/cpuinfo` is how the kernel names the instructions, independently of how we ask for them.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn chacha20_is_always_fast_and_aes_where_the_processor_has_instructions_for_it() {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").expect("the kernel describes the CPU");
    let (list, product) = match cfg!(target_arch = "x86_64") {
        true => ("flags", "pclmulqdq"),
        false => ("Features", "pmull"),
    };
    // An emulator may show the processor of its host.
    let Some(flags) = cpuinfo.lines().find(|line| line.starts_with(list)) else {
        return;
    };
    let flags: Vec<&str> = flags.split_whitespace().collect();
    let aes = flags.contains(&"aes") && flags.contains(&product);
    assert!(Suite::ChaCha20Poly1305.is_fast());
    assert_eq!(Suite::Aes256Gcm.is_fast(), aes);
}

#[test]
fn a_portable_key_works_record_by_record() {
    for suite in [Suite::ChaCha20Poly1305, Suite::Aes256Gcm] {
        assert!(!Key::new_portable(suite, &[1; 32]).is_batched());
    }
}

/// The batched ChaCha20-Poly1305 leaves refused records alone, AWS-LC does not: that is how one sees
/// from outside which of them ran. With AES-256-GCM both wipe them.
#[cfg(target_arch = "x86_64")]
#[test]
fn batches_are_worked_on_as_a_whole_where_the_processor_can() {
    let vectors = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw");
    let chacha = vectors
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512ifma")
        && is_x86_feature_detected!("avx512vbmi2");
    let aes = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("vpclmulqdq");
    assert_eq!(Key::new(Suite::Aes256Gcm, &[1; 32]).is_batched(), aes);
    let layout = Layout {
        head_len: HEAD_LEN,
        stride: 300,
    };
    let junk = [0x5a; 300 * 40];
    for (key, batched) in [
        (Key::new(Suite::ChaCha20Poly1305, &[1; 32]), chacha),
        (Key::new_portable(Suite::ChaCha20Poly1305, &[1; 32]), false),
    ] {
        assert_eq!(key.is_batched(), batched);
        let mut buffer = junk;
        assert_eq!(key.open_batch(&[0; 40], &mut buffer, layout), Opened::NONE);
        assert_eq!(buffer == junk, batched);
    }
}
