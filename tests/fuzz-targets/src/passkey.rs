use crate::input::Input;
use crate::signer::{Signer, decode, encode};
use aws_lc_rs::digest::{SHA256, digest};
use culvert_portal_auth::fuzzing;
use serde_json::{Value, json};

const URL: &str = "https://portal.example:8443";
const PARTY: &str = "portal.example";

/// Flags of an authenticator: somebody was there and was verified; the key may be backed up, is backed up, is in
/// the data; there are extensions.
const PRESENT: u8 = 1;
const VERIFIED: u8 = 1 << 2;
const MAY_BE_BACKED_UP: u8 = 1 << 3;
const IS_BACKED_UP: u8 = 1 << 4;
const ATTESTED: u8 = 1 << 6;
const EXTENDED: u8 = 1 << 7;

/// "If credentialIdLength is greater than 1023", it is refused.
const MAX_CREDENTIAL_LEN: usize = 1023;

/// The portal accepts an assertion or a registration only if the authenticator signed it, on a page of this
/// portal, for this purpose, with user verification.
///
/// The first byte selects the meaning of the others. They are a use of a key, or the signed part of
/// one; a new key, or its attestation object; or the key with which a use is checked.
///
/// # Panics
/// If a property does not hold.
pub fn passkey(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    let text = std::str::from_utf8(rest);
    match (kind % 5, text) {
        (0, Ok(text)) => any_use(text),
        (1, _) => any_signed_use(rest),
        (2, _) => {
            let client = client_data("webauthn.create");
            new_key(&registration(client.to_string().as_bytes(), rest));
        }
        (3, _) => any_key(rest),
        (4, Ok(text)) => new_key(text),
        _ => {}
    }
}

fn authenticator() -> Signer {
    Signer::new(3)
}

/// The key as COSE has it, CBOR by hand: a map of kind, algorithm, curve and point (RFC 9053 §7.2).
fn cose_key() -> Vec<u8> {
    let head = [0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20];
    [&head, authenticator().public()].concat()
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest(&SHA256, bytes).as_ref().to_vec()
}

fn client_data(kind: &str) -> Value {
    json!({"type": kind, "challenge": encode(b"challenge"), "origin": URL, "crossOrigin": false})
}

fn authenticator_data(flags: u8, uses: u32, behind: &[u8]) -> Vec<u8> {
    [
        &sha256(PARTY.as_bytes())[..],
        &[flags],
        &uses.to_be_bytes(),
        behind,
    ]
    .concat()
}

/// A use of the key with these data, signed.
fn signed_use(data: &[u8], client: &[u8]) -> String {
    let signature = authenticator().sign(&[data, &sha256(client)].concat());
    credential(&json!({
        "clientDataJSON": encode(client),
        "authenticatorData": encode(data),
        "signature": encode(&signature),
        "userHandle": encode(b"user"),
    }))
}

fn registration(client: &[u8], attestation: &[u8]) -> String {
    credential(&json!({
        "clientDataJSON": encode(client),
        "attestationObject": encode(attestation),
    }))
}

fn credential(response: &Value) -> String {
    let id = encode(b"credential");
    json!({"id": id, "rawId": id, "type": "public-key", "response": response}).to_string()
}

/// Decodes a base64url string.
fn octets(value: &Value) -> Vec<u8> {
    value.as_str().and_then(decode).expect("base64url")
}

fn any_use(text: &str) {
    let Ok(asserted) = fuzzing::assertion(URL, text, &cose_key()) else {
        return;
    };
    let said: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(said["type"], "public-key");
    assert_eq!(octets(&said["rawId"]), asserted.credential);
    let response = &said["response"];
    let client = octets(&response["clientDataJSON"]);
    let data = octets(&response["authenticatorData"]);
    let signed = [&data[..], &sha256(&client)].concat();
    let signature = octets(&response["signature"]);
    assert!(authenticator().has_signed(&signed, &signature), "{text}");
    assert_is_from_here(&client, "webauthn.get", &asserted.challenge);
    assert_is_of_somebody_verified(&data, asserted.uses);
}

