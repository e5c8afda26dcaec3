//! The conditions under which a policy allows.

use crate::prefix::quotable;
use crate::{ConditionError, Prefix, TimeWindow};
use culvert_base::UnixTime;
use std::fmt;
use std::str::FromStr;

/// Conditions of one policy: one of each kind, and room for a second thought about each.
pub const MAX_CONDITIONS: usize = 10;
/// Windows of one time condition: four a day for every day of the week.
pub const MAX_WINDOWS: usize = 28;
/// Ranges of one address condition: the addresses of an organisation's offices and providers. They
/// are looked at one after the other.
pub const MAX_CONDITION_PREFIXES: usize = 256;
/// Countries of one condition: ISO 3166 has 249.
pub const MAX_COUNTRIES: usize = 249;

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Now is in one of the windows.
    Time(Vec<TimeWindow>),
    /// The address that the portal sees the client at is in one of the ranges.
    PublicAddress(Vec<Prefix>),
    /// That address is in one of the countries. Without a database it never is.
    Country(Vec<Country>),
    /// An administrator has verified the client.
    Verified,
    /// Now is before the instant.
    Expires {
        /// From here on it does not hold.
        at: UnixTime,
    },
}

impl Condition {
    fn parsed(self) -> Result<Self, ConditionError> {
        let (count, max) = match &self {
            Self::Time(windows) => (windows.len(), MAX_WINDOWS),
            Self::PublicAddress(prefixes) => (prefixes.len(), MAX_CONDITION_PREFIXES),
            Self::Country(countries) => (countries.len(), MAX_COUNTRIES),
            Self::Verified | Self::Expires { .. } => return Ok(self),
        };
        match count {
            0 => Err(ConditionError::Empty),
            _ if count > max => Err(ConditionError::TooMany { count, max }),
            _ => Ok(self),
        }
    }
}

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
        let conditions = conditions.into_iter().map(Condition::parsed);
        conditions.collect::<Result<_, _>>().map(Self)
    }

    /// Each of them, in the order in which they were given.
    pub fn iter(&self) -> impl Iterator<Item = &Condition> {
        self.0.iter()
    }

    /// Whether nothing is asked.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A country: two letters of ISO 3166-1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Country([u8; 2]);

impl Country {
    /// The two letters in upper case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Two ASCII letters.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for Country {
    type Err = ConditionError;

    /// Reads two letters of either case.
    fn from_str(text: &str) -> Result<Self, ConditionError> {
        match *text.as_bytes() {
            [a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                Ok(Self([a, b].map(|letter| letter.to_ascii_uppercase())))
            }
            _ => Err(ConditionError::Country(quotable(text))),
        }
    }
}

impl fmt::Display for Country {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
