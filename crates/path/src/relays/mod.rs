//! The relays of an end: where it is registered, how far they are, and from where they see it.
//!
//! A client has registrations at the relays of each gateway in use, a gateway at its own: `K` tells them apart. Both send
//! from the socket of WireGuard, so what a relay sees is the address that a NAT gives to records.
//!
//! Events and time go in through `handle_*`; call [`Relays::poll_output`] after each until it returns `None`.

mod messages;
mod survey;

use culvert_base::BootTime;
use culvert_ids::RelayId;
use culvert_relay_core::mac::Mac;
use culvert_relay_core::message::{KIND_REGISTER, RefusalReason};
use culvert_relay_core::registration::{Output as RegistrationOutput, Permission, Registration};
pub use messages::{ToldReached, relay_grant};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;
use survey::Survey;
pub use survey::{PLACES_MAX, RelayPlace, SURVEY_EVERY};

/// Relays of one gateway: one in use, and one to fall back to.
pub const RELAYS_PER_OWNER: usize = 2;

/// Reflexive addresses of an end that are told: those that two relays and their families see, twice while they change.
pub const REFLEXIVE_MAX: usize = 8;

/// The permission to use a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayGrant {
    /// The relay.
    pub relay: RelayId,
    /// Its addresses, each with the gateway's port.
    pub addresses: Vec<SocketAddr>,
    /// The token, and the key of the proofs.
    pub permission: Permission,
}

/// An effect, to be carried out in the order in which [`Relays::poll_output`] returns them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelaysOutput<K> {
    /// Send this.
    Send {
        /// The datagram.
        datagram: Vec<u8>,
        /// Its destination.
        to: SocketAddr,
    },
    /// A registration has left for this address: records that follow it are forwarded.
    Registering {
        /// The owner of the registration.
        owner: K,
        /// The relay's address.
        address: SocketAddr,
    },
    /// The relay refuses this end.
    Refused {
        /// The relay.
        relay: RelayId,
        /// The reason.
        reason: RefusalReason,
    },
    /// Registrations, round trips or reflexive addresses are others now.
    Changed,
}

/// A relay that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayReached {
    /// The relay.
    pub relay: RelayId,
    /// Its round trip.
    pub round_trip: Duration,
    /// The end is registered there.
    pub is_registered: bool,
}

/// The relays of an end.
pub struct Relays<K> {
    entries: BTreeMap<(K, RelayId), Entry>,
    survey: Survey,
    seed: [u8; 32],
    registrations: u64,
    outputs: VecDeque<RelaysOutput<K>>,
}

