//! Passkeys (Web Authentication Level 3): whether what a browser brings was made by the authenticator, for this
//! portal, and now. `docs/adr/0022` says why it is ours.
//!
//! Pure: what is brought, and what it is held against, are arguments. Attestation is not asked for: which make an
//! authenticator is decides nothing here, so what a browser says of that is passed over.

mod authenticator_data;
mod base64url;
mod cbor;
mod client_data;
mod cose;
mod error;

use authenticator_data::AuthenticatorData;
use aws_lc_rs::digest;
use base64url::bytes;
use cbor::one_value;
use ciborium::Value;
use client_data::ClientData;
use cose::PublicKey;
use serde::Deserialize;
use std::net::IpAddr;

pub use cose::ALGORITHMS;
pub use error::WebauthnError;

/// The longest that is read of what a browser brings: a key of RSA with the attestation that nobody asked for
/// takes 6 KB.
const MAX_TEXT_LEN: usize = 16 << 10;

/// For whom passkeys are made: this portal, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelyingParty {
    /// The domain that keys are bound to.
    pub id: String,
    /// The origin of the portal's pages.
    origin: String,
}

impl RelyingParty {
    /// The portal at this URL; none where it has no name, since keys are bound to domains.
    pub fn of(url: &str) -> Option<Self> {
        let host = url.strip_prefix("https://")?.trim_end_matches('/');
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, port),
            _ => (host, ""),
        };
        // Browsers leave the usual port out of an origin.
        let host = match port {
            "" | "443" => name,
            _ => host,
        };
        let is_address = name.starts_with('[') || name.parse::<IpAddr>().is_ok();
        (!is_address && !name.is_empty()).then(|| Self {
            id: name.to_ascii_lowercase(),
            origin: format!("https://{}", host.to_ascii_lowercase()),
        })
    }

    fn id_hash(&self) -> [u8; 32] {
        sha256(self.id.as_bytes())
    }
}

/// The browser's message about a passkey that was just made: `PublicKeyCredential.toJSON()`.
#[derive(Debug)]
pub struct Registration {
    client_data: ClientData,
    attestation_object: Vec<u8>,
}

/// A passkey that may be kept.
#[derive(Debug, PartialEq, Eq)]
pub struct Registered {
    /// The credential ID.
    pub credential: Vec<u8>,
    /// The public key in COSE format.
    pub public_key: Vec<u8>,
    /// The signature counter.
    pub uses: u32,
}

#[derive(Deserialize)]
struct CredentialJson<R> {
    #[serde(rename = "rawId")]
    raw_id: String,
    #[serde(rename = "type")]
    kind: String,
    response: R,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AttestationJson {
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    attestation_object: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AssertionJson {
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    authenticator_data: String,
    signature: String,
    #[serde(default)]
    user_handle: Option<String>,
}

impl Registration {
    /// Reads the browser's JSON.
    ///
    /// # Errors
    /// [`WebauthnError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, WebauthnError> {
        let (_, response) = credential::<AttestationJson>(text)?;
        Ok(Self {
            client_data: ClientData::parse(bytes(&response.client_data)?)?,
            attestation_object: bytes(&response.attestation_object)?,
        })
    }

    /// The challenge that the page had asked with.
    pub fn challenge(&self) -> &[u8] {
        &self.client_data.challenge
    }

    /// Section 7.1, "Registering a New Credential", but for the challenge and for whether the key is known.
    pub fn check(&self, party: &RelyingParty) -> Result<Registered, WebauthnError> {
        self.client_data.check("webauthn.create", &party.origin)?;
        // "Perform CBOR decoding on the attestationObject field".
        let Value::Map(object) = one_value(&self.attestation_object)? else {
            return Err(WebauthnError::Malformed("attestationObject"));
        };
        let field = |name: &str| {
            let mut found = object.iter().filter(|(key, _)| key.as_text() == Some(name));
            found
                .next()
                .map(|(_, value)| value)
                .filter(|_| found.next().is_none())
        };
        let data = field("authData").and_then(Value::as_bytes);
        let data = data.ok_or(WebauthnError::Malformed("attestationObject.authData"))?;
        if field("fmt").and_then(Value::as_text).is_none() {
            return Err(WebauthnError::Malformed("attestationObject.fmt"));
        }
        let data = AuthenticatorData::parse(data)?;
        data.check(&party.id_hash())?;
        let attested = data.attested;
        let attested = attested.ok_or(WebauthnError::Malformed("attestedCredentialData"))?;
        // "Verify that the "alg" parameter … matches the alg attribute of one of the items in pkOptions".
        PublicKey::parse(&attested.public_key)?;
        Ok(Registered {
            credential: attested.credential,
            public_key: attested.public_key,
            uses: data.sign_count,
        })
    }
}

/// The browser's message about a passkey that was just used.
#[derive(Debug)]
pub struct Assertion {
    /// The authenticator's id of the key.
    pub credential: Vec<u8>,
    /// The owner of the key, as the authenticator was told when it made it.
    pub user: Option<Vec<u8>>,
    client_data: ClientData,
    authenticator_data: Vec<u8>,
    signature: Vec<u8>,
}

impl Assertion {
    /// Reads the browser's JSON.
    ///
    /// # Errors
    /// [`WebauthnError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, WebauthnError> {
        let (credential, response) = credential::<AssertionJson>(text)?;
        Ok(Self {
            credential,
            user: response.user_handle.as_deref().map(bytes).transpose()?,
            client_data: ClientData::parse(bytes(&response.client_data)?)?,
            authenticator_data: bytes(&response.authenticator_data)?,
            signature: bytes(&response.signature)?,
        })
    }

    /// The challenge that the page had asked with.
    pub fn challenge(&self) -> &[u8] {
        &self.client_data.challenge
    }

    /// Section 7.2, "Verifying an Authentication Assertion", but for the challenge, whose the key is, and the
    /// count of uses, which is returned.
    pub fn check(&self, party: &RelyingParty, public_key: &[u8]) -> Result<u32, WebauthnError> {
        self.client_data.check("webauthn.get", &party.origin)?;
        let data = AuthenticatorData::parse(&self.authenticator_data)?;
        data.check(&party.id_hash())?;
        // "verify that sig is a valid signature over the binary concatenation of authData and hash".
        let mut signed = self.authenticator_data.clone();
        signed.extend(sha256(&self.client_data.text));
        PublicKey::parse(public_key)?.verify(&signed, &self.signature)?;
        Ok(data.sign_count)
    }
}

fn credential<R: for<'a> Deserialize<'a>>(text: &str) -> Result<(Vec<u8>, R), WebauthnError> {
    if text.len() > MAX_TEXT_LEN {
        return Err(WebauthnError::Malformed(
            "the credential, which is too long,",
        ));
    }
    let json: CredentialJson<R> =
        serde_json::from_str(text).map_err(|_| WebauthnError::Malformed("the credential"))?;
    if json.kind != "public-key" {
        return Err(WebauthnError::Malformed("the credential's type"));
    }
    Ok((bytes(&json.raw_id)?, json.response))
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, bytes).as_ref());
    hash
}

#[cfg(test)]
mod tests;
