//! A database goes from SQLite to a server and back, whole or not at all.

use crate::portals::report;
use crate::server::{Database, Server};
use culvert_ids::AccountId;
use culvert_store::{Claim, Logs as _, Portals as _, Store as _};
use culvert_store_sql::{
    MigrateError, Migrated, Migration, PostgresOptions, SecretsAccess, SqlStore, SqliteOptions,
};
use culvert_wire::Timestamp;
use culvert_wire::model::Log;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _, Row as _, SqliteConnection};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ACCOUNT: AccountId = AccountId::from_bytes([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// A portal's file with rows of every table.
struct Full {
    directory: TempDir,
}

impl Full {
    async fn new() -> Self {
        let full = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        SqlStore::open(&full.options()).await.unwrap().close().await;
        run(&full.path(), include_str!("rows.sql")).await;
        full
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("portal.db")
    }

    /// Another file beside it.
    fn other(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions::file(self.path())
    }

    async fn migrate(&self, to: &Database) -> Result<Migrated, MigrateError> {
        whole(Migration::begin(self.options(), to.options()).await?).await
    }
}

async fn whole(mut migration: Migration) -> Result<Migrated, MigrateError> {
    migration.copy_logs(&mut |_| {}).await?;
    assert!(migration.take_source().await?);
    migration.finish(&mut |_| {}).await?.commit().await
}

async fn connect(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path);
    options.foreign_keys(true).connect().await.unwrap()
}

async fn run(path: &Path, sql: &str) {
    let mut connection = connect(path).await;
    let done = sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await;
    done.unwrap();
    connection.close().await.unwrap();
}

async fn number(connection: &mut SqliteConnection, sql: &str) -> i64 {
    let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(connection).await;
    row.unwrap().get(0)
}

async fn tables(connection: &mut SqliteConnection) -> Vec<String> {
    let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'culvert_schema' ORDER BY name";
    let rows = sqlx::query(sql).fetch_all(connection).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// The number that a statement answers on the server.
async fn count(database: &Database, sql: &str) -> i64 {
    let options: sqlx::postgres::PgConnectOptions = database.url().parse().unwrap();
    let mut connection = options.connect().await.unwrap();
    let row = sqlx::query(AssertSqlSafe(sql))
        .fetch_one(&mut connection)
        .await;
    let number = row.unwrap().get(0);
    connection.close().await.unwrap();
    number
}

/// The tables in the schema that a portal has on the server.
async fn tables_of(database: &Database) -> i64 {
    let sql = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    count(database, sql).await
}

async fn refused(migrated: Result<Migration, MigrateError>) -> String {
    migrated.unwrap_err().to_string()
}

#[tokio::test]
async fn rows_of_every_table_and_every_odd_value_go_to_a_server_and_back() {
    let full = Full::new().await;
    let server = Server::get().bare_database().await;
    let there = full.migrate(&server).await.unwrap();
    assert!(there.is_encrypted());
    assert_eq!(there.log_rows(), 7);
    // The character that the server has not is replaced, as by every write.
    let with_nul = "UPDATE client SET seen_software = 'of ' || char(65533) || ' a machine'";
    run(&full.path(), with_nul).await;

    let back = full.other("back.db");
    let migration = Migration::begin(server.options(), SqliteOptions::file(&back));
    assert_eq!(whole(migration.await.unwrap()).await.unwrap(), there);

    let mut connection = connect(&full.path()).await;
    let sql = format!("ATTACH '{}' AS other", back.display());
    let attached = sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(&mut connection)
        .await;
    attached.unwrap();
    for table in tables(&mut connection).await {
        let rows = format!("SELECT count(*) FROM main.{table}");
        let rows = number(&mut connection, &rows).await;
        assert!(rows > 0, "rows.sql has no row of {table}");
        assert_eq!(there.rows[table.as_str()], rows.cast_unsigned(), "{table}");
        for [one, other] in [["main", "other"], ["other", "main"]] {
            let sql = format!(
                "SELECT count(*) FROM (SELECT * FROM {one}.{table} EXCEPT SELECT * FROM {other}.{table})"
            );
            assert_eq!(number(&mut connection, &sql).await, 0, "{table} of {one}");
        }
    }
    let version = "SELECT (SELECT user_version FROM pragma_user_version) > 0";
    assert_eq!(number(&mut connect(&back).await, version).await, 1);
    let mode = std::fs::metadata(&back).unwrap();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode.permissions()) & 0o777,
        0o600
    );
    // A portal opens it, and has the same key of secrets.
    let options = SqliteOptions::file(&back).secrets(SecretsAccess::Nothing);
    SqlStore::open(&options).await.unwrap().close().await;
}

