//! Queries that wait for access.

use crate::query::{Asked, Asker};
use crate::ranges::Offset;
use crate::{WAITING_MAX, WAITING_PER_NAME_MAX};
use culvert_base::BootTime;

/// A query that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) asked: Asked,
    pub(crate) asker: Asker,
    pub(crate) offset: Offset,
    /// The instant from which the site is suspected of silence; none once that has passed.
    pub(crate) suspect_at: Option<BootTime>,
    /// The instant at which it gets an answer in any case.
    pub(crate) deadline: BootTime,
    pub(crate) waits_for: WaitsFor,
}

/// The event that a query waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// Access, for as long as it takes.
    Access,
    /// The same, for a moment: the site does not answer at present.
    AccessOfDead,
    /// An upstream's word on the name without the search domain. The site gives no answer.
    Plain,
}

/// Too many queries wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Queries that wait for access, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Waiting(Vec<Waiter>);

impl Waiter {
    /// The time of the next action.
    fn due(&self) -> BootTime {
        self.suspect_at.unwrap_or(self.deadline).min(self.deadline)
    }
}

impl Waiting {
    /// A query that waits already, and was only sent again, gets one answer.
    pub(crate) fn push(&mut self, waiter: Waiter) -> Result<(), Full> {
        let same_name = || self.0.iter().filter(|it| it.offset == waiter.offset);
        if same_name().any(|it| it.asker == waiter.asker && it.asked.is_same(&waiter.asked)) {
            return Ok(());
        }
        if self.0.len() >= WAITING_MAX || same_name().count() >= WAITING_PER_NAME_MAX {
            return Err(Full);
        }
        self.0.push(waiter);
        Ok(())
    }

    /// One that was taken out goes on waiting.
    pub(crate) fn put_back(&mut self, waiter: Waiter) {
        self.0.push(waiter);
    }

    /// Takes out those who wait for a name.
    pub(crate) fn take(&mut self, offset: Offset) -> Vec<Waiter> {
        self.0
            .extract_if(.., |waiter| waiter.offset == offset)
            .collect()
    }

    /// Takes out those about whom something is to be done.
    pub(crate) fn take_due(&mut self, now: BootTime) -> Vec<Waiter> {
        self.0
            .extract_if(.., |waiter| waiter.due() <= now)
            .collect()
    }

    /// At most [`WAITING_MAX`] steps.
    pub(crate) fn next_deadline(&self) -> Option<BootTime> {
        self.0.iter().map(Waiter::due).min()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
