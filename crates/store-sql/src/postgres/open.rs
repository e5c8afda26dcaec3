//! From a URL to connections of a database that is up to date.

use super::earlier::expect_no_portal_before;
use super::moving::{expect_no_move, take, taken};
use super::{
    CONNECT_TIMEOUT, CONNECTIONS, MAX_LIFETIME, PostgresOptions, SCHEMA_LOCK, begin_writing, lock,
};
use crate::connection::Transaction;
use crate::fault::fault;
use crate::schema::{Schema, SchemaState, Step, note_later};
use crate::sealing::{Sealing, SecretsAccess};
use crate::secrets_key;
use culvert_secrets::KeyId;
use culvert_store::StoreError;
use sqlx::postgres::{PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection};
use std::borrow::Cow;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The schema, from the first version on. A later version appends a step and changes none.
const STEPS: [Step; 10] = [
    Step::Break(include_str!("schema.sql")),
    Step::Break(include_str!("../schema_log_order.sql")),
    Step::Break(include_str!("schema_pending.sql")),
    Step::Break(include_str!("../schema_portals.sql")),
    Step::Expand(include_str!("schema_versions.sql")),
    Step::Expand(include_str!("schema_relays.sql")),
    Step::Expand(include_str!("schema_paths.sql")),
    Step::Expand(include_str!("schema_inbound.sql")),
    Step::Expand(include_str!("schema_plain_clients.sql")),
    Step::Expand(include_str!("schema_name_shares.sql")),
];

/// The text that says whose database it is.
const MARK: &str = "CULVERT";

/// The oldest version that still gets corrections in 2026, as the server numbers its versions.
const OLDEST_SERVER: u64 = 140_000;

/// Looks for the lock of the portal before the database counts as in use, for 2 s in all.
const LOCK_TRIES: u32 = 10;

/// The time between two of them.
const LOCK_PAUSE: Duration = Duration::from_millis(200);

/// All facts about a database that decide whether anything is written to it. Tables of extensions are nobody's.
const LOOK: &str = "SELECT current_setting('server_encoding') AS encoding, \
    CAST(current_setting('server_version_num') AS bigint) AS server, \
    current_setting('server_version') AS server_name, \
    CAST(CAST(pg_is_in_recovery() AS integer) AS bigint) AS in_recovery, \
    current_setting('transaction_read_only') AS read_only, \
    CAST(current_database() AS text) AS database, CAST(current_schema() AS text) AS schema, \
    (SELECT count(*) FROM pg_attribute WHERE attrelid = to_regclass('culvert_schema') \
     AND attname IN ('mark', 'version') AND NOT attisdropped) AS marks, \
    (SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p', 'f', 'v', 'm') \
     AND relnamespace = to_regnamespace(quote_ident(current_schema())) \
     AND NOT EXISTS (SELECT 1 FROM pg_depend WHERE classid = CAST('pg_class' AS regclass) \
      AND objid = pg_class.oid AND deptype = 'e')) AS tables";

impl Schema {
    /// The schema of PostgreSQL's database.
    pub fn of_postgres() -> Self {
        Self::of(&STEPS)
    }
}

/// A database that is open.
pub(crate) struct Opened {
    /// Connections that write.
    pub(crate) writer: PgPool,
    /// Connections that only read: those that write do not have all.
    pub(crate) reader: PgPool,
    pub(crate) sealing: Sealing,
    /// A connection for the reports of a portal.
    pub(crate) reports: PgPool,
}

pub(crate) async fn open(options: &PostgresOptions) -> Result<Opened, StoreError> {
    try_to_connect(options).await?;
    let writer = pool(options, CONNECTIONS);
    let mut transaction = begin_writing(&writer, None, None).await?;
    if options.is_portal {
        expect_no_move(&mut transaction).await?;
    }
    let schema = options.known_schema();
    note_later(
        bring_up_to_date(&mut transaction, &schema).await?,
        schema.version(),
    );
    let sealing = sealing(&mut transaction, &options.secrets).await?;
    transaction.commit().await?;
    Ok(Opened {
        writer,
        reader: pool(options, CONNECTIONS),
        sealing,
        reports: pool(options, 1),
    })
}

