//! An account with something in it.

use super::Fixture;
use culvert_ids::{
    AccountId, ActorId, ClientId, GatewayId, GrantId, GroupId, IdentityId, MembershipId, PolicyId,
    ProviderId, RelayId, ResourceId, SiteId, TokenId,
};
use culvert_store::{
    Account, AccountSettings, Actor, ActorKind, Author, Change, Client, Enrolment, Entity,
    EntityId, Gateway, Group, Identity, Membership, Mutation, Policy, Principal, Provider,
    ProviderSettings, RelayEnrolment, Resource, Role, Seen, Site, Stamp, Store, StoreError, Token,
    TokenScope, TokenUses,
};
use culvert_wire::model::{Applications, Filter, Target, TargetKind};
use culvert_wire::token::{Secret, SecretDigest, TokenKind};
use culvert_wire::{PublicKey, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The time at which tests take place.
pub(crate) const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);

/// An hour.
pub(crate) const HOUR_MS: u64 = 3_600_000;

/// So long after [`NOW`].
pub(crate) fn later(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(NOW.unix_ms() + ms)
}

/// Numbers for ids, the same in all stores, and different in all accounts.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Bytes of a new id: later ones sort after earlier ones, as those of the portal do.
pub(crate) fn bytes() -> [u8; 16] {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let scattered = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[8..].copy_from_slice(&scattered.to_be_bytes());
    bytes
}

pub(crate) fn account_id() -> AccountId {
    AccountId::from_bytes(bytes())
}

pub(crate) fn grant_id() -> GrantId {
    GrantId::from_bytes(bytes())
}

/// A store and one account in it.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) account: AccountId,
    _fixture: Option<Fixture>,
}

/// A token, and what proves it.
#[derive(Clone)]
pub(crate) struct Key {
    pub(crate) id: TokenId,
    pub(crate) kind: TokenKind,
    pub(crate) digest: SecretDigest,
}

impl World {
    pub(crate) async fn new(fixture: Fixture) -> Self {
        let store = Arc::clone(&fixture.store);
        let mut world = Self::beside(&store).await;
        world._fixture = Some(fixture);
        world
    }

    /// Another account in the same store.
    pub(crate) async fn beside(store: &Arc<dyn Store>) -> Self {
        let account = account(account_id());
        let account = store
            .create_account(account, Author::PORTAL, NOW)
            .await
            .unwrap();
        Self {
            store: Arc::clone(store),
            account: account.id,
            _fixture: None,
        }
    }

    pub(crate) async fn write(&self, mutations: Vec<Mutation>) -> Result<Vec<Change>, StoreError> {
        let author = Author::PORTAL;
        self.store.write(self.account, author, NOW, mutations).await
    }

    pub(crate) async fn create(&self, entity: impl Into<Entity>) -> Entity {
        let entity = entity.into();
        let id = entity.id();
        self.write(vec![Mutation::Create(entity)]).await.unwrap();
        self.store.get(self.account, id).await.unwrap()
    }

    pub(crate) async fn update(
        &self,
        entity: impl Into<Entity>,
    ) -> Result<Vec<Change>, StoreError> {
        self.write(vec![update(entity)]).await
    }

    pub(crate) async fn delete(
        &self,
        id: impl Into<EntityId>,
        cascade: bool,
    ) -> Result<Vec<Change>, StoreError> {
        self.write(vec![delete(id, cascade)]).await
    }

    pub(crate) async fn actor(&self, name: &str) -> Actor {
        let actor = actor(name);
        self.create(actor.clone()).await;
        actor
    }

    /// An owner beside those that a test ends: one must stay.
    pub(crate) async fn owner_who_stays(&self) {
        let actor = self.actor("Owner who stays").await.id;
        let role = Role::Owner;
        self.token(TokenScope::Api { actor, role }, TokenUses::Many)
            .await;
    }

    pub(crate) async fn group(&self, name: &str) -> Group {
        let group = group(name);
        self.create(group.clone()).await;
        group
    }

    pub(crate) async fn site(&self, name: &str) -> Site {
        let site = site(name);
        self.create(site.clone()).await;
        site
    }

    pub(crate) async fn resource(&self, site: SiteId, name: &str) -> Resource {
        let resource = resource(site, name);
        self.create(resource.clone()).await;
        resource
    }

    pub(crate) async fn policy(&self, group: GroupId, resource: ResourceId, name: &str) -> Policy {
        let policy = policy(group, resource, name);
        self.create(policy.clone()).await;
        policy
    }

    pub(crate) async fn token(&self, scope: TokenScope, uses: TokenUses) -> Key {
        let (mutation, key) = token(scope, uses);
        self.write(vec![mutation]).await.unwrap();
        key
    }

    pub(crate) async fn authenticate(
        &self,
        key: &Key,
        now: Timestamp,
    ) -> Result<Principal, StoreError> {
        self.store
            .authenticate(key.id, &key.digest, key.kind, now)
            .await
    }

    pub(crate) async fn client_key(&self, actor: ActorId) -> Principal {
        let scope = TokenScope::Client { actor };
        let key = self.token(scope, TokenUses::Many).await;
        self.authenticate(&key, NOW).await.unwrap()
    }

    pub(crate) async fn gateway_key(&self, site: SiteId) -> Principal {
        let scope = TokenScope::Gateway { site };
        let key = self.token(scope, TokenUses::Many).await;
        self.authenticate(&key, NOW).await.unwrap()
    }

