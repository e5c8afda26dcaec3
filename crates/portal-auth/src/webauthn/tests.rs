use super::*;
use authenticator::{Authenticator, PRESENT, Said, VERIFIED, encode};
use proptest::prelude::*;

#[path = "../../../../tests/fixtures/authenticator.rs"]
mod authenticator;

const ORIGIN: &str = "https://portal.example:8443";

fn party() -> RelyingParty {
    RelyingParty::of(ORIGIN).unwrap()
}

fn challenge() -> String {
    encode(b"what the page asked with")
}

fn phone() -> Authenticator {
    Authenticator::new(b"credential", ORIGIN)
}

fn registered(change: impl FnOnce(&mut Said)) -> Result<Registered, WebauthnError> {
    Registration::parse(&phone().register(&challenge(), change))?.check(&party())
}

fn used(change: impl FnOnce(&mut Said)) -> Result<u32, WebauthnError> {
    let phone = phone();
    let assertion = Assertion::parse(&phone.sign(&challenge(), change))?;
    assertion.check(&party(), &phone.public_key(-7))
}

#[test]
fn keys_are_bound_to_the_portals_name_and_never_to_an_address() {
    let id = |url: &str| RelyingParty::of(url).map(|party| party.id);
    assert_eq!(
        id("https://Portal.Example:8443").as_deref(),
        Some("portal.example")
    );
    assert_eq!(
        id("https://portal.example").as_deref(),
        Some("portal.example")
    );
    assert_eq!(id("https://localhost:8443").as_deref(), Some("localhost"));
    assert_eq!(id("https://192.0.2.1:8443"), None);
    assert_eq!(id("https://[2001:db8::1]:8443"), None);
    assert_eq!(id("http://portal.example"), None);
    let bare = RelyingParty::of("https://portal.example");
    assert_eq!(RelyingParty::of("https://portal.example:443"), bare);
    assert_eq!(RelyingParty::of("https://portal.example:"), bare);
}

#[test]
fn a_key_that_was_made_here_and_now_is_taken() {
    let phone = phone();
    let registration = Registration::parse(&phone.register(&challenge(), |_| {})).unwrap();
    assert_eq!(registration.challenge(), b"what the page asked with");
    let stored = registration.check(&party()).unwrap();
    assert_eq!(stored.credential, b"credential");
    assert_eq!(stored.public_key, phone.public_key(-7));
}

#[test]
fn a_signature_that_was_made_here_and_now_is_taken() {
    assert_eq!(used(|said| said.uses = 7), Ok(7));
    // CBOR of an extension, where the flag says that there is one.
    let with_extension = |said: &mut Said| {
        said.flags |= 0x80;
        said.trailing = vec![0xa0];
    };
    assert_eq!(used(with_extension), Ok(0));
}

#[test]
fn each_thing_that_is_not_as_it_should_be_has_its_refusal() {
    type Change = fn(&mut Said);
    let cases: [(Change, WebauthnError); 8] = [
        (
            |said| said.kind = "payment.get".to_owned(),
            WebauthnError::OtherPurpose,
        ),
        (
            |said| said.origin = "https://portal.example".to_owned(),
            WebauthnError::OtherOrigin,
        ),
        (
            |said| said.origin = "https://evil.example:8443".to_owned(),
            WebauthnError::OtherOrigin,
        ),
        (|said| said.cross_origin = true, WebauthnError::OtherOrigin),
        (
            |said| said.rp_id = "example".to_owned(),
            WebauthnError::OtherParty,
        ),
        (|said| said.flags &= !PRESENT, WebauthnError::NobodyPresent),
        (
            |said| said.flags &= !VERIFIED,
            WebauthnError::NobodyVerified,
        ),
        (
            |said| said.flags |= 0x10,
            WebauthnError::Malformed("the flag BS without BE"),
        ),
    ];
    for (change, refusal) in cases {
        assert_eq!(used(change), Err(refusal));
        assert_eq!(registered(change), Err(refusal));
    }
    assert_eq!(
        registered(|said| said.algorithm = -47),
        Err(WebauthnError::OtherAlgorithm)
    );
    let without_key = registered(|said| said.flags &= !0x40);
    assert_eq!(
        without_key,
        Err(WebauthnError::Malformed("attestedCredentialData"))
    );
    let more = |said: &mut Said| said.trailing = vec![0];
    assert_eq!(
        used(more),
        Err(WebauthnError::Malformed("authenticatorData"))
    );
    assert_eq!(
        registered(more),
        Err(WebauthnError::Malformed("authenticatorData"))
    );
}

