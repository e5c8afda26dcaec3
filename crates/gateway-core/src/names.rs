//! Names that clients want, and what the DNS says of them.

use super::Gateway;
use super::log_limit::LogLimit;
use culvert_base::{BootTime, LogLine};
use culvert_ids::{ClientId, ResourceId};
use culvert_policy::gate::{MAX_NAMES_PER_GRANT, Mapping};
use culvert_policy::{DomainName, Within};
use culvert_wire::messages::{Existence, ResolvedName};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// How long a grant waits for the DNS, in milliseconds: below what the portal waits for the gateway.
pub const RESOLVE_LIMIT_MS: u64 = 2_500;

/// The time for which names that the DNS has answered for wait for the others of their grant: longer than most
/// resolvers take for a name that they have to look for, and shorter than a person notices. The grant comes into force without
/// the others then, and the client asks for them again.
pub(super) const DEFER_AFTER: Duration = Duration::from_millis(100);

/// Names that are kept at once: as many as one client may have, for eight clients. What is not kept is
/// asked for again. The last ones are for clients that have few: see [`ROOM_PER_CLIENT`].
pub const MAX_NAMES: usize = 8 * MAX_NAMES_PER_CLIENT;

/// Names in one client's grants: as many as one grant may have.
pub(super) const MAX_NAMES_PER_CLIENT: usize = MAX_NAMES_PER_GRANT;

/// A client may have a new name while it has fewer than this part of the room that is left (dynamic
/// thresholds, Choudhury and Hahne, 1998). Four clients may have all that one may have; each one more that
/// takes what it can leaves four fifths of the rest. Forty of them leave room for a name.
const ROOM_PER_CLIENT: usize = 4;

/// A name in use is asked for again after its time to live, but not sooner than this.
const MIN_RENEWAL: Duration = Duration::from_secs(5);

/// …and not later than this, whatever the DNS says.
const MAX_RENEWAL: Duration = Duration::from_secs(300);

/// A name that does not exist is asked for again after this; so is one that is known and that the DNS did not
/// answer for.
const RETRY: Duration = Duration::from_secs(10);

/// How long it is remembered that the DNS did not answer for a name that is not known: nobody waits for it
/// meanwhile. RFC 2308, section 7.1, permits five minutes.
const UNANSWERED: Duration = Duration::from_secs(5);

/// What the DNS said of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It has these addresses.
    Found {
        /// In the order of the answer.
        ipv4: Vec<Ipv4Addr>,
        /// In the order of the answer.
        ipv6: Vec<Ipv6Addr>,
        /// For how long this may be kept.
        ttl_s: u32,
    },
    /// It exists, and has no address (NODATA).
    NoAddress,
    /// It does not exist (NXDOMAIN).
    NotFound,
    /// The DNS did not answer, or answered with an error: what was known before still counts.
    NoAnswer,
}

/// Addresses of one family that are kept of a name, as many as the largest answers in use have: the ranges
/// of two resources may each allow another one of them. In all, 20 MB.
const MAX_ADDRESSES_PER_NAME: usize = 16;

/// A name.
#[derive(Debug, Default)]
pub(super) struct Name {
    /// What the DNS said of it last, if it has ever answered, or not.
    existence: Option<Existence>,
    /// Those that may be forwarded to. The ones that it has had for longest are in front, so that clients
    /// stay at the address that they use.
    pub(super) ipv4: Vec<Ipv4Addr>,
    pub(super) ipv6: Vec<Ipv6Addr>,
    /// Families of which it has had addresses: flows to them go on when it has none any more.
    had: Had,
    pub(super) renew: BootTime,
}

/// Families.
#[derive(Clone, Copy, Debug, Default)]
struct Had {
    ipv4: bool,
    ipv6: bool,
}

impl Name {
    /// Whether the DNS has ever said anything of it.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.existence, Some(Existence::Exists | Existence::Missing))
    }
}

/// Where a name leads in one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead<A> {
    /// It has no address.
    Nowhere,
    /// The same, but it had one.
    Lost,
    /// There.
    To(A),
    /// It has addresses, such as this one, but none within the ranges of its resource.
    Outside(A),
}

/// All names.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<DomainName, Name>);

impl Names {
    /// What the DNS said of a name; none where it has not been asked to the end.
    pub(super) fn existence(&self, name: &DomainName) -> Option<Existence> {
        self.0.get(name)?.existence
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// In the order of the alphabet.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&DomainName, &Name)> {
        self.0.iter()
    }

    fn has_room_for(&self, name: &DomainName) -> bool {
        self.0.len() < MAX_NAMES || self.0.contains_key(name)
    }

    /// How many names a client may have and still get a new one, as long as there are so many in all.
    fn room_per_client(&self) -> usize {
        MAX_NAMES.saturating_sub(self.0.len()) / ROOM_PER_CLIENT
    }

    /// Keeps a name, and asks for it after a while if nobody has until then.
    fn keep(&mut self, name: &DomainName, renew: BootTime) {
        self.0.entry(name.clone()).or_default().renew = renew;
    }

