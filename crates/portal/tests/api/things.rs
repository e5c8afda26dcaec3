//! One of everything that an account has.

use crate::support::{
    birth, enrol_client, enrol_gateway, enrol_relay, fresh_key, make_actor, make_token, now,
};
use culvert_ids::{
    AccountId, ActorId, ClientId, GatewayId, GroupId, IdentityId, MembershipId, PolicyId,
    ProviderId, RelayId, ResourceId, SiteId, TokenId,
};
use culvert_store::{
    Account, ActorKind, Author, Group, Identity, Membership, Mutation, NewPlainClient, Policy,
    Provider, ProviderSettings, Resource, Role, Site, Stamp, Store, StoreExt, TokenScope,
};
use culvert_wire::model::{Applications, Filter, Log, Sink, SinkTarget, Target, TargetKind};

/// One of everything.
pub(crate) struct Things {
    pub(crate) actor: ActorId,
    pub(crate) member: ActorId,
    pub(crate) group: GroupId,
    pub(crate) site: SiteId,
    pub(crate) resource: ResourceId,
    pub(crate) policy: PolicyId,
    pub(crate) client: ClientId,
    /// A plain WireGuard device of the member, through a gateway at a site of its own: no gateway is deleted while a device
    /// has its key.
    pub(crate) plain: ClientId,
    pub(crate) gateway: GatewayId,
    pub(crate) relay: RelayId,
    pub(crate) token: TokenId,
    pub(crate) sink: String,
    pub(crate) provider: ProviderId,
    pub(crate) identity: IdentityId,
    pub(crate) client_secret: String,
    pub(crate) gateway_secret: String,
    pub(crate) relay_secret: String,
}

impl Things {
    /// All ids among what it has.
    pub(crate) fn ids(&self) -> Vec<String> {
        const PREFIXES: [&str; 11] = [
            "act", "cli", "gw", "grp", "idn", "idp", "pol", "res", "rly", "site", "tok",
        ];
        PREFIXES.iter().map(|prefix| self.id(prefix)).collect()
    }

    /// The id of one by its prefix; sinks stand in paths by their names.
    pub(crate) fn id(&self, prefix: &str) -> String {
        match prefix {
            "act" => self.member.to_string(),
            "cli" => self.client.to_string(),
            "plain" => self.plain.to_string(),
            "gw" => self.gateway.to_string(),
            "grp" => self.group.to_string(),
            "idn" => self.identity.to_string(),
            "idp" => self.provider.to_string(),
            "pol" => self.policy.to_string(),
            "res" => self.resource.to_string(),
            "rly" => self.relay.to_string(),
            "site" => self.site.to_string(),
            "snk" => self.sink.clone(),
            "tok" => self.token.to_string(),
            // A plain WireGuard device.
            "wg" => self.plain.to_string(),
            _ => panic!("nothing is made whose ids begin with {prefix}"),
        }
    }
}

pub(crate) async fn make_things(store: &dyn Store, account: AccountId) -> Things {
    let actor = make_actor(store, account, ActorKind::Admin).await;
    let member = make_actor(store, account, ActorKind::User).await;
    let stamp = Stamp::default();
    let (born, random) = birth();
    let group = GroupId::new(born, random);
    let site = SiteId::new(born, random);
    let resource = ResourceId::new(born, random);
    let policy = PolicyId::new(born, random);
    let provider = ProviderId::new(born, random);
    let identity = IdentityId::new(born, random);
    let mutations = vec![
        Mutation::Create(
            Group {
                id: group,
                name: format!("group {group}"),
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Membership {
                id: MembershipId::new(born, random),
                group,
                actor: member,
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Site {
                id: site,
                name: format!("site {site}"),
                relays: None,
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Resource {
                id: resource,
                site,
                name: format!("resource {resource}"),
                target: Target {
                    kind: TargetKind::Address,
                    address: "10.0.0.1".to_owned(),
                },
                inbound: Vec::new(),
                filters: vec![Filter::Any],
                applications: Applications::Any,
                within: None,
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Policy {
                id: policy,
                name: format!("policy {policy}"),
                group,
                resource,
                disabled: false,
                conditions: Vec::new(),
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Provider {
                id: provider,
                name: format!("provider {provider}"),
                issuer: "https://id.example".to_owned(),
                client_id: "culvert".to_owned(),
                secret_set: None,
                disabled: false,
                settings: ProviderSettings::default(),
                stamp,
            }
            .into(),
        ),
        Mutation::Create(
            Identity {
                id: identity,
                provider,
                subject: "1".to_owned(),
                actor: member,
                memberships: Vec::new(),
                stamp,
            }
            .into(),
        ),
    ];
    store
        .write(account, Author::PORTAL, now(), mutations)
        .await
        .unwrap();
    let role = Role::Auditor;
    let (token, _) = make_token(store, account, TokenScope::Api { actor, role }).await;
    let (client, client_secret) = enrol_client(store, account, member).await;
    let (gateway, gateway_secret) = enrol_gateway(store, account, site).await;
    let plain = add_plain_client(store, account, member).await;
    let (relay, relay_secret) = enrol_relay(store, account).await;
    let sink = format!("sink-{}", make_sink(store, account).await);
    Things {
        sink,
        actor,
        member,
        group,
        site,
        resource,
        policy,
        client,
        plain,
        gateway,
        relay,
        token,
        provider,
        identity,
        client_secret,
        gateway_secret,
        relay_secret,
    }
}

async fn add_plain_client(store: &dyn Store, account: AccountId, actor: ActorId) -> ClientId {
    let (born, random) = birth();
    let site = Site {
        id: SiteId::new(born, random),
        name: format!("site of devices {}", SiteId::new(born, random)),
        relays: None,
        stamp: Stamp::default(),
    };
    let (id, create) = (site.id, vec![Mutation::Create(site.into())]);
    let made = store.write(account, Author::PORTAL, now(), create).await;
    made.unwrap();
    let (gateway, _) = enrol_gateway(store, account, id).await;
    let (born, random) = birth();
    let id = ClientId::new(born, random);
    let new = NewPlainClient {
        id,
        actor,
        gateways: vec![gateway],
        name_shares: true,
        name: format!("device {id}"),
        public_key: fresh_key(),
    };
    let added = store.add_plain_client(account, Author::PORTAL, new, now());
    added.await.unwrap().id
}

/// A sink that nothing comes out of; returns what its name ends with.
async fn make_sink(store: &dyn Store, account: AccountId) -> u64 {
    let number = u64::from_be_bytes(birth().1[..8].try_into().unwrap());
    let mut row = store.get_as::<Account>(account, account).await.unwrap();
    // There may be eight; one is enough.
    row.settings.logs.sinks.clear();
    row.settings.logs.sinks.push(Sink {
        name: format!("sink-{number}"),
        logs: [Log::Access].into(),
        target: SinkTarget::File {
            file: format!("file-{number}"),
            max_mib: 1,
            keep: 1,
        },
        paused: true,
    });
    let update = Mutation::Update {
        entity: row.into(),
        expected_version: None,
    };
    store
        .write(account, Author::PORTAL, now(), vec![update])
        .await
        .unwrap();
    number
}
