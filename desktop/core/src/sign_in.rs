//! A sign-in by a browser. The service carries it out and tells its progress in the state; the token never passes this
//! program.

use crate::status;

/// The longest URL of a portal, in bytes.
pub const MAX_URL_BYTES: usize = 512;

/// The longest that a code is shown, in seconds, whatever the portal says: the bound of `culvert sign-in`.
const LONGEST_S: u64 = 3_600;

/// The longest code that is shown, in bytes; portals have codes of 9.
const MAX_CODE_BYTES: usize = 32;

/// The progress of a sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The portal is asked for a code.
    Asking,
    /// A person has to approve the code.
    Code(Code),
    /// It has failed.
    Failed(Failure),
}

/// A code that a person approves in the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The code, to compare.
    pub user_code: String,
    /// The URL that a browser opens: with the code in it, if the portal has such a one.
    pub url: String,
    /// The moment at which the code ends, in milliseconds of the clock of the window.
    pub expires_at_ms: u64,
}

/// The reason why a sign-in failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// For programs.
    pub code: String,
    /// For people, in English.
    pub text: String,
}

impl Code {
    /// Seconds until the code ends; none once it has.
    #[must_use]
    pub const fn left_s(&self, now_ms: u64) -> Option<u64> {
        match self.expires_at_ms.saturating_sub(now_ms) {
            0 => None,
            left_ms => Some(left_ms.div_ceil(1_000)),
        }
    }
}

impl Progress {
    /// The progress that the service told at `heard_ms`. None for a state of a later service.
    #[must_use]
    pub fn of(told: &status::SignIn, heard_ms: u64) -> Option<Self> {
        Some(match told.state {
            status::SignInState::Asking => Self::Asking,
            status::SignInState::Waiting => match code(told, heard_ms) {
                Some(code) => Self::Code(code),
                None => Self::Failed(Failure {
                    code: "not_a_portal".to_owned(),
                    text: String::new(),
                }),
            },
            status::SignInState::Failed => Self::Failed(Failure {
                code: told.code_of_failure.clone(),
                text: told.text.clone(),
            }),
            status::SignInState::Other => return None,
        })
    }
}

/// The code, if its page is one of the portal and it can be shown whole.
fn code(told: &status::SignIn, heard_ms: u64) -> Option<Code> {
    // The browser goes to this portal and nowhere else.
    let origin = origin(&told.portal)?;
    let is_of_portal = |url: &&str| {
        url.len() <= MAX_URL_BYTES
            && url
                .strip_prefix(&origin)
                .is_some_and(|rest| rest.starts_with('/'))
            && url.bytes().all(|byte| byte.is_ascii_graphic())
    };
    let complete = told.url_complete.as_deref().filter(is_of_portal);
    let url = complete.or_else(|| Some(told.url.as_str()).filter(is_of_portal))?;
    let is_shown_whole = (1..=MAX_CODE_BYTES).contains(&told.code.len())
        && told
            .code
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '-');
    is_shown_whole.then(|| Code {
        user_code: told.code.clone(),
        url: url.to_owned(),
        expires_at_ms: heard_ms.saturating_add(told.expires_in_s.min(LONGEST_S) * 1_000),
    })
}

/// The URL of a portal, as a person typed it: `https://` may be left out. None if it is none.
#[must_use]
pub fn portal_url(typed: &str) -> Option<String> {
    let typed = typed.trim();
    let url = match typed.split_once("://") {
        Some(("https", _)) => typed.to_owned(),
        Some(_) => return None,
        None => format!("https://{typed}"),
    };
    origin(&url)
}

/// `https://HOST[:PORT]` of a URL.
fn origin(url: &str) -> Option<String> {
    let rest = url.strip_prefix("https://")?;
    let host = rest.split('/').next()?;
    let is_host =
        |character: char| character.is_ascii_alphanumeric() || "-._:[]".contains(character);
    let has_name = host
        .chars()
        .any(|character| character.is_ascii_alphanumeric());
    (url.len() <= MAX_URL_BYTES && has_name && !host.starts_with('-') && host.chars().all(is_host))
        .then(|| format!("https://{host}"))
}

