//! Relays, and the paths to clients: registrations, and answers to probes. Clients decide which path is used.

use super::status::RelayStatus;
use culvert_base::{BootTime, Random};
use culvert_ids::RelayId;
use culvert_path::{
    Guard, Nat64Prefix, RelayPath, Relays, RelaysOutput, Selection, SelectionOutput, TlsPlace,
    ToldReached, nat_mapping, reach_all, relay_grant,
};
use culvert_relay_core::Message;
use culvert_relay_core::message::{RefusalReason, Tag};
use culvert_relay_core::probe::{PairEnd, PairProbes};
use culvert_wire::messages::{NatMapping, RelayAccess, RelayReach};
use culvert_wire::{PresharedKey, PublicKey};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// Clients whose addresses are known, with a grant or before their first one: as many as grants.
const ANNOUNCED_MAX: usize = 1 << 15;

/// The relays of the gateway, and the paths to its clients.
pub(super) struct Paths {
    relays: Relays<()>,
    /// Names of relays, for people.
    names: BTreeMap<RelayId, String>,
    random: Random,
    guard: Guard,
    /// The addresses of clients, as the portal tells them.
    announced: BTreeMap<PublicKey, Vec<SocketAddr>>,
    clients: BTreeMap<PublicKey, Pair>,
    /// Clients by the tag of probes for this end. Two may have the same, by a chance of one in four billion for each two.
    by_tag: BTreeSet<(Tag, PublicKey)>,
    due: BTreeSet<(BootTime, PublicKey)>,
    outputs: VecDeque<News>,
    /// By relay: the address that leads there, also while the gateway is not registered.
    relay_addresses: BTreeMap<RelayId, SocketAddr>,
    told: ToldReached,
    /// Addresses or relays have changed since the portal was told last.
    is_news: bool,
    told_nat: Option<NatMapping>,
    /// The relays, as the portal told them.
    accesses: Vec<RelayAccess>,
    /// By which IPv4 is reached, on a network that has IPv6 alone.
    nat64: Option<Nat64Prefix>,
}

/// The paths to one client.
struct Pair {
    selection: Selection,
    preshared_key: PresharedKey,
    due: Option<BootTime>,
}

/// News of the paths for the core.
pub(super) enum News {
    /// Send this from the socket of the tunnel.
    Send(Vec<u8>, SocketAddr),
    /// A relay refuses the gateway.
    Refused(String, RefusalReason),
    /// Open a TLS stream to the relay.
    OpenTls(RelayId, TlsPlace),
    /// Close it.
    CloseTls(RelayId),
    /// A relay is reached neither by UDP nor by TLS.
    TlsFailed(String, String),
    /// The same relay is at another address now.
    MoveClients { from: SocketAddr, to: SocketAddr },
}

impl Paths {
    pub(super) fn new(seed: [u8; 32], random: u64) -> Self {
        Self {
            relays: Relays::new(seed).keeping_mapping(),
            names: BTreeMap::new(),
            random: Random::new(random),
            guard: Guard::default(),
            announced: BTreeMap::new(),
            clients: BTreeMap::new(),
            by_tag: BTreeSet::new(),
            due: BTreeSet::new(),
            outputs: VecDeque::new(),
            relay_addresses: BTreeMap::new(),
            told: ToldReached::default(),
            is_news: false,
            told_nat: None,
            accesses: Vec::new(),
            nat64: None,
        }
    }

    /// The tunnel's own ranges: nothing inside them is a path.
    pub(super) fn set_guard(&mut self, guard: Guard) {
        for pair in self.clients.values_mut() {
            pair.selection.set_guard(guard.clone());
        }
        self.guard = guard;
    }

    /// The UDP address at which the portal tells from where it sees the gateway; none if it does not.
    pub(super) fn set_portal(&mut self, at: Option<SocketAddr>, now: BootTime) {
        self.relays.set_portal(at, now);
    }

    /// The portal is told of the relays anew.
    pub(super) fn begin_session(&mut self) {
        self.told.forget();
        self.told_nat = None;
    }

    /// The relays through which clients come.
    pub(super) fn set_relays(&mut self, relays: &[RelayAccess], now: BootTime) {
        let names = relays.iter();
        let names = names.map(|access| (access.place.relay, access.place.name.clone()));
        self.names = names.collect();
        self.accesses = relays.to_vec();
        self.tell_relays(now);
        self.follow_relays(now);
    }

    fn tell_relays(&mut self, now: BootTime) {
        let grants = self.accesses.iter().map(relay_grant);
        let grants = grants.map(|grant| grant.reached_by(self.nat64)).collect();
        self.relays.set((), grants, now);
    }

    /// IPv4 is reached by this prefix from now on, or as it is.
    pub(super) fn set_nat64(&mut self, prefix: Option<Nat64Prefix>, now: BootTime) {
        if self.nat64 == prefix {
            return;
        }
        self.nat64 = prefix;
        self.tell_relays(now);
        self.follow_relays(now);
        for (client, candidates) in self.announced.clone() {
            self.set_candidates(client, candidates, now);
        }
    }

