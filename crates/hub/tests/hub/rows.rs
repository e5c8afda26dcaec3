//! Ids and rows of the configuration around a hub, each told by a number.

use crate::world::{Manner, SimGateway, World};
use culvert_ids::{
    AccountId, ActorId, ClientId, GatewayId, GroupId, MembershipId, PolicyId, ResourceId, SiteId,
    TokenId,
};
use culvert_store::{
    Actor, ActorKind, Client, Entity, Gateway, Group, Membership, Policy, Resource, Stamp, Token,
    TokenScope, TokenUses,
};
use culvert_wire::PublicKey;
use culvert_wire::model::{Applications, Condition, Filter, Target, TargetKind};
use std::collections::BTreeMap;

pub(crate) const ACCOUNT: AccountId = AccountId::from_bytes([0xac; 16]);
pub(crate) const SITE: SiteId = SiteId::from_bytes([1; 16]);
/// A Saturday at noon in UTC.
pub(crate) const START_MS: u64 = 1_800_000_000_000;

fn bytes(number: u16) -> [u8; 16] {
    let [a, b] = number.to_be_bytes();
    let mut bytes = [0; 16];
    bytes[14] = a;
    bytes[15] = b;
    bytes
}

pub(crate) fn actor(number: u16) -> ActorId {
    ActorId::from_bytes(bytes(number))
}
pub(crate) fn group(number: u16) -> GroupId {
    GroupId::from_bytes(bytes(number))
}
pub(crate) fn resource(number: u16) -> ResourceId {
    ResourceId::from_bytes(bytes(number))
}
pub(crate) fn policy(number: u16) -> PolicyId {
    PolicyId::from_bytes(bytes(number))
}
pub(crate) fn client(number: u16) -> ClientId {
    ClientId::from_bytes(bytes(number))
}
pub(crate) fn gateway(number: u16) -> GatewayId {
    GatewayId::from_bytes(bytes(number))
}
/// The token of the actor or the site of that number.
pub(crate) fn client_token(number: u16) -> TokenId {
    TokenId::from_bytes(bytes(number))
}
pub(crate) fn site_token(site: SiteId) -> TokenId {
    let mut bytes = *site.as_bytes();
    bytes[0] ^= 0x80;
    TokenId::from_bytes(bytes)
}
fn membership(actor: ActorId, group: GroupId) -> MembershipId {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&actor.as_bytes()[14..]);
    bytes[2..4].copy_from_slice(&group.as_bytes()[14..]);
    MembershipId::from_bytes(bytes)
}

impl World {
    pub(crate) fn set_actor(&mut self, number: u16, disabled: bool) {
        let id = actor(number);
        let name = format!("actor {number}");
        let kind = ActorKind::ServiceAccount;
        let stamp = Stamp::default();
        self.set(Actor {
            id,
            kind,
            name,
            disabled,
            sign_in: None,
            stamp,
        });
        if !self.rows.contains_key(&client_token(number).into()) {
            let scope = TokenScope::Client { actor: id };
            self.set(token(client_token(number), scope));
        }
    }

    pub(crate) fn add_member(&mut self, of: u16, number: u16) {
        let (actor, group) = (actor(of), group(number));
        let id = membership(actor, group);
        let stamp = Stamp::default();
        self.set(Membership {
            id,
            group,
            actor,
            stamp,
        });
    }

    pub(crate) fn remove_member(&mut self, of: u16, number: u16) {
        self.remove(membership(actor(of), group(number)));
    }

    pub(crate) fn set_client(&mut self, number: u16, of: u16) {
        let [high, low] = number.to_be_bytes();
        let mut key = [1; 32];
        key[..2].copy_from_slice(&[high, low]);
        self.set(Client {
            id: client(number),
            actor: actor(of),
            machine: format!("machine {number}"),
            name: format!("client {number}"),
            public_key: PublicKey::from_bytes(key),
            ipv4: [100, 64, high, low].into(),
            ipv6: [0xfd00, 0x2021, 0x1111, 0, 0, 0, 0, number].into(),
            gateways: Vec::new(),
            name_shares: false,
            verified: None,
            revoked: None,
            seen: None,
            stamp: Stamp::default(),
        });
        self.clients.entry(client(number)).or_default();
    }