/// A browser that has the key signs whatever it likes.
fn any_signed_use(data: &[u8]) {
    let mut input = Input::new(data);
    let len = usize::from(input.u16());
    let data = input.take(len);
    let client = input.rest();
    let text = signed_use(data, client);
    if let Ok(asserted) = fuzzing::assertion(URL, &text, &cose_key()) {
        assert_is_from_here(client, "webauthn.get", &asserted.challenge);
        assert_is_of_somebody_verified(data, asserted.uses);
    }
}

fn assert_is_from_here(client: &[u8], kind: &str, challenge: &[u8]) {
    let said: Value = serde_json::from_slice(client).expect("JSON");
    assert_eq!(said["type"], kind);
    assert_eq!(said["origin"], URL);
    assert_eq!(octets(&said["challenge"]), challenge);
    assert_ne!(said["crossOrigin"], true);
    assert!(said["topOrigin"].is_null());
}

fn assert_is_of_somebody_verified(data: &[u8], uses: u32) {
    assert_eq!(data[..32], sha256(PARTY.as_bytes()));
    let flags = data[32];
    assert_eq!(flags & (PRESENT | VERIFIED), PRESENT | VERIFIED);
    assert!(flags & MAY_BE_BACKED_UP != 0 || flags & IS_BACKED_UP == 0);
    assert_eq!(data[33..37], uses.to_be_bytes());
    assert!(flags & (ATTESTED | EXTENDED) != 0 || data.len() == 37);
}

fn new_key(text: &str) {
    let Ok(registered) = fuzzing::registration(URL, text) else {
        return;
    };
    let said: Value = serde_json::from_str(text).expect("JSON");
    let client = octets(&said["response"]["clientDataJSON"]);
    assert_is_from_here(&client, "webauthn.create", &registered.challenge);
    let object = octets(&said["response"]["attestationObject"]);
    let holds = |part: &[u8]| object.windows(part.len()).any(|window| window == part);
    let (credential, key) = (&registered.credential, &registered.public_key);
    assert!((1..=MAX_CREDENTIAL_LEN).contains(&credential.len()));
    let attested = [
        &(credential.len() as u16).to_be_bytes(),
        &credential[..],
        key,
    ]
    .concat();
    assert!(holds(&attested), "the key is the one that was attested");
    assert!(holds(&sha256(PARTY.as_bytes())));
    // An accepted key can be used as one: it is refused for the signature, or for its point.
    let used = signed_use(
        &authenticator_data(PRESENT | VERIFIED, 0, &[]),
        client_data("webauthn.get").to_string().as_bytes(),
    );
    match fuzzing::assertion(URL, &used, key) {
        Ok(_) => assert!(key.windows(32).any(|x| x == authenticator().public())),
        Err(error) => assert!(error.contains("signature"), "{error}"),
    }
}

fn any_key(key: &[u8]) {
    let data = authenticator_data(PRESENT | VERIFIED, 7, &[]);
    let client = client_data("webauthn.get").to_string();
    let text = signed_use(&data, client.as_bytes());
    if fuzzing::assertion(URL, &text, key).is_ok() {
        let ours = authenticator();
        assert!(key.windows(32).any(|x| x == ours.public()), "{key:02x?}");
    }
}

/// `{"fmt": "none", "attStmt": {}, "authData": …}`, CBOR by hand.
fn attestation_object(data: &[u8]) -> Vec<u8> {
    [
        &b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x59"[..],
        &(data.len() as u16).to_be_bytes(),
        data,
    ]
    .concat()
}

fn attested(key: &[u8]) -> Vec<u8> {
    [&[0; 16][..], &[0, 10], b"credential", key].concat()
}

