//! Tokens: `cv_<kind>_<id>.<secret>[.<portal>]`.

use crate::{AuthorityError, check_authority};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use culvert_ids::TokenId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The longest token text that is read: the fixed parts take 90 characters, a URL some hundred.
pub const MAX_TOKEN_LEN: usize = 1024;

/// Longest portal URL in a token.
pub const MAX_URL_LEN: usize = 512;

/// Random bytes of a secret: 256 bits, so a fast hash is enough to store it.
pub const SECRET_LEN: usize = 32;

/// The prefix of a token's id in text; inside a token, its kind takes this place.
const TOKEN_ID_PREFIX: &str = "tok_";

/// The permission that a token gives to its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TokenKind {
    /// Make the first administrator, once.
    Setup,
    /// Use the API as an actor.
    Api,
    /// Connect a client of an actor.
    Client,
    /// Connect a gateway of a site.
    Gateway,
    /// Connect a relay of an account.
    Relay,
    /// Use the console as an actor who signed in; a browser has it as a cookie.
    Session,
}

impl TokenKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Setup,
        Self::Api,
        Self::Client,
        Self::Gateway,
        Self::Relay,
        Self::Session,
    ];

    /// The word in the token.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Api => "api",
            Self::Client => "client",
            Self::Gateway => "gateway",
            Self::Relay => "relay",
            Self::Session => "session",
        }
    }
}

impl fmt::Display for TokenKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

/// The part of a token that proves it.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Secret([u8; SECRET_LEN]);

impl Secret {
    /// From random bytes.
    pub const fn new(random: [u8; SECRET_LEN]) -> Self {
        Self(random)
    }

    /// From the text of [`Self::expose`].
    pub(crate) fn parse(text: &str) -> Option<Self> {
        decode_32(text).map(|secret| Self(*secret))
    }

    /// The random bytes, for the text that is presented.
    pub(crate) const fn expose(&self) -> &[u8; SECRET_LEN] {
        &self.0
    }

    /// The digest of the secret, which the portal stores.
    pub fn digest(&self) -> SecretDigest {
        SecretDigest(Sha256::digest(self.0).into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(…)")
    }
}

/// SHA-256 of a [`Secret`]. Comparison takes the same time wherever the two differ.
#[derive(Clone, Copy, Debug)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// From the form in which the database keeps it.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The form in which the database keeps it.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for SecretDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretDigest {}

/// The credential that a machine presents: the token's id, and the proof. Its only text form is
/// [`Bearer::expose`], so that it does not reach a log by accident.
#[derive(Clone, Debug)]
pub struct Bearer {
    /// The purpose of the token.
    pub kind: TokenKind,
    /// The token's id.
    pub id: TokenId,
    /// The proof.
    pub secret: Secret,
}

/// The address of a portal, and the means to recognise its certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portal {
    /// `https://host[:port]`, without a path.
    pub url: String,
    /// SHA-256 of the certificate (DER). Without it the public authorities are asked.
    pub pin: Option<CertificatePin>,
}

/// SHA-256 of a certificate in DER.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificatePin([u8; 32]);

impl CertificatePin {
    /// The pin of a certificate.
    pub fn of(der: &[u8]) -> Self {
        Self(Sha256::digest(der).into())
    }

    /// The pin of a certificate with this SHA-256.
    #[must_use]
    pub const fn from_sha256(sha256: [u8; 32]) -> Self {
        Self(sha256)
    }
}

impl fmt::Display for CertificatePin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for CertificatePin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for CertificatePin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CertificatePin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl FromStr for CertificatePin {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        decode_32(text).map(|pin| Self(*pin)).ok_or(TokenError::Pin)
    }
}

/// A whole token, as an administrator copies it.
#[derive(Clone, Debug)]
pub struct Token {
    /// The credential that is presented.
    pub bearer: Bearer,
    /// The portal that issued it.
    pub portal: Option<Portal>,
}

