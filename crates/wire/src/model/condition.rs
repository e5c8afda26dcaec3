//! When a policy holds.

use crate::Timestamp;
use serde::{Deserialize, Serialize};

/// One condition; a policy holds when all of its conditions do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", from = "Written")]
pub enum Condition {
    /// Now is in one of the windows.
    Time {
        /// IANA name of the time zone, such as `Europe/Berlin`.
        zone: String,
        /// An empty list never holds.
        windows: Vec<TimeWindow>,
    },
    /// The client's address, as the portal sees it, is in one of the networks.
    PublicAddress {
        /// Networks, such as `203.0.113.0/24`; an empty list never holds.
        cidrs: Vec<String>,
    },
    /// The client's address belongs to one of the countries.
    Country {
        /// ISO 3166-1 codes of two letters; an empty list never holds.
        countries: Vec<String>,
    },
    /// An administrator has verified the client.
    Verified,
    /// It is not yet that late.
    Expires {
        /// The first instant at which the condition no longer holds.
        at: Timestamp,
    },
}

/// A condition as it is read. Whatever it says more than is understood may have been meant to narrow
/// it, so nothing is ignored.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Written {
    Time {
        zone: String,
        windows: Vec<TimeWindow>,
    },
    PublicAddress {
        cidrs: Vec<String>,
    },
    Country {
        countries: Vec<String>,
    },
    // With braces: serde lets any field pass beside a variant that has none.
    Verified {},
    Expires {
        at: Timestamp,
    },
}

impl From<Written> for Condition {
    fn from(written: Written) -> Self {
        match written {
            Written::Time { zone, windows } => Self::Time { zone, windows },
            Written::PublicAddress { cidrs } => Self::PublicAddress { cidrs },
            Written::Country { countries } => Self::Country { countries },
            Written::Verified {} => Self::Verified,
            Written::Expires { at } => Self::Expires { at },
        }
    }
}

/// A part of the week, in local time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct TimeWindow {
    /// The days on which it begins.
    pub days: Vec<Weekday>,
    /// `HH:MM`.
    pub from: String,
    /// `HH:MM`, up to `24:00`; not after `from` means the next day.
    pub until: String,
}

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Weekday {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}