/// Good ones, and each with one thing that is not as it should be.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    const GOOD: u8 = PRESENT | VERIFIED;
    let extension = [0xa1, 0x61, b'x', 0xf5];
    let uses = [
        authenticator_data(GOOD, 7, &[]),
        authenticator_data(PRESENT, 7, &[]),
        authenticator_data(VERIFIED, 7, &[]),
        authenticator_data(GOOD | IS_BACKED_UP, 7, &[]),
        authenticator_data(GOOD | IS_BACKED_UP | MAY_BE_BACKED_UP, 7, &[]),
        authenticator_data(GOOD | EXTENDED, 7, &extension),
        authenticator_data(GOOD | EXTENDED, 7, &[0x81; 20]),
        authenticator_data(GOOD | ATTESTED, 7, &attested(&cose_key())),
        authenticator_data(GOOD, 7, &[0]),
    ];
    let good = client_data("webauthn.get");
    let mut clients = vec![good.clone()];
    for (field, value) in [
        ("type", json!("webauthn.create")),
        ("origin", json!("https://evil.example:8443")),
        ("crossOrigin", json!(true)),
        ("topOrigin", json!("https://evil.example")),
        ("challenge", json!("!")),
    ] {
        let mut other = good.clone();
        other[field] = value;
        clients.push(other);
    }
    let mut seeds = Vec::new();
    let mut add_use = |data: &[u8], client: &Value| {
        let client = client.to_string();
        let text = signed_use(data, client.as_bytes());
        seeds.push([&[0], text.as_bytes()].concat());
        let len = (data.len() as u16).to_be_bytes();
        seeds.push([&[1], &len[..], data, client.as_bytes()].concat());
    };
    uses.iter().for_each(|data| add_use(data, &good));
    clients.iter().for_each(|client| add_use(&uses[0], client));

    let p256 = [
        &b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20"[..],
        &[7; 32],
        b"\x22\x58\x20",
        &[9; 32],
    ];
    let rsa = [
        &b"\xa4\x01\x03\x03\x39\x01\x00\x20\x59\x01\x00"[..],
        &[0xc1; 256],
        b"\x21\x43\x01\x00\x01",
    ];
    let keys = [
        cose_key(),
        p256.concat(),
        rsa.concat(),
        vec![0xa0],
        vec![0x81; 50],
    ];
    for key in &keys {
        let data = authenticator_data(GOOD | ATTESTED, 0, &attested(key));
        let object = attestation_object(&data);
        let client = client_data("webauthn.create").to_string();
        seeds.push([&[2], &object[..]].concat());
        seeds.push([&[3], &key[..]].concat());
        let text = registration(client.as_bytes(), &object);
        seeds.push([&[4], text.as_bytes()].concat());
    }
    // A length beyond the end, and one of 2^60 bytes.
    seeds.push([&[2], &attestation_object(&uses[0])[..20]].concat());
    seeds.push(b"\x02\xa1\x68authData\x5b\x10\x00\x00\x00\x00\x00\x00\x00".to_vec());
    seeds
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without these the target could refuse everything and look well.
    #[test]
    fn a_good_use_and_a_good_key_are_taken() {
        let data = authenticator_data(PRESENT | VERIFIED, 7, &[]);
        let client = client_data("webauthn.get").to_string();
        let text = signed_use(&data, client.as_bytes());
        let asserted = fuzzing::assertion(URL, &text, &cose_key()).expect("good");
        assert_eq!(
            (asserted.uses, &asserted.challenge[..]),
            (7, &b"challenge"[..])
        );

        let data = authenticator_data(PRESENT | VERIFIED | ATTESTED, 0, &attested(&cose_key()));
        let client = client_data("webauthn.create").to_string();
        let text = registration(client.as_bytes(), &attestation_object(&data));
        let registered = fuzzing::registration(URL, &text).expect("good");
        assert_eq!(registered.public_key, cose_key());
    }
}
