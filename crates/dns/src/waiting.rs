//! Queries that wait for access.

use crate::query::{Asked, Asker};
use crate::ranges::Offset;
use crate::{Time, WAITING_MAX, WAITING_PER_NAME_MAX};
use std::collections::VecDeque;

/// A query that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) asked: Asked,
    pub(crate) asker: Asker,
    pub(crate) offset: Offset,
    pub(crate) deadline: Time,
}

/// Too many queries wait.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// Queries that wait for access, in the order in which they came. All wait equally long, so that is
/// the order of their deadlines.
#[derive(Debug, Default)]
pub(crate) struct Waiting(VecDeque<Waiter>);

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
        self.0.push_back(waiter);
        Ok(())
    }

    /// Takes out those who wait for a name.
    pub(crate) fn take(&mut self, offset: Offset) -> Vec<Waiter> {
        let (taken, left) = std::mem::take(&mut self.0)
            .into_iter()
            .partition::<Vec<_>, _>(|waiter| waiter.offset == offset);
        self.0 = left.into();
        taken
    }

    /// Takes out one who has waited long enough.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<Waiter> {
        if self.0.front()?.deadline > now {
            return None;
        }
        self.0.pop_front()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.0.front().map(|waiter| waiter.deadline)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
