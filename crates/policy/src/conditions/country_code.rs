//! A country by its code.

use crate::ConditionError;
use culvert_base::quotable;
use std::fmt;
use std::str::FromStr;

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
            _ => Err(ConditionError::Entry(format!(
                "`{}` is no country: write two letters of ISO 3166, as DE",
                quotable(text)
            ))),
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