/// The reason why a text is no token. It repeats no part of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Longer than [`MAX_TOKEN_LEN`].
    #[error("a token has at most {MAX_TOKEN_LEN} characters")]
    TooLong,
    /// No `cv_`.
    #[error("a token begins with `cv_`; copy it whole, as the portal showed it")]
    Prefix,
    /// A kind that does not exist.
    #[error("a token is of kind setup, api, client, gateway or relay")]
    Kind,
    /// Another kind than the one that is needed.
    #[error("this is a token of kind `{found}`, but one of kind `{expected}` is needed here")]
    WrongKind {
        /// The kind of the token.
        found: TokenKind,
        /// The kind that was expected.
        expected: TokenKind,
    },
    /// The id is cut or has a typing error.
    #[error("the token's id is malformed; copy the token whole, as the portal showed it")]
    Id,
    /// The secret is cut or has a typing error.
    #[error("the token's secret is malformed; copy the token whole, as the portal showed it")]
    Secret,
    /// The part that describes the portal cannot be read.
    #[error("the token's last part, which says where the portal is, is malformed; copy it whole")]
    Portal,
    /// The URL is not one of a portal.
    #[error("a portal's URL is https://HOST or https://HOST:PORT")]
    Url,
    /// Nobody can connect to what the URL names.
    #[error("a portal's URL is https://HOST or https://HOST:PORT: {0}")]
    Authority(#[from] AuthorityError),
    /// The pin is not a SHA-256.
    #[error("a certificate's pin is its SHA-256 in base64url, 43 characters")]
    Pin,
}

/// The text inside of `<portal>`.
#[derive(Serialize, Deserialize)]
struct PortalText {
    url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pin: Option<String>,
}

impl Portal {
    /// Checks a URL that a person or a token gave. The port that browsers leave out is left out.
    ///
    /// # Errors
    /// [`TokenError::Url`] unless it is `https://host[:port]`, [`TokenError::Authority`] where that is
    /// nowhere to connect to.
    pub fn new(url: &str, pin: Option<CertificatePin>) -> Result<Self, TokenError> {
        let url = url.strip_suffix('/').unwrap_or(url);
        let authority = url.strip_prefix("https://").ok_or(TokenError::Url)?;
        let plain = |character: char| {
            character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | ':' | '[' | ']')
        };
        if authority.is_empty() || url.len() > MAX_URL_LEN || !authority.chars().all(plain) {
            return Err(TokenError::Url);
        }
        check_authority(authority)?;
        let url = url.strip_suffix(":443").unwrap_or(url).to_owned();
        Ok(Self { url, pin })
    }
}

impl Bearer {
    /// The text that is presented, secret included.
    pub fn expose(&self) -> Zeroizing<String> {
        let id = self.id.to_string();
        let id = id.trim_start_matches(TOKEN_ID_PREFIX);
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.encode(self.secret.0));
        Zeroizing::new(format!("cv_{}_{id}.{}", self.kind, *secret))
    }
}

impl Token {
    /// The whole text, secret included.
    pub fn expose(&self) -> Zeroizing<String> {
        let bearer = self.bearer.expose();
        let Some(portal) = &self.portal else {
            return bearer;
        };
        let portal = serde_json::to_vec(&PortalText {
            url: portal.url.clone(),
            pin: portal.pin.map(|pin| pin.to_string()),
        })
        .expect("strings are JSON");
        let portal = URL_SAFE_NO_PAD.encode(portal);
        Zeroizing::new(format!("{}.{portal}", *bearer))
    }

