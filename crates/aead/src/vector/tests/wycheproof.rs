//! Whole batches of what the vectors of Wycheproof hold.
//!
//! A batch has no associated data, and its nonces begin with 32 zero bits. So the test seals records
//! with the key, the data and the last eight bytes of the nonce of each vector. AWS-LC, which passes
//! all vectors as they are, gives the expected result. The parts, AES-CTR and the two hashes, are
//! tested with every vector as it is, in their own tests.

use super::*;
use crate::wycheproof::{Vector, vectors};

/// More than one group of records in every vector code.
const COUNT: usize = 19;

/// A case of [`COUNT`] records with the data of a vector.
fn case(tested: Tested, vector: &Vector) -> Option<Case> {
    let len = vector.clear.len();
    let mut case = Case::new(tested, vector.key, COUNT, len, len)?;
    for index in 0..COUNT {
        let record = case.layout.record(index, case.clear.len());
        case.clear[record.start + HEAD_LEN..][..len].copy_from_slice(&vector.clear);
    }
    Some(case)
}

/// The bits of the tag of a vector that were modified.
fn modification(suite: Suite, vector: &Vector) -> [u8; TAG_LEN] {
    let key = Key::new_portable(suite, &vector.key);
    let mut buffer = vector.clear.clone();
    let mut tag = key.seal_under(vector.nonce, &vector.associated, &mut buffer);
    for (byte, modified) in tag.iter_mut().zip(vector.tag) {
        *byte ^= modified;
    }
    tag
}

#[test]
fn batches_with_the_keys_and_data_of_wycheproof_are_sealed_and_opened_as_by_aws_lc() {
    for tested in ALL {
        let suite = tested.suite();
        let mut ran = 0;
        for vector in vectors(suite) {
            let Some(case) = case(tested, &vector) else {
                break;
            };
            let first = vector.last_8(suite);
            let nonces: Vec<u64> = (0..COUNT as u64).map(|at| first.wrapping_add(at)).collect();
            let sealed = case.sealed(first);
            assert!(
                sealed == case.expected(nonces.iter().copied()),
                "{}",
                vector.id
            );
            case.assert_opens(&nonces, &sealed);
            ran += 1;
        }
        eprintln!("{tested:?}: {ran} vectors");
        assert_eq!(
            ran > 0,
            tested.key(&[0; KEY_LEN]).is_some(),
            "{tested:?} ran none"
        );
    }
}

#[test]
fn a_tag_modified_as_in_wycheproof_is_refused_in_every_place_of_a_batch() {
    for tested in ALL {
        let suite = tested.suite();
        let mut ran = 0;
        for vector in vectors(suite).iter().filter(|vector| !vector.valid) {
            let Some(case) = case(tested, vector) else {
                break;
            };
            let modification = modification(suite, vector);
            let nonces: Vec<u64> = (0..COUNT as u64).collect();
            let sealed = case.sealed(0);
            for bad in 0..COUNT {
                let mut buffer = sealed.clone();
                let record = case.layout.record(bad, buffer.len());
                let tag = &mut buffer[record.end - TAG_LEN..record.end];
                for (byte, modified) in tag.iter_mut().zip(modification) {
                    *byte ^= modified;
                }
                let opened = case.wide.open_batch(&nonces, &mut buffer, case.layout);
                for index in 0..COUNT {
                    assert_eq!(opened.get(index), index != bad, "{}", vector.id);
                }
            }
            ran += 1;
        }
        eprintln!("{tested:?}: {ran} modified tags");
        assert_eq!(
            ran > 0,
            tested.key(&[0; KEY_LEN]).is_some(),
            "{tested:?} ran none"
        );
    }
}

/// The ciphertext depends on neither associated data nor tag, so the vectors whose nonce is one of
/// ours give it as they are.
#[test]
fn the_ciphertexts_of_vectors_with_our_nonces_come_out_of_a_batch() {
    for tested in ALL {
        let suite = tested.suite();
        for vector in vectors(suite) {
            let (Some(counter), Some(case)) = (vector.counter(suite), case(tested, &vector)) else {
                continue;
            };
            for index in 0..COUNT as u64 {
                let sealed = case.sealed(counter.wrapping_sub(index));
                let record = case.layout.record(index as usize, sealed.len());
                let cipher = &sealed[record.start + HEAD_LEN..record.end - TAG_LEN];
                assert_eq!(cipher, vector.cipher, "{}", vector.id);
            }
        }
    }
}
