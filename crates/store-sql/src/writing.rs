//! A write that is under way: its transaction, and what it has read and recorded so far.

use super::ahead::Ahead;
use super::connection::Transaction;
use super::shown::Shown;
use super::table;
use super::unwritten::{AT_ONCE, UnwrittenRows, insert};
use super::value::{Value, json};
use super::{list, read};
use crate::sealing::Sealing;
use culvert_ids::{AccountId, ActorId};
use culvert_store::rules;
use culvert_store::{
    Author, Change, Entity, EntityId, EntityKind, MAX_CHANGES_PER_WRITE, MAX_ROWS_PER_KIND,
    Operation, Seq, StoreError,
};
use culvert_wire::Timestamp;
use std::collections::BTreeSet;

/// A change of the configuration that is under way. Dropped, it has not happened.
pub(super) struct Writing {
    transaction: Transaction,
    sealing: Sealing,
    account: AccountId,
    author: Author,
    at: Timestamp,
    /// The last change of the account before this.
    seq: Seq,
    changes: Vec<Change>,
    /// Kinds of which there are new rows.
    grown: BTreeSet<EntityKind>,
    /// Rows that are there. Each is looked for once.
    known: BTreeSet<EntityId>,
    shown: Shown,
    /// Rows that a large write has read ahead.
    ahead: Ahead,
    /// Rows that are written with others.
    unwritten: UnwrittenRows,
    /// The number of changes that are in the change log already.
    logged: usize,
    /// The owners, of a write whose author is none: it makes and ends none.
    owners: Option<BTreeSet<ActorId>>,
    /// An owner could come in before the first change that could end it. None while there was no such change.
    owner_came_in: Option<bool>,
}

impl Writing {
    /// Goes on in a transaction that has the writer.
    pub(super) async fn join(
        mut transaction: Transaction,
        sealing: Sealing,
        account: AccountId,
        author: Author,
        at: Timestamp,
    ) -> Result<Self, StoreError> {
        let seq = read::last_seq(&mut transaction, account).await?;
        Ok(Self {
            seq,
            ..Self::new_account(transaction, sealing, account, author, at)
        })
    }

    /// For an account that `create` is about to make.
    pub(super) fn new_account(
        transaction: Transaction,
        sealing: Sealing,
        account: AccountId,
        author: Author,
        at: Timestamp,
    ) -> Self {
        Self {
            transaction,
            sealing,
            account,
            author,
            at,
            seq: Seq::default(),
            changes: Vec::new(),
            grown: BTreeSet::new(),
            known: BTreeSet::new(),
            shown: Shown::default(),
            ahead: Ahead::default(),
            unwritten: UnwrittenRows::default(),
            logged: 0,
            owners: None,
            owner_came_in: None,
        }
    }

    pub(super) const fn sealing(&self) -> &Sealing {
        &self.sealing
    }

    pub(super) const fn account(&self) -> AccountId {
        self.account
    }

    pub(super) const fn at(&self) -> Timestamp {
        self.at
    }

    pub(super) const fn author(&self) -> Author {
        self.author
    }

    /// The proofs that the write has checked so far.
    pub(super) const fn shown(&mut self) -> &mut Shown {
        &mut self.shown
    }

    pub(super) const fn owner_came_in(&self) -> Option<bool> {
        self.owner_came_in
    }

    pub(super) const fn note_owner_came_in(&mut self, can_come_in: bool) {
        self.owner_came_in = Some(can_come_in);
    }

    /// The transaction, for whatever reads or writes: all rows that wait are written.
    pub(super) async fn connection(&mut self) -> Result<&mut Transaction, StoreError> {
        self.write_rows().await?;
        Ok(&mut self.transaction)
    }

    /// The transaction as it is, for the rows that wait.
    pub(super) const fn written(&mut self) -> &mut Transaction {
        &mut self.transaction
    }

    pub(super) const fn unwritten(&mut self) -> &mut UnwrittenRows {
        &mut self.unwritten
    }

    pub(super) const fn ahead(&mut self) -> &mut Ahead {
        &mut self.ahead
    }

    pub(super) const fn owners(&mut self) -> &mut Option<BTreeSet<ActorId>> {
        &mut self.owners
    }

    /// The row as it is, if it is as the asker has seen it.
    pub(super) async fn current(
        &mut self,
        id: EntityId,
        expected_version: Option<u64>,
    ) -> Result<Entity, StoreError> {
        let account = self.account;
        let before = match self.ahead.take_row(id) {
            Some(before) => before,
            None => read::get(self.connection().await?, account, id).await?,
        };
        self.known.insert(id);
        let current = before.stamp().version;
        match expected_version {
            Some(expected) if expected != current => {
                Err(StoreError::VersionConflict { id, current })
            }
            _ => Ok(before),
        }
    }

    /// Refuses a write that refers to a row that is not there.
    pub(super) async fn check_exists(&mut self, id: EntityId) -> Result<(), StoreError> {
        if !self.known.contains(&id) {
            let account = self.account;
            read::check_exists(self.connection().await?, account, id).await?;
            self.known.insert(id);
        }
        Ok(())
    }

    /// Notes a row that is there.
    pub(super) fn note_known(&mut self, id: EntityId) {
        self.known.insert(id);
    }

    /// Notes a row that the write has added.
    pub(super) fn note_added(&mut self, row: &Entity) {
        self.grown.insert(row.kind());
        self.known.insert(row.id());
        self.ahead.note_added(row);
    }

    /// Notes a row that the write has deleted.
    pub(super) fn note_deleted(&mut self, row: &Entity) {
        self.known.remove(&row.id());
        self.ahead.forget(row);
    }

