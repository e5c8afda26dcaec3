//! A PostgreSQL server for the tests of one process, and a database for each test.
//!
//! The server runs from Debian's package, as a user without rights, and ends with the process, however that ends: a
//! shell waits for the end of a pipe that the process holds.

use culvert_store::Store as _;
use culvert_store_sql::{PostgresOptions, SqlStore};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use tokio::sync::OnceCell;

/// The database that all others of the tests are copies of.
const TEMPLATE: &str = "template_culvert";

/// A server that is running.
pub(crate) struct Server {
    pub(crate) socket: PathBuf,
    /// Its standard input ends with this process.
    _child: Child,
    next: AtomicU32,
    /// Databases of tests that have ended.
    used: Mutex<Vec<String>>,
}

/// A database that goes when its test ends.
pub(crate) struct Database {
    server: &'static Server,
    pub(crate) name: String,
}

impl Server {
    /// The server of this process.
    pub(crate) fn get() -> &'static Self {
        static SERVER: OnceLock<Server> = OnceLock::new();
        SERVER.get_or_init(Self::start)
    }

    fn start() -> Self {
        let mut command = match is_root() {
            // A server refuses to run as root.
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups", "sh"]);
                command
            }
            false => Command::new("sh"),
        };
        let mut child = command
            .args(["-c", include_str!("server.sh"), "server.sh"])
            .arg(programs())
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("setpriv and sh are there");
        let mut said = String::new();
        let output = child.stdout.take().expect("it is a pipe");
        BufReader::new(output).read_line(&mut said).unwrap();
        let socket = PathBuf::from(said.trim_end());
        assert!(socket.is_absolute(), "the server did not start: see above");
        Self {
            socket,
            _child: child,
            next: AtomicU32::new(1),
            used: Mutex::default(),
        }
    }

    /// The URL of one of its databases, for the user that made it.
    pub(crate) fn url(&self, database: &str) -> String {
        let socket = self.socket.display();
        format!("postgres:///{database}?host={socket}&user=culvert")
    }

    /// Runs a statement as the server's superuser.
    pub(crate) async fn run(&self, database: &str, sql: &str) {
        let pool = self.connect(database).await;
        let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
        pool.close().await;
    }

    async fn connect(&self, database: &str) -> PgPool {
        let options: PgConnectOptions = self.url(database).parse().unwrap();
        let pool = PgPoolOptions::new().max_connections(1);
        pool.connect_with(options).await.unwrap()
    }

    /// An empty database with the schema of the portal.
    pub(crate) async fn database(&'static self) -> Database {
        static MADE: OnceCell<()> = OnceCell::const_new();
        let make = async || {
            self.run("postgres", &format!("CREATE DATABASE {TEMPLATE}"))
                .await;
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
        let used = std::mem::take(&mut *self.used.lock().unwrap());
        for name in used {
            let sql = format!("DROP DATABASE {name} WITH (FORCE)");
            self.run("postgres", &sql).await;
        }
        let name = format!("test_{}", self.next.fetch_add(1, Ordering::Relaxed));
        let sql = format!("CREATE DATABASE {name} TEMPLATE {template}");
        self.run("postgres", &sql).await;
        Database { server: self, name }
    }
}

impl Database {
    pub(crate) fn url(&self) -> String {
        self.server.url(&self.name)
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        self.url().parse().unwrap()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let mut used = self.server.used.lock().unwrap();
        used.push(std::mem::take(&mut self.name));
    }
}

/// The directory of the newest server's programs.
fn programs() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten();
    let versions = versions.filter_map(|version| {
        let path = version.ok()?.path();
        let number: u32 = path.file_name()?.to_str()?.parse().ok()?;
        let programs = path.join("bin");
        has_server(&programs).then_some((number, programs))
    });
    let newest = versions.max();
    let (_, programs) = newest.expect("PostgreSQL is not installed: run scripts/setup.sh");
    programs
}

fn has_server(programs: &Path) -> bool {
    programs.join("initdb").exists()
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("Uid:"));
    line.is_some_and(|line| line.split_whitespace().nth(2) == Some("0"))
}
