//! Destinations that lead into the tunnel or have done so, as they are kept over a restart of the client.
//!
//! A client that starts again hears from the portal which resources there are, and not which ones there were. So it keeps the
//! destinations of all of them. Those that the portal does not list in its next welcome have ended meanwhile.
//!
//! A resource that is taken away stays among them, so that nothing has to be written when access ends.

use super::ended::MAX_ENDED;
use culvert_base::BootTime;
use culvert_ids::{ResourceId, SiteId, TokenId};
use culvert_policy::{Applications, Filters, Resource, ResourceName, Target};
use culvert_wire::model;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Destinations that are kept: as many as may be refused. Those that are there come first, and of the others the older give
/// way.
pub const MAX_REMEMBERED: usize = MAX_ENDED;

/// Bytes of one as it is stored: a name of 253, and 30 around it.
const MAX_STORED_DESTINATION_LEN: usize = 300;

/// Bytes of all of them as they are stored.
pub const MAX_STORED_DESTINATIONS_LEN: usize = (MAX_REMEMBERED + 1) * MAX_STORED_DESTINATION_LEN;

/// New destinations within this time are kept together, so that the file is written once a second at most.
const KEEP_AFTER: Duration = Duration::from_secs(1);

/// The name of a resource of which only the destination is known. Nobody is shown it.
const NAME: &str = "ended";

/// Destinations: first those of resources that are there, then those that ended, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered(Vec<Target>);

/// The destinations as a machine keeps them.
#[derive(Serialize, Deserialize)]
struct Stored {
    token: TokenId,
    destinations: Vec<model::Target>,
}

impl Remembered {
    /// Those of these resources, up to the bound.
    pub(super) fn of<'a>(resources: impl Iterator<Item = &'a Resource>) -> Self {
        let destinations = resources.map(|it| it.target.clone());
        Self(destinations.take(MAX_REMEMBERED).collect())
    }

    /// The resources that were there, of which nothing is known but their destinations: the one that ended last comes last.
    pub(super) fn into_resources(self) -> impl Iterator<Item = Resource> {
        let name = ResourceName::new(NAME).ok();
        let resources = self.0.into_iter().rev().map(move |target| {
            Some(Resource {
                id: ResourceId::from_bytes([0; 16]),
                site: SiteId::from_bytes([0; 16]),
                target,
                filters: Filters::none(),
                inbound: Filters::none(),
                applications: Applications::default(),
                name: name.clone()?,
            })
        });
        resources.flatten()
    }

    /// The text that keeps them, with the token by which they were learned.
    #[must_use]
    pub fn stored(&self, token: TokenId) -> String {
        let destinations = self.0.iter().map(written);
        let stored = Stored {
            token,
            destinations: destinations.collect(),
        };
        serde_json::to_string(&stored).unwrap_or_default()
    }

    /// The destinations that were stored with this token. Nothing of another token counts, which may be one of another portal;
    /// nor does what is not understood.
    #[must_use]
    pub fn from_stored(text: &[u8], token: TokenId) -> Self {
        let stored = serde_json::from_slice::<Stored>(text).ok();
        let stored = stored.filter(|stored| stored.token == token);
        let destinations = stored.map_or_else(Vec::new, |stored| stored.destinations);
        let read = destinations.iter().filter_map(|it| it.try_into().ok());
        Self(read.take(MAX_REMEMBERED).collect())
    }

    /// True if there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn written(target: &Target) -> model::Target {
    let kind = match target {
        Target::Network(_) => model::TargetKind::Cidr,
        Target::Address(_) => model::TargetKind::Address,
        Target::Name(_) => model::TargetKind::Dns,
    };
    model::Target {
        kind,
        address: target.to_string(),
    }
}

/// The destinations that were not kept yet, and the time for it.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    has_news: bool,
    due: Option<BootTime>,
}

impl Keeping {
    /// There are other destinations than those that were kept.
    pub(super) const fn note(&mut self) {
        self.has_news = true;
    }

    /// True if they are to be kept now.
    pub(super) fn is_due(&mut self, now: BootTime) -> bool {
        if !self.has_news {
            return false;
        }
        let due = *self.due.get_or_insert(now.saturating_add(KEEP_AFTER));
        due <= now && self.take()
    }

    /// True if they are to be kept at all. From now on they are.
    pub(super) const fn take(&mut self) -> bool {
        self.due = None;
        std::mem::replace(&mut self.has_news, false)
    }

    /// The time at which they are to be kept.
    pub(super) const fn due(&self) -> Option<BootTime> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: TokenId = TokenId::from_bytes([7; 16]);

    fn remembered() -> Remembered {
        Remembered(vec![
            Target::Network("10.0.0.0/8".parse().unwrap()),
            Target::Address("fd00::7".parse().unwrap()),
            Target::Name("**.corp.example".parse().unwrap()),
        ])
    }

    #[test]
    fn what_is_stored_is_read_again_with_its_token_and_no_other() {
        let text = remembered().stored(TOKEN);
        assert_eq!(
            Remembered::from_stored(text.as_bytes(), TOKEN),
            remembered()
        );
        let other = TokenId::from_bytes([8; 16]);
        assert!(Remembered::from_stored(text.as_bytes(), other).is_empty());
    }

    #[test]
    fn a_destination_that_is_not_understood_leaves_the_others() {
        let text = remembered().stored(TOKEN);
        let damaged = text.replace("10.0.0.0/8", "10.0.0.0/99");
        let read = Remembered::from_stored(damaged.as_bytes(), TOKEN);
        assert_eq!(read.0, remembered().0[1..]);
        for nothing in [&text.as_bytes()[..text.len() / 2], b"", b"[]"] {
            assert!(Remembered::from_stored(nothing, TOKEN).is_empty());
        }
    }

    #[test]
    fn the_longest_destinations_fit_into_the_file() {
        let label = "a".repeat(63);
        let name = format!("{label}.{label}.{label}.{}", "b".repeat(61));
        assert_eq!(name.len(), 253);
        let longest = Target::Name(name.parse().unwrap());
        let count = 1_000;
        let text = Remembered(vec![longest; count]).stored(TOKEN);
        assert!(text.len() <= (count + 1) * MAX_STORED_DESTINATION_LEN);
    }

    #[test]
    fn of_more_than_are_kept_those_that_ended_first_give_way() {
        let place =
            |number: usize| Target::Address([10, 0, (number >> 8) as u8, number as u8].into());
        let many = (0..MAX_REMEMBERED + 5).map(place);
        // As `into_resources` has them, the last is the first to be retained.
        let resources: Vec<_> = Remembered(many.collect()).into_resources().collect();
        let retained = Remembered::of(resources.iter().rev());
        assert_eq!(retained.0.len(), MAX_REMEMBERED);
        assert_eq!(retained.0.first(), Some(&place(0)));
        assert_eq!(retained.0.last(), Some(&place(MAX_REMEMBERED - 1)));
    }

    #[test]
    fn news_are_kept_after_a_second_and_once() {
        let mut keeping = Keeping::default();
        let at = |ms| BootTime::from_millis(ms);
        assert!(!keeping.is_due(at(0)));
        keeping.note();
        assert!(!keeping.is_due(at(10)));
        keeping.note();
        assert_eq!(keeping.due(), Some(at(1_010)));
        assert!(!keeping.is_due(at(1_009)) && keeping.is_due(at(1_010)));
        assert!(!keeping.is_due(at(5_000)) && keeping.due().is_none());
    }
}
