//! A sign-in by a browser. `culvert sign-in --portal URL --json --no-browser` carries it out: it gets the code, waits for
//! the approval, and hands the token to the service. The token never passes this program.

use serde::Deserialize;

/// The longest line of the program that is read, in bytes. The last one is a whole status.
pub const MAX_LINE_BYTES: u64 = crate::exchange::MAX_ANSWER_BYTES;

/// The longest URL of a portal, in bytes.
pub const MAX_URL_BYTES: usize = 512;

/// The progress of a sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The portal is asked for a code.
    Asking,
    /// A person has to approve the code.
    Code(Code),
    /// A token was given to the service.
    HandedOver,
}

/// A code that a person approves in the console.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Code {
    /// The code, to compare.
    pub user_code: String,
    /// The URL that a browser opens, with the code in it.
    pub url: String,
    /// The moment at which the code ends, in milliseconds of the clock of the window.
    pub expires_at_ms: u64,
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

#[derive(Deserialize)]
struct Told {
    sign_in: ToldCode,
}

#[derive(Deserialize)]
struct ToldCode {
    user_code: String,
    url_with_code: String,
    expires_in_s: u64,
}

/// The longest that a code is shown, in seconds, whatever the portal says: the bound of `culvert sign-in`.
const LONGEST_S: u64 = 3_600;

/// Reads a line of the program's output. None for lines that carry no code, such as the state at the end.
#[must_use]
pub fn parse_code(line: &str, portal: &str, now_ms: u64) -> Option<Code> {
    let Told { sign_in } = serde_json::from_str(line).ok()?;
    // The browser goes to this portal and nowhere else.
    let origin = origin(portal)?;
    let is_of_portal = sign_in
        .url_with_code
        .strip_prefix(&origin)
        .is_some_and(|rest| rest.starts_with('/'));
    let is_shown_whole = !sign_in.user_code.is_empty()
        && sign_in.user_code.len() <= 32
        && sign_in
            .user_code
            .chars()
            .all(|character| character.is_ascii_alphanumeric() || character == '-');
    (is_of_portal && is_shown_whole).then(|| Code {
        user_code: sign_in.user_code,
        url: sign_in.url_with_code,
        expires_at_ms: now_ms.saturating_add(sign_in.expires_in_s.min(LONGEST_S) * 1_000),
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

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"sign_in":{"user_code":"BCDF-GHJK","url":"https://p.example/device","url_with_code":"https://p.example/device?code=BCDF-GHJK","expires_in_s":600}}"#;

    #[test]
    fn a_code_is_read_and_ends() {
        let code = parse_code(LINE, "https://p.example", 1_000).unwrap();
        assert_eq!(code.user_code, "BCDF-GHJK");
        assert_eq!(code.left_s(1_000), Some(600));
        assert_eq!(code.left_s(600_999), Some(1));
        assert_eq!(code.left_s(601_000), None);
    }

    #[test]
    fn a_code_of_another_site_is_not_opened() {
        assert_eq!(parse_code(LINE, "https://q.example", 0), None);
        let close = LINE.replace(
            "https://p.example/device?",
            "https://p.example.evil.example/device?",
        );
        assert_eq!(parse_code(&close, "https://p.example", 0), None);
        let scheme = LINE.replace("https://p.example/device?", "file:///etc/passwd?");
        assert_eq!(parse_code(&scheme, "https://p.example", 0), None);
        let markup = LINE.replace("\"BCDF-GHJK\"", "\"<b>\"");
        assert_eq!(parse_code(&markup, "https://p.example", 0), None);
        assert_eq!(parse_code(r#"{"status":{}}"#, "https://p.example", 0), None);
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
