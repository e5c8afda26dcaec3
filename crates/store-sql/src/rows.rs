//! Rows that a write adds or writes over, each by the rules of its kind and with its entry in the change log.

use super::unwritten::{Unwritten, insert_columns, may_wait};
use super::value::{Value, places};
use super::writing::Writing;
use super::{addresses, providers, read, table};
use culvert_store::rules::{self, name_key};
use culvert_store::{Actor, Entity, EntityId, EntityKind, Operation, Provider, Stamp, StoreError};

impl Writing {
    /// Adds a row of any kind.
    pub(super) async fn create(&mut self, mut entity: Entity) -> Result<Entity, StoreError> {
        rules::check(None, &entity)?;
        rules::without_secrets(&mut entity);
        entity.set_stamp(Stamp {
            version: 1,
            created: self.at(),
            updated: self.at(),
        });
        let id = entity.id();
        let refused = match self.add(&entity).await {
            Ok(true) => {
                self.note_added(&entity);
                self.append(Operation::Create, id, None, Some(entity.clone()))
                    .await?;
                return Ok(entity);
            }
            Ok(false) => return Err(self.refusal_of(id).await?),
            Err(error) if error.is_local() => return Err(error),
            Err(error) => error,
        };
        // Only a row that is refused is looked for: the id of a new one is in no table. Rows that wait come before it.
        self.write_rows().await?;
        match self.is_there(id).await? {
            true => Err(StoreError::Exists(id)),
            false => Err(refused),
        }
    }

    /// The reason for which a unique index refused a row.
    pub(super) async fn refusal_of(&mut self, id: EntityId) -> Result<StoreError, StoreError> {
        Ok(match self.is_there(id).await? {
            true => StoreError::Exists(id),
            false => StoreError::corrupt(format_args!("a unique index refused {id}")),
        })
    }

    async fn is_there(&mut self, id: EntityId) -> Result<bool, StoreError> {
        let account = self.account();
        let found = read::find(self.written(), account, id).await?;
        Ok(found.is_some())
    }

    /// Inserts a row that its checks let pass. False, if a unique index refuses it.
    async fn add(&mut self, entity: &Entity) -> Result<bool, StoreError> {
        self.check_owners(None, entity).await?;
        self.check_references(None, entity).await?;
        self.check_name(None, entity).await?;
        self.check_pair(entity).await?;
        self.check_subject(entity).await?;
        let (kind, stamp) = (entity.kind(), entity.stamp());
        let mut values = vec![
            self.account().as_bytes().into(),
            entity.id().into(),
            stamp.version.into(),
            stamp.created.into(),
            stamp.updated.into(),
        ];
        values.extend(table::values(entity)?);
        if may_wait(kind) {
            let row = Unwritten::Insert(entity.id(), values);
            self.write_later(row).await?;
            return Ok(true);
        }
        let columns = insert_columns(kind);
        let sql = format!(
            "INSERT INTO {} ({}) VALUES ({})",
            table::table(kind),
            columns.join(", "),
            places(columns.len()),
        );
        self.insert(sql, values).await
    }

    /// Writes a row over the one that it was, what the store alone changes included.
    pub(super) async fn replace(
        &mut self,
        before: Entity,
        mut after: Entity,
    ) -> Result<Entity, StoreError> {
        rules::check(Some(&before), &after)?;
        self.check_owners(Some(&before), &after).await?;
        self.check_references(Some(&before), &after).await?;
        self.check_name(Some(&before), &after).await?;
        self.note_ways_in(&before, Some(&after)).await?;
        let (id, stamp) = (after.id(), before.stamp());
        after.set_stamp(Stamp {
            version: stamp.version + 1,
            created: stamp.created,
            updated: self.at(),
        });
        self.write_over(&before, &after).await?;
        self.ahead().forget(&before);
        self.ahead().forget_name(&after);
        self.ahead().note_references(&after);
        if rules::revoked(&before).is_none() && rules::revoked(&after).is_some() {
            addresses::release_of(self, &after).await?;
        }
        self.forget_secret(&before, &after).await?;
        self.append(Operation::Update, id, Some(before), Some(after.clone()))
            .await?;
        Ok(after)
    }

