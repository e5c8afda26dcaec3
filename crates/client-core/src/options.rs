//! The configuration of the client.

use culvert_policy::DomainName;
use culvert_wire::{Cipher, PublicKey};
use std::net::SocketAddr;

/// The identity of the client, and how it answers names.
#[derive(Clone, Debug)]
pub struct Options {
    /// The text by which the portal knows the machine again.
    pub machine: String,
    /// The name that people see.
    pub name: String,
    /// Its software version.
    pub version: String,
    /// Its key.
    pub public_key: PublicKey,
    /// Suites that its processor does fast.
    pub ciphers: Vec<Cipher>,
    /// Addresses at which DNS queries come in, besides the tunnel's own.
    pub dns_listen: Vec<SocketAddr>,
    /// Resolvers for names that are no resource.
    pub dns_upstreams: Vec<SocketAddr>,
    /// True if the system is to ask here for every name, although it could ask for some alone.
    pub asks_all: bool,
    /// The portal's names, none of which is ever a resource: without it there is nobody to ask for access.
    pub portals: Vec<DomainName>,
}
