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
    /// What two ends use of what each says it does fast: the lists come from the network, and what
    /// is not in both is not used. `ChaCha20Poly1305` needs nobody's word.
    pub fn choose(client: &[Self], gateway: &[Self]) -> Self {
        if client.contains(&Self::Aes256Gcm) && gateway.contains(&Self::Aes256Gcm) {
            Self::Aes256Gcm
        } else {
            Self::ChaCha20Poly1305
        }
    }
}
