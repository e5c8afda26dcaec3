//! The checks of a provider's key set and ID token, without a provider.

use super::id_token::{self, Wanted};
use super::metadata::{KeySet, Keys};
use serde_json::{Map, Value};

/// The accepted claims of an ID token.
#[derive(Clone, Debug, PartialEq)]
pub struct Believed {
    /// The subject.
    pub subject: String,
    /// Other claims, such as groups.
    pub others: Map<String, Value>,
}

/// Checks a token for a sign-in that expects this issuer, client and nonce.
pub fn id_token(
    key_set: &[u8],
    token: &str,
    [issuer, client_id, nonce]: [&str; 3],
) -> Result<Believed, String> {
    let set: KeySet = serde_json::from_slice(key_set).map_err(|error| error.to_string())?;
    let keys = Keys::of(set.keys);
    let wanted = Wanted {
        issuer,
        client_id,
        nonce,
        asked_anew: None,
    };
    let claims = id_token::check(token, &keys, wanted).map_err(|fault| fault.to_string())?;
    Ok(Believed {
        subject: claims.sub,
        others: claims.others,
    })
}
