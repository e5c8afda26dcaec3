//! From a path to connections of a database that is up to date.

use super::fault::fault;
use super::schema::{Schema, SchemaState, Step, note_later};
use super::secrets_key;
use super::value::pragma;
use crate::sealing::{Sealer, Sealing, SecretsAccess};
use culvert_secrets::KeyId;
use culvert_store::StoreError;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The schema, from the first version on. A later version appends a step and changes none.
const STEPS: [Step; 21] = [
    Step::Break(include_str!("schema.sql")),
    Step::Break(include_str!("schema_applications.sql")),
    Step::Break(include_str!("schema_people.sql")),
    Step::Break(include_str!("schema_flows.sql")),
    Step::Break(include_str!("schema_providers.sql")),
    Step::Break(include_str!("schema_factors.sql")),
    Step::Break(include_str!("schema_passkeys.sql")),
    Step::Break(include_str!("schema_within.sql")),
    Step::Break(include_str!("schema_proofs.sql")),
    Step::Break(include_str!("schema_gateways.sql")),
    Step::Break(include_str!("schema_secrets.sql")),
    Step::Break(include_str!("schema_targets.sql")),
    Step::Break(include_str!("schema_invitations.sql")),
    Step::Break(include_str!("schema_log_order.sql")),
    Step::Break(include_str!("schema_pending.sql")),
    Step::Expand(include_str!("schema_versions.sql")),
    Step::Expand(include_str!("schema_relays.sql")),
    Step::Expand(include_str!("schema_paths.sql")),
    Step::Expand(include_str!("schema_inbound.sql")),
    Step::Expand(include_str!("schema_plain_clients.sql")),
    Step::Expand(include_str!("schema_name_shares.sql")),
];

/// "CULV": says whose database a file is.
const APPLICATION_ID: i64 = 0x4355_4c56;

/// Connections that read at once: a page takes under a millisecond, so four serve thousands a
/// second.
const READERS: u32 = 4;

/// The longest wait of a caller for a connection: some hundred writes ahead of it.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of the write-ahead log that stay on the disk after a checkpoint.
const WAL_RETAINED_BYTES: u32 = 64 << 20;

/// Bytes of a page, SQLite's default.
const PAGE_LEN: u64 = 4_096;

/// Memory for pages while a database is filled: the entries of an index lie anywhere in it.
const EMPTY_CACHE_KIB: u32 = 64 << 10;

const MODE_FILE: u32 = 0o600;
const MODE_DIRECTORY: u32 = 0o700;

impl Schema {
    /// The schema of SQLite's database.
    pub fn of_sqlite() -> Self {
        Self::of(&STEPS)
    }
}

/// The path of the database and its settings.
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    path: Option<PathBuf>,
    busy_timeout: Duration,
    max_bytes: Option<u64>,
    secrets: SecretsAccess,
    schema: Option<Schema>,
}

impl SqliteOptions {
    /// In a file, which is made where there is none, together with its directory.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            path: Some(path.into()),
            ..Self::memory()
        }
    }

    /// In memory, gone with the store.
    pub const fn memory() -> Self {
        Self {
            path: None,
            busy_timeout: Duration::from_secs(5),
            max_bytes: None,
            secrets: SecretsAccess::Plain,
            schema: None,
        }
    }

    /// The time to wait for another process that holds the database; 5 s if not said. After it, the
    /// answer is [`StoreError::Locked`].
    #[must_use]
    pub const fn busy_timeout_ms(mut self, timeout_ms: u32) -> Self {
        self.busy_timeout = Duration::from_millis(timeout_ms as u64);
        self
    }

    /// The largest size of the file, in whole pages of 4 KiB; no limit if not said. Beyond it, the
    /// answer is [`StoreError::Full`].
    #[must_use]
    pub const fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// The access to secrets; [`SecretsAccess::Plain`] if not said.
    #[must_use]
    pub fn secrets(mut self, secrets: SecretsAccess) -> Self {
        self.secrets = secrets;
        self
    }

    /// The schema of another version of the program; this one's if not said.
    #[must_use]
    pub fn schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    pub(super) fn known_schema(&self) -> Schema {
        self.schema.clone().unwrap_or_else(Schema::of_sqlite)
    }

    /// The path of the database's file, if it is in one.
    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Options of a connection that has not looked at the database yet.
    pub(super) fn bare(&self) -> SqliteConnectOptions {
        let options = match &self.path {
            Some(path) => SqliteConnectOptions::new().filename(path),
            None => SqliteConnectOptions::new().filename(":memory:"),
        };
        options.busy_timeout(self.busy_timeout)
    }

    fn connect(&self) -> SqliteConnectOptions {
        let options = self
            .bare()
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .pragma("trusted_schema", "OFF")
            .pragma("secure_delete", "ON")
            .pragma("cell_size_check", "ON")
            .pragma("journal_size_limit", WAL_RETAINED_BYTES.to_string());
        match self.max_bytes {
            Some(bytes) => options.pragma("max_page_count", (bytes / PAGE_LEN).max(1).to_string()),
            None => options,
        }
    }
}

