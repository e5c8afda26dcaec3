//! The account of the crowd: groups of a hundred people with one client each, and the resources of each group.

use culvert_ids::{
    AccountId, ActorId, ClientId, GatewayId, GroupId, ID_LEN, MembershipId, PolicyId, ResourceId,
    SiteId, TokenId,
};
use culvert_store::{
    Account, AccountSettings, Actor, ActorKind, Author, Change, Client, Entity, EntityId, Gateway,
    Group, Membership, Operation, Policy, Resource, Seq, Site, Snapshot, Stamp, Token, TokenScope,
    TokenUses,
};
use culvert_wire::model::{Applications, Filter, Target, TargetKind};
use culvert_wire::{PublicKey, Timestamp};

pub(super) const ACCOUNT: AccountId = AccountId::from_bytes([0xac; ID_LEN]);
pub(super) const GATEWAY: GatewayId = GatewayId::from_bytes([3; ID_LEN]);
pub(super) const GATEWAY_TOKEN: TokenId = TokenId::from_bytes([4; ID_LEN]);
const SITE: SiteId = SiteId::from_bytes([1; ID_LEN]);

/// People in one group.
const GROUP_LEN: u32 = 100;

fn bytes(number: u32) -> [u8; ID_LEN] {
    let mut bytes = [0; ID_LEN];
    bytes[12..].copy_from_slice(&number.to_be_bytes());
    bytes
}

pub(super) fn client_id(number: u32) -> ClientId {
    ClientId::from_bytes(bytes(number))
}

pub(super) fn token_id(number: u32) -> TokenId {
    TokenId::from_bytes(bytes(number))
}

/// A resource of the client's group.
pub(super) fn resource_id(client: u32, place: u32, grants: u32) -> ResourceId {
    ResourceId::from_bytes(bytes(client / GROUP_LEN * grants + place + 1))
}

pub(super) fn client_key(number: u32) -> PublicKey {
    let mut key = [1; 32];
    key[..4].copy_from_slice(&number.to_be_bytes());
    PublicKey::from_bytes(key)
}

pub(super) const fn gateway_key() -> PublicKey {
    PublicKey::from_bytes([2; 32])
}

pub(super) fn client(number: u32) -> Client {
    let [_, _, high, low] = number.to_be_bytes();
    Client {
        gateways: Vec::new(),
        name_shares: false,
        id: client_id(number),
        actor: ActorId::from_bytes(bytes(number)),
        machine: format!("machine {number}"),
        name: format!("client {number}"),
        public_key: client_key(number),
        ipv4: [100, 65, high, low].into(),
        ipv6: [
            0xfd00,
            0x2021,
            0x1111,
            0,
            0,
            0,
            1,
            u16::from_be_bytes([high, low]),
        ]
        .into(),
        verified: None,
        revoked: None,
        seen: None,
        stamp: Stamp::default(),
    }
}

pub(super) fn token(number: u32) -> Token {
    let actor = ActorId::from_bytes(bytes(number));
    token_for(token_id(number), TokenScope::Client { actor })
}

fn token_for(id: TokenId, scope: TokenScope) -> Token {
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

fn gateway() -> Gateway {
    Gateway {
        id: GATEWAY,
        site: SITE,
        machine: "gateway".to_owned(),
        name: "gateway".to_owned(),
        public_key: gateway_key(),
        ipv4: [100, 64, 0, 1].into(),
        ipv6: [0xfd00, 0x2021, 0x1111, 0, 0, 0, 0, 1].into(),
        verified: None,
        enrolled_with: None,
        draining: false,
        revoked: None,
        seen: None,
        stamp: Stamp::default(),
    }
}

fn resource(number: u32) -> Resource {
    let [_, a, b, c] = number.to_be_bytes();
    Resource {
        id: ResourceId::from_bytes(bytes(number)),
        site: SITE,
        name: format!("resource {number}"),
        target: Target {
            kind: TargetKind::Address,
            address: format!("10.{a}.{b}.{c}"),
        },
        inbound: Vec::new(),
        filters: vec![Filter::Any],
        applications: Applications::Any,
        within: None,
        stamp: Stamp::default(),
    }
}

/// Everybody and everything.
pub(super) fn snapshot(clients: u32, grants: u32) -> Snapshot {
    let groups = clients.div_ceil(GROUP_LEN);
    let group = |number: u32| GroupId::from_bytes(bytes(number));
    let mut tokens: Vec<Token> = (0..clients).map(token).collect();
    tokens.push(token_for(GATEWAY_TOKEN, TokenScope::Gateway { site: SITE }));
    Snapshot {
        seq: Seq(0),
        account: Account {
            id: ACCOUNT,
            name: "crowd".to_owned(),
            settings: AccountSettings::default(),
            stamp: Stamp::default(),
        },
        actors: (0..clients)
            .map(|number| Actor {
                id: ActorId::from_bytes(bytes(number)),
                kind: ActorKind::ServiceAccount,
                name: format!("person {number}"),
                disabled: false,
                sign_in: None,
                stamp: Stamp::default(),
            })
            .collect(),
        groups: (0..groups)
            .map(|number| Group {
                id: group(number),
                name: format!("group {number}"),
                stamp: Stamp::default(),
            })
            .collect(),
        memberships: (0..clients)
            .map(|number| Membership {
                id: MembershipId::from_bytes(bytes(number)),
                group: group(number / GROUP_LEN),
                actor: ActorId::from_bytes(bytes(number)),
                stamp: Stamp::default(),
            })
            .collect(),
        sites: vec![Site {
            id: SITE,
            name: "office".to_owned(),
            relays: None,
            stamp: Stamp::default(),
        }],
        resources: (1..=groups * grants).map(resource).collect(),
        policies: (1..=groups * grants)
            .map(|number| Policy {
                id: PolicyId::from_bytes(bytes(number)),
                name: format!("policy {number}"),
                group: group((number - 1) / grants),
                resource: ResourceId::from_bytes(bytes(number)),
                disabled: false,
                conditions: Vec::new(),
                stamp: Stamp::default(),
            })
            .collect(),
        tokens,
        clients: (0..clients).map(client).collect(),
        gateways: vec![gateway()],
        relays: Vec::new(),
    }
}

/// A row is another one from now on.
pub(super) fn change(seq: u64, row: impl Into<Entity>, at: Timestamp) -> Change {
    let row: Entity = row.into();
    let id: EntityId = row.id();
    Change {
        skipped: 0,
        seq: Seq(seq),
        account: ACCOUNT,
        at,
        author: Author::PORTAL,
        operation: Operation::Update,
        id,
        before: Some(row.clone()),
        after: Some(row),
    }
}
