//! Machines and logs of a large account, written straight into the database of a portal that does not run:
//! by sessions they would take hours.

use culvert_base::UnixTime;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use culvert_ids::{AccountId, ActorId, ClientId, GatewayId, GrantId, RANDOM_LEN, TokenId};
use culvert_store::{
    AccessEntry, Author, Decision, Enrolment, EntityId, FlowBatch, FlowEntry, Group, Holder, Kind,
    ListFilter, Logs, MAX_BATCH, Mutation, PageLimit, Principal, Resource, Seen, Site, Stamp,
    Store, Token, TokenScope, TokenUses,
};
use culvert_store_sql::{SqlStore, SqliteOptions};
use culvert_wire::messages::FlowEnd;
use culvert_wire::model::Log;
use culvert_wire::token::Secret;
use culvert_wire::{PublicKey, Timestamp};

/// Gateways of the site.
const GATEWAYS: usize = 20;

/// Of how many entries one is of the client, the resource and the end that few are of.
const RARE: usize = 10_000;

/// The time that the logs cover, within the default retention.
const SPAN_MS: u64 = 24 * 60 * 60 * 1_000;

/// A database that is being filled.
pub(crate) struct Fill {
    store: SqlStore,
    account: AccountId,
    now: Timestamp,
    /// The number of ids made so far; each is unique.
    made: u64,
}

impl Fill {
    pub(crate) async fn open(database: &Path) -> Result<Self> {
        let store = SqlStore::open(&SqliteOptions::file(database)).await?;
        let accounts = store.accounts(None, PageLimit::default()).await?;
        let account = accounts.items.first().context("there is no account")?.id;
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        Ok(Self {
            store,
            account,
            now: Timestamp::from_unix_ms(u64::try_from(now_ms)?),
            made: 0,
        })
    }

    /// A client for each of the first people, gateways, and entries of all logs.
    pub(crate) async fn all(mut self, people: usize, entries: usize) -> Result<()> {
        let actors = self.people(people).await?;
        let clients = self.clients(&actors).await?;
        let gateways = self.gateways().await?;
        let resources: Vec<Resource> = self.rows().await?;
        self.access(entries, &clients, &gateways, &resources)
            .await?;
        self.flows(entries, &clients, &gateways, &resources).await?;
        self.changes(entries).await?;
        self.store.close().await;
        Ok(())
    }

    fn birth(&mut self) -> (UnixTime, [u8; RANDOM_LEN]) {
        self.made += 1;
        let mut random = [0; RANDOM_LEN];
        random[..8].copy_from_slice(&self.made.to_le_bytes());
        (self.now.unix_time(), random)
    }

