//! PostgreSQL conforms, and what is wrong with a server's database is said.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

#[macro_use]
#[path = "../conformance/mod.rs"]
mod conformance;
mod faults;
mod migrate;
mod portals;
mod process;
mod races;
mod server;
mod upgrade;
#[path = "../upgraded/mod.rs"]
mod upgraded;

use conformance::Fixture;
use culvert_store_sql::SqlStore;
use server::Server;
use std::sync::Arc;

async fn in_a_database() -> Fixture {
    let database = Server::get().cleared_database().await;
    let store = SqlStore::open(database.options()).await.unwrap();
    Fixture::new(Arc::new(store), database)
}

/// Two of each three connections of a store wait for one of the pooler's.
async fn behind_a_pooler() -> Fixture {
    let database = Server::get().database().await;
    let store = SqlStore::open(database.pooled_options()).await.unwrap();
    Fixture::new(Arc::new(store), database)
}

/// These write and read most, and at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_may_give_each_transaction_another_connection() {
    use conformance::{feed, model, pending, tokens};
    model::random_mutations_do_what_the_model_does(behind_a_pooler).await;
    feed::concurrent_writes_leave_no_gap(behind_a_pooler).await;
    tokens::ts_2025_007_a_one_time_token_used_by_many_at_once_is_used_once(behind_a_pooler).await;
    pending::bounds_hold_for_those_who_come_at_once(behind_a_pooler).await;
    pending::tries_are_counted_by_whoever_lets_them_pass(behind_a_pooler).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_who_take_at_once_one_gets_it_a_thousand_times() {
    conformance::pending::take_at_once(in_a_database, 1_000).await;
}

conformance!(postgres, super::in_a_database);
