//! The end and the change of grants.

use super::Gateway;
use crate::grants::Held;
use crate::journal::AccessEvent;
use crate::services::ChangedServices;
use crate::verify::GrantFault;
use culvert_base::{BootTime, LogLine};
use culvert_ids::{ClientId, GrantId, ResourceId};
use std::collections::BTreeSet;
use std::time::Duration;

/// The portal tells its clock in whole seconds, and a while after it looked at it: ends of grants that
/// move by less than this have not moved.
const CLOCK_GRAIN: Duration = Duration::from_secs(2);

impl Gateway {
    /// The portal takes a grant back.
    pub(super) fn revoke(&mut self, id: GrantId, now: BootTime) {
        self.grants.backlog.remove(id);
        self.grants.pending.remove(id);
        if let Some(held) = self.grants.held.get(id) {
            let pair = (held.claims.client, held.claims.resource);
            let labels = held.labels.clone();
            self.journal
                .log_access(AccessEvent::Revoked, pair, &labels, id, now);
        }
        if self.end_grant(id) {
            self.journal.counters.revoked += 1;
            self.persistence.void([id]);
        }
    }

    /// Ends every grant that `stands` does not name.
    pub(super) fn retain_grants(&mut self, stands: &BTreeSet<GrantId>, now: BootTime) {
        let gone: Vec<_> = self
            .grants
            .ids()
            .filter(|id| !stands.contains(id))
            .collect();
        for id in gone {
            self.revoke(id, now);
        }
    }

    pub(super) fn drop_all_grants(&mut self, now: BootTime) {
        self.retain_grants(&BTreeSet::new(), now);
        self.drop_admissions();
        self.forget_pending();
    }

    /// Grants that wait belong to a session that has ended: the portal asks again.
    pub(super) fn forget_pending(&mut self) {
        self.grants.backlog.clear();
        self.grants.pending.clear();
    }

    pub(super) fn expire_grants(&mut self, now: BootTime) {
        for id in self.grants.held.due(now) {
            self.end_grant(id);
            self.journal.counters.expired += 1;
        }
    }

    fn end_grant(&mut self, id: GrantId) -> bool {
        let Some(held) = self.grants.remove(id) else {
            return false;
        };
        self.persistence.change(id);
        self.rebuild_or_deny(held.claims.client);
        for name in held.names.keys() {
            if !self.grants.uses_name(name) {
                self.dns.names.forget(name);
            }
        }
        true
    }

    /// The services of a resource are others from here on, for grants that wait for the DNS too.
    pub(super) fn set_services(&mut self, resource: ResourceId, written: &ChangedServices) {
        self.log_not_understood(resource, written.filters.others());
        let held = self.grants.held.of_resource(resource);
        for id in held.map(|(id, _)| id).collect::<Vec<_>>() {
            self.set_services_of(id, written);
        }
        self.grants.backlog.set_services(resource, written);
        let pending = self.grants.pending.of_resource(resource);
        for id in pending.map(|(id, _)| id).collect::<Vec<_>>() {
            self.grants.pending.change(id, |pending| {
                pending.changed = Some(written.clone());
            });
        }
    }

    fn set_services_of(&mut self, id: GrantId, written: &ChangedServices) {
        // They may allow less than the ones that are kept.
        self.persistence.void([id]);
        self.restore_services(id, written);
    }

    pub(super) fn restore_services(&mut self, id: GrantId, written: &ChangedServices) {
        let changed = self.grants.held.change(id, |held| {
            held.set_services(written);
            held.claims.client
        });
        if let Some(client) = changed {
            self.persistence.change(id);
            self.rebuild_or_deny(client);
        }
    }

    /// Filters of a later version allow nothing here. One line says so for each resource, as long as a
    /// grant of it is held.
    pub(super) fn log_not_understood(&mut self, resource: ResourceId, filters: usize) {
        let mut held = self.grants.held.of_resource(resource);
        if filters > 0 && !held.any(|(_, held)| held.not_understood() > 0) {
            let line = LogLine::warn(
                "filters of a resource are not understood and allow nothing: update this gateway",
            );
            self.journal
                .log
                .push(line.with("resource", resource).with("filters", filters));
        }
    }

    /// The portal's clock is known, or has been set: grants end by it.
    pub(super) fn set_expiries(&mut self, now: BootTime) {
        let session = &self.portal.session;
        let expiry = |held: &Held| session.local_time(held.claims.exp, now);
        let moved = self.grants.held.iter().map(|(id, held)| {
            let expires = expiry(held);
            (id, held.claims.client, expires, held.expires)
        });
        let moved = moved.filter(|(.., expires, before)| expires.abs_diff(*before) > CLOCK_GRAIN);
        let moved: Vec<_> = moved.collect();
        let mut clients = BTreeSet::new();
        for (id, client, expires, _) in moved {
            self.grants.held.change(id, |held| held.expires = expires);
            clients.insert(client);
        }
        for client in clients {
            self.rebuild_or_deny(client);
        }
    }

    /// Rebuilds a client's entry. If its grants do not fit, it has none.
    pub(super) fn rebuild_or_deny(&mut self, client: ClientId) {
        if let Err(fault) = self.rebuild(client) {
            let line = LogLine::error("the client gets nowhere");
            self.journal
                .log
                .push(line.with("client", client).with("fault", fault));
        }
    }

    /// Makes peer and table entry of a client anew from its grants.
    pub(super) fn rebuild(&mut self, client: ClientId) -> Result<(), GrantFault> {
        self.dns.plain.grants_changed(client);
        let admitted = self.admissions.get(client);
        let admitted = admitted.filter(|device| device.client_key != self.options.public_key);
        let may_ask = admitted.is_some_and(|device| device.dns);
        if !may_ask && self.grants.of_client(client).next().is_none() {
            self.dns.plain.forget(client);
        }
        let network = self.network.as_ref();
        self.data_plane
            .rebuild(client, (&self.grants, admitted), &self.dns.names, network)
    }
}
