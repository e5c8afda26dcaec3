//! The published vectors of Wycheproof, which were made to find the faults that ciphers had: carries
//! of Poly1305, tags that are compared in part, counters that wrap.
//!
//! Here are the vectors, and AWS-LC, which does single records, against all of them. The vector code
//! is held against them in `vector/tests/wycheproof.rs` and in the tests of its parts.

use crate::{KEY_LEN, Key, OpenError, Suite, TAG_LEN};
use data_encoding::HEXLOWER;
use serde_json::Value;

const CHACHA20_POLY1305: &str =
    include_str!("../../../tests/fixtures/wycheproof/chacha20_poly1305_test.json");
const AES_GCM: &str = include_str!("../../../tests/fixtures/wycheproof/aes_gcm_test.json");

/// One published case, of a key, a nonce and a tag as long as ours.
pub(crate) struct Vector {
    pub(crate) id: u64,
    pub(crate) key: [u8; KEY_LEN],
    pub(crate) nonce: [u8; 12],
    pub(crate) associated: Vec<u8>,
    pub(crate) clear: Vec<u8>,
    pub(crate) cipher: Vec<u8>,
    pub(crate) tag: [u8; TAG_LEN],
    /// True if the record is authentic; if not, its tag was modified.
    pub(crate) valid: bool,
}

impl Vector {
    /// Ciphertext and tag.
    pub(crate) fn sealed(&self) -> Vec<u8> {
        [&self.cipher[..], &self.tag].concat()
    }

    /// The counter by which our records have this nonce, if it begins with 32 zero bits.
    pub(crate) fn counter(&self, suite: Suite) -> Option<u64> {
        self.nonce.starts_with(&[0; 4]).then(|| self.last_8(suite))
    }

    /// The last eight bytes of the nonce as the counter of a record.
    pub(crate) fn last_8(&self, suite: Suite) -> u64 {
        let bytes = *self.nonce.last_chunk().expect("a nonce has 12 bytes");
        match suite {
            Suite::ChaCha20Poly1305 => u64::from_le_bytes(bytes),
            Suite::Aes256Gcm => u64::from_be_bytes(bytes),
        }
    }
}

/// All vectors of our lengths. A vector with other lengths cannot be given to a [`Key`] at all.
pub(crate) fn vectors(suite: Suite) -> Vec<Vector> {
    let (text, expected) = match suite {
        Suite::ChaCha20Poly1305 => (CHACHA20_POLY1305, 316),
        Suite::Aes256Gcm => (AES_GCM, 66),
    };
    let file: Value = serde_json::from_str(text).expect("the file is JSON");
    let of_our_lengths = |group: &&Value| {
        group["keySize"] == 256 && group["ivSize"] == 96 && group["tagSize"] == 128
    };
    let groups = file["testGroups"].as_array().expect("a list of groups");
    let vectors: Vec<Vector> = groups
        .iter()
        .filter(of_our_lengths)
        .flat_map(|group| group["tests"].as_array().expect("a list of tests"))
        .map(vector)
        .collect();
    assert_eq!(vectors.len(), expected, "vectors of {suite:?}");
    vectors
}

fn vector(test: &Value) -> Vector {
    let bytes = |name: &str| {
        let text = test[name].as_str().expect("a text");
        HEXLOWER.decode(text.as_bytes()).expect("hexadecimal")
    };
    Vector {
        id: test["tcId"].as_u64().expect("a number"),
        key: bytes("key").try_into().expect("256 bits"),
        nonce: bytes("iv").try_into().expect("96 bits"),
        associated: bytes("aad"),
        clear: bytes("msg"),
        cipher: bytes("ct"),
        tag: bytes("tag").try_into().expect("128 bits"),
        valid: match test["result"].as_str() {
            Some("valid") => true,
            Some("invalid") => false,
            other => panic!("a result of {other:?}"),
        },
    }
}

const SUITES: [Suite; 2] = [Suite::ChaCha20Poly1305, Suite::Aes256Gcm];

#[test]
fn single_records_are_sealed_and_opened_as_wycheproof_says() {
    for suite in SUITES {
        let mut ran = [0, 0];
        for vector in vectors(suite) {
            let key = Key::new(suite, &vector.key);
            let mut sealed = vector.sealed();
            let opened = key.open_under(vector.nonce, &vector.associated, &mut sealed);
            if vector.valid {
                assert_eq!(opened, Ok(&mut vector.clear.clone()[..]), "{}", vector.id);
            } else {
                assert_eq!(opened, Err(OpenError), "{}", vector.id);
            }
            let mut buffer = vector.clear.clone();
            let tag = key.seal_under(vector.nonce, &vector.associated, &mut buffer);
            assert_eq!(buffer, vector.cipher, "{}", vector.id);
            assert_eq!(tag == vector.tag, vector.valid, "{}", vector.id);
            ran[usize::from(vector.valid)] += 1;
        }
        eprintln!(
            "{suite:?}: {} vectors were refused and {} opened",
            ran[0], ran[1]
        );
        assert!(ran[0] > 0 && ran[1] > 0);
    }
}

#[test]
fn a_counter_makes_the_nonce_that_wycheproof_gives_its_records() {
    for (suite, expected) in SUITES.into_iter().zip([10, 1]) {
        let mut ran = 0;
        for vector in vectors(suite) {
            let Some(counter) = vector.counter(suite) else {
                continue;
            };
            let key = Key::new(suite, &vector.key);
            let mut buffer = vector.clear.clone();
            let tag = key.seal(counter, &vector.associated, &mut buffer);
            assert_eq!((buffer, tag), (vector.cipher.clone(), vector.tag));
            let mut sealed = vector.sealed();
            let opened = key.open(counter, &vector.associated, &mut sealed);
            assert_eq!(opened, Ok(&mut vector.clear.clone()[..]));
            ran += 1;
        }
        assert_eq!(ran, expected, "{suite:?}");
    }
}
