//! The programs of a client that may reach something.

use culvert_policy::{ApplicationError, ApplicationName, MAX_APPLICATIONS};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The programs of a client that may reach something: `"any"`, `{"only": ["backup"]}` or
/// `{"except": ["browser"]}`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Applications {
    /// Every program.
    #[default]
    Any,
    /// Programs of these applications and no others; an empty list is no program at all.
    Only(Vec<String>),
    /// Every program but those of these applications.
    Except(Vec<String>),
}

impl Applications {
    /// True if every program may, which is also the meaning of an absent rule.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }
}

/// Names in a rule that a client is told: those of a resource's and of the account's together.
const MAX_TOLD: usize = 2 * MAX_APPLICATIONS;

/// A rule as a client is told of it. One that this version can't read is not passed over, since it
/// was meant to narrow something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ToldApplications {
    /// One of a form that this version knows.
    Known(Applications),
    /// Another one: no program gets there with this version.
    Unknown(Unread),
}

/// A value that was not read. It is written as `null`, which no version understands either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "IgnoredAny", into = "()")]
pub struct Unread;

impl From<Unread> for () {
    fn from(_: Unread) -> Self {}
}

impl From<IgnoredAny> for Unread {
    fn from(_: IgnoredAny) -> Self {
        Self
    }
}

impl ToldApplications {
    /// True if it says only that every program may.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        matches!(self, Self::Known(Applications::Any))
    }
}

impl Default for ToldApplications {
    fn default() -> Self {
        Self::Known(Applications::Any)
    }
}

impl TryFrom<&ToldApplications> for culvert_policy::Applications {
    type Error = ApplicationError;

    fn try_from(told: &ToldApplications) -> Result<Self, ApplicationError> {
        match told {
            ToldApplications::Known(Applications::Any) => Ok(Self::ANY),
            ToldApplications::Known(Applications::Only(texts)) => told_names(texts).map(Self::Only),
            ToldApplications::Known(Applications::Except(texts)) => {
                told_names(texts).map(Self::Except)
            }
            ToldApplications::Unknown(Unread) => Err(ApplicationError::Unknown),
        }
    }
}

impl TryFrom<&Applications> for culvert_policy::Applications {
    type Error = ApplicationError;

    fn try_from(written: &Applications) -> Result<Self, ApplicationError> {
        match written {
            Applications::Any => Ok(Self::ANY),
            Applications::Only(texts) => Self::only(names(texts)?),
            Applications::Except(texts) => Self::except(names(texts)?),
        }
    }
}

impl From<&culvert_policy::Applications> for Applications {
    /// The one form of each rule: names in order, each once.
    fn from(rule: &culvert_policy::Applications) -> Self {
        let names = rule.names().iter().map(ToString::to_string).collect();
        match rule {
            culvert_policy::Applications::Only(_) => Self::Only(names),
            culvert_policy::Applications::Except(_) if rule.is_any() => Self::Any,
            culvert_policy::Applications::Except(_) => Self::Except(names),
        }
    }
}

fn told_names(texts: &[String]) -> Result<BTreeSet<ApplicationName>, ApplicationError> {
    match names(texts)? {
        names if names.len() <= MAX_TOLD => Ok(names),
        names => Err(ApplicationError::TooMany { count: names.len() }),
    }
}

fn names(texts: &[String]) -> Result<BTreeSet<ApplicationName>, ApplicationError> {
    texts.iter().map(|text| text.parse()).collect()
}