/// A database that is open.
pub(super) struct Opened {
    /// One connection, which writes.
    pub(super) writer: SqlitePool,
    /// Connections that only read.
    pub(super) reader: SqlitePool,
    pub(super) sealing: Sealing,
}

pub(super) async fn open(options: &SqliteOptions) -> Result<Opened, StoreError> {
    if let Some(path) = &options.path {
        prepare_file(path).map_err(|error| unavailable(path, &error))?;
        // Before anything is written: choosing the journal would be a write already.
        look(options, &options.secrets).await?;
    }
    let writer = pool(1)
        .connect_with(options.connect())
        .await
        .map_err(fault)?;
    let mut connection = writer.acquire().await.map_err(fault)?;
    migrate(&mut connection, &options.known_schema()).await?;
    let sealing = sealing(&mut connection, &options.secrets).await?;
    drop(connection);
    let reader = match options.path {
        Some(_) => {
            let options = options.connect().pragma("query_only", "ON");
            pool(READERS).connect_with(options).await.map_err(fault)?
        }
        None => writer.clone(),
    };
    Ok(Opened {
        writer,
        reader,
        sealing,
    })
}

/// A connection to a database that nobody else uses, whose secrets are encrypted with `key`, or in clear.
pub(super) async fn for_rekey(
    database: &Path,
    key: Option<&Sealer>,
) -> Result<SqliteConnection, StoreError> {
    let options = SqliteOptions::file(database);
    let access = key
        .cloned()
        .map_or(SecretsAccess::Plain, SecretsAccess::Key);
    look(&options, &access).await?;
    let mut connection = options.connect().connect().await.map_err(fault)?;
    let schema = options.known_schema();
    // A secret in a column of a later version would keep its old key.
    schema.check_whole(state(&mut connection).await?)?;
    migrate(&mut connection, &schema).await?;
    Ok(connection)
}

/// A new database in an empty file that nobody else knows of, with the schema and no row. Only a whole one is of use:
/// the caller sees to it that it gets to the disk.
pub(super) async fn empty(path: &Path) -> Result<SqlitePool, StoreError> {
    let options = SqliteOptions::file(path)
        .connect()
        .journal_mode(SqliteJournalMode::Memory)
        .synchronous(SqliteSynchronous::Off)
        .pragma("cache_size", format!("-{EMPTY_CACHE_KIB}"));
    let pool = pool(1).connect_with(options).await.map_err(fault)?;
    let mut connection = pool.acquire().await.map_err(fault)?;
    migrate(&mut connection, &Schema::of_sqlite()).await?;
    drop(connection);
    Ok(pool)
}

/// Checks that the database may be opened so. It writes nothing.
async fn look(options: &SqliteOptions, access: &SecretsAccess) -> Result<(), StoreError> {
    let mut connection = options.bare().connect().await.map_err(fault)?;
    let fits = async {
        let found = check(&mut connection, &options.known_schema()).await?;
        if found.version == 0 {
            return Ok(());
        }
        expect_access(&mut connection, access).await.map(drop)
    };
    let fits = fits.await;
    connection.close().await.map_err(fault)?;
    fits
}

/// The state of secrets from now on. A database without an account begins with the key that is given; in one that
/// was not cleaned up, that is done now.
async fn sealing(
    connection: &mut SqliteConnection,
    access: &SecretsAccess,
) -> Result<Sealing, StoreError> {
    let found = expect_access(connection, access).await?;
    let SecretsAccess::Key(sealer) = access else {
        return Ok(match access {
            SecretsAccess::Nothing => Sealing::Nothing,
            _ => Sealing::Plain,
        });
    };
    match found {
        None => secrets_key::set_key(connection, Some(sealer.key_id()), true).await?,
        Some((_, true)) => {}
        Some((_, false)) => secrets_key::clean(connection).await?,
    }
    Ok(Sealing::Key(sealer.clone()))
}

/// The key of the database and whether it is clean, if the access goes with that.
async fn expect_access(
    connection: &mut SqliteConnection,
    access: &SecretsAccess,
) -> Result<Option<(KeyId, bool)>, StoreError> {
    let found = secrets_key::key_of(connection).await?;
    let key = found.map(|(key, _)| key);
    match access {
        SecretsAccess::Nothing => {}
        SecretsAccess::Plain => secrets_key::expect(key, None)?,
        SecretsAccess::Key(_) if key.is_none() && is_new(connection).await? => {}
        SecretsAccess::Key(sealer) => secrets_key::expect(key, Some(sealer))?,
    }
    Ok(found)
}

async fn is_new(connection: &mut SqliteConnection) -> Result<bool, StoreError> {
    let accounts = pragma(connection, "SELECT count(*) FROM account").await?;
    Ok(accounts == 0)
}

