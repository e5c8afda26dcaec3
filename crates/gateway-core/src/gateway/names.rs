//! Names that clients want, as the gateway asks for them.

use super::Gateway;
use crate::names::{MAX_NAMES_PER_CLIENT, Resolution};
use crate::network::Network;
use culvert_base::BootTime;
use culvert_ids::{ClientId, ResourceId};
use culvert_policy::DomainName;
use std::collections::BTreeMap;
use std::net::IpAddr;

impl Gateway {
    /// The DNS has answered for a name, or has not.
    pub fn handle_resolved(&mut self, name: &DomainName, resolution: Resolution, now: BootTime) {
        self.dns.questions.answered(name);
        let own = self.network.as_ref().map(Network::prefixes);
        let own = own.as_ref().map_or(&[][..], |own| own);
        let journal = &mut self.journal;
        if self
            .dns
            .names
            .take_resolution(name, resolution, own, journal, now)
        {
            for client in self.grants.clients_of_name(name) {
                self.rebuild_or_deny(client);
            }
            self.note_outside_of_held(name, now);
        }
        self.name_resolved(name, now);
        self.plain_name_resolved(name, now);
        self.name_of_others_resolved(name, now);
        self.finish(now);
    }

    /// Counts and logs that a name of resources in use leads out of their ranges now.
    fn note_outside_of_held(&mut self, name: &DomainName, now: BootTime) {
        let held = self.grants.held.of_name(name);
        let outside: BTreeMap<ResourceId, IpAddr> = held
            .filter_map(|(_, held)| {
                let address = self.dns.names.outside(name, held.within.as_ref())?;
                Some((held.claims.resource, address))
            })
            .collect();
        for (resource, address) in outside {
            self.journal.note_outside(name, address, resource, now);
        }
    }

    /// Asks again for names in use whose time is over, and forgets the others.
    pub(super) fn renew_names(&mut self, now: BootTime) {
        for name in self.dns.names.due(now) {
            // If several clients have the name, it counts for the one with the fewest waiting questions.
            let clients = self.grants.clients_of_name(&name).into_iter();
            let client = clients.min_by_key(|client| self.dns.questions.waiting(*client));
            match client {
                Some(client) => {
                    self.ask(client, &name, now);
                }
                None if self.grants.uses_name(&name) => {
                    self.dns.names.retry(&name, now);
                }
                None => self.dns.names.forget(&name),
            }
        }
    }

    fn has_room_for(&self, client: ClientId, name: &DomainName) -> bool {
        if self.dns.names.contains(name) {
            return true;
        }
        let room = self.dns.names.room_per_client();
        // If there is room for all names that one client may have, no count is needed.
        room >= MAX_NAMES_PER_CLIENT || self.grants.names_of_client(client) < room
    }

    /// Asks for a name as soon as it is the client's turn. False where nobody does now: a name that is
    /// kept is asked for later then.
    pub(super) fn ask(&mut self, client: ClientId, name: &DomainName, now: BootTime) -> bool {
        let is_wanted = self.has_room_for(client, name) && self.dns.questions.want(client, name);
        if is_wanted {
            self.dns.names.await_answer(name, now);
        } else {
            self.journal.counters.questions_refused += 1;
            self.dns.names.retry_known(name, now);
        }
        is_wanted
    }
}
