//! The ciphers to choose from.

/// Bytes of a key, in both suites.
pub const KEY_LEN: usize = 32;

/// Bytes of an authentication tag, in both suites.
pub const TAG_LEN: usize = 16;

/// The authenticated cipher of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suite {
    /// RFC 8439, the cipher of plain WireGuard.
    #[default]
    ChaCha20Poly1305,
    /// NIST SP 800-38D with a 256-bit key, for two Culvert ends that both chose it.
    Aes256Gcm,
}

impl Suite {
    /// True if this processor has the instructions that make the suite fast.
    ///
    /// ChaCha20-Poly1305 is fast everywhere. AES-256-GCM needs instructions for the rounds of AES
    /// and for the carry-less product of GHASH. With them it is the faster suite, record by record
    /// as well as in batches. Without them it is several times slower, and two ends that may choose
    /// should not use it.
    pub fn is_fast(self) -> bool {
        match self {
            Self::ChaCha20Poly1305 => true,
            Self::Aes256Gcm => has_aes_instructions(),
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn has_aes_instructions() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes_instructions() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
        && std::arch::is_aarch64_feature_detected!("pmull")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes_instructions() -> bool {
    false
}
