//! The client's access to one resource.

use super::ask::{Ask, AskState, Expedite};
use super::grant::Grant;
use super::packet::PacketFacts;
use super::reason::tidy;
use culvert_base::BootTime;
use culvert_dns::Addresses;
use culvert_policy::DomainName;
use culvert_wire::messages::{MAX_NAMES, Reason};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Packets that wait for access to one resource: the first segments of the connections that a program
/// opens at once. Beyond that the oldest gives way, as its sender is the first to repeat it.
pub const MAX_HELD_PER_RESOURCE: usize = 64;

/// Names that wait to be asked for in one resource: four requests.
pub const MAX_WANTED_NAMES: usize = 4 * MAX_NAMES;

/// The time after which a request is expedited for names that came later: the portal and most resolvers
/// take less.
const ANSWER_NOW_AFTER: Duration = Duration::from_millis(100);

/// The longest time for which a name is pending: a gateway gives each question to the DNS half of it, and the question may
/// have to wait for its turn.
const PENDING_LIMIT: Duration = Duration::from_secs(5);

/// The time for which the first "no" is kept, in milliseconds. It doubles with each further one, up to
/// [`MAX_DENIAL_MS`]: whoever has just been given access need not wait.
pub const MIN_DENIAL_MS: u64 = 2_000;

/// The longest time for which a "no" is kept, in milliseconds.
pub const MAX_DENIAL_MS: u64 = 10_000;

/// The time for which the reason of a denial is remembered for whoever asks, in milliseconds.
pub const DENIAL_SHOWN_MS: u64 = 300_000;

/// Access to one resource: asked for, granted, denied, or several of these.
#[derive(Debug)]
pub(super) struct Access<P> {
    /// The grant that the data plane uses.
    pub(super) grant: Option<Grant>,
    /// A grant through another gateway, for when the flows through this one have ended.
    pub(super) successor: Option<Grant>,
    /// A request that is on its way or waits to be sent.
    pub(super) ask: Option<Ask>,
    /// The last "no".
    pub(super) denial: Option<Denial>,
    /// The number of denials in a row.
    pub(super) denials: u32,
    /// Names to ask for that no request has taken yet.
    pub(super) wanted: BTreeMap<DomainName, Addresses>,
    /// Names that the gateway has yet to hear of from the DNS, and since when: they are asked for again.
    pub(super) pending: BTreeMap<DomainName, BootTime>,
    /// Packets that wait, oldest first.
    pub(super) held: VecDeque<Held<P>>,
    /// The time of the next look at it.
    pub(super) due: Option<BootTime>,
}

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Held<P> {
    pub(super) facts: PacketFacts,
    pub(super) packet: P,
}

/// A "no".
#[derive(Clone, Debug)]
pub(super) struct Denial {
    pub(super) reason: Reason,
    pub(super) at: BootTime,
    /// Until when it stands without asking again.
    pub(super) until: BootTime,
}

impl<P> Default for Access<P> {
    fn default() -> Self {
        Self {
            grant: None,
            successor: None,
            ask: None,
            denial: None,
            denials: 0,
            wanted: BTreeMap::new(),
            pending: BTreeMap::new(),
            held: VecDeque::new(),
            due: None,
        }
    }
}

impl<P> Access<P> {
    /// The grant that the data plane uses.
    pub(super) const fn grant(&self) -> Option<&Grant> {
        self.grant.as_ref()
    }

    /// True if somebody waits for the answer to a request, which is not so for a renewal.
    pub(super) fn somebody_waits(&self) -> bool {
        self.grant.is_none() || !self.wanted.is_empty()
    }