struct Entry {
    registration: Registration,
    grant: RelayGrant,
    round_trip: Duration,
    /// The address of this end, as the relay sees it.
    mapped: Option<SocketAddr>,
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
        let mut relays = Self {
            entries: BTreeMap::new(),
            survey: Survey::default(),
            seed,
            registrations: 0,
            outputs: VecDeque::new(),
        };
        let seed = relays.next_seed();
        relays.survey = Survey::new(seed);
        relays
    }

    /// The relays that may be used for this owner: all of them, at most [`RELAYS_PER_OWNER`]. Registrations at the others
    /// end.
    pub fn set(&mut self, owner: K, grants: Vec<RelayGrant>, now: BootTime) {
        let wanted: Vec<RelayGrant> = grants.into_iter().take(RELAYS_PER_OWNER).collect();
        let before = self.entries.len();
        let is_wanted = |relay: RelayId| wanted.iter().any(|grant| grant.relay == relay);
        self.entries
            .retain(|(of, relay), _| *of != owner || is_wanted(*relay));
        let mut has_changed = self.entries.len() != before;
        for grant in wanted {
            let key = (owner, grant.relay);
            let seed = self.next_seed();
            if let Some(entry) = self.entries.get_mut(&key) {
                if entry.grant.addresses != grant.addresses {
                    entry.registration.set_addresses(&grant.addresses, now);
                }
                entry
                    .registration
                    .set_permission(grant.permission.clone(), now);
                entry.grant = grant;
            } else {
                let permission = grant.permission.clone();
                let mut registration = Registration::new(&grant.addresses, permission, seed, now);
                registration.handle_timeout(now);
                let entry = Entry {
                    registration,
                    grant,
                    round_trip: Duration::MAX,
                    mapped: None,
                };
                self.entries.insert(key, entry);
                has_changed = true;
            }
        }
        self.drain();
        if has_changed {
            self.note_change();
        }
    }

    /// Registrations of other owners end.
    pub fn keep_only(&mut self, is_live: impl Fn(K) -> bool) {
        let before = self.entries.len();
        self.entries.retain(|(owner, _), _| is_live(*owner));
        if self.entries.len() != before {
            self.note_change();
        }
    }

    /// The relays there are, to learn from them where this end is and how far they are; at most [`PLACES_MAX`] count.
    pub fn set_places(&mut self, places: Vec<RelayPlace>, now: BootTime) {
        self.survey.set_places(places, now);
        self.drain();
    }

    /// The host's network is another one: everything begins again.
    pub fn handle_network_changed(&mut self, now: BootTime) {
        for entry in self.entries.values_mut() {
            entry.registration.handle_network_change(now);
            entry.mapped = None;
        }
        self.survey.begin(now);
        self.handle_timeout(now);
    }

    /// A datagram of Culvert came from `source`. False if it was nothing of a relay that this end asked.
    pub fn handle_datagram(&mut self, source: SocketAddr, datagram: &[u8], now: BootTime) -> bool {
        let mut of_source = self.entries.values_mut();
        let taken = of_source
            .any(|entry| entry.registration.handle_datagram(source, datagram, now))
            || self.survey.handle_datagram(source, datagram, now);
        self.drain();
        taken
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: BootTime) {
        for entry in self.entries.values_mut() {
            if entry.registration.poll_timeout() <= now {
                entry.registration.handle_timeout(now);
            }
        }
        self.survey.handle_timeout(now);
        self.drain();
    }

    /// The time at which [`Self::handle_timeout`] has something to do.
    pub fn poll_timeout(&self) -> Option<BootTime> {
        let registrations = self.entries.values();
        let registrations = registrations.map(|entry| entry.registration.poll_timeout());
        registrations.chain(self.survey.poll_timeout()).min()
    }

    /// The next output, if there is one.
    pub fn poll_output(&mut self) -> Option<RelaysOutput<K>> {
        self.outputs.pop_front()
    }

    /// The relays at which this end is registered for the owner, the nearest first.
    pub fn usable(&self, owner: K) -> Vec<(RelayId, SocketAddr)> {
        let mut usable: Vec<_> = self
            .of(owner)
            .filter_map(|(relay, entry)| {
                let address = entry.registration.relay()?;
                Some((entry.round_trip, relay, address))
            })
            .collect();
        usable.sort_unstable();
        usable
            .into_iter()
            .map(|(_, relay, at)| (relay, at))
            .collect()
    }

    /// The relays of the owner: where this end is registered, and where it is about to be.
    pub fn known(&self, owner: K) -> Vec<(RelayId, SocketAddr)> {
        let known = self.of(owner).filter_map(|(relay, entry)| {
            let first = entry.grant.addresses.first().copied();
            Some((relay, entry.registration.relay().or(first)?))
        });
        known.collect()
    }

    /// The addresses at which this end is seen, as relays say.
    pub fn reflexive(&self) -> Vec<SocketAddr> {
        let registered = self.entries.values().filter_map(|entry| entry.mapped);
        let mut addresses = Vec::new();
        for address in registered.chain(self.survey.mapped()) {
            if !addresses.contains(&address) && addresses.len() < REFLEXIVE_MAX {
                addresses.push(address);
            }
        }
        addresses
    }

    /// The relays that answer, each once.
    pub fn reached(&self) -> Vec<RelayReached> {
        let mut reached: BTreeMap<RelayId, RelayReached> = BTreeMap::new();
        for (relay, round_trip) in self.survey.reached() {
            let found = RelayReached {
                relay,
                round_trip,
                is_registered: false,
            };
            reached.insert(relay, found);
        }
        for ((_, relay), entry) in &self.entries {
            if entry.registration.relay().is_some() {
                let found = RelayReached {
                    relay: *relay,
                    round_trip: entry.round_trip,
                    is_registered: true,
                };
                reached.insert(*relay, found);
            }
        }
        reached.into_values().collect()
    }

    fn of(&self, owner: K) -> impl Iterator<Item = (RelayId, &Entry)> {
        let of_owner = self.entries.iter().filter(move |((of, _), _)| *of == owner);
        of_owner.map(|((_, relay), entry)| (*relay, entry))
    }

    /// Takes in what the registrations and the survey say.
    fn drain(&mut self) {
        let mut has_changed = false;
        for ((owner, relay), entry) in &mut self.entries {
            while let Some(output) = entry.registration.poll_output() {
                match output {
                    RegistrationOutput::Send { to, datagram } => {
                        let registers = datagram.as_bytes().get(3) == Some(&KIND_REGISTER);
                        self.outputs.push_back(RelaysOutput::Send {
                            datagram: datagram.as_bytes().to_vec(),
                            to,
                        });
                        if registers {
                            let (owner, address) = (*owner, to);
                            self.outputs
                                .push_back(RelaysOutput::Registering { owner, address });
                        }
                    }
                    RegistrationOutput::Mapped { address, .. } => {
                        has_changed |= entry.mapped != Some(address);
                        entry.mapped = Some(address);
                    }
                    RegistrationOutput::Registered { round_trip, .. } => {
                        entry.round_trip = round_trip;
                        has_changed = true;
                    }
                    RegistrationOutput::Alive { round_trip } => entry.round_trip = round_trip,
                    RegistrationOutput::Lost => has_changed = true,
                    RegistrationOutput::Refused(reason) => {
                        let relay = *relay;
                        self.outputs
                            .push_back(RelaysOutput::Refused { relay, reason });
                    }
                }
            }
        }
        while let Some((to, datagram)) = self.survey.poll_send() {
            let datagram = datagram.to_vec();
            self.outputs.push_back(RelaysOutput::Send { datagram, to });
        }
        if has_changed || self.survey.take_changed() {
            self.note_change();
        }
    }

    fn note_change(&mut self) {
        if !matches!(self.outputs.back(), Some(RelaysOutput::Changed)) {
            self.outputs.push_back(RelaysOutput::Changed);
        }
    }

    /// A seed that no other part has.
    fn next_seed(&mut self) -> [u8; 32] {
        self.registrations += 1;
        let number = self.registrations.to_be_bytes();
        let half = |label: &[u8]| Mac::of(&self.seed, &[label, &number]);
        let (one, other) = (
            half(b"culvert relays, one half"),
            half(b"culvert relays, other half"),
        );
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(one.as_bytes());
        seed[16..].copy_from_slice(other.as_bytes());
        seed
    }
}
