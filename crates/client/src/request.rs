//! Requests to a client at its socket (docs/socket.md).

use culvert_host::Watch;
use culvert_ids::ResourceId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A request to a client. Each is answered at once with the client's state; its results appear in
/// later states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The state alone.
    Status,
    /// The state, and then each change of it ([`Watcher`](crate::Watcher)).
    Watch(Watch),
    /// Access to a resource, as a packet to it asks for it.
    Ask(ResourceId),
    /// To take the process that asks into the application with this name.
    Join(String),
    /// To be connected from now on, over restarts.
    Up,
    /// Not to be connected from now on, over restarts.
    Down,
    /// To be somebody to a portal from now on, and up.
    SignIn(SignIn),
    /// To forget who it is, and be down.
    SignOut,
}

impl culvert_host::Request for Request {
    const STATUS: Self = Self::Status;

    fn is_change(&self) -> bool {
        match self {
            // A program that sends a packet asks for access too.
            Self::Status | Self::Watch(_) | Self::Ask(_) => false,
            Self::Join(_) | Self::Up | Self::Down | Self::SignIn(_) | Self::SignOut => true,
        }
    }

    fn watch(&self) -> Option<Watch> {
        match self {
            Self::Watch(watch) => Some(*watch),
            _ => None,
        }
    }
}

/// The way in which the client signs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignIn {
    /// By a token that an administrator made.
    Token(SecretText),
}

/// A text that no debug output shows and nobody finds in memory afterwards. Comparison tells nothing but
/// the length by its time.
#[derive(Clone)]
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// From the text in the open.
    #[must_use]
    pub const fn new(text: Zeroizing<String>) -> Self {
        Self(text)
    }

    /// The text in the open.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl PartialEq for SecretText {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for SecretText {}

impl std::fmt::Debug for SecretText {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("SecretText(secret)")
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SecretText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(Zeroizing::new(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_written_as_the_document_says() {
        let token = SecretText::new(Zeroizing::new("cv_client_x.y".to_owned()));
        for (request, text) in [
            (Request::Status, r#""status""#),
            (Request::Watch(Watch::default()), r#"{"watch":{}}"#),
            (
                Request::Watch(Watch {
                    after: Some(1_790_000_000_000_017),
                }),
                r#"{"watch":{"after":1790000000000017}}"#,
            ),
            (Request::Join("backup".to_owned()), r#"{"join":"backup"}"#),
            (Request::Up, r#""up""#),
            (Request::Down, r#""down""#),
            (Request::SignOut, r#""sign_out""#),
            (
                Request::SignIn(SignIn::Token(token)),
                r#"{"sign_in":{"token":"cv_client_x.y"}}"#,
            ),
        ] {
            assert_eq!(serde_json::to_string(&request).unwrap(), text);
            assert_eq!(serde_json::from_str::<Request>(text).unwrap(), request);
            let document = include_str!("../../../docs/socket.md");
            let shown = text.replace("cv_client_x.y", "TOKEN");
            assert!(document.contains(&shown), "docs/socket.md lacks {shown}");
        }
    }

    #[test]
    fn a_token_is_not_shown_by_debug_output() {
        let token = SecretText::new(Zeroizing::new("cv_client_x.y".to_owned()));
        let request = Request::SignIn(SignIn::Token(token));
        assert!(!format!("{request:?}").contains("cv_client"));
    }
}
