//! The persisted state, as the gateway takes it over and gives it.

use super::Gateway;
use crate::grants::Held;
use crate::persisted::{GrantChanges, LeftOut, PersistedGrants, PersistedNetwork};
use crate::services::ChangedServices;
use crate::verify::{GrantKeys, unverified_claims};
use culvert_base::{BootTime, UnixTime};
use std::collections::BTreeSet;

impl Gateway {
    /// Goes on with what an earlier run has persisted. `unix` is this machine's wall clock, since the
    /// portal's is not known yet. Grants that do not verify are left out.
    pub fn handle_persisted(&mut self, persisted: PersistedGrants, unix: UnixTime, now: BootTime) {
        let keys = GrantKeys::new(persisted.grant_keys);
        if !self.take_network(
            persisted.gateway,
            persisted.interface,
            persisted.ranges,
            keys,
            now,
        ) {
            return;
        }
        self.persistence.change_network();
        let mut left_out = LeftOut::default();
        for grant in persisted.grants {
            let claims = unverified_claims(&grant.token);
            if claims.is_some_and(|claims| persisted.void.contains(&claims.grant)) {
                continue;
            }
            let (token, key) = (grant.token, grant.preshared_key);
            match self.restore_grant(&token, key, grant.names, unix, now) {
                Ok(id) => {
                    if let Some(filters) = grant.filters {
                        // An earlier version has kept none, and nothing was open under it.
                        let inbound = grant.inbound.unwrap_or_default();
                        self.restore_services(id, &ChangedServices { filters, inbound });
                    }
                }
                Err(fault) => left_out.add(fault),
            }
        }
        left_out.write(unix, &mut self.journal.log);
        self.finish(now);
    }

    /// The changes of the state that an own restart would need, since they were last taken; none before the first
    /// `welcome`.
    pub fn take_changes(&mut self) -> Option<GrantChanges> {
        let network = self.network.as_ref()?;
        let unwritten = self.persistence.take_changes();
        let network = unwritten.network.then(|| PersistedNetwork {
            gateway: network.gateway,
            interface: network.interface,
            ranges: network.ranges.clone(),
            grant_keys: network.keys.written.clone(),
        });
        let grants = unwritten.grants.into_iter();
        Some(GrantChanges {
            is_whole: unwritten.is_whole,
            network,
            grants: grants
                .map(|id| (id, self.grants.held.get(id).map(Held::persisted)))
                .collect(),
        })
    }

    /// The written state is lost: the next changes are the whole state.
    pub fn persist_anew(&mut self) {
        self.persistence.begin_anew(self.grants.ids());
    }

    /// The state that an own restart would need; none before the first `welcome`.
    #[must_use]
    pub fn persisted(&self) -> Option<PersistedGrants> {
        let network = self.network.as_ref()?;
        Some(PersistedGrants {
            gateway: network.gateway,
            interface: network.interface,
            ranges: network.ranges.clone(),
            grant_keys: network.keys.written.clone(),
            grants: self
                .grants
                .held
                .iter()
                .map(|(_, held)| held.persisted())
                .collect(),
            void: BTreeSet::new(),
        })
    }
}
