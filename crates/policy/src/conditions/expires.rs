//! The policy has not expired.

use super::{Fact, Field, Input, Kind, Subject};
use crate::{PolicyError, Timestamp};
use culvert_base::UnixTime;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Now is before the instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expires {
    /// The instant.
    pub at: UnixTime,
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
    at: UnixTime,
}

impl Kind for Expires {
    type Written = WrittenExpires;
    type Unmet = Expired;

    const FIELD: Field = Field {
        name: "expires",
        label: "Until",
        hint: "Such as in 7 days, tomorrow, 2027-01-31 or 2027-01-31 18:00. A day counts to its end. Empty: for good.",
        input: Input::Timestamp,
        value_name: "WHEN",
        help: "Until then: 4h, 30d, tomorrow, a day such as 2027-01-31 (to its end, in UTC), or an instant such as 2027-01-31T18:00:00Z",
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
        let at = written.at.unix_time();
        Ok(Self { at })
    }

    fn hold(&self, _subject: &Subject, now: UnixTime) -> Result<Option<UnixTime>, Expired> {
        let at = self.at;
        match now < at {
            true => Ok(Some(at)),
            false => Err(Expired { at }),
        }
    }

    fn next_change(&self, _now: UnixTime) -> Option<UnixTime> {
        Some(self.at)
    }
}

impl fmt::Display for Expired {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match crate::time::shown(self.at) {
            Some(at) => write!(out, "the policy expired at {at}"),
            None => out.write_str("the policy has expired"),
        }
    }
}
