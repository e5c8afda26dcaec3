//! The due time of the next write of the persisted state, and the grants that end before it.

use culvert_base::BootTime;
use culvert_ids::GrantId;
use std::time::Duration;

/// The wait of a change before it is written for a restart: a change of a policy
/// comes as a burst of revocations, each of which would write all that is left.
const WRITE_DELAY: Duration = Duration::from_millis(100);

/// The persisted state, as far as it is out of date.
#[derive(Default)]
pub(super) struct Persistence {
    /// Grants that have ended or changed, and are not to come back with a restart.
    void: Vec<GrantId>,
    /// True if a change has come since the due time was last looked at.
    is_stale: bool,
    /// The due time of the next write.
    due: Option<BootTime>,
}

impl Persistence {
    /// The persisted state is out of date.
    pub(super) const fn touch(&mut self) {
        self.is_stale = true;
    }

    /// These grants are not to come back with a restart.
    pub(super) fn void(&mut self, grants: impl IntoIterator<Item = GrantId>) {
        self.void.extend(grants);
    }

    /// The grants that are void since the last call; none if there are none.
    pub(super) fn poll_void(&mut self) -> Option<Vec<GrantId>> {
        (!self.void.is_empty()).then(|| std::mem::take(&mut self.void))
    }

    /// True if the state is to be written now.
    pub(super) fn poll_due(&mut self, now: BootTime) -> bool {
        if std::mem::take(&mut self.is_stale) {
            self.due.get_or_insert(now.saturating_add(WRITE_DELAY));
        }
        self.due.take_if(|due| *due <= now).is_some()
    }

    pub(super) const fn next_timeout(&self) -> Option<BootTime> {
        self.due
    }
}
