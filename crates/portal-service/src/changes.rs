//! Rows as a write has left them: an answer reads nothing again.

use culvert_portal_base::Fault;
use culvert_store::{Change, EntityId, Kind};

/// The row that a write made, as it left it.
pub(super) fn made<T: Kind>(changes: Vec<Change>, id: EntityId) -> Result<T, Fault> {
    after(changes, id).ok_or_else(|| Fault::internal("a write did not return what it made"))
}

/// The row as a write left it: as it was before, if the write did not change it.
pub(super) fn left<T: Kind>(changes: Vec<Change>, before: T) -> T {
    after(changes, before.id().into()).unwrap_or(before)
}

fn after<T: Kind>(changes: Vec<Change>, id: EntityId) -> Option<T> {
    changes
        .into_iter()
        .rev()
        .filter(|change| change.id == id)
        .find_map(|change| change.after.and_then(T::from_entity))
}
