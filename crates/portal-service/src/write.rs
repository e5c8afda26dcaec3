//! Writes: rows that are made, changed and deleted in the name of a caller.

use super::{Caller, Service};
use culvert_ids::AccountId;
use culvert_portal_base::{Fault, now};
use culvert_store::{Author, Change, Entity, EntityId, Kind, Mutation, StoreError};

/// The number of attempts at a change that names no version and meets another change.
const CHANGE_ATTEMPTS: usize = 4;

impl Service {
    pub(super) async fn write(
        &self,
        account: AccountId,
        author: Author,
        mutations: Vec<Mutation>,
    ) -> Result<Vec<Change>, StoreError> {
        let write = self.database.store.write(account, author, now(), mutations);
        self.database.ask("write", write).await
    }

    /// Makes a row.
    pub(super) async fn create<T: Kind>(&self, caller: &Caller, row: T) -> Result<T, Fault> {
        caller.may_change()?;
        let id = row.id().into();
        let create = vec![Mutation::Create(row.into())];
        let changes = self
            .write(caller.account(), caller.author(), create)
            .await?;
        made(changes, id)
    }

    /// Changes a row. With `expected`, only that version of it; without, whatever it is now.
    pub(super) async fn change<T: Kind>(
        &self,
        caller: &Caller,
        id: T::Id,
        expected: Option<u64>,
        change: impl Fn(&mut T) -> Result<(), Fault> + Send,
    ) -> Result<T, Fault> {
        caller.may_change()?;
        self.change_permitted(caller, id, expected, change).await
    }

    /// The same, where another rule than that for all changes lets the caller.
    pub(super) async fn change_permitted<T: Kind>(
        &self,
        caller: &Caller,
        id: T::Id,
        expected: Option<u64>,
        change: impl Fn(&mut T) -> Result<(), Fault> + Send,
    ) -> Result<T, Fault> {
        for _ in 0..CHANGE_ATTEMPTS {
            let mut row: T = self.get(caller.account(), id).await?;
            let version = version_of(&row);
            if expected.is_some_and(|expected| expected != version) {
                return Err(Fault::VersionConflict { current: version });
            }
            change(&mut row)?;
            let update = Mutation::Update {
                entity: row.into(),
                expected_version: Some(version),
            };
            let written = self
                .write(caller.account(), caller.author(), vec![update])
                .await;
            match written {
                Ok(_) => return self.get(caller.account(), id).await,
                Err(StoreError::VersionConflict { .. }) if expected.is_none() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Fault::Conflict(
            "others change it all the time; try again".to_owned(),
        ))
    }

    /// Deletes a row.
    pub(super) async fn delete<T: Kind>(
        &self,
        caller: &Caller,
        id: T::Id,
        expected_version: Option<u64>,
        cascade: bool,
    ) -> Result<(), Fault> {
        caller.may_change()?;
        let delete = Mutation::Delete {
            id: id.into(),
            expected_version,
            cascade,
        };
        self.write(caller.account(), caller.author(), vec![delete])
            .await?;
        Ok(())
    }
}

/// The row that a write made, as it left it.
pub(super) fn made<T: Kind>(changes: Vec<Change>, id: EntityId) -> Result<T, Fault> {
    changes
        .into_iter()
        .rev()
        .filter(|change| change.id == id)
        .find_map(|change| change.after.and_then(T::from_entity))
        .ok_or_else(|| Fault::internal("a write did not return what it made"))
}

fn version_of<T: Kind>(row: &T) -> u64 {
    let entity: Entity = row.clone().into();
    entity.stamp().version
}