    /// Keeps a name that can't be asked for now, as far as there is room.
    pub(super) fn ask_later(&mut self, name: &DomainName, now: BootTime) {
        if self.has_room_for(name) {
            self.keep(name, now.saturating_add(RETRY));
        }
    }

    pub(super) fn forget(&mut self, name: &DomainName) {
        self.0.remove(name);
    }

    /// Where it leads in each family, for a resource that allows these ranges alone.
    pub(super) fn leads(
        &self,
        name: &DomainName,
        within: Option<&Within>,
    ) -> (Lead<Ipv4Addr>, Lead<Ipv6Addr>) {
        self.0
            .get(name)
            .map_or((Lead::Nowhere, Lead::Nowhere), |name| {
                (
                    lead(&name.ipv4, name.had.ipv4, within),
                    lead(&name.ipv6, name.had.ipv6, within),
                )
            })
    }

    /// An address of a name that has none within the ranges.
    pub(super) fn outside(&self, name: &DomainName, within: Option<&Within>) -> Option<IpAddr> {
        match self.leads(name, within) {
            (Lead::To(_), _) | (_, Lead::To(_)) => None,
            (Lead::Outside(address), _) => Some(address.into()),
            (_, Lead::Outside(address)) => Some(address.into()),
            (Lead::Nowhere | Lead::Lost, Lead::Nowhere | Lead::Lost) => None,
        }
    }

    pub(super) fn families(&self, name: &DomainName, within: Option<&Within>) -> ResolvedName {
        let (ipv4, ipv6) = self.leads(name, within);
        ResolvedName {
            name: name.as_str().to_owned(),
            ipv4: matches!(ipv4, Lead::To(_)),
            ipv6: matches!(ipv6, Lead::To(_)),
            existence: self.existence(name).unwrap_or(Existence::Unanswered),
        }
    }

    pub(super) fn next_renewal(&self) -> Option<BootTime> {
        self.0.values().map(|name| name.renew).min()
    }
}

impl Gateway {
    /// The DNS has answered for a name, or has not.
    pub fn handle_resolved(&mut self, name: &DomainName, resolution: Resolution, now: BootTime) {
        self.questions.answered(name);
        if self.take_resolution(name, resolution, now) {
            for client in self.grants.clients_of_name(name) {
                self.rebuild_or_deny(client);
            }
            self.note_outside_of_held(name, now);
        }
        self.name_settled(name, now);
        self.finish(now);
    }

    /// True where the name leads elsewhere now.
    fn take_resolution(
        &mut self,
        name: &DomainName,
        resolution: Resolution,
        now: BootTime,
    ) -> bool {
        let machines = self.network.as_ref().map(|network| network.machines);
        let visible = self.network.as_ref().map(|network| network.names);
        let own: Vec<_> = machines.into_iter().chain(visible).flatten().collect();
        let may_lead_to = |address: IpAddr| {
            // Not back into the tunnel, and not to the gateway's own services: whoever may change
            // a name in the DNS must not decide that (DNS rebinding).
            Mapping::new(address, address).is_ok() && !own.iter().any(|r| r.contains(address))
        };
        let Some(known) = self.names.0.get_mut(name) else {
            return false;
        };
        let before = (known.ipv4.clone(), known.ipv6.clone());
        match resolution {
            Resolution::Found { ipv4, ipv6, ttl_s } => {
                known.existence = Some(Existence::Exists);
                known.ipv4 = usable(&before.0, &ipv4, may_lead_to);
                known.ipv6 = usable(&before.1, &ipv6, may_lead_to);
                known.had.ipv4 |= !known.ipv4.is_empty();
                known.had.ipv6 |= !known.ipv6.is_empty();
                let ttl = Duration::from_secs(ttl_s.into());
                known.renew = now.saturating_add(ttl.clamp(MIN_RENEWAL, MAX_RENEWAL));
            }
            Resolution::NoAddress | Resolution::NotFound => {
                known.existence = Some(match resolution {
                    Resolution::NotFound => Existence::Missing,
                    _ => Existence::Exists,
                });
                known.ipv4.clear();
                known.ipv6.clear();
                known.renew = now.saturating_add(RETRY);
            }
            Resolution::NoAnswer => {
                let existence = *known.existence.get_or_insert(Existence::Unanswered);
                let is_known = existence != Existence::Unanswered;
                let wait = if is_known { RETRY } else { UNANSWERED };
                known.renew = now.saturating_add(wait);
            }
        }
        let limit = &mut self.log_moved;
        let lines = [
            move_line(name, before.0.first(), known.ipv4.first(), limit, now),
            move_line(name, before.1.first(), known.ipv6.first(), limit, now),
        ];
        for line in lines.into_iter().flatten() {
            self.log.push(line);
        }
        (&known.ipv4, &known.ipv6) != (&before.0, &before.1)
    }

    /// Counts and logs that a name of resources in use leads out of their ranges now.
    fn note_outside_of_held(&mut self, name: &DomainName, now: BootTime) {
        let held = self
            .grants
            .held()
            .filter(|held| held.names.contains_key(name));
        let outside: BTreeMap<ResourceId, IpAddr> = held
            .filter_map(|held| {
                let address = self.names.outside(name, held.within.as_ref())?;
                Some((held.claims.resource, address))
            })
            .collect();
        for (resource, address) in outside {
            self.note_outside(name, address, resource, now);
        }
    }

