//! The contents of the portal's database, in memory: the rows, the grants that live, the last
//! sightings of machines.

use super::catalog::{ACCOUNT, Machine, client_id, gateway_id, tunnel_addresses};
use culvert_ids::{ActorId, ClientId, GatewayId, GrantId, SiteId, TokenId};
use culvert_store::{
    Account, AccountSettings, Actor, Author, Change, Client, Entity, EntityId, Gateway, Grant,
    Kind, Operation, Seq, Snapshot, Stamp, Token, TokenScope, TokenUses,
};
use culvert_wire::messages::{Reason, ReasonCode};
use culvert_wire::{PublicKey, Timestamp};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// A row as it is to be; none where it is to go.
pub type Edit = (EntityId, Option<Entity>);

/// The longest time that the portal's writes about grants take to reach the disk, in milliseconds.
/// A portal that is killed loses what was said last.
const WRITE_LAG_MS: u64 = 20;

/// The configuration and everything else that outlives the portal.
#[derive(Debug)]
pub struct Config {
    rows: BTreeMap<EntityId, Entity>,
    settings: AccountSettings,
    seq: u64,
    enrolled: u16,
    saved: BTreeMap<GrantId, Grant>,
    /// Writes that may not have reached the disk, and when they were made.
    writing: VecDeque<(u64, Write)>,
    /// The addresses at which clients were last seen.
    pub(crate) seen: BTreeMap<ClientId, IpAddr>,
}

#[derive(Debug)]
enum Write {
    Save(Grant),
    End(GrantId),
}

impl Config {
    pub(crate) fn new(grant_lifetime_s: u32) -> Self {
        Self {
            rows: BTreeMap::new(),
            settings: AccountSettings {
                grant_lifetime_s,
                ..AccountSettings::default()
            },
            seq: 0,
            enrolled: 0,
            saved: BTreeMap::new(),
            writing: VecDeque::new(),
            seen: BTreeMap::new(),
        }
    }

    /// The longest lifetime of a grant, in milliseconds.
    pub fn grant_lifetime_ms(&self) -> u64 {
        u64::from(self.settings.grant_lifetime_s) * 1_000
    }

    /// Gateways have to be verified.
    pub fn requires_verified_gateways(&self) -> bool {
        self.settings.require_verified_gateways
    }

    /// The account, as a row that is to require verified gateways, or not.
    pub fn requiring_verified_gateways(&self, is_required: bool) -> Account {
        let mut account = self.account();
        account.settings.require_verified_gateways = is_required;
        account
    }

    fn account(&self) -> Account {
        Account {
            id: ACCOUNT,
            name: "corp".to_owned(),
            settings: self.settings.clone(),
            stamp: Stamp::default(),
        }
    }

    /// Every row.
    pub fn rows(&self) -> impl Iterator<Item = &Entity> {
        self.rows.values()
    }

    /// One row.
    pub fn row<T: Kind>(&self, id: T::Id) -> Option<T> {
        self.rows.get(&id.into()).cloned().and_then(T::from_entity)
    }

    /// The client that the machine of this number enrolled as.
    pub fn client_of(&self, number: usize) -> Option<&Client> {
        let machine = machine_text(Machine::Client(number));
        self.rows.values().find_map(|row| match row {
            Entity::Client(row) if row.machine == machine => Some(row),
            _ => None,
        })
    }

    /// The gateway that the machine of this number enrolled as.
    pub fn gateway_of(&self, number: usize) -> Option<&Gateway> {
        let machine = machine_text(Machine::Gateway(number));
        self.rows.values().find_map(|row| match row {
            Entity::Gateway(row) if row.machine == machine => Some(row),
            _ => None,
        })
    }

