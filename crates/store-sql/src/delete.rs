//! Deletions, and what goes along with them.

use super::fault::fault;
use super::value::{Columns, query};
use super::write::Writing;
use super::{addresses, read, table};
use culvert_store::rules;
use culvert_store::{
    Entity, EntityId, EntityKind, MAX_ROWS_PER_KIND, MAX_USERS_NAMED, Operation, StoreError,
};
use std::collections::BTreeSet;

impl Writing {
    pub(super) async fn delete(
        &mut self,
        id: EntityId,
        expected_version: Option<u64>,
        cascade: bool,
    ) -> Result<(), StoreError> {
        if id.kind() == EntityKind::Account {
            return Err(StoreError::Invalid {
                kind: id.kind(),
                field: "id",
                reason: "an account can't be deleted".to_owned(),
            });
        }
        let account = self.account();
        self.current(id, expected_version).await?;
        // Users after what they use; deleted from the end.
        let mut doomed = vec![id];
        let mut known = BTreeSet::from([id]);
        let mut at = 0;
        while at < doomed.len() {
            let users = self.users(doomed[at], cascade).await?;
            doomed.extend(users.into_iter().filter(|user| known.insert(*user)));
            self.check_room(doomed.len())?;
            at += 1;
        }
        for id in doomed.into_iter().rev() {
            let before = read::get(self.connection(), account, id).await?;
            self.check_owners(&before).await?;
            if rules::revoked(&before).is_none() {
                self.release_addresses(&before).await?;
            }
            let table = table::table(id.kind());
            let sql = format!("DELETE FROM {table} WHERE account = ? AND id = ?");
            let values = vec![account.as_bytes().into(), id.into()];
            self.execute(sql, values).await?;
            self.append(Operation::Delete, id, Some(before), None)
                .await?;
        }
        Ok(())
    }

    /// Rows that refer to a row and are deleted along with it.
    async fn users(&mut self, id: EntityId, cascade: bool) -> Result<Vec<EntityId>, StoreError> {
        let account = self.account();
        let mut going = Vec::new();
        let mut staying = Vec::new();
        for user in rules::users_of(id.kind()) {
            let sql = format!(
                "SELECT id FROM {} WHERE account = ? AND {} = ? ORDER BY id LIMIT ?",
                table::table(user.kind),
                user.column,
            );
            let limit = u64::from(MAX_ROWS_PER_KIND);
            let values = vec![account.as_bytes().into(), id.into(), limit.into()];
            let rows = query(sql, values)
                .fetch_all(self.connection())
                .await
                .map_err(fault)?;
            let into = if cascade || user.always_cascades {
                &mut going
            } else {
                &mut staying
            };
            for row in &rows {
                let bytes = Columns(row).bytes("id")?;
                into.push(EntityId::from_bytes(user.kind, bytes));
            }
        }
        if staying.is_empty() {
            return Ok(going);
        }
        let total = staying.len() as u64;
        staying.truncate(MAX_USERS_NAMED);
        Err(StoreError::InUse {
            id,
            by: staying,
            total,
        })
    }

    pub(super) async fn release_addresses(&mut self, entity: &Entity) -> Result<(), StoreError> {
        let (ipv4, ipv6) = match entity {
            Entity::Client(row) => (row.ipv4, row.ipv6),
            Entity::Gateway(row) => (row.ipv4, row.ipv6),
            _ => return Ok(()),
        };
        addresses::release(self, ipv4.into()).await?;
        addresses::release(self, ipv6.into()).await
    }
}
