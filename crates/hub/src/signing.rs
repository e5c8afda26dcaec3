//! The secrets behind a grant: the portal's signature, and the pre-shared key of a client and a gateway.

use aws_lc_rs::hmac;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use culvert_wire::messages::RelayClaims;
use culvert_wire::{GrantClaims, PresharedKey, PublicKey};
use pasetors::keys::{AsymmetricSecretKey, SymmetricKey};
use pasetors::version4::{LocalToken, PublicToken, V4};
use std::fmt;
use zeroize::Zeroizing;

/// Bytes of each of the portal's secrets.
pub const PORTAL_SECRET_LEN: usize = 32;

/// Separates the keys of pairs from any other use of the same portal secret (a domain label).
const PAIR_LABEL: &[u8] = b"culvert pair v1";

/// Operations with the portal's secrets. The hub itself does not see the secrets.
pub trait Signer: fmt::Debug + Send {
    /// The claims as a PASETO v4.public token, without footer and implicit assertion.
    ///
    /// # Errors
    /// [`SignError`]: no grant is made then.
    fn sign(&self, claims: &GrantClaims) -> Result<String, SignError>;

    /// The keys whose signature counts, as gateways are told: Ed25519 in base64.
    fn public_keys(&self) -> Vec<String>;

    /// The secret that a client and a gateway mix into their handshake: the same for as long as
    /// both keep their keys.
    fn preshared_key(&self, client: &PublicKey, gateway: &PublicKey) -> PresharedKey;

    /// The claims as a PASETO v4.local token under a relay's key, without footer and implicit assertion.
    ///
    /// # Errors
    /// [`SignError`]: the end does not use the relay then.
    fn seal(&self, key: &PresharedKey, claims: &RelayClaims) -> Result<String, SignError>;
}

/// A token could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token could not be made")]
pub struct SignError;

/// The secrets of a portal, which all of its replicas share.
pub struct PortalKeys {
    grants: AsymmetricSecretKey<V4>,
    public: String,
    pairs: hmac::Key,
}

impl PortalKeys {
    /// From the seed of the key that signs grants, and the secret behind those of pairs.
    ///
    /// # Errors
    /// [`SignError`] where the library refuses the seed; of this length it takes any.
    pub fn new(
        grant_seed: &[u8; PORTAL_SECRET_LEN],
        pair_secret: &[u8; PORTAL_SECRET_LEN],
    ) -> Result<Self, SignError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(grant_seed).map_err(|_| SignError)?;
        let public = pair.public_key().as_ref();
        // PASERK's order: seed, then public key.
        let secret = Zeroizing::new([grant_seed.as_slice(), public].concat());
        Ok(Self {
            grants: AsymmetricSecretKey::from(&secret).map_err(|_| SignError)?,
            public: STANDARD.encode(public),
            pairs: hmac::Key::new(hmac::HMAC_SHA256, pair_secret),
        })
    }
}

impl Signer for PortalKeys {
    fn sign(&self, claims: &GrantClaims) -> Result<String, SignError> {
        let payload = serde_json::to_vec(claims).map_err(|_| SignError)?;
        PublicToken::sign(&self.grants, &payload, None, None).map_err(|_| SignError)
    }

    fn public_keys(&self) -> Vec<String> {
        vec![self.public.clone()]
    }

    fn preshared_key(&self, client: &PublicKey, gateway: &PublicKey) -> PresharedKey {
        let mut context = hmac::Context::with_key(&self.pairs);
        context.update(PAIR_LABEL);
        context.update(client.as_bytes());
        context.update(gateway.as_bytes());
        let mut key = Zeroizing::new([0; PORTAL_SECRET_LEN]);
        key.copy_from_slice(context.sign().as_ref());
        PresharedKey::from_bytes(*key)
    }

    fn seal(&self, key: &PresharedKey, claims: &RelayClaims) -> Result<String, SignError> {
        let key = SymmetricKey::<V4>::from(key.as_bytes()).map_err(|_| SignError)?;
        let payload = Zeroizing::new(serde_json::to_vec(claims).map_err(|_| SignError)?);
        LocalToken::encrypt(&key, &payload, None, None).map_err(|_| SignError)
    }
}

impl fmt::Debug for PortalKeys {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("PortalKeys(…)")
    }
}
