//! CBOR as authenticators write it (RFC 8949), with a bound on its nesting.

use super::error::WebauthnError;
use ciborium::Value;

/// The nesting of authenticators' CBOR: an attestation statement holds lists of certificates.
const MAX_CBOR_DEPTH: usize = 8;

/// Reads one CBOR value off the front.
pub(super) fn next_value(input: &mut &[u8]) -> Result<Value, WebauthnError> {
    ciborium::de::from_reader_with_recursion_limit(input, MAX_CBOR_DEPTH)
        .map_err(|_| WebauthnError::Malformed("CBOR"))
}

/// Reads one CBOR value that is all there is.
pub(super) fn one_value(mut input: &[u8]) -> Result<Value, WebauthnError> {
    let value = next_value(&mut input)?;
    match input {
        [] => Ok(value),
        _ => Err(WebauthnError::Malformed("what follows the CBOR")),
    }
}
