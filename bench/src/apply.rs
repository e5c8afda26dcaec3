//! The largest writes of the configuration: how long the database takes for as many mutations as one write may have.
//!
//! The database is SQLite's in a directory of its own, or one of a PostgreSQL server that is named. Every write is one
//! transaction, and its time ends with the commit.

use std::io::Write;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Args;
use culvert_base::UnixTime;
use culvert_ids::{AccountId, GroupId, PolicyId, RANDOM_LEN, ResourceId, SiteId};
use culvert_store::{
    Account, AccountSettings, Author, Group, MAX_MUTATIONS, Mutation, Policy, Resource, Site,
    Stamp, Store,
};
use culvert_store_sql::{PostgresOptions, SqlStore, SqliteOptions};
use culvert_wire::Timestamp;
use culvert_wire::model::{Applications, Filter, Target, TargetKind};

/// The limit of each write: a portal that waits longer looks as if it hung.
const TARGET_S: f64 = 10.0;

/// Writes of 40,000 mutations: how long the database takes.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// An empty PostgreSQL database, by its URL; without one, SQLite in a temporary directory.
    #[arg(long, value_name = "URL")]
    database: Option<String>,
    /// The number of mutations in each write.
    #[arg(long, default_value_t = MAX_MUTATIONS)]
    mutations: usize,
}

/// Measures, and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        (4..=MAX_MUTATIONS).contains(&arguments.mutations),
        "--mutations is 4 to {MAX_MUTATIONS}"
    );
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let store = match &arguments.database {
        Some(url) => SqlStore::open(url.parse::<PostgresOptions>()?).await?,
        None => SqlStore::open(&SqliteOptions::file(directory.path().join("culvert.db"))).await?,
    };
    let mut writer = Writer::new(store).await?;
    let rows = Rows::new(&mut writer, arguments.mutations)?;
    let mut longest: f64 = 0.0;
    for (what, mutations) in [
        ("create", rows.creates()),
        ("update", rows.updates()),
        ("delete", rows.deletes()),
    ] {
        let count = mutations.len();
        let took_s = writer.write(mutations).await?;
        writeln!(
            std::io::stdout(),
            "{what}: {count} mutations in {took_s:.2} s"
        )?;
        longest = longest.max(took_s);
    }
    ensure!(
        longest < TARGET_S,
        "a write took {longest:.1} s, and may take {TARGET_S} s"
    );
    Ok(())
}

/// The store, and an account in it.
struct Writer {
    store: SqlStore,
    account: AccountId,
    now: Timestamp,
    /// The number of ids made so far; each is unique.
    made: u64,
}

impl Writer {
    async fn new(store: SqlStore) -> Result<Self> {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
        let now = Timestamp::from_unix_ms(u64::try_from(now_ms)?);
        let id = AccountId::new(now.unix_time(), [0; RANDOM_LEN]);
        let account = Account {
            id,
            name: format!("Measured {id}"),
            settings: AccountSettings::default(),
            stamp: Stamp::default(),
        };
        let created = store.create_account(account, Author::PORTAL, now).await;
        let account = created.context("the database must be empty")?.id;
        Ok(Self {
            store,
            account,
            now,
            made: 0,
        })
    }

    fn birth(&mut self) -> (UnixTime, [u8; RANDOM_LEN]) {
        self.made += 1;
        let mut random = [0; RANDOM_LEN];
        random[..8].copy_from_slice(&self.made.to_be_bytes());
        (self.now.unix_time(), random)
    }

    /// In seconds.
    async fn write(&self, mutations: Vec<Mutation>) -> Result<f64> {
        let expected = mutations.len();
        let began = Instant::now();
        let written = self
            .store
            .write(self.account, Author::PORTAL, self.now, mutations);
        let changes = written.await?;
        let took_s = began.elapsed().as_secs_f64();
        ensure!(changes.len() == expected, "{} changes", changes.len());
        Ok(took_s)
    }
}

/// One site and one group, and as many resources as policies.
struct Rows {
    site: Site,
    group: Group,
    resources: Vec<Resource>,
    policies: Vec<Policy>,
}

impl Rows {
    fn new(writer: &mut Writer, mutations: usize) -> Result<Self> {
        let stamp = Stamp::default();
        let (born, random) = writer.birth();
        let site = Site {
            id: SiteId::new(born, random),
            name: "site".to_owned(),
            relays: None,
            stamp,
        };
        let (born, random) = writer.birth();
        let group = Group {
            id: GroupId::new(born, random),
            name: "group".to_owned(),
            stamp,
        };
        let (mut resources, mut policies) = (Vec::new(), Vec::new());
        for number in 0..u32::try_from(mutations / 2 - 1)? {
            let (born, random) = writer.birth();
            let [_, a, b, c] = (number << 2).to_be_bytes();
            resources.push(Resource {
                id: ResourceId::new(born, random),
                site: site.id,
                name: format!("resource-{number}"),
                target: Target {
                    kind: TargetKind::Cidr,
                    address: format!("10.{a}.{b}.{c}/30"),
                },
                inbound: Vec::new(),
                filters: vec![Filter::Icmp],
                applications: Applications::Any,
                within: None,
                stamp,
            });
        }
        for resource in &resources {
            let (born, random) = writer.birth();
            policies.push(Policy {
                id: PolicyId::new(born, random),
                name: format!("policy of {}", resource.name),
                group: group.id,
                resource: resource.id,
                disabled: false,
                conditions: Vec::new(),
                stamp,
            });
        }
        Ok(Self {
            site,
            group,
            resources,
            policies,
        })
    }

    fn creates(&self) -> Vec<Mutation> {
        let first = [
            Mutation::Create(self.site.clone().into()),
            Mutation::Create(self.group.clone().into()),
        ];
        let resources = self.resources.iter().cloned();
        let resources = resources.map(|row| Mutation::Create(row.into()));
        let policies = self.policies.iter().cloned();
        let policies = policies.map(|row| Mutation::Create(row.into()));
        first.into_iter().chain(resources).chain(policies).collect()
    }

    fn updates(&self) -> Vec<Mutation> {
        let update = |entity| Mutation::Update {
            entity,
            expected_version: Some(1),
        };
        let resources = self.resources.iter().cloned().map(|row| {
            update(
                Resource {
                    filters: vec![Filter::Any],
                    ..row
                }
                .into(),
            )
        });
        let policies = self.policies.iter().cloned().map(|row| {
            update(
                Policy {
                    disabled: true,
                    ..row
                }
                .into(),
            )
        });
        resources.chain(policies).collect()
    }

    /// In the order in which `prune` deletes.
    fn deletes(&self) -> Vec<Mutation> {
        let policies = self.policies.iter().map(|row| row.id.into());
        let resources = self.resources.iter().map(|row| row.id.into());
        let last = [self.group.id.into(), self.site.id.into()];
        let ids = policies.chain(resources).chain(last);
        ids.map(|id| Mutation::Delete {
            id,
            expected_version: None,
            cascade: false,
        })
        .collect()
    }
}
