//! Addresses at which a peer may be reached.

use crate::guard::{BRIDGES_MAX, CandidateRefusal, Guard, canonical};
use culvert_ids::RelayId;
use std::cmp::Reverse;
use std::net::SocketAddr;

/// The most direct candidates of one peer: a gateway with eight interfaces of two families.
pub const CANDIDATES_MAX: usize = 16;

/// The most of them that were only observed. Nobody expects a roaming peer where it
/// was four stations ago, and its stations cannot push out what the portal says.
pub const OBSERVED_MAX: usize = 4;

/// The most relays of one peer: one in use and one to fall back to, of two sets while they change.
pub const RELAYS_MAX: usize = 4;

/// Each of them may be behind a TLS stream.
const _: () = assert!(BRIDGES_MAX == RELAYS_MAX);

/// The most destinations of a handshake initiation.
pub const TARGETS_MAX: usize = CANDIDATES_MAX + RELAYS_MAX;

/// The origin of a candidate, the most important first. All but relays are direct.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An administrator says that it is reached there.
    Public,
    /// One of its interfaces.
    Interface,
    /// A relay or a portal saw it there: the address that its NAT gives it.
    Reflexive,
    /// An authentic packet of it came from there: it roamed, or is behind a NAT.
    Observed,
    /// The peer's port at this relay: until a direct path is proven, and when none works.
    Relayed(RelayId),
    /// The same relay through a TLS stream: a loopback address of this host stands for it.
    RelayedTls(RelayId),
}

/// The address that stands for the peer's port at a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayPath {
    /// The relay.
    pub relay: RelayId,
    /// The address that records are sent to.
    pub address: SocketAddr,
    /// It is the end of a TLS stream to the relay, on this host.
    pub by_tls: bool,
}

impl RelayPath {
    const fn kind(self) -> Kind {
        match self.by_tls {
            false => Kind::Relayed(self.relay),
            true => Kind::RelayedTls(self.relay),
        }
    }
}

impl Kind {
    /// It is a relay behind a TLS stream.
    pub const fn by_tls(self) -> bool {
        matches!(self, Self::RelayedTls(_))
    }

    /// The relay, where it is one.
    pub const fn relay(self) -> Option<RelayId> {
        match self {
            Self::Relayed(relay) | Self::RelayedTls(relay) => Some(relay),
            Self::Public | Self::Interface | Self::Reflexive | Self::Observed => None,
        }
    }
}

/// An address at which a peer may be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// The address.
    pub address: SocketAddr,
    /// Its origin.
    pub kind: Kind,
    /// Counts up with every observation, so that the latest is known; 0 for all others.
    observed: u64,
}

/// The candidates of one peer: at most [`CANDIDATES_MAX`] addresses and [`RELAYS_MAX`] relays, each once, the most
/// important first, and IPv6 before IPv4.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    guard: Guard,
    list: Vec<Candidate>,
    observations: u64,
}

impl Candidates {
    /// None yet, and none that `guard` refuses.
    pub fn new(guard: Guard) -> Self {
        Self {
            guard,
            ..Self::default()
        }
    }

    /// Adds a candidate. One that is known already keeps the kind that matters more, and
    /// an announced one is not merely observed. Returns whether the list changed, but for the order
    /// of what was observed.
    ///
    /// # Errors
    ///
    /// The reason why it is no candidate.
    pub fn learn(&mut self, address: SocketAddr, kind: Kind) -> Result<bool, CandidateRefusal> {
        let address = self.guard.admit(address)?;
        self.observations += u64::from(kind == Kind::Observed);
        let new = Candidate {
            address,
            kind,
            observed: match kind {
                Kind::Observed => self.observations,
                Kind::Public
                | Kind::Interface
                | Kind::Reflexive
                | Kind::Relayed(_)
                | Kind::RelayedTls(_) => 0,
            },
        };
        if let Some(known) = self.list.iter_mut().find(|it| it.address == address) {
            // A relay is a relay, whoever says that it is there and whatever came from it.
            let is_relay = known.kind.relay().is_some();
            if known.kind < kind || is_relay {
                return Ok(false);
            }
            let changed = known.kind != kind;
            *known = new;
            self.sort();
            return Ok(changed);
        }
        if kind == Kind::Observed && self.of_kind(Kind::Observed).count() >= OBSERVED_MAX {
            self.forget_last(Kind::Observed);
        }
        let is_relay = kind.relay().is_some();
        let mut of_class = self
            .list
            .iter()
            .filter(|it| it.kind.relay().is_some() == is_relay);
        let bound = if is_relay { RELAYS_MAX } else { CANDIDATES_MAX };
        if of_class.clone().count() >= bound {
            let last = of_class.next_back().map(|candidate| candidate.kind);
            match last.filter(|last| kind < *last && !is_relay) {
                Some(last) => self.forget_last(last),
                None => return Err(CandidateRefusal::Full),
            }
        }
        self.list.push(new);
        self.sort();
        Ok(true)
    }

