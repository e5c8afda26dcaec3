//! Rows that a write has decided on and not written yet: many of them are one statement.
//!
//! The write does that before any other statement, so that nothing which it reads or writes can tell. A row that a
//! unique index refuses is found then; it is told as if it had been written at once, since it comes before whatever
//! failed later.

use super::arrays::{arrays, bind_arrays};
use super::connection::{Rows, Transaction, answer};
use super::migrate::{ColumnKind, columns_of};
use super::table;
use super::value::{Value, places, postgres_query};
use culvert_store::{EntityId, EntityKind, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// The rows that wait at most: some megabytes of the longest ones, and statements of some milliseconds.
pub(super) const AT_ONCE: usize = 2_000;

/// The most values of one `INSERT` of SQLite. It takes 32,766; more than some hundred rows save no time.
const SQLITE_VALUES: usize = 2_000;

/// A row that is to be written.
pub(super) enum Unwritten {
    /// The values of [`insert_columns`].
    Insert(EntityId, Vec<Value>),
    /// The values of [`update_columns`]. The row keeps its name.
    Update(EntityId, Vec<Value>),
    Delete(EntityId),
}

/// Rows that wait. They are written in this order, within which nothing depends on anything behind it.
#[derive(Default)]
pub(super) struct UnwrittenRows {
    /// By kind, each kind behind those that it refers to.
    pub(super) inserts: BTreeMap<EntityKind, Vec<(usize, EntityId, Vec<Value>)>>,
    pub(super) updates: BTreeMap<EntityKind, Vec<(EntityId, Vec<Value>)>>,
    /// Runs of one kind, in the order in which they were asked for: users before what they use.
    pub(super) deletes: Vec<(EntityKind, Vec<EntityId>)>,
    inserted: BTreeSet<EntityId>,
    updated: BTreeSet<EntityId>,
    pub(super) count: usize,
}

impl UnwrittenRows {
    /// True if the row must come after those that wait.
    pub(super) fn must_precede(&self, row: &Unwritten) -> bool {
        self.count >= AT_ONCE
            || match row {
                Unwritten::Insert(id, _) => !self.deletes.is_empty() || self.inserted.contains(id),
                Unwritten::Update(id, _) => !self.deletes.is_empty() || self.updated.contains(id),
                Unwritten::Delete(_) => false,
            }
    }

    pub(super) fn add(&mut self, row: Unwritten) {
        self.count += 1;
        match row {
            Unwritten::Insert(id, values) => {
                self.inserted.insert(id);
                let rows = self.inserts.entry(id.kind()).or_default();
                rows.push((self.count, id, values));
            }
            Unwritten::Update(id, values) => {
                self.updated.insert(id);
                let rows = self.updates.entry(id.kind()).or_default();
                rows.push((id, values));
            }
            Unwritten::Delete(id) => match self.deletes.last_mut() {
                Some((kind, ids)) if *kind == id.kind() => ids.push(id),
                _ => self.deletes.push((id.kind(), vec![id])),
            },
        }
    }
}

/// Kinds of which a write may have thousands of rows. All that is done to one of their rows is done to its table.
pub(super) const fn may_wait(kind: EntityKind) -> bool {
    matches!(
        kind,
        EntityKind::Actor
            | EntityKind::Group
            | EntityKind::Membership
            | EntityKind::Site
            | EntityKind::Resource
            | EntityKind::Policy
    )
}

/// The columns of a new row.
pub(super) fn insert_columns(kind: EntityKind) -> Vec<&'static str> {
    let first = ["account", "id", "version", "created_ms", "updated_ms"];
    let columns = first
        .into_iter()
        .chain(table::columns(kind).iter().copied());
    columns.collect()
}

/// The columns by which a row that keeps its name is found and written over: its id and its version so far come first.
pub(super) fn update_columns(kind: EntityKind) -> Vec<&'static str> {
    let columns = table::columns(kind).iter().copied();
    let columns = columns.filter(|column| *column != "name_key");
    ["id", "version"].into_iter().chain(columns).collect()
}

/// The columns of a table with their types.
pub(super) fn typed<'c>(table: &str, columns: &[&'c str]) -> Vec<(&'c str, ColumnKind)> {
    let all: BTreeMap<&str, ColumnKind> = columns_of(table).into_iter().collect();
    let kind = |name: &str| all.get(name).copied().unwrap_or(ColumnKind::Text);
    columns.iter().map(|name| (*name, kind(name))).collect()
}

/// Inserts rows of a table by few statements. Returns what these return.
pub(super) async fn insert(
    connection: &mut Transaction,
    table: &str,
    columns: &[&str],
    mut rows: Vec<Vec<Value>>,
    rest: &str,
) -> Result<Vec<Rows>, StoreError> {
    let names = columns.join(", ");
    let mut returned = Vec::new();
    match connection {
        Transaction::Postgres { transaction, .. } => {
            let columns = typed(table, columns);
            let arrays = arrays(&columns, 1);
            let sql = format!("INSERT INTO {table} ({names}) SELECT * FROM unnest({arrays}){rest}");
            let query = bind_arrays(postgres_query(&sql, Vec::new()), &columns, &mut rows);
            let rows = answer(query.fetch_all(&mut **transaction)).await?;
            returned.push(Rows::Postgres(rows));
        }
        Transaction::Sqlite(_) => {
            let row = format!("({})", places(columns.len()));
            for chunk in rows.chunks_mut(SQLITE_VALUES / columns.len()) {
                let all = vec![row.as_str(); chunk.len()].join(", ");
                let sql = format!("INSERT INTO {table} ({names}) VALUES {all}{rest}");
                let values = chunk.iter_mut().flat_map(std::mem::take).collect();
                returned.push(connection.fetch(sql, values).await?);
            }
        }
    }
    Ok(returned)
}
