//! PostgreSQL conforms.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[macro_use]
mod conformance;
mod postgres_server;

use conformance::Fixture;
use culvert_store_sql::SqlStore;
use postgres_server::Server;
use std::sync::Arc;

async fn in_a_database() -> Fixture {
    let database = Server::get().database().await;
    let store = SqlStore::open(database.options()).await.unwrap();
    Fixture::new(Arc::new(store), database)
}

conformance!(postgres, super::in_a_database);
