//! The policy has not expired.

use super::{Fact, Field, Input, Kind, Subject};
use crate::{PolicyError, Timestamp};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Now is before the instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expires {
    /// In Unix milliseconds.
    pub at_ms: u64,
}

/// It is not yet that late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WrittenExpires {
    /// The first instant at which the condition no longer holds.
    pub at: Timestamp,
}

/// The instant has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    at_ms: u64,
}

impl Kind for Expires {
    type Written = WrittenExpires;
    type Unmet = Expired;

    const FIELD: Field = Field {
        name: "expires",
        label: "Until",
        hint: "Such as 2027-01-31T18:00:00Z; without, for good.",
        input: Input::Instant,
        value_name: "WHEN",
        help: "Until then: 4h, 30d, or an instant such as 2027-01-31T18:00:00Z",
    };
    const NEEDS: &'static [Fact] = &[Fact::Time];
    const ADVICE: &'static str = "the access has expired";

    fn read(texts: &[String]) -> Result<Option<WrittenExpires>, String> {
        match texts {
            [] => Ok(None),
            [text] => match text.parse() {
                Ok(at) => Ok(Some(WrittenExpires { at })),
                Err(error) => Err(format!("{error}")),
            },
            _ => Err("a policy expires once".to_owned()),
        }
    }

    fn texts(written: &WrittenExpires) -> Vec<String> {
        vec![written.at.to_string()]
    }

    fn in_words(written: &WrittenExpires) -> String {
        format!("until {}", written.at)
    }

    fn understand(written: &WrittenExpires) -> Result<Self, PolicyError> {
        let at_ms = written.at.unix_ms();
        Ok(Self { at_ms })
    }

    fn hold(&self, _subject: &Subject, now_ms: u64) -> Result<Option<u64>, Expired> {
        let at_ms = self.at_ms;
        match now_ms < at_ms {
            true => Ok(Some(at_ms)),
            false => Err(Expired { at_ms }),
        }
    }

    fn next_change_ms(&self, _now_ms: u64) -> Option<u64> {
        Some(self.at_ms)
    }
}

impl fmt::Display for Expired {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match crate::time::shown(self.at_ms) {
            Some(at) => write!(out, "the policy expired at {at}"),
            None => out.write_str("the policy has expired"),
        }
    }
}