    /// All rows of a kind.
    async fn rows<T: Kind>(&self) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        let mut after: Option<EntityId> = None;
        loop {
            let page = self
                .store
                .list(
                    self.account,
                    T::KIND,
                    &ListFilter::default(),
                    after,
                    PageLimit::MAX,
                )
                .await?;
            rows.extend(page.items.into_iter().filter_map(T::from_entity));
            after = page.next;
            if after.is_none() {
                return Ok(rows);
            }
        }
    }

    async fn people(&self, people: usize) -> Result<Vec<ActorId>> {
        let rows: Vec<culvert_store::Actor> = self.rows().await?;
        let users = rows.iter().filter(|row| row.name.starts_with("person-"));
        Ok(users.take(people).map(|row| row.id).collect())
    }

    /// A token for each, and who it stands for.
    async fn tokens(&mut self, scopes: Vec<TokenScope>) -> Result<Vec<TokenId>> {
        let mut ids = Vec::new();
        let mut mutations = Vec::new();
        for scope in scopes {
            let (born, random) = self.birth();
            let id = TokenId::new(born, random);
            let mut secret = [7; 32];
            secret[..RANDOM_LEN].copy_from_slice(&random);
            ids.push(id);
            mutations.push(Mutation::CreateToken {
                token: Token {
                    id,
                    scope,
                    name: format!("token-{}", self.made),
                    uses: TokenUses::Many,
                    expires: None,
                    revoked: None,
                    used: None,
                    last_used: None,
                    proven: None,
                    stamp: Stamp::default(),
                },
                digest: Secret::new(secret).digest(),
            });
        }
        self.write(mutations).await?;
        Ok(ids)
    }

    async fn write(&self, mutations: Vec<Mutation>) -> Result<()> {
        let write = self
            .store
            .write(self.account, Author::PORTAL, self.now, mutations);
        write.await?;
        Ok(())
    }

    fn machine<I>(&mut self, new_id: I, what: &str) -> Enrolment<I> {
        let (_, random) = self.birth();
        let mut key = [3; 32];
        key[..RANDOM_LEN].copy_from_slice(&random);
        Enrolment {
            new_id,
            machine: format!("machine-{}", self.made),
            name: format!("{what}-{}", self.made),
            public_key: PublicKey::from_bytes(key),
            seen: Seen {
                at: self.now,
                address: Some(Ipv4Addr::new(203, 0, 113, 7).into()),
                software: env!("CARGO_PKG_VERSION").to_owned(),
            },
        }
    }

    fn principal(&self, token: TokenId, holder: Holder) -> Principal {
        Principal {
            account: self.account,
            token,
            holder,
            expires: None,
        }
    }

    async fn clients(&mut self, actors: &[ActorId]) -> Result<Vec<(ClientId, ActorId)>> {
        let scopes = actors
            .iter()
            .map(|actor| TokenScope::Client { actor: *actor });
        let tokens = self.tokens(scopes.collect()).await?;
        let mut clients = Vec::new();
        for (actor, token) in actors.iter().zip(tokens) {
            let (born, random) = self.birth();
            let machine = self.machine(ClientId::new(born, random), "client");
            let holder = Holder::Client {
                actor: *actor,
                actor_kind: culvert_store::ActorKind::User,
            };
            let principal = self.principal(token, holder);
            let client = self
                .store
                .enrol_client(self.account, &principal, machine, self.now)
                .await?;
            clients.push((client.id, *actor));
        }
        Ok(clients)
    }

    async fn gateways(&mut self) -> Result<Vec<GatewayId>> {
        let sites: Vec<Site> = self.rows().await?;
        let site = sites.first().context("there is no site")?.id;
        let tokens = self.tokens(vec![TokenScope::Gateway { site }]).await?;
        let principal = self.principal(tokens[0], Holder::Gateway { site });
        let mut gateways = Vec::new();
        for _ in 0..GATEWAYS {
            let (born, random) = self.birth();
            let machine = self.machine(GatewayId::new(born, random), "gateway");
            let gateway = self
                .store
                .enrol_gateway(self.account, &principal, machine, self.now)
                .await?;
            gateways.push(gateway.id);
        }
        Ok(gateways)
    }

    /// The time of entry `number` of `entries`.
    fn at(&self, number: usize, entries: usize) -> Timestamp {
        let back_ms = SPAN_MS * (entries - number) as u64 / entries as u64;
        Timestamp::from_unix_ms(self.now.unix_ms() - back_ms)
    }

    async fn access(
        &mut self,
        entries: usize,
        clients: &[(ClientId, ActorId)],
        gateways: &[GatewayId],
        resources: &[Resource],
    ) -> Result<()> {
        let numbers: Vec<usize> = (0..entries).collect();
        for numbers in numbers.chunks(MAX_BATCH) {
            let mut batch = Vec::new();
            for number in numbers {
                let (born, random) = self.birth();
                let (client, actor) = *pick(clients, *number);
                batch.push(AccessEntry {
                    at: self.at(*number, entries),
                    client,
                    actor: Some(actor),
                    resource: pick(resources, *number).id,
                    gateway: Some(*pick(gateways, *number)),
                    policy: None,
                    grant: Some(GrantId::new(born, random)),
                    decision: match number % RARE {
                        0 => Decision::Revoked,
                        other if other % 7 == 1 => Decision::Denied,
                        other if other % 2 == 0 => Decision::Granted,
                        _ => Decision::Ended,
                    },
                    reason: "by a policy of the group that the client's owner is in".to_owned(),
                });
            }
            self.store.append_access_log(self.account, batch).await?;
        }
        Ok(())
    }

    async fn flows(
        &mut self,
        entries: usize,
        clients: &[(ClientId, ActorId)],
        gateways: &[GatewayId],
        resources: &[Resource],
    ) -> Result<()> {
        let numbers: Vec<usize> = (0..entries).collect();
        for (batch, numbers) in numbers.chunks(MAX_BATCH).enumerate() {
            let mut flows = Vec::new();
            for number in numbers {
                let (born, random) = self.birth();
                let (client, actor) = *pick(clients, *number);
                let at = self.at(*number, entries);
                flows.push(FlowEntry {
                    at,
                    started: at,
                    client,
                    actor: Some(actor),
                    resource: pick(resources, *number).id,
                    grant: GrantId::new(born, random),
                    protocol: 6,
                    address: IpAddr::from([10, 0, 0, 1]),
                    inbound: false,
                    port: 443,
                    application: None,
                    path: None,
                    relay: None,
                    sent_bytes: 1_000,
                    sent_packets: 10,
                    received_bytes: 100_000,
                    received_packets: 100,
                    end: FlowEnd::Closed,
                });
            }
            let report = FlowBatch {
                gateway: *pick(gateways, batch),
                run: 1,
                batch: batch as u64 + 1,
                lost: 0,
                flows,
            };
            self.store.append_flows(self.account, vec![report]).await?;
        }
        Ok(())
    }

    /// Groups are renamed until there are as many changes.
    async fn changes(&mut self, entries: usize) -> Result<()> {
        let groups: Vec<Group> = self.rows().await?;
        let mut rename = 0_usize;
        while self.store.log_ends(self.account).await?[&Log::Changes] < entries as u64 {
            rename += 1;
            let renamed = groups.iter().map(|group| Mutation::Update {
                entity: Group {
                    name: match rename % 2 {
                        0 => group.name.clone(),
                        _ => format!("{} renamed", group.name),
                    },
                    ..group.clone()
                }
                .into(),
                expected_version: None,
            });
            self.write(renamed.collect()).await?;
        }
        Ok(())
    }
}

/// The object of entry `number`. Only one in [`RARE`] entries is about the last object.
fn pick<T>(all: &[T], number: usize) -> &T {
    match number % RARE {
        0 => &all[all.len() - 1],
        _ => &all[number % (all.len() - 1).max(1)],
    }
}