    /// The row, other than `own`, that has a name, whatever the case of its letters. Names of accounts are unique
    /// among accounts.
    pub(super) async fn named(
        &mut self,
        kind: EntityKind,
        name: &str,
        own: Option<EntityId>,
    ) -> Result<Option<EntityId>, StoreError> {
        if let Some(found) = self.ahead.named(kind, name, own) {
            return Ok(found);
        }
        let (sql, values) = named_statement(self.account, kind, name, own);
        let row = self.connection().await?.fetch_one(sql, values).await?;
        row.map(|row| Ok(EntityId::from_bytes(kind, row.columns().bytes("id")?)))
            .transpose()
    }

    pub(super) fn check_room(&self, more: usize) -> Result<(), StoreError> {
        if self.changes.len() + more > MAX_CHANGES_PER_WRITE {
            return Err(StoreError::TooMany {
                what: "changes in one write",
                limit: MAX_CHANGES_PER_WRITE as u64,
            });
        }
        Ok(())
    }

    pub(super) async fn append(
        &mut self,
        operation: Operation,
        id: EntityId,
        before: Option<Entity>,
        after: Option<Entity>,
    ) -> Result<(), StoreError> {
        self.check_room(1)?;
        let seq = Seq(self.seq.0 + 1);
        let change = Change {
            skipped: 0,
            seq,
            account: self.account,
            at: self.at,
            author: self.author.logged(),
            operation,
            id,
            before,
            after,
        };
        self.seq = seq;
        self.changes.push(change);
        match self.changes.len() - self.logged >= AT_ONCE {
            true => self.write_log().await,
            false => Ok(()),
        }
    }

    /// Writes to the change log what is not in it yet. The write reads nothing of it.
    async fn write_log(&mut self) -> Result<(), StoreError> {
        let rows = self.changes[self.logged..].iter().map(log_row);
        let rows: Vec<Vec<Value>> = rows.collect::<Result<_, _>>()?;
        self.logged = self.changes.len();
        match rows.is_empty() {
            true => Ok(()),
            false => insert(&mut self.transaction, "change_log", LOG_COLUMNS, rows, "")
                .await
                .map(drop),
        }
    }

    pub(super) async fn execute(
        &mut self,
        sql: impl Into<String>,
        values: Vec<Value>,
    ) -> Result<u64, StoreError> {
        self.connection().await?.execute(sql, values).await
    }

    /// Inserts a row. False, if a unique index of the table refuses it.
    pub(super) async fn insert(
        &mut self,
        sql: impl Into<String>,
        values: Vec<Value>,
    ) -> Result<bool, StoreError> {
        // An error would end a transaction of PostgreSQL.
        let sql = sql.into() + " ON CONFLICT DO NOTHING";
        Ok(self.execute(sql, values).await? == 1)
    }

    pub(super) async fn commit(mut self) -> Result<Vec<Change>, StoreError> {
        self.check_owner_stays().await?;
        self.write_rows().await?;
        self.write_log().await?;
        for kind in std::mem::take(&mut self.grown) {
            let table = table::table(kind);
            let sql = format!("SELECT count(*) AS rows FROM {table} WHERE account = ?");
            let row = self
                .transaction
                .fetch_one(sql, vec![self.account.as_bytes().into()])
                .await?;
            let row = row.ok_or_else(|| StoreError::corrupt("a count without a row"))?;
            if row.columns().number("rows")? > u64::from(MAX_ROWS_PER_KIND) {
                return Err(StoreError::TooMany {
                    what: "rows of a kind in an account",
                    limit: u64::from(MAX_ROWS_PER_KIND),
                });
            }
        }
        let sql = "UPDATE account SET last_seq = ? WHERE account = ?";
        let values = vec![self.seq.0.into(), self.account.as_bytes().into()];
        if !self.changes.is_empty() {
            self.execute(sql, values).await?;
        }
        self.transaction.commit().await?;
        Ok(self.changes)
    }
}

/// The columns of the change log, in the order of [`log_row`].
const LOG_COLUMNS: &[&str] = &[
    "account",
    "seq",
    "at_ms",
    "actor_id",
    "token_id",
    "operation",
    "kind",
    "row_id",
    "row_before",
    "row_after",
];

fn log_row(change: &Change) -> Result<Vec<Value>, StoreError> {
    let text = |row: &Option<Entity>| row.as_ref().map(json).transpose();
    Ok(vec![
        change.account.as_bytes().into(),
        change.seq.0.into(),
        change.at.into(),
        change.author.actor.map(EntityId::from).into(),
        change.author.token.map(EntityId::from).into(),
        change.operation.as_str().into(),
        change.id.kind().as_str().into(),
        change.id.into(),
        text(&change.before)?.into(),
        text(&change.after)?.into(),
    ])
}

/// The statement that looks for a row of the name other than `own`, and its values.
pub(super) fn named_statement(
    account: AccountId,
    kind: EntityKind,
    name: &str,
    own: Option<EntityId>,
) -> (String, Vec<Value>) {
    let table = table::table(kind);
    let live = if rules::can_be_revoked(kind) {
        " AND revoked_ms IS NULL"
    } else {
        ""
    };
    let mut values = vec![own.map_or(Value::BEFORE_ALL_IDS, Value::from)];
    let mut sql = format!("SELECT id FROM {table} WHERE id <> ?{live}");
    if kind != EntityKind::Account {
        values.push(account.as_bytes().into());
        sql.push_str(" AND account = ?");
    }
    list::add_name(&mut sql, &mut values, name);
    sql.push_str(" LIMIT 1");
    (sql, values)
}
