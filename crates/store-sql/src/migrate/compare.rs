//! The check that the target has what the source has.

use super::rows;
use super::tables::Table;
use crate::connection::Transaction;
use crate::value::Value;
use culvert_store::StoreError;
use sha2::{Digest, Sha256};

/// The rows of a table, in a form that is equal for equal rows alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) rows: u64,
    /// SHA-256 of all values in the order of the primary key.
    checksum: [u8; 32],
}

/// Reads a whole table.
pub(super) async fn contents(
    reading: &mut Transaction,
    table: &Table,
) -> Result<Contents, StoreError> {
    let mut checksum = Sha256::new();
    let mut number = 0;
    let mut after = None;
    loop {
        let rows = rows::next(reading, table, after.take()).await?;
        number += rows.len() as u64;
        for value in rows.iter().flatten() {
            add(&mut checksum, value);
        }
        match rows.last() {
            Some(last) if rows.len() == rows::BATCH => after = Some(rows::key(table, last)),
            _ => break,
        }
    }
    Ok(Contents {
        rows: number,
        checksum: checksum.finalize().into(),
    })
}

/// Each value has its type and its length before it, so that no two rows have the same bytes.
fn add(checksum: &mut Sha256, value: &Value) {
    let number;
    let (kind, bytes): (u8, &[u8]) = match value {
        Value::Null => (0, &[]),
        Value::Integer(value) => {
            number = value.to_be_bytes();
            (1, &number)
        }
        Value::Text(text) => (2, text.as_bytes()),
        Value::Blob(bytes) => (3, bytes),
    };
    checksum.update([kind]);
    checksum.update((bytes.len() as u64).to_be_bytes());
    checksum.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_differ_in_type_length_or_place_have_another_checksum() {
        let of = |values: &[Value]| {
            let mut checksum = Sha256::new();
            for value in values {
                add(&mut checksum, value);
            }
            <[u8; 32]>::from(checksum.finalize())
        };
        let text = |text: &str| Value::Text(text.to_owned());
        let rows = [
            vec![Value::Null, text("")],
            vec![text(""), Value::Null],
            vec![Value::Blob(Vec::new()), Value::Null],
            vec![text("ab"), text("c")],
            vec![text("a"), text("bc")],
            vec![Value::Integer(0), Value::Null],
            vec![Value::Blob(vec![0; 8]), Value::Null],
        ];
        for (at, row) in rows.iter().enumerate() {
            assert_eq!(of(row), of(&row.clone()));
            for other in &rows[at + 1..] {
                assert_ne!(of(row), of(other), "{row:?} {other:?}");
            }
        }
    }
}
