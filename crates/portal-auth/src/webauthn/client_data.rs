//! The browser's data about the page that asked, as the authenticator signs it.

use super::base64url::bytes;
use super::error::WebauthnError;
use serde::Deserialize;

/// `CollectedClientData`, section 5.8.1.
#[derive(Debug)]
pub(super) struct ClientData {
    /// As it was signed.
    pub(super) text: Vec<u8>,
    pub(super) challenge: Vec<u8>,
    kind: String,
    origin: String,
    is_cross_origin: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Json {
    #[serde(rename = "type")]
    kind: String,
    challenge: String,
    origin: String,
    #[serde(default)]
    cross_origin: bool,
    #[serde(default)]
    top_origin: Option<String>,
}

impl ClientData {
    pub(super) fn parse(text: Vec<u8>) -> Result<Self, WebauthnError> {
        // "Let JSONtext be the result of running UTF-8 decode on the value of
        // response.clientDataJSON." Invalid UTF-8 is refused as a whole. The parser, if given
        // bytes, would ignore it in unknown fields.
        let malformed = || WebauthnError::Malformed("clientDataJSON");
        let decoded = str::from_utf8(&text).map_err(|_| malformed())?;
        // "Let C, the client data claimed as collected during the credential creation, be the result of running an
        // implementation-specific JSON parser on JSONtext."
        let json: Json = serde_json::from_str(decoded).map_err(|_| malformed())?;
        Ok(Self {
            text,
            challenge: bytes(&json.challenge)?,
            kind: json.kind,
            origin: json.origin,
            is_cross_origin: json.cross_origin || json.top_origin.is_some(),
        })
    }

    /// That it is about this purpose and from a page of this portal, which no other site shows in its own.
    pub(super) fn check(&self, kind: &str, origin: &str) -> Result<(), WebauthnError> {
        if self.kind != kind {
            return Err(WebauthnError::OtherPurpose);
        }
        if self.origin != origin || self.is_cross_origin {
            return Err(WebauthnError::OtherOrigin);
        }
        Ok(())
    }
}