/// Begins to fill a database, which no portal runs on until the transaction ends. True if it has no account yet.
pub(crate) async fn begin_empty(
    options: &PostgresOptions,
) -> Result<(Transaction, bool), StoreError> {
    try_to_connect(options).await?;
    let mut transaction = begin_writing(&pool(options, 1), None, None).await?;
    // A server takes a moment to notice the end of a process that had the lock.
    let mut tries = LOCK_TRIES;
    let schema = options.known_schema();
    let state = bring_up_to_date(&mut transaction, &schema).await?;
    schema.check_whole(state)?;
    while !take(&mut transaction).await? {
        tries -= 1;
        if tries == 0 {
            return Err(taken());
        }
        sleep(LOCK_PAUSE).await;
    }
    let is_empty = !has_account(&mut transaction).await?;
    Ok((transaction, is_empty))
}

/// A pool would tell of a connection that is refused only that there is none.
async fn try_to_connect(options: &PostgresOptions) -> Result<(), StoreError> {
    let connecting = timeout(CONNECT_TIMEOUT, options.connect.connect()).await;
    let connection = connecting.map_err(|_| {
        let seconds = CONNECT_TIMEOUT.as_secs();
        let text = format!("no answer within {seconds} s from database {options}");
        StoreError::Unavailable(text.into())
    })?;
    let connection = connection.map_err(|error| refused(options, error))?;
    connection.close().await.map_err(fault)
}

/// Checks the database, and runs what is missing of the schema.
async fn bring_up_to_date(
    transaction: &mut Transaction,
    schema: &Schema,
) -> Result<SchemaState, StoreError> {
    lock(transaction, SCHEMA_LOCK).await?;
    let found = check(transaction).await?;
    schema.check(found)?;
    let (scripts, after) = schema.missing(found);
    if !scripts.is_empty() {
        run(transaction, scripts, after).await?;
    }
    Ok(after)
}

/// The numbers of the database, as a transaction sees them.
pub(crate) async fn state(transaction: &mut Transaction) -> Result<SchemaState, StoreError> {
    let state = marked(transaction).await?;
    state.ok_or_else(|| StoreError::corrupt("the table culvert_schema"))
}

/// Takes away what earlier programs alone need, in a transaction that keeps changes of the configuration away.
pub(crate) async fn contract(
    transaction: &mut Transaction,
    schema: &Schema,
) -> Result<SchemaState, StoreError> {
    lock(transaction, SCHEMA_LOCK).await?;
    let found = state(transaction).await?;
    schema.check(found)?;
    let (scripts, after) = schema.contractions(found);
    if scripts.is_empty() {
        return Ok(found);
    }
    expect_no_portal_before(transaction, after.readable_by).await?;
    run(transaction, scripts, after).await?;
    Ok(after)
}

async fn has_account(transaction: &mut Transaction) -> Result<bool, StoreError> {
    let accounts = "SELECT account FROM account LIMIT 1";
    let row = transaction.fetch_one(accounts, Vec::new()).await?;
    Ok(row.is_some())
}

fn pool(options: &PostgresOptions, connections: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(CONNECT_TIMEOUT)
        .max_lifetime(MAX_LIFETIME)
        .connect_lazy_with(options.connect.clone())
}

/// The reason for which there is no connection, with the fix where the server says why.
fn refused(options: &PostgresOptions, error: sqlx::Error) -> StoreError {
    let code = match &error {
        sqlx::Error::Database(error) => error.code().map(Cow::into_owned),
        _ => None,
    };
    let fix = match code.as_deref() {
        Some("28P01" | "28000") => "check its user and password, and the server's pg_hba.conf",
        Some("3D000") => "create it (createdb), or correct the name in the URL",
        Some("53300") => "raise the server's max_connections, or end others' connections",
        Some("57P03") => "wait until the server has started",
        Some(_) => return fault(error),
        None => match &error {
            sqlx::Error::Tls(_) => {
                "give the certificate of its authority (sslrootcert=FILE in the URL), and the host as it is in the \
                 server's certificate"
            }
            _ => "check host and port, and that the server runs and listens there",
        },
    };
    let text = match &error {
        sqlx::Error::Database(error) => error.message().to_owned(),
        error => error.to_string(),
    };
    StoreError::Unavailable(format!("database {options}: {text}; {fix}").into())
}

