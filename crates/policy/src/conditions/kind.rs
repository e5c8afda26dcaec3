//! The trait of a kind of condition.

use super::{Fact, Field, Subject};
use crate::{ConditionError, PolicyError};
use culvert_base::UnixTime;
use std::fmt;

/// A kind of condition. The type itself is a condition of the kind that was understood.
pub trait Kind: Clone + fmt::Debug + Eq + Sized {
    /// The condition as JSON has it, beside its `kind`. It may say things that can't be.
    type Written: Clone + fmt::Debug + Eq;
    /// The reason why it does not hold. Its text is for administrators.
    type Unmet: Clone + fmt::Debug + Eq + fmt::Display;

    /// Its field of forms, of `access.toml` and of the command line.
    const FIELD: Field;
    /// The facts that it looks at, and no others.
    const NEEDS: &'static [Fact];
    /// The reason why it does not hold, for the client. It does not say for whom it would hold.
    const ADVICE: &'static str;

    /// Reads the texts of its field; none where they ask for nothing.
    ///
    /// # Errors
    /// The text says what is wrong, for people.
    fn read(texts: &[String]) -> Result<Option<Self::Written>, String>;

    /// Texts that [`Self::read`] reads as the same condition.
    fn texts(written: &Self::Written) -> Vec<String>;

    /// The condition in a few words, for people.
    fn in_words(written: &Self::Written) -> String;

    /// Understands what is written.
    ///
    /// # Errors
    /// [`PolicyError`] says which part of it can't be.
    fn understand(written: &Self::Written) -> Result<Self, PolicyError>;

    /// Checks what somebody writes now, beyond [`Self::understand`]: conditions from before a rule go on.
    ///
    /// # Errors
    /// [`PolicyError`] says which part of it can't be.
    fn check_new(written: &Self::Written) -> Result<(), PolicyError> {
        Self::understand(written).map(drop)
    }

    /// Its entries, and how many it may have; none where it is no list.
    fn entries(&self) -> Option<Entries> {
        None
    }

    /// The reason for the client, where one sentence does not do for all reasons.
    fn advice(unmet: &Self::Unmet) -> &'static str {
        let _ = unmet;
        Self::ADVICE
    }

    /// The instant until which it holds (none: until a fact changes), or the reason why it does not.
    ///
    /// # Errors
    /// The reason.
    fn hold(&self, subject: &Subject, now: UnixTime) -> Result<Option<UnixTime>, Self::Unmet>;

    /// True if it may hold now or later, while every fact but the time stays as it is.
    fn may_ever_hold(&self, subject: &Subject, now: UnixTime) -> bool {
        self.hold(subject, now).is_ok()
    }

    /// The next instant at which time alone may change whether it holds. It is asked of
    /// conditions that may ever hold.
    fn next_change(&self, now: UnixTime) -> Option<UnixTime> {
        let _ = now;
        None
    }
}

/// Entries of a condition that is a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entries {
    /// There are so many.
    pub count: usize,
    /// There may be so many.
    pub max: usize,
}

impl Entries {
    pub(super) fn check(self) -> Result<(), ConditionError> {
        let Self { count, max } = self;
        match count {
            0 => Err(ConditionError::Empty),
            _ if count > max => Err(ConditionError::TooMany { count, max }),
            _ => Ok(()),
        }
    }
}
