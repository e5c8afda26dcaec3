//! Files that come back, files that others wrote, and files that somebody changed.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_age::{
    AgeError, Envelope, Identity, KeyError, MAX_HEADER_LEN, MAX_RECIPIENTS, Recipient, open,
    parse_identities, parse_recipients,
};

/// Of age's own documentation: the private key is 32 bytes of 0x42.
const IDENTITY: &str = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
const RECIPIENT: &str = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";

const CHUNK_LEN: usize = 65_536;

/// Bytes that are different each time, and the same in each run.
fn counting() -> impl FnMut(&mut [u8]) {
    let mut next = 0_u8;
    move |bytes| {
        for byte in bytes {
            next = next.wrapping_mul(5).wrapping_add(113);
            *byte = next;
        }
    }
}

fn identity(byte: u8) -> Identity {
    Identity::from_bytes(&[byte; 32]).unwrap()
}

fn seal(plain: &[u8], recipients: &[Recipient]) -> Vec<u8> {
    let mut sealed = Vec::new();
    let envelope = Envelope::new(recipients, counting()).unwrap();
    envelope.seal(plain, &mut sealed).unwrap();
    sealed
}

fn opened(sealed: &[u8], identities: &[Identity]) -> Result<Vec<u8>, AgeError> {
    let mut plain = Vec::new();
    open(sealed, &mut plain, identities).map(|()| plain)
}

#[test]
fn keys_are_those_of_age_keygen() {
    let identity: Identity = IDENTITY.parse().unwrap();
    assert_eq!(identity.recipient().to_string(), RECIPIENT);
    assert_eq!(RECIPIENT.parse::<Recipient>(), Ok(identity.recipient()));
    assert!(!format!("{identity:?}").contains("SECRET"));
}

#[test]
fn a_key_with_a_wrong_letter_is_refused() {
    let wrong = RECIPIENT.replace("zvk", "zvq");
    assert_eq!(wrong.parse::<Recipient>(), Err(KeyError::Checksum));
    for other in [
        "",
        "ssh-ed25519 AAAA",
        "äge1",
        IDENTITY,
        &RECIPIENT.replace("zvk", "Zvk"),
    ] {
        assert_eq!(
            other.parse::<Recipient>(),
            Err(KeyError::NotARecipient),
            "{other}"
        );
    }
    let error = RECIPIENT.parse::<Identity>().unwrap_err();
    assert_eq!(error, KeyError::NotAnIdentity);
}

#[test]
fn a_file_of_keys_has_comments_and_names_the_line_of_what_is_none() {
    let text = format!("# created: today\r\n\n{IDENTITY}\r\n");
    assert_eq!(parse_identities(&text).unwrap().len(), 1);
    assert_eq!(parse_recipients("# nobody\n"), Err((0, KeyError::None)));
    let text = format!("{RECIPIENT}\nbob\n");
    assert_eq!(parse_recipients(&text), Err((2, KeyError::NotARecipient)));
}

#[test]
fn what_is_encrypted_comes_back_to_each_recipient_at_every_length() {
    let recipients = [identity(1).recipient(), identity(2).recipient()];
    for len in [0, 1, CHUNK_LEN - 1, CHUNK_LEN, CHUNK_LEN + 1, 3 * CHUNK_LEN] {
        let plain: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let sealed = seal(&plain, &recipients);
        for byte in [1, 2] {
            let identities = [identity(9), identity(byte)];
            assert!(opened(&sealed, &identities).unwrap() == plain, "{len}");
        }
    }
}

#[test]
fn another_identity_opens_nothing() {
    let sealed = seal(b"plain", &[identity(1).recipient()]);
    assert!(matches!(
        opened(&sealed, &[identity(3)]),
        Err(AgeError::NoMatch)
    ));
    assert!(matches!(opened(&sealed, &[]), Err(AgeError::NoMatch)));
}

#[test]
fn no_changed_bit_and_no_missing_byte_goes_unnoticed() {
    let whole = [identity(1)];
    let sealed = seal(b"plain", &[identity(1).recipient()]);
    for at in 0..sealed.len() {
        assert!(opened(&sealed[..at], &whole).is_err(), "cut at {at}");
        for bit in 0..8 {
            let mut changed = sealed.clone();
            changed[at] ^= 1 << bit;
            assert!(opened(&changed, &whole).is_err(), "bit {bit} of {at}");
        }
    }
    let longer = [&sealed[..], &[0]].concat();
    assert!(matches!(opened(&longer, &whole), Err(AgeError::Forged)));
}

#[test]
fn chunks_can_be_neither_left_out_nor_exchanged() {
    let whole = [identity(1)];
    let sealed = seal(&[7; 3 * CHUNK_LEN], &[identity(1).recipient()]);
    let chunk = CHUNK_LEN + 16;
    let head = sealed.len() - 3 * chunk;
    let cut = opened(&sealed[..head + 2 * chunk], &whole);
    assert!(matches!(cut, Err(AgeError::CutOff)), "{cut:?}");
    let without = [&sealed[..head], &sealed[head + chunk..]].concat();
    assert!(matches!(opened(&without, &whole), Err(AgeError::Forged)));
    let (first, second) = (
        &sealed[head..head + chunk],
        &sealed[head + chunk..head + 2 * chunk],
    );
    let exchanged = [&sealed[..head], second, first, &sealed[head + 2 * chunk..]].concat();
    assert!(matches!(opened(&exchanged, &whole), Err(AgeError::Forged)));
}

#[test]
fn stanzas_of_other_kinds_are_passed_over_and_a_header_has_an_end() {
    let endless = [
        b"age-encryption.org/v1\n-> X ".as_slice(),
        &[b'a'; MAX_HEADER_LEN],
    ]
    .concat();
    assert!(matches!(opened(&endless, &[]), Err(AgeError::Header)));
    let stanzas = b"age-encryption.org/v1\n-> other a b\n\n-> scrypt AAAA 18\nAAAA\n--- AAAA\n";
    assert!(matches!(
        opened(stanzas, &[identity(1)]),
        Err(AgeError::NoMatch)
    ));
    assert!(matches!(
        opened(b"age-encryption.org/v2\n", &[]),
        Err(AgeError::Header)
    ));
}

#[test]
fn an_envelope_has_recipients_and_none_that_is_weak() {
    let error = Envelope::new(&[], counting()).err();
    assert!(matches!(error, Some(AgeError::Recipients)));
    let many = vec![identity(1).recipient(); MAX_RECIPIENTS + 1];
    let error = Envelope::new(&many, counting()).err();
    assert!(matches!(error, Some(AgeError::Recipients)));
    // The point of order 1: each secret that it shares is zero.
    let weak = Recipient::from_bytes([0; 32]);
    let error = Envelope::new(&[weak], counting()).err();
    assert!(matches!(error, Some(AgeError::WeakRecipient)));
}
