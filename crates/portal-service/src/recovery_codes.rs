//! Recovery codes: as people keep and type them, and as the store knows them.

use aws_lc_rs::digest;
use culvert_portal_base::Fault;
use culvert_store::MAX_RECOVERY_CODES;
use culvert_wire::token::SecretDigest;
use data_encoding::BASE32_NOPAD;
use zeroize::Zeroizing;

/// Random bytes of a recovery code: 80 bits, 16 characters.
const RECOVERY_CODE_LEN: usize = 10;
pub(super) const RECOVERY_CODE_CHARS: usize = 16;

/// Codes that are shown this once.
pub type RecoveryCodes = Vec<Zeroizing<String>>;

/// A code without what people write between its characters.
pub(super) fn plain(code: &str) -> Zeroizing<String> {
    let remaining = code.chars().filter(|letter| !" -\t".contains(*letter));
    // No code is longer, and nothing is read further.
    let remaining = remaining.take(RECOVERY_CODE_CHARS + 1);
    Zeroizing::new(remaining.collect::<String>().to_uppercase())
}

/// Recovery codes as people keep them, and as the store does.
pub(super) fn new_codes() -> Result<(RecoveryCodes, Vec<SecretDigest>), Fault> {
    let mut shown = Vec::with_capacity(MAX_RECOVERY_CODES);
    let mut remaining = Vec::with_capacity(MAX_RECOVERY_CODES);
    for _ in 0..MAX_RECOVERY_CODES {
        let mut random = Zeroizing::new([0; RECOVERY_CODE_LEN]);
        getrandom::fill(random.as_mut_slice())?;
        let code = Zeroizing::new(BASE32_NOPAD.encode(random.as_slice()));
        remaining.push(digest_of(&code));
        let mut groups = Zeroizing::new(String::with_capacity(RECOVERY_CODE_CHARS + 3));
        for (at, letter) in code.chars().enumerate() {
            if at > 0 && at % 4 == 0 {
                groups.push('-');
            }
            groups.push(letter.to_ascii_lowercase());
        }
        shown.push(groups);
    }
    Ok((shown, remaining))
}

pub(super) fn digest_of(code: &str) -> SecretDigest {
    SecretDigest::from_bytes(sha256(code.as_bytes()))
}

pub(super) fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn recovery_codes_are_known_however_they_are_typed() {
        let (shown, remaining) = new_codes().unwrap();
        assert_eq!((shown.len(), remaining.len()), (10, 10));
        let different: BTreeSet<&str> = shown.iter().map(|code| code.as_str()).collect();
        assert_eq!(different.len(), 10);
        for (code, digest) in shown.iter().zip(&remaining) {
            let groups: Vec<usize> = code.split('-').map(str::len).collect();
            assert_eq!(groups, [4; 4], "{}", **code);
            for typed in [
                code.to_uppercase(),
                code.replace('-', ""),
                format!(" {} ", code.replace('-', " ")),
            ] {
                assert_eq!(digest_of(&plain(&typed)), *digest);
            }
        }
        assert_eq!(plain(&"x".repeat(1_000)).len(), RECOVERY_CODE_CHARS + 1);
    }
}
