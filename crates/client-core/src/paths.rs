//! Relays, and the paths to gateways: registrations, probes, and what the portal is told of them.

use super::status::RelayStatus;
use culvert_base::BootTime;
use culvert_ids::{GatewayId, RelayId};
use culvert_path::{
    Nat64Prefix, RelayPlace as Place, Relays, SelectedPath, ToldReached, nat_mapping, reach_all,
    relay_grant,
};
use culvert_wire::messages::{FromClient, NatMapping, PathKind, RelayAccess, RelayPlace};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Addresses of this client that are told: those of its interfaces, and those that relays see.
const OWN_CANDIDATES_MAX: usize = culvert_path::CANDIDATES_MAX;

/// The relays of the client, and what the portal was told in this session.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) relays: Relays<GatewayId>,
    /// Names of relays, for people.
    names: BTreeMap<RelayId, String>,
    /// The addresses of this machine's interfaces, with the port of the tunnel.
    pub(super) own: Vec<SocketAddr>,
    /// The portal knows of relays: an older one would not understand what it is told of them.
    is_portal_asked: bool,
    /// The UDP address at which the portal tells this client its own; so the portal knows what to do with that.
    portal: Option<SocketAddr>,
    told_candidates: Vec<SocketAddr>,
    told_reached: ToldReached,
    told_nat: Option<NatMapping>,
    /// The relays of the account, as the portal told them.
    places: Vec<RelayPlace>,
    /// The relays of each gateway, as the portal told them.
    accesses: BTreeMap<GatewayId, Vec<RelayAccess>>,
    /// By which IPv4 is reached, on a network that has IPv6 alone.
    pub(super) nat64: Option<Nat64Prefix>,
}

/// The path to a gateway, as the portal was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ToldPath {
    pub(super) kind: PathKind,
    pub(super) relay: Option<RelayId>,
}

impl ToldPath {
    pub(super) const fn of(path: &SelectedPath) -> Self {
        Self {
            kind: match path.relay {
                Some(_) if path.by_tls => PathKind::RelayedTls,
                Some(_) => PathKind::Relayed,
                None => PathKind::Direct,
            },
            relay: path.relay,
        }
    }
}

impl Paths {
    pub(super) fn new(seed: [u8; 32]) -> Self {
        Self {
            relays: Relays::new(seed),
            names: BTreeMap::new(),
            own: Vec::new(),
            is_portal_asked: false,
            portal: None,
            told_candidates: Vec::new(),
            told_reached: ToldReached::default(),
            told_nat: None,
            places: Vec::new(),
            accesses: BTreeMap::new(),
            nat64: None,
        }
    }

    /// The UDP address at which the portal tells from where it sees this client. It is asked with the first access: before
    /// that, no rule may be there yet that leads what the tunnel's socket sends around the tunnel.
    pub(super) const fn set_portal(&mut self, at: Option<SocketAddr>) {
        self.portal = at;
    }

    /// A session begins: the portal is told everything anew.
    pub(super) fn begin_session(&mut self, places: &[RelayPlace], now: BootTime) {
        self.is_portal_asked = false;
        self.told_candidates.clear();
        self.told_reached.forget();
        self.told_nat = None;
        self.relays.set_portal(self.portal, now);
        self.set_places(places, now);
    }

    /// The relays of the account.
    pub(super) fn set_places(&mut self, places: &[RelayPlace], now: BootTime) {
        self.is_portal_asked |= !places.is_empty();
        self.names = places
            .iter()
            .map(|place| (place.relay, place.name.clone()))
            .collect();
        self.places = places.to_vec();
        self.tell_places(now);
    }

    fn tell_places(&mut self, now: BootTime) {
        let places = self.places.iter().map(|place| Place {
            relay: place.relay,
            addresses: reach_all(self.nat64, &place.addresses),
        });
        self.relays.set_places(places.collect(), now);
    }

    /// The relays by which a gateway is reached.
    pub(super) fn set_relays(&mut self, gateway: GatewayId, relays: &[RelayAccess], now: BootTime) {
        self.is_portal_asked |= !relays.is_empty();
        for access in relays {
            let name = access.place.name.clone();
            self.names.insert(access.place.relay, name);
        }
        self.accesses.insert(gateway, relays.to_vec());
        self.tell_accesses(gateway, now);
        if relays.is_empty() {
            // The gateway is about to send to the address that it was told of this client.
            self.relays.ask_portal(now);
        }
    }

