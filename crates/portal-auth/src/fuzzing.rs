//! Checks of untrusted bytes without a server, for the fuzz targets (feature `fuzzing`). No program calls it.

pub use crate::oidc::fuzzing::{Believed, id_token};

use crate::webauthn::{Assertion, Registration, RelyingParty};

/// A passkey that the portal would store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The challenge that the page sent.
    pub challenge: Vec<u8>,
    /// The credential ID.
    pub credential: Vec<u8>,
    /// The public key in COSE format.
    pub public_key: Vec<u8>,
    /// The signature counter.
    pub uses: u32,
}

/// Checks the registration of a new passkey at the portal at `url`; `text` is the browser's JSON.
pub fn registration(url: &str, text: &str) -> Result<Registered, String> {
    let party = RelyingParty::of(url).ok_or("no name")?;
    let registration = Registration::parse(text).map_err(|refusal| refusal.to_string())?;
    let registered = registration.check(&party);
    let registered = registered.map_err(|refusal| refusal.to_string())?;
    Ok(Registered {
        challenge: registration.challenge().to_vec(),
        credential: registered.credential,
        public_key: registered.public_key,
        uses: registered.uses,
    })
}

/// A successful assertion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asserted {
    /// The challenge that the page sent.
    pub challenge: Vec<u8>,
    /// The credential ID.
    pub credential: Vec<u8>,
    /// The signature counter.
    pub uses: u32,
}

/// Checks an assertion by the key `public_key`; `text` is the browser's JSON.
pub fn assertion(url: &str, text: &str, public_key: &[u8]) -> Result<Asserted, String> {
    let party = RelyingParty::of(url).ok_or("no name")?;
    let assertion = Assertion::parse(text).map_err(|refusal| refusal.to_string())?;
    let uses = assertion.check(&party, public_key);
    let uses = uses.map_err(|refusal| refusal.to_string())?;
    Ok(Asserted {
        challenge: assertion.challenge().to_vec(),
        credential: assertion.credential,
        uses,
    })
}
