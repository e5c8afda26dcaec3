//! Names that clients want, and what the DNS says of them.

use super::Gateway;
use culvert_ids::ClientId;
use culvert_policy::DomainName;
use culvert_policy::gate::{MAX_NAMES_PER_GRANT, Mapping};
use culvert_wire::messages::ResolvedName;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How long a grant waits for the DNS, in milliseconds: below what the portal waits for the gateway.
pub const RESOLVE_LIMIT_MS: u64 = 2_500;

/// Names that are kept at once: as many as one client may have, for eight clients. What is not kept is
/// asked for again.
pub const MAX_NAMES: usize = 8 * MAX_NAMES_PER_CLIENT;

/// Names in one client's grants: as many as one grant may have.
pub(super) const MAX_NAMES_PER_CLIENT: usize = MAX_NAMES_PER_GRANT;

/// A name in use is asked for again after its time to live, but not sooner than this.
const MIN_RENEWAL_MS: u64 = 5_000;

/// …and not later than this, whatever the DNS says.
const MAX_RENEWAL_MS: u64 = 300_000;

/// A name that does not exist, or that the DNS did not answer for, is asked for again after this.
const RETRY_MS: u64 = 10_000;

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
    /// It does not exist, or has no address.
    NotFound,
    /// The DNS did not answer: what was known before still counts.
    NoAnswer,
}

/// A name.
#[derive(Debug, Default)]
pub(super) struct Name {
    /// The DNS has answered once.
    pub(super) is_known: bool,
    pub(super) ipv4: Option<Ipv4Addr>,
    pub(super) ipv6: Option<Ipv6Addr>,
    pub(super) renew_ms: u64,
}

/// All names.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<DomainName, Name>);

impl Names {
    pub(super) fn is_known(&self, name: &DomainName) -> bool {
        self.0.get(name).is_some_and(|name| name.is_known)
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

    /// Keeps a name, and asks for it after a while if nobody has until then.
    fn keep(&mut self, name: &DomainName, renew_ms: u64) {
        self.0.entry(name.clone()).or_default().renew_ms = renew_ms;
    }

    /// Keeps a name that can't be asked for now, as far as there is room.
    pub(super) fn ask_later(&mut self, name: &DomainName, now_ms: u64) {
        if self.has_room_for(name) {
            self.keep(name, now_ms + RETRY_MS);
        }
    }

    pub(super) fn forget(&mut self, name: &DomainName) {
        self.0.remove(name);
    }

    /// What it leads to, of each family.
    pub(super) fn chosen(&self, name: &DomainName) -> (Option<Ipv4Addr>, Option<Ipv6Addr>) {
        let name = self.0.get(name);
        name.map_or((None, None), |name| (name.ipv4, name.ipv6))
    }

    pub(super) fn families(&self, name: &DomainName) -> ResolvedName {
        let (ipv4, ipv6) = self.chosen(name);
        ResolvedName {
            name: name.as_str().to_owned(),
            ipv4: ipv4.is_some(),
            ipv6: ipv6.is_some(),
        }
    }

    pub(super) fn next_renewal_ms(&self) -> Option<u64> {
        self.0.values().map(|name| name.renew_ms).min()
    }
}

impl Gateway {
    /// The DNS has answered for a name, or has not.
    pub fn handle_resolved(&mut self, name: &DomainName, resolution: Resolution, now_ms: u64) {
        self.questions.answered(name);
        if self.take_resolution(name, resolution, now_ms) {
            for client in self.grants.clients_of_name(name) {
                self.rebuild_or_deny(client);
            }
        }
        self.name_settled(name, now_ms);
        self.finish(now_ms);
    }

    /// True where the name leads elsewhere now.
    fn take_resolution(&mut self, name: &DomainName, resolution: Resolution, now_ms: u64) -> bool {
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
        let before = (known.ipv4, known.ipv6);
        match resolution {
            Resolution::Found { ipv4, ipv6, ttl_s } => {
                known.is_known = true;
                known.ipv4 = choose(known.ipv4, &ipv4, may_lead_to);
                known.ipv6 = choose(known.ipv6, &ipv6, may_lead_to);
                let ttl_ms = u64::from(ttl_s) * 1000;
                known.renew_ms = now_ms + ttl_ms.clamp(MIN_RENEWAL_MS, MAX_RENEWAL_MS);
            }
            Resolution::NotFound => {
                known.is_known = true;
                (known.ipv4, known.ipv6) = (None, None);
                known.renew_ms = now_ms + RETRY_MS;
            }
            Resolution::NoAnswer => known.renew_ms = now_ms + RETRY_MS,
        }
        (known.ipv4, known.ipv6) != before
    }

    /// Asks again for names in use whose time is over, and forgets the others.
    pub(super) fn renew_names(&mut self, now_ms: u64) {
        let due: Vec<DomainName> = self
            .names
            .0
            .iter()
            .filter(|(_, name)| name.renew_ms <= now_ms)
            .map(|(name, _)| name.clone())
            .collect();
        for name in due {
            // Where several have the name, it is a question of the one that has the fewest.
            let clients = self.grants.clients_of_name(&name).into_iter();
            let client = clients.min_by_key(|client| self.questions.waiting(*client));
            match client {
                Some(client) => {
                    self.ask(client, &name, now_ms);
                }
                None if self.grants.uses_name(&name) => self.names.keep(&name, now_ms + RETRY_MS),
                None => self.names.forget(&name),
            }
        }
    }

    /// Asks for a name as soon as it is the client's turn. False where nobody does now: a name that is
    /// kept is asked for later then.
    pub(super) fn ask(&mut self, client: ClientId, name: &DomainName, now_ms: u64) -> bool {
        let is_wanted = self.names.has_room_for(name) && self.questions.want(client, name);
        if is_wanted {
            self.names.keep(name, now_ms + MAX_RENEWAL_MS);
        } else {
            self.counters.questions_refused += 1;
            if let Some(name) = self.names.0.get_mut(name) {
                name.renew_ms = now_ms + RETRY_MS;
            }
        }
        is_wanted
    }
}

/// The address that a name leads to: the one before, while the DNS still names it.
fn choose<A: Copy + PartialEq + Into<IpAddr>>(
    before: Option<A>,
    found: &[A],
    may_lead_to: impl Fn(IpAddr) -> bool,
) -> Option<A> {
    let mut usable = found
        .iter()
        .filter(|address| may_lead_to((**address).into()));
    let first = usable.clone().next();
    usable
        .find(|address| Some(**address) == before)
        .or(first)
        .copied()
}