#[tokio::test]
async fn both_databases_have_the_same_columns_so_that_none_is_left_out() {
    let full = Full::new().await;
    let server = Server::get().database().await;
    let sql = "SELECT t.name || '.' || c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c \
               WHERE t.type = 'table' AND t.name <> 'culvert_schema'";
    let mut connection = connect(&full.path()).await;
    let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
    let here: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let options: sqlx::postgres::PgConnectOptions = server.url().parse().unwrap();
    let sql = "SELECT table_name || '.' || column_name FROM information_schema.columns \
               WHERE table_schema = 'public' \
               AND table_name NOT IN ('culvert_schema', 'portal', 'portal_lead')";
    let mut connection = options.connect().await.unwrap();
    let rows = sqlx::query(sql).fetch_all(&mut connection).await.unwrap();
    let there: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let own = |columns: &[&str]| {
        columns
            .iter()
            .map(|column| format!("secrets_key.{column}"))
            .collect()
    };
    let of_sqlite: BTreeSet<String> = here.difference(&there).cloned().collect();
    let of_postgres: BTreeSet<String> = there.difference(&here).cloned().collect();
    // `Table::constants` fills these.
    assert_eq!(of_sqlite, own(&["is_clean", "only"]));
    assert_eq!(of_postgres, own(&["id"]));
}

#[tokio::test]
async fn a_target_with_an_account_or_of_another_program_is_refused_and_left_as_it_is() {
    let full = Full::new().await;
    let used = Server::get().bare_database().await;
    full.migrate(&used).await.unwrap();
    let again = Migration::begin(full.options(), used.options()).await;
    assert!(
        matches!(again, Err(MigrateError::NotEmpty { .. })),
        "{again:?}"
    );
    let text = refused(again).await;
    assert!(text.contains("createdb"), "{text}");
    assert_eq!(count(&used, "SELECT count(*) FROM account").await, 2);

    let other = Server::get().bare_database().await;
    let table = "CREATE TABLE invoice (id int)";
    Server::get().run(&other.name, table).await;
    let text = refused(Migration::begin(full.options(), other.options()).await).await;
    assert!(text.contains("another program"), "{text}");
    assert_eq!(tables_of(&other).await, 1);
}

#[tokio::test]
async fn a_schema_without_an_account_is_filled_whatever_key_it_began_with() {
    let full = Full::new().await;
    let begun = Server::get().database().await;
    let key = "INSERT INTO secrets_key (key_id) VALUES ('\\x0807060504030201'); \
               INSERT INTO state_secret VALUES ('certificate', 'x')";
    Server::get().run(&begun.name, key).await;
    full.migrate(&begun).await.unwrap();
    assert_eq!(count(&begun, "SELECT count(*) FROM state_secret").await, 1);
}

#[tokio::test]
async fn a_source_that_is_empty_or_missing_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("portal.db");
    let server = Server::get().bare_database().await;
    let begin = || Migration::begin(SqliteOptions::file(&path), server.options());
    let text = refused(begin().await).await;
    assert!(text.contains("no such file"), "{text}");
    assert!(!path.exists());
    let options = SqliteOptions::file(&path);
    SqlStore::open(&options).await.unwrap().close().await;
    let text = refused(begin().await).await;
    assert!(text.contains("is empty"), "{text}");
    assert_eq!(tables_of(&server).await, 0);
}

#[tokio::test]
async fn whatever_ends_it_before_the_commit_leaves_the_target_empty() {
    let full = Full::new().await;
    let server = Server::get().bare_database().await;
    let begin = || Migration::begin(full.options(), server.options());
    let mut migration = begin().await.unwrap();
    assert_eq!(migration.copy_logs(&mut |_| {}).await.unwrap(), 7);
    drop(migration);
    assert_eq!(tables_of(&server).await, 0);

    let mut migration = retried(&begin).await;
    migration.copy_logs(&mut |_| {}).await.unwrap();
    Server::get().end_connections(&server.name).await;
    migration.finish(&mut |_| {}).await.unwrap_err();
    assert_eq!(tables_of(&server).await, 0);

    let compared = retried(&begin).await.finish(&mut |_| {}).await.unwrap();
    drop(compared);
    assert_eq!(tables_of(&server).await, 0);
    whole(retried(&begin).await).await.unwrap();
}

