//! The due time of the next write of the persisted state, the changes that it brings, and the grants that end before it.

use culvert_base::BootTime;
use culvert_ids::GrantId;
use std::collections::BTreeSet;
use std::time::Duration;

/// The wait of a change before it is written for a restart: a storm of grants or revocations is written, and flushed to
/// the disk, ten times a second, and not once a grant.
const WRITE_DELAY: Duration = Duration::from_millis(100);

/// The persisted state, as far as it is out of date.
#[derive(Default)]
pub(super) struct Persistence {
    /// Grants that have ended or changed, and are not to come back with a restart.
    void: Vec<GrantId>,
    changes: Unwritten,
    /// True if a change has come since the due time was last looked at.
    is_stale: bool,
    /// The due time of the next write.
    due: Option<BootTime>,
}

/// Parts of the state that are other ones than those that were written.
#[derive(Debug)]
pub(super) struct Unwritten {
    /// Nothing was written before, or all of it is lost.
    pub(super) is_whole: bool,
    /// The identity of the gateway, its networks, or the portal's keys.
    pub(super) network: bool,
    /// Grants that have come, changed or ended.
    pub(super) grants: BTreeSet<GrantId>,
}

impl Default for Unwritten {
    fn default() -> Self {
        Self {
            is_whole: true,
            network: false,
            grants: BTreeSet::new(),
        }
    }
}

impl Persistence {
    /// Everything is to be written again.
    pub(super) fn begin_anew(&mut self, grants: impl Iterator<Item = GrantId>) {
        self.changes = Unwritten {
            is_whole: true,
            network: true,
            grants: grants.collect(),
        };
        self.is_stale = true;
    }

    /// The persisted state of the network is out of date.
    pub(super) const fn change_network(&mut self) {
        self.changes.network = true;
        self.is_stale = true;
    }

    /// The persisted state of the grant is out of date.
    pub(super) fn change(&mut self, grant: GrantId) {
        self.change_all([grant]);
    }

    /// The persisted state of these grants is out of date.
    pub(super) fn change_all(&mut self, grants: impl IntoIterator<Item = GrantId>) {
        self.changes.grants.extend(grants);
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

    /// True if the changes are to be written now.
    pub(super) fn poll_due(&mut self, now: BootTime) -> bool {
        if std::mem::take(&mut self.is_stale) {
            self.due.get_or_insert(now.saturating_add(WRITE_DELAY));
        }
        self.due.take_if(|due| *due <= now).is_some()
    }

    /// The parts that have changed since the last call.
    pub(super) fn take_changes(&mut self) -> Unwritten {
        let rest = Unwritten {
            is_whole: false,
            network: false,
            grants: BTreeSet::new(),
        };
        std::mem::replace(&mut self.changes, rest)
    }

    pub(super) const fn next_timeout(&self) -> Option<BootTime> {
        self.due
    }
}
