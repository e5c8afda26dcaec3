//! How one row comes in or goes.

use super::name_ranges::NameRanges;
use super::resource_row::ResourceRow;
use super::{Directory, Effect, MachineChange, ResourceChange};
use culvert_ids::{ClientId, GatewayId, PolicyId, ResourceId};
use culvert_policy::Applications;
use culvert_store::{
    Account, Client, Entity, EntityId, Gateway, Policy, Resource, Token, TokenScope,
};
use culvert_wire::model;
use culvert_wire::model::ToldApplications;
use std::collections::BTreeSet;

impl Directory {
    pub(super) fn set(&mut self, row: Entity, effects: &mut Vec<Effect>) {
        self.faults.remove(&row.id());
        match row {
            Entity::Account(account) => self.set_settings(account, effects),
            Entity::Actor(actor) => {
                effects.push(Effect::Actor(actor.id));
                self.actors.insert(actor.id, actor);
            }
            // Groups are known by their memberships and policies.
            // How people sign in concerns no machine.
            Entity::Group(_) | Entity::Provider(_) | Entity::Identity(_) => {}
            Entity::Site(site) => {
                self.sites.insert(site.id, site.name);
            }
            Entity::Membership(membership) => {
                let before = self.part(membership.id);
                self.join(&membership);
                let after = (membership.actor, membership.group);
                let touched = before.into_iter().chain([after]);
                effects.extend(touched.map(|(actor, group)| Effect::Member { actor, group }));
            }
            Entity::Resource(resource) => self.set_resource(resource, effects),
            Entity::Policy(policy) => self.set_policy(&policy, effects),
            Entity::Token(token) => {
                if let TokenScope::Client { actor } = token.scope {
                    self.tokens_of.insert((actor, token.id));
                }
                // With a new one nobody has come yet.
                if let Some(old) = self.tokens.insert(token.id, token) {
                    effects.push(of_token(&old));
                }
            }
            Entity::Client(client) => self.set_client(client, effects),
            Entity::Gateway(gateway) => self.set_gateway(gateway, effects),
        }
    }

    pub(super) fn remove(&mut self, id: EntityId, effects: &mut Vec<Effect>) {
        self.faults.remove(&id);
        match id {
            // An account is not deleted while its portal runs, and what has no row left is found
            // by its memberships and policies.
            EntityId::Account(_)
            | EntityId::Group(_)
            | EntityId::Provider(_)
            | EntityId::Identity(_) => {}
            EntityId::Site(site) => {
                self.sites.remove(&site);
            }
            EntityId::Actor(actor) => {
                self.actors.remove(&actor);
                effects.push(Effect::Actor(actor));
            }
            EntityId::Membership(membership) => {
                let parted = self.part(membership);
                effects.extend(parted.map(|(actor, group)| Effect::Member { actor, group }));
            }
            EntityId::Resource(id) => self.remove_resource(id, effects),
            EntityId::Policy(id) => self.remove_policy(id, effects),
            EntityId::Token(token) => {
                if let Some(old) = self.tokens.remove(&token) {
                    if let TokenScope::Client { actor } = old.scope {
                        self.tokens_of.remove(&(actor, token));
                    }
                    effects.push(of_token(&old));
                }
            }
            EntityId::Client(id) => self.remove_client(id, effects),
            EntityId::Gateway(id) => self.remove_gateway(id, effects),
        }
    }

    fn set_settings(&mut self, account: Account, effects: &mut Vec<Effect>) {
        let settings = account.settings;
        if settings.ranges != self.settings.ranges {
            effects.push(Effect::Ranges);
        }
        self.names = NameRanges::new(&settings.ranges);
        if self.names.is_none() {
            let fault = "the ranges for names are no networks: no access by name is given";
            self.faults
                .insert(EntityId::Account(self.account), fault.to_owned());
        }
        if settings.dns != self.settings.dns {
            effects.push(Effect::Dns);
        }
        if settings.logs.flow_log != self.settings.logs.flow_log {
            effects.push(Effect::FlowLog);
        }
        if settings.require_verified_gateways != self.settings.require_verified_gateways {
            let unverified = self.gateways.values().filter(|row| row.verified.is_none());
            effects.extend(unverified.map(|row| Effect::Gateway {
                id: row.id,
                change: MachineChange::Standing,
            }));
        }
        let is_ruled_otherwise = settings.applications != self.settings.applications;
        self.settings = settings;
        self.settings_updated = account.stamp.updated;
        self.set_applications();
        if is_ruled_otherwise {
            for id in self.resources.keys().copied().collect::<Vec<_>>() {
                self.apply_applications(id, effects);
            }
        }
    }

