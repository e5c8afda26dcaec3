//! Ed25519 signatures for the targets, and their verification without the code under test. Ed25519 is
//! deterministic, so seeds are the same on every run.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub(crate) struct Signer(Ed25519KeyPair);

impl Signer {
    pub(crate) fn new(seed: u8) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]);
        Self(pair.expect("any 32 bytes are a seed"))
    }

    pub(crate) fn public(&self) -> &[u8] {
        self.0.public_key().as_ref()
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }

    pub(crate) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, self.public());
        key.verify(message, signature).is_ok()
    }
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}
