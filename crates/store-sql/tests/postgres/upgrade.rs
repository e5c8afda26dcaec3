//! A database of the version before, and portals of two versions on one.

use crate::portals::{lengthen_lease, report};
use crate::server::{Database, Server};
use crate::upgraded::{
    ACCOUNT, LATER_CONDITION, LATER_ROWS, NEXT, ROWS, add_site, both_write_and_read, finds_all,
    is_left_behind, refuses_a_later_value, skips_later_rows,
};
use culvert_store::{Claim, Leading, Portals, Seq, Store, StoreError};
use culvert_store_sql::{PostgresOptions, Schema, SchemaState, SqlStore};
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, PgConnection, Row};

/// A database of schema version 3, with rows of every kind.
async fn before() -> Database {
    let database = Server::get().bare_database().await;
    let mut connection = connect(&database).await;
    let schema = include_str!("../fixtures/postgres_3.sql");
    connection.execute(schema).await.unwrap();
    run(&mut connection, ROWS).await;
    connection.close().await.unwrap();
    database
}

async fn connect(database: &Database) -> PgConnection {
    let options: PgConnectOptions = database.url().parse().unwrap();
    options.connect().await.unwrap()
}

/// Runs statements with bytes as SQLite has them.
async fn run(connection: &mut PgConnection, sql: &str) {
    let sql = sql.replace("X'", "'\\x");
    // Literals of a SELECT have the type of text otherwise.
    let sql = sql.replace("' FROM", "'::bytea FROM");
    let sql = sql.replace("C1', 'of-later', '", "C1'::bytea, 'of-later', '");
    let sql = sql.replace(
        "0000', 1, 2, 4102444800000000, '",
        "0000'::bytea, 1, 2, 4102444800000000, '",
    );
    connection.execute(AssertSqlSafe(sql)).await.unwrap();
}

async fn count(database: &Database, sql: &str) -> i64 {
    let mut connection = connect(database).await;
    let row = connection.fetch_one(AssertSqlSafe(sql)).await.unwrap();
    connection.close().await.unwrap();
    row.get(0)
}

/// The number of rows of each table of version 3.
async fn rows(database: &Database) -> Vec<(String, i64)> {
    let mut connection = connect(database).await;
    let sql = "SELECT CAST(tablename AS text) FROM pg_tables WHERE schemaname = 'public' \
               AND tablename NOT IN ('portal', 'portal_lead', 'beacon', 'relay') ORDER BY tablename";
    let tables = connection.fetch_all(sql).await.unwrap();
    let mut rows = Vec::new();
    for table in tables {
        let table: String = table.get(0);
        let count = format!("SELECT count(*) FROM {table}");
        let row = connection.fetch_one(AssertSqlSafe(count)).await.unwrap();
        rows.push((table, row.get(0)));
    }
    connection.close().await.unwrap();
    rows
}

fn next(database: &Database) -> PostgresOptions {
    let schema = Schema::of_postgres().with(NEXT);
    database.options().schema(schema).portal()
}

async fn open(options: PostgresOptions) -> SqlStore {
    SqlStore::open(options).await.unwrap()
}

/// The version of this program's schema, and that of the next one.
const VERSION: u32 = 10;
const AFTER: u32 = VERSION + 1;

const fn state(version: u32, readable_by: u32) -> SchemaState {
    SchemaState {
        version,
        readable_by,
    }
}

#[tokio::test]
async fn a_database_of_the_version_before_has_all_its_rows_after_the_upgrade() {
    let database = before().await;
    let rows_before = rows(&database).await;
    let has_row = |(table, count): &(String, i64)| *count > 0 || table == "secrets_key";
    assert!(rows_before.iter().all(has_row), "{rows_before:?}");
    let store = open(database.options()).await;
    finds_all(&store).await;
    assert_eq!(store.schema().await.unwrap().state, state(VERSION, 4));
    assert_eq!(rows(&database).await, rows_before);
    add_site(&store, 1).await.unwrap();
    // Version 4, which several portals began with, compares this number alone.
    let version = "SELECT version FROM culvert_schema";
    assert_eq!(count(&database, version).await, 4);
}

