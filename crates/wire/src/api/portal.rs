use crate::Timestamp;
use culvert_ids::PortalId;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A portal of the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PortalOfDatabase {
    /// Its id, from its start to its end.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub portal: PortalId,
    /// The address at which other portals reach it; none where there can't be others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub address: Option<SocketAddr>,
    /// The version of its software.
    pub version: String,
    /// The time of its start.
    pub started: Timestamp,
    /// The time of its last report to the database.
    pub seen: Timestamp,
    /// It reported within the last five seconds.
    pub runs: bool,
    /// It leads: it decides about access, for the machines of all portals.
    pub leads: bool,
    /// It is the one that answers this request.
    pub answers: bool,
    /// The time by which its clock is ahead of the database's, in milliseconds.
    pub clock_ahead_ms: i64,
}

impl PortalOfDatabase {
    /// The difference from which on a clock is told of: expiries are not exact to less.
    pub const CLOCK_SHOWN_MS: u64 = 1_000;

    /// Its clock against the database's: `right`, or the difference.
    #[must_use]
    pub fn clock_in_words(&self) -> String {
        let ahead_ms = self.clock_ahead_ms.unsigned_abs();
        let seconds = ahead_ms / 1_000;
        match (ahead_ms < Self::CLOCK_SHOWN_MS, self.clock_ahead_ms > 0) {
            (true, _) => "right".to_owned(),
            (false, true) => format!("{seconds} s ahead"),
            (false, false) => format!("{seconds} s behind"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_told_by_whole_seconds_in_both_directions() {
        for (clock_ahead_ms, told) in [
            (0, "right"),
            (999, "right"),
            (-999, "right"),
            (1_000, "1 s ahead"),
            (-3_600_000, "3600 s behind"),
        ] {
            let portal = PortalOfDatabase {
                portal: PortalId::from_bytes([1; 16]),
                address: None,
                version: String::new(),
                started: Timestamp::from_unix_ms(0),
                seen: Timestamp::from_unix_ms(0),
                runs: true,
                leads: true,
                answers: true,
                clock_ahead_ms,
            };
            assert_eq!(portal.clock_in_words(), told);
        }
    }
}
