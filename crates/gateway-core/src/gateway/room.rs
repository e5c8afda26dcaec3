//! Room for more names of a client: those that nobody uses give way, the oldest first.
//!
//! A client has a share of names, and each page that it shows may want new ones of a wildcard. If its share is almost
//! full, the shell is asked which names have flows, and the others go, down to three quarters of the share. Nobody
//! loses a name because of another client.

use super::Gateway;
use crate::names::MAX_NAMES_PER_CLIENT;
use culvert_base::BootTime;
use culvert_ids::{ClientId, GrantId};
use culvert_policy::DomainName;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// From here on a client's share counts as almost full: seven eighths. 1,024 more names fit until the shell has answered,
/// some hundred times what a client asks for in a second.
const CROWDED: usize = MAX_NAMES_PER_CLIENT / 8 * 7;

/// As many of its names stay, and those with flows besides. So the next 1,024 names cost no look at all flows.
const STORED_NAMES: usize = MAX_NAMES_PER_CLIENT / 4 * 3;

/// Between two looks at all flows: a look at the 262,144 of a worker takes some 40 ms.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Gateway {
    /// Has the shell say which names are in use, where a client has almost as many as it may.
    pub(super) fn look_for_room(&mut self, client: ClientId, now: BootTime) {
        if self.grants.names_of_client(client) <= CROWDED {
            return;
        }
        let dns = &mut self.dns;
        dns.crowded.insert(client);
        let is_early = dns.looked.is_some_and(|at| !now.has_passed(at, LOOK_EVERY));
        if is_early {
            return;
        }
        dns.looked = Some(now);
        dns.wants_look = true;
    }

    /// These addresses of names have flows, each with the tunnel address of its client: the answer to
    /// [`Output::NamesInUse`](crate::Output::NamesInUse).
    pub fn handle_names_in_use(&mut self, in_use: &BTreeSet<(IpAddr, IpAddr)>, now: BootTime) {
        for client in std::mem::take(&mut self.dns.crowded) {
            let count = self.grants.names_of_client(client);
            if count > CROWDED {
                self.evict_names(client, count - STORED_NAMES, in_use, now);
            }
        }
        self.finish(now);
    }

    /// Takes as many names of a client as `count` that have no flow, the oldest first.
    fn evict_names(
        &mut self,
        client: ClientId,
        count: usize,
        in_use: &BTreeSet<(IpAddr, IpAddr)>,
        now: BootTime,
    ) {
        let mut unused: Vec<(BootTime, GrantId, DomainName)> = Vec::new();
        for held in self.grants.of_client(client) {
            let claims = &held.claims;
            let own: [IpAddr; 2] = [claims.client_ipv4.into(), claims.client_ipv6.into()];
            for (name, visible) in &held.names {
                let pairs = own.into_iter().zip(visible.addresses());
                if !pairs.into_iter().any(|pair| in_use.contains(&pair)) {
                    unused.push((visible.told, claims.grant, name.clone()));
                }
            }
        }
        unused.sort_unstable();
        unused.truncate(count);
        if unused.is_empty() {
            return;
        }
        let mut by_grant: BTreeMap<GrantId, BTreeSet<DomainName>> = BTreeMap::new();
        for (_, grant, name) in &unused {
            by_grant.entry(*grant).or_default().insert(name.clone());
        }
        for (grant, names) in &by_grant {
            self.grants.take_names_of_grant(*grant, names);
            self.persistence.change(*grant);
        }
        self.rebuild_or_deny(client);
        for (_, _, name) in &unused {
            if !self.grants.uses_name(name) {
                self.dns.names.forget(name);
            }
        }
        let count = unused.len();
        self.journal
            .note_eviction(client, count, MAX_NAMES_PER_CLIENT, now);
    }
}
