//! The clients that a change of the configuration concerns, as far as can be told without the portal.

use super::catalog::{Machine, actor, client_token, gateway_token};
use super::config::Config;
use super::portal::Portal;
use super::rules;
use culvert_ids::{ActorId, ClientId, GatewayId, GroupId, ResourceId, SiteId};
use culvert_store::{Change, Client, Entity, Gateway};
use std::collections::BTreeSet;

/// The state before a change.
pub(crate) struct Before {
    memberships: Vec<(ActorId, GroupId)>,
    policies: Vec<(GroupId, ResourceId)>,
    places: Vec<(ResourceId, SiteId)>,
    clients: Vec<Client>,
    gateways: Vec<Gateway>,
    grants: Vec<(ClientId, GatewayId)>,
    shown: Vec<(ClientId, BTreeSet<ResourceId>)>,
}

impl Before {
    pub(crate) fn of(config: &Config) -> Self {
        let mut before = Self {
            memberships: Vec::new(),
            policies: Vec::new(),
            places: Vec::new(),
            clients: Vec::new(),
            gateways: Vec::new(),
            grants: config
                .grants()
                .values()
                .map(|grant| (grant.client, grant.gateway))
                .collect(),
            shown: Vec::new(),
        };
        for row in config.rows() {
            match row {
                Entity::Membership(row) => before.memberships.push((row.actor, row.group)),
                Entity::Policy(row) => before.policies.push((row.group, row.resource)),
                Entity::Resource(row) => before.places.push((row.id, row.site)),
                Entity::Client(row) => {
                    let shown = rules::shown(config, row.id);
                    before.shown.push((row.id, shown));
                    before.clients.push(row.clone());
                }
                Entity::Gateway(row) => before.gateways.push(row.clone()),
                Entity::Account(_)
                | Entity::Actor(_)
                | Entity::Group(_)
                | Entity::Site(_)
                | Entity::Token(_)
                | Entity::Provider(_)
                | Entity::Identity(_)
                | Entity::Relay(_) => {}
            }
        }
        before
    }
}

/// The machines of a run, and the portal, which knows their tokens.
#[derive(Clone, Copy)]
pub(crate) struct Nodes<'a> {
    pub(crate) portal: &'a Portal,
    pub(crate) clients: usize,
    pub(crate) gateways: usize,
}

/// The clients that the changes concern: all others must not be told anything.
pub(crate) fn concerned(
    before: &Before,
    changes: &[Change],
    config: &Config,
    nodes: Nodes<'_>,
) -> BTreeSet<Machine> {
    let after = Before::of(config);
    let mut concerned = Concerned {
        states: [before, &after],
        nodes,
        machines: BTreeSet::new(),
    };
    for change in changes {
        for row in change.before.iter().chain(&change.after) {
            concerned.add(row);
        }
    }
    concerned.machines
}

struct Concerned<'a> {
    states: [&'a Before; 2],
    nodes: Nodes<'a>,
    machines: BTreeSet<Machine>,
}

impl Concerned<'_> {
    fn add(&mut self, row: &Entity) {
        match row {
            // Nothing of these is told of itself.
            Entity::Group(_)
            | Entity::Site(_)
            | Entity::Provider(_)
            | Entity::Identity(_)
            | Entity::Relay(_) => {}
            Entity::Account(_) => {
                for state in self.states {
                    state.clients.iter().for_each(|row| self.client(row.id));
                    state.gateways.iter().for_each(|row| self.gateway(row.id));
                }
            }
            Entity::Actor(row) => self.actor(row.id),
            Entity::Membership(row) => {
                self.clients_of(row.actor);
                for state in self.states {
                    for (_, resource) in state.policies.iter().filter(|(g, _)| *g == row.group) {
                        self.gateways_of(*resource);
                    }
                }
            }
            Entity::Resource(row) => {
                for state in self.states {
                    for (client, _) in state.shown.iter().filter(|(_, it)| it.contains(&row.id)) {
                        self.client(*client);
                    }
                }
                self.gateways_of(row.id);
            }
            Entity::Policy(row) => {
                for state in self.states {
                    let members = state.memberships.iter();
                    for (actor, _) in members.filter(|(_, group)| *group == row.group) {
                        self.clients_of(*actor);
                    }
                }
                self.gateways_of(row.resource);
            }
            Entity::Token(row) => {
                if let Some(actor) = row.scope.actor() {
                    self.actor(actor);
                }
                for number in 0..self.nodes.gateways {
                    if gateway_token(self.nodes.portal.site_of(number)) == row.id {
                        self.machines.insert(Machine::Gateway(number));
                    }
                }
            }
            Entity::Client(row) => self.client_and_its_gateways(row.id),
            Entity::Gateway(row) => {
                self.gateway(row.id);
                // A gateway is affected by the clients that it serves or was about to serve, and so
                // is the gateway that is to serve them instead.
                for state in self.states {
                    let places = state.places.iter().filter(|(_, site)| *site == row.site);
                    for (resource, _) in places {
                        let shown = state.shown.iter().filter(|(_, it)| it.contains(resource));
                        shown.for_each(|(client, _)| self.client(*client));
                    }
                }
                for other in self.of_site(row.site) {
                    self.gateway(other);
                }
            }
        }
    }

    fn actor(&mut self, id: ActorId) {
        for state in self.states {
            for row in state.clients.iter().filter(|row| row.actor == id) {
                self.client_and_its_gateways(row.id);
            }
        }
    }

    fn clients_of(&mut self, id: ActorId) {
        for number in 0..self.nodes.clients {
            let of = self.nodes.portal.actor_of(number);
            if actor(of) == id || client_token(of).as_bytes() == id.as_bytes() {
                self.machines.insert(Machine::Client(number));
            }
        }
    }

    fn client_and_its_gateways(&mut self, id: ClientId) {
        self.client(id);
        for state in self.states {
            for (_, gateway) in state.grants.iter().filter(|(client, _)| *client == id) {
                self.gateway(*gateway);
            }
            // Only the portal knows the resources on offer.
            for (_, shown) in state.shown.iter().filter(|(client, _)| *client == id) {
                for resource in shown {
                    self.gateways_of(*resource);
                }
            }
        }
    }

    fn client(&mut self, id: ClientId) {
        let rows = self.states.iter().flat_map(|state| &state.clients);
        let row = rows.into_iter().find(|row| row.id == id);
        let number = row.and_then(|row| number_in(&row.machine));
        self.machines.extend(number.map(Machine::Client));
    }

    fn gateway(&mut self, id: GatewayId) {
        let rows = self.states.iter().flat_map(|state| &state.gateways);
        let row = rows.into_iter().find(|row| row.id == id);
        let number = row.and_then(|row| number_in(&row.machine));
        self.machines.extend(number.map(Machine::Gateway));
    }

    fn gateways_of(&mut self, resource: ResourceId) {
        for state in self.states {
            let places = state.places.iter().filter(|(id, _)| *id == resource);
            for (_, site) in places {
                for gateway in self.of_site(*site) {
                    self.gateway(gateway);
                }
            }
        }
    }

    fn of_site(&self, site: SiteId) -> Vec<GatewayId> {
        let rows = self.states.iter().flat_map(|state| &state.gateways);
        let rows = rows.filter(|row| row.site == site);
        rows.map(|row| row.id).collect()
    }
}

fn number_in(machine: &str) -> Option<usize> {
    machine.rsplit(' ').next()?.parse().ok()
}
