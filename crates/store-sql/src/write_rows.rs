//! The rows of a write that wait, written by few statements.

use super::arrays::{arrays, bind_arrays};
use super::connection::{Rows, Transaction, answer};
use super::table;
use super::unwritten::{Unwritten, UnwrittenRows, insert, insert_columns, typed, update_columns};
use super::value::{Value, places, postgres_query};
use super::writing::Writing;
use culvert_store::{EntityId, EntityKind, StoreError};
use std::collections::BTreeSet;

impl Writing {
    /// Writes a row with others, and before whatever comes later.
    pub(super) async fn write_later(&mut self, row: Unwritten) -> Result<(), StoreError> {
        if self.unwritten().must_precede(&row) {
            self.write_rows().await?;
        }
        self.unwritten().add(row);
        Ok(())
    }

    /// Writes all rows that wait.
    pub(super) async fn write_rows(&mut self) -> Result<(), StoreError> {
        if self.unwritten().count == 0 {
            return Ok(());
        }
        let UnwrittenRows {
            inserts,
            updates,
            deletes,
            ..
        } = std::mem::take(self.unwritten());
        let mut refused: Option<(usize, EntityId)> = None;
        for (kind, rows) in inserts {
            let first = self.insert_rows(kind, rows).await?;
            refused = [refused, first].into_iter().flatten().min();
        }
        if let Some((_, id)) = refused {
            return Err(self.refusal_of(id).await?);
        }
        for (kind, rows) in updates {
            self.update_rows(kind, rows).await?;
        }
        for (kind, ids) in deletes {
            self.delete_rows(kind, ids).await?;
        }
        Ok(())
    }

    /// Returns the first that a unique index refuses.
    async fn insert_rows(
        &mut self,
        kind: EntityKind,
        rows: Vec<(usize, EntityId, Vec<Value>)>,
    ) -> Result<Option<(usize, EntityId)>, StoreError> {
        let asked: Vec<(usize, EntityId)> = rows.iter().map(|(at, id, _)| (*at, *id)).collect();
        let rows = rows.into_iter().map(|(_, _, values)| values).collect();
        let rest = " ON CONFLICT DO NOTHING RETURNING id";
        let columns = insert_columns(kind);
        let written = insert(self.written(), table::table(kind), &columns, rows, rest).await?;
        let mut there = BTreeSet::new();
        for row in written.iter().flat_map(Rows::iter) {
            there.insert(EntityId::from_bytes(kind, row.bytes("id")?));
        }
        Ok(asked.into_iter().find(|(_, id)| !there.contains(id)))
    }

    async fn update_rows(
        &mut self,
        kind: EntityKind,
        rows: Vec<(EntityId, Vec<Value>)>,
    ) -> Result<(), StoreError> {
        let (account, at) = (self.account(), self.at());
        let table = table::table(kind);
        let columns = update_columns(kind);
        let Some(first) = rows.first().map(|(id, _)| *id) else {
            return Ok(());
        };
        let expected = rows.len() as u64;
        let mut rows: Vec<Vec<Value>> = rows.into_iter().map(|(_, values)| values).collect();
        let mut done = 0;
        match self.written() {
            Transaction::Postgres { transaction, .. } => {
                let columns = typed(table, &columns);
                let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
                let set: String = names[2..]
                    .iter()
                    .map(|name| format!("{name} = new.{name}, "))
                    .collect();
                let sql = format!(
                    "UPDATE {table} SET {set}version = new.version + 1, updated_ms = $2 \
                     FROM unnest({}) AS new ({}) WHERE {table}.account = $1 AND {table}.id = new.id \
                     AND {table}.version = new.version",
                    arrays(&columns, 3),
                    names.join(", "),
                );
                let query = postgres_query(&sql, vec![account.as_bytes().into(), at.into()]);
                let query = bind_arrays(query, &columns, &mut rows);
                done += answer(query.execute(&mut **transaction))
                    .await?
                    .rows_affected();
            }
            connection @ Transaction::Sqlite(_) => {
                let set: String = columns[2..]
                    .iter()
                    .map(|name| format!("{name} = ?, "))
                    .collect();
                let sql = format!(
                    "UPDATE {table} SET {set}version = version + 1, updated_ms = ? \
                     WHERE account = ? AND id = ? AND version = ?"
                );
                for mut row in rows {
                    let mut values = row.split_off(2);
                    values.extend([at.into(), account.as_bytes().into()]);
                    values.append(&mut row);
                    done += connection.execute(sql.as_str(), values).await?;
                }
            }
        }
        match done == expected {
            true => Ok(()),
            false => Err(StoreError::corrupt(format_args!(
                "{first} or a row behind it changed within the transaction that changes it"
            ))),
        }
    }

    async fn delete_rows(
        &mut self,
        kind: EntityKind,
        ids: Vec<EntityId>,
    ) -> Result<(), StoreError> {
        let table = table::table(kind);
        let wanted = places(ids.len());
        let sql = format!("DELETE FROM {table} WHERE account = ? AND id IN ({wanted})");
        let account = self.account().as_bytes().into();
        let values = std::iter::once(account).chain(ids.into_iter().map(Value::from));
        self.written().execute(sql, values.collect()).await?;
        Ok(())
    }
}
