//! A write that is under way: its transaction, and what it has read and recorded so far.

use super::connection::Transaction;
use super::shown::Shown;
use super::table;
use super::value::{Value, json};
use super::{list, read};
use crate::sealing::Sealing;
use culvert_ids::AccountId;
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

    pub(super) fn connection(&mut self) -> &mut Transaction {
        &mut self.transaction
    }

    /// The row as it is, if it is as the asker has seen it.
    pub(super) async fn current(
        &mut self,
        id: EntityId,
        expected_version: Option<u64>,
    ) -> Result<Entity, StoreError> {
        let before = read::get(&mut self.transaction, self.account, id).await?;
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
            read::check_exists(&mut self.transaction, self.account, id).await?;
            self.known.insert(id);
        }
        Ok(())
    }

    /// Notes a row that the write has added.
    pub(super) fn note_added(&mut self, id: EntityId) {
        self.grown.insert(id.kind());
        self.known.insert(id);
    }

    /// Notes a row that the write has deleted.
    pub(super) fn note_deleted(&mut self, id: EntityId) {
        self.known.remove(&id);
    }

    /// The row, other than `own`, that has a name, whatever the case of its letters. Names of accounts are unique
    /// among accounts.
    pub(super) async fn named(
        &mut self,
        kind: EntityKind,
        name: &str,
        own: Option<EntityId>,
    ) -> Result<Option<EntityId>, StoreError> {
        let (sql, values) = named_statement(self.account, kind, name, own);
        let row = self.transaction.fetch_one(sql, values).await?;
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
            seq,
            account: self.account,
            at: self.at,
            author: self.author.logged(),
            operation,
            id,
            before,
            after,
        };
        let text = |row: &Option<Entity>| row.as_ref().map(json).transpose();
        let values = vec![
            self.account.as_bytes().into(),
            seq.0.into(),
            self.at.into(),
            self.author.actor.map(EntityId::from).into(),
            self.author.token.map(EntityId::from).into(),
            operation.as_str().into(),
            id.kind().as_str().into(),
            id.into(),
            text(&change.before)?.into(),
            text(&change.after)?.into(),
        ];
        let sql = "INSERT INTO change_log (account, seq, at_ms, actor_id, token_id, operation, \
                   kind, row_id, row_before, row_after) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        self.execute(sql, values).await?;
        self.seq = seq;
        self.changes.push(change);
        Ok(())
    }

    pub(super) async fn execute(
        &mut self,
        sql: impl Into<String>,
        values: Vec<Value>,
    ) -> Result<u64, StoreError> {
        self.transaction.execute(sql, values).await
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
