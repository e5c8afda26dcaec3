//! The relays of an end: where it is registered, how far they are, and from where they see it.
//!
//! A client has registrations at the relays of each gateway in use, a gateway at its own: `K` tells them apart. Both send
//! from the socket of WireGuard, so what a relay sees is the address that a NAT gives to records.
//!
//! A relay that gives no answer by UDP is reached by TLS, if it has a port for that. The owner opens the stream
//! ([`RelaysOutput::OpenTls`]) and names a loopback address that stands for the relay. The end registers there a second
//! time, which moves its one registration at the relay. UDP is asked for ever, and the registration moves back with its
//! first answer.
//!
//! Events and time go in through `handle_*`; call [`Relays::poll_output`] after each until it returns `None`.

mod entry;
mod grant;
mod messages;
mod output;
mod portal_port;
mod seeds;
mod stream;
mod survey;
mod trouble;

use crate::candidates::RelayPath;
use crate::mapping::Seen;
use culvert_base::BootTime;
use culvert_ids::RelayId;
use entry::Entry;
pub use grant::RelayGrant;
pub use messages::{ToldReached, relay_grant};
pub use output::{RelayReached, RelaysOutput};
pub use portal_port::KEEP_MAPPING_EVERY;
use portal_port::PortalPort;
use seeds::Seeds;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
pub use stream::{TLS_AFTER, TLS_LEFT_OPEN, TLS_SILENT, TLS_STREAMS_MAX, TlsPlace};
use survey::Survey;
pub use survey::{PLACES_MAX, RelayPlace, SURVEY_EVERY};
pub use trouble::RelayTrouble;

/// Relays of one gateway: one in use, and one to fall back to.
pub const RELAYS_PER_OWNER: usize = 2;

/// Reflexive addresses of an end that are told: those that two relays and their families see, twice while they change.
pub const REFLEXIVE_MAX: usize = 8;

/// The relays of an end.
pub struct Relays<K> {
    entries: BTreeMap<(K, RelayId), Entry>,
    survey: Survey,
    portal: PortalPort,
    /// True if a NAT's mapping is to be kept while there is no registration, which keeps it otherwise.
    keeps_mapping: bool,
    seeds: Seeds,
    outputs: VecDeque<RelaysOutput<K>>,
}

impl<K> fmt::Debug for Relays<K> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Relays")
            .field("registrations", &self.entries.len())
            .finish_non_exhaustive()
    }
}

impl<K: Copy + Ord> Relays<K> {
    /// None yet. `seed` is secret and random.
    pub fn new(seed: [u8; 32]) -> Self {
        let mut seeds = Seeds::new(seed);
        Self {
            entries: BTreeMap::new(),
            survey: Survey::new(seeds.next()),
            portal: PortalPort::new(seeds.next()),
            keeps_mapping: false,
            seeds,
            outputs: VecDeque::new(),
        }
    }

    /// The same for an end that others begin to reach: it asks the portal as soon as it can, and while it is registered
    /// nowhere so often that a NAT keeps its mapping.
    #[must_use]
    pub fn keeping_mapping(self) -> Self {
        Self {
            keeps_mapping: true,
            ..self
        }
    }

    /// A session with the portal begins: the portal tells at this UDP address from where it sees this end, if it does.
    pub fn set_portal(&mut self, at: Option<SocketAddr>, now: BootTime) {
        self.keep_mapping(now);
        self.portal.set(at, self.keeps_mapping, now);
        self.drain(now);
    }

    /// Asks the portal, unless it was asked a moment ago: the NAT may have another mapping since the last time.
    pub fn ask_portal(&mut self, now: BootTime) {
        self.portal.refresh(now);
        self.drain(now);
    }

