//! Names of plain WireGuard devices between sites: the questions of this gateway's devices for names of other sites, and those
//! of other gateways for names of this site (ADR 0061).

use super::other_sites::OtherSites;
use super::plain_dns::Wanted;
use super::site_dns::SiteQuestions;
use culvert_base::{BootTime, TokenBucket, TokenRate};
use culvert_dns::{Families, Outcome};
use culvert_ids::{ClientId, ResourceId};
use culvert_policy::DomainName;
use culvert_wire::messages::{NAME_ASK_BURST, NAME_ASKS_PER_S, SiteAnswer};
use std::collections::BTreeMap;
use std::time::Duration;

/// Questions for names of other sites that wait for the portal's answer, of all devices. A device may have fewer than a quarter
/// of the free places ([`SiteQuestions::begin`]): alone it has 51, more than a page asks for at once.
pub const MAX_ASKED_ELSEWHERE: usize = 256;

/// Devices with names at other sites: as many as an account may have.
const MAX_DEVICES: usize = 4_096;

/// Names of this site that gateways of other sites wait for: twice [`MAX_ASKED_ELSEWHERE`], since two of them may ask at
/// once for all that they may. The DNS has as many questions of each device as of a client.
const MAX_RESOLVED_FOR_OTHERS: usize = 2 * MAX_ASKED_ELSEWHERE;

/// The time for the portal's answer. The device's query has got an answer by then ([`culvert_dns::ACCESS_WAIT`]).
const ANSWER_WAIT: Duration = culvert_dns::ACCESS_WAIT;

/// The questions that a device may have asked. The portal keeps to the same.
const RATE: TokenRate = TokenRate::per_second(NAME_ASKS_PER_S, NAME_ASK_BURST);

/// A question that the portal has.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) client: ClientId,
    pub(super) name: DomainName,
    pub(super) resource: ResourceId,
    until: BootTime,
}

/// A name that the portal waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResolvedForOther {
    pub(super) ask: u64,
    pub(super) wanted: Wanted,
}

/// Names between sites.
#[derive(Debug)]
pub(super) struct SiteNames {
    other_sites: BTreeMap<ClientId, OtherSites>,
    /// By number, and so by time.
    asked: BTreeMap<u64, Asked>,
    places: SiteQuestions,
    last: u64,
    waiting: BTreeMap<DomainName, BTreeMap<ClientId, ResolvedForOther>>,
}

impl SiteNames {
    pub(super) const fn new() -> Self {
        Self {
            other_sites: BTreeMap::new(),
            asked: BTreeMap::new(),
            places: SiteQuestions::new(MAX_ASKED_ELSEWHERE),
            last: 0,
            waiting: BTreeMap::new(),
        }
    }

    pub(super) fn other_sites(&self, client: ClientId) -> Option<&OtherSites> {
        self.other_sites.get(&client)
    }

    pub(super) fn is_elsewhere(&self, client: ClientId, resource: ResourceId) -> bool {
        let other_sites = self.other_sites.get(&client);
        other_sites.is_some_and(|other_sites| other_sites.has(resource))
    }

    /// The portal's word on a device's names at other sites.
    pub(super) fn set(&mut self, client: ClientId, mut other_sites: OtherSites) {
        let known = self.other_sites.get(&client);
        if known.is_none() && self.other_sites.len() >= MAX_DEVICES {
            return;
        }
        other_sites.rate = known.map_or(TokenBucket::FULL, |known| known.rate);
        self.other_sites.insert(client, other_sites);
    }

    /// Another session has begun: the portal says anew which names are at other sites.
    pub(super) fn begin_session(&mut self) {
        self.other_sites.clear();
    }

    /// Takes a place for a question, and returns its number. None where the device, or all together, have as many as may be, and
    /// where the device asks too often.
    pub(super) fn ask(
        &mut self,
        client: ClientId,
        name: &DomainName,
        resource: ResourceId,
        now: BootTime,
    ) -> Option<u64> {
        while let Some(oldest) = self.asked.first_entry().filter(|it| it.get().until <= now) {
            let asked = oldest.remove();
            self.places.end(asked.client);
        }
        let other_sites = self.other_sites.get_mut(&client)?;
        if !self.places.begin(client) {
            return None;
        }
        if other_sites.rate.take(RATE, now).is_err() {
            self.places.end(client);
            return None;
        }
        self.last += 1;
        let asked = Asked {
            client,
            name: name.clone(),
            resource,
            until: now.saturating_add(ANSWER_WAIT),
        };
        self.asked.insert(self.last, asked);
        Some(self.last)
    }

    /// The portal has answered. None for a question that nobody waits for any more.
    pub(super) fn take_asked(&mut self, ask: u64) -> Option<Asked> {
        let asked = self.asked.remove(&ask)?;
        self.places.end(asked.client);
        Some(asked)
    }

