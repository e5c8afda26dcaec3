//! Errors as the socket answers them: a text for people, and a code for programs (docs/socket.md).

use serde::{Deserialize, Serialize};

/// The kind of an error, for programs. A code never changes its meaning; later programs may have more of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The line is no request, or one that this program does not know.
    NotARequest,
    /// The request has another version of the form.
    SchemaVersion,
    /// The request is longer than a request may be.
    RequestTooLong,
    /// As many requests are under way as may be.
    TooManyRequests,
    /// As many watch as may.
    TooManyWatchers,
    /// The user who asks may look, but not command.
    NotPermitted,
    /// An administrator's token controls the client.
    ControlledByToken,
    /// Nobody is signed in.
    SignedOut,
    /// The token can't be used.
    InvalidToken,
    /// The portal's URL, or the SHA-256 of its certificate, can't be used.
    InvalidPortal,
    /// The client was started with `--dns off`.
    DnsOff,
    /// The client is not up, and knows no rules about applications.
    Down,
    /// No rule of the portal names the application.
    UnknownApplication,
    /// The process that asks could not be moved into the application.
    JoinFailed,
    /// No lines of the log are held.
    NoLog,
    /// The client reverts its changes, and takes no commands meanwhile.
    GoingDown,
    /// The program ends.
    Ending,
    /// A fault of this machine.
    Failed,
}

impl ErrorCode {
    /// True if the same request may succeed in a moment, without anybody's help.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::TooManyRequests | Self::GoingDown | Self::Ending)
    }

    /// The error of this kind with a text for people.
    #[must_use]
    pub fn because(self, text: impl Into<String>) -> SocketError {
        SocketError {
            text: text.into(),
            code: self,
        }
    }
}

/// The error that answers a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{text}")]
pub struct SocketError {
    /// The reason, for people.
    #[serde(rename = "error")]
    pub text: String,
    /// The kind, for programs.
    pub code: ErrorCode,
}

/// The code of an error, as a reader finds it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum AnsweredCode {
    /// A code of this version.
    Known(ErrorCode),
    /// A code of a later program.
    Newer(String),
}

/// An error, as a reader finds it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AnsweredError {
    /// The reason, for people.
    #[serde(rename = "error")]
    pub text: String,
    /// The kind; none if the program is older than codes.
    pub code: Option<AnsweredCode>,
}

impl AnsweredError {
    /// The kind, if this version knows it.
    #[must_use]
    pub const fn known_code(&self) -> Option<ErrorCode> {
        match &self.code {
            Some(AnsweredCode::Known(code)) => Some(*code),
            Some(AnsweredCode::Newer(_)) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The codes of this version, as serde names them when it meets another.
    fn codes() -> BTreeSet<String> {
        let error = serde_json::from_str::<ErrorCode>("\"?\"").unwrap_err();
        let error = error.to_string();
        let (_, named) = error.split_once("expected one of").unwrap();
        let names = named.split('`').skip(1).step_by(2);
        names.map(str::to_owned).collect()
    }

    #[test]
    fn the_document_lists_every_code_and_no_other() {
        let document = include_str!("../../../../docs/socket.md");
        let (_, section) = document.split_once("\n## Errors\n").unwrap();
        let (section, _) = section.split_once("\n## ").unwrap();
        let cells = section.lines().filter_map(|line| line.strip_prefix("| `"));
        let listed: Vec<&str> = cells.map(|cell| cell.split('`').next().unwrap()).collect();
        let unique: BTreeSet<String> = listed.iter().map(ToString::to_string).collect();
        assert_eq!(unique, codes());
        assert_eq!(unique.len(), listed.len(), "a code is listed twice");
    }

    #[test]
    fn the_document_marks_the_codes_after_which_a_program_may_try_again() {
        let document = include_str!("../../../../docs/socket.md");
        for code in codes() {
            let start = format!("| `{code}` |");
            let row = document.lines().find(|line| line.starts_with(&start));
            let parsed: ErrorCode = serde_json::from_str(&format!("\"{code}\"")).unwrap();
            let is_marked = row.unwrap().ends_with("| yes |");
            assert_eq!(is_marked, parsed.is_transient(), "{code}");
        }
    }

    #[test]
    fn errors_with_and_without_a_code_are_read() {
        let read = |text: &str| serde_json::from_str::<AnsweredError>(text).unwrap();
        let written = serde_json::to_string(&ErrorCode::NotARequest.because("write")).unwrap();
        assert_eq!(written, r#"{"error":"write","code":"not_a_request"}"#);
        assert_eq!(read(&written).known_code(), Some(ErrorCode::NotARequest));
        assert_eq!(read(r#"{"error":"no"}"#).code, None);
        let newer = read(r#"{"error":"no","code":"of_a_later_program","more":1}"#);
        let code = AnsweredCode::Newer("of_a_later_program".to_owned());
        assert_eq!(newer.code, Some(code));
        assert_eq!((newer.known_code(), &*newer.text), (None, "no"));
    }
}