    pub(crate) async fn enrol(
        &self,
        principal: &Principal,
        machine: &str,
        key: u8,
    ) -> Result<Client, StoreError> {
        let machine = enrolment(ClientId::from_bytes(bytes()), machine, key);
        self.store
            .enrol_client(self.account, principal, machine, NOW)
            .await
    }

    pub(crate) async fn relay_key(&self) -> Principal {
        let key = self.token(TokenScope::Relay, TokenUses::Many).await;
        self.authenticate(&key, NOW).await.unwrap()
    }

    pub(crate) async fn enrol_gateway(
        &self,
        principal: &Principal,
        machine: &str,
        key: u8,
    ) -> Result<Gateway, StoreError> {
        let machine = enrolment(GatewayId::from_bytes(bytes()), machine, key);
        self.store
            .enrol_gateway(self.account, principal, machine, NOW)
            .await
    }
}

pub(crate) fn relay_enrolment(machine: &str, addresses: &[&str]) -> RelayEnrolment {
    RelayEnrolment {
        new_id: RelayId::from_bytes(bytes()),
        machine: machine.to_owned(),
        name: "relay".to_owned(),
        addresses: addresses.iter().map(|at| at.parse().unwrap()).collect(),
        seen: seen(NOW),
    }
}

pub(crate) fn update(entity: impl Into<Entity>) -> Mutation {
    Mutation::Update {
        entity: entity.into(),
        expected_version: None,
    }
}

pub(crate) fn delete(id: impl Into<EntityId>, cascade: bool) -> Mutation {
    Mutation::Delete {
        id: id.into(),
        expected_version: None,
        cascade,
    }
}

pub(crate) fn account(id: AccountId) -> Account {
    Account {
        id,
        name: format!("Example {id}"),
        settings: AccountSettings::default(),
        stamp: Stamp::default(),
    }
}

pub(crate) fn actor(name: &str) -> Actor {
    Actor {
        id: ActorId::from_bytes(bytes()),
        kind: ActorKind::User,
        name: name.to_owned(),
        disabled: false,
        sign_in: None,
        stamp: Stamp::default(),
    }
}

pub(crate) fn group(name: &str) -> Group {
    Group {
        id: GroupId::from_bytes(bytes()),
        name: name.to_owned(),
        stamp: Stamp::default(),
    }
}

pub(crate) fn membership(group: GroupId, actor: ActorId) -> Membership {
    Membership {
        id: MembershipId::from_bytes(bytes()),
        group,
        actor,
        stamp: Stamp::default(),
    }
}

pub(crate) fn provider(name: &str) -> Provider {
    Provider {
        id: ProviderId::from_bytes(bytes()),
        name: name.to_owned(),
        issuer: "https://id.example".to_owned(),
        client_id: "culvert".to_owned(),
        secret_set: None,
        disabled: false,
        settings: ProviderSettings::default(),
        stamp: Stamp::default(),
    }
}

pub(crate) fn identity(provider: ProviderId, subject: &str, actor: ActorId) -> Identity {
    Identity {
        id: IdentityId::from_bytes(bytes()),
        provider,
        subject: subject.to_owned(),
        actor,
        memberships: Vec::new(),
        stamp: Stamp::default(),
    }
}

pub(crate) fn site(name: &str) -> Site {
    Site {
        id: SiteId::from_bytes(bytes()),
        name: name.to_owned(),
        relays: None,
        stamp: Stamp::default(),
    }
}

pub(crate) fn resource(site: SiteId, name: &str) -> Resource {
    Resource {
        id: ResourceId::from_bytes(bytes()),
        site,
        name: name.to_owned(),
        target: Target {
            kind: TargetKind::Cidr,
            address: "10.0.0.0/8".to_owned(),
        },
        inbound: Vec::new(),
        filters: vec![Filter::Icmp],
        applications: Applications::Only(vec!["backup".to_owned()]),
        within: Some(vec!["10.0.0.0/8".to_owned(), "fd00::/8".to_owned()]),
        stamp: Stamp::default(),
    }
}

pub(crate) fn policy(group: GroupId, resource: ResourceId, name: &str) -> Policy {
    Policy {
        id: PolicyId::from_bytes(bytes()),
        name: name.to_owned(),
        group,
        resource,
        disabled: false,
        conditions: Vec::new(),
        stamp: Stamp::default(),
    }
}

/// A token named by its id, and its key.
pub(crate) fn token(scope: TokenScope, uses: TokenUses) -> (Mutation, Key) {
    let id = TokenId::from_bytes(bytes());
    let mut secret = [7; 32];
    secret[..16].copy_from_slice(id.as_bytes());
    let digest = Secret::new(secret).digest();
    let token = Token {
        id,
        scope,
        name: id.to_string(),
        uses,
        expires: None,
        revoked: None,
        used: None,
        last_used: None,
        proven: None,
        stamp: Stamp::default(),
    };
    let kind = scope.kind();
    let key = Key { id, kind, digest };
    (Mutation::CreateToken { token, digest }, key)
}

pub(crate) fn enrolment<I>(new_id: I, machine: &str, key: u8) -> Enrolment<I> {
    Enrolment {
        new_id,
        machine: machine.to_owned(),
        name: format!("{machine}'s name"),
        public_key: PublicKey::from_bytes([key; 32]),
        seen: seen(NOW),
    }
}

pub(crate) fn seen(at: Timestamp) -> Seen {
    Seen {
        at,
        address: Some([203, 0, 113, 9].into()),
        software: "culvert 0.1.0".to_owned(),
    }
}

pub(crate) const OWNER: Role = Role::Owner;
