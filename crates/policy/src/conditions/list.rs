//! All conditions of one policy.

use super::{Condition, Entries, WrittenCondition};
use crate::{ConditionError, PolicyError};

/// Conditions of one policy: one of each kind, and room for a second thought about each.
pub const MAX_CONDITIONS: usize = 10;

/// The conditions of one policy: all of them must hold. Without conditions nothing is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions(Vec<Condition>);

impl Conditions {
    /// All of these.
    ///
    /// # Errors
    /// [`ConditionError::Empty`] for a list without entries, and [`ConditionError::TooMany`].
    pub fn new(conditions: Vec<Condition>) -> Result<Self, ConditionError> {
        let (count, max) = (conditions.len(), MAX_CONDITIONS);
        if count > max {
            return Err(ConditionError::TooMany { count, max });
        }
        for condition in &conditions {
            condition.entries().map_or(Ok(()), Entries::check)?;
        }
        Ok(Self(conditions))
    }

    /// Understands all that are written.
    ///
    /// # Errors
    /// [`PolicyError`] says which part of which condition can't be.
    pub fn understand(written: &[WrittenCondition]) -> Result<Self, PolicyError> {
        let conditions = written.iter().map(Condition::understand);
        let conditions = conditions.collect::<Result<Vec<_>, _>>()?;
        Ok(Self::new(conditions)?)
    }

    /// Each of them, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }

    /// True if nothing is asked.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
