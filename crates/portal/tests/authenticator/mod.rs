//! An authenticator in software: it makes keys and signs as those of phones and sticks do, and says whatever a
//! test wants it to say.

#![allow(
    clippy::unwrap_used,
    dead_code,
    reason = "tests fail by panicking, and each uses a part"
)]

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ciborium::Value;
use serde_json::json;

/// What browser and authenticator say; as they should, unless a test changes it.
pub(crate) struct Said {
    pub(crate) kind: String,
    pub(crate) challenge: String,
    pub(crate) origin: String,
    pub(crate) cross_origin: bool,
    pub(crate) rp_id: String,
    pub(crate) flags: u8,
    pub(crate) uses: u32,
    pub(crate) algorithm: i64,
    pub(crate) user: Vec<u8>,
    /// After the authenticator's data.
    pub(crate) trailing: Vec<u8>,
}

pub(crate) const PRESENT: u8 = 1;
pub(crate) const VERIFIED: u8 = 4;
const ATTESTED: u8 = 0x40;

pub(crate) struct Authenticator {
    key: EcdsaKeyPair,
    pub(crate) credential: Vec<u8>,
    origin: String,
    rp_id: String,
}

impl Authenticator {
    /// One that has no key before, for the site at `origin`.
    pub(crate) fn new(credential: &[u8], origin: &str) -> Self {
        let host = origin.strip_prefix("https://").unwrap();
        Self {
            key: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap(),
            credential: credential.to_vec(),
            origin: origin.to_owned(),
            rp_id: host.split(':').next().unwrap().to_owned(),
        }
    }

    fn said(&self, kind: &str, challenge: &str) -> Said {
        Said {
            kind: kind.to_owned(),
            challenge: challenge.to_owned(),
            origin: self.origin.clone(),
            cross_origin: false,
            rp_id: self.rp_id.clone(),
            flags: PRESENT | VERIFIED,
            uses: 0,
            algorithm: -7,
            user: Vec::new(),
            trailing: Vec::new(),
        }
    }

    /// What the browser gives the page for a new key.
    pub(crate) fn register(&self, challenge: &str, change: impl FnOnce(&mut Said)) -> String {
        let mut said = self.said("webauthn.create", challenge);
        said.flags |= ATTESTED;
        change(&mut said);
        let mut data = authenticator_data(&said);
        if said.flags & ATTESTED != 0 {
            data.extend([0; 16]);
            data.extend(u16::try_from(self.credential.len()).unwrap().to_be_bytes());
            data.extend(&self.credential);
            data.extend(self.public_key(said.algorithm));
        }
        data.extend(&said.trailing);
        let object = Value::Map(vec![
            (text("fmt"), text("none")),
            (text("attStmt"), Value::Map(Vec::new())),
            (text("authData"), Value::Bytes(data)),
        ]);
        json!({
            "id": encode(&self.credential),
            "rawId": encode(&self.credential),
            "type": "public-key",
            "response": {
                "clientDataJSON": encode(client_data(&said).as_bytes()),
                "attestationObject": encode(&cbor(&object)),
                "transports": ["internal"],
            },
            "clientExtensionResults": {},
        })
        .to_string()
    }

    /// What the browser gives the page for a use of the key.
    pub(crate) fn sign(&self, challenge: &str, change: impl FnOnce(&mut Said)) -> String {
        let mut said = self.said("webauthn.get", challenge);
        change(&mut said);
        let mut data = authenticator_data(&said);
        data.extend(&said.trailing);
        let client_data = client_data(&said);
        let mut signed = data.clone();
        signed.extend(digest(&SHA256, client_data.as_bytes()).as_ref());
        let signature = self.key.sign(&SystemRandom::new(), &signed).unwrap();
        json!({
            "id": encode(&self.credential),
            "rawId": encode(&self.credential),
            "type": "public-key",
            "response": {
                "clientDataJSON": encode(client_data.as_bytes()),
                "authenticatorData": encode(&data),
                "signature": encode(signature.as_ref()),
                "userHandle": encode(&said.user),
            },
            "clientExtensionResults": {},
        })
        .to_string()
    }

    /// The key as COSE has it.
    pub(crate) fn public_key(&self, algorithm: i64) -> Vec<u8> {
        let point = self.key.public_key().as_ref();
        let number = |number: i64| Value::Integer(number.into());
        cbor(&Value::Map(vec![
            (number(1), number(2)),
            (number(3), number(algorithm)),
            (number(-1), number(1)),
            (number(-2), Value::Bytes(point[1..33].to_vec())),
            (number(-3), Value::Bytes(point[33..].to_vec())),
        ]))
    }
}

fn authenticator_data(said: &Said) -> Vec<u8> {
    let mut data = digest(&SHA256, said.rp_id.as_bytes()).as_ref().to_vec();
    data.push(said.flags);
    data.extend(said.uses.to_be_bytes());
    data
}

fn client_data(said: &Said) -> String {
    json!({
        "type": said.kind,
        "challenge": said.challenge,
        "origin": said.origin,
        "crossOrigin": said.cross_origin,
    })
    .to_string()
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn cbor(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    ciborium::into_writer(value, &mut bytes).unwrap();
    bytes
}

pub(crate) fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
