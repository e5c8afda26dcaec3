//! Between columns and types.

use super::dialect::numbered;
use super::fault::fault;
use culvert_ids::ID_LEN;
use culvert_store::{EntityId, StoreError};
use culvert_wire::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgRow, PgTypeInfo};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{AssertSqlSafe, Decode, Encode, Postgres, Row, Sqlite, SqliteConnection, Type};

/// A query with its values.
pub(super) type SqliteQuery = Query<'static, Sqlite, SqliteArguments>;

/// The same for PostgreSQL.
pub(super) type PostgresQuery = Query<'static, Postgres, PgArguments>;

/// A column's value on its way in.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Value {
    /// Comes before every id, and is none.
    pub(super) const BEFORE_ALL_IDS: Self = Self::Blob(Vec::new());
}

/// A query of text that this crate has put together, of constants alone: whatever comes from
/// elsewhere is among `values`.
pub(super) fn query(sql: impl Into<String>, values: Vec<Value>) -> SqliteQuery {
    let query = sqlx::query(AssertSqlSafe(sql.into()));
    values.into_iter().fold(query, |query, value| match value {
        Value::Null => query.bind(None::<i64>),
        Value::Integer(value) => query.bind(value),
        Value::Text(value) => query.bind(value),
        Value::Blob(value) => query.bind(value),
    })
}

/// The same for PostgreSQL. The statement has no name there: a pooler that gives each transaction a connection of its
/// own would not find it again.
pub(super) fn postgres_query(sql: &str, values: Vec<Value>) -> PostgresQuery {
    let query = sqlx::query(AssertSqlSafe(numbered(sql))).persistent(false);
    values.into_iter().fold(query, |query, value| match value {
        Value::Null => query.bind(Null),
        Value::Integer(value) => query.bind(value),
        // The server has no text with U+0000. A machine that says one in its version must not fail a whole batch.
        Value::Text(value) if value.contains('\0') => query.bind(value.replace('\0', "\u{FFFD}")),
        Value::Text(value) => query.bind(value),
        Value::Blob(value) => query.bind(value),
    })
}

/// No value, of the type that PostgreSQL finds for its place.
struct Null;

impl Type<Postgres> for Null {
    fn type_info() -> PgTypeInfo {
        // Protocol, message `Parse`: "Placing a zero here is equivalent to leaving the type unspecified."
        PgTypeInfo::with_oid(Oid(0))
    }
}

impl Encode<'_, Postgres> for Null {
    fn encode_by_ref(&self, _: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Ok(IsNull::Yes)
    }
}

/// The number that a statement without values answers.
pub(super) async fn pragma(
    connection: &mut SqliteConnection,
    sql: &'static str,
) -> Result<i64, StoreError> {
    let row = sqlx::query(sql)
        .fetch_one(connection)
        .await
        .map_err(fault)?;
    row.try_get(0).map_err(fault)
}

/// `?, ?, ?`
pub(super) fn places(count: usize) -> String {
    vec!["?"; count].join(", ")
}

