//! An account's configuration in memory, indexed for the questions that the hub asks.
//!
//! It begins with the store's snapshot and follows its changes. Rows that can't be converted to the
//! types that decide are not there: they allow nothing, and [`Directory::faults`] names them.

mod effect;
mod name_ranges;
mod resource_row;
mod rows;

pub(super) use effect::{Effect, MachineChange, ResourceChange};
pub(super) use name_ranges::NameRanges;
pub(super) use resource_row::ResourceRow;

use culvert_ids::{
    AccountId, ActorId, ClientId, GatewayId, GroupId, MembershipId, PolicyId, ResourceId, SiteId,
    TokenId,
};
use culvert_policy::{Applications, Policy};
use culvert_store::{
    AccountSettings, Actor, Change, Client, Entity, EntityId, Gateway, Membership, Seq, Snapshot,
    Token,
};
use culvert_wire::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// An account's configuration.
#[derive(Debug)]
pub struct Directory {
    account: AccountId,
    seq: Seq,
    settings: AccountSettings,
    settings_updated: Timestamp,
    /// Which programs may use the tunnel at all.
    applications: Applications,
    names: Option<NameRanges>,
    actors: BTreeMap<ActorId, Actor>,
    memberships: BTreeMap<MembershipId, (ActorId, GroupId)>,
    groups_of: BTreeSet<(ActorId, GroupId, MembershipId)>,
    members_of: BTreeSet<(GroupId, ActorId, MembershipId)>,
    resources: BTreeMap<ResourceId, ResourceRow>,
    policies: BTreeMap<ResourceId, BTreeMap<PolicyId, Policy>>,
    policy_places: BTreeMap<PolicyId, (GroupId, ResourceId)>,
    policies_of: BTreeSet<(GroupId, ResourceId, PolicyId)>,
    tokens: BTreeMap<TokenId, Token>,
    tokens_of: BTreeSet<(ActorId, TokenId)>,
    clients: BTreeMap<ClientId, Client>,
    clients_of: BTreeSet<(ActorId, ClientId)>,
    gateways: BTreeMap<GatewayId, Gateway>,
    gateways_of: BTreeSet<(SiteId, GatewayId)>,
    /// Their names.
    sites: BTreeMap<SiteId, String>,
    faults: BTreeMap<EntityId, String>,
}

/// The feed of changes is not what it has to be. Nothing was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// A change is missing.
    #[error("the feed went from change {last} to {found}: what lies between is missing")]
    Gap {
        /// The last that was applied.
        last: Seq,
        /// What came instead of the next.
        found: Seq,
    },
    /// A change of another account.
    #[error("change {0} belongs to another account")]
    Foreign(Seq),
}

/// Why a machine, or the token that it came with, is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Barred {
    /// Neither the snapshot nor a change since knows it.
    Unknown,
    /// It was known, and has been deleted.
    Deleted,
    /// An administrator revoked the machine.
    Revoked,
    /// An administrator revoked the token.
    TokenRevoked,
    /// An administrator disabled the actor.
    ActorDisabled,
    /// The token's time is over, or it is another machine's.
    Token,
}

impl Barred {
    /// Of what was known before: it is not yet to come, but gone.
    pub(super) const fn known(self) -> Self {
        match self {
            Self::Unknown => Self::Deleted,
            known => known,
        }
    }
}

impl Directory {
    /// The configuration as of the snapshot.
    #[must_use]
    pub fn new(snapshot: Snapshot) -> Self {
        let account = snapshot.account;
        let mut directory = Self {
            account: account.id,
            seq: snapshot.seq,
            settings: AccountSettings::default(),
            settings_updated: account.stamp.updated,
            applications: Applications::ANY,
            names: None,
            actors: BTreeMap::new(),
            memberships: BTreeMap::new(),
            groups_of: BTreeSet::new(),
            members_of: BTreeSet::new(),
            resources: BTreeMap::new(),
            policies: BTreeMap::new(),
            policy_places: BTreeMap::new(),
            policies_of: BTreeSet::new(),
            tokens: BTreeMap::new(),
            tokens_of: BTreeSet::new(),
            clients: BTreeMap::new(),
            clients_of: BTreeSet::new(),
            gateways: BTreeMap::new(),
            gateways_of: BTreeSet::new(),
            sites: BTreeMap::new(),
            faults: BTreeMap::new(),
        };
        let rows = std::iter::once(Entity::Account(account))
            .chain(snapshot.actors.into_iter().map(Entity::from))
            .chain(snapshot.memberships.into_iter().map(Entity::from))
            .chain(snapshot.sites.into_iter().map(Entity::from))
            .chain(snapshot.resources.into_iter().map(Entity::from))
            .chain(snapshot.policies.into_iter().map(Entity::from))
            .chain(snapshot.tokens.into_iter().map(Entity::from))
            .chain(snapshot.clients.into_iter().map(Entity::from))
            .chain(snapshot.gateways.into_iter().map(Entity::from));
        let mut effects = Vec::new();
        for row in rows {
            directory.set(row, &mut effects);
            effects.clear();
        }
        directory
    }

