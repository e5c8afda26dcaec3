//! Now is in one of some windows of time.

use super::window::{self, WrittenWindow, ZonedWindow};
use super::{Entries, Fact, Field, Input, Kind, Subject};
use crate::{ConditionError, PolicyError, TimeWindow};
use culvert_base::UnixTime;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Windows of one time condition: four a day for every day of the week.
pub const MAX_WINDOWS: usize = 28;

/// Openings and closings that are looked through for the end of a stretch in which windows follow
/// each other without a gap. Seven windows of a day each make seven a week; 64 are more than two
/// months, far beyond the lifetime of any grant. A longer stretch is said to last until then.
const MAX_ADJACENT_WINDOWS: usize = 64;

/// Now is in one of the windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times(pub Vec<TimeWindow>);

/// Now is in one of the windows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WrittenTimes {
    /// IANA name of the time zone, such as `Europe/Berlin`.
    pub zone: String,
    /// An empty list never holds.
    pub windows: Vec<WrittenWindow>,
}

/// Now is in none of the windows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outside {
    windows: Vec<TimeWindow>,
    /// The instant at which one of them opens next.
    opens: Option<UnixTime>,
}

impl Kind for Times {
    type Written = WrittenTimes;
    type Unmet = Outside;

    const FIELD: Field = Field {
        name: "time",
        label: "Only at these times",
        hint: "One a line, any is enough: mon-fri 08:00-18:00 Europe/Berlin",
        input: Input::Windows,
        value_name: "WINDOW",
        help: "In this window, such as \"mon-fri 08:00-18:00 Europe/Berlin\"; of several, in any",
    };
    const NEEDS: &'static [Fact] = &[Fact::Time];
    const ADVICE: &'static str = "access is not allowed at this time";

    /// One condition that holds in any of the windows: they share its time zone.
    fn read(texts: &[String]) -> Result<Option<WrittenTimes>, String> {
        let parsed = texts.iter().map(|text| window::parse(text));
        let parsed: Vec<ZonedWindow> = parsed.collect::<Result<_, String>>()?;
        let Some(first) = parsed.first() else {
            return Ok(None);
        };
        let zone = first.zone.clone();
        if let Some(other) = parsed.iter().find(|window| window.zone != zone) {
            return Err(format!(
                "the windows of one policy are in one time zone, not in {zone} and {}: make a policy for \
                 each",
                other.zone
            ));
        }
        let windows = parsed.into_iter().map(|window| window.window).collect();
        Ok(Some(WrittenTimes { zone, windows }))
    }

    fn texts(written: &WrittenTimes) -> Vec<String> {
        let windows = written.windows.iter();
        let texts = windows.map(|each| window::text(each, &written.zone));
        texts.collect()
    }

    fn in_words(written: &WrittenTimes) -> String {
        Self::texts(written).join(" or ")
    }

    fn understand(written: &WrittenTimes) -> Result<Self, PolicyError> {
        let windows = written.windows.iter();
        let windows = windows.map(|window| window.understand(&written.zone));
        Ok(Self(windows.collect::<Result<_, ConditionError>>()?))
    }

    fn entries(&self) -> Option<Entries> {
        let (count, max) = (self.0.len(), MAX_WINDOWS);
        Some(Entries { count, max })
    }

    fn hold(&self, _subject: &Subject, now: UnixTime) -> Result<Option<UnixTime>, Outside> {
        let change = self.next_change(now);
        match self.is_open(now) {
            true => Ok(change),
            false => Err(Outside {
                windows: self.0.clone(),
                opens: change,
            }),
        }
    }

    /// Windows come again.
    fn may_ever_hold(&self, _subject: &Subject, _now: UnixTime) -> bool {
        true
    }

    fn next_change(&self, now: UnixTime) -> Option<UnixTime> {
        let was_open = self.is_open(now);
        let mut at = now;
        for _ in 0..MAX_ADJACENT_WINDOWS {
            let changes = self.0.iter();
            let changes = changes.filter_map(|window| window.next_change(at));
            at = changes.min()?;
            if self.is_open(at) != was_open {
                break;
            }
        }
        Some(at)
    }
}

impl Times {
    fn is_open(&self, at: UnixTime) -> bool {
        self.0.iter().any(|window| window.holds(at))
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let windows: Vec<_> = self.windows.iter().map(ToString::to_string).collect();
        write!(out, "now is outside of {}", windows.join(" and "))?;
        match self.opens.and_then(crate::time::shown) {
            Some(opens) => write!(out, ", which opens at {opens}"),
            None => Ok(()),
        }
    }
}
