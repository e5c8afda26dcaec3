//! From text to message and back: the first check of bytes from a stranger.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest message in bytes: a gateway's hello with [`GRANTS_PER_PAGE`](crate::messages::GRANTS_PER_PAGE) grants of 33
/// bytes each, and as much again. Only who has presented a token is listened to.
pub const MAX_MESSAGE_LEN: usize = 1024 * 1024;

/// A set of messages in one direction.
pub trait Message: Serialize + DeserializeOwned {
    /// Every `type` of the set.
    const KINDS: &'static [&'static str];

    /// Longest text of one, in bytes.
    const MAX_LEN: usize = MAX_MESSAGE_LEN;
}

/// The result of decoding a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded<M> {
    /// A message.
    Known(M),
    /// A message of a kind that this build does not know; it is answered by `unsupported`.
    Unknown {
        /// Its `type`, cut to 64 characters.
        kind: String,
    },
}

/// The reason why a text is no message. The peer broke the protocol, and the session ends.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Longer than a message of its direction may be.
    #[error("a message of {len} bytes is longer than {max}")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// No JSON object with a `type`.
    #[error("a message is a JSON object with a `type`")]
    NoMessage,
    /// A kind that is known, with content that is not.
    #[error("a message of type `{kind}` is malformed at line {line}, column {column}")]
    Malformed {
        /// Its `type`.
        kind: String,
        /// The line of the fault. Its text is not repeated, because it may hold a secret.
        line: usize,
        /// The column in the line.
        column: usize,
    },
}

/// Characters of an unknown kind that are kept, for the log and the answer.
pub(crate) const MAX_KIND_CHARS: usize = 64;

/// Takes a text apart.
///
/// # Errors
/// [`DecodeError`] where it is no message.
pub fn decode<M: Message>(text: &str) -> Result<Decoded<M>, DecodeError> {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(rename = "type", borrow)]
        kind: std::borrow::Cow<'a, str>,
    }
    let (len, max) = (text.len(), M::MAX_LEN);
    if len > max {
        return Err(DecodeError::TooLong { len, max });
    }
    let head: Head<'_> = serde_json::from_str(text).map_err(|_| DecodeError::NoMessage)?;
    if !M::KINDS.contains(&head.kind.as_ref()) {
        let kind = head.kind.chars().take(MAX_KIND_CHARS).collect();
        return Ok(Decoded::Unknown { kind });
    }
    serde_json::from_str(text)
        .map(Decoded::Known)
        .map_err(|error| DecodeError::Malformed {
            kind: head.kind.into_owned(),
            line: error.line(),
            column: error.column(),
        })
}

/// The text of a message.
///
/// # Panics
/// Never: the messages hold nothing that JSON can't say, which tests show for each kind.
pub fn encode<M: Message>(message: &M) -> String {
    serde_json::to_string(message).expect("messages hold nothing that JSON can't say")
}