    /// Replaces all candidates of one kind, as the peer or the portal announces them; more than
    /// twice [`CANDIDATES_MAX`] are ignored. Returns what is not taken, and why.
    pub fn replace(
        &mut self,
        kind: Kind,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Vec<(SocketAddr, CandidateRefusal)> {
        self.list.retain(|candidate| candidate.kind != kind);
        let mut refused = Vec::new();
        for address in addresses.into_iter().take(2 * CANDIDATES_MAX) {
            if let Err(refusal) = self.learn(address, kind) {
                refused.push((address, refusal));
            }
        }
        refused
    }

    /// Replaces all relays, in the order of their use. Those beyond [`RELAYS_MAX`], and those that the guard refuses, are
    /// left out. Of loopback the guard lets pass exactly the addresses of these that are reached by TLS.
    pub fn replace_relays(&mut self, relays: impl IntoIterator<Item = RelayPath>) {
        let relays: Vec<_> = relays.into_iter().take(RELAYS_MAX).collect();
        let bridges = relays.iter().filter(|path| path.by_tls);
        self.guard.set_bridges(bridges.map(|path| path.address));
        let is_relay = |address| relays.iter().any(|path| canonical(path.address) == address);
        // A relay is no direct path, also if packets came from it before it was known as one.
        self.list
            .retain(|it| it.kind.relay().is_none() && !is_relay(it.address));
        for path in relays {
            let _ = self.learn(path.address, path.kind());
        }
    }

    /// Removes a candidate. Returns whether there was one.
    pub fn forget(&mut self, address: SocketAddr) -> bool {
        let before = self.list.len();
        self.list.retain(|it| it.address != canonical(address));
        self.list.len() < before
    }

    /// Another guard: the tunnel's ranges changed. Candidates that it refuses are removed.
    pub fn set_guard(&mut self, guard: Guard) {
        self.guard.set_ranges_of(guard);
        self.list.retain(|it| self.guard.admit(it.address).is_ok());
    }

    /// Checks an address with `guard`.
    ///
    /// # Errors
    ///
    /// The reason why it is no candidate.
    pub fn admit(&self, address: SocketAddr) -> Result<SocketAddr, CandidateRefusal> {
        self.guard.admit(address)
    }

    /// All, what matters most first; of those observed, the latest first.
    pub fn as_slice(&self) -> &[Candidate] {
        &self.list
    }

    /// The origin of an address.
    pub fn kind_of(&self, address: SocketAddr) -> Option<Kind> {
        let address = canonical(address);
        let known = self.list.iter().find(|it| it.address == address);
        known.map(|candidate| candidate.kind)
    }

    fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Candidate> {
        self.list.iter().filter(move |it| it.kind == kind)
    }

    /// The last one of a kind; of those observed that is the oldest.
    fn forget_last(&mut self, kind: Kind) {
        if let Some(index) = self.list.iter().rposition(|it| it.kind == kind) {
            self.list.remove(index);
        }
    }

    /// Stable: those of a kind stay in the order in which they were announced, but IPv6 comes first. It is asked first, so it
    /// wins where it is as fast; all are asked at once, so it delays none where it is dead.
    fn sort(&mut self) {
        let is_v4 = |it: &Candidate| it.address.is_ipv4();
        self.list
            .sort_by_key(|it| (it.kind, Reverse(it.observed), is_v4(it)));
    }
}
