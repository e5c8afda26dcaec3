//! The permission to use a relay, and where the relay is.

use super::stream::TlsPlace;
use crate::nat64::{Nat64Prefix, reach_all};
use culvert_ids::RelayId;
use culvert_relay_core::registration::Permission;
use std::net::SocketAddr;

/// The permission to use a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayGrant {
    /// The relay.
    pub relay: RelayId,
    /// Its addresses, each with the gateway's port.
    pub addresses: Vec<SocketAddr>,
    /// Its TLS port, if it has one.
    pub tls: Option<TlsPlace>,
    /// The token, and the key of the proofs.
    pub permission: Permission,
}

impl RelayGrant {
    /// The same relay, as a host without IPv4 reaches it by this prefix. Without one nothing changes.
    #[must_use]
    pub fn reached_by(mut self, nat64: Option<Nat64Prefix>) -> Self {
        self.addresses = reach_all(nat64, &self.addresses);
        if let Some(tls) = &mut self.tls {
            tls.addresses = reach_all(nat64, &tls.addresses);
        }
        self
    }
}