    /// Looks whether the changes follow what is in: none is missing, and all are of the account.
    pub(super) fn expect(&self, changes: &[Change]) -> Result<(), FeedError> {
        let mut last = self.seq;
        for change in changes {
            if change.account != self.account {
                return Err(FeedError::Foreign(change.seq));
            }
            if change.seq.0 > last.0 + 1 {
                let found = change.seq;
                return Err(FeedError::Gap { last, found });
            }
            last = last.max(change.seq);
        }
        Ok(())
    }

    /// Follows a change, and says what it touches. One that is in already touches nothing.
    pub(super) fn apply(&mut self, change: &Change) -> Vec<Effect> {
        let mut effects = Vec::new();
        if change.seq <= self.seq {
            return effects;
        }
        self.seq = change.seq;
        match &change.after {
            Some(row) => self.set(row.clone(), &mut effects),
            None => self.remove(change.id, &mut effects),
        }
        effects
    }

    /// Whose configuration it is.
    #[must_use]
    pub const fn account(&self) -> AccountId {
        self.account
    }

    /// The last change that is in.
    #[must_use]
    pub const fn seq(&self) -> Seq {
        self.seq
    }

    /// Rows that can't be converted, each with why; they allow nothing.
    pub fn faults(&self) -> impl Iterator<Item = (EntityId, &str)> {
        self.faults.iter().map(|(id, fault)| (*id, fault.as_str()))
    }

    pub(super) const fn settings(&self) -> &AccountSettings {
        &self.settings
    }

    /// The ranges for names; none where they can't be converted: then no name is granted.
    pub(super) const fn names(&self) -> Option<NameRanges> {
        self.names
    }

    pub(super) fn resource(&self, id: ResourceId) -> Option<&ResourceRow> {
        self.resources.get(&id)
    }

    pub(super) fn client(&self, id: ClientId) -> Option<&Client> {
        self.clients.get(&id)
    }

    pub(super) fn gateway(&self, id: GatewayId) -> Option<&Gateway> {
        self.gateways.get(&id)
    }

    pub(super) fn site_name(&self, id: SiteId) -> Option<&str> {
        self.sites.get(&id).map(String::as_str)
    }

    pub(super) fn token(&self, id: TokenId) -> Option<&Token> {
        self.tokens.get(&id)
    }

