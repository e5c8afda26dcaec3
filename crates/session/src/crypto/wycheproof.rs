//! X25519 as the handshake uses it against the published vectors of Wycheproof: twisted and
//! non-canonical points, private keys at the edges, points of low order.

use super::*;
use crate::Index;
use crate::noise::{HandshakeRefusal, Identity, SentInitiation};
use crate::time::Tai64n;
use culvert_aead::Suite;
use data_encoding::HEXLOWER;
use serde_json::Value;

const X25519: &str = include_str!("../../../../tests/fixtures/wycheproof/x25519_test.json");

struct Vector {
    id: u64,
    private: [u8; 32],
    public: PublicKey,
    shared: [u8; 32],
    /// True if the file itself calls the result zero, for a point of low order.
    is_low_order: bool,
}

fn vectors() -> Vec<Vector> {
    let file: Value = serde_json::from_str(X25519).expect("the file is JSON");
    let groups = file["testGroups"].as_array().expect("a list of groups");
    let vectors: Vec<Vector> = groups
        .iter()
        .flat_map(|group| group["tests"].as_array().expect("a list of tests"))
        .map(vector)
        .collect();
    assert_eq!(vectors.len(), 518);
    vectors
}

fn vector(test: &Value) -> Vector {
    let bytes = |name: &str| -> [u8; 32] {
        let text = test[name].as_str().expect("a text");
        let bytes = HEXLOWER.decode(text.as_bytes()).expect("hexadecimal");
        bytes.try_into().expect("32 bytes")
    };
    let flags = test["flags"].as_array().expect("a list of flags");
    Vector {
        id: test["tcId"].as_u64().expect("a number"),
        private: bytes("private"),
        public: PublicKey::from_bytes(bytes("public")),
        shared: bytes("shared"),
        is_low_order: flags.iter().any(|flag| flag == "ZeroSharedSecret"),
    }
}

#[test]
fn shared_secrets_are_those_of_wycheproof_and_zero_is_refused() {
    let mut ran = [0, 0];
    for vector in vectors() {
        let shared = Scalar::new(&vector.private).diffie_hellman(&vector.public);
        assert_eq!(vector.shared == [0; 32], vector.is_low_order);
        assert_eq!(shared.is_none(), vector.is_low_order, "{}", vector.id);
        if let Some(shared) = shared {
            assert_eq!(*shared, vector.shared, "{}", vector.id);
        }
        ran[usize::from(vector.is_low_order)] += 1;
    }
    eprintln!("{} shared secrets, {} refused", ran[0], ran[1]);
    assert_eq!(ran, [487, 31]);
}

/// A peer is configured by its public key alone: one of low order must not get as far as a message.
#[test]
fn nothing_is_sent_to_a_peer_whose_key_wycheproof_calls_of_low_order() {
    let us = Identity::new(Scalar::new(&[1; 32]));
    let other = Identity::new(Scalar::new(&[2; 32]));
    let static_static = us.static_static(other.public_key()).expect("a good key");
    let mut ran = 0;
    for vector in vectors().iter().filter(|vector| vector.is_low_order) {
        assert!(us.static_static(&vector.public).is_none(), "{}", vector.id);
        // Even a secret of someone else must not help.
        let sent = SentInitiation::new(
            &us,
            &vector.public,
            &static_static,
            Suite::default(),
            Scalar::new(&[3; 32]),
            Tai64n::from_bytes([0; 12]),
            Index(1),
        );
        assert_eq!(
            sent.err(),
            Some(HandshakeRefusal::LowOrderKey),
            "{}",
            vector.id
        );
        ran += 1;
    }
    assert_eq!(ran, 31);
}