/// Begins where the server may not have noticed yet that another one has ended.
async fn retried<F: Future<Output = Result<Migration, MigrateError>>>(
    begin: &impl Fn() -> F,
) -> Migration {
    for _ in 0..100 {
        if let Ok(migration) = begin().await {
            return migration;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    begin().await.unwrap()
}

#[tokio::test]
async fn rows_of_logs_that_come_and_go_while_a_portal_runs_come_and_go_in_the_copy() {
    let full = Full::new().await;
    let options = full.options().secrets(SecretsAccess::Nothing);
    let portal = SqlStore::open(&options).await.unwrap();
    let more = "INSERT INTO access_log (account, seq, at_ms, client_id, resource_id, decision, reason) \
                WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000) \
                SELECT X'01000000000000000000000000000001', 10 + i, 1000 + i, X'09', X'06', 'denied', 'late ' || i FROM n; \
                UPDATE account SET last_access = 5010 WHERE last_access = 2";
    run(&full.path(), more).await;
    let server = Server::get().bare_database().await;
    let mut migration = Migration::begin(full.options(), server.options())
        .await
        .unwrap();
    assert_eq!(migration.copy_logs(&mut |_| {}).await.unwrap(), 5_007);
    // Some at the beginning, some in the middle, and the last one of another log.
    let pruned = portal.prune_log(
        ACCOUNT,
        Log::Access,
        Timestamp::from_unix_ms(1_100),
        1 << 40,
    );
    assert!(pruned.await.unwrap() > 90);
    let changes = "DELETE FROM access_log WHERE seq BETWEEN 3000 AND 3010 OR seq = 4500; \
                   DELETE FROM flow_log WHERE seq = 9223372036854775807; \
                   INSERT INTO access_log (account, seq, at_ms, client_id, resource_id, decision, reason) \
                   VALUES (X'01000000000000000000000000000001', 5011, 9000, X'09', X'06', 'granted', 'last'), \
                   (X'FF0000000000000000000000000000FF', 1, 9000, X'09', X'06', 'granted', 'of another account'); \
                   UPDATE account SET last_access = 5011, name = 'Renamed', name_key = 'renamed' WHERE last_access = 5010";
    run(&full.path(), changes).await;
    assert_eq!(migration.copy_logs(&mut |_| {}).await.unwrap(), 5_009);
    let deleted = "DELETE FROM access_log WHERE seq = 20; DELETE FROM access_log WHERE seq = 4600";
    run(&full.path(), deleted).await;
    portal.close().await;
    let migrated = migration.finish(&mut |_| {}).await.unwrap();
    let migrated = migrated.commit().await.unwrap();

    let mut connection = connect(&full.path()).await;
    let left = number(&mut connection, "SELECT count(*) FROM access_log").await;
    assert_eq!(migrated.rows["access_log"], left.cast_unsigned());
    assert_eq!(migrated.rows["flow_log"], 1);
    assert_eq!(
        count(&server, "SELECT count(*) FROM access_log").await,
        left
    );
    let gone = "SELECT count(*) FROM access_log WHERE seq IN (20, 3005, 4500, 4600)";
    assert_eq!(count(&server, gone).await, 0);
    let last = "SELECT count(*) FROM access_log WHERE seq = 5011 AND reason = 'last'";
    assert_eq!(count(&server, last).await, 1);
    let of_another = "SELECT count(*) FROM access_log WHERE reason = 'of another account'";
    assert_eq!(count(&server, of_another).await, 1);
    let renamed = "SELECT count(*) FROM account WHERE name = 'Renamed' AND last_access = 5011";
    assert_eq!(count(&server, renamed).await, 1);
}

#[tokio::test]
async fn a_migration_waits_for_the_portal_of_a_server_and_takes_no_database_from_one() {
    let full = Full::new().await;
    let server = Server::get().bare_database().await;
    full.migrate(&server).await.unwrap();
    let portal =
        || -> PostgresOptions { server.options().secrets(SecretsAccess::Nothing).portal() };
    let running = SqlStore::open(portal()).await.unwrap();
    running.report(&report(1), Claim::Take).await.unwrap();
    let back = full.other("back.db");
    let begin = || Migration::begin(server.options(), SqliteOptions::file(&back));
    let mut migration = begin().await.unwrap();
    migration.copy_logs(&mut |_| {}).await.unwrap();
    assert!(!migration.take_source().await.unwrap());
    let text = refused(begin().await).await;
    assert!(text.contains("under way"), "{text}");
    assert!(back.exists());
    running.retire(report(1).id).await.unwrap();
    running.close().await;
    let mut is_taken = false;
    for _ in 0..100 {
        is_taken = migration.take_source().await.unwrap();
        if is_taken {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(is_taken);
    assert!(
        SqlStore::open(portal()).await.is_err(),
        "no portal starts meanwhile"
    );
    drop(migration);
    assert!(!back.exists(), "nothing is left of it");

    let empty = Server::get().database().await;
    let running = SqlStore::open(empty.options().portal()).await.unwrap();
    running.report(&report(1), Claim::Take).await.unwrap();
    let text = refused(Migration::begin(full.options(), empty.options()).await).await;
    assert!(text.contains("a portal runs on it"), "{text}");
    running.close().await;
}

#[tokio::test]
async fn a_pooler_may_be_before_the_server_and_a_file_of_a_killed_one_is_in_no_way() {
    let full = Full::new().await;
    let server = Server::get().database().await;
    let migration = Migration::begin(full.options(), server.pooled_options());
    let there = whole(migration.await.unwrap()).await.unwrap();
    let back = full.other("back.db");
    std::fs::write(&back, "left by one that was killed").unwrap();
    let migration = Migration::begin(server.pooled_options(), SqliteOptions::file(&back));
    assert_eq!(whole(migration.await.unwrap()).await.unwrap(), there);
}