/// A fingerprint as a person pasted it, SHA-256: in base64url, as the portal prints it, or in hexadecimal digits with or
/// without colons and spaces. None if it is none.
#[must_use]
pub fn fingerprint(typed: &str) -> Option<String> {
    /// Hexadecimal digits of 256 bits.
    const DIGITS: usize = 64;
    /// Characters of base64url, without padding. The last one has four bits of the 256, and two that are zero.
    const CHARACTERS: usize = 43;
    const LAST: &str = "AEIMQUYcgkosw048";
    let pasted = typed.trim();
    let is_base64 = pasted.len() == CHARACTERS
        && (pasted.bytes()).all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        && pasted.ends_with(|last| LAST.contains(last));
    if is_base64 {
        return Some(pasted.to_owned());
    }
    let digits: String = typed
        .chars()
        .filter(|character| *character != ':' && !character.is_whitespace())
        .take(DIGITS + 1)
        .collect();
    let is_whole = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_whole.then(|| digits.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(url: &str, code: &str) -> status::SignIn {
        status::SignIn {
            state: status::SignInState::Waiting,
            portal: "https://p.example".to_owned(),
            url: "https://p.example/device".to_owned(),
            url_complete: Some(url.to_owned()).filter(|url| !url.is_empty()),
            code: code.to_owned(),
            expires_in_s: 600,
            ..status::SignIn::default()
        }
    }

    fn code_of(told: &status::SignIn) -> Code {
        match Progress::of(told, 1_000) {
            Some(Progress::Code(code)) => code,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_code_is_read_and_ends() {
        let code = code_of(&told(
            "https://p.example/device?code=BCDF-GHJK",
            "BCDF-GHJK",
        ));
        assert_eq!(code.user_code, "BCDF-GHJK");
        assert_eq!(code.url, "https://p.example/device?code=BCDF-GHJK");
        assert_eq!(code.left_s(1_000), Some(600));
        assert_eq!(code.left_s(600_999), Some(1));
        assert_eq!(code.left_s(601_000), None);
        assert_eq!(code_of(&told("", "A-B")).url, "https://p.example/device");
    }

    #[test]
    fn a_page_of_another_site_is_not_opened() {
        for url in [
            "https://q.example/device?code=A-B",
            "https://p.example.evil.example/device",
            "file:///etc/passwd",
            "https://p.example/a b",
        ] {
            assert_eq!(
                code_of(&told(url, "A-B")).url,
                "https://p.example/device",
                "{url}"
            );
        }
        let mut other = told("", "A-B");
        other.url = "https://q.example/device".to_owned();
        let failed = |told: &status::SignIn| matches!(Progress::of(told, 0), Some(Progress::Failed(failure)) if failure.code == "not_a_portal");
        assert!(failed(&other));
        assert!(failed(&told("", "<b>")));
        assert!(failed(&told("", "")));
    }

    #[test]
    fn each_state_is_told_and_a_later_one_is_not() {
        let mut told = told("", "A-B");
        told.state = status::SignInState::Asking;
        assert_eq!(Progress::of(&told, 0), Some(Progress::Asking));
        told.state = status::SignInState::Failed;
        told.code_of_failure = "expired".to_owned();
        assert!(
            matches!(Progress::of(&told, 0), Some(Progress::Failed(failure)) if failure.code == "expired")
        );
        told.state = status::SignInState::Other;
        assert_eq!(Progress::of(&told, 0), None);
    }

    #[test]
    fn a_fingerprint_is_pasted_in_the_forms_of_tools() {
        let digits = "0123456789abcdef".repeat(4);
        let colons: Vec<String> = digits
            .as_bytes()
            .chunks(2)
            .map(|pair| String::from_utf8_lossy(pair).to_uppercase())
            .collect();
        assert_eq!(fingerprint(&digits).as_deref(), Some(digits.as_str()));
        assert_eq!(
            fingerprint(&format!(" {} ", colons.join(":"))).as_deref(),
            Some(digits.as_str())
        );
        // The portal prints this one of 32 bytes 0xff.
        let printed = format!("{}8", "_".repeat(42));
        assert_eq!(fingerprint(&format!("{printed}\n")), Some(printed));
        for wrong in [
            "",
            "abcd",
            &"_".repeat(43),
            &"_".repeat(42),
            &format!("{}=8", "_".repeat(41)),
            &digits[1..],
            &format!("{digits}0"),
            &digits.replace('a', "g"),
        ] {
            assert_eq!(fingerprint(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_portal_is_typed_with_or_without_its_scheme() {
        assert_eq!(
            portal_url(" portal.example ").as_deref(),
            Some("https://portal.example")
        );
        assert_eq!(
            portal_url("https://portal.example:8443/x").as_deref(),
            Some("https://portal.example:8443")
        );
        assert_eq!(
            portal_url("[fd00::1]:8443").as_deref(),
            Some("https://[fd00::1]:8443")
        );
        for wrong in [
            "",
            "http://portal.example",
            "--json",
            "https://",
            "a b",
            "x@y",
            "https://-x",
            "https://?",
        ] {
            assert_eq!(portal_url(wrong), None, "{wrong:?}");
        }
    }
}
