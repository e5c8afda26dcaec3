//! The end of a certificate, read from its bytes.
//!
//! The bytes are the operator's own certificate. `x509-parser` would bring eight crates, and two versions of one, to read
//! one date of it; `rustls-webpki` checks it and does not tell.

use culvert_wire::Timestamp;

/// Tags of DER that a certificate has on the way to its validity (RFC 5280 §4.1).
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The time after which a certificate is refused. None for bytes that are no certificate.
pub(super) fn ends(certificate: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = element(certificate, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if let Some((_, after)) = element(rest, VERSION) {
        rest = after;
    }
    // The serial number, the algorithm, and the issuer.
    for tag in [INTEGER, SEQUENCE, SEQUENCE] {
        rest = element(rest, tag)?.1;
    }
    let (validity, _) = element(rest, SEQUENCE)?;
    let begins = [UTC_TIME, GENERALIZED_TIME];
    let after = begins.iter().find_map(|tag| element(validity, *tag))?.1;
    if let Some((text, _)) = element(after, GENERALIZED_TIME) {
        return instant(std::str::from_utf8(text).ok()?);
    }
    let (text, _) = element(after, UTC_TIME)?;
    let text = std::str::from_utf8(text).ok()?;
    // Two digits of the year: those from 50 on are of the 20th century (RFC 5280 §4.1.2.5.1).
    let year: u8 = text.get(..2)?.parse().ok()?;
    let century = if year >= 50 { "19" } else { "20" };
    instant(&format!("{century}{text}"))
}

/// The instant of `YYYYMMDDHHMMSSZ`.
fn instant(text: &str) -> Option<Timestamp> {
    let part = |from: usize, to: usize| text.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, rest) = (part(8, 10)?, part(10, 12)?, part(12, text.len())?);
    format!("{year}-{month}-{day}T{hour}:{minute}:{rest}")
        .parse()
        .ok()
}

/// The content of an element with this tag at the beginning of the bytes, and the bytes after it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    if *found != tag {
        return None;
    }
    let mut len = usize::from(*first);
    if len >= 0x80 {
        let (digits, after) = rest.split_at_checked(len & 0x7f)?;
        if digits.len() > 4 {
            return None;
        }
        len = digits
            .iter()
            .fold(0, |len, digit| (len << 8) | usize::from(*digit));
        rest = after;
    }
    rest.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    #[test]
    fn the_end_of_a_certificate_is_read_in_both_of_its_forms() {
        for (year, text) in [
            (2026, "2026-05-11T00:00:00Z"),
            (2049, "2049-05-11T00:00:00Z"),
            (2050, "2050-05-11T00:00:00Z"),
            (4096, "4096-05-11T00:00:00Z"),
        ] {
            let mut params = CertificateParams::new(vec!["portal.example".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, 5, 11);
            let key = KeyPair::generate().unwrap();
            let made = params.self_signed(&key).unwrap();
            assert_eq!(ends(made.der()), text.parse().ok(), "{year}");
            for len in 0..made.der().len() {
                ends(&made.der()[..len]);
            }
        }
        assert_eq!(ends(b""), None);
        assert_eq!(ends(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0x30]), None);
        assert_eq!(ends(&[0x30, 0xff]), None);
    }
}