    /// Takes a token apart that must be of `expected` kind.
    ///
    /// # Errors
    /// [`TokenError`] says what to do.
    pub fn parse_as(text: &str, expected: TokenKind) -> Result<Self, TokenError> {
        let token: Self = text.parse()?;
        let found = token.bearer.kind;
        if found == expected {
            Ok(token)
        } else {
            Err(TokenError::WrongKind { found, expected })
        }
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        if text.len() > MAX_TOKEN_LEN {
            return Err(TokenError::TooLong);
        }
        let rest = text.strip_prefix("cv_").ok_or(TokenError::Prefix)?;
        let (kind, rest) = rest.split_once('_').ok_or(TokenError::Kind)?;
        let kind = TokenKind::ALL
            .into_iter()
            .find(|known| known.as_str() == kind)
            .ok_or(TokenError::Kind)?;
        let (id, rest) = rest.split_once('.').ok_or(TokenError::Secret)?;
        let id = format!("{TOKEN_ID_PREFIX}{id}");
        let id: TokenId = id.parse().map_err(|_| TokenError::Id)?;
        let (secret, portal) = match rest.split_once('.') {
            Some((secret, portal)) => (secret, Some(portal)),
            None => (rest, None),
        };
        let secret = decode_32(secret).ok_or(TokenError::Secret)?;
        Ok(Self {
            bearer: Bearer {
                kind,
                id,
                secret: Secret(*secret),
            },
            portal: portal.map(parse_portal).transpose()?,
        })
    }
}

/// The token in a text that was copied with what the portal prints around it: `echo`, quotes, and the command behind.
/// Any other text stays as it is.
#[must_use]
pub fn pasted(text: &str) -> &str {
    let text = text.trim();
    let is_quote = |letter: char| matches!(letter, '\'' | '"' | '`' | '‘' | '’' | '“' | '”');
    let Some(start) = text.find("cv_") else {
        return text;
    };
    let (before, rest) = text.split_at(start);
    let before = before.trim_end_matches(is_quote).trim_end();
    let of_token =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let end = rest.find(|letter| !of_token(letter)).unwrap_or(rest.len());
    let (token, behind) = rest.split_at(end);
    let behind = behind.trim_start_matches(is_quote).trim_start();
    let is_printed =
        matches!(before, "" | "echo" | "$ echo") && (behind.is_empty() || behind.starts_with('|'));
    if is_printed { token } else { text }
}

fn parse_portal(text: &str) -> Result<Portal, TokenError> {
    let bytes = URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| TokenError::Portal)?;
    let portal: PortalText = serde_json::from_slice(&bytes).map_err(|_| TokenError::Portal)?;
    let pin = portal.pin.as_deref().map(str::parse).transpose()?;
    Portal::new(&portal.url, pin)
}

/// 32 bytes of base64url without padding: exactly one text for each value.
fn decode_32(text: &str) -> Option<Zeroizing<[u8; 32]>> {
    let mut bytes = Zeroizing::new([0; 32]);
    match URL_SAFE_NO_PAD.decode_slice(text, bytes.as_mut_slice()) {
        Ok(32) => Some(bytes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_token_is_taken_with_what_is_printed_around_it() {
        for text in [
            "cv_setup_1.a-b.c_d",
            "  cv_setup_1.a-b.c_d\n",
            "'cv_setup_1.a-b.c_d'",
            "\"cv_setup_1.a-b.c_d\"",
            "“cv_setup_1.a-b.c_d”",
            "`cv_setup_1.a-b.c_d`",
            "echo cv_setup_1.a-b.c_d",
            "echo 'cv_setup_1.a-b.c_d'",
            "$ echo 'cv_setup_1.a-b.c_d' | culvert admin setup --token-file -",
        ] {
            assert_eq!(pasted(text), "cv_setup_1.a-b.c_d", "{text}");
        }
    }

    #[test]
    fn another_text_stays_as_it_is() {
        for text in ["", "token", "my cv_setup_1.a", "cv_setup_1.a b", "rm cv_a"] {
            assert_eq!(pasted(text), text);
        }
    }

    proptest! {
        #[test]
        fn what_is_taken_is_part_of_the_text_and_is_taken_again(text in "(echo |[\"'x] ?|.{0,4})cv_[a-z_.]{0,9}.{0,5}") {
            let taken = pasted(&text);
            prop_assert!(text.contains(taken));
            prop_assert_eq!(pasted(taken), taken);
        }
    }
}
