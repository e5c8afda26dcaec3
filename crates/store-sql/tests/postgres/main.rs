//! PostgreSQL conforms, and what is wrong with a server's database is said.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[macro_use]
#[path = "../conformance/mod.rs"]
mod conformance;
mod faults;
mod process;
mod server;

use conformance::Fixture;
use culvert_store_sql::SqlStore;
use server::Server;
use std::sync::Arc;

async fn in_a_database() -> Fixture {
    let database = Server::get().cleared_database().await;
    let store = SqlStore::open(database.options()).await.unwrap();
    Fixture::new(Arc::new(store), database)
}

conformance!(postgres, super::in_a_database);
