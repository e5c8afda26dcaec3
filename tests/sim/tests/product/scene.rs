//! The common part of the scenarios: one site, some gateways, clients whose actors are all in one
//! group, which may use two networks.

use culvert_policy::Service;
use culvert_sim::access::{
    ApplicationId, Destination, Layout, Log, World, client_token, membership, policy, rows,
};
use culvert_store::Token;
use culvert_wire::Timestamp;
use culvert_wire::model::{Condition, Filter};
use std::net::{IpAddr, Ipv4Addr};

/// The group of everybody.
pub(crate) const EVERYBODY: u16 = 1;

/// The time in which machines start, connect and get their first grants, in milliseconds.
pub(crate) const START_MS: u64 = 10_000;

/// The interval at which applications of scenarios want an answer, in milliseconds.
pub(crate) const EVERY_MS: u64 = 100;

/// The longest round trip of an answer, and the wait for one more, in milliseconds.
pub(crate) const TRIP_MS: u64 = 400;

/// The machines of a scenario.
pub(crate) struct Scene {
    pub(crate) clients: Vec<u16>,
    pub(crate) gateways: usize,
    pub(crate) grant_lifetime_s: u32,
    pub(crate) skew_ms: u64,
    pub(crate) portals: usize,
}

impl Scene {
    /// As many clients as actors, with long grants and right clocks.
    pub(crate) fn new(clients: u16, gateways: usize) -> Self {
        Self {
            clients: (1..=clients).collect(),
            gateways,
            grant_lifetime_s: 300,
            skew_ms: 0,
            portals: 1,
        }
    }

    /// Everybody runs, is connected, and may use resources 1 and 2 by policies 1 and 2.
    pub(crate) fn world(self, seed: u64, is_traced: bool) -> World {
        let mut world = self.bare(seed, is_traced);
        world.commit(vec![
            rows::policy_row(1, EVERYBODY, 1, Vec::new()),
            rows::policy_row(2, EVERYBODY, 2, Vec::new()),
        ]);
        world
    }

    /// The same without policies.
    pub(crate) fn bare(self, seed: u64, is_traced: bool) -> World {
        let actors: std::collections::BTreeSet<u16> = self.clients.iter().copied().collect();
        let layout = Layout {
            clients: self.clients,
            gateways: vec![1; self.gateways],
            grant_lifetime_s: self.grant_lifetime_s,
            skew_ms: self.skew_ms,
        };
        let mut world = World::new(seed, layout);
        if self.portals > 1 {
            world = world.with_portals(self.portals);
        }
        if is_traced {
            world.trace();
        }
        let mut edits = vec![rows::gateway_token_row(1)];
        for of in actors {
            edits.push(rows::actor_row(of, false));
            edits.push(rows::client_token_row(of));
            edits.push(rows::membership_row(of, EVERYBODY));
        }
        edits.push(rows::resource_row(1, 1, "10.1.2.0/24", vec![Filter::Any]));
        edits.push(rows::resource_row(2, 1, "10.1.9.0/24", vec![Filter::Any]));
        world.commit(edits);
        world.start_all();
        world.run_ms(START_MS);
        world
    }
}

/// A host of resource 1 or 2.
pub(crate) fn host(resource: u8) -> Destination {
    let third = [2, 9][usize::from(resource) - 1];
    Destination::Address(IpAddr::V4(Ipv4Addr::new(10, 1, third, 3)))
}

/// An application that asks a host of the resource ten times a second.
pub(crate) fn application(world: &mut World, client: usize, resource: u8) -> ApplicationId {
    world.add_application(client, host(resource), Service::Tcp(80), EVERY_MS)
}

/// The longest time without an answer in a span.
pub(crate) fn longest_gap_ms(log: &Log, from_ms: u64, to_ms: u64) -> u64 {
    let (mut last_ms, mut longest_ms) = (from_ms, 0);
    let arrivals = log.answered.iter().map(|(_, arrived_ms)| *arrived_ms);
    let within = arrivals.filter(|at_ms| (from_ms..=to_ms).contains(at_ms));
    for at_ms in within.chain([to_ms]) {
        longest_ms = longest_ms.max(at_ms.saturating_sub(last_ms));
        last_ms = last_ms.max(at_ms);
    }
    longest_ms
}

/// The sending time of the last packet that was answered.
pub(crate) fn last_ms(log: &Log) -> u64 {
    let sent = log.answered.iter().map(|(sent_ms, _)| *sent_ms);
    sent.max().unwrap_or(0)
}

/// The time of the answer to the first packet that was sent at `from_ms` or later.
pub(crate) fn first_answer_ms(log: &Log, from_ms: u64) -> Option<u64> {
    let later = log
        .answered
        .iter()
        .filter(|(sent_ms, _)| *sent_ms >= from_ms);
    later.map(|(_, arrived_ms)| *arrived_ms).min()
}

/// The policy of everybody for resource 1 holds under a condition.
pub(crate) fn allow_under(world: &mut World, condition: Condition) {
    world.commit(vec![rows::policy_row(1, EVERYBODY, 1, vec![condition])]);
}

/// The portal's clock.
pub(crate) fn portal_now(world: &World) -> Timestamp {
    Timestamp::from_unix_ms(world.portal_unix_ms())
}

/// The token of an actor's clients is another.
pub(crate) fn edit_token(world: &mut World, of: u16, edit: impl FnOnce(&mut Token, Timestamp)) {
    let mut token: Token = world.config().row(client_token(of)).expect("a token");
    edit(&mut token, portal_now(world));
    world.commit(vec![rows::set(token)]);
}

/// The actor is no longer in the group of everybody.
pub(crate) fn leave(world: &mut World, of: u16) {
    world.commit(vec![rows::remove(membership(of, EVERYBODY))]);
}

/// Resource 1 is for nobody any more.
pub(crate) fn forbid(world: &mut World) {
    world.commit(vec![rows::remove(policy(1))]);
}

/// Resource 1 is for everybody.
pub(crate) fn allow(world: &mut World) {
    world.commit(vec![rows::policy_row(1, EVERYBODY, 1, Vec::new())]);
}
