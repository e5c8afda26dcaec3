//! Cipher suites, by the names they have in messages.

use serde::{Deserialize, Serialize};

/// A cipher suite of the tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Cipher {
    /// WireGuard's own.
    ChaCha20Poly1305,
    /// Between ends whose processors have instructions for it.
    Aes256Gcm,
}

impl Cipher {
    /// Chooses the suite of a tunnel from the suites that each end reports as fast. The lists come
    /// from the network, so a suite that is missing from either list is not used.
    /// `ChaCha20Poly1305` may be used even if no list has it.
    pub fn choose(client: &[Self], gateway: &[Self]) -> Self {
        if client.contains(&Self::Aes256Gcm) && gateway.contains(&Self::Aes256Gcm) {
            Self::Aes256Gcm
        } else {
            Self::ChaCha20Poly1305
        }
    }
}