    pub(super) fn policies(&self, resource: ResourceId) -> impl Iterator<Item = &Policy> {
        self.policies
            .get(&resource)
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    pub(super) fn groups_of(&self, actor: ActorId) -> impl Iterator<Item = GroupId> {
        let first = (
            actor,
            GroupId::from_bytes(MIN),
            MembershipId::from_bytes(MIN),
        );
        let last = (
            actor,
            GroupId::from_bytes(MAX),
            MembershipId::from_bytes(MAX),
        );
        let held = self.groups_of.range(first..=last);
        held.map(|(_, group, _)| *group)
    }

    pub(super) fn clients_of(&self, actor: ActorId) -> impl Iterator<Item = ClientId> {
        let first = (actor, ClientId::from_bytes(MIN));
        let last = (actor, ClientId::from_bytes(MAX));
        self.clients_of
            .range(first..=last)
            .map(|(_, client)| *client)
    }

    /// The clients of everyone in the group.
    pub(super) fn clients_in(&self, group: GroupId) -> impl Iterator<Item = ClientId> {
        let first = (
            group,
            ActorId::from_bytes(MIN),
            MembershipId::from_bytes(MIN),
        );
        let last = (
            group,
            ActorId::from_bytes(MAX),
            MembershipId::from_bytes(MAX),
        );
        let members = self.members_of.range(first..=last);
        members.flat_map(|(_, actor, _)| self.clients_of(*actor))
    }

    /// The resources that a policy joins with the group, disabled policies included.
    pub(super) fn resources_of(&self, group: GroupId) -> impl Iterator<Item = ResourceId> {
        let first = (
            group,
            ResourceId::from_bytes(MIN),
            PolicyId::from_bytes(MIN),
        );
        let last = (
            group,
            ResourceId::from_bytes(MAX),
            PolicyId::from_bytes(MAX),
        );
        let held = self.policies_of.range(first..=last);
        held.map(|(_, resource, _)| *resource)
    }

    pub(super) fn gateways_of(&self, site: SiteId) -> impl Iterator<Item = GatewayId> {
        let first = (site, GatewayId::from_bytes(MIN));
        let last = (site, GatewayId::from_bytes(MAX));
        self.gateways_of
            .range(first..=last)
            .map(|(_, gateway)| *gateway)
    }

    /// Whether the client is told of the resource: a policy that is not disabled joins one of its
    /// groups with it, under whatever conditions.
    pub(super) fn shows(&self, client: ClientId, resource: ResourceId) -> bool {
        let Some(actor) = self.clients.get(&client).map(|client| client.actor) else {
            return false;
        };
        self.resources.contains_key(&resource)
            && self
                .policies(resource)
                .any(|policy| !policy.disabled && self.is_member(actor, policy.group))
    }

    /// All resources that the client is told of.
    pub(super) fn shown_to(&self, client: ClientId) -> BTreeSet<ResourceId> {
        let Some(client) = self.clients.get(&client) else {
            return BTreeSet::new();
        };
        let joined = self
            .groups_of(client.actor)
            .flat_map(|group| self.resources_of(group));
        let mut shown: BTreeSet<_> = joined.collect();
        shown.retain(|resource| self.shows(client.id, *resource));
        shown
    }

    /// Whether the client may have grants at all, by itself and by who it belongs to.
    pub(super) fn admit_client(&self, id: ClientId) -> Result<&Client, Barred> {
        let client = self.clients.get(&id).ok_or(Barred::Unknown)?;
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
    pub(super) fn admit_gateway(&self, id: GatewayId) -> Result<&Gateway, Barred> {
        let gateway = self.gateways.get(&id).ok_or(Barred::Unknown)?;
        match gateway.revoked {
            Some(_) => Err(Barred::Revoked),
            None => Ok(gateway),
        }
    }

    /// True if the gateway may have grants: it is admitted, and verified if the account requires that.
    pub(super) fn may_serve(&self, id: GatewayId) -> bool {
        let is_required = self.settings.require_verified_gateways;
        self.admit_gateway(id)
            .is_ok_and(|row| row.verified.is_some() || !is_required)
    }

    /// Whether the token is good.
    pub(super) fn admit_token(&self, id: TokenId, now: Timestamp) -> Result<&Token, Barred> {
        let token = self.tokens.get(&id).ok_or(Barred::Unknown)?;
        if token.revoked.is_some() {
            return Err(Barred::TokenRevoked);
        }
        if token.expires.is_some_and(|expires| expires <= now) {
            return Err(Barred::Token);
        }
        Ok(token)
    }

    /// Until when the best of an actor's tokens is good, none for ever: no token with which one of
    /// its clients came can do more.
    pub(super) fn admit_any_token(
        &self,
        actor: ActorId,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Barred> {
        let first = (actor, TokenId::from_bytes(MIN));
        let last = (actor, TokenId::from_bytes(MAX));
        let held = self.tokens_of.range(first..=last);
        let mut best: Result<Option<Timestamp>, Barred> = Err(Barred::Unknown);
        for (_, token) in held {
            best = match (best, self.admit_token(*token, now)) {
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

    fn is_member(&self, actor: ActorId, group: GroupId) -> bool {
        let first = (actor, group, MembershipId::from_bytes(MIN));
        let last = (actor, group, MembershipId::from_bytes(MAX));
        self.groups_of.range(first..=last).next().is_some()
    }

    /// Two rows of one membership are possible only while a change of one is half told.
    fn join(&mut self, membership: &Membership) {
        let Membership {
            id, actor, group, ..
        } = *membership;
        self.memberships.insert(id, (actor, group));
        self.groups_of.insert((actor, group, id));
        self.members_of.insert((group, actor, id));
    }

    fn part(&mut self, id: MembershipId) -> Option<(ActorId, GroupId)> {
        let (actor, group) = self.memberships.remove(&id)?;
        self.groups_of.remove(&(actor, group, id));
        self.members_of.remove(&(group, actor, id));
        Some((actor, group))
    }
}

/// The smallest and the largest id, for ranges.
const MIN: [u8; culvert_ids::ID_LEN] = [0; culvert_ids::ID_LEN];
const MAX: [u8; culvert_ids::ID_LEN] = [u8::MAX; culvert_ids::ID_LEN];
