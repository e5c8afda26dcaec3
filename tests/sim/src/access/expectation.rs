//! The expectations: accesses that must work, and invariants that hold at all times.

use super::application::Application;
use super::catalog::{Destination, Machine, site};
use super::rules;
use super::world::World;
use culvert_gateway_core::Gateway;
use culvert_ids::GrantId;
use culvert_store::Grant;
use std::collections::{BTreeMap, BTreeSet};

/// The time after which every allowed access works, once the network is whole and everyone runs, in
/// milliseconds. A connection to a host that is gone is given up after 12 s, and the next attempt
/// comes 2 s later. A "no" that was said meanwhile stands for 10 s. The rest is for messages.
pub const QUIET_MS: u64 = 26_000;

/// The time for which a "no" that was right when it was said may still have its effect, in milliseconds. It
/// stands for 10 s, the application tries again within a second, and the grant takes one more. Time alone
/// may allow what was not allowed before: a window opens.
const NO_STANDS_MS: u64 = 12_000;

/// For how long one looks whether it works, in milliseconds: longer than applications pause.
const LOOK_MS: u64 = 5_000;

/// For how long messages may be under way when one compares what everybody believes, in
/// milliseconds, and how often one looks.
const UNDER_WAY_MS: u64 = 5_000;
const COMPARE_EVERY_MS: u64 = 50;

/// Grants that the portal may have for one client and resource: the one in use, one on offer, and
/// one through each gateway that drains.
const MAX_GRANTS_PER_PAIR: usize = 5;

impl World {
    /// Makes everything whole, and looks whether everything works that is allowed, and whether all
    /// believe the same. Panics where it is not so.
    pub fn check_recovery(&mut self) {
        self.heal_all();
        self.start_all();
        self.run_ms(QUIET_MS - NO_STANDS_MS);
        let before: BTreeSet<usize> = self.expected(0).into_iter().collect();
        self.run_ms(NO_STANDS_MS);
        // A machine whose process ended because the portal refused it may be accepted by now.
        self.start_all();
        let mut expected = self.expected(LOOK_MS);
        expected.retain(|id| before.contains(id));
        let from_ms = self.now_ms();
        self.run_ms(LOOK_MS);
        let still: BTreeSet<usize> = self.expected(0).into_iter().collect();
        for id in expected.into_iter().filter(|id| still.contains(id)) {
            self.assert_answered(id, from_ms);
        }
        self.check_convergence();
    }

    /// After the last application, nothing is left of any grant.
    pub fn check_end(&mut self) {
        self.end_applications();
        let lifetime_ms = self.config().grant_lifetime_ms();
        // A grant is renewed for the last time a third of its life after its last use.
        self.run_ms(2 * lifetime_ms + UNDER_WAY_MS);
        let left = self.config().grants();
        assert!(left.is_empty(), "{}: {left:?} are left", self.place());
        for (number, gateway) in self.gateways.iter().enumerate() {
            let grants = gateway.core().map_or(0, |core| core.grants().count());
            let (_, peers) = gateway.remembered();
            let place = self.place();
            assert_eq!((grants, peers), (0, 0), "{place}: left on gateway {number}");
        }
        for (number, client) in self.clients.iter().enumerate() {
            let grants = client.grants(&self.net).len();
            let peers = client.peer_count();
            let place = self.place();
            assert_eq!((grants, peers), (0, 0), "{place}: left on client {number}");
        }
    }

    /// Checks the invariant of all times: nothing grows without bound.
    pub fn check_bounds(&self) {
        let resources = self.config().rows().count();
        let pairs = self.clients.len() * resources;
        if let Some(status) = self.hub_status() {
            assert_eq!(status.faults, 0, "rows that can't be converted");
            assert_eq!(status.counters.overflows, 0, "sessions that overflowed");
            assert!(status.asks <= pairs, "{status:?}");
            assert!(status.grants <= pairs * MAX_GRANTS_PER_PAIR, "{status:?}");
            assert!(status.clients <= self.clients.len(), "{status:?}");
            assert!(status.gateways <= self.gateways.len(), "{status:?}");
        }
        for client in &self.clients {
            let held = client.held_packets(&self.net);
            let most = culvert_client_core::MAX_HELD_PER_RESOURCE * resources;
            assert!(held <= most, "{held} packets wait");
            assert!(client.peer_count() <= self.gateways.len());
        }
        for gateway in &self.gateways {
            let (_, peers) = gateway.remembered();
            assert!(peers <= self.clients.len() * 2, "{peers} peers");
        }
        assert_eq!(self.tally().mismatches, 0, "ends of a tunnel differ");
    }

    fn place(&self) -> String {
        format!("seed {} at {} ms", self.seed(), self.now_ms())
    }

