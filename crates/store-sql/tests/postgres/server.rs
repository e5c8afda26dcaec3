//! A PostgreSQL server for the tests of one process, and a database for each test.

use crate::process::Process;
use culvert_store::Store as _;
use culvert_store_sql::{PostgresOptions, SqlStore};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use tokio::sync::OnceCell;

/// The database that all others of the tests are copies of.
const TEMPLATE: &str = "template_culvert";

/// A server that is running.
pub(crate) struct Server {
    process: Process,
    next: AtomicU32,
    /// Databases of tests that have ended.
    used: Mutex<Vec<String>>,
}

/// A database of one test at a time.
pub(crate) struct Database {
    server: &'static Server,
    pub(crate) name: String,
    /// Its next test finds it without rows.
    is_to_clear: bool,
}

impl Server {
    /// The server of this process.
    pub(crate) fn get() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    fn start() -> Self {
        Self {
            process: Process::start(),
            next: AtomicU32::new(1),
            used: Mutex::default(),
        }
    }

    /// The directory of its socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.process.socket
    }

    /// The URL of one of its databases, for the user that made it.
    pub(crate) fn url(&self, database: &str) -> String {
        let socket = self.socket().display();
        format!("postgres:///{database}?host={socket}&user=culvert")
    }

    /// Runs a statement as the server's superuser.
    pub(crate) async fn run(&self, database: &str, sql: &str) {
        let pool = self.connect(database).await;
        let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
        pool.close().await;
    }

    /// Ends all connections to a database.
    pub(crate) async fn end_connections(&self, database: &str) {
        let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname";
        self.run("postgres", &format!("{all} = '{database}'")).await;
    }

    async fn connect(&self, database: &str) -> PgPool {
        let options: PgConnectOptions = self.url(database).parse().unwrap();
        let pool = PgPoolOptions::new().max_connections(1);
        pool.connect_with(options).await.unwrap()
    }

    /// An empty database with the schema of the portal, for a test that changes nothing but rows.
    pub(crate) async fn cleared_database(&'static self) -> Database {
        let used = self.used.lock().unwrap().pop();
        let Some(name) = used else {
            let mut database = self.database().await;
            database.is_to_clear = true;
            return database;
        };
        // Some rows are a few milliseconds, and a new database is a hundred.
        let sql = "SET session_replication_role = replica; \
                   DO $$ DECLARE name text; BEGIN FOR name IN SELECT tablename FROM pg_tables \
                   WHERE schemaname = 'public' AND tablename <> 'culvert_schema' \
                   LOOP EXECUTE 'DELETE FROM ' || name; END LOOP; END $$";
        self.run(&name, sql).await;
        Database {
            server: self,
            name,
            is_to_clear: true,
        }
    }

    /// A new database with the schema of the portal.
    pub(crate) async fn database(&'static self) -> Database {
        static MADE: OnceCell<()> = OnceCell::const_new();
        let make = async || {
            let sql = format!("CREATE DATABASE {TEMPLATE}");
            self.run("postgres", &sql).await;
            let options: PostgresOptions = self.url(TEMPLATE).parse().unwrap();
            SqlStore::open(options).await.unwrap().close().await;
        };
        MADE.get_or_init(make).await;
        self.copy(TEMPLATE).await
    }

    /// A database without anything in it.
    pub(crate) async fn bare_database(&'static self) -> Database {
        self.copy("template0").await
    }

    async fn copy(&'static self, template: &str) -> Database {
        let name = format!("test_{}", self.next.fetch_add(1, Ordering::Relaxed));
        let sql = format!("CREATE DATABASE {name} TEMPLATE {template}");
        self.run("postgres", &sql).await;
        Database {
            server: self,
            name,
            is_to_clear: false,
        }
    }
}

impl Database {
    /// Its URL at a pooler that gives each transaction another connection.
    pub(crate) fn pooled_options(&self) -> PostgresOptions {
        format!("{}&port=6432", self.url()).parse().unwrap()
    }

    pub(crate) fn url(&self) -> String {
        self.server.url(&self.name)
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        self.url().parse().unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if self.is_to_clear {
            let mut used = self.server.used.lock().unwrap();
            used.push(std::mem::take(&mut self.name));
        }
    }
}