/// A pool whose connections live as long as it does: a database in memory would end with one.
fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .min_connections(1)
        .max_connections(connections)
        .acquire_timeout(ACQUIRE_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
}

fn unavailable(path: &Path, error: &io::Error) -> StoreError {
    let text = format!("{}: {error}", path.display());
    StoreError::Unavailable(io::Error::new(error.kind(), text).into())
}

/// Sees to it that the file is there and nobody else's to read. The files of the write-ahead log
/// get its mode.
fn prepare_file(path: &Path) -> io::Result<()> {
    if let Some(directory) = path.parent().filter(|path| !path.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(MODE_DIRECTORY)
            .create(directory)?;
    }
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(MODE_FILE)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the database is no regular file",
        ));
    }
    if is_open_to_others(&metadata.permissions()) {
        tracing::warn!(
            path = %path.display(),
            "others could use the database; its mode is set to 0600"
        );
        file.set_permissions(Permissions::from_mode(MODE_FILE))?;
    }
    Ok(())
}

fn is_open_to_others(permissions: &Permissions) -> bool {
    permissions.mode() & 0o077 != 0
}

/// The state of a database that programs of the schema may work on.
pub(super) async fn check(
    connection: &mut SqliteConnection,
    schema: &Schema,
) -> Result<SchemaState, StoreError> {
    let found = state(connection).await?;
    schema.check(found)?;
    Ok(found)
}

/// The numbers of the database, those of no database for an empty file.
pub(super) async fn state(connection: &mut SqliteConnection) -> Result<SchemaState, StoreError> {
    let readable_by = pragma(connection, "PRAGMA user_version").await?;
    let application = pragma(connection, "PRAGMA application_id").await?;
    let tables = pragma(connection, "SELECT count(*) FROM sqlite_schema").await?;
    if application != APPLICATION_ID && (application, readable_by, tables) != (0, 0, 0) {
        return Err(StoreError::corrupt("it is a database of another program"));
    }
    let readable_by = u32::try_from(readable_by).unwrap_or(u32::MAX);
    let counted =
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'culvert_schema'";
    // Before there was such a table, each script ended the programs of earlier versions.
    let version = match pragma(connection, counted).await? {
        0 => readable_by,
        _ => {
            let scripts = pragma(connection, "SELECT scripts FROM culvert_schema").await?;
            u32::try_from(scripts).unwrap_or(u32::MAX)
        }
    };
    Ok(SchemaState {
        version,
        readable_by,
    })
}

/// Runs the scripts that the database lacks, all of them or none.
async fn migrate(connection: &mut SqliteConnection, schema: &Schema) -> Result<(), StoreError> {
    // A command beside a portal finds nothing to do, and does not wait for the portal's writes to find that.
    let found = check(connection, schema).await?;
    if schema.missing(found).0.is_empty() {
        note_later(found, schema.version());
        return Ok(());
    }
    let mut transaction = connection
        .begin_with("BEGIN EXCLUSIVE")
        .await
        .map_err(fault)?;
    let found = check(&mut transaction, schema).await?;
    note_later(found, schema.version());
    let (scripts, after) = schema.missing(found);
    if scripts.is_empty() {
        return transaction.rollback().await.map_err(fault);
    }
    run(&mut transaction, scripts, after).await?;
    transaction.commit().await.map_err(fault)
}

/// Takes away what earlier programs alone need. The caller has the database for itself.
pub(super) async fn contract(
    pool: &SqlitePool,
    schema: &Schema,
) -> Result<SchemaState, StoreError> {
    let mut transaction = pool.begin_with("BEGIN EXCLUSIVE").await.map_err(fault)?;
    let found = check(&mut transaction, schema).await?;
    let (scripts, after) = schema.contractions(found);
    if scripts.is_empty() {
        return Ok(found);
    }
    run(&mut transaction, scripts, after).await?;
    transaction.commit().await.map_err(fault)?;
    Ok(after)
}

/// Runs scripts, and marks the database with its numbers.
async fn run(
    connection: &mut SqliteConnection,
    scripts: Vec<&'static str>,
    after: SchemaState,
) -> Result<(), StoreError> {
    let marks = format!(
        "UPDATE culvert_schema SET scripts = {}; PRAGMA user_version = {}; PRAGMA application_id = {APPLICATION_ID}",
        after.version, after.readable_by
    );
    let scripts = scripts.into_iter().map(str::to_owned);
    for script in scripts.chain([marks]) {
        sqlx::raw_sql(sqlx::AssertSqlSafe(script))
            .execute(&mut *connection)
            .await
            .map_err(fault)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_its_owner_alone_can_use_is_not_open_to_others() {
        for (mode, is_open) in [
            (0o600, false),
            (0o100_600, false),
            (0o100_700, false),
            (0o640, true),
            (0o100_604, true),
            (0o100_601, true),
        ] {
            let permissions = Permissions::from_mode(mode);
            assert_eq!(is_open_to_others(&permissions), is_open, "{mode:o}");
        }
    }
}