impl From<u64> for Value {
    /// Versions, numbers and instants never come near 2^63; what does sorts last.
    fn from(value: u64) -> Self {
        Self::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Integer(i64::from(value))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl From<&[u8]> for Value {
    fn from(value: &[u8]) -> Self {
        Self::Blob(value.to_vec())
    }
}

impl From<&[u8; ID_LEN]> for Value {
    fn from(value: &[u8; ID_LEN]) -> Self {
        Self::Blob(value.to_vec())
    }
}

impl From<EntityId> for Value {
    fn from(id: EntityId) -> Self {
        Self::Blob(id.as_bytes().to_vec())
    }
}

impl From<Timestamp> for Value {
    fn from(at: Timestamp) -> Self {
        at.unix_ms().into()
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A value with parts, as JSON.
pub(super) fn json<T: Serialize>(value: &T) -> Result<Value, StoreError> {
    let text =
        serde_json::to_string(value).map_err(|error| StoreError::Unavailable(Box::new(error)))?;
    Ok(Value::Text(text))
}

/// A word of an enumeration, as it is in JSON.
pub(super) fn word<T: Serialize>(value: &T) -> Result<Value, StoreError> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(Value::Text(word)),
        Ok(_) => Err(StoreError::corrupt("an enumeration that is no word")),
        Err(error) => Err(StoreError::Unavailable(Box::new(error))),
    }
}

/// A row on its way out. A value that cannot be read as it was written means a damaged database.
#[derive(Clone, Copy)]
pub(super) struct Columns<'r> {
    row: AnyRow<'r>,
    /// Stands before the names of columns: a statement that reads several tables tells them apart by it.
    prefix: &'static str,
}

#[derive(Clone, Copy)]
enum AnyRow<'r> {
    Sqlite(&'r SqliteRow),
    Postgres(&'r PgRow),
}

/// A type that both databases have.
pub(super) trait Column<'r>:
    Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>
{
}

impl<'r, T> Column<'r> for T where
    T: Decode<'r, Sqlite> + Type<Sqlite> + Decode<'r, Postgres> + Type<Postgres>
{
}

impl<'r> Columns<'r> {
    pub(super) const fn sqlite(row: &'r SqliteRow) -> Self {
        Self {
            row: AnyRow::Sqlite(row),
            prefix: "",
        }
    }

    pub(super) const fn postgres(row: &'r PgRow) -> Self {
        Self {
            row: AnyRow::Postgres(row),
            prefix: "",
        }
    }

    /// The columns of one table of several: those whose names begin so.
    pub(super) const fn of(self, prefix: &'static str) -> Self {
        let Self { row, .. } = self;
        Self { row, prefix }
    }

    pub(super) fn get<T: Column<'r>>(self, column: &str) -> Result<T, StoreError> {
        let named;
        let name = match self.prefix {
            "" => column,
            prefix => {
                named = format!("{prefix}{column}");
                &named
            }
        };
        let value = match self.row {
            AnyRow::Sqlite(row) => row.try_get(name),
            AnyRow::Postgres(row) => row.try_get(name),
        };
        value.map_err(fault)
    }

    pub(super) fn first<T: Column<'r>>(self) -> Result<T, StoreError> {
        self.at(0)
    }

    /// The value at a place among the columns of the statement.
    pub(super) fn at<T: Column<'r>>(self, place: usize) -> Result<T, StoreError> {
        let value = match self.row {
            AnyRow::Sqlite(row) => row.try_get(place),
            AnyRow::Postgres(row) => row.try_get(place),
        };
        value.map_err(fault)
    }

    pub(super) fn number(self, column: &str) -> Result<u64, StoreError> {
        self.optional_number(column)?
            .ok_or_else(|| damaged(column, "no number"))
    }

    pub(super) fn optional_number(self, column: &str) -> Result<Option<u64>, StoreError> {
        let number: Option<i64> = self.get(column)?;
        number
            .map(|number| u64::try_from(number).map_err(|_| damaged(column, "a negative number")))
            .transpose()
    }

    pub(super) fn time(self, column: &str) -> Result<Timestamp, StoreError> {
        self.number(column).map(Timestamp::from_unix_ms)
    }

    pub(super) fn optional_time(self, column: &str) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.optional_number(column)?.map(Timestamp::from_unix_ms))
    }

    pub(super) fn text(self, column: &str) -> Result<String, StoreError> {
        self.get(column)
    }

    pub(super) fn flag(self, column: &str) -> Result<bool, StoreError> {
        Ok(self.number(column)? != 0)
    }

    pub(super) fn bytes<const N: usize>(self, column: &str) -> Result<[u8; N], StoreError> {
        self.optional_bytes(column)?
            .ok_or_else(|| damaged(column, "no bytes"))
    }

    pub(super) fn optional_bytes<const N: usize>(
        self,
        column: &str,
    ) -> Result<Option<[u8; N]>, StoreError> {
        let bytes: Option<&[u8]> = self.get(column)?;
        bytes
            .map(|bytes| {
                bytes
                    .try_into()
                    .map_err(|_| damaged(column, "a wrong length"))
            })
            .transpose()
    }

    pub(super) fn json<T: DeserializeOwned>(self, column: &str) -> Result<T, StoreError> {
        let text: &str = self.get(column)?;
        serde_json::from_str(text).map_err(|error| not_read(column, &error))
    }

    pub(super) fn word<T: DeserializeOwned>(self, column: &str) -> Result<T, StoreError> {
        let word = serde_json::Value::String(self.text(column)?);
        serde_json::from_value(word).map_err(|error| not_read(column, &error))
    }
}

/// JSON that is whole and has another content than this version knows is of a later one.
pub(super) fn not_read(column: &str, error: &serde_json::Error) -> StoreError {
    match error.is_data() {
        true => StoreError::LaterValue {
            detail: format!("column {column}: {error}"),
        },
        false => damaged(column, error),
    }
}

pub(super) fn damaged(column: &str, what: impl std::fmt::Display) -> StoreError {
    StoreError::corrupt(format_args!("column {column}: {what}"))
}
