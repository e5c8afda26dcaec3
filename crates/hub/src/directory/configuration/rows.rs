//! Insertion and removal of one row.

use super::Directory;
use crate::directory::effect::{Effect, MachineChange, ResourceChange};
use crate::directory::resource_row::ResourceRow;
use culvert_ids::{ClientId, GatewayId, PolicyId, ResourceId};
use culvert_store::{Account, Client, Entity, EntityId, Gateway, Policy, Resource, Token};
use culvert_wire::model;
use culvert_wire::model::ToldApplications;

impl Directory {
    pub(super) fn set(&mut self, row: Entity, effects: &mut Vec<Effect>) {
        self.faults.remove(&row.id());
        match row {
            Entity::Account(account) => self.set_settings(account, effects),
            Entity::Actor(actor) => {
                effects.push(Effect::Actor(actor.id));
                self.actors.insert(actor.id, actor);
            }
            // Their memberships and policies decide; the name is for the log.
            Entity::Group(group) => self.memberships.set_group_name(group.id, group.name),
            // The ways to sign in concern no machine.
            Entity::Provider(_) | Entity::Identity(_) => {}
            Entity::Site(site) => {
                self.sites.set_name(site.id, site.name);
                if self.sites.set_relays(site.id, site.relays) {
                    effects.push(Effect::SiteRelays);
                }
            }
            Entity::Membership(membership) => {
                let before = self.memberships.part(membership.id);
                self.memberships.join(&membership);
                let after = (membership.actor, membership.group);
                let touched = before.into_iter().chain([after]);
                effects.extend(touched.map(|(actor, group)| Effect::Member { actor, group }));
            }
            Entity::Resource(resource) => self.set_resource(resource, effects),
            Entity::Policy(policy) => self.set_policy(policy, effects),
            Entity::Token(token) => {
                // With a new one nobody has come yet.
                if let Some(old) = self.tokens.insert(token) {
                    effects.push(of_token(&old));
                }
            }
            Entity::Client(client) => self.set_client(client, effects),
            Entity::Gateway(gateway) => self.set_gateway(gateway, effects),
            Entity::Relay(relay) => {
                effects.push(Effect::Relay(relay.id));
                self.relays.insert(relay.id, relay);
            }
        }
    }

    pub(super) fn remove(&mut self, id: EntityId, effects: &mut Vec<Effect>) {
        self.faults.remove(&id);
        match id {
            // An account is not deleted while its portal runs.
            EntityId::Account(_) | EntityId::Provider(_) | EntityId::Identity(_) => {}
            // Its memberships and policies are rows of their own.
            EntityId::Group(id) => self.memberships.remove_group_name(id),
            EntityId::Site(site) => {
                self.sites.remove(site);
            }
            EntityId::Actor(actor) => {
                self.actors.remove(&actor);
                effects.push(Effect::Actor(actor));
            }
            EntityId::Membership(membership) => {
                let parted = self.memberships.part(membership);
                effects.extend(parted.map(|(actor, group)| Effect::Member { actor, group }));
            }
            EntityId::Resource(id) => self.remove_resource(id, effects),
            EntityId::Policy(id) => self.remove_policy(id, effects),
            EntityId::Token(token) => {
                if let Some(old) = self.tokens.remove(token) {
                    effects.push(of_token(&old));
                }
            }
            EntityId::Client(id) => self.remove_client(id, effects),
            EntityId::Gateway(id) => self.remove_gateway(id, effects),
            EntityId::Relay(id) => {
                self.relays.remove(&id);
                effects.push(Effect::Relay(id));
            }
        }
    }

    fn set_settings(&mut self, account: Account, effects: &mut Vec<Effect>) {
        let settings = account.settings;
        let old = self.settings.row();
        if settings.ranges != old.ranges {
            effects.push(Effect::Ranges);
        }
        if settings.dns != old.dns {
            effects.push(Effect::Dns);
        }
        if settings.ended_access != old.ended_access {
            effects.push(Effect::EndedAccess);
        }
        if settings.paths != old.paths {
            effects.push(Effect::Paths);
        }
        if settings.logs.flow_log != old.logs.flow_log {
            effects.push(Effect::FlowLog);
        }
        if settings.require_verified_gateways != old.require_verified_gateways {
            let unverified = self.sites.gateways();
            let unverified = unverified.filter(|row| row.verified.is_none());
            effects.extend(unverified.map(|row| Effect::Gateway {
                id: row.id,
                change: MachineChange::Rights,
            }));
        }
        let is_ruled_otherwise = settings.applications != old.applications;
        if let Some(fault) = self.settings.set(settings, account.stamp.updated) {
            let account = EntityId::Account(self.feed.account());
            self.faults.insert(account, fault);
        }
        if is_ruled_otherwise {
            for id in self.resources.keys().copied().collect::<Vec<_>>() {
                self.apply_applications(id, effects);
            }
        }
    }

