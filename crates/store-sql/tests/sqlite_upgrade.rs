//! A file of the version before, and two versions at one file.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod upgraded;

use culvert_store::{Seq, Store, StoreError};
use culvert_store_sql::{
    Migration, Schema, SchemaState, SecretsAccess, SqlStore, SqliteOptions, rekey,
};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor, Row};
use std::path::PathBuf;
use tempfile::TempDir;
use upgraded::{
    LATER_CONDITION, LATER_ROWS, NEXT, ROWS, add_site, both_write_and_read, finds_all,
    is_left_behind, refuses_a_later_value, skips_later_rows,
};

/// The version of this program's schema, and that of the next one.
const VERSION: u32 = 21;
const AFTER: u32 = VERSION + 1;

/// A file of schema version 15, with rows of every kind.
struct Before {
    directory: TempDir,
}

impl Before {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let before = Self { directory };
        before.run(include_str!("fixtures/sqlite_15.sql")).await;
        before.run(ROWS).await;
        before
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("portal.db")
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions::file(self.path())
    }

    async fn open(&self) -> Result<SqlStore, StoreError> {
        SqlStore::open(self.options()).await
    }

    /// The version after this one.
    async fn open_next(&self) -> SqlStore {
        let schema = Schema::of_sqlite().with(NEXT);
        SqlStore::open(self.options().schema(schema)).await.unwrap()
    }

    async fn connect(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path());
        options.create_if_missing(true).connect().await.unwrap()
    }

    async fn run(&self, sql: &str) {
        let mut connection = self.connect().await;
        connection.execute(AssertSqlSafe(sql)).await.unwrap();
        connection.close().await.unwrap();
    }

    async fn count(&self, sql: &str) -> i64 {
        let mut connection = self.connect().await;
        let row = connection.fetch_one(AssertSqlSafe(sql)).await.unwrap();
        connection.close().await.unwrap();
        row.get(0)
    }

    /// The number of rows of each table of version 15.
    async fn rows(&self) -> Vec<(String, i64)> {
        let mut connection = self.connect().await;
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' \
                   AND name NOT IN ('culvert_schema', 'beacon', 'relay') ORDER BY name";
        let tables = connection.fetch_all(sql).await.unwrap();
        let mut rows = Vec::new();
        for table in tables {
            let table: String = table.get(0);
            let count = format!("SELECT count(*) FROM {table}");
            let row = connection.fetch_one(AssertSqlSafe(count)).await.unwrap();
            rows.push((table, row.get(0)));
        }
        rows
    }
}

const fn state(version: u32, readable_by: u32) -> SchemaState {
    SchemaState {
        version,
        readable_by,
    }
}

#[tokio::test]
async fn a_file_of_the_version_before_has_all_its_rows_and_that_version_works_on_it_afterwards() {
    let before = Before::new().await;
    let rows = before.rows().await;
    let has_row = |(table, count): &(String, i64)| *count > 0 || table == "secrets_key";
    assert!(rows.iter().all(has_row), "{rows:?}");
    let store = before.open().await.unwrap();
    finds_all(&store).await;
    assert_eq!(store.schema().await.unwrap().state, state(VERSION, 15));
    assert_eq!(before.rows().await, rows);
    add_site(&store, 1).await.unwrap();
    store.close().await;
    // The version before compares this number alone.
    assert_eq!(before.count("PRAGMA user_version").await, 15);
}

#[tokio::test]
async fn two_versions_work_on_one_file_until_the_upgrade_is_finished() {
    let before = Before::new().await;
    let older = before.open().await.unwrap();
    let newer = before.open_next().await;
    both_write_and_read(&older, &newer).await;
    let status = newer.schema().await.unwrap();
    assert_eq!(
        (status.state, status.pending),
        (state(AFTER, 15), Some(AFTER))
    );
    // The way back.
    older.close().await;
    newer.close().await;
    let older = before.open().await.unwrap();
    finds_all(&older).await;
    add_site(&older, 7).await.unwrap();
    let seen = older.schema().await.unwrap();
    assert_eq!(
        (seen.state, seen.known, seen.pending),
        (state(AFTER, 15), VERSION, None)
    );
    older.close().await;

    let newer = before.open_next().await;
    let finished = newer.finish_upgrade().await.unwrap();
    assert_eq!(
        (finished.state, finished.pending),
        (state(AFTER, AFTER), None)
    );
    finds_all(&newer).await;
    let again = newer.finish_upgrade().await.unwrap();
    assert_eq!(again, finished);
    newer.close().await;
    let columns = "SELECT count(*) FROM pragma_table_info('site') WHERE name = 'region'";
    assert_eq!(before.count(columns).await, 0);
    is_left_behind(before.open().await);
}

#[tokio::test]
async fn rows_of_a_later_version_are_skipped_and_stay() {
    let before = Before::new().await;
    let store = before.open().await.unwrap();
    before.run(LATER_ROWS).await;
    let count = async || {
        let sql = "SELECT (SELECT count(*) FROM change_log WHERE kind = 'beacon') \
                   + (SELECT count(*) FROM pending WHERE kind = 'of-later')";
        before.count(sql).await
    };
    skips_later_rows(&store, Seq(3), count).await;
    before.run(LATER_CONDITION).await;
    refuses_a_later_value(&store).await;
    let sql = "SELECT count(*) FROM policy WHERE conditions LIKE '%of-later%'";
    assert_eq!(before.count(sql).await, 1);
}

/// A copy, or another key of secrets, would leave out what only the later version knows.
#[tokio::test]
async fn an_older_version_moves_no_data_of_a_later_one_and_changes_no_key_of_it() {
    let before = Before::new().await;
    before.open_next().await.close().await;
    let other = SqliteOptions::file(before.directory.path().join("other.db"));
    let moved = Migration::begin(before.options(), other).await;
    let text = moved.map(drop).unwrap_err().to_string();
    assert!(text.contains("use that version"), "{text}");
    let key = culvert_secrets::SecretsKey::from_bytes(&[7; 32]);
    let sealer = culvert_store_sql::Sealer::new(key, |nonce| {
        nonce.fill(1);
        Ok(())
    });
    let text = rekey(&before.path(), None, Some(&sealer)).await;
    let text = text.unwrap_err().to_string();
    assert!(text.contains("use that version"), "{text}");
    // It still works on it.
    let options = before.options().secrets(SecretsAccess::Plain);
    finds_all(&SqlStore::open(options).await.unwrap()).await;
}