/// The numbers of a database that a portal can have. It writes nothing.
async fn check(transaction: &mut Transaction) -> Result<SchemaState, StoreError> {
    let row = transaction.fetch_one(LOOK, Vec::new()).await?;
    let row = row.ok_or_else(|| StoreError::corrupt("an answer without a row"))?;
    let row = row.columns();
    let unusable = |detail: String| StoreError::Unusable { detail };
    let database = row.text("database")?;
    if row.number("server")? < OLDEST_SERVER {
        let server = row.text("server_name")?;
        let least = OLDEST_SERVER / 10_000;
        return Err(unusable(format!(
            "its server is PostgreSQL {server}, and culvert needs {least} or later: upgrade the server"
        )));
    }
    let encoding = row.text("encoding")?;
    if encoding != "UTF8" {
        return Err(unusable(format!(
            "database {database} has encoding {encoding}, and culvert needs UTF8: make one with \
             createdb --encoding=UTF8 --template=template0"
        )));
    }
    let Some(schema) = row.get::<Option<String>>("schema")? else {
        return Err(unusable(format!(
            "database {database} has no schema for the tables: create the one that the user's search_path names"
        )));
    };
    let of_another = || {
        unusable(format!(
            "schema {schema} of database {database} has tables of another program: make a database for the \
             portal alone (createdb), and name it in the URL"
        ))
    };
    let found = match (row.number("marks")?, row.number("tables")?) {
        (2, _) => marked(transaction).await?.ok_or_else(of_another)?,
        (_, 0) => SchemaState::default(),
        _ => return Err(of_another()),
    };
    if row.flag("in_recovery")? {
        return Err(StoreError::ReadOnly {
            detail: "its server is a standby: name the primary in the URL".to_owned(),
        });
    }
    if row.text("read_only")? == "on" {
        return Err(StoreError::ReadOnly {
            detail: "its transactions are read-only: reset default_transaction_read_only of server, database and user"
                .to_owned(),
        });
    }
    Ok(found)
}

/// The numbers of a database that has the table of them; none if the table is another program's.
async fn marked(transaction: &mut Transaction) -> Result<Option<SchemaState>, StoreError> {
    // Before there was a column of scripts, each script ended the programs of earlier versions.
    let sql = "SELECT CAST(mark AS text) AS mark, CAST(version AS bigint) AS readable_by, \
               COALESCE(CAST(to_jsonb(culvert_schema) ->> 'scripts' AS bigint), CAST(version AS bigint)) AS version \
               FROM culvert_schema";
    let Some(row) = transaction.fetch_one(sql, Vec::new()).await? else {
        return Ok(None);
    };
    let row = row.columns();
    if row.text("mark")? != MARK {
        return Ok(None);
    }
    let number = |column| -> Result<u32, StoreError> {
        Ok(u32::try_from(row.number(column)?).unwrap_or(u32::MAX))
    };
    Ok(Some(SchemaState {
        version: number("version")?,
        readable_by: number("readable_by")?,
    }))
}

/// Runs scripts, and marks the database with its numbers.
async fn run(
    transaction: &mut Transaction,
    scripts: Vec<&'static str>,
    after: SchemaState,
) -> Result<(), StoreError> {
    // A script may read all rows of a log. Another portal that starts meanwhile waits for the lock.
    let no_limit = "SET LOCAL statement_timeout = 0".to_owned();
    transaction.script(no_limit).await?;
    for script in scripts {
        transaction.script(script.to_owned()).await?;
    }
    let sql = format!(
        "UPDATE culvert_schema SET version = {}, scripts = {}",
        after.readable_by, after.version
    );
    transaction.script(sql).await
}

/// The state of secrets from now on. A database without an account begins with the key that is given.
async fn sealing(
    transaction: &mut Transaction,
    access: &SecretsAccess,
) -> Result<Sealing, StoreError> {
    let row = transaction
        .fetch_one("SELECT key_id FROM secrets_key", Vec::new())
        .await?;
    let found = row.map(|row| row.columns().bytes("key_id")).transpose()?;
    let found = found.map(KeyId::from_bytes);
    match access {
        SecretsAccess::Nothing => Ok(Sealing::Nothing),
        SecretsAccess::Plain => {
            secrets_key::expect(found, None)?;
            Ok(Sealing::Plain)
        }
        SecretsAccess::Key(sealer) => {
            if found.is_none() && !has_account(transaction).await? {
                let sql = "INSERT INTO secrets_key (key_id) VALUES (?)";
                let values = vec![sealer.key_id().as_bytes().as_slice().into()];
                transaction.execute(sql, values).await?;
            } else {
                secrets_key::expect(found, Some(sealer))?;
            }
            Ok(Sealing::Key(sealer.clone()))
        }
    }
}
