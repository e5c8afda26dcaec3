//! Names that clients want, and what the DNS says of them.

use super::journal::Journal;
use culvert_base::BootTime;
use culvert_policy::gate::{MAX_NAMES_PER_GRANT, Mapping};
use culvert_policy::{DomainName, Prefix, Within};
use culvert_wire::messages::{Existence, ResolvedName};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// The wait of a grant for the DNS, in milliseconds: below what the portal waits for the gateway.
pub const RESOLVE_LIMIT_MS: u64 = 2_500;

/// The time for which answered names wait for the unanswered names of their grant. Most resolvers answer for
/// an uncached name sooner, and a person does not notice it. The grant comes into force without the others then,
/// and the client asks for them again.
pub(super) const DEFER_AFTER: Duration = Duration::from_millis(100);

/// Names that are kept at once: as many as one client may have, for eight clients. A name that is
/// not kept is asked for again. The last ones are for clients that have few: see [`ROOM_PER_CLIENT`].
pub const MAX_NAMES: usize = 8 * MAX_NAMES_PER_CLIENT;

/// Names in one client's grants: as many as one grant may have.
pub(super) const MAX_NAMES_PER_CLIENT: usize = MAX_NAMES_PER_GRANT;

/// A client may have a new name while it has fewer than this part of the room that is left (dynamic
/// thresholds, Choudhury and Hahne, 1998). Four clients may have all that one may have; each one more that
/// takes what it can leaves four fifths of the rest. Forty of them leave room for a name.
const ROOM_PER_CLIENT: usize = 4;

/// A name in use is asked for again after its time to live, but not sooner than this.
const MIN_RENEWAL: Duration = Duration::from_secs(5);

/// …and not later than this, whatever its time to live.
const MAX_RENEWAL: Duration = Duration::from_secs(300);

/// A name that does not exist is asked for again after this; so is one that is known and that the DNS did not
/// answer for.
const RETRY: Duration = Duration::from_secs(10);

/// The time for which a failure of the DNS to answer for an unknown name is remembered. Nobody waits for the
/// name meanwhile. RFC 2308, section 7.1, permits five minutes.
const UNANSWERED: Duration = Duration::from_secs(5);

/// The answer of the DNS about a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It has these addresses.
    Found {
        /// In the order of the answer.
        ipv4: Vec<Ipv4Addr>,
        /// In the order of the answer.
        ipv6: Vec<Ipv6Addr>,
        /// The time to live of the answer, in seconds.
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
    /// The last answer of the DNS, or that it has never answered.
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
    /// True if the DNS has ever answered for it.
    pub(super) fn is_answered(&self) -> bool {
        matches!(self.existence, Some(Existence::Exists | Existence::Missing))
    }
}

/// The address that a name leads to in one family.
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
pub(super) struct Names {
    known: BTreeMap<DomainName, Name>,
    /// By [`Name::renew`].
    due: BTreeSet<(BootTime, DomainName)>,
}