    /// A client may be reached there. It may have no grant yet.
    pub(super) fn set_candidates(
        &mut self,
        client: PublicKey,
        candidates: Vec<SocketAddr>,
        now: BootTime,
    ) {
        if let Some(pair) = self.clients.get_mut(&client) {
            // Addresses that can't be are left out.
            let reached = reach_all(self.nat64, &candidates);
            let _ = pair.selection.set_candidates(&reached, now);
            self.drain_pair(client);
        }
        let is_known = self.announced.contains_key(&client);
        if is_known || self.announced.len() < ANNOUNCED_MAX {
            self.announced.insert(client, candidates);
        }
    }

    /// A client is a peer with this secret.
    pub(super) fn add_client(&mut self, key: PublicKey, secret: &PresharedKey, now: BootTime) {
        let known = self.clients.get(&key);
        if known.is_some_and(|pair| pair.preshared_key == *secret) {
            return;
        }
        self.remove_pair(&key);
        let Some(probes) = PairProbes::new(secret, PairEnd::Gateway) else {
            return;
        };
        let seed = self.random.next();
        let guard = self.guard.clone();
        let mut selection = Selection::new(probes, PairEnd::Gateway, guard, seed);
        selection.set_relays(&self.relays.known(()), &self.relays.usable(()), now);
        if let Some(candidates) = self.announced.get(&key) {
            let _ = selection.set_candidates(&reach_all(self.nat64, candidates), now);
        }
        self.by_tag.insert((selection.own_tag(), key));
        let pair = Pair {
            selection,
            preshared_key: secret.clone(),
            due: None,
        };
        self.clients.insert(key, pair);
        self.drain_pair(key);
    }

    /// A client is no peer any more.
    pub(super) fn remove_client(&mut self, key: &PublicKey) {
        self.remove_pair(key);
        self.announced.remove(key);
    }

    pub(super) fn handle_message(&mut self, source: SocketAddr, datagram: &[u8], now: BootTime) {
        if self.relays.handle_datagram(source, datagram, now) {
            return;
        }
        let message = Message::parse(datagram);
        let (Some(message), Some(tag)) = (message, message.and_then(receiver)) else {
            return;
        };
        let least = (tag, PublicKey::from_bytes([0; 32]));
        let of_tag = self.by_tag.range(least..).take_while(|(it, _)| *it == tag);
        let keys: Vec<PublicKey> = of_tag.map(|(_, key)| *key).collect();
        for key in keys {
            if let Some(pair) = self.clients.get_mut(&key)
                && pair.selection.handle_message(&message, source, now)
            {
                self.drain_pair(key);
                return;
            }
        }
    }

    /// The stream to a relay is open.
    pub(super) fn handle_tls_opened(&mut self, relay: RelayId, local: SocketAddr, now: BootTime) {
        self.relays.handle_tls_opened((), relay, local, now);
    }

    /// The stream to a relay has ended, or could not be opened.
    pub(super) fn handle_tls_ended(&mut self, relay: RelayId, why: String, now: BootTime) {
        self.relays.handle_tls_ended((), relay, why, now);
    }

    /// Clients that were heard do not answer: the relays are asked whether they live.
    pub(super) fn check_relays(&mut self, now: BootTime) {
        self.relays.check((), now);
    }

    /// True if there are relays, and clients that may come through them.
    pub(super) fn has_pairs(&self) -> bool {
        !self.clients.is_empty() && !self.relays.known(()).is_empty()
    }

    /// Relays that carry nothing, each as a line with the fix.
    pub(super) fn problems(&self) -> Vec<String> {
        let problems = self.relays.troubles().filter_map(|(relay, trouble)| {
            let name = self.name_of(relay);
            trouble.problem(&name)
        });
        problems.collect()
    }

    fn name_of(&self, relay: RelayId) -> String {
        self.names.get(&relay).cloned().unwrap_or_default()
    }

    pub(super) fn handle_network_changed(&mut self, now: BootTime) {
        self.relays.handle_network_changed(now);
        for key in self.clients.keys().copied().collect::<Vec<_>>() {
            if let Some(pair) = self.clients.get_mut(&key) {
                pair.selection.handle_network_changed(now);
            }
            self.drain_pair(key);
        }
    }

    pub(super) fn handle_timeout(&mut self, now: BootTime) {
        self.relays.handle_timeout(now);
        while let Some((at, key)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, key));
            if let Some(pair) = self.clients.get_mut(&key) {
                pair.due = None;
                pair.selection.handle_timeout(now);
            }
            self.drain_pair(key);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<BootTime> {
        let first = self.due.first().map(|(at, _)| *at);
        first.into_iter().chain(self.relays.poll_timeout()).min()
    }

    /// The addresses at which relays see the gateway.
    pub(super) fn reflexive(&self) -> Vec<SocketAddr> {
        self.relays.reflexive()
    }