    /// The applications that must get answers from now on for so long.
    fn expected(&self, span_ms: u64) -> Vec<usize> {
        let mut expected = Vec::new();
        for (number, client) in self.clients.iter().enumerate() {
            let ids = client.applications.iter();
            let working = ids.filter(|(_, it)| self.is_expected(number, it, span_ms));
            expected.extend(working.map(|(id, _)| *id));
        }
        expected
    }

    fn is_expected(&self, client: usize, application: &Application, span_ms: u64) -> bool {
        let node = &self.clients[client];
        let Some(row) = self.config().client_of(client) else {
            return false;
        };
        if !node.is_up() || node.is_rogue {
            return false;
        }
        let destination = application.destination;
        let found = rules::resource_for(self.config(), row.id, destination, application.service);
        let Some(resource) = found else {
            return false;
        };
        let now_ms = self.portal_unix_ms();
        let until = rules::allowed_until(self.config(), row.id, resource.id, now_ms);
        let is_allowed = until.is_some_and(|until| until > now_ms + span_ms);
        let has_gateway = (0..self.gateways.len()).any(|number| {
            site(self.portal.site_of(number)) == resource.site && self.serves(number)
        });
        let has_address = match destination {
            Destination::Address(_) => true,
            Destination::Name4(name) => self.names().has_always_had(name, true),
            Destination::Name6(name) => self.names().has_always_had(name, false),
        };
        is_allowed && has_gateway && has_address
    }

    /// True if clients may be given to the gateway.
    fn serves(&self, number: usize) -> bool {
        let node = &self.gateways[number];
        let is_admitted = self.config().gateway_of(number).is_some_and(|row| {
            row.revoked.is_none()
                && !row.draining
                && rules::is_verified_as_required(self.config(), row)
        });
        let drains = node.core().is_some_and(Gateway::is_draining);
        node.is_up() && is_admitted && !drains
    }

    fn assert_answered(&self, id: usize, from_ms: u64) {
        let intent = self.net.intents[id];
        let application = &self.clients[intent.client].applications[&id];
        let mut answered = application.log.answered.iter();
        assert!(
            answered.any(|(sent_ms, _)| *sent_ms >= from_ms),
            "{}: {intent:?} (application {id}) is allowed and does not work; its last answer was {:?}",
            self.place(),
            application.log.answered.last(),
        );
    }

    /// Portal, gateways and clients come to believe in the same grants.
    fn check_convergence(&mut self) {
        let mut difference = String::new();
        for _ in 0..UNDER_WAY_MS / COMPARE_EVERY_MS {
            match self.difference() {
                None => return,
                Some(found) => difference = found,
            }
            self.run_ms(COMPARE_EVERY_MS);
        }
        panic!("{}: {difference}", self.place());
    }

    fn difference(&self) -> Option<String> {
        let portal = self.config().grants();
        for (number, gateway) in self.gateways.iter().enumerate() {
            let (Some(core), true) = (gateway.core(), gateway.is_up()) else {
                continue;
            };
            let of_gateway = |grant: &&Grant| Some(grant.gateway) == core.id();
            let known: BTreeSet<GrantId> = portal
                .values()
                .filter(of_gateway)
                .map(|grant| grant.id)
                .collect();
            let held: BTreeSet<GrantId> = core.grants().collect();
            if core.is_connected() && known != held {
                return Some(format!(
                    "the portal knows {known:?} of gateway {number}, which holds {held:?}"
                ));
            }
        }
        for (number, client) in self.clients.iter().enumerate() {
            let Some(row) = self.config().client_of(number) else {
                continue;
            };
            let is_open = client
                .core()
                .is_some_and(culvert_client_core::Client::is_connected);
            if !is_open || client.is_rogue {
                continue;
            }
            let mut known: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
            for grant in portal.values().filter(|grant| grant.client == row.id) {
                known
                    .entry(grant.resource)
                    .or_default()
                    .insert(grant.gateway);
            }
            for (resource, gateway, grant) in client.grants(&self.net) {
                let is_known = known.get(&resource).is_some_and(|it| it.contains(&gateway));
                if !is_known {
                    return Some(format!(
                        "client {number} believes in {grant} for {resource} through {gateway}, \
                         the portal in {known:?}"
                    ));
                }
            }
        }
        None
    }

    /// Machines that run.
    pub fn running(&self) -> Vec<Machine> {
        let clients = (0..self.clients.len()).map(Machine::Client);
        let gateways = (0..self.gateways.len()).map(Machine::Gateway);
        let machines = clients.chain(gateways);
        machines.filter(|machine| self.is_up(*machine)).collect()
    }
}