    /// The session is over: neither the portal nor this gateway answers any question of it.
    pub(super) fn end_session(&mut self) -> Vec<Asked> {
        self.waiting.clear();
        let asked = std::mem::take(&mut self.asked);
        for asked in asked.values() {
            self.places.end(asked.client);
        }
        asked.into_values().collect()
    }

    /// The portal waits until the DNS has answered for a name. False if it waits for too many. A newer question takes the
    /// place of an older one.
    pub(super) fn wait(
        &mut self,
        client: ClientId,
        name: DomainName,
        waiting: ResolvedForOther,
    ) -> bool {
        let count: usize = self.waiting.values().map(BTreeMap::len).sum();
        let has_room = count < MAX_RESOLVED_FOR_OTHERS;
        if has_room {
            self.waiting
                .entry(name)
                .or_default()
                .insert(client, waiting);
        }
        has_room
    }

    /// The questions of the portal that wait for a name.
    pub(super) fn waiters(&mut self, name: &DomainName) -> BTreeMap<ClientId, ResolvedForOther> {
        self.waiting.remove(name).unwrap_or_default()
    }
}

/// The answer as the portal hears it.
pub(super) fn told(outcome: Outcome) -> SiteAnswer {
    match outcome {
        Outcome::Families(Families { v4, v6 }) => SiteAnswer::Found { ipv4: v4, ipv6: v6 },
        Outcome::NoAddress => SiteAnswer::Found {
            ipv4: false,
            ipv6: false,
        },
        Outcome::NxDomain => SiteAnswer::Missing,
        Outcome::Unanswered => SiteAnswer::Unanswered,
        Outcome::Denied { brief } => SiteAnswer::Denied { text: brief },
        Outcome::Unreachable => SiteAnswer::Unreachable,
    }
}

/// The answer as the device's stub resolver takes it.
pub(super) fn heard(answer: SiteAnswer) -> Outcome {
    match answer {
        SiteAnswer::Found {
            ipv4: false,
            ipv6: false,
        } => Outcome::NoAddress,
        SiteAnswer::Found { ipv4, ipv6 } => Outcome::Families(Families { v4: ipv4, v6: ipv6 }),
        SiteAnswer::Missing => Outcome::NxDomain,
        SiteAnswer::Unanswered => Outcome::Unanswered,
        SiteAnswer::Denied { text } => Outcome::Denied { brief: text },
        SiteAnswer::Unreachable => Outcome::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_has_its_share_of_the_questions_and_they_are_free_in_time() {
        let client = |number| ClientId::from_bytes([number; 16]);
        let resource = ResourceId::from_bytes([1; 16]);
        let name: DomainName = "db.corp.example".parse().unwrap();
        let mut names = SiteNames::new();
        for number in [1, 2] {
            names.set(client(number), OtherSites::default());
        }
        let mut now = BootTime::ZERO;
        let fill = |names: &mut SiteNames, now| {
            let mut asked = 0;
            while names.ask(client(1), &name, resource, now).is_some() {
                asked += 1;
            }
            asked
        };
        assert_eq!(fill(&mut names, now), 51);
        assert!(names.ask(client(2), &name, resource, now).is_some());
        // One that is answered makes room for another.
        assert!(names.take_asked(7).is_some());
        assert!(names.take_asked(7).is_none(), "it is answered");
        assert_eq!(fill(&mut names, now), 1);
        now = now.saturating_add(ANSWER_WAIT);
        assert_eq!(fill(&mut names, now), 51);
        now = now.saturating_add(ANSWER_WAIT);
        assert!(names.take_asked(8).is_none(), "it came too late");
        assert_eq!(names.end_session().len(), 51);
        assert_eq!(fill(&mut names, now), 51);
    }

    #[test]
    fn a_device_that_asks_again_at_once_is_slowed_down() {
        let device = ClientId::from_bytes([1; 16]);
        let resource = ResourceId::from_bytes([1; 16]);
        let name: DomainName = "db.corp.example".parse().unwrap();
        let mut names = SiteNames::new();
        let mut now = BootTime::ZERO;
        assert_eq!(names.ask(device, &name, resource, now), None, "all is here");
        let mut rounds = Vec::new();
        for _ in 0..2 {
            // The portal's word in between changes nothing of it.
            names.set(device, OtherSites::default());
            let mut asked = 0;
            while let Some(ask) = names.ask(device, &name, resource, now) {
                names.take_asked(ask);
                asked += 1;
            }
            rounds.push(asked);
            now = now.saturating_add(Duration::from_secs(1));
        }
        assert_eq!(rounds, [NAME_ASK_BURST, NAME_ASKS_PER_S]);
    }

    #[test]
    fn an_answer_is_the_same_at_both_ends() {
        let families = |v4, v6| Outcome::Families(Families { v4, v6 });
        let brief = "no".to_owned();
        for outcome in [
            families(true, false),
            families(true, true),
            Outcome::NoAddress,
            Outcome::NxDomain,
            Outcome::Unanswered,
            Outcome::Unreachable,
            Outcome::Denied { brief },
        ] {
            assert_eq!(heard(told(outcome.clone())), outcome);
        }
    }
}
