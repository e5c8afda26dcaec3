//! The path of every write. A row is read before it is changed, and the caller's rights are judged. The store's
//! transaction reads both again, and checks each reference. The answer is the row as the transaction left it.

use super::changes::{left, made};
use super::{Caller, Service};
use culvert_ids::AccountId;
use culvert_portal_base::{Fault, now};
use culvert_store::{Author, Change, Entity, EntityId, EntityKind, Kind, Mutation, StoreError};

/// The number of attempts at a change that names no version and meets another change.
const CHANGE_ATTEMPTS: usize = 4;

/// Attempts at what is concluded from rows that the write expects at their versions.
#[derive(Default)]
pub(super) struct Attempts(usize);

impl Attempts {
    /// The end of it; none if it is to be tried again, because others changed meanwhile what it was concluded from.
    pub(super) fn end<T>(&mut self, tried: Result<T, Fault>) -> Option<Result<T, Fault>> {
        match tried {
            Err(Fault::VersionConflict { .. }) => self.are_over().then(|| Err(too_often())),
            end => Some(end),
        }
    }

    /// Counts an attempt that came to nothing; true if it was the last.
    pub(super) const fn are_over(&mut self) -> bool {
        self.0 += 1;
        self.0 >= CHANGE_ATTEMPTS
    }
}

/// Refuses the write after the row has changed.
pub(super) fn expect<T: Kind>(row: &T) -> Mutation {
    Mutation::Expect {
        id: row.id().into(),
        version: version_of(row),
    }
}

pub(super) fn too_often() -> Fault {
    Fault::Conflict("others change it all the time; try again".to_owned())
}

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
        self.make(caller, id, vec![Mutation::Create(row.into())])
            .await
    }

    /// Writes what makes the row with this id.
    pub(super) async fn make<T: Kind>(
        &self,
        caller: &Caller,
        id: EntityId,
        mutations: Vec<Mutation>,
    ) -> Result<T, Fault> {
        let written = self
            .write(caller.account(), caller.author(), mutations)
            .await;
        made(written.map_err(|error| at_reference(error, id))?, id)
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
        let row = self.get(caller.account(), id).await?;
        self.change_row(caller, row, expected, change).await
    }

    /// The same of a row that was just read, if its reader may change it.
    pub(super) async fn change_row<T: Kind>(
        &self,
        caller: &Caller,
        row: T,
        expected: Option<u64>,
        change: impl Fn(&mut T) -> Result<(), Fault> + Send,
    ) -> Result<T, Fault> {
        self.change_row_with(caller, row, expected, &[], change)
            .await
    }

    /// The same, in one write with what belongs to it and comes before it.
    pub(super) async fn change_row_with<T: Kind>(
        &self,
        caller: &Caller,
        mut row: T,
        expected: Option<u64>,
        with: &[Mutation],
        change: impl Fn(&mut T) -> Result<(), Fault> + Send,
    ) -> Result<T, Fault> {
        let id = row.id();
        for attempt in 0..CHANGE_ATTEMPTS {
            if attempt > 0 {
                row = self.get(caller.account(), id).await?;
            }
            let version = version_of(&row);
            if expected.is_some_and(|expected| expected != version) {
                return Err(Fault::VersionConflict { current: version });
            }
            let mut wanted = row.clone();
            change(&mut wanted)?;
            let update = Mutation::Update {
                entity: wanted.into(),
                expected_version: Some(version),
            };
            let mutations = with.iter().cloned().chain([update]).collect();
            let written = self
                .write(caller.account(), caller.author(), mutations)
                .await;
            match written {
                Ok(changes) => return Ok(left(changes, row)),
                Err(StoreError::VersionConflict { .. }) if expected.is_none() => {}
                Err(error) => return Err(at_reference(error, id.into())),
            }
        }
        Err(too_often())
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
        self.delete_row(caller, id.into(), expected_version, cascade)
            .await
    }

    /// Deletes a row of which it is known that it is the caller's own, and that they may delete it.
    pub(super) async fn delete_own(
        &self,
        caller: &Caller,
        id: EntityId,
        expected_version: Option<u64>,
    ) -> Result<(), Fault> {
        self.delete_row(caller, id, expected_version, false).await
    }

    async fn delete_row(
        &self,
        caller: &Caller,
        id: EntityId,
        expected_version: Option<u64>,
        cascade: bool,
    ) -> Result<(), Fault> {
        let delete = Mutation::Delete {
            id,
            expected_version,
            cascade,
        };
        self.write(caller.account(), caller.author(), vec![delete])
            .await?;
        Ok(())
    }
}

fn version_of<T: Kind>(row: &T) -> u64 {
    let entity: Entity = row.clone().into();
    entity.stamp().version
}

/// The fault of a write of this row. Another row that does not exist is told by the field that named it.
pub(super) fn at_reference(error: StoreError, row: EntityId) -> Fault {
    let field = match &error {
        StoreError::NotFound(id) if *id != row => field_of(row.kind(), id.kind()),
        _ => None,
    };
    let fault = Fault::from(error);
    match field {
        Some(field) => fault.at_field(field),
        None => fault,
    }
}

/// The field of a request for a row that names what the row refers to. None if the path of the request names it.
const fn field_of(row: EntityKind, to: EntityKind) -> Option<&'static str> {
    match (row, to) {
        (EntityKind::Membership, EntityKind::Group) => None,
        (_, EntityKind::Actor) => Some("actor"),
        (EntityKind::Client, EntityKind::Gateway) => Some("gateways"),
        (_, EntityKind::Group) => Some("group"),
        (_, EntityKind::Provider) => Some("provider"),
        (_, EntityKind::Resource) => Some("resource"),
        (_, EntityKind::Site) => Some("site"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_ids::{ActorId, GroupId, MembershipId, PolicyId};

    #[test]
    fn a_reference_that_does_not_exist_is_told_by_its_field() {
        let group = EntityId::from(GroupId::from_bytes([1; 16]));
        let policy = EntityId::from(PolicyId::from_bytes([2; 16]));
        let field = |missing, row| match at_reference(StoreError::NotFound(missing), row) {
            Fault::Invalid(problems) => Some(problems[0].field.clone()),
            Fault::NotFound(_) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(field(group, policy).as_deref(), Some("group"));
        // The path names the row itself, and the group of a membership.
        let member = EntityId::from(MembershipId::from_bytes([3; 16]));
        assert_eq!(field(policy, policy), None);
        assert_eq!(field(group, member), None);
        let actor = EntityId::from(ActorId::from_bytes([4; 16]));
        assert_eq!(field(actor, member).as_deref(), Some("actor"));
    }
}
