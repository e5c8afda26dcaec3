//! The form of a request at the socket.

use super::socket_error::{ErrorCode, SocketError};
use crate::MAX_TOKEN_FILE_BYTES;
use crate::watching::Watch;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};
use zeroize::Zeroizing;

/// The longest request without the end of its line, in bytes: a token, and two fields around it.
pub(super) const MAX_REQUEST_LEN: usize = MAX_TOKEN_FILE_BYTES + 1024;

/// A request to a running program. Each request is answered by the state.
pub trait Request: Serialize + DeserializeOwned + Send + 'static {
    /// The request for the state alone.
    const STATUS: Self;

    /// True if it changes the program's work. Such a request is refused to those who may only look:
    /// see [`PeerCredentials`](crate::PeerCredentials) and [`COMMAND_GROUP`](crate::COMMAND_GROUP).
    fn is_change(&self) -> bool;

    /// The request to watch, if it is one: its connection stays open.
    fn watch(&self) -> Option<Watch> {
        None
    }

    /// True if it is for the last lines of the log. They are for those who may command, so it is a change too.
    fn is_log(&self) -> bool {
        false
    }
}

/// The only request to a program that takes no commands: its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnlyStatus {
    /// The state.
    Status,
}

impl Request for OnlyStatus {
    const STATUS: Self = Self::Status;

    fn is_change(&self) -> bool {
        false
    }
}

/// A request as it is written.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Envelope<R> {
    pub(crate) schema_version: u32,
    pub(crate) request: R,
}

/// The part of a request that tells its version, whatever form the rest has.
#[derive(Deserialize)]
struct Versioned {
    schema_version: u32,
}

/// The request in `line`, in the form of `schema_version`. Errors show nothing of the request but its version, because
/// it may hold a token.
///
/// # Errors
/// [`ErrorCode::NotARequest`] and [`ErrorCode::SchemaVersion`].
pub fn parse_request<R: Request>(line: &[u8], schema_version: u32) -> Result<R, SocketError> {
    let not_a_request = || {
        ErrorCode::NotARequest.because(format!(
            "write a line such as {{\"schema_version\":{schema_version},\"request\":\"status\"}}"
        ))
    };
    // serde takes an array of the fields' values for a struct too.
    if !line.trim_ascii_start().starts_with(b"{") {
        return Err(not_a_request());
    }
    // First: another version may have other requests.
    let versioned: Versioned = serde_json::from_slice(line).map_err(|_| not_a_request())?;
    if versioned.schema_version != schema_version {
        return Err(ErrorCode::SchemaVersion.because(format!(
            "schema_version {} is not spoken here, but {schema_version}",
            versioned.schema_version
        )));
    }
    let envelope: Envelope<R> = serde_json::from_slice(line).map_err(|_| not_a_request())?;
    Ok(envelope.request)
}

/// The bytes of a request. It may hold a token: nothing of it stays in memory.
pub(super) type Line = Zeroizing<Vec<u8>>;

/// Reads the line of a request, or finds that it is too long; nothing if the other end sends nothing.
pub(super) async fn read_line(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<Result<Line, SocketError>>> {
    // With room for the end of the line.
    let mut line = Zeroizing::new(vec![0; MAX_REQUEST_LEN + 1]);
    let mut len = 0;
    while len < line.len() {
        match stream.read(&mut line[len..]).await? {
            0 if len == 0 => return Ok(None),
            0 => break,
            read => len += read,
        }
        if line[..len].contains(&b'\n') {
            break;
        }
    }
    line.truncate(len);
    let is_too_long = len > MAX_REQUEST_LEN && !line.contains(&b'\n');
    Ok(Some(match is_too_long {
        true => Err(ErrorCode::RequestTooLong.because(format!(
            "the request is longer than {MAX_REQUEST_LEN} bytes, which is the limit"
        ))),
        false => Ok(line),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(line: &str) -> Result<OnlyStatus, ErrorCode> {
        parse_request(line.as_bytes(), 1).map_err(|error| error.code)
    }

    #[test]
    fn a_line_of_this_version_is_a_request() {
        for line in [
            "{\"schema_version\":1,\"request\":\"status\"}\n",
            " {\"request\":\"status\",\"later\":[{}],\"schema_version\":1} \r\n",
        ] {
            assert_eq!(code(line), Ok(OnlyStatus::Status), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_no_request_is_told_apart_from_one_of_another_version() {
        for line in [
            "",
            "\n",
            "hello\n",
            "[1,\"status\"]",
            "[9]",
            "{\"schema_version\":1}",
            "{\"request\":\"status\"}",
            "{\"schema_version\":\"1\",\"request\":\"status\"}",
            "{\"schema_version\":1,\"request\":\"up\"}",
            "{\"schema_version\":1,\"request\":\"status\"}\n{}",
            "{\"schema_version\":1,\"schema_version\":9,\"request\":\"status\"}",
        ] {
            assert_eq!(code(line), Err(ErrorCode::NotARequest), "{line}");
        }
        for line in [
            "{\"schema_version\":9,\"request\":\"status\"}",
            "{\"schema_version\":0,\"request\":{\"of\":[\"that version\"]}}",
            "{\"schema_version\":9}",
        ] {
            assert_eq!(code(line), Err(ErrorCode::SchemaVersion), "{line}");
        }
    }

    #[test]
    fn an_error_shows_nothing_of_the_request() {
        for line in [
            "{\"schema_version\":1,\"request\":{\"sign_in\":{\"tokn\":\"secret\"}}}",
            "{\"schema_version\":2,\"request\":{\"sign_in\":{\"token\":\"secret\"}}}",
            "secret",
        ] {
            let error = parse_request::<OnlyStatus>(line.as_bytes(), 1).unwrap_err();
            assert!(!error.text.contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_line_ends_by_its_end_or_with_the_connection_and_has_a_longest_length() {
        let read = async |mut bytes: &[u8]| {
            let line = read_line(&mut bytes).await.unwrap();
            line.map(|line| line.map(|line| line.len()).map_err(|error| error.code))
        };
        let longest = vec![b'x'; MAX_REQUEST_LEN];
        let too_long = Some(Err(ErrorCode::RequestTooLong));
        assert_eq!(read(b"").await, None);
        assert_eq!(read(b"\n").await, Some(Ok(1)));
        assert_eq!(read(b"abc").await, Some(Ok(3)));
        assert_eq!(read(&longest).await, Some(Ok(MAX_REQUEST_LEN)));
        let ended = [&longest[..], b"\n"].concat();
        assert_eq!(read(&ended).await, Some(Ok(MAX_REQUEST_LEN + 1)));
        assert_eq!(read(&[&longest[..], b"x"].concat()).await, too_long);
        assert_eq!(read(&[&longest[..], b"x\n"].concat()).await, too_long);
    }
}
