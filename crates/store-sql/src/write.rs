//! Changes of the configuration, each with its entry in the change log.

use super::fault::fault;
use super::proof::Shown;
use super::read;
use super::table;
use super::value::{Columns, Value, places, query};
use crate::sealing::Sealing;
use culvert_ids::AccountId;
use culvert_store::rules;
use culvert_store::{
    Author, Change, Entity, EntityId, EntityKind, ListFilter, MAX_CHANGES_PER_WRITE, MAX_MUTATIONS,
    MAX_ROWS_PER_KIND, Mutation, Operation, PageLimit, Seq, Stamp, StoreError, Token, TokenScope,
};
use culvert_wire::Timestamp;
use culvert_wire::token::SecretDigest;
use sqlx::{Sqlite, SqliteConnection, Transaction};
use std::collections::BTreeSet;

/// A change of the configuration that is under way. Dropped, it has not happened.
pub(super) struct Writing {
    transaction: Transaction<'static, Sqlite>,
    sealing: Sealing,
    account: AccountId,
    author: Author,
    at: Timestamp,
    /// The last change of the account before this.
    seq: Seq,
    changes: Vec<Change>,
    /// Kinds of which there are new rows.
    grown: BTreeSet<EntityKind>,
    shown: Shown,
}

impl Writing {
    /// Goes on in a transaction that has the writer.
    pub(super) async fn join(
        mut transaction: Transaction<'static, Sqlite>,
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

    /// For an account that [`Self::create`] is about to make.
    pub(super) fn new_account(
        transaction: Transaction<'static, Sqlite>,
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

    pub(super) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.transaction
    }

    pub(super) async fn apply_all(&mut self, mutations: Vec<Mutation>) -> Result<(), StoreError> {
        if mutations.len() > MAX_MUTATIONS {
            return Err(StoreError::TooMany {
                what: "mutations in one write",
                limit: MAX_MUTATIONS as u64,
            });
        }
        for mutation in mutations {
            self.apply(mutation).await?;
        }
        Ok(())
    }

    async fn apply(&mut self, mutation: Mutation) -> Result<(), StoreError> {
        match mutation {
            Mutation::Create(entity) => {
                let kind = entity.kind();
                let how = match kind {
                    EntityKind::Account => "an account comes into being by create_account",
                    EntityKind::Token => "a token comes into being with its digest",
                    EntityKind::Client | EntityKind::Gateway => {
                        "a machine comes into being when it enrols"
                    }
                    EntityKind::Actor
                    | EntityKind::Group
                    | EntityKind::Membership
                    | EntityKind::Site
                    | EntityKind::Resource
                    | EntityKind::Policy
                    | EntityKind::Provider
                    | EntityKind::Identity => {
                        self.create(entity).await?;
                        return Ok(());
                    }
                };
                Err(StoreError::Invalid {
                    kind,
                    field: "id",
                    reason: how.to_owned(),
                })
            }
            Mutation::CreateToken { token, digest } => self.create_token(token, &digest).await,
            Mutation::SetPassword {
                actor,
                role,
                verifier,
                expected_version,
            } => {
                self.set_password(actor, role, &verifier, expected_version)
                    .await
            }
            Mutation::SetProviderSecret { provider, secret } => {
                self.set_provider_secret(provider, &secret).await
            }
            Mutation::ChangeFactor { actor, change } => self.change_factor(actor, change).await,
            Mutation::Prove { actor, by } => self.prove(actor, by).await,
            Mutation::RenewProof { session } => self.renew_proof(session).await,
            Mutation::Update {
                entity,
                expected_version,
            } => self.update(entity, expected_version).await,
            Mutation::Delete {
                id,
                expected_version,
                cascade,
            } => self.delete(id, expected_version, cascade).await,
        }
    }

    /// Adds a row of any kind.
    pub(super) async fn create(&mut self, mut entity: Entity) -> Result<Entity, StoreError> {
        rules::check(None, &entity)?;
        rules::without_secrets(&mut entity);
        entity.set_stamp(Stamp {
            version: 1,
            created: self.at,
            updated: self.at,
        });
        let (kind, id, account) = (entity.kind(), entity.id(), self.account);
        if read::find(&mut self.transaction, account, id)
            .await?
            .is_some()
        {
            return Err(StoreError::Exists(id));
        }
        self.check_owners(&entity).await?;
        self.check_references(&entity).await?;
        self.check_name(&entity).await?;
        self.check_pair(&entity).await?;
        self.check_subject(&entity).await?;
        let columns = table::columns(kind);
        let sql = format!(
            "INSERT INTO {} (account, id, version, created_ms, updated_ms, {}) VALUES ({})",
            table::table(kind),
            columns.join(", "),
            places(columns.len() + 5),
        );
        let mut values = vec![
            account.as_bytes().into(),
            id.into(),
            1_u64.into(),
            self.at.into(),
            self.at.into(),
        ];
        values.extend(table::values(&entity)?);
        self.execute(sql, values).await?;
        self.grown.insert(kind);
        self.append(Operation::Create, id, None, Some(entity.clone()))
            .await?;
        Ok(entity)
    }

    async fn create_token(
        &mut self,
        mut token: Token,
        digest: &SecretDigest,
    ) -> Result<(), StoreError> {
        token.used = None;
        token.last_used = None;
        token.proven = self.proof_of_new(&token).await?;
        let sql = "SELECT account FROM token_digest WHERE id = ?";
        let id = token.id.as_bytes();
        let taken = query(sql, vec![id.into()])
            .fetch_optional(&mut *self.transaction)
            .await
            .map_err(fault)?;
        if taken.is_some() {
            return Err(StoreError::Exists(token.id.into()));
        }
        let entity = self.create(token.clone().into()).await?;
        if token.proven.is_some() {
            self.set_proven(token.id, token.proven).await?;
        }
        let values = vec![
            self.account.as_bytes().into(),
            entity.id().into(),
            digest.as_bytes().as_slice().into(),
        ];
        let sql = "INSERT INTO token_digest (account, id, digest) VALUES (?, ?, ?)";
        self.execute(sql, values).await?;
        Ok(())
    }

    async fn update(
        &mut self,
        wanted: Entity,
        expected_version: Option<u64>,
    ) -> Result<(), StoreError> {
        let before = self.current(wanted.id(), expected_version).await?;
        if let Some(after) = rules::merge(&before, wanted)? {
            let signed_in = signs_in(&before);
            let after = self.replace(before, after).await?;
            if signed_in && !signs_in(&after) {
                self.revoke_api_tokens_of(after.id()).await?;
            }
        }
        Ok(())
    }

    /// Revokes the API tokens of a person who no longer signs in: without a sign-in, nothing would bound
    /// the roles of the tokens.
    async fn revoke_api_tokens_of(&mut self, actor: EntityId) -> Result<(), StoreError> {
        let (account, at) = (self.account, self.at);
        let filter = ListFilter {
            refers_to: vec![actor],
            ..ListFilter::default()
        };
        let mut after = None;
        loop {
            let page = read::list(
                &mut self.transaction,
                account,
                EntityKind::Token,
                &filter,
                after,
                PageLimit::MAX,
            )
            .await?;
            for row in page.items {
                let Entity::Token(token) = row else { continue };
                if token.revoked.is_some() || !matches!(token.scope, TokenScope::Api { .. }) {
                    continue;
                }
                let revoked = Token {
                    revoked: Some(at),
                    ..token.clone()
                };
                self.replace(token.into(), revoked.into()).await?;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Writes a row over the one that it was, what the store alone changes included.
    pub(super) async fn replace(
        &mut self,
        before: Entity,
        mut after: Entity,
    ) -> Result<Entity, StoreError> {
        rules::check(Some(&before), &after)?;
        self.check_owners(&before).await?;
        self.check_owners(&after).await?;
        self.check_references(&after).await?;
        // A name that it had before is not judged again.
        if rules::name(&before) != rules::name(&after) {
            self.check_name(&after).await?;
        }
        let (kind, id, stamp) = (after.kind(), after.id(), before.stamp());
        after.set_stamp(Stamp {
            version: stamp.version + 1,
            created: stamp.created,
            updated: self.at,
        });
        let columns = table::columns(kind).join(" = ?, ");
        let sql = format!(
            "UPDATE {} SET {columns} = ?, version = ?, updated_ms = ? \
             WHERE account = ? AND id = ? AND version = ?",
            table::table(kind),
        );
        let mut values = table::values(&after)?;
        values.extend([
            (stamp.version + 1).into(),
            self.at.into(),
            self.account.as_bytes().into(),
            id.into(),
            stamp.version.into(),
        ]);
        if self.execute(sql, values).await? != 1 {
            return Err(StoreError::corrupt(format_args!(
                "{id} changed within the transaction that changes it"
            )));
        }
        if rules::revoked(&before).is_none() && rules::revoked(&after).is_some() {
            self.release_addresses(&after).await?;
        }
        self.forget_password(&after).await?;
        self.forget_provider_secret(&after).await?;
        self.append(Operation::Update, id, Some(before), Some(after.clone()))
            .await?;
        Ok(after)
    }

    /// The row as it is, if it is as the asker has seen it.
    pub(super) async fn current(
        &mut self,
        id: EntityId,
        expected_version: Option<u64>,
    ) -> Result<Entity, StoreError> {
        let before = read::get(&mut self.transaction, self.account, id).await?;
        let current = before.stamp().version;
        match expected_version {
            Some(expected) if expected != current => {
                Err(StoreError::VersionConflict { id, current })
            }
            _ => Ok(before),
        }
    }

    async fn check_references(&mut self, entity: &Entity) -> Result<(), StoreError> {
        for id in rules::references(entity) {
            read::check_exists(&mut self.transaction, self.account, id).await?;
        }
        Ok(())
    }

    async fn check_name(&mut self, entity: &Entity) -> Result<(), StoreError> {
        let Some(name) = rules::name(entity) else {
            return Ok(());
        };
        if rules::revoked(entity).is_some() {
            return Ok(());
        }
        let (kind, id) = (entity.kind(), entity.id());
        if let Some(by) = self.named(kind, name, Some(id)).await? {
            let name = name.to_owned();
            return Err(StoreError::NameTaken { kind, name, by });
        }
        Ok(())
    }

    /// The row, other than `own`, that has a name, whatever the case of its letters. Names of accounts are unique
    /// among accounts.
    pub(super) async fn named(
        &mut self,
        kind: EntityKind,
        name: &str,
        own: Option<EntityId>,
    ) -> Result<Option<EntityId>, StoreError> {
        let table = table::table(kind);
        let live = if rules::can_be_revoked(kind) {
            " AND revoked_ms IS NULL"
        } else {
            ""
        };
        let own = own.map_or(Value::Blob(Vec::new()), Value::from);
        let mut values = vec![own];
        let mut sql = format!("SELECT id FROM {table} WHERE id <> ?{live}");
        if kind != EntityKind::Account {
            values.push(self.account.as_bytes().into());
            sql.push_str(" AND account = ?");
        }
        read::add_name(&mut sql, &mut values, name);
        sql.push_str(" LIMIT 1");
        let row = query(sql, values)
            .fetch_optional(&mut *self.transaction)
            .await
            .map_err(fault)?;
        row.map(|row| Ok(EntityId::from_bytes(kind, Columns(&row).bytes("id")?)))
            .transpose()
    }

    /// An actor is in a group once.
    async fn check_pair(&mut self, entity: &Entity) -> Result<(), StoreError> {
        let Entity::Membership(membership) = entity else {
            return Ok(());
        };
        let sql = "SELECT id FROM membership WHERE account = ? AND group_id = ? AND actor_id = ?";
        let values = vec![
            self.account.as_bytes().into(),
            membership.group.as_bytes().into(),
            membership.actor.as_bytes().into(),
        ];
        let row = query(sql, values)
            .fetch_optional(&mut *self.transaction)
            .await
            .map_err(fault)?;
        match row {
            Some(row) => {
                let bytes = Columns(&row).bytes("id")?;
                let id = EntityId::from_bytes(EntityKind::Membership, bytes);
                Err(StoreError::Exists(id))
            }
            None => Ok(()),
        }
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
        let text = |row: &Option<Entity>| row.as_ref().map(super::value::json).transpose();
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
        let done = query(sql, values)
            .execute(&mut *self.transaction)
            .await
            .map_err(fault)?;
        Ok(done.rows_affected())
    }

    pub(super) async fn commit(mut self) -> Result<Vec<Change>, StoreError> {
        for kind in std::mem::take(&mut self.grown) {
            let table = table::table(kind);
            let sql = format!("SELECT count(*) AS rows FROM {table} WHERE account = ?");
            let row = query(sql, vec![self.account.as_bytes().into()])
                .fetch_one(&mut *self.transaction)
                .await
                .map_err(fault)?;
            if Columns(&row).number("rows")? > u64::from(MAX_ROWS_PER_KIND) {
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
        self.transaction.commit().await.map_err(fault)?;
        Ok(self.changes)
    }
}

fn signs_in(row: &Entity) -> bool {
    matches!(row, Entity::Actor(actor) if actor.sign_in.is_some())
}