    /// Which programs may use the tunnel at all; none where that can't be read.
    fn set_applications(&mut self) {
        self.applications = match Applications::try_from(&self.settings.applications) {
            Ok(applications) => applications,
            Err(error) => {
                let account = EntityId::Account(self.account);
                self.faults.insert(account, error.to_string());
                Applications::Only(BTreeSet::new())
            }
        };
    }

    /// Brings the rule of a resource in line with the account's.
    fn apply_applications(&mut self, id: ResourceId, effects: &mut Vec<Effect>) {
        let Some(row) = self.resources.get_mut(&id) else {
            return;
        };
        let together = row.own_applications.and(&self.applications);
        if row.parsed.applications == together {
            return;
        }
        row.rule(together);
        row.updated = row.updated.max(self.settings_updated);
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
        let leads_elsewhere = old.is_some_and(|old| old.within != within);
        let change = match old.map(|row| &row.parsed) {
            None => ResourceChange::Place,
            Some(_) if leads_elsewhere => ResourceChange::Place,
            Some(old) if old.site != parsed.site || old.target != parsed.target => {
                ResourceChange::Place
            }
            Some(old) if old.applications != parsed.applications.and(&self.applications) => {
                ResourceChange::Applications
            }
            Some(old) if old.filters != parsed.filters => ResourceChange::Filters,
            Some(_) => ResourceChange::Name,
        };
        let own_applications = parsed.applications.clone();
        let together = own_applications.and(&self.applications);
        let mut row = ResourceRow {
            parsed,
            shown,
            shown_len: 0,
            updated: match self.applications.is_any() {
                true => updated,
                false => updated.max(self.settings_updated),
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

    fn set_policy(&mut self, row: &Policy, effects: &mut Vec<Effect>) {
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
            group,
            resource,
            disabled,
            ..
        } = *row;
        let policy = culvert_policy::Policy {
            id,
            group,
            resource,
            disabled,
            conditions,
        };
        self.policies
            .entry(resource)
            .or_default()
            .insert(id, policy);
        self.policy_places.insert(id, (group, resource));
        self.policies_of.insert((group, resource, id));
        effects.push(Effect::Policy { group, resource });
    }

    fn remove_policy(&mut self, id: PolicyId, effects: &mut Vec<Effect>) {
        let Some((group, resource)) = self.policy_places.remove(&id) else {
            return;
        };
        self.policies_of.remove(&(group, resource, id));
        if let Some(policies) = self.policies.get_mut(&resource) {
            policies.remove(&id);
            if policies.is_empty() {
                self.policies.remove(&resource);
            }
        }
        effects.push(Effect::Policy { group, resource });
    }

    fn set_client(&mut self, client: Client, effects: &mut Vec<Effect>) {
        let id = client.id;
        let change = match self.clients.get(&id) {
            Some(old)
                if (old.public_key, old.ipv4, old.ipv6, old.actor)
                    != (client.public_key, client.ipv4, client.ipv6, client.actor) =>
            {
                self.clients_of.remove(&(old.actor, id));
                MachineChange::Identity
            }
            Some(_) | None => MachineChange::Standing,
        };
        self.clients_of.insert((client.actor, id));
        self.clients.insert(id, client);
        effects.push(Effect::Client { id, change });
    }

    fn remove_client(&mut self, id: ClientId, effects: &mut Vec<Effect>) {
        if let Some(old) = self.clients.remove(&id) {
            self.clients_of.remove(&(old.actor, id));
            let change = MachineChange::Identity;
            effects.push(Effect::Client { id, change });
        }
    }

    fn set_gateway(&mut self, gateway: Gateway, effects: &mut Vec<Effect>) {
        let id = gateway.id;
        let change = match self.gateways.get(&id) {
            Some(old)
                if (old.public_key, old.ipv4, old.ipv6, old.site)
                    != (gateway.public_key, gateway.ipv4, gateway.ipv6, gateway.site) =>
            {
                self.gateways_of.remove(&(old.site, id));
                MachineChange::Identity
            }
            Some(_) | None => MachineChange::Standing,
        };
        self.gateways_of.insert((gateway.site, id));
        self.gateways.insert(id, gateway);
        effects.push(Effect::Gateway { id, change });
    }

    fn remove_gateway(&mut self, id: GatewayId, effects: &mut Vec<Effect>) {
        if let Some(old) = self.gateways.remove(&id) {
            self.gateways_of.remove(&(old.site, id));
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
