//! A request to the service and its answer: one line of JSON each (docs/socket.md).

use crate::status::{SCHEMA_VERSION, Status};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::fmt;
use zeroize::Zeroizing;

/// The longest answer that is read, in bytes: the service's own bound.
pub const MAX_ANSWER_BYTES: u64 = 32 * 1024 * 1024;

/// The longest token, in bytes: the service reads requests up to 5120 bytes, of which 1024 are for what is around it.
pub const MAX_TOKEN_BYTES: usize = 4096;

/// A request to the service.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The state alone.
    Status,
    /// The state, and each change of it.
    Watch(Watch),
    /// Access to the resource with this id.
    Ask(String),
    /// To be connected from now on.
    Up,
    /// Not to be connected from now on.
    Down,
    /// To sign in.
    SignIn(SignIn),
    /// To end the sign-in that is under way, or to forget that it failed.
    CancelSignIn,
    /// To forget the token.
    SignOut,
    /// The last lines of the service's log.
    Log,
    /// To change settings of the service.
    Settings(Change),
}

/// A change of the service's settings.
#[derive(Clone, Copy, Serialize)]
pub struct Change {
    /// True if the system is to ask the client for names.
    pub dns: bool,
}

/// The state from which changes are told.
#[derive(Serialize)]
pub struct Watch {
    /// The number of the last line of an earlier watcher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The way to sign in.
#[derive(Serialize)]
#[serde(untagged)]
pub enum SignIn {
    /// By a token.
    Token {
        /// It is erased from memory afterwards.
        token: Zeroizing<String>,
    },
    /// By a browser: the service asks the portal for a code, and a person approves it there.
    Portal {
        /// The URL of the portal.
        portal: String,
        /// SHA-256 of the portal's certificate in hexadecimal digits, if no authority has issued it.
        #[serde(skip_serializing_if = "Option::is_none")]
        certificate: Option<String>,
    },
}

// No derived form: a token must not reach a log.
impl fmt::Debug for Request {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Status => "Status",
            Self::Watch(_) => "Watch",
            Self::Ask(_) => "Ask",
            Self::Up => "Up",
            Self::Down => "Down",
            Self::SignIn(_) => "SignIn",
            Self::CancelSignIn => "CancelSignIn",
            Self::SignOut => "SignOut",
            Self::Log => "Log",
            Self::Settings(_) => "Settings",
        })
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    schema_version: u32,
    request: &'a Request,
}

impl Request {
    /// Appends the request to `line`, with the end of the line. A buffer with room for [`MAX_TOKEN_BYTES`] and 1024
    /// more does not move, so its owner can erase a token from it.
    ///
    /// # Errors
    /// Never in practice: only if `serde_json` can't write a text.
    pub fn write(&self, line: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        let envelope = Envelope {
            schema_version: SCHEMA_VERSION,
            request: self,
        };
        serde_json::to_writer(&mut *line, &envelope)?;
        line.push(b'\n');
        Ok(())
    }
}

/// An answer that is not a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerError {
    /// The service does not do it. The text is for people, in English.
    Refused(String),
    /// The service does not do it for this user. The text is for people, in English.
    NotPermitted(String),
    /// The service speaks another version of the form.
    Version(u32),
    /// It is no answer.
    Unreadable(String),
}

/// The kind of an error, as far as the window makes a difference. A service that is older than codes gives none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorCode {
    NotARequest,
    SchemaVersion,
    NotPermitted,
    TooManyWatchers,
    Ending,
    /// The text says what it is.
    #[serde(other)]
    Other,
}

/// An answer as it is written. It is no enum: an error has further fields, such as a `code`.
#[derive(Deserialize)]
struct Answer {
    status: Option<Box<Status>>,
    error: Option<String>,
    code: Option<ErrorCode>,
}

/// The part of an answer that tells its version, whatever form the rest has.
#[derive(Deserialize)]
struct Versioned {
    status: VersionOnly,
}

#[derive(Deserialize)]
struct VersionOnly {
    schema_version: u32,
}

