//! A request for access on its way to a grant.

use culvert_ids::{ClientId, GatewayId, GrantId, ID_LEN, PolicyId, ResourceId};
use culvert_wire::Timestamp;
use culvert_wire::messages::{Reason, WantedName};
use std::collections::{BTreeMap, BTreeSet};

/// A client and a resource that it is to get a grant for.
pub(crate) type Pair = (ClientId, ResourceId);

/// A grant that is under way.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) purpose: Purpose,
    pub(crate) wish: Wish,
    /// The grant that was offered, while an answer is awaited. None while a gateway is.
    pub(crate) offer: Option<Offer>,
    /// The reason for which the last gateway did not take it.
    pub(crate) failure: Option<Reason>,
    /// Requests that came since, with other names or gateways.
    pub(crate) next: Option<Wish>,
}

/// The party that wants a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The client.
    Answer,
    /// The portal: the one in use lasts longer than the policies now allow.
    Shorten,
}

/// A grant that a gateway is to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) grant: GrantId,
    pub(crate) gateway: GatewayId,
    pub(crate) deadline: Timestamp,
    /// The gateway was told to answer now: it is told once.
    pub(crate) is_expedited: bool,
}

/// The names and gateways that one request or several ask for.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    pub(crate) waiters: Vec<Waiter>,
    /// By name.
    pub(crate) names: BTreeMap<String, WantedName>,
    /// Gateways that are not asked: the client found them dead, or they did not take the grant.
    pub(crate) avoid: BTreeSet<GatewayId>,
}

/// A request that waits.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) request: u64,
    pub(crate) names: BTreeSet<String>,
}

/// An access that the policies allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permit {
    pub(crate) policy: PolicyId,
    /// The last instant that the policies and the token allow; none for ever.
    pub(crate) until: Option<Timestamp>,
}

impl Wish {
    pub(crate) fn merge(&mut self, other: Self) {
        self.waiters.extend(other.waiters);
        self.names.extend(other.names);
        self.avoid.extend(other.avoid);
    }
}

/// Requests under way: at most one grant of each pair.
#[derive(Debug, Default)]
pub(crate) struct Asks(BTreeMap<Pair, Ask>);

impl Asks {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn contains(&self, pair: Pair) -> bool {
        self.0.contains_key(&pair)
    }

    pub(crate) fn get(&self, pair: Pair) -> Option<&Ask> {
        self.0.get(&pair)
    }

    pub(crate) fn get_mut(&mut self, pair: Pair) -> Option<&mut Ask> {
        self.0.get_mut(&pair)
    }

    pub(crate) fn insert(&mut self, pair: Pair, ask: Ask) {
        self.0.insert(pair, ask);
    }

    pub(crate) fn remove(&mut self, pair: Pair) -> Option<Ask> {
        self.0.remove(&pair)
    }

    /// The pairs that wait for a gateway to offer a grant to.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Pair> {
        let waiting = self.0.iter().filter(|(_, ask)| ask.offer.is_none());
        waiting.map(|(pair, _)| *pair)
    }

    /// The pairs of the client that are under way.
    pub(crate) fn of(&self, client: ClientId) -> impl Iterator<Item = Pair> {
        let first = (client, ResourceId::from_bytes([0; ID_LEN]));
        let last = (client, ResourceId::from_bytes([u8::MAX; ID_LEN]));
        self.0.range(first..=last).map(|(pair, _)| *pair)
    }
}
