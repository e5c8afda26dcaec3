//! Codes of authenticator apps (RFC 6238 over RFC 4226): six digits, a new one every 30 seconds, by
//! HMAC-SHA-1, which is what every app knows. Pure: secret and time are arguments.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use culvert_wire::Timestamp;
use data_encoding::BASE32_NOPAD;
use zeroize::Zeroizing;

/// RFC 4226 §4, R6: "This document RECOMMENDs a shared secret length of 160 bits."
pub const SECRET_LEN: usize = 20;

/// RFC 6238 §5.2: "We RECOMMEND a default time-step size of 30 seconds".
const STEP_MS: u64 = 30_000;

const DIGITS: usize = 6;

/// RFC 6238 §5.2: "We RECOMMEND that at most one time step is allowed as the network delay"; another in
/// the other direction is for a clock that is fast.
const STEPS_AWAY: u64 = 1;

/// The time step whose code this is, of those that are near.
pub fn step_of(secret: &[u8], code: &str, now: Timestamp) -> Option<u64> {
    let step = now.unix_ms() / STEP_MS;
    let mut near = step.saturating_sub(STEPS_AWAY)..=step + STEPS_AWAY;
    near.find(|step| {
        let wanted = code_at(secret, *step);
        verify_slices_are_equal(wanted.as_bytes(), code.as_bytes()).is_ok()
    })
}

/// The code of a time step, as RFC 4226 §5.3 truncates it.
fn code_at(secret: &[u8], step: u64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let tag = tag.as_ref();
    let offset = usize::from(tag.last().copied().unwrap_or_default() & 0xf);
    let mut bits = [0; 4];
    // At most 15, and the tag has 20 bytes.
    bits.copy_from_slice(&tag[offset..offset + 4]);
    let number = u32::from_be_bytes(bits) & 0x7fff_ffff;
    format!("{:0DIGITS$}", number % 1_000_000)
}

/// True if a text without spaces has the form of a code.
pub fn is_code(text: &str) -> bool {
    text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A secret as people type it into an app.
pub fn as_text(secret: &[u8]) -> Zeroizing<String> {
    Zeroizing::new(BASE32_NOPAD.encode(secret))
}

/// The URI that an app reads out of a picture.
pub fn uri(secret: &[u8], issuer: &str, name: &str) -> Zeroizing<String> {
    let escaped = |text: &str| {
        let bytes = form_urlencoded::byte_serialize(text.as_bytes());
        bytes.collect::<String>().replace('+', "%20")
    };
    let (issuer, name, secret) = (escaped(issuer), escaped(name), as_text(secret));
    Zeroizing::new(format!(
        "otpauth://totp/{issuer}:{name}?secret={}&issuer={issuer}",
        *secret
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seed of RFC 6238, appendix B.
    const SEED: &[u8] = b"12345678901234567890";

    #[test]
    fn codes_are_those_of_rfc_6238_appendix_b() {
        // The appendix has eight digits, of which six-digit codes are the last ones.
        for (unix_s, code) in [
            (59, "94287082"),
            (1_111_111_109, "07081804"),
            (1_111_111_111, "14050471"),
            (1_234_567_890, "89005924"),
            (2_000_000_000, "69279037"),
            (20_000_000_000, "65353130"),
        ] {
            assert_eq!(code_at(SEED, unix_s / 30), code[2..], "{unix_s}");
        }
    }

    #[test]
    fn codes_are_those_of_rfc_4226_appendix_d() {
        for (step, code) in ["755224", "287082", "359152", "969429", "338314", "254676"]
            .into_iter()
            .enumerate()
        {
            assert_eq!(code_at(SEED, step as u64), code);
        }
    }

    #[test]
    fn a_code_is_accepted_one_step_early_and_one_step_late() {
        let now = |step: u64| Timestamp::from_unix_ms(step * STEP_MS + 17);
        let code = code_at(SEED, 1_000);
        for (at, found) in [
            (998, None),
            (999, Some(1_000)),
            (1_000, Some(1_000)),
            (1_001, Some(1_000)),
            (1_002, None),
        ] {
            assert_eq!(step_of(SEED, &code, now(at)), found, "{at}");
        }
        // The first and the last instant of the steps.
        let ms = Timestamp::from_unix_ms;
        assert_eq!(step_of(SEED, &code, ms(999 * STEP_MS)), Some(1_000));
        assert_eq!(step_of(SEED, &code, ms(999 * STEP_MS - 1)), None);
        assert_eq!(step_of(SEED, &code, ms(1_002 * STEP_MS - 1)), Some(1_000));
        assert_eq!(step_of(SEED, &code, ms(1_002 * STEP_MS)), None);
        assert_eq!(step_of(b"another secret", &code, now(1_000)), None);
        assert_eq!(step_of(SEED, "", now(1_000)), None);
        assert_eq!(step_of(SEED, &code_at(SEED, 0), ms(0)), Some(0));
    }

    #[test]
    fn an_app_reads_name_and_secret_whatever_they_contain() {
        let uri = uri(SEED, "Culvert portal.example", "Ada & Bob/x?");
        assert_eq!(
            *uri,
            "otpauth://totp/Culvert%20portal.example:Ada%20%26%20Bob%2Fx%3F\
             ?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Culvert%20portal.example"
        );
    }

    #[test]
    fn six_digits_are_a_code() {
        assert!(is_code("000000"));
        for text in ["", "12345", "1234567", "12345a", "１２３４５６"] {
            assert!(!is_code(text), "{text}");
        }
    }
}