    pub(crate) fn edit_client(&mut self, number: u16, edit: impl FnOnce(&mut Client)) {
        if let Some(Entity::Client(mut row)) = self.rows.get(&client(number).into()).cloned() {
            edit(&mut row);
            self.set(row);
        }
    }

    pub(crate) fn set_gateway(&mut self, number: u16, site: SiteId) {
        let [high, low] = number.to_be_bytes();
        let mut key = [2; 32];
        key[..2].copy_from_slice(&[high, low]);
        if !self.rows.contains_key(&site_token(site).into()) {
            self.set(token(site_token(site), TokenScope::Gateway { site }));
        }
        self.set(Gateway {
            id: gateway(number),
            site,
            machine: format!("machine {number}"),
            name: format!("gateway {number}"),
            public_key: PublicKey::from_bytes(key),
            ipv4: [100, 65, high, low].into(),
            ipv6: [0xfd00, 0x2021, 0x1111, 0, 0, 0, 1, number].into(),
            verified: None,
            enrolled_with: None,
            draining: false,
            revoked: None,
            seen: None,
            stamp: Stamp::default(),
        });
        self.gateways.entry(gateway(number)).or_insert(SimGateway {
            session: None,
            manner: Manner::Accept,
            held: BTreeMap::new(),
            draining: false,
            verification_awaited: false,
            features: Vec::new(),
            unanswered: Vec::new(),
            retained: None,
            admitted: None,
            told: BTreeMap::new(),
            is_listing: false,
        });
    }

    pub(crate) fn edit_gateway(&mut self, number: u16, edit: impl FnOnce(&mut Gateway)) {
        if let Some(Entity::Gateway(mut row)) = self.rows.get(&gateway(number).into()).cloned() {
            edit(&mut row);
            self.set(row);
        }
    }

    /// Has the account require verified gateways, or no longer.
    pub(crate) fn require_verified_gateways(&mut self, on: bool) {
        let mut account = self.account();
        account.settings.require_verified_gateways = on;
        self.set(account);
    }

    pub(crate) fn edit_token(&mut self, id: TokenId, edit: impl FnOnce(&mut Token)) {
        if let Some(Entity::Token(mut row)) = self.rows.get(&id.into()).cloned() {
            edit(&mut row);
            self.set(row);
        }
    }

    pub(crate) fn set_network(&mut self, number: u16, site: SiteId) {
        let address = format!("10.0.{number}.0/24");
        self.set(network(number, site, &address, vec![Filter::Any]));
    }

    pub(crate) fn set_names(&mut self, number: u16, site: SiteId, pattern: &str) {
        let mut row = network(number, site, pattern, vec![Filter::Any]);
        row.target.kind = TargetKind::Dns;
        self.set(row);
    }

    pub(crate) fn set_policy(&mut self, number: u16, to: u16, on: u16, conditions: Vec<Condition>) {
        self.set(a_policy(number, to, on, conditions));
    }
}

pub(crate) fn network(number: u16, site: SiteId, address: &str, filters: Vec<Filter>) -> Resource {
    Resource {
        id: resource(number),
        site,
        name: format!("resource {number}"),
        target: Target {
            kind: TargetKind::Cidr,
            address: address.to_owned(),
        },
        inbound: Vec::new(),
        filters,
        applications: Applications::Any,
        within: None,
        stamp: Stamp::default(),
    }
}

pub(crate) fn a_group(number: u16, name: &str) -> Group {
    Group {
        id: group(number),
        name: name.to_owned(),
        stamp: Stamp::default(),
    }
}

pub(crate) fn a_policy(number: u16, to: u16, on: u16, conditions: Vec<Condition>) -> Policy {
    Policy {
        id: policy(number),
        name: format!("policy {number}"),
        group: group(to),
        resource: resource(on),
        disabled: false,
        conditions,
        stamp: Stamp::default(),
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
