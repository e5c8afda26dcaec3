//! A grant, and the gateway that it leads through.

use culvert_base::BootTime;
use culvert_dns::{Addresses, Families};
use culvert_ids::{GatewayId, GrantId};
use culvert_policy::DomainName;
use culvert_wire::messages::{Interface, RelayAccess, SITE_DNS_PORT};
use culvert_wire::{Cipher, PresharedKey, PublicKey};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// Names in one grant. A name that was asked for longest ago gives way to another; the next packet
/// to it asks for it again. Each takes 400 bytes.
pub const MAX_NAMES_PER_GRANT: usize = 4096;

/// A grant.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) id: GrantId,
    pub(super) gateway: Introduction,
    pub(super) begun: BootTime,
    pub(super) expires: BootTime,
    /// The time at which it is asked for again, if it is in use then.
    pub(super) renew: BootTime,
    /// The names that the gateway translates.
    pub(super) names: BTreeMap<DomainName, GrantedName>,
}

/// A gateway, as the portal introduces it.
#[derive(Clone, Debug)]
pub(super) struct Introduction {
    pub(super) id: GatewayId,
    pub(super) name: String,
    pub(super) key: PublicKey,
    pub(super) interface: Interface,
    /// It answers questions about names there.
    pub(super) answers_dns: bool,
    pub(super) candidates: Vec<SocketAddr>,
    pub(super) preshared_key: PresharedKey,
    pub(super) cipher: Cipher,
    /// Relays through which it is reached, as the last grant said.
    pub(super) relays: Vec<RelayAccess>,
}

impl Introduction {
    /// The address of its DNS service in the tunnel, if it has one.
    pub(super) fn site_dns(&self) -> Option<SocketAddr> {
        let at = SocketAddr::from((self.interface.ipv4, SITE_DNS_PORT));
        self.answers_dns.then_some(at)
    }
}

/// A name that the gateway translates.
#[derive(Clone, Copy, Debug)]
pub(super) struct GrantedName {
    pub(super) addresses: Addresses,
    pub(super) families: Families,
    /// The time at which it was asked for last.
    pub(super) asked: BootTime,
    /// It has no address any more. Flows that it has go on through the gateway, and new ones are refused there.
    pub(super) is_lost: bool,
}

impl Grant {
    /// Its whole life.
    pub(super) const fn life(&self) -> Duration {
        self.expires.saturating_since(self.begun)
    }

    /// Adds a name; the one that was asked for longest ago gives way where there are too many.
    pub(super) fn add_name(&mut self, name: DomainName, granted: GrantedName) {
        self.names.insert(name, granted);
        if self.names.len() > MAX_NAMES_PER_GRANT {
            let oldest = self
                .names
                .iter()
                .min_by_key(|(_, granted)| granted.asked)
                .map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                self.names.remove(&oldest);
            }
        }
    }
}