    /// Makes changes in one transaction. An edit that changes nothing is not recorded.
    pub(crate) fn commit(&mut self, edits: Vec<Edit>, at: Timestamp) -> Vec<Change> {
        let mut changes = Vec::new();
        for (id, after) in edits {
            let before = self.rows.get(&id).cloned();
            let after = after.map(|row| restamped(row, before.as_ref(), at));
            let is_change = match (&before, &after) {
                (None, None) => false,
                (Some(before), Some(after)) => !is_same(before, after),
                _ => true,
            };
            if !is_change {
                continue;
            }
            if let Some(Entity::Account(account)) = &after {
                self.settings = account.settings.clone();
            }
            match &after {
                Some(row) => self.rows.insert(id, row.clone()),
                None => self.rows.remove(&id),
            };
            self.seq += 1;
            changes.push(Change {
                skipped: 0,
                seq: Seq(self.seq),
                account: ACCOUNT,
                at,
                author: Author::PORTAL,
                operation: match (&before, &after) {
                    (None, _) => Operation::Create,
                    (_, None) => Operation::Delete,
                    _ => Operation::Update,
                },
                id,
                before,
                after,
            });
        }
        changes
    }

    /// All of it, for a portal that starts.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            seq: Seq(self.seq),
            account: self.account(),
            actors: self.all(),
            groups: self.all(),
            memberships: self.all(),
            sites: self.all(),
            resources: self.all(),
            policies: self.all(),
            tokens: self.all(),
            clients: self.all(),
            gateways: self.all(),
            relays: self.all(),
        }
    }

    /// True if the token of a machine is good, whatever its owner; the portal checks this before it lets the
    /// machine speak.
    pub(crate) fn is_token_good(&self, id: TokenId, now: Timestamp) -> bool {
        self.row::<Token>(id).is_some_and(|token| {
            let is_alive = token
                .scope
                .actor()
                .is_none_or(|actor| self.row::<Actor>(actor).is_some());
            is_alive && token.revoked.is_none() && token.expires.is_none_or(|expires| now < expires)
        })
    }

    /// Lets a client in: the same machine is the same client, another key ends that somebody
    /// vouches for it.
    pub(crate) fn enrol_client(
        &mut self,
        number: usize,
        actor: ActorId,
        public_key: PublicKey,
        at: Timestamp,
    ) -> Result<(ClientId, Vec<Change>), Reason> {
        let row = match self.client_of(number).cloned() {
            Some(row) if row.revoked.is_some() => return Err(revoked()),
            Some(mut row) => {
                if row.public_key != public_key {
                    row.public_key = public_key;
                    row.verified = None;
                }
                row
            }
            None => {
                let place = self.next_place();
                let (ipv4, ipv6) = tunnel_addresses(place);
                Client {
                    id: client_id(place),
                    actor,
                    machine: machine_text(Machine::Client(number)),
                    name: format!("client {number}"),
                    public_key,
                    ipv4,
                    ipv6,
                    gateways: Vec::new(),
                    name_shares: false,
                    verified: None,
                    revoked: None,
                    seen: None,
                    stamp: Stamp::default(),
                }
            }
        };
        let id = row.id;
        let changes = self.commit(vec![(id.into(), Some(row.into()))], at);
        Ok((id, changes))
    }

    /// Lets a gateway in, likewise.
    pub(crate) fn enrol_gateway(
        &mut self,
        number: usize,
        site: SiteId,
        public_key: PublicKey,
        at: Timestamp,
    ) -> Result<(GatewayId, Vec<Change>), Reason> {
        let row = match self.gateway_of(number).cloned() {
            Some(row) if row.revoked.is_some() => return Err(revoked()),
            Some(mut row) => {
                if row.public_key != public_key {
                    row.public_key = public_key;
                    row.verified = None;
                }
                row
            }
            None => {
                let place = self.next_place();
                let (ipv4, ipv6) = tunnel_addresses(place);
                Gateway {
                    id: gateway_id(place),
                    site,
                    machine: machine_text(Machine::Gateway(number)),
                    name: format!("gateway {number}"),
                    public_key,
                    ipv4,
                    ipv6,
                    verified: None,
                    enrolled_with: None,
                    draining: false,
                    revoked: None,
                    seen: None,
                    stamp: Stamp::default(),
                }
            }
        };
        let id = row.id;
        let changes = self.commit(vec![(id.into(), Some(row.into()))], at);
        Ok((id, changes))
    }

    pub(crate) fn save_grant(&mut self, grant: Grant, now_ms: u64) {
        self.writing.push_back((now_ms, Write::Save(grant)));
        self.apply_writes(now_ms);
    }

    pub(crate) fn end_grant(&mut self, grant: GrantId, now_ms: u64) {
        self.writing.push_back((now_ms, Write::End(grant)));
        self.apply_writes(now_ms);
    }

    /// The portal is gone without having been asked: its last writes are lost.
    pub(crate) fn lose_writes(&mut self, now_ms: u64) {
        self.apply_writes(now_ms);
        self.writing.clear();
    }

    /// The grants that live as the portal sees it, written or about to be.
    pub fn grants(&self) -> BTreeMap<GrantId, Grant> {
        let mut grants = self.saved.clone();
        for (_, write) in &self.writing {
            apply(&mut grants, write);
        }
        grants
    }

    fn apply_writes(&mut self, now_ms: u64) {
        while let Some((_, write)) = self
            .writing
            .pop_front_if(|(at_ms, _)| *at_ms + WRITE_LAG_MS <= now_ms)
        {
            apply(&mut self.saved, &write);
        }
    }

    fn next_place(&mut self) -> u16 {
        self.enrolled += 1;
        self.enrolled
    }

    /// True if the actor exists and is disabled: the portal tells its clients to come back.
    pub(crate) fn is_disabled(&self, actor: ActorId) -> bool {
        self.row::<Actor>(actor).is_some_and(|row| row.disabled)
    }

    fn all<T: Kind>(&self) -> Vec<T> {
        let rows = self.rows.values().cloned();
        rows.filter_map(T::from_entity).collect()
    }
}

