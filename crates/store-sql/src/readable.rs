//! The fence that keeps a program out once an upgrade is finished that it is no part of.

use super::connection::Transaction;
use super::postgres;
use super::schema::expect_readable;
use culvert_store::StoreError;
use std::sync::atomic::{AtomicU32, Ordering};

/// True while this program may work on the database. An operator may have finished an upgrade while it was paused or cut
/// off.
#[derive(Debug)]
pub(super) struct Readable {
    known: u32,
    /// The oldest version that may work on the database, once that is a later one than this; 0 before.
    refused_by: AtomicU32,
}

impl Readable {
    pub(super) const fn new(known: u32) -> Self {
        Self {
            known,
            refused_by: AtomicU32::new(0),
        }
    }

    /// The schema version of this program.
    pub(super) const fn known(&self) -> u32 {
        self.known
    }

    /// Refuses once an upgrade was finished that this program is no part of.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        expect_readable(self.refused_by.load(Ordering::Relaxed), self.known)
    }

    /// The same for a transaction, which sees all that was committed before this.
    pub(super) async fn check_in(&self, transaction: &mut Transaction) -> Result<(), StoreError> {
        let state = postgres::state(transaction).await?;
        let readable = expect_readable(state.readable_by, self.known);
        if readable.is_err() {
            self.refused_by.store(state.readable_by, Ordering::Relaxed);
        }
        readable
    }
}
