//! A database in memory with an account, for tests of what portals have in common.

use culvert_ids::AccountId;
use culvert_portal_auth::PendingDb;
use culvert_portal_base::Metrics;
use culvert_store::{Account, AccountSettings, Author, Stamp, Store as _};
use culvert_store_sql::{SqlStore, SqliteOptions};
use culvert_wire::Timestamp;

const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);

pub(crate) struct TestDb {
    store: SqlStore,
    metrics: Metrics,
}

impl TestDb {
    pub(crate) async fn new() -> Self {
        let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
        let account = Account {
            id: ACCOUNT,
            name: "Example".to_owned(),
            settings: AccountSettings::default(),
            stamp: Stamp::default(),
        };
        let at = Timestamp::from_unix_ms(1);
        let made = store.create_account(account, Author::PORTAL, at).await;
        made.unwrap();
        let metrics = Metrics::default();
        Self { store, metrics }
    }

    pub(crate) fn db(&self) -> PendingDb<'_> {
        PendingDb::new(&self.store, ACCOUNT, &self.metrics)
    }
}
