//! Two portals on one database, each with a store of its own: of what both begin at once one has it, and nothing is lost.

use crate::conformance::owners::owner_by_password;
use crate::conformance::world::{Key, NOW, account, account_id, actor, token, update};
use crate::server::{Database, Server};
use culvert_ids::AccountId;
use culvert_store::{
    Account, Actor, Author, Change, Denial, Logs, Mutation, PageLimit, SecretBytes, Store,
    StoreError, StoreExt, TokenScope, TokenUses,
};
use culvert_store_sql::SqlStore;
use culvert_wire::model::{Log, Sink, SinkTarget};
use sqlx::postgres::PgPoolOptions;
use std::sync::Arc;

/// Races of each kind. A race is a few transactions of some milliseconds.
const RACES: usize = 1_000;

/// Mutations in one write: each of these is about a kilobyte.
const AT_ONCE: usize = 500;

/// The stores of two portals.
struct Two {
    stores: [Arc<SqlStore>; 2],
    database: Database,
}

type Written = Result<Vec<Change>, StoreError>;

impl Two {
    async fn open() -> Self {
        let database = Server::get().database().await;
        let open = async || Arc::new(SqlStore::open(database.options()).await.unwrap());
        let stores = [open().await, open().await];
        Self { stores, database }
    }

    /// Has both do something at once, each on a thread of its own. The one that is asked first changes from race to race.
    async fn race<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
        &self,
        number: usize,
        act: impl Fn(Arc<SqlStore>, usize) -> F,
    ) -> [T; 2] {
        let begin = |who: usize| tokio::spawn(act(Arc::clone(&self.stores[who]), who));
        let first = number % 2;
        let (one, other) = (begin(first), begin(1 - first));
        let (one, other) = (one.await.unwrap(), other.await.unwrap());
        match first {
            0 => [one, other],
            _ => [other, one],
        }
    }

    async fn account(&self) -> AccountId {
        let made = account(account_id());
        let made = self.stores[0].create_account(made, Author::PORTAL, NOW);
        made.await.unwrap().id
    }

    async fn write(&self, account: AccountId, mutations: Vec<Mutation>) {
        let written = self.stores[0].write(account, Author::PORTAL, NOW, mutations);
        written.await.unwrap();
    }
}

/// The one that won, and the error of the other.
fn winner(written: [Written; 2]) -> (usize, StoreError) {
    match written {
        [Ok(_), Err(error)] => (0, error),
        [Err(error), Ok(_)] => (1, error),
        both => panic!("{both:?}"),
    }
}