/// Reads the answer to a request.
///
/// # Errors
/// If the service refuses, speaks another version, or does not speak this form at all.
pub fn parse_answer(line: &[u8]) -> Result<Status, AnswerError> {
    match serde_json::from_slice(line) {
        Ok(Answer {
            error: Some(text),
            code,
            ..
        }) => Err(refused(text, code)),
        Ok(Answer {
            status: Some(status),
            ..
        }) => match status.schema_version {
            SCHEMA_VERSION => Ok(*status),
            other => Err(AnswerError::Version(other)),
        },
        Ok(_) => Err(neither()),
        Err(error) => match serde_json::from_slice::<Versioned>(line) {
            Ok(Versioned { status }) if status.schema_version != SCHEMA_VERSION => {
                Err(AnswerError::Version(status.schema_version))
            }
            _ => Err(AnswerError::Unreadable(error.to_string())),
        },
    }
}

/// The most lines of a log that are shown: the last ones, of some hours.
pub const MAX_LOG_LINES: usize = 5_000;

/// An answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// It is taken; the state follows by itself.
    Taken,
    /// Lines of the service's log.
    Log(Vec<String>),
}

/// An answer to a command, as it is written.
#[derive(Deserialize)]
struct RawReply {
    status: Option<IgnoredAny>,
    log: Option<Vec<String>>,
    error: Option<String>,
    code: Option<ErrorCode>,
}

fn neither() -> AnswerError {
    AnswerError::Unreadable("it has neither a result nor an error".to_owned())
}

/// Reads the answer to a command. The state in it is not read: watching tells it.
///
/// # Errors
/// If the service refuses, or does not speak this form at all.
pub fn parse_reply(line: &[u8]) -> Result<Reply, AnswerError> {
    match serde_json::from_slice(line) {
        Ok(RawReply {
            error: Some(text),
            code,
            ..
        }) => Err(refused(text, code)),
        Ok(RawReply {
            log: Some(mut lines),
            ..
        }) => {
            lines.drain(..lines.len().saturating_sub(MAX_LOG_LINES));
            Ok(Reply::Log(lines))
        }
        Ok(RawReply {
            status: Some(IgnoredAny),
            ..
        }) => Ok(Reply::Taken),
        Ok(_) => Err(neither()),
        Err(error) => Err(AnswerError::Unreadable(error.to_string())),
    }
}

/// The error that the service means by `text` and `code`.
pub(crate) fn refused(text: String, code: Option<ErrorCode>) -> AnswerError {
    match code {
        Some(ErrorCode::NotPermitted) => AnswerError::NotPermitted(text),
        // A service that is older than codes tells a version by the text alone.
        Some(ErrorCode::SchemaVersion) | None => match spoken(&text) {
            Some(version) if version != SCHEMA_VERSION => AnswerError::Version(version),
            _ => AnswerError::Refused(text),
        },
        Some(_) => AnswerError::Refused(text),
    }
}

