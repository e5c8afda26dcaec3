//! Resources with the same target. The grant for one of them takes the packets for all, so that no packet asks for the
//! others: the client asks for them itself while the grant is in use.

use super::access::{MAX_DENIAL_MS, MAX_WANTED_NAMES};
use super::client::Client;
use culvert_base::BootTime;
use culvert_dns::Addresses;
use culvert_ids::ResourceId;
use culvert_policy::DomainName;
use std::time::Duration;

/// The interval between two requests for the others while the range is in use: the longest time of a denial.
const ASK_EVERY: Duration = Duration::from_millis(MAX_DENIAL_MS);

impl<P> Client<P> {
    /// Asks for what has the target of a grant in use and is not granted itself: it is new, or was
    /// denied, or its grant was taken back, and may be allowed by now.
    pub(super) fn ask_for_same_target(&mut self, now: BootTime) {
        if !self.accesses.begin_same_target(ASK_EVERY, now) {
            return;
        }
        let granted = self.accesses.granted();
        let in_use: Vec<ResourceId> = granted
            .filter(|(_, grant)| self.gateways.is_in_use(grant, ASK_EVERY, now))
            .map(|(id, _)| id)
            .collect();
        for id in in_use {
            let Some(resource) = self.directory.get(id) else {
                continue;
            };
            let is_name = resource.target.pattern().is_some();
            for other in self.directory.with_same_target(resource) {
                if other == id {
                    continue;
                }
                if is_name {
                    self.want_names_of(id, other, now);
                } else {
                    self.want_one(other, None, now);
                }
            }
        }
    }

    /// Wants the names of one grant of another resource too.
    fn want_names_of(&mut self, id: ResourceId, other: ResourceId, now: BootTime) {
        let granted = self.accesses.grant(id);
        let known = self.accesses.grant(other);
        let names = granted.into_iter().flat_map(|grant| &grant.names);
        let missing: Vec<(DomainName, Addresses)> = names
            .filter(|(name, _)| known.is_none_or(|known| !known.names.contains_key(name)))
            .map(|(name, granted)| (name.clone(), granted.addresses))
            .take(MAX_WANTED_NAMES)
            .collect();
        for (name, addresses) in missing {
            self.want_one(other, Some((&name, addresses)), now);
        }
    }
}