    async fn write_over(&mut self, before: &Entity, after: &Entity) -> Result<(), StoreError> {
        let (kind, id, version) = (after.kind(), after.id(), before.stamp().version);
        // A row keeps its key with its name: one from before keys were normalised may have a twin.
        let is_renamed = rules::name(before) != rules::name(after);
        let columns = table::columns(kind).iter().copied();
        let columns = columns.zip(table::values(after)?);
        let columns = columns.filter(|(column, _)| is_renamed || *column != "name_key");
        if may_wait(kind) && !is_renamed {
            let mut values = vec![id.into(), version.into()];
            values.extend(columns.map(|(_, value)| value));
            return self.write_later(Unwritten::Update(id, values)).await;
        }
        let (columns, mut values): (Vec<&str>, Vec<Value>) = columns.unzip();
        let assigned: String = columns
            .iter()
            .map(|column| format!("{column} = ?, "))
            .collect();
        let sql = format!(
            "UPDATE {} SET {assigned}version = ?, updated_ms = ? \
             WHERE account = ? AND id = ? AND version = ?",
            table::table(kind),
        );
        values.extend([
            (version + 1).into(),
            self.at().into(),
            self.account().as_bytes().into(),
            id.into(),
            version.into(),
        ]);
        match self.execute(sql, values).await? {
            1 => Ok(()),
            _ => Err(StoreError::corrupt(format_args!(
                "{id} changed within the transaction that changes it"
            ))),
        }
    }

    /// An actor who no longer signs in with a password has none. If the portal is a provider's public client, it has no
    /// secret there.
    async fn forget_secret(&mut self, before: &Entity, after: &Entity) -> Result<(), StoreError> {
        let sql = match (before, after) {
            (Entity::Actor(was), Entity::Actor(is)) if has_password(was) && !has_password(is) => {
                "DELETE FROM password WHERE account = ? AND actor_id = ?"
            }
            (
                _,
                Entity::Provider(Provider {
                    secret_set: None, ..
                }),
            ) => "DELETE FROM provider_secret WHERE account = ? AND provider_id = ?",
            _ => return Ok(()),
        };
        let values = vec![self.account().as_bytes().into(), after.id().into()];
        self.execute(sql, values).await?;
        Ok(())
    }

    /// Refuses a row that refers to another one that does not exist. References that the row had before are not looked
    /// up again: a row that is referred to is not deleted.
    async fn check_references(
        &mut self,
        before: Option<&Entity>,
        after: &Entity,
    ) -> Result<(), StoreError> {
        let stored = before.map(rules::references).unwrap_or_default();
        for id in rules::references(after) {
            if !stored.contains(&id) {
                self.check_exists(id).await?;
            }
        }
        Ok(())
    }

    /// Refuses a name that another row has. A row may change the case of the letters in its own name.
    async fn check_name(
        &mut self,
        before: Option<&Entity>,
        after: &Entity,
    ) -> Result<(), StoreError> {
        let Some(name) = rules::name(after) else {
            return Ok(());
        };
        // A name that it had before is not judged again.
        let had = before.and_then(rules::name).map(name_key);
        if rules::revoked(after).is_some() || had == Some(name_key(name)) {
            return Ok(());
        }
        let (kind, id) = (after.kind(), after.id());
        if let Some(by) = self.named(kind, name, Some(id)).await? {
            let name = name.to_owned();
            return Err(StoreError::NameTaken { kind, name, by });
        }
        Ok(())
    }

    /// An actor is in a group once.
    async fn check_pair(&mut self, entity: &Entity) -> Result<(), StoreError> {
        let Entity::Membership(membership) = entity else {
            return Ok(());
        };
        if let Some(found) = self.ahead().membership(membership) {
            return found.map_or(Ok(()), |id| Err(StoreError::Exists(id)));
        }
        let sql = "SELECT id FROM membership WHERE account = ? AND group_id = ? AND actor_id = ?";
        let values = vec![
            self.account().as_bytes().into(),
            membership.group.as_bytes().into(),
            membership.actor.as_bytes().into(),
        ];
        let row = self.connection().await?.fetch_one(sql, values).await?;
        match row {
            Some(row) => {
                let bytes = row.columns().bytes("id")?;
                let id = EntityId::from_bytes(EntityKind::Membership, bytes);
                Err(StoreError::Exists(id))
            }
            None => Ok(()),
        }
    }

    /// A provider knows one person under a subject.
    async fn check_subject(&mut self, entity: &Entity) -> Result<(), StoreError> {
        let Entity::Identity(new) = entity else {
            return Ok(());
        };
        let account = self.account();
        let found = providers::known_as(
            self.connection().await?,
            account,
            new.provider,
            &new.subject,
        )
        .await?;
        match found {
            Some(other) => Err(StoreError::Exists(other.id.into())),
            None => Ok(()),
        }
    }
}

fn has_password(actor: &Actor) -> bool {
    actor
        .sign_in
        .is_some_and(|sign_in| sign_in.password_set.is_some())
}