    /// The relays that may be used for this owner: all of them, at most [`RELAYS_PER_OWNER`]. Registrations at the others
    /// end.
    pub fn set(&mut self, owner: K, grants: Vec<RelayGrant>, now: BootTime) {
        let wanted: Vec<RelayGrant> = grants.into_iter().take(RELAYS_PER_OWNER).collect();
        let is_wanted = |relay: RelayId| wanted.iter().any(|grant| grant.relay == relay);
        let mut has_changed = self.retain(|of, relay| of != owner || is_wanted(relay));
        for grant in wanted {
            let key = (owner, grant.relay);
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.set_grant(grant, now);
            } else {
                let seeds = Seeds::new(self.seeds.next());
                self.entries.insert(key, Entry::new(grant, seeds, now));
                has_changed = true;
            }
        }
        self.keep_mapping(now);
        self.drain(now);
        if has_changed {
            self.note_change();
        }
    }

    /// Registrations of other owners end.
    pub fn keep_only(&mut self, is_live: impl Fn(K) -> bool) {
        if self.retain(|owner, _| is_live(owner)) {
            self.note_change();
        }
    }

    /// The relays there are, to learn from them where this end is and how far they are; at most [`PLACES_MAX`] count.
    pub fn set_places(&mut self, places: Vec<RelayPlace>, now: BootTime) {
        self.survey.set_places(places, now);
        self.drain(now);
    }

    /// The host's network is another one: everything begins again.
    pub fn handle_network_changed(&mut self, now: BootTime) {
        for entry in self.entries.values_mut() {
            entry.handle_network_changed(now);
        }
        self.survey.begin(now);
        self.portal.renew(now);
        self.handle_timeout(now);
    }

    /// A datagram of Culvert came from `source`. False if it was nothing of a relay that this end asked.
    pub fn handle_datagram(&mut self, source: SocketAddr, datagram: &[u8], now: BootTime) -> bool {
        let mut of_source = self.entries.values_mut();
        let taken = of_source.any(|entry| entry.handle_datagram(source, datagram, now))
            || self.survey.handle_datagram(source, datagram, now)
            || self.portal.handle_datagram(source, datagram, now);
        self.drain(now);
        taken
    }

    /// The owner's paths may be dead: its relays are asked whether they live, unless they have been asked already.
    pub fn check(&mut self, owner: K, now: BootTime) {
        for ((of, _), entry) in &mut self.entries {
            if *of == owner {
                entry.check(now);
            }
        }
        self.drain(now);
    }

    /// The stream that [`RelaysOutput::OpenTls`] asked for is open: `local` stands for the relay.
    pub fn handle_tls_opened(
        &mut self,
        owner: K,
        relay: RelayId,
        local: SocketAddr,
        now: BootTime,
    ) {
        match self.entries.get_mut(&(owner, relay)) {
            Some(entry) => entry.handle_opened(local, now),
            None => self
                .outputs
                .push_back(RelaysOutput::CloseTls { owner, relay }),
        }
        self.drain(now);
        self.note_change();
    }

    /// The stream has ended, or could not be opened.
    pub fn handle_tls_ended(&mut self, owner: K, relay: RelayId, why: String, now: BootTime) {
        if let Some(entry) = self.entries.get_mut(&(owner, relay)) {
            entry.handle_ended(why, now);
            self.drain(now);
            self.note_change();
        }
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        for entry in self.entries.values_mut() {
            entry.handle_timeout(now);
        }
        self.survey.handle_timeout(now);
        self.portal.handle_timeout(now);
        self.drain(now);
    }

    /// The time at which [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<BootTime> {
        let registrations = self.entries.values().map(Entry::poll_timeout);
        registrations
            .chain(self.survey.poll_timeout())
            .chain(self.portal.poll_timeout())
            .min()
    }

    /// The next output, if there is one.
    pub fn poll_output(&mut self) -> Option<RelaysOutput<K>> {
        self.outputs.pop_front()
    }

    /// The paths through relays at which this end is registered for the owner: UDP before TLS, then the nearest first.
    pub fn usable(&self, owner: K) -> Vec<RelayPath> {
        let mut usable: Vec<_> = self.of(owner).filter_map(Entry::usable).collect();
        usable.sort_by_key(|(path, round_trip)| (path.by_tls, *round_trip, path.relay));
        usable.into_iter().map(|(path, _)| path).collect()
    }

    /// The paths through relays of the owner: where this end is registered, where it is about to be, and where it was
    /// until lately.
    pub fn known(&self, owner: K) -> Vec<RelayPath> {
        self.of(owner).flat_map(Entry::known).collect()
    }

    /// The relays that carry nothing of this end, each with the reason.
    pub fn troubles(&self) -> impl Iterator<Item = (RelayId, RelayTrouble<'_>)> {
        let entries = self.entries.iter();
        entries.filter_map(|((_, relay), entry)| Some((*relay, entry.trouble()?)))
    }

    /// The addresses at which this end is seen, as relays and the portal say. A relay on this host says nothing of that.
    pub fn reflexive(&self) -> Vec<SocketAddr> {
        let registered = self.entries.values().filter_map(Entry::mapped);
        let mut addresses = Vec::new();
        let told = registered.chain(self.survey.mapped());
        for address in told.chain(self.portal.mapped()) {
            let is_new = !address.ip().is_loopback() && !addresses.contains(&address);
            if is_new && addresses.len() < REFLEXIVE_MAX {
                addresses.push(address);
            }
        }
        addresses
    }

    /// The addresses at which this end is seen, and who sees it there.
    pub fn seen(&self) -> Vec<Seen> {
        let registered = self.entries.values().filter_map(Entry::seen);
        registered.chain(self.survey.seen()).collect()
    }

    /// The relays that answer, each once.
    pub fn reached(&self) -> Vec<RelayReached> {
        let mut reached: BTreeMap<RelayId, RelayReached> = BTreeMap::new();
        for (relay, round_trip) in self.survey.reached() {
            let found = RelayReached {
                relay,
                round_trip,
                is_registered: false,
                by_tls: false,
            };
            reached.insert(relay, found);
        }
        for (path, round_trip) in self.entries.values().filter_map(Entry::usable) {
            let found = RelayReached {
                relay: path.relay,
                round_trip,
                is_registered: true,
                by_tls: path.by_tls,
            };
            reached.insert(path.relay, found);
        }
        reached.into_values().collect()
    }

    fn of(&self, owner: K) -> impl Iterator<Item = &Entry> {
        let of_owner = self.entries.iter().filter(move |((of, _), _)| *of == owner);
        of_owner.map(|(_, entry)| entry)
    }

    /// Keeps these entries. True if others went.
    fn retain(&mut self, is_kept: impl Fn(K, RelayId) -> bool) -> bool {
        let before = self.entries.len();
        let outputs = &mut self.outputs;
        self.entries.retain(|(owner, relay), entry| {
            let is_kept = is_kept(*owner, *relay);
            if !is_kept {
                outputs.extend(entry.end(*owner));
            }
            is_kept
        });
        self.entries.len() != before
    }

    /// Takes in what the registrations and the survey say.
    fn drain(&mut self, now: BootTime) {
        let (mut has_changed, mut is_lost) = (false, false);
        let mut streams = self.entries.values().filter(|it| it.has_stream()).count();
        for ((owner, _), entry) in &mut self.entries {
            if entry.asks_for_stream() && streams > TLS_STREAMS_MAX {
                entry.refuse_stream(now);
                streams -= 1;
            }
            has_changed |= entry.drain(*owner, &mut self.outputs, now);
            is_lost |= entry.take_lost();
        }
        if is_lost {
            // The survey may be minutes old: which relays are there still?
            self.survey.begin(now);
        }
        while let Some((to, datagram)) = self.survey.poll_send() {
            let datagram = datagram.to_vec();
            self.outputs.push_back(RelaysOutput::Send { datagram, to });
        }
        if let Some((to, datagram)) = self.portal.poll_send() {
            let datagram = datagram.to_vec();
            self.outputs.push_back(RelaysOutput::Send { datagram, to });
        }
        let are_others = self.survey.take_changed() | self.portal.take_changed();
        if has_changed || are_others {
            self.note_change();
        }
    }

    fn keep_mapping(&mut self, now: BootTime) {
        let keeps = self.keeps_mapping && self.entries.is_empty();
        self.portal.keep_mapping(keeps, now);
    }

    fn note_change(&mut self) {
        if !matches!(self.outputs.back(), Some(RelaysOutput::Changed)) {
            self.outputs.push_back(RelaysOutput::Changed);
        }
    }
}
