//! Relays, and the paths to gateways: registrations, probes, and what the portal is told of them.

use culvert_base::BootTime;
use culvert_ids::{GatewayId, RelayId};
use culvert_path::{RelayPlace as Place, Relays, SelectedPath, ToldReached, relay_grant};
use culvert_wire::messages::{FromClient, PathKind, RelayAccess, RelayPlace};
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
    /// The portal tells this client its address, so it knows what to do with it.
    tells_address: bool,
    told_candidates: Vec<SocketAddr>,
    told_reached: ToldReached,
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
            tells_address: false,
            told_candidates: Vec::new(),
            told_reached: ToldReached::default(),
        }
    }

    /// The UDP address at which the portal tells from where it sees this client.
    pub(super) fn set_portal(&mut self, at: Option<SocketAddr>, now: BootTime) {
        self.tells_address = at.is_some();
        self.relays.set_portal(at, now);
    }

    /// A session begins: the portal is told everything anew.
    pub(super) fn begin_session(&mut self, places: &[RelayPlace], now: BootTime) {
        self.is_portal_asked = false;
        self.told_candidates.clear();
        self.told_reached.forget();
        self.set_places(places, now);
    }

    /// The relays of the account.
    pub(super) fn set_places(&mut self, places: &[RelayPlace], now: BootTime) {
        self.is_portal_asked |= !places.is_empty();
        self.names = places
            .iter()
            .map(|place| (place.relay, place.name.clone()))
            .collect();
        let places = places.iter().map(|place| Place {
            relay: place.relay,
            addresses: place.addresses.clone(),
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
        let grants = relays.iter().map(relay_grant).collect();
        self.relays.set(gateway, grants, now);
        if relays.is_empty() {
            // The gateway is about to send to the address that it was told of this client.
            self.relays.ask_portal(now);
        }
    }

    /// The name of a relay, for people.
    pub(super) fn name_of(&self, relay: RelayId) -> Option<&str> {
        self.names.get(&relay).map(String::as_str)
    }

    /// Relays that are not reached at all, each as a line.
    pub(super) fn problems(&self) -> Vec<String> {
        let problems = self.relays.troubles().map(|(relay, why)| {
            let name = self.name_of(relay).unwrap_or_default();
            format!("relay {name} gives no answer by UDP, and is not reached by TLS either: {why}")
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
        if !self.is_portal_asked && !self.tells_address {
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
        news
    }
}
