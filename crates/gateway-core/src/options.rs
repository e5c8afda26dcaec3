//! The identity of the gateway.

use culvert_wire::{Cipher, PublicKey};

/// The identity of the gateway.
#[derive(Clone, Debug)]
pub struct Options {
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// The name that people gave it.
    pub name: String,
    /// Its software version.
    pub version: String,
    /// Its key.
    pub public_key: PublicKey,
    /// Suites that its processor does fast.
    pub ciphers: Vec<Cipher>,
}
