//! State that a gateway keeps over its restart, so that clients go on while the portal is away.

use super::verify::GrantFault;
use culvert_base::{LogLine, LogQueue, UnixTime};
use culvert_ids::{GatewayId, GrantId};
use culvert_wire::messages::{Interface, Ranges, WantedName};
use culvert_wire::model::{Filter, Understood};
use culvert_wire::{PresharedKey, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Everything that is persisted, as a gateway goes on with it and as earlier versions wrote it. It holds pre-shared keys, so only its owner may read the file. Only its owner may
/// write it, too: the keys by which signatures are checked are trusted without one. Everything else is believed
/// only with the portal's signature.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PersistedGrants {
    /// The id of the gateway.
    pub gateway: GatewayId,
    /// Its addresses inside the tunnel.
    pub interface: Interface,
    /// The networks in use.
    pub ranges: Ranges,
    /// Public keys whose signature on a grant counts.
    pub grant_keys: Vec<String>,
    /// Grants in force.
    pub grants: Vec<PersistedGrant>,
    /// Grants that have ended or changed since ([`Output::Void`](super::Output::Void)). They are kept apart.
    #[serde(skip)]
    pub void: BTreeSet<GrantId>,
}

/// The changes of the persisted state since the last ones.
#[derive(Clone, Debug, Default)]
pub struct GrantChanges {
    /// True if these are all that there is, and nothing of before counts: at the start, and after
    /// [`Gateway::persist_anew`](super::Gateway::persist_anew).
    pub is_whole: bool,
    /// The identity of the gateway and its networks, if that is other than before.
    pub network: Option<PersistedNetwork>,
    /// Grants that have come or changed, and none for those that have ended.
    pub grants: BTreeMap<GrantId, Option<PersistedGrant>>,
}

/// The identity of a gateway, its networks, and the keys that it trusts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PersistedNetwork {
    /// The id of the gateway.
    pub gateway: GatewayId,
    /// Its addresses inside the tunnel.
    pub interface: Interface,
    /// The networks in use.
    pub ranges: Ranges,
    /// Public keys whose signature on a grant counts.
    pub grant_keys: Vec<String>,
}

impl GrantChanges {
    /// Adds later changes.
    pub fn merge(&mut self, later: Self) {
        if later.is_whole {
            *self = later;
            return;
        }
        if later.network.is_some() {
            self.network = later.network;
        }
        self.grants.extend(later.grants);
    }
}

/// A grant as it was received.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PersistedGrant {
    /// The signed claims.
    pub token: String,
    /// The secret of the pair.
    pub preshared_key: PresharedKey,
    /// Names that the client wants.
    pub names: Vec<WantedName>,
    /// Filters that the portal has set since the grant was signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filters: Option<Understood<Filter>>,
    /// Of the same time, the services of the client's host that the resource may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inbound: Option<Understood<Filter>>,
}

/// Persisted grants that did not come into force again.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    /// By this machine's clock they have ended, or are yet to be made.
    by_time: usize,
    others: usize,
    /// The fault of the first of the others.
    fault: Option<GrantFault>,
}

impl LeftOut {
    pub(super) fn add(&mut self, fault: GrantFault) {
        if matches!(fault, GrantFault::Expired(_) | GrantFault::NotYet(_)) {
            self.by_time += 1;
        } else {
            self.others += 1;
            self.fault.get_or_insert(fault);
        }
    }

    /// Writes a line for each kind: faults that are usual after a long pause, and those that should not be.
    pub(super) fn write(&self, unix: UnixTime, log: &mut LogQueue) {
        let clock = Timestamp::from(unix);
        if self.by_time > 0 {
            let line = LogLine::info(
                "kept grants are not valid by this machine's clock; if that is wrong, set it \
                 (timedatectl set-ntp true)",
            );
            log.push(line.with("grants", self.by_time).with("clock", clock));
        }
        if let Some(fault) = &self.fault {
            let line = LogLine::warn("kept grants are of no use");
            log.push(line.with("grants", self.others).with("fault", fault));
        }
    }
}