impl Names {
    /// The answer of the DNS about a name; none where it has not been asked to the end.
    pub(super) fn existence(&self, name: &DomainName) -> Option<Existence> {
        self.known.get(name)?.existence
    }

    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// In the order of the alphabet.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&DomainName, &Name)> {
        self.known.iter()
    }

    fn has_room_for(&self, name: &DomainName) -> bool {
        self.known.len() < MAX_NAMES || self.known.contains_key(name)
    }

    /// The number of names that a client may have and still get a new one, as long as there are so many in all.
    pub(super) fn room_per_client(&self) -> usize {
        MAX_NAMES.saturating_sub(self.known.len()) / ROOM_PER_CLIENT
    }

    /// Keeps a name, and asks for it after a while if nobody has until then.
    fn keep(&mut self, name: &DomainName, renew: BootTime) {
        self.known.entry(name.clone()).or_default();
        self.renew_at(name, renew);
    }

    fn renew_at(&mut self, name: &DomainName, renew: BootTime) {
        if let Some(known) = self.known.get_mut(name) {
            self.due.remove(&(known.renew, name.clone()));
            known.renew = renew;
            self.due.insert((renew, name.clone()));
        }
    }

    /// Keeps a name that can't be asked for now, as far as there is room.
    pub(super) fn ask_later(&mut self, name: &DomainName, now: BootTime) {
        if self.has_room_for(name) {
            self.keep(name, now.saturating_add(RETRY));
        }
    }

    pub(super) fn forget(&mut self, name: &DomainName) {
        if let Some(known) = self.known.remove(name) {
            self.due.remove(&(known.renew, name.clone()));
        }
    }

    /// The address that it leads to in each family, for a resource that allows these ranges alone.
    pub(super) fn leads(
        &self,
        name: &DomainName,
        within: Option<&Within>,
    ) -> (Lead<Ipv4Addr>, Lead<Ipv6Addr>) {
        self.known
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
        self.due.first().map(|(renew, _)| *renew)
    }

    /// The names whose time is over.
    pub(super) fn due(&self, now: BootTime) -> Vec<DomainName> {
        let due = self.due.iter().take_while(|(renew, _)| *renew <= now);
        due.map(|(_, name)| name.clone()).collect()
    }

    pub(super) fn contains(&self, name: &DomainName) -> bool {
        self.known.contains_key(name)
    }

    /// Keeps a name until its question has an answer, and asks again if that never comes.
    pub(super) fn await_answer(&mut self, name: &DomainName, now: BootTime) {
        self.keep(name, now.saturating_add(MAX_RENEWAL));
    }

    /// Keeps a name that nobody can ask for now.
    pub(super) fn retry(&mut self, name: &DomainName, now: BootTime) {
        self.keep(name, now.saturating_add(RETRY));
    }

    /// As [`Self::retry`], for a name that is kept already.
    pub(super) fn retry_known(&mut self, name: &DomainName, now: BootTime) {
        self.renew_at(name, now.saturating_add(RETRY));
    }

    /// True where the name leads elsewhere now. It must not lead into `own`, the ranges of the tunnel.
    pub(super) fn take_resolution(
        &mut self,
        name: &DomainName,
        resolution: Resolution,
        own: &[Prefix],
        journal: &mut Journal,
        now: BootTime,
    ) -> bool {
        let may_lead_to = |address: IpAddr| {
            // Not back into the tunnel, and not to the gateway's own services: an attacker who may change
            // a name in the DNS must not decide that (DNS rebinding).
            Mapping::new(address, address).is_ok() && !own.iter().any(|r| r.contains(address))
        };
        let Some(known) = self.known.get_mut(name) else {
            return false;
        };
        let before = (known.ipv4.clone(), known.ipv6.clone());
        let wait = match resolution {
            Resolution::Found { ipv4, ipv6, ttl_s } => {
                known.existence = Some(Existence::Exists);
                known.ipv4 = usable(&before.0, &ipv4, may_lead_to);
                known.ipv6 = usable(&before.1, &ipv6, may_lead_to);
                known.had.ipv4 |= !known.ipv4.is_empty();
                known.had.ipv6 |= !known.ipv6.is_empty();
                let ttl = Duration::from_secs(ttl_s.into());
                ttl.clamp(MIN_RENEWAL, MAX_RENEWAL)
            }
            Resolution::NoAddress | Resolution::NotFound => {
                known.existence = Some(match resolution {
                    Resolution::NotFound => Existence::Missing,
                    _ => Existence::Exists,
                });
                known.ipv4.clear();
                known.ipv6.clear();
                RETRY
            }
            Resolution::NoAnswer => {
                let existence = *known.existence.get_or_insert(Existence::Unanswered);
                let is_known = existence != Existence::Unanswered;
                if is_known { RETRY } else { UNANSWERED }
            }
        };
        journal.note_move(name, before.0.first(), known.ipv4.first(), now);
        journal.note_move(name, before.1.first(), known.ipv6.first(), now);
        let has_moved = (&known.ipv4, &known.ipv6) != (&before.0, &before.1);
        self.renew_at(name, now.saturating_add(wait));
        has_moved
    }
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
