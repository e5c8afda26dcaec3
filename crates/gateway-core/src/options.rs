//! The identity of the gateway.

use culvert_wire::{Cipher, PublicKey};

/// Who the gateway is.
#[derive(Clone, Debug)]
pub struct Options {
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// What people call it.
    pub name: String,
    /// Its software version.
    pub version: String,
    /// Its key.
    pub public_key: PublicKey,
    /// Suites that its processor does fast.
    pub ciphers: Vec<Cipher>,
}
