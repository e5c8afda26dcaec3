//! The statements by which a large write reads ahead.

use super::connection::Rows;
use super::table;
use super::unwritten::{AT_ONCE, may_wait};
use super::value::{Value, places};
use super::writing::Writing;
use culvert_ids::{ActorId, GroupId, ID_LEN};
use culvert_store::rules::{self, lookup_keys};
use culvert_store::{Entity, EntityId, EntityKind, Mutation, StoreError};
use std::collections::{BTreeMap, BTreeSet};

/// The mutations from which a write reads ahead. Fewer take no longer one by one.
const FROM_MUTATIONS: usize = 16;

impl Writing {
    /// Reads what the mutations of a large write will ask for.
    pub(super) async fn read_ahead(&mut self, mutations: &[Mutation]) -> Result<(), StoreError> {
        if mutations.len() < FROM_MUTATIONS {
            return Ok(());
        }
        let mut rows = BTreeSet::new();
        let mut doomed = BTreeSet::new();
        let mut references = BTreeSet::new();
        let mut names = BTreeSet::new();
        let mut memberships = BTreeSet::new();
        for mutation in mutations {
            match mutation {
                Mutation::Create(row) if may_wait(row.kind()) => {
                    references.extend(rules::references(row));
                    for key in rules::name(row).into_iter().flat_map(lookup_keys) {
                        names.insert((row.kind(), key));
                    }
                    if let Entity::Membership(row) = row {
                        memberships.insert((row.group, row.actor));
                    }
                }
                Mutation::Update { entity, .. } if may_wait(entity.kind()) => {
                    rows.insert(entity.id());
                    references.extend(rules::references(entity));
                }
                Mutation::Delete { id, .. } if may_wait(id.kind()) => {
                    rows.insert(*id);
                    doomed.insert(*id);
                }
                _ => {}
            }
        }
        self.read_rows(rows).await?;
        self.read_references(references).await?;
        self.read_names(names).await?;
        self.read_memberships(memberships).await?;
        self.read_users(doomed).await
    }

    async fn read_rows(&mut self, ids: BTreeSet<EntityId>) -> Result<(), StoreError> {
        for (kind, values) in by_kind(ids) {
            let sql = format!("{} WHERE account = ? AND id", table::select(kind));
            for wanted in values.chunks(AT_ONCE) {
                for row in self.some(&sql, wanted).await?.iter() {
                    let row = table::read(kind, row)?;
                    self.ahead().rows.insert(row.id(), row);
                }
            }
        }
        Ok(())
    }

    async fn read_references(&mut self, ids: BTreeSet<EntityId>) -> Result<(), StoreError> {
        for (kind, values) in by_kind(ids) {
            let table = table::table(kind);
            let sql = format!("SELECT id FROM {table} WHERE account = ? AND id");
            for wanted in values.chunks(AT_ONCE) {
                for row in self.some(&sql, wanted).await?.iter() {
                    self.note_known(EntityId::from_bytes(kind, row.bytes("id")?));
                }
            }
        }
        Ok(())
    }

    async fn read_names(
        &mut self,
        names: BTreeSet<(EntityKind, String)>,
    ) -> Result<(), StoreError> {
        let mut keys: BTreeMap<EntityKind, Vec<Value>> = BTreeMap::new();
        for (kind, key) in &names {
            keys.entry(*kind).or_default().push(key.as_str().into());
        }
        let asked = names.into_iter().map(|name| (name, Vec::new()));
        self.ahead().names.extend(asked);
        for (kind, values) in keys {
            let table = table::table(kind);
            let sql = format!("SELECT id, name_key FROM {table} WHERE account = ? AND name_key");
            for wanted in values.chunks(AT_ONCE) {
                for row in self.some(&sql, wanted).await?.iter() {
                    let id = EntityId::from_bytes(kind, row.bytes("id")?);
                    let key = (kind, row.text("name_key")?);
                    self.ahead().names.entry(key).or_default().push(id);
                }
            }
        }
        Ok(())
    }

    async fn read_memberships(
        &mut self,
        pairs: BTreeSet<(GroupId, ActorId)>,
    ) -> Result<(), StoreError> {
        let pairs: Vec<_> = pairs.into_iter().collect();
        let account = self.account();
        for wanted in pairs.chunks(AT_ONCE / 2) {
            let asked = wanted.iter().map(|pair| (*pair, None));
            self.ahead().memberships.extend(asked);
            let all = vec!["(?, ?)"; wanted.len()].join(", ");
            let sql = format!(
                "SELECT id, group_id, actor_id FROM membership WHERE account = ? \
                 AND (group_id, actor_id) IN (VALUES {all})"
            );
            let ids = wanted.iter().flat_map(|(group, actor)| {
                [Value::from(group.as_bytes()), actor.as_bytes().into()]
            });
            let values = std::iter::once(account.as_bytes().into()).chain(ids);
            let values = values.collect();
            for row in self.connection().await?.fetch(sql, values).await?.iter() {
                let group = GroupId::from_bytes(row.bytes("group_id")?);
                let actor = ActorId::from_bytes(row.bytes("actor_id")?);
                let id = EntityId::from_bytes(EntityKind::Membership, row.bytes("id")?);
                let there = &mut self.ahead().memberships;
                there.insert((group, actor), Some(id));
            }
        }
        Ok(())
    }

    /// The rows that refer to those that are to be deleted: a row whose users all go before it is asked for none.
    async fn read_users(&mut self, doomed: BTreeSet<EntityId>) -> Result<(), StoreError> {
        for (kind, values) in by_kind(doomed) {
            let ids = values.iter().filter_map(|value| id_of(kind, value));
            let none_yet = ids.map(|id| (id, BTreeSet::new()));
            self.ahead().users.extend(none_yet);
            for user in rules::users_of(kind) {
                let (table, column) = (table::table(user.kind), user.column);
                let sql =
                    format!("SELECT id, {column} FROM {table} WHERE account = ? AND {column}");
                for wanted in values.chunks(AT_ONCE) {
                    for row in self.some(&sql, wanted).await?.iter() {
                        let id = EntityId::from_bytes(user.kind, row.bytes("id")?);
                        let used = EntityId::from_bytes(kind, row.bytes(column)?);
                        let users = self.ahead().users.entry(used).or_default();
                        users.insert(id);
                    }
                }
            }
        }
        Ok(())
    }

    /// Rows whose last column of the condition is one of these.
    async fn some(&mut self, sql: &str, wanted: &[Value]) -> Result<Rows, StoreError> {
        let sql = format!("{sql} IN ({})", places(wanted.len()));
        let account = self.account().as_bytes().into();
        let values = std::iter::once(account).chain(wanted.iter().cloned());
        let values = values.collect();
        self.connection().await?.fetch(sql, values).await
    }
}

fn by_kind(ids: BTreeSet<EntityId>) -> BTreeMap<EntityKind, Vec<Value>> {
    let mut by_kind: BTreeMap<EntityKind, Vec<Value>> = BTreeMap::new();
    for id in ids {
        by_kind.entry(id.kind()).or_default().push(id.into());
    }
    by_kind
}

fn id_of(kind: EntityKind, value: &Value) -> Option<EntityId> {
    match value {
        Value::Blob(bytes) => {
            let bytes: [u8; ID_LEN] = bytes.as_slice().try_into().ok()?;
            Some(EntityId::from_bytes(kind, bytes))
        }
        _ => None,
    }
}