pub(crate) fn machine_text(machine: Machine) -> String {
    match machine {
        Machine::Client(number) => format!("client machine {number}"),
        Machine::Gateway(number) => format!("gateway machine {number}"),
    }
}

pub(crate) fn token(id: TokenId, scope: TokenScope) -> Token {
    Token {
        id,
        scope,
        name: id.to_string(),
        uses: TokenUses::Many,
        expires: None,
        revoked: None,
        used: None,
        last_used: None,
        proven: None,
        stamp: Stamp::default(),
    }
}

fn revoked() -> Reason {
    Reason {
        code: ReasonCode::Revoked,
        text: "the machine was revoked".to_owned(),
    }
}

fn apply(grants: &mut BTreeMap<GrantId, Grant>, write: &Write) {
    match write {
        Write::Save(grant) => {
            grants.insert(grant.id, grant.clone());
        }
        Write::End(id) => {
            grants.remove(id);
        }
    }
}

/// True if two versions of a row are equal.
fn is_same(before: &Entity, after: &Entity) -> bool {
    let with_stamp_of = |row: &Entity| set_stamp(row.clone(), before.stamp());
    with_stamp_of(after) == *before
}

fn restamped(row: Entity, before: Option<&Entity>, at: Timestamp) -> Entity {
    let before = before.map(Entity::stamp);
    let stamp = Stamp {
        version: before.map_or(1, |before| before.version + 1),
        created: before.map_or(at, |before| before.created),
        updated: at,
    };
    set_stamp(row, stamp)
}

fn set_stamp(mut row: Entity, stamp: Stamp) -> Entity {
    match &mut row {
        Entity::Account(row) => row.stamp = stamp,
        Entity::Actor(row) => row.stamp = stamp,
        Entity::Group(row) => row.stamp = stamp,
        Entity::Membership(row) => row.stamp = stamp,
        Entity::Site(row) => row.stamp = stamp,
        Entity::Resource(row) => row.stamp = stamp,
        Entity::Policy(row) => row.stamp = stamp,
        Entity::Token(row) => row.stamp = stamp,
        Entity::Client(row) => row.stamp = stamp,
        Entity::Gateway(row) => row.stamp = stamp,
        Entity::Provider(row) => row.stamp = stamp,
        Entity::Identity(row) => row.stamp = stamp,
        Entity::Relay(row) => row.stamp = stamp,
    }
    row
}
