//! The configuration, and the answers to the hub's questions about it.

mod rows;

use super::barred::Barred;
use super::clients::Clients;
use super::effect::Effect;
use super::feed::{Feed, FeedError};
use super::memberships::Memberships;
use super::policies::Policies;
use super::resource_row::{NameRanges, ResourceRow};
use super::settings::Settings;
use super::sites::Sites;
use super::tokens::Tokens;
use culvert_ids::{
    AccountId, ActorId, ClientId, GatewayId, GroupId, PolicyId, RelayId, ResourceId, SiteId,
    TokenId,
};
use culvert_policy::{Policy, PolicyNames};
use culvert_store::{
    AccountSettings, Actor, Change, Client, Entity, EntityId, Gateway, Relay, Seq, Snapshot, Token,
};
use culvert_wire::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// An account's configuration.
#[derive(Debug)]
pub struct Directory {
    feed: Feed,
    settings: Settings,
    actors: BTreeMap<ActorId, Actor>,
    memberships: Memberships,
    resources: BTreeMap<ResourceId, ResourceRow>,
    policies: Policies,
    tokens: Tokens,
    clients: Clients,
    sites: Sites,
    relays: BTreeMap<RelayId, Relay>,
    faults: BTreeMap<EntityId, String>,
}

impl Directory {
    /// The configuration as of the snapshot.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        let account = snapshot.account;
        let mut directory = Self {
            feed: Feed::new(account.id, snapshot.seq),
            settings: Settings::new(account.stamp.updated),
            actors: BTreeMap::new(),
            memberships: Memberships::default(),
            resources: BTreeMap::new(),
            policies: Policies::default(),
            tokens: Tokens::default(),
            clients: Clients::default(),
            sites: Sites::default(),
            relays: BTreeMap::new(),
            faults: BTreeMap::new(),
        };
        let rows = std::iter::once(Entity::Account(account))
            .chain(snapshot.actors.into_iter().map(Entity::from))
            .chain(snapshot.groups.into_iter().map(Entity::from))
            .chain(snapshot.memberships.into_iter().map(Entity::from))
            .chain(snapshot.sites.into_iter().map(Entity::from))
            .chain(snapshot.resources.into_iter().map(Entity::from))
            .chain(snapshot.policies.into_iter().map(Entity::from))
            .chain(snapshot.tokens.into_iter().map(Entity::from))
            .chain(snapshot.clients.into_iter().map(Entity::from))
            .chain(snapshot.gateways.into_iter().map(Entity::from))
            .chain(snapshot.relays.into_iter().map(Entity::from));
        let mut effects = Vec::new();
        for row in rows {
            directory.set(row, &mut effects);
            effects.clear();
        }
        directory
    }

    /// Checks that the changes follow those applied: none is missing, and all are of the account.
    pub(crate) fn expect(&self, changes: &[Change]) -> Result<(), FeedError> {
        self.feed.expect(changes)
    }

    /// Follows a change, and says what it touches. One that is in already touches nothing.
    pub(crate) fn apply(&mut self, change: &Change) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !self.feed.take(change.seq) {
            return effects;
        }
        match &change.after {
            Some(row) => self.set(row.clone(), &mut effects),
            None => self.remove(change.id, &mut effects),
        }
        effects
    }

    /// The account that the configuration belongs to.
    #[must_use]
    pub const fn account(&self) -> AccountId {
        self.feed.account()
    }

    /// The last change that is in.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.feed.seq()
    }

    /// Rows that can't be converted, each with why; they allow nothing.
    pub fn faults(&self) -> impl Iterator<Item = (EntityId, &str)> {
        self.faults.iter().map(|(id, fault)| (*id, fault.as_str()))
    }

    pub(crate) const fn settings(&self) -> &AccountSettings {
        self.settings.row()
    }

    /// The ranges for names; none where they can't be converted: then no name is granted.
    pub(crate) const fn names(&self) -> Option<NameRanges> {
        self.settings.names()
    }

    pub(crate) fn resource(&self, id: ResourceId) -> Option<&ResourceRow> {
        self.resources.get(&id)
    }

    pub(crate) fn client(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(id)
    }

    pub(crate) fn gateway(&self, id: GatewayId) -> Option<&Gateway> {
        self.sites.gateway(id)
    }

    pub(crate) fn site_name(&self, id: SiteId) -> Option<&str> {
        self.sites.name(id)
    }

    pub(crate) fn token(&self, id: TokenId) -> Option<&Token> {
        self.tokens.get(id)
    }

    pub(crate) fn policies(&self, resource: ResourceId) -> impl Iterator<Item = &Policy> {
        self.policies.of_resource(resource)
    }

    pub(crate) fn groups_of(&self, actor: ActorId) -> impl Iterator<Item = GroupId> {
        self.memberships.groups_of(actor)
    }

    pub(crate) fn clients_of(&self, actor: ActorId) -> impl Iterator<Item = ClientId> {
        self.clients.of_actor(actor)
    }

    /// Plain WireGuard devices whose file has the gateway's key.
    pub(crate) fn plain_clients_of(&self, gateway: GatewayId) -> impl Iterator<Item = ClientId> {
        self.clients.of_gateway(gateway)
    }

    /// All plain WireGuard devices.
    pub(crate) fn plain_clients(&self) -> impl Iterator<Item = ClientId> {
        self.clients.plain()
    }

    /// The clients of everyone in the group.
    pub(crate) fn clients_in(&self, group: GroupId) -> impl Iterator<Item = ClientId> {
        let members = self.memberships.members_of(group);
        members.flat_map(|actor| self.clients_of(actor))
    }

    /// The resources that a policy joins with the group, disabled policies included.
    pub(crate) fn resources_of(&self, group: GroupId) -> impl Iterator<Item = ResourceId> {
        self.policies.resources_of(group)
    }

    pub(crate) fn gateways_of(&self, site: SiteId) -> impl Iterator<Item = GatewayId> {
        self.sites.gateways_of(site)
    }

    /// True if the client is told of the resource: a policy that is not disabled joins one of its groups
    /// with it, under any conditions.
    pub(crate) fn shows(&self, client: ClientId, resource: ResourceId) -> bool {
        let Some(actor) = self.clients.get(client).map(|client| client.actor) else {
            return false;
        };
        self.resources.contains_key(&resource)
            && self
                .policies(resource)
                .any(|policy| !policy.disabled && self.memberships.is_member(actor, policy.group))
    }

    /// All resources that the client is told of.
    pub(crate) fn shown_to(&self, client: ClientId) -> BTreeSet<ResourceId> {
        let Some(client) = self.clients.get(client) else {
            return BTreeSet::new();
        };
        let joined = self
            .groups_of(client.actor)
            .flat_map(|group| self.resources_of(group));
        let mut shown: BTreeSet<_> = joined.collect();
        shown.retain(|resource| self.shows(client.id, *resource));
        shown
    }

    /// The client, if neither it nor its actor is barred from having grants.
    pub(crate) fn admit_client(&self, id: ClientId) -> Result<&Client, Barred> {
        let client = self.clients.get(id).ok_or(Barred::Unknown)?;
        let actor = self.actors.get(&client.actor).ok_or(Barred::Unknown)?;
        if client.revoked.is_some() {
            return Err(Barred::Revoked);
        }
        if actor.disabled {
            return Err(Barred::ActorDisabled);
        }
        Ok(client)
    }

    /// True if the gateway may connect.
    pub(crate) fn admit_gateway(&self, id: GatewayId) -> Result<&Gateway, Barred> {
        let gateway = self.sites.gateway(id).ok_or(Barred::Unknown)?;
        match gateway.revoked {
            Some(_) => Err(Barred::Revoked),
            None => Ok(gateway),
        }
    }

    /// The relay, if it may connect.
    pub(crate) fn admit_relay(&self, id: RelayId) -> Result<&Relay, Barred> {
        let relay = self.relays.get(&id).ok_or(Barred::Unknown)?;
        match relay.revoked {
            Some(_) => Err(Barred::Revoked),
            None => Ok(relay),
        }
    }

    /// True if the gateways of the site may use the relay.
    pub(crate) fn site_uses_relay(&self, site: SiteId, relay: RelayId) -> bool {
        let relays = self.sites.relays(site);
        relays.is_none_or(|relays| relays.contains(&relay))
    }

    /// True if the gateway may have grants: it is admitted, and verified if the account requires that.
    pub(crate) fn may_serve(&self, id: GatewayId) -> bool {
        let is_required = self.settings.row().require_verified_gateways;
        self.admit_gateway(id)
            .is_ok_and(|row| row.verified.is_some() || !is_required)
    }

    /// The token, if it is neither revoked nor expired.
    pub(crate) fn admit_token(&self, id: TokenId, now: Timestamp) -> Result<&Token, Barred> {
        let token = self.tokens.get(id).ok_or(Barred::Unknown)?;
        if token.revoked.is_some() {
            return Err(Barred::TokenRevoked);
        }
        if token.expires.is_some_and(|expires| expires <= now) {
            return Err(Barred::Token);
        }
        Ok(token)
    }

    /// The expiry of the actor's token that is valid for longest, none for ever. No token with which one
    /// of its clients came is valid for longer.
    pub(crate) fn admit_any_token(
        &self,
        actor: ActorId,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Barred> {
        let mut best: Result<Option<Timestamp>, Barred> = Err(Barred::Unknown);
        for token in self.tokens.of_actor(actor) {
            best = match (best, self.admit_token(token, now)) {
                (Ok(None), _) => return Ok(None),
                (Ok(until), Ok(token)) => {
                    Ok(until.zip(token.expires).map(|(one, other)| one.max(other)))
                }
                (Err(_), Ok(token)) => Ok(token.expires),
                (Ok(until), Err(_)) => Ok(until),
                (Err(_), Err(barred)) => Err(barred),
            };
        }
        best
    }
}

impl PolicyNames for Directory {
    fn policy(&self, id: PolicyId) -> Option<&str> {
        self.policies.name(id)
    }

    fn group(&self, id: GroupId) -> Option<&str> {
        self.memberships.group_name(id)
    }
}
