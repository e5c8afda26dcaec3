//! Sealed values: their format, and the refusals of wrong ones.

#![forbid(unsafe_code)]

use culvert_secrets::{
    KeyTextError, MAX_PLAIN_LEN, OVERHEAD, OpenError, Place, SecretsKey, key_id_of,
};
use proptest::prelude::*;

const PLACE: Place<'static> = Place {
    account: &[1; 16],
    table: "totp",
    column: "secret",
    row: b"row",
};

const NONCE: [u8; 12] = [7; 12];

fn key(byte: u8) -> SecretsKey {
    SecretsKey::from_bytes(&[byte; 32])
}

/// Made by an independent implementation: the Python package `cryptography`, HKDF and `AESGCMSIV`.
#[test]
fn a_value_is_what_another_implementation_of_the_format_writes() {
    let sealed = key(1).seal(&PLACE, b"a secret", NONCE);
    let hex: String = sealed.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "4356535601cea1e2b9914243050707070707070707070707072c8ec7f10c53f7df702fd7d8d6e751f53d54ae486f954dc3"
    );
}

#[test]
fn a_value_decrypts_where_it_was_written() {
    let sealed = key(1).seal(&PLACE, b"a secret", NONCE);
    assert_eq!(sealed.len(), b"a secret".len() + OVERHEAD);
    assert_eq!(
        key(1).open(&PLACE, &sealed).unwrap().as_slice(),
        b"a secret"
    );
    assert_eq!(key_id_of(&sealed).unwrap(), key(1).id());
    let empty = key(1).seal(&PLACE, b"", NONCE);
    assert!(key(1).open(&PLACE, &empty).unwrap().is_empty());
}

#[test]
fn a_value_decrypts_at_no_other_place() {
    let sealed = key(1).seal(&PLACE, b"a secret", NONCE);
    let others = [
        Place {
            account: &[2; 16],
            ..PLACE
        },
        Place {
            table: "secret",
            ..PLACE
        },
        Place {
            column: "value",
            ..PLACE
        },
        Place {
            row: b"other",
            ..PLACE
        },
        // The same bytes in a row, divided elsewhere.
        Place {
            table: "totps",
            column: "ecret",
            ..PLACE
        },
    ];
    for other in others {
        assert_eq!(
            key(1).open(&other, &sealed).unwrap_err(),
            OpenError::Forged,
            "{other:?}"
        );
    }
}

#[test]
fn a_value_of_another_key_names_both() {
    let sealed = key(1).seal(&PLACE, b"a secret", NONCE);
    let error = key(2).open(&PLACE, &sealed).unwrap_err();
    let (found, given) = (key(1).id(), key(2).id());
    assert_eq!(error, OpenError::OtherKey { found, given });
    assert!(error.to_string().contains(&found.to_string()), "{error}");
}

#[test]
fn a_value_is_not_passed_off_as_one_of_another_key() {
    let mut sealed = key(1).seal(&PLACE, b"a secret", NONCE);
    sealed[5..13].copy_from_slice(key(2).id().as_bytes());
    assert_eq!(key(2).open(&PLACE, &sealed).unwrap_err(), OpenError::Forged);
}

#[test]
fn every_bit_of_a_value_counts() {
    let sealed = key(1).seal(&PLACE, b"a secret", NONCE);
    for place in 0..sealed.len() * 8 {
        let mut changed = sealed.clone();
        changed[place / 8] ^= 1 << (place % 8);
        assert!(key(1).open(&PLACE, &changed).is_err(), "bit {place}");
    }
    for len in 0..sealed.len() {
        assert!(key(1).open(&PLACE, &sealed[..len]).is_err(), "{len} bytes");
    }
}

#[test]
fn what_is_not_sealed_is_called_so() {
    let refused = |bytes: &[u8]| key(1).open(&PLACE, bytes).unwrap_err();
    assert_eq!(refused(b"a secret in clear"), OpenError::NotSealed);
    assert_eq!(refused(b""), OpenError::NotSealed);
    let mut later = key(1).seal(&PLACE, b"a secret", NONCE);
    later[4] = 2;
    assert_eq!(refused(&later), OpenError::Version(2));
    let mut long = key(1).seal(&PLACE, b"", NONCE);
    long.resize(OVERHEAD + MAX_PLAIN_LEN + 1, 0);
    assert_eq!(refused(&long), OpenError::NotSealed);
}

#[test]
fn a_key_is_read_as_it_was_written_and_nothing_else_is_one() {
    let text = key(9).to_text();
    let read: SecretsKey = text.parse().unwrap();
    assert_eq!(read.id(), key(9).id());
    let long = format!("{}A", *text);
    let token = text.replace("secrets-key", "token");
    for other in [
        "",
        "culvert-secrets-key-1:",
        &text[..text.len() - 1],
        &long,
        &token,
    ] {
        assert_eq!(other.parse::<SecretsKey>().unwrap_err(), KeyTextError);
    }
    let shown = format!("{:?} {}", key(9), KeyTextError);
    assert!(!shown.contains(text.split(':').nth(1).unwrap()), "{shown}");
}

proptest! {
    #[test]
    fn any_secret_comes_back(
        plain in prop::collection::vec(any::<u8>(), 0..2_000),
        nonce in any::<[u8; 12]>(),
        row in prop::collection::vec(any::<u8>(), 0..40),
    ) {
        let place = Place { row: &row, ..PLACE };
        let sealed = key(3).seal(&place, &plain, nonce);
        let opened = key(3).open(&place, &sealed).unwrap();
        prop_assert_eq!(opened.as_slice(), &plain[..]);
    }
}
