//! Rows of a table between the two databases.

use super::tables::{Kind, Table};
use crate::arrays::{arrays, bind_arrays};
use crate::connection::{Transaction, answer};
use crate::dialect::Dialect;
use crate::fault::fault;
use crate::value::{Columns, Value, places, query};
use culvert_store::StoreError;
use sqlx::{AssertSqlSafe, PgConnection, SqliteConnection};
use std::mem::take;

/// The rows that are read and written at once: some megabytes of the longest ones, and a statement of some milliseconds.
pub(super) const BATCH: usize = 2_000;

/// The most values of one statement of SQLite. It takes 32,766; more than some hundred rows save no time.
const SQLITE_VALUES: usize = 2_000;

/// A row: the values of [`Table::columns`].
pub(super) type CopiedRow = Vec<Value>;

/// Reads the next rows in the order of the primary key, behind the row with the key `after`, and of one account if it
/// is a log.
pub(super) async fn next(
    reading: &mut Transaction,
    table: &Table,
    after: Option<Vec<Value>>,
) -> Result<Vec<CopiedRow>, StoreError> {
    let key = table.key().join(", ");
    let (condition, values) = match after {
        Some(values) => {
            let places = places(values.len());
            (format!(" WHERE ({key}) > ({places})"), values)
        }
        None => (String::new(), Vec::new()),
    };
    let rest = format!("{condition} ORDER BY {key} LIMIT {BATCH}");
    select(reading, table, &rest, values).await
}

/// Reads the next rows of a log of one account, behind the row with the number `after`.
pub(super) async fn next_of_log(
    reading: &mut Transaction,
    log: &Table,
    account: &[u8],
    after: i64,
) -> Result<Vec<CopiedRow>, StoreError> {
    let rest = format!(" WHERE account = ? AND seq > ? ORDER BY seq LIMIT {BATCH}");
    let values = vec![account.into(), Value::Integer(after)];
    select(reading, log, &rest, values).await
}

async fn select(
    reading: &mut Transaction,
    table: &Table,
    rest: &str,
    values: Vec<Value>,
) -> Result<Vec<CopiedRow>, StoreError> {
    let columns = table.columns();
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let sql = format!("SELECT {} FROM {}{rest}", names.join(", "), table.name);
    let rows = reading.fetch(sql, values).await?;
    let read = |row: Columns<'_>| -> Result<CopiedRow, StoreError> {
        let columns = columns.iter().enumerate();
        columns
            .map(|(place, (_, kind))| value(row, place, *kind))
            .collect()
    };
    rows.iter().map(read).collect()
}

/// A value as both databases have it: PostgreSQL has no text with U+0000, as [`crate::value::postgres_query`] says.
fn value(row: Columns<'_>, place: usize, kind: Kind) -> Result<Value, StoreError> {
    Ok(match kind {
        Kind::Number => row
            .at::<Option<i64>>(place)?
            .map_or(Value::Null, Value::Integer),
        Kind::Text => match row.at::<Option<String>>(place)? {
            Some(text) if text.contains('\0') => Value::Text(text.replace('\0', "\u{FFFD}")),
            Some(text) => Value::Text(text),
            None => Value::Null,
        },
        Kind::Bytes => row
            .at::<Option<Vec<u8>>>(place)?
            .map_or(Value::Null, Value::Blob),
    })
}

/// The primary key of a row.
pub(super) fn key(table: &Table, row: &CopiedRow) -> Vec<Value> {
    let places = table.key_places();
    places.iter().map(|place| row[*place].clone()).collect()
}

/// Writes rows of a table. Rows with a key that is there already are replaced if `replaces`.
pub(super) async fn write(
    target: &mut Transaction,
    table: &Table,
    rows: Vec<CopiedRow>,
    replaces: bool,
) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let rest = match replaces {
        true => replacing(table),
        false => String::new(),
    };
    match target {
        Transaction::Sqlite(connection) => write_sqlite(connection, table, rows, &rest).await,
        Transaction::Postgres { transaction, .. } => {
            write_postgres(transaction, table, rows, &rest).await
        }
    }
}

/// Behind an `INSERT`: what becomes of a row with a key that is there.
fn replacing(table: &Table) -> String {
    let key = table.key();
    let columns = table.columns();
    let others = columns.iter().filter(|(name, _)| !key.contains(name));
    let set: Vec<String> = others
        .map(|(name, _)| format!("{name} = excluded.{name}"))
        .collect();
    format!(
        " ON CONFLICT ({}) DO UPDATE SET {}",
        key.join(", "),
        set.join(", ")
    )
}

/// The names of the columns of an `INSERT`, those of the database's own last.
fn names(table: &Table, dialect: Dialect) -> String {
    let columns = table.columns();
    let names = columns.iter().map(|(name, _)| *name);
    let names: Vec<&str> = names
        .chain(table.constants(dialect).iter().copied())
        .collect();
    names.join(", ")
}

async fn write_sqlite(
    connection: &mut SqliteConnection,
    table: &Table,
    mut rows: Vec<CopiedRow>,
    rest: &str,
) -> Result<(), StoreError> {
    let width = table.columns().len();
    let constants = ", 1".repeat(table.constants(Dialect::Sqlite).len());
    let row = format!("({}{constants})", places(width));
    let names = names(table, Dialect::Sqlite);
    for chunk in rows.chunks_mut(SQLITE_VALUES / width) {
        let all = vec![row.as_str(); chunk.len()].join(", ");
        let sql = format!("INSERT INTO {} ({names}) VALUES {all}{rest}", table.name);
        let values = chunk.iter_mut().flat_map(take).collect();
        let done = query(sql, values).execute(&mut *connection).await;
        done.map_err(fault)?;
    }
    Ok(())
}

async fn write_postgres(
    connection: &mut PgConnection,
    table: &Table,
    mut rows: Vec<CopiedRow>,
    rest: &str,
) -> Result<(), StoreError> {
    let columns = table.columns();
    let constants = ", 1".repeat(table.constants(Dialect::Postgres).len());
    let sql = format!(
        "INSERT INTO {} ({}) SELECT *{constants} FROM unnest({}){rest}",
        table.name,
        names(table, Dialect::Postgres),
        arrays(&columns, 1),
    );
    let query = sqlx::query(AssertSqlSafe(sql)).persistent(false);
    let query = bind_arrays(query, &columns, &mut rows);
    answer(query.execute(connection)).await.map(drop)
}