    /// The addresses of every name that it has or wants.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Addresses> + '_ {
        let grants = [&self.grant, &self.successor];
        let granted = grants.into_iter().flatten().flat_map(|grant| &grant.names);
        let granted = granted.map(|(_, granted)| granted.addresses);
        let asked = self.ask.iter().flat_map(|ask| &ask.names);
        let both = |(_, addresses): (&DomainName, &Addresses)| *addresses;
        granted
            .chain(asked.map(both))
            .chain(self.wanted.iter().map(both))
    }

    /// A name lost its addresses. True if a grant had it.
    pub(super) fn release_name(&mut self, name: &DomainName) -> bool {
        self.wanted.remove(name);
        self.pending.remove(name);
        if let Some(ask) = &mut self.ask {
            ask.names.remove(name);
        }
        let mut was_granted = false;
        let grants = [&mut self.grant, &mut self.successor];
        for grant in grants.into_iter().flatten() {
            was_granted |= grant.names.remove(name).is_some();
        }
        was_granted
    }

    /// Forgets a "no", whose reason may be over.
    pub(super) fn forget_denial(&mut self, now: BootTime) {
        self.denials = 0;
        if let Some(denial) = &mut self.denial {
            denial.until = denial.until.min(now);
        }
    }

    /// The "no" that stands at the moment.
    pub(super) fn current_denial(&self, now: BootTime) -> Option<&Denial> {
        let stands = |denial: &&Denial| now < denial.until && self.grant.is_none();
        self.denial.as_ref().filter(stands)
    }

    /// Remembers a "no"; if it is firm, for longer the more there were.
    pub(super) fn deny(&mut self, reason: &Reason, is_firm: bool, now: BootTime) {
        let wait_ms = match is_firm {
            true => MIN_DENIAL_MS << self.denials.min(8),
            false => MIN_DENIAL_MS,
        };
        self.denials = self.denials.saturating_add(u32::from(is_firm));
        self.denial = Some(Denial {
            reason: tidy(reason),
            at: now,
            until: now.saturating_add(Duration::from_millis(wait_ms.min(MAX_DENIAL_MS))),
        });
    }

    /// True if there is nothing to remember any more.
    pub(super) fn is_idle(&self, now: BootTime) -> bool {
        let forgotten = |denial: &Denial| denial.shown_until() <= now;
        self.grant.is_none()
            && self.successor.is_none()
            && self.ask.is_none()
            && self.wanted.is_empty()
            && self.held.is_empty()
            && self.denial.as_ref().is_none_or(forgotten)
    }

    /// True if only a "no" is remembered, which may give way.
    pub(super) fn is_only_denial(&self) -> bool {
        self.grant.is_none()
            && self.successor.is_none()
            && self.ask.is_none()
            && self.held.is_empty()
    }

    /// Wants a name in the next request; `false` where too many are wanted already.
    pub(super) fn want(&mut self, name: DomainName, addresses: Addresses) -> bool {
        let asked = self
            .ask
            .as_ref()
            .is_some_and(|ask| ask.number().is_some() && ask.names.get(&name) == Some(&addresses));
        if asked {
            return true;
        }
        if self.wanted.len() >= MAX_WANTED_NAMES && !self.wanted.contains_key(&name) {
            return false;
        }
        self.wanted.insert(name, addresses);
        true
    }

    /// The request on its way is expedited for a name that came later, once it has had its time.
    pub(super) fn expedite_for(&mut self, name: &DomainName, now: BootTime) {
        if let Some(ask) = &mut self.ask
            && let AskState::Sent { expedite, .. } = &mut ask.state
            && *expedite == Expedite::Never
            && !ask.names.contains_key(name)
        {
            *expedite = Expedite::At(now.max(ask.since.saturating_add(ANSWER_NOW_AFTER)));
        }
    }

    /// The number of the request that is to be expedited now, once.
    pub(super) fn take_expedited(&mut self, now: BootTime) -> Option<u64> {
        let AskState::Sent { number, expedite } = &mut self.ask.as_mut()?.state else {
            return None;
        };
        if !matches!(expedite, Expedite::At(at) if *at <= now) {
            return None;
        }
        *expedite = Expedite::Sent;
        Some(*number)
    }

    /// Notes that the gateway has no answer of the DNS for a name yet. True if the name is asked for again. A gateway that says
    /// so at once, or for ever, keeps nobody busy.
    pub(super) fn stays_pending(
        &mut self,
        name: &DomainName,
        sent: BootTime,
        now: BootTime,
    ) -> bool {
        let since = *self.pending.entry(name.clone()).or_insert(sent);
        let is_late = now.has_passed(since, PENDING_LIMIT);
        let is_early = !now.has_passed(sent, ANSWER_NOW_AFTER);
        if is_late || is_early {
            self.pending.remove(name);
        }
        !is_late && !is_early
    }

    /// True if a name is on its way to be granted.
    pub(super) fn awaits(&self, name: &DomainName) -> bool {
        self.wanted.contains_key(name)
            || self
                .ask
                .as_ref()
                .is_some_and(|ask| ask.names.contains_key(name))
    }

    /// The names for a request: those that are wanted, then those that the grant has, so that
    /// another gateway learns them too.
    pub(super) fn take_names(&mut self) -> BTreeMap<DomainName, Addresses> {
        let mut names = BTreeMap::new();
        while names.len() < MAX_NAMES
            && let Some((name, addresses)) = self.wanted.pop_first()
        {
            names.insert(name, addresses);
        }
        let granted = self.grant.iter().flat_map(|grant| &grant.names);
        for (name, granted) in granted.filter(|(_, granted)| !granted.is_lost) {
            if names.len() >= MAX_NAMES {
                break;
            }
            names.entry(name.clone()).or_insert(granted.addresses);
        }
        names
    }

    /// The next instant at which something happens by itself.
    pub(super) fn next_due(&self) -> Option<BootTime> {
        let ask = self.ask.as_ref().map(Ask::due);
        let grant = self.grant.as_ref().map(|grant| match &self.ask {
            Some(_) => grant.expires,
            None => grant.expires.min(grant.renew),
        });
        let successor = self.successor.as_ref().map(|grant| grant.expires);
        let denial = self.denial.as_ref().map(Denial::shown_until);
        // A denial that is shown beside other things ends with them.
        let denial = denial.filter(|_| ask.is_none() && grant.is_none() && successor.is_none());
        [ask, grant, successor, denial].into_iter().flatten().min()
    }
}

