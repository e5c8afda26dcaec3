//! The feed of changes: none may be missing, and all are of one account.

use culvert_ids::AccountId;
use culvert_store::{Change, Seq};

/// The feed of changes is not what it has to be. Nothing was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedError {
    /// A change is missing.
    #[error("the feed went from change {last} to {found}: what lies between is missing")]
    Gap {
        /// The last that was applied.
        last: Seq,
        /// The number that came instead of the next.
        found: Seq,
    },
    /// A change of another account.
    #[error("change {0} belongs to another account")]
    Foreign(Seq),
}

/// The place in the feed up to which changes are in.
#[derive(Debug)]
pub(super) struct Feed {
    account: AccountId,
    seq: Seq,
}

impl Feed {
    pub(super) const fn new(account: AccountId, seq: Seq) -> Self {
        Self { account, seq }
    }

    pub(super) const fn account(&self) -> AccountId {
        self.account
    }

    /// The last change that is in.
    pub(super) const fn seq(&self) -> Seq {
        self.seq
    }

    /// Checks that the changes follow those applied: none is missing, and all are of the account.
    pub(super) fn expect(&self, changes: &[Change]) -> Result<(), FeedError> {
        let mut last = self.seq;
        for change in changes {
            if change.account != self.account {
                return Err(FeedError::Foreign(change.seq));
            }
            if change.seq.0 > last.0.saturating_add(1).saturating_add(change.skipped) {
                let found = change.seq;
                return Err(FeedError::Gap { last, found });
            }
            last = last.max(change.seq);
        }
        Ok(())
    }

    /// Goes on to a change. False where it is in already.
    pub(super) fn take(&mut self, seq: Seq) -> bool {
        let is_new = seq > self.seq;
        self.seq = self.seq.max(seq);
        is_new
    }
}