#[test]
fn a_new_key_is_no_use_of_one_and_a_use_no_new_key() {
    let made = phone().register(&challenge(), |_| {});
    assert!(Assertion::parse(&made).is_err());
    let used = phone().sign(&challenge(), |_| {});
    assert!(Registration::parse(&used).is_err());
    assert_eq!(
        self::used(|said| said.kind = "webauthn.create".to_owned()),
        Err(WebauthnError::OtherPurpose)
    );
}

#[test]
fn another_keys_signature_is_refused() {
    let assertion = Assertion::parse(&phone().sign(&challenge(), |_| {})).unwrap();
    let refused = assertion.check(&party(), &phone().public_key(-7));
    assert_eq!(refused, Err(WebauthnError::WrongSignature));
}

#[test]
fn ed25519_and_rsa_keys_sign_as_well() {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
    let number = |number: i64| Value::Integer(number.into());
    let key_of = |entries: Vec<(i64, Value)>| {
        let entries = entries
            .into_iter()
            .map(|(label, value)| (number(label), value));
        let mut bytes = Vec::new();
        ciborium::into_writer(&Value::Map(entries.collect()), &mut bytes).unwrap();
        PublicKey::parse(&bytes).unwrap()
    };
    let edwards = Ed25519KeyPair::generate().unwrap();
    let x = edwards.public_key().as_ref().to_vec();
    let key = key_of(vec![
        (1, number(1)),
        (3, number(-8)),
        (-1, number(6)),
        (-2, Value::Bytes(x)),
    ]);
    assert_eq!(
        key.verify(b"message", edwards.sign(b"message").as_ref()),
        Ok(())
    );
    assert_eq!(
        key.verify(b"another", edwards.sign(b"message").as_ref()),
        Err(WebauthnError::WrongSignature)
    );
    let rsa = RsaKeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let n = rsa
        .public_key()
        .modulus()
        .big_endian_without_leading_zero()
        .to_vec();
    let e = rsa
        .public_key()
        .exponent()
        .big_endian_without_leading_zero()
        .to_vec();
    let mut signature = vec![0; rsa.public_modulus_len()];
    rsa.sign(
        &RSA_PKCS1_SHA256,
        &SystemRandom::new(),
        b"message",
        &mut signature,
    )
    .unwrap();
    let key = key_of(vec![
        (1, number(3)),
        (3, number(-257)),
        (-1, Value::Bytes(n)),
        (-2, Value::Bytes(e)),
    ]);
    assert_eq!(key.verify(b"message", &signature), Ok(()));
    assert_eq!(
        key.verify(b"another", &signature),
        Err(WebauthnError::WrongSignature)
    );
}

#[test]
fn what_is_too_long_or_too_deep_is_not_read() {
    assert!(Assertion::parse(&" ".repeat(MAX_TEXT_LEN + 1)).is_err());
    let mut deep = vec![0x81; 100_000];
    deep.push(0);
    assert_eq!(one_value(&deep), Err(WebauthnError::Malformed("CBOR")));
    // A byte string that says it has 2^60 bytes.
    let long = [0x5b, 0x10, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(one_value(&long), Err(WebauthnError::Malformed("CBOR")));
}

proptest! {
    #[test]
    fn whatever_an_authenticator_says_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _read = AuthenticatorData::parse(&bytes);
        let _key = PublicKey::parse(&bytes);
        let _object = one_value(&bytes);
    }

    #[test]
    fn what_was_cut_or_changed_on_the_way_is_refused(at in 0_usize..400, bit in 0_u8..8, cut in any::<bool>()) {
        let phone = phone();
        let assertion = Assertion::parse(&phone.sign(&challenge(), |_| {})).unwrap();
        let mut other = assertion.authenticator_data.clone();
        let at = at % other.len();
        if cut { other.truncate(at) } else { other[at] ^= 1 << bit }
        let other = Assertion { authenticator_data: other, ..assertion };
        prop_assert!(other.check(&party(), &phone.public_key(-7)).is_err());
    }
}
