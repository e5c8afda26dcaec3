//! A request for access on its way to a grant.

use super::pair::Pair;
use super::queue::OfferQueues;
use culvert_ids::{ClientId, GatewayId, GrantId, ID_LEN, PolicyId, ResourceId};
use culvert_wire::Timestamp;
use culvert_wire::messages::{Reason, WantedName};
use std::collections::{BTreeMap, BTreeSet};

/// A grant that is under way.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) purpose: Purpose,
    pub(crate) wish: Wish,
    /// The grant that was offered, while an answer is awaited. None while a gateway is.
    pub(crate) offer: Option<Offer>,
    /// The gateway that it waits for, while that has as many offers as it may.
    pub(crate) turn: Option<Turn>,
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

/// A place among the requests that wait for a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// None while another gateway is looked for.
    pub(crate) gateway: Option<GatewayId>,
    /// The end of the wait.
    pub(crate) until: Timestamp,
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
pub(crate) struct Asks {
    of: BTreeMap<Pair, Ask>,
    pub(crate) queues: OfferQueues,
}

impl Ask {
    /// A grant that is wanted from here on.
    pub(crate) const fn new(purpose: Purpose, wish: Wish) -> Self {
        Self {
            purpose,
            wish,
            offer: None,
            turn: None,
            failure: None,
            next: None,
        }
    }

    /// True if it waits until a gateway has answered others.
    pub(crate) fn waits_for_turn(&self) -> bool {
        self.place().is_some()
    }

    /// All that clients ask for with it.
    pub(crate) fn into_wish(self) -> Option<Wish> {
        let mut wish = match self.purpose {
            Purpose::Answer => Some(self.wish),
            Purpose::Shorten => None,
        };
        if let Some(next) = self.next {
            wish.get_or_insert_default().merge(next);
        }
        wish
    }

    fn place(&self) -> Option<(GatewayId, Timestamp)> {
        let turn = self.turn?;
        Some((turn.gateway?, turn.until))
    }
}

impl Asks {
    pub(crate) fn len(&self) -> usize {
        self.of.len()
    }

    pub(crate) fn contains(&self, pair: Pair) -> bool {
        self.of.contains_key(&pair)
    }

    pub(crate) fn get(&self, pair: Pair) -> Option<&Ask> {
        self.of.get(&pair)
    }

    pub(crate) fn get_mut(&mut self, pair: Pair) -> Option<&mut Ask> {
        self.of.get_mut(&pair)
    }

    pub(crate) fn insert(&mut self, pair: Pair, ask: Ask) {
        if let Some((gateway, until)) = ask.place() {
            self.queues.push(gateway, pair, until);
        }
        self.of.insert(pair, ask);
    }

    pub(crate) fn remove(&mut self, pair: Pair) -> Option<Ask> {
        let ask = self.of.remove(&pair)?;
        if let Some((gateway, until)) = ask.place() {
            self.queues.remove(gateway, pair, until);
        }
        Some(ask)
    }

    /// The pairs that wait for a gateway to come.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Pair> {
        let is_waiting = |ask: &Ask| ask.offer.is_none() && ask.place().is_none();
        let waiting = self.of.iter().filter(move |(_, ask)| is_waiting(ask));
        waiting.map(|(pair, _)| *pair)
    }

    /// The pairs of the client that are under way.
    pub(crate) fn of(&self, client: ClientId) -> impl Iterator<Item = Pair> {
        let first = (client, ResourceId::from_bytes([0; ID_LEN]));
        let last = (client, ResourceId::from_bytes([u8::MAX; ID_LEN]));
        self.of.range(first..=last).map(|(pair, _)| *pair)
    }
}