    /// The relays of the gateway, for its status.
    pub(super) fn statuses(&self) -> Vec<RelayStatus> {
        let (reached, usable) = (self.relays.reached(), self.relays.usable(()));
        let mut known = self.relays.known(());
        // Each relay once, by the path in use.
        known.retain(|path| {
            let of_relay = usable.iter().find(|it| it.relay == path.relay);
            of_relay.map_or(!path.by_tls, |it| it == path)
        });
        let statuses = known.into_iter().map(|path| {
            let found = reached.iter().find(|it| it.relay == path.relay);
            let round_trip = found.map(|it| it.round_trip.as_micros());
            RelayStatus {
                id: path.relay,
                name: self.name_of(path.relay),
                address: path.address,
                registered: found.is_some_and(|it| it.is_registered),
                by_tls: path.by_tls,
                round_trip_us: round_trip.map(|us| u32::try_from(us).unwrap_or(u32::MAX)),
            }
        });
        statuses.collect()
    }

    /// The name of the relay at this address.
    pub(super) fn relay_at(&self, address: SocketAddr) -> Option<String> {
        let mut known = self.relays.known(()).into_iter();
        let path = known.find(|path| path.address == address)?;
        Some(self.name_of(path.relay))
    }

    /// Takes in what the relays say.
    pub(super) fn drain_relays(&mut self, now: BootTime) {
        let mut has_changed = false;
        while let Some(output) = self.relays.poll_output() {
            match output {
                RelaysOutput::Send { datagram, to } => {
                    self.outputs.push_back(News::Send(datagram, to));
                }
                RelaysOutput::Refused { relay, reason } => {
                    let name = self.name_of(relay);
                    self.outputs.push_back(News::Refused(name, reason));
                }
                RelaysOutput::OpenTls { relay, place, .. } => {
                    self.outputs.push_back(News::OpenTls(relay, place));
                }
                RelaysOutput::CloseTls { relay, .. } => {
                    self.outputs.push_back(News::CloseTls(relay));
                }
                RelaysOutput::TlsFailed { relay, why } => {
                    let name = self.name_of(relay);
                    self.outputs.push_back(News::TlsFailed(name, why));
                }
                // The gateway begins no handshake.
                RelaysOutput::Registering { .. } => {}
                RelaysOutput::Changed => has_changed = true,
            }
        }
        if has_changed {
            self.is_news = true;
            self.follow_relays(now);
        }
    }

    /// True, once, if addresses or relays are others than before.
    pub(super) fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    /// The next thing to be done.
    pub(super) fn poll_news(&mut self) -> Option<News> {
        self.outputs.pop_front()
    }

    /// The relays that are reached, if that is news for the portal.
    pub(super) fn poll_reached(&mut self, now: BootTime) -> Option<Vec<RelayReach>> {
        self.told.poll(&self.relays.reached(), now)
    }

    /// Clients that come through a relay are sent to where the relay is now, by UDP or by TLS: it forwards from there alone.
    fn move_clients(&mut self, usable: &[RelayPath]) {
        for path in usable {
            let before = self.relay_addresses.insert(path.relay, path.address);
            if let Some(from) = before.filter(|before| *before != path.address) {
                let to = path.address;
                self.outputs.push_back(News::MoveClients { from, to });
            }
        }
        let names = &self.names;
        self.relay_addresses
            .retain(|relay, _| names.contains_key(relay));
    }

    /// The NAT in front of the gateway, if that is news for the portal. `own` are its own addresses.
    pub(super) fn poll_nat(&mut self, own: &[SocketAddr]) -> Option<NatMapping> {
        let nat = nat_mapping(&self.relays.seen(), own)?;
        (self.told_nat.replace(nat) != Some(nat)).then_some(nat)
    }

    fn follow_relays(&mut self, now: BootTime) {
        let (known, usable) = (self.relays.known(()), self.relays.usable(()));
        self.move_clients(&usable);
        for key in self.clients.keys().copied().collect::<Vec<_>>() {
            if let Some(pair) = self.clients.get_mut(&key) {
                pair.selection.set_relays(&known, &usable, now);
            }
            self.drain_pair(key);
        }
    }

    fn remove_pair(&mut self, key: &PublicKey) {
        if let Some(pair) = self.clients.remove(key) {
            self.by_tag.remove(&(pair.selection.own_tag(), *key));
            if let Some(due) = pair.due {
                self.due.remove(&(due, *key));
            }
        }
    }

    /// Takes in what a client's selection has to say, and when it has to be looked at again.
    fn drain_pair(&mut self, key: PublicKey) {
        let Some(pair) = self.clients.get_mut(&key) else {
            return;
        };
        while let Some(output) = pair.selection.poll_output() {
            if let SelectionOutput::Send { datagram, to } = output {
                self.outputs.push_back(News::Send(datagram.to_vec(), to));
            }
        }
        let due = pair.selection.poll_timeout();
        if due == pair.due {
            return;
        }
        if let Some(before) = pair.due {
            self.due.remove(&(before, key));
        }
        self.due.extend(due.map(|at| (at, key)));
        pair.due = due;
    }
}

/// The tag of the end that a probe is for.
fn receiver(message: Message<'_>) -> Option<Tag> {
    match message {
        Message::Probe(probe) | Message::ProbeAnswer(probe) => Some(probe.receiver),
        _ => None,
    }
}