impl Denial {
    /// Until when it is told to who asks why.
    const fn shown_until(&self) -> BootTime {
        self.at
            .saturating_add(Duration::from_millis(DENIAL_SHOWN_MS))
    }
}

/// A grant of the same gateway goes on with the names of the one that it replaces; another gateway
/// has to be asked for them.
pub(super) fn move_names(
    old: Grant,
    new: &mut Grant,
    wanted: &mut BTreeMap<DomainName, Addresses>,
    ask: &Option<Ask>,
) {
    let is_same = old.gateway.id == new.gateway.id;
    for (name, granted) in old.names {
        if new.names.contains_key(&name) {
            continue;
        }
        if is_same {
            new.add_name(name, granted);
        } else if !granted.is_lost
            && wanted.len() < MAX_WANTED_NAMES
            && ask
                .as_ref()
                .is_none_or(|ask| !ask.names.contains_key(&name))
        {
            wanted.insert(name, granted.addresses);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_wire::messages::ReasonCode;

    fn reason() -> Reason {
        Reason {
            code: ReasonCode::NoAccess,
            text: "no".to_owned(),
        }
    }

    #[test]
    fn a_no_stands_longer_each_time_up_to_ten_seconds() {
        let mut access = Access::<()>::default();
        let (now, mut spans) = (BootTime::from_millis(1_000), Vec::new());
        for _ in 0..12 {
            access.deny(&reason(), true, now);
            let until = access.denial.as_ref().unwrap().until;
            spans.push(until.saturating_since(now).as_millis());
        }
        assert_eq!(spans[..4], [2_000, 4_000, 8_000, 10_000]);
        assert_eq!(spans[11], 10_000);
    }
}
