//! The form of an answer at the socket.

use super::socket_error::{AnsweredCode, SocketError};
use serde::{Deserialize, Serialize};

/// The longest answer, in bytes: a client's 20,000 resources and 32,000 names of half a kilobyte each.
pub(crate) const MAX_ANSWER_LEN: u64 = 32 * 1024 * 1024;

/// The answer to a request, as it is written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer<S> {
    Status(Box<S>),
    Log(Vec<String>),
    #[serde(untagged)]
    Error(SocketError),
}

/// The answer to a request, as it is read. It is no enum: an error has further keys, and an older program's has none.
#[derive(Debug, Deserialize)]
pub(super) struct ReadAnswer<S> {
    pub(super) status: Option<Box<S>>,
    pub(super) log: Option<Vec<String>>,
    pub(super) error: Option<String>,
    pub(super) code: Option<AnsweredCode>,
}

#[cfg(test)]
mod tests {
    use super::super::socket_error::ErrorCode;
    use super::*;

    #[test]
    fn answers_have_the_form_of_the_document() {
        let document = include_str!("../../../../docs/socket.md");
        let error =
            ErrorCode::NotPermitted.because("user ada may look, but not tell it what to do: …");
        let log =
            vec!["2026-11-30T18:00:00Z  INFO signed out: waits for `culvert sign-in`".to_owned()];
        let status = serde_json::json!({ "schema_version": 1 });
        for answer in [
            Answer::Status(Box::new(status)),
            Answer::Log(log),
            Answer::Error(error),
        ] {
            let line = serde_json::to_string(&answer).unwrap();
            assert!(document.contains(&line), "docs/socket.md lacks {line}");
        }
    }

    #[test]
    fn errors_of_older_and_newer_programs_are_read() {
        let read = |text: &str| serde_json::from_str::<ReadAnswer<u8>>(text).unwrap();
        let older = read(r#"{"error":"no"}"#);
        assert_eq!((older.error.as_deref(), older.code), (Some("no"), None));
        let newer = read(r#"{"error":"no","code":"not_permitted","later":{}}"#);
        let code = AnsweredCode::Known(ErrorCode::NotPermitted);
        assert_eq!(
            (newer.error.as_deref(), newer.code),
            (Some("no"), Some(code))
        );
        let status = read(r#"{"status":7}"#);
        assert_eq!((status.status, status.error), (Some(Box::new(7)), None));
    }
}
