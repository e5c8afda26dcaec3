//! Sites that leave names without an answer, and how long a query waits for each.

use crate::UNREACHABLE_TTL;
use crate::ranges::Offset;
use culvert_base::BootTime;
use culvert_ids::ResourceId;
use std::collections::BTreeMap;
use std::time::Duration;

/// The most resources of which it is remembered that they do not answer: more than clients have. Others are
/// waited for each time.
const SITES_MAX: usize = 1024;

/// The longest time for which a dead site is remembered after its last silence. A name of a site that is back by then
/// is found by the second query, as the first one asks in any case.
pub(crate) const DEAD_MAX: Duration = Duration::from_secs(30);

/// The time for which a site is dead at first; it doubles with each further silence, up to [`DEAD_MAX`].
const DEAD_MIN: Duration = UNREACHABLE_TTL;

/// The health of a site, which decides how long queries for names of its resources wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SiteHealth {
    /// The resource has answered last, or was never asked.
    Alive,
    /// One name has no answer. It may be that name's fault.
    Suspect,
    /// Names have had no answer, one after the other.
    Dead,
}

/// A name, or all of a resource, that had no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silent {
    /// The site's DNS did not answer for this name.
    Name(Offset),
    /// Nobody answered for the resource.
    Resource,
}

/// Resources whose names had no answer since they had one last.
#[derive(Debug, Default)]
pub(crate) struct Sites(BTreeMap<ResourceId, Silence>);

#[derive(Debug)]
struct Silence {
    /// The first name without an answer.
    first: Option<Silent>,
    dead_until: Option<BootTime>,
    /// The time for which it is dead after the next silence.
    span: Duration,
}

impl Sites {
    pub(crate) fn health(&self, resource: ResourceId, now: BootTime) -> SiteHealth {
        match self.0.get(&resource) {
            None => SiteHealth::Alive,
            Some(silence) if silence.dead_until.is_some_and(|until| now < until) => {
                SiteHealth::Dead
            }
            Some(_) => SiteHealth::Suspect,
        }
    }

    /// A name of the resource waits for longer than usual.
    pub(crate) fn suspect(&mut self, resource: ResourceId, now: BootTime) {
        if self.0.len() >= SITES_MAX && !self.0.contains_key(&resource) {
            let is_dead = |silence: &Silence| silence.dead_until.is_some_and(|until| now < until);
            self.0.retain(|_, silence| is_dead(silence));
        }
        if self.0.len() < SITES_MAX || self.0.contains_key(&resource) {
            self.0.entry(resource).or_insert(Silence {
                first: None,
                dead_until: None,
                span: DEAD_MIN,
            });
        }
    }

    /// There was no answer. One name that is silent, however often, makes no dead site.
    pub(crate) fn silent(&mut self, resource: ResourceId, what: Silent, now: BootTime) {
        self.suspect(resource, now);
        let Some(silence) = self.0.get_mut(&resource) else {
            return;
        };
        let is_second = match (silence.first, what) {
            (None, _) => false,
            (Some(Silent::Name(first)), Silent::Name(name)) => first != name,
            (Some(_), _) => true,
        };
        silence.first.get_or_insert(what);
        if !is_second {
            return;
        }
        let was_over = silence.dead_until.is_some_and(|until| until <= now);
        if was_over {
            silence.span = silence.span.saturating_mul(2).min(DEAD_MAX);
        }
        silence.dead_until = Some(now.saturating_add(silence.span));
    }

    /// There was an answer.
    pub(crate) fn answered(&mut self, resource: ResourceId) {
        self.0.remove(&resource);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::Ranges;

    const SITE: ResourceId = ResourceId::from_bytes([1; 16]);

    fn offsets() -> [Offset; 2] {
        let (v4, v6) = ("10.9.0.0/16".parse(), "fd00:c::/64".parse());
        let ranges = Ranges::new(v4.unwrap(), v6.unwrap()).unwrap();
        [ranges.offset(1), ranges.offset(2)]
    }

    fn at(seconds: u64) -> BootTime {
        BootTime::from_millis(seconds * 1000)
    }

    #[test]
    fn one_silent_name_makes_no_dead_site_and_a_second_one_does_until_there_is_an_answer() {
        let [a, b] = offsets();
        let mut sites = Sites::default();
        for second in 0..100 {
            sites.silent(SITE, Silent::Name(a), at(second));
        }
        assert_eq!(sites.health(SITE, at(100)), SiteHealth::Suspect);
        sites.silent(SITE, Silent::Name(b), at(100));
        assert_eq!(sites.health(SITE, at(100)), SiteHealth::Dead);
        sites.answered(SITE);
        assert_eq!(sites.health(SITE, at(100)), SiteHealth::Alive);
    }

    #[test]
    fn a_dead_site_is_remembered_for_longer_each_time_and_never_for_more_than_half_a_minute() {
        let mut sites = Sites::default();
        sites.silent(SITE, Silent::Resource, at(0));
        let mut now = at(0);
        let mut spans = Vec::new();
        for _ in 0..8 {
            sites.silent(SITE, Silent::Resource, now);
            let begun = now;
            while sites.health(SITE, now) == SiteHealth::Dead {
                now = now.saturating_add(Duration::from_millis(500));
            }
            spans.push(now.saturating_since(begun).as_secs());
        }
        assert_eq!(spans, [1, 2, 4, 8, 16, 30, 30, 30]);
    }
}
