//! The parts of a gateway that stay as they are as long as it runs.

use crate::GatewayError;
use crate::settings::Settings;
use culvert_aead::Suite;
use culvert_base::BootTime;
use culvert_gateway_core::{Gateway, Options};
use culvert_host::{Identity, StateDir};
use culvert_session::PrivateKey;
use culvert_wire::{Cipher, PublicKey};
use std::net::SocketAddr;

/// The parts of a gateway that stay as they are as long as it runs.
pub(super) struct Base {
    pub(super) settings: Settings,
    pub(super) machine: String,
    pub(super) public_key: PublicKey,
    pub(super) began: BootTime,
}

impl Base {
    /// Also returns the private key. Makes the missing files in the state directory, and changes nothing else.
    pub(super) fn load(
        settings: Settings,
        state: &StateDir,
    ) -> Result<(Self, PrivateKey), GatewayError> {
        let identity = Identity::load(state, settings.id.as_deref())?;
        let key = PrivateKey::from_bytes(*identity.key.expose());
        let base = Self {
            settings,
            machine: identity.machine,
            public_key: PublicKey::from_bytes(*key.public_key().as_bytes()),
            began: culvert_engine::boot_time(),
        };
        Ok((base, key))
    }

    /// A core that knows no grants yet. `candidates` are the addresses at which clients may reach the gateway.
    pub(super) fn core(&self, candidates: Vec<SocketAddr>) -> Result<Gateway, GatewayError> {
        let options = Options {
            machine: self.machine.clone(),
            name: self.settings.name.clone(),
            version: self.settings.version.clone(),
            public_key: self.public_key,
            ciphers: ciphers(),
        };
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)
            .map_err(std::io::Error::other)
            .map_err(GatewayError::system("draw random bytes"))?;
        let now = culvert_engine::boot_time();
        Ok(Gateway::new(options, candidates, seed, now))
    }
}

/// Suites that this processor does fast.
fn ciphers() -> Vec<Cipher> {
    let mut ciphers = vec![Cipher::ChaCha20Poly1305];
    if Suite::Aes256Gcm.is_fast() {
        ciphers.push(Cipher::Aes256Gcm);
    }
    ciphers
}