#[tokio::test]
async fn portals_of_two_versions_share_a_database_until_the_upgrade_is_finished() {
    let database = before().await;
    let older = open(database.options().portal()).await;
    let led = older.report(&report(1), Claim::Take).await.unwrap();
    assert!(matches!(led, Leading::This { .. }), "{led:?}");
    lengthen_lease(&database).await;
    // The newer one extends the database under the older one, which leads.
    let newer = open(next(&database)).await;
    let follows = newer.report(&report(2), Claim::Take).await.unwrap();
    assert!(matches!(follows, Leading::Other(_)), "{follows:?}");
    both_write_and_read(&older, &newer).await;
    older.save_grants(ACCOUNT, Vec::new()).await.unwrap();
    let status = newer.schema().await.unwrap();
    assert_eq!(
        (status.state, status.pending),
        (state(AFTER, 4), Some(AFTER))
    );

    // The older one, by its version, its address and the fix.
    let refused = newer.finish_upgrade().await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Unusable { .. }),
        "{refused:?}"
    );
    let text = refused.to_string();
    for part in [
        "192.0.2.1:443",
        &format!("schema version {VERSION}"),
        &format!("version {AFTER} is needed"),
        "stop it",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(newer.schema().await.unwrap(), status);
    // The way back: the newer one ends, and another older one starts.
    newer.retire(report(2).id).await.unwrap();
    newer.close().await;
    let another = open(database.options().portal()).await;
    another.report(&report(3), Claim::Renew).await.unwrap();
    add_site(&another, 7).await.unwrap();
    another.retire(report(3).id).await.unwrap();

    // The older one is paused for so long that nobody counts with it.
    let silent = "UPDATE portal SET seen_ms = seen_ms - 61000";
    Server::get().run(&database.name, silent).await;
    let newer = open(next(&database)).await;
    let finished = newer.finish_upgrade().await.unwrap();
    assert_eq!(
        (finished.state, finished.pending),
        (state(AFTER, AFTER), None)
    );
    finds_all(&newer).await;
    // It comes back, and does nothing any more.
    let ungranted = older.save_grants(ACCOUNT, Vec::new()).await;
    assert!(
        matches!(ungranted, Err(StoreError::NotLeading)),
        "{ungranted:?}"
    );
    is_left_behind(add_site(&older, 8).await);
    is_left_behind(older.report(&report(1), Claim::Take).await);
    is_left_behind(older.save_grants(ACCOUNT, Vec::new()).await);
    is_left_behind(older.ping().await);
    is_left_behind(SqlStore::open(database.options().portal()).await);
    let leads = newer.report(&report(2), Claim::Take).await.unwrap();
    assert!(
        matches!(leads, Leading::This { .. } | Leading::Other(_)),
        "{leads:?}"
    );
    let columns = "SELECT count(*) FROM information_schema.columns WHERE column_name = 'region'";
    assert_eq!(count(&database, columns).await, 0);
}

#[tokio::test]
async fn a_portal_that_cannot_lead_leaves_it_to_another_in_an_epoch_of_its_own() {
    let database = Server::get().database().await;
    let (one, two) = (
        open(database.options().portal()).await,
        open(database.options().portal()).await,
    );
    let leads = one.report(&report(1), Claim::Take).await.unwrap();
    assert_eq!(leads, Leading::This { epoch: 1 });
    let left = one.report(&report(1), Claim::Leave).await.unwrap();
    assert_eq!(left, Leading::Nobody);
    // It does not come back by a renewal.
    let nobody = one.report(&report(1), Claim::Renew).await.unwrap();
    assert_eq!(nobody, Leading::Nobody);
    let leads = two.report(&report(2), Claim::Take).await.unwrap();
    assert_eq!(leads, Leading::This { epoch: 2 });
    two.report(&report(2), Claim::Leave).await.unwrap();
    let again = two.report(&report(2), Claim::Take).await.unwrap();
    assert_eq!(again, Leading::This { epoch: 3 });
}

#[tokio::test]
async fn rows_of_a_later_version_are_skipped_and_stay() {
    let database = before().await;
    let store = open(database.options()).await;
    let mut connection = connect(&database).await;
    run(&mut connection, LATER_ROWS).await;
    let count_later = async || {
        let sql = "SELECT (SELECT count(*) FROM change_log WHERE kind = 'beacon') \
                   + (SELECT count(*) FROM pending WHERE kind = 'of-later')";
        count(&database, sql).await
    };
    skips_later_rows(&store, Seq(3), count_later).await;
    run(&mut connection, LATER_CONDITION).await;
    refuses_a_later_value(&store).await;
    let sql = "SELECT count(*) FROM policy WHERE conditions LIKE '%of-later%'";
    assert_eq!(count(&database, sql).await, 1);
    connection.close().await.unwrap();
}
