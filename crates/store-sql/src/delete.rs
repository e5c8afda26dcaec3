//! Deletions, and what goes along with them.

use super::unwritten::{Unwritten, may_wait};
use super::writing::Writing;
use super::{addresses, table};
use culvert_ids::{GatewayId, RelayId};
use culvert_store::rules;
use culvert_store::{
    Client, Entity, EntityId, EntityKind, MAX_CHANGES_PER_WRITE, MAX_PLAIN_CLIENTS,
    MAX_ROWS_PER_KIND, MAX_USERS_NAMED, NamedRow, Operation, StoreError,
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
        let root = self.current(id, expected_version).await?;
        // Users after what they use; deleted from the end.
        let mut known = BTreeSet::from([id]);
        let mut doomed = vec![root];
        let mut at = 0;
        while at < doomed.len() {
            let users = self.users(&doomed[at], cascade).await?;
            doomed.extend(users.into_iter().filter(|user| known.insert(user.id())));
            self.check_room(doomed.len())?;
            at += 1;
        }
        for row in doomed.into_iter().rev() {
            self.delete_row(row).await?;
        }
        Ok(())
    }

    async fn delete_row(&mut self, row: Entity) -> Result<(), StoreError> {
        self.check_owners(None, &row).await?;
        self.note_ways_in(&row, None).await?;
        if rules::revoked(&row).is_none() {
            addresses::release_of(self, &row).await?;
        }
        let id = row.id();
        if may_wait(id.kind()) {
            self.write_later(Unwritten::Delete(id)).await?;
        } else {
            let table = table::table(id.kind());
            let sql = format!("DELETE FROM {table} WHERE account = ? AND id = ?");
            let values = vec![self.account().as_bytes().into(), id.into()];
            self.execute(sql, values).await?;
        }
        self.note_deleted(&row);
        self.append(Operation::Delete, id, Some(row), None).await
    }

    /// Rows that refer to a row and are deleted along with it: at most one more than a write has room for, which
    /// [`Self::check_room`] then refuses.
    async fn users(&mut self, used: &Entity, cascade: bool) -> Result<Vec<Entity>, StoreError> {
        let (account, id) = (self.account(), used.id());
        if self.ahead().is_unused(id) {
            return Ok(Vec::new());
        }
        let mut going = Vec::new();
        let mut staying = Vec::new();
        let mut total: u64 = 0;
        for user in rules::users_of(id.kind()) {
            let goes = cascade || user.always_cascades;
            // Rows that stay are only named. Each of their kinds has names.
            let select = match goes {
                true => table::select(user.kind),
                false => format!("SELECT id, name FROM {}", table::table(user.kind)),
            };
            let column = user.column;
            let sql = format!("{select} WHERE account = ? AND {column} = ? ORDER BY id LIMIT ?");
            let limit = match goes {
                true => (MAX_CHANGES_PER_WRITE + 1).saturating_sub(going.len()) as u64,
                false => MAX_ROWS_PER_KIND.into(),
            };
            let values = vec![account.as_bytes().into(), id.into(), limit.into()];
            for row in self.connection().await?.fetch(sql, values).await?.iter() {
                if goes {
                    going.push(table::read(user.kind, row)?);
                    continue;
                }
                total += 1;
                if staying.len() < MAX_USERS_NAMED {
                    staying.push(NamedRow::new(
                        user.kind,
                        row.bytes("id")?,
                        row.text("name")?,
                    ));
                }
            }
        }
        let naming = match id {
            EntityId::Relay(relay) => self.sites_that_name(relay).await?,
            EntityId::Gateway(gateway) => {
                let devices = self.devices_that_name(gateway).await?;
                let has_no_other = |device: &Client| cascade && device.gateways.len() == 1;
                let (alone, named): (Vec<_>, Vec<_>) = devices.into_iter().partition(has_no_other);
                going.extend(alone.into_iter().map(Entity::from));
                named.into_iter().map(named_client).collect()
            }
            _ => Vec::new(),
        };
        total += naming.len() as u64;
        staying.extend(naming.into_iter().take(MAX_USERS_NAMED));
        if staying.is_empty() {
            return Ok(going);
        }
        let name = used.name().unwrap_or_default().to_owned();
        Err(StoreError::InUse {
            row: NamedRow { id, name },
            by: staying,
            total,
        })
    }

    /// The sites whose gateways may use this relay, as one of a list. No column refers to it alone.
    ///
    /// They stay: a site whose last relay went would use no relay, or all of them, and nobody chose either.
    async fn sites_that_name(&mut self, relay: RelayId) -> Result<Vec<NamedRow>, StoreError> {
        let select = table::select(EntityKind::Site);
        let sql = format!("{select} WHERE account = ? AND relays IS NOT NULL ORDER BY id LIMIT ?");
        let limit = u64::from(MAX_ROWS_PER_KIND).into();
        let values = vec![self.account().as_bytes().into(), limit];
        let mut sites = Vec::new();
        for row in self.connection().await?.fetch(sql, values).await?.iter() {
            if let Entity::Site(site) = table::read(EntityKind::Site, row)?
                && site.relays.is_some_and(|relays| relays.contains(&relay))
            {
                sites.push(NamedRow {
                    id: site.id.into(),
                    name: site.name,
                });
            }
        }
        Ok(sites)
    }

    /// The plain WireGuard devices whose file has the gateway's key, perhaps as one of several.
    async fn devices_that_name(&mut self, gateway: GatewayId) -> Result<Vec<Client>, StoreError> {
        let select = table::select(EntityKind::Client);
        let sql = format!("{select} WHERE account = ? AND gateways <> '[]' ORDER BY id LIMIT ?");
        let limit = MAX_PLAIN_CLIENTS.into();
        let values = vec![self.account().as_bytes().into(), limit];
        let mut devices = Vec::new();
        for row in self.connection().await?.fetch(sql, values).await?.iter() {
            let client: Client = table::read_as(row)?;
            if client.gateways.contains(&gateway) {
                devices.push(client);
            }
        }
        Ok(devices)
    }
}

fn named_client(client: Client) -> NamedRow {
    NamedRow {
        id: client.id.into(),
        name: client.name,
    }
}
