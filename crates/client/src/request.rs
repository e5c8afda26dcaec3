//! Requests to a client at its socket (docs/socket.md).

use culvert_host::Watch;
use culvert_ids::ResourceId;
use culvert_wire::token::{CertificatePin, Portal, TokenError};
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
    /// To give up the sign-in with a browser that is under way.
    CancelSignIn,
    /// To forget who it is, and be down.
    SignOut,
    /// The last lines of its log. They are for those who may command.
    Log,
    /// To change settings, over restarts.
    Settings(SettingsChange),
}

impl culvert_host::Request for Request {
    const STATUS: Self = Self::Status;

    fn is_change(&self) -> bool {
        match self {
            // A program that sends a packet asks for access too.
            Self::Status | Self::Watch(_) | Self::Ask(_) => false,
            Self::Join(_)
            | Self::Up
            | Self::Down
            | Self::SignIn(_)
            | Self::CancelSignIn
            | Self::SignOut
            | Self::Log
            | Self::Settings(_) => true,
        }
    }

    fn watch(&self) -> Option<Watch> {
        match self {
            Self::Watch(watch) => Some(*watch),
            _ => None,
        }
    }

    fn is_log(&self) -> bool {
        matches!(self, Self::Log)
    }
}

/// Settings that are to be others from now on. Those that are left out stay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingsChange {
    /// True if the system is to ask the client for names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dns: Option<bool>,
}

/// The way in which the client signs in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SignInFields", into = "SignInFields")]
pub enum SignIn {
    /// By a token that an administrator made.
    Token(SecretText),
    /// With a browser at a portal.
    Portal(PortalSignIn),
}

/// The portal at which somebody signs in, as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalSignIn {
    /// Its URL.
    pub portal: String,
    /// SHA-256 of its certificate, in hexadecimal or base64url. Without it an authority of the system vouches for the
    /// certificate.
    pub certificate: Option<String>,
}

impl PortalSignIn {
    /// The portal.
    ///
    /// # Errors
    /// The fault of the URL or of the certificate's SHA-256.
    pub fn portal(&self) -> Result<Portal, TokenError> {
        let pin = self.certificate.as_deref().map(pin).transpose()?;
        Portal::new(&self.portal, pin)
    }
}

impl From<&Portal> for PortalSignIn {
    fn from(portal: &Portal) -> Self {
        Self {
            portal: portal.url.clone(),
            certificate: portal.pin.map(|pin| pin.to_string()),
        }
    }
}

/// A certificate's SHA-256: 64 hexadecimal digits, perhaps with colons, or base64url.
fn pin(text: &str) -> Result<CertificatePin, TokenError> {
    let digits: String = text.chars().filter(|it| *it != ':').collect();
    let mut sha256 = [0; 32];
    let is_hex = digits.len() == 64 && digits.bytes().all(|it| it.is_ascii_hexdigit());
    if !is_hex {
        return text.parse();
    }
    for (byte, at) in sha256.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&digits[at..at + 2], 16).map_err(|_| TokenError::Pin)?;
    }
    Ok(CertificatePin::from_sha256(sha256))
}

/// [`SignIn`] as it is written: a token, or a portal and perhaps its certificate. It is read field by field, so that no copy
/// of a token is left behind.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SignInFields {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<SecretText>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    portal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
}

impl TryFrom<SignInFields> for SignIn {
    type Error = &'static str;

    fn try_from(fields: SignInFields) -> Result<Self, Self::Error> {
        match fields {
            SignInFields {
                token: Some(token),
                portal: None,
                certificate: None,
            } => Ok(Self::Token(token)),
            SignInFields {
                token: None,
                portal: Some(portal),
                certificate,
            } => Ok(Self::Portal(PortalSignIn {
                portal,
                certificate,
            })),
            _ => Err("a token, or a portal and perhaps its certificate"),
        }
    }
}

impl From<SignIn> for SignInFields {
    fn from(sign_in: SignIn) -> Self {
        match sign_in {
            SignIn::Token(token) => Self {
                token: Some(token),
                portal: None,
                certificate: None,
            },
            SignIn::Portal(PortalSignIn {
                portal,
                certificate,
            }) => Self {
                token: None,
                portal: Some(portal),
                certificate,
            },
        }
    }
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
            (Request::CancelSignIn, r#""cancel_sign_in""#),
            (Request::SignOut, r#""sign_out""#),
            (Request::Log, r#""log""#),
            (
                Request::Settings(SettingsChange { dns: Some(false) }),
                r#"{"settings":{"dns":false}}"#,
            ),
            (
                Request::SignIn(SignIn::Portal(PortalSignIn {
                    portal: "https://portal.example.com".to_owned(),
                    certificate: None,
                })),
                r#"{"sign_in":{"portal":"https://portal.example.com"}}"#,
            ),
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
    fn a_sign_in_has_a_token_or_a_portal_and_nothing_else() {
        for text in [
            r#"{"sign_in":{}}"#,
            r#"{"sign_in":{"token":"a","portal":"https://b"}}"#,
            r#"{"sign_in":{"certificate":"c"}}"#,
            r#"{"sign_in":{"portal":"https://b","certficate":"c"}}"#,
        ] {
            assert!(serde_json::from_str::<Request>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_certificate_is_named_in_hexadecimal_or_in_base64url() {
        let pin = CertificatePin::from_sha256(std::array::from_fn(|it| it as u8 * 8));
        let hex: String = (0..32).map(|it| format!("{:02X}", it * 8)).collect();
        let pairs: Vec<&str> = (0..32).map(|it| &hex[it * 2..it * 2 + 2]).collect();
        for text in [
            hex.clone(),
            pairs.join(":"),
            hex.to_lowercase(),
            pin.to_string(),
        ] {
            let sign_in = PortalSignIn {
                portal: "https://portal.example.com".to_owned(),
                certificate: Some(text),
            };
            assert_eq!(sign_in.portal().unwrap().pin, Some(pin));
        }
        let sign_in = |portal: &str, certificate: Option<&str>| PortalSignIn {
            portal: portal.to_owned(),
            certificate: certificate.map(str::to_owned),
        };
        assert_eq!(
            sign_in("http://127.0.0.1", None).portal(),
            Err(TokenError::Url)
        );
        let faulty = sign_in("https://a.example", Some(&hex[1..]));
        assert_eq!(faulty.portal(), Err(TokenError::Pin));
    }

    #[test]
    fn a_token_is_not_shown_by_debug_output() {
        let token = SecretText::new(Zeroizing::new("cv_client_x.y".to_owned()));
        let request = Request::SignIn(SignIn::Token(token));
        assert!(!format!("{request:?}").contains("cv_client"));
    }
}
