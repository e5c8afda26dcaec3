//! A grant on its way from a request to the answer of a gateway.

use culvert_ids::{ClientId, GatewayId, GrantId, PolicyId, ResourceId};
use culvert_wire::Timestamp;
use culvert_wire::messages::{Reason, WantedName};
use std::collections::{BTreeMap, BTreeSet};

/// A client and a resource that it is to get a grant for.
pub(crate) type Pair = (ClientId, ResourceId);

/// A grant that is under way.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(super) purpose: Purpose,
    pub(super) wish: Wish,
    /// What was offered, while an answer is awaited.
    pub(crate) offer: Option<Offer>,
    /// Why the last gateway did not take it.
    pub(super) failure: Option<Reason>,
    /// What was asked for since, with other names or gateways.
    pub(super) next: Option<Wish>,
}

/// Who wants a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
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
    pub(super) deadline: Timestamp,
    /// The gateway was told to answer now: it is told once.
    pub(super) is_expedited: bool,
}

/// What is wanted, by one request or several.
#[derive(Debug, Default)]
pub(super) struct Wish {
    pub(super) waiters: Vec<Waiter>,
    /// By name.
    pub(super) names: BTreeMap<String, WantedName>,
    /// Gateways that are not asked: the client found them dead, or they did not take the grant.
    pub(super) avoid: BTreeSet<GatewayId>,
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) request: u64,
    pub(super) names: BTreeSet<String>,
}

/// What the policies allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permit {
    pub(super) policy: PolicyId,
    /// The last instant that the policies and the token allow; none for ever.
    pub(crate) until: Option<Timestamp>,
}

impl Wish {
    pub(super) fn merge(&mut self, other: Self) {
        self.waiters.extend(other.waiters);
        self.names.extend(other.names);
        self.avoid.extend(other.avoid);
    }
}