async fn consume(store: &SqlStore, key: &Key, mutations: Vec<Mutation>) -> Written {
    store
        .consume_one_time(key.id, &key.digest, key.kind, NOW, mutations)
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_portals_that_are_shown_one_one_time_token_one_takes_it() {
    let two = Two::open().await;
    let account = two.account().await;
    let (creates, keys): (Vec<_>, Vec<_>) = (0..RACES)
        .map(|_| token(TokenScope::Setup, TokenUses::One))
        .unzip();
    for creates in creates.chunks(AT_ONCE) {
        two.write(account, creates.to_vec()).await;
    }
    for (number, key) in keys.into_iter().enumerate() {
        let taken = two.race(number, |store, _| {
            let key = key.clone();
            async move { consume(&store, &key, Vec::new()).await }
        });
        let (_, error) = winner(taken.await);
        assert!(
            matches!(error, StoreError::Denied(Denial::Used)),
            "{number}: {error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_owners_who_shut_out_each_other_at_two_portals_one_stays() {
    let two = Two::open().await;
    let account = two.account().await;
    let people = [actor("Ada"), actor("Bob")];
    let ids = [people[0].id, people[1].id];
    let made = people.map(|row| Mutation::Create(row.into()));
    let owners = ids.map(owner_by_password);
    two.write(account, made.into_iter().chain(owners).collect())
        .await;
    let row = async |who: usize| -> Actor {
        let row = two.stores[0].get_as(account, ids[who]).await;
        row.unwrap()
    };
    let rows = [row(0).await, row(1).await];
    let disabled = |who: usize, disabled| {
        let row = rows[who].clone();
        update(Actor { disabled, ..row })
    };
    for number in 0..RACES {
        let shut_out = two.race(number, |store, who| {
            let mutations = vec![disabled(1 - who, true)];
            async move { store.write(account, Author::PORTAL, NOW, mutations).await }
        });
        let (first, error) = winner(shut_out.await);
        assert!(matches!(error, StoreError::LastOwner), "{number}: {error}");
        if number % 100 == 0 {
            let owners = two.stores[0].owners(account, NOW).await.unwrap();
            let left: Vec<_> = owners.iter().filter(|owner| !owner.disabled).collect();
            assert_eq!(left.len(), 1);
            assert_eq!(left[0].actor, ids[first]);
        }
        two.write(account, vec![disabled(1 - first, false)]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_portals_that_start_first_at_once_one_makes_the_account_and_its_owner() {
    let two = Two::open().await;
    let limit = PageLimit::MAX;
    let pool = PgPoolOptions::new().max_connections(1);
    let pool = pool.connect(&two.database.url()).await.unwrap();
    for number in 0..RACES {
        let started = two.race(number, |store, _| async move {
            let (create, key) = token(TokenScope::Setup, TokenUses::One);
            let made = account(account_id());
            let made = store.create_first_account(made, Author::PORTAL, NOW, vec![create]);
            (made.await.unwrap(), key)
        });
        let (made, key) = match started.await {
            [(Some(made), key), (None, _)] | [(None, _), (Some(made), key)] => (made, key),
            both => panic!("{number}: {:?}", both.map(|(made, _)| made)),
        };
        let there = two.stores[number % 2].accounts(None, limit).await.unwrap();
        assert_eq!(there.items, std::slice::from_ref(&made));
        let set_up = two.race(number, |store, _| {
            let key = key.clone();
            let owner = actor("Owner");
            let sign_in = owner_by_password(owner.id);
            let mutations = vec![Mutation::Create(owner.into()), sign_in];
            async move { consume(&store, &key, mutations).await }
        });
        let (_, error) = winner(set_up.await);
        assert!(
            matches!(error, StoreError::Denied(Denial::Used)),
            "{number}: {error}"
        );
        // Its superuser alone may leave the references out, and with them the order.
        let clear = "BEGIN; SET LOCAL session_replication_role = replica; DELETE FROM account; \
                     DELETE FROM token; DELETE FROM token_digest; DELETE FROM actor; DELETE FROM password; \
                     DELETE FROM change_log; COMMIT";
        sqlx::raw_sql(clear).execute(&pool).await.unwrap();
    }
}

fn sink(name: &str) -> Sink {
    let url = "https://logs.example/in".to_owned();
    Sink {
        name: name.to_owned(),
        logs: [Log::Access].into(),
        target: SinkTarget::Http { url },
        paused: false,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_portals_that_change_the_sinks_at_once_one_finds_them_changed() {
    const NAMES: [&str; 2] = ["one", "other"];
    let two = Two::open().await;
    let account = two.account().await;
    for number in 0..RACES {
        let row: Account = two.stores[0].get_as(account, account).await.unwrap();
        let version = row.stamp.version;
        let changed = two.race(number, |store, who| {
            let mut row = row.clone();
            row.settings.logs.sinks = vec![sink(NAMES[who])];
            let mut mutations: Vec<_> = NAMES
                .map(|name| Mutation::ForgetSink {
                    sink: name.to_owned(),
                })
                .into();
            mutations.push(Mutation::BeginSink {
                sink: NAMES[who].to_owned(),
                secret: Some(SecretBytes::new(b"secret".to_vec())),
            });
            // The round is in the row, so that the same sink is a change again.
            row.settings.logs.change_days = Some(90 + u32::from(number % 2 == 0));
            mutations.push(Mutation::Update {
                entity: row.into(),
                expected_version: Some(version),
            });
            async move { store.write(account, Author::PORTAL, NOW, mutations).await }
        });
        let (first, error) = winner(changed.await);
        assert!(
            matches!(error, StoreError::VersionConflict { current, .. } if current == version + 1),
            "{number}: {error}"
        );
        if number % 100 > 0 {
            continue;
        }
        let row: Account = two.stores[1].get_as(account, account).await.unwrap();
        assert_eq!(row.settings.logs.sinks, [sink(NAMES[first])]);
        for (who, name) in NAMES.into_iter().enumerate() {
            let secret = two.stores[1].sink_secret(account, name).await.unwrap();
            assert_eq!(secret.is_some(), who == first, "{number}");
            let places = two.stores[1].sink_positions(account, name).await.unwrap();
            assert_eq!(places.is_empty(), who != first, "{number}");
        }
    }
}