/// The version in a refusal of another one: "schema_version 1 is not spoken here, but 2".
fn spoken(text: &str) -> Option<u32> {
    let rest = text.strip_prefix("schema_version ")?;
    let (_, version) = rest.rsplit_once("but ")?;
    version.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{AccessState, Control, PortalState, ServiceState};

    fn line(request: &Request) -> String {
        let mut line = Vec::new();
        request.write(&mut line).unwrap();
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn requests_have_the_form_of_the_document() {
        assert_eq!(
            line(&Request::Status),
            "{\"schema_version\":1,\"request\":\"status\"}\n"
        );
        assert_eq!(
            line(&Request::Ask("res_1".to_owned())),
            "{\"schema_version\":1,\"request\":{\"ask\":\"res_1\"}}\n"
        );
        let token = "T".to_owned().into();
        assert_eq!(
            line(&Request::SignIn(SignIn::Token { token })),
            "{\"schema_version\":1,\"request\":{\"sign_in\":{\"token\":\"T\"}}}\n"
        );
        let portal = |certificate| {
            let portal = "https://p.example".to_owned();
            Request::SignIn(SignIn::Portal {
                portal,
                certificate,
            })
        };
        assert_eq!(
            line(&portal(None)),
            "{\"schema_version\":1,\"request\":{\"sign_in\":{\"portal\":\"https://p.example\"}}}\n"
        );
        assert!(
            line(&portal(Some("ab".to_owned())))
                .contains(r#""portal":"https://p.example","certificate":"ab""#)
        );
        assert_eq!(
            line(&Request::CancelSignIn),
            "{\"schema_version\":1,\"request\":\"cancel_sign_in\"}\n"
        );
        assert_eq!(
            line(&Request::Log),
            "{\"schema_version\":1,\"request\":\"log\"}\n"
        );
        let watch = |after| line(&Request::Watch(Watch { after }));
        assert_eq!(
            watch(None),
            "{\"schema_version\":1,\"request\":{\"watch\":{}}}\n"
        );
        assert_eq!(
            watch(Some(17)),
            "{\"schema_version\":1,\"request\":{\"watch\":{\"after\":17}}}\n"
        );
        assert_eq!(
            line(&Request::SignOut),
            "{\"schema_version\":1,\"request\":\"sign_out\"}\n"
        );
    }

    #[test]
    fn a_token_is_not_in_the_debug_form() {
        let request = Request::SignIn(SignIn::Token {
            token: "secret".to_owned().into(),
        });
        assert!(!format!("{request:?}").contains("secret"));
    }

    #[test]
    fn an_answer_of_a_later_service_stays_readable() {
        let answer = br#"{"status":{"schema_version":1,"later":{"a":[1]},"service":{"control":"remote","state":"paused"},
            "portal":{"state":"dreaming"},"resources":[{"id":"res_1","state":"queued"}]}}"#;
        let status = parse_answer(answer).unwrap();
        assert_eq!(status.service.control, Control::Other);
        assert_eq!(status.service.state, ServiceState::Other);
        assert_eq!(status.portal.state, PortalState::Other);
        assert_eq!(status.resources[0].state, AccessState::Other);
        assert_eq!(status.resources[0].name, "");
    }

    #[test]
    fn an_error_with_a_code_keeps_its_text() {
        for code in ["controlled_by_token", "of_a_later_service", "not_a_request"] {
            let answer = format!(r#"{{"error":"no","code":"{code}"}}"#);
            let refused = AnswerError::Refused("no".to_owned());
            assert_eq!(parse_reply(answer.as_bytes()), Err(refused.clone()));
            assert_eq!(parse_answer(answer.as_bytes()), Err(refused));
        }
        let answer = br#"{"error":"no","code":"not_permitted"}"#;
        let refused = AnswerError::NotPermitted("no".to_owned());
        assert_eq!(parse_reply(answer), Err(refused.clone()));
        assert_eq!(parse_answer(answer), Err(refused));
        assert!(matches!(
            parse_reply(b"{}"),
            Err(AnswerError::Unreadable(_))
        ));
        assert!(matches!(
            parse_answer(b"{}"),
            Err(AnswerError::Unreadable(_))
        ));
    }

    #[test]
    fn a_command_is_taken_refused_or_answered() {
        assert_eq!(
            parse_reply(br#"{"status":{"schema_version":1,"resources":7}}"#),
            Ok(Reply::Taken)
        );
        assert_eq!(
            parse_reply(br#"{"error":"no"}"#),
            Err(AnswerError::Refused("no".to_owned()))
        );
        let lines: Vec<String> = (0..=MAX_LOG_LINES)
            .map(|number| number.to_string())
            .collect();
        let answer = serde_json::json!({ "log": lines }).to_string();
        let Ok(Reply::Log(shown)) = parse_reply(answer.as_bytes()) else {
            panic!("it is a log");
        };
        assert_eq!((shown.len(), shown[0].as_str()), (MAX_LOG_LINES, "1"));
        assert!(matches!(
            parse_reply(b"SSH"),
            Err(AnswerError::Unreadable(_))
        ));
    }

    #[test]
    fn another_version_is_told_apart_from_a_broken_answer() {
        let other = br#"{"status":{"schema_version":2,"resources":{"by":"id"}}}"#;
        assert_eq!(parse_answer(other), Err(AnswerError::Version(2)));
        let readable = br#"{"status":{"schema_version":7}}"#;
        assert_eq!(parse_answer(readable), Err(AnswerError::Version(7)));
        let refused = br#"{"error":"schema_version 1 is not spoken here, but 3"}"#;
        assert_eq!(parse_answer(refused), Err(AnswerError::Version(3)));
        let refused =
            br#"{"error":"schema_version 1 is not spoken here, but 3","code":"schema_version"}"#;
        assert_eq!(parse_answer(refused), Err(AnswerError::Version(3)));
        let refused = br#"{"error":"the group culvert may, ada is no member"}"#;
        assert!(matches!(
            parse_answer(refused),
            Err(AnswerError::Refused(_))
        ));
        for broken in [
            &b"{"[..],
            b"",
            b"HTTP/1.1 400",
            br#"{"status":{"schema_version":1,"resources":3}}"#,
        ] {
            assert!(matches!(
                parse_answer(broken),
                Err(AnswerError::Unreadable(_))
            ));
        }
    }
}