    fn tell_accesses(&mut self, gateway: GatewayId, now: BootTime) {
        if let Some(accesses) = self.accesses.get(&gateway) {
            let grants = accesses.iter().map(relay_grant);
            let grants = grants.map(|grant| grant.reached_by(self.nat64)).collect();
            self.relays.set(gateway, grants, now);
        }
    }

    /// Other gateways are in use no more.
    pub(super) fn keep_only(&mut self, is_live: impl Fn(GatewayId) -> bool) {
        self.accesses.retain(|id, _| is_live(*id));
        self.relays.keep_only(is_live);
    }

    /// IPv4 is reached by this prefix from now on, or as it is. True if it was another way before.
    pub(super) fn set_nat64(&mut self, prefix: Option<Nat64Prefix>, now: BootTime) -> bool {
        if self.nat64 == prefix {
            return false;
        }
        self.nat64 = prefix;
        self.tell_places(now);
        for gateway in self.accesses.keys().copied().collect::<Vec<_>>() {
            self.tell_accesses(gateway, now);
        }
        true
    }

    /// The NAT in front of this client, as far as relays show it.
    pub(super) fn nat(&self) -> Option<NatMapping> {
        nat_mapping(&self.relays.seen(), &self.own)
    }

    /// The relays of the account, for the status.
    pub(super) fn statuses(&self) -> Vec<RelayStatus> {
        let reached = self.relays.reached();
        let status = |place: &RelayPlace| {
            let found = reached.iter().find(|it| it.relay == place.relay);
            let round_trip = found.map(|it| it.round_trip.as_micros());
            RelayStatus {
                id: place.relay,
                name: place.name.clone(),
                addresses: place.addresses.clone(),
                tls_port: place.tls.as_ref().map(|tls| tls.port),
                tls_pin: place.tls.as_ref().map(|tls| tls.pin.to_string()),
                round_trip_us: round_trip.map(|us| u32::try_from(us).unwrap_or(u32::MAX)),
                registered: found.is_some_and(|it| it.is_registered),
                by_tls: found.is_some_and(|it| it.by_tls),
            }
        };
        self.places.iter().map(status).collect()
    }

    /// The name of a relay, for people.
    pub(super) fn name_of(&self, relay: RelayId) -> Option<&str> {
        self.names.get(&relay).map(String::as_str)
    }

    /// Relays that carry nothing, each as a line with the fix.
    pub(super) fn problems(&self) -> Vec<String> {
        let problems = self.relays.troubles().filter_map(|(relay, trouble)| {
            let name = self.name_of(relay).unwrap_or_default();
            trouble.problem(name)
        });
        // A relay of several gateways is told once.
        let problems: BTreeSet<String> = problems.collect();
        problems.into_iter().collect()
    }

    pub(super) fn handle_network_changed(&mut self, now: BootTime) {
        self.relays.handle_network_changed(now);
    }

    pub(super) fn handle_timeout(&mut self, now: BootTime) {
        self.relays.handle_timeout(now);
    }

    pub(super) fn poll_timeout(&self) -> Option<BootTime> {
        self.relays.poll_timeout()
    }

    /// All addresses at which this client may be reached.
    fn candidates(&self) -> Vec<SocketAddr> {
        let mut candidates = self.relays.reflexive();
        for address in &self.own {
            if !candidates.contains(address) {
                candidates.push(*address);
            }
        }
        candidates.truncate(OWN_CANDIDATES_MAX);
        candidates
    }

    /// The news for the portal.
    pub(super) fn poll_news(&mut self, now: BootTime) -> Vec<FromClient> {
        let mut news = Vec::new();
        if !self.is_portal_asked && self.portal.is_none() {
            return news;
        }
        let candidates = self.candidates();
        if candidates != self.told_candidates {
            self.told_candidates.clone_from(&candidates);
            news.push(FromClient::CandidatesChanged { candidates });
        }
        let reached = self.relays.reached();
        if let Some(relays) = self.told_reached.poll(&reached, now) {
            news.push(FromClient::RelaysReached { relays });
        }
        let nat = self.nat();
        if let Some(mapping) = nat.filter(|_| nat != self.told_nat) {
            self.told_nat = nat;
            news.push(FromClient::NatFound { mapping });
        }
        news
    }
}
