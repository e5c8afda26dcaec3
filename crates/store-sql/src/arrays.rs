//! Rows as arrays, one for each column: a statement of PostgreSQL then has as many values whatever the number of rows is,
//! and needs no state of a session.

use super::migrate::ColumnKind;
use super::value::{PostgresQuery, Value};
use std::mem::replace;

/// `CAST($1 AS bytea[]), …`, from the value `first` on.
pub(super) fn arrays(columns: &[(&str, ColumnKind)], first: usize) -> String {
    let array = |(at, (_, kind)): (usize, &(&str, ColumnKind))| {
        format!("CAST(${} AS {}[])", at + first, kind.postgres())
    };
    let arrays: Vec<String> = columns.iter().enumerate().map(array).collect();
    arrays.join(", ")
}

/// Gives the arrays to a query. The values are taken out of the rows.
pub(super) fn bind_arrays(
    mut query: PostgresQuery,
    columns: &[(&str, ColumnKind)],
    rows: &mut [Vec<Value>],
) -> PostgresQuery {
    for (place, (_, kind)) in columns.iter().enumerate() {
        let column = rows
            .iter_mut()
            .map(|row| replace(&mut row[place], Value::Null));
        query = match kind {
            ColumnKind::Number => query.bind(array_of(column, |value| match value {
                Value::Integer(number) => Some(number),
                _ => None,
            })),
            ColumnKind::Text => query.bind(array_of(column, |value| match value {
                // The server has no text with U+0000, as [`super::value::postgres_query`] says.
                Value::Text(text) if text.contains('\0') => Some(text.replace('\0', "\u{FFFD}")),
                Value::Text(text) => Some(text),
                _ => None,
            })),
            ColumnKind::Bytes => query.bind(array_of(column, |value| match value {
                Value::Blob(bytes) => Some(bytes),
                _ => None,
            })),
        };
    }
    query
}

/// The values of a column; `NULL` is none.
fn array_of<T>(column: impl Iterator<Item = Value>, of: fn(Value) -> Option<T>) -> Vec<Option<T>> {
    column.map(of).collect()
}
