//! Bytes as browsers write them into JSON: in base64url, without padding.

use super::error::WebauthnError;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

pub(super) fn bytes(text: &str) -> Result<Vec<u8>, WebauthnError> {
    let decoded = URL_SAFE_NO_PAD.decode(text);
    decoded.map_err(|_| WebauthnError::Malformed("base64url"))
}