    /// Counts and logs that a name leads out of the ranges of a resource.
    pub(super) fn note_outside(
        &mut self,
        name: &DomainName,
        address: IpAddr,
        resource: ResourceId,
        now: BootTime,
    ) {
        self.counters.names_outside += 1;
        if let Some(left_out) = self.log_outside.take(now) {
            let line = LogLine::warn(
                "a name leads out of the networks that its resource allows, and is not followed: if it \
                 is right, add its network to `within` of the resource",
            );
            let line = line.with("name", name).with("address", address);
            self.log
                .push(line.with("resource", resource).with("left_out", left_out));
        }
    }

    /// Asks again for names in use whose time is over, and forgets the others.
    pub(super) fn renew_names(&mut self, now: BootTime) {
        let due: Vec<DomainName> = self
            .names
            .0
            .iter()
            .filter(|(_, name)| name.renew <= now)
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            // Where several have the name, it is a question of the one that has the fewest.
            let clients = self.grants.clients_of_name(&name).into_iter();
            let client = clients.min_by_key(|client| self.questions.waiting(*client));
            match client {
                Some(client) => {
                    self.ask(client, &name, now);
                }
                None if self.grants.uses_name(&name) => {
                    self.names.keep(&name, now.saturating_add(RETRY));
                }
                None => self.names.forget(&name),
            }
        }
    }

    fn has_room_for(&self, client: ClientId, name: &DomainName) -> bool {
        if self.names.0.contains_key(name) {
            return true;
        }
        let room = self.names.room_per_client();
        // Where there is room for all that one may have, nobody needs to count.
        room >= MAX_NAMES_PER_CLIENT || self.grants.names_of_client(client) < room
    }

    /// Asks for a name as soon as it is the client's turn. False where nobody does now: a name that is
    /// kept is asked for later then.
    pub(super) fn ask(&mut self, client: ClientId, name: &DomainName, now: BootTime) -> bool {
        let is_wanted = self.has_room_for(client, name) && self.questions.want(client, name);
        if is_wanted {
            self.names.keep(name, now.saturating_add(MAX_RENEWAL));
        } else {
            self.counters.questions_refused += 1;
            if let Some(name) = self.names.0.get_mut(name) {
                name.renew = now.saturating_add(RETRY);
            }
        }
        is_wanted
    }
}

/// Tells where a name leads after it led elsewhere before.
fn move_line<A: Copy + PartialEq + Display>(
    name: &DomainName,
    from: Option<&A>,
    to: Option<&A>,
    limit: &mut LogLimit,
    now: BootTime,
) -> Option<LogLine> {
    let from = from.filter(|from| Some(*from) != to)?;
    let left_out = limit.take(now)?;
    let line = match to {
        Some(to) => LogLine::info("a name has another address")
            .with("name", name)
            .with("from", from)
            .with("to", to),
        None => LogLine::info("a name has lost its address")
            .with("name", name)
            .with("from", from),
    };
    Some(line.with("left_out", left_out))
}

/// The addresses of an answer that may be used, those that the name had before in front.
fn usable<A: Copy + PartialEq + Into<IpAddr>>(
    before: &[A],
    found: &[A],
    may_lead_to: impl Fn(IpAddr) -> bool,
) -> Vec<A> {
    let mut usable: Vec<A> = before
        .iter()
        .filter(|address| found.contains(address))
        .copied()
        .collect();
    for &address in found {
        if usable.len() >= MAX_ADDRESSES_PER_NAME {
            break;
        }
        if may_lead_to(address.into()) && !usable.contains(&address) {
            usable.push(address);
        }
    }
    usable
}

/// The first of the addresses that is within the ranges.
fn lead<A: Copy + Into<IpAddr>>(addresses: &[A], had: bool, within: Option<&Within>) -> Lead<A> {
    let Some(&first) = addresses.first() else {
        return if had { Lead::Lost } else { Lead::Nowhere };
    };
    let Some(within) = within else {
        return Lead::To(first);
    };
    let mut addresses = addresses.iter().copied();
    addresses
        .find(|address| within.contains((*address).into()))
        .map_or(Lead::Outside(first), Lead::To)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_room_for_names_is_for_clients_that_have_few() {
        let mut names = Names::default();
        let mut of_clients = Vec::new();
        // Each takes as many as it may, one client after the other.
        for client in 0..40 {
            let mut own = 0;
            while own < MAX_NAMES_PER_CLIENT.min(names.room_per_client()) {
                let name = format!("n{own}.c{client}.example").parse().unwrap();
                names.keep(&name, BootTime::ZERO);
                own += 1;
            }
            of_clients.push(own);
        }
        assert_eq!(of_clients[..4], [MAX_NAMES_PER_CLIENT; 4]);
        assert!(of_clients.iter().all(|own| *own > 0), "{of_clients:?}");
        assert!(names.len() < MAX_NAMES);
    }
}