    /// Brings the rule of a resource in line with the account's.
    fn apply_applications(&mut self, id: ResourceId, effects: &mut Vec<Effect>) {
        let Some(row) = self.resources.get_mut(&id) else {
            return;
        };
        let together = row.own_applications.and(self.settings.applications());
        if row.parsed.applications == together {
            return;
        }
        row.rule(together);
        row.updated = row.updated.max(self.settings.updated());
        let change = ResourceChange::Applications;
        effects.push(Effect::Resource { id, change });
    }

    fn set_resource(&mut self, row: Resource, effects: &mut Vec<Effect>) {
        let id = row.id;
        let updated = row.stamp.updated;
        let within = row.within.as_deref().map(model::within).transpose();
        let shown = model::Resource {
            id,
            name: row.name,
            site: row.site,
            target: row.target.into(),
            filters: row.filters.into(),
            inbound: row.inbound.into(),
            applications: ToldApplications::Known(row.applications),
        };
        let parsed = culvert_policy::Resource::try_from(&shown);
        let parsed = parsed.and_then(|parsed| Ok((parsed, within?)));
        let (parsed, within) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                self.remove_resource(id, effects);
                self.faults.insert(id.into(), error.to_string());
                return;
            }
        };
        let old = self.resources.get(&id);
        let has_moved = old.is_some_and(|old| old.within != within);
        let change = match old.map(|row| &row.parsed) {
            None => ResourceChange::Place,
            Some(_) if has_moved => ResourceChange::Place,
            Some(old) if old.site != parsed.site || old.target != parsed.target => {
                ResourceChange::Place
            }
            Some(old)
                if old.applications != parsed.applications.and(self.settings.applications()) =>
            {
                ResourceChange::Applications
            }
            Some(old) if (&old.filters, &old.inbound) != (&parsed.filters, &parsed.inbound) => {
                ResourceChange::Filters
            }
            Some(_) => ResourceChange::Name,
        };
        let own_applications = parsed.applications.clone();
        let together = own_applications.and(self.settings.applications());
        let mut row = ResourceRow {
            parsed,
            shown,
            shown_len: 0,
            updated: match self.settings.applications().is_any() {
                true => updated,
                false => updated.max(self.settings.updated()),
            },
            within,
            own_applications,
        };
        row.rule(together);
        self.resources.insert(id, row);
        effects.push(Effect::Resource { id, change });
    }

    fn remove_resource(&mut self, id: ResourceId, effects: &mut Vec<Effect>) {
        if self.resources.remove(&id).is_some() {
            let change = ResourceChange::Place;
            effects.push(Effect::Resource { id, change });
        }
    }

    fn set_policy(&mut self, row: Policy, effects: &mut Vec<Effect>) {
        self.remove_policy(row.id, effects);
        let conditions = match model::conditions(&row.conditions) {
            Ok(conditions) => conditions,
            Err(error) => {
                self.faults.insert(row.id.into(), error.to_string());
                return;
            }
        };
        let Policy {
            id,
            name,
            group,
            resource,
            disabled,
            ..
        } = row;
        let policy = culvert_policy::Policy {
            id,
            group,
            resource,
            disabled,
            conditions,
        };
        self.policies.insert(policy, name);
        effects.push(Effect::Policy { group, resource });
    }

    fn remove_policy(&mut self, id: PolicyId, effects: &mut Vec<Effect>) {
        if let Some((group, resource)) = self.policies.remove(id) {
            effects.push(Effect::Policy { group, resource });
        }
    }

    fn set_client(&mut self, client: Client, effects: &mut Vec<Effect>) {
        let id = client.id;
        let change = self.clients.insert(client);
        effects.push(Effect::Client { id, change });
    }

    fn remove_client(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        if self.clients.remove(id) {
            let change = MachineChange::Identity;
            effects.push(Effect::Client { id, change });
        }
    }

    fn set_gateway(&mut self, gateway: Gateway, effects: &mut Vec<Effect>) {
        let id = gateway.id;
        let change = self.sites.insert_gateway(gateway);
        effects.push(Effect::Gateway { id, change });
    }

    fn remove_gateway(&mut self, id: GatewayId, effects: &mut Vec<Effect>) {
        if self.sites.remove_gateway(id) {
            let change = MachineChange::Identity;
            effects.push(Effect::Gateway { id, change });
        }
    }
}

fn of_token(token: &Token) -> Effect {
    Effect::Token {
        id: token.id,
        actor: token.scope.actor(),
    }
}
