//! What the hub keeps of those who are connected.

use super::SessionId;
use super::limits::{DENIAL_REST_MS, MAX_DENIALS_REMEMBERED, REQUEST_BURST, REQUESTS_PER_S};
use super::slots::SlotSet;
use culvert_ids::{ResourceId, TokenId};
use culvert_policy::Country;
use culvert_wire::messages::{GatewayLoad, ReasonCode};
use culvert_wire::{Cipher, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// What conditions ask about a client besides its row; kept while it is away, so that its grants
/// can be looked at again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The token that it last came with; none before it has come to this portal.
    pub token: Option<TokenId>,
    /// Where the portal saw it.
    pub public_address: Option<IpAddr>,
    /// In which country that is.
    pub country: Option<Country>,
    /// Whether it keeps rules about applications; none before it has come to this portal.
    pub keeps_applications: Option<bool>,
}

/// A connected client.
#[derive(Debug)]
pub(super) struct ClientSession {
    pub(super) id: SessionId,
    pub(super) since: Timestamp,
    pub(super) ciphers: Vec<Cipher>,
    /// It is told of the account's rules about names.
    pub(super) follows_dns: bool,
    /// The resources that it was told of.
    pub(super) told: SlotSet,
    /// Numbers of the requests that wait for an answer.
    pub(super) waiting: BTreeSet<u64>,
    pub(super) allowance: Allowance,
    denials: BTreeMap<(ResourceId, ReasonCode), Timestamp>,
}

impl ClientSession {
    pub(super) fn new(
        id: SessionId,
        ciphers: Vec<Cipher>,
        follows_dns: bool,
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            since: now,
            ciphers,
            follows_dns,
            told: SlotSet::default(),
            waiting: BTreeSet::new(),
            allowance: Allowance::full(now),
            denials: BTreeMap::new(),
        }
    }

    /// Whether a denial is worth a line of the log: the same one was not logged lately.
    pub(super) fn is_news(
        &mut self,
        resource: ResourceId,
        code: ReasonCode,
        now: Timestamp,
    ) -> bool {
        let is_recent = |at: &Timestamp| now.unix_ms() < at.unix_ms() + DENIAL_REST_MS;
        let key = (resource, code);
        if self.denials.get(&key).is_some_and(is_recent) {
            return false;
        }
        if self.denials.len() >= MAX_DENIALS_REMEMBERED {
            self.denials.retain(|_, at| is_recent(at));
        }
        if self.denials.len() >= MAX_DENIALS_REMEMBERED {
            self.denials.pop_first();
        }
        self.denials.insert(key, now);
        true
    }
}

/// A connected gateway.
#[derive(Debug)]
pub(super) struct GatewaySession {
    pub(super) id: SessionId,
    pub(super) since: Timestamp,
    pub(super) token: TokenId,
    pub(super) ciphers: Vec<Cipher>,
    pub(super) candidates: Vec<SocketAddr>,
    /// It says that it drains; an administrator may say so besides.
    pub(super) draining: bool,
    /// What it was last told that an administrator wants.
    pub(super) told_draining: bool,
    pub(super) verification: Verification,
    pub(super) load: GatewayLoad,
    /// When it said so.
    pub(super) load_at: Option<Timestamp>,
    /// It can tell of flows, and is told whether it is to.
    pub(super) tells_flows: bool,
    /// It leads names only where their resource allows.
    pub(super) keeps_within: bool,
    /// It answers DNS questions of clients about names of resources.
    pub(super) answers_dns: bool,
    /// Clients that were given to it since it said how busy it is.
    pub(super) given: u32,
}

/// The trust in a connected gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Verification {
    /// It was last told that it waits to be verified.
    pub(super) told_awaited: bool,
    /// It might serve at some time of this session: it may tell of flows that it carried then.
    pub(super) has_served: bool,
}

impl GatewaySession {
    /// How busy it is going to be, in thousandths of its processors: what it said, and what those
    /// that were given to it since will add if they are like the others. Without this, all clients
    /// of five seconds would go to the gateway that was least busy at their beginning.
    pub(super) fn expected_permille(&self) -> u64 {
        let said = u64::from(self.load.processor_permille);
        let per_client = said / u64::from(self.load.clients.max(1));
        said + u64::from(self.given) * per_client.max(1)
    }
}

/// How many requests a client may still make: a bucket that fills at [`REQUESTS_PER_S`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// In thousandths of a request.
    milli: u64,
    at: Timestamp,
}

impl Allowance {
    const FULL: u64 = REQUEST_BURST as u64 * 1_000;

    const fn full(now: Timestamp) -> Self {
        Self {
            milli: Self::FULL,
            at: now,
        }
    }

    /// Takes one; false where there is none.
    pub(super) fn take(&mut self, now: Timestamp) -> bool {
        let passed_ms = now.unix_ms().saturating_sub(self.at.unix_ms());
        let filled = passed_ms.saturating_mul(u64::from(REQUESTS_PER_S));
        self.milli = self.milli.saturating_add(filled).min(Self::FULL);
        self.at = now;
        let is_left = self.milli >= 1_000;
        self.milli -= if is_left { 1_000 } else { 0 };
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_the_burst_and_then_by_the_second() {
        let mut now = Timestamp::from_unix_ms(1_000_000);
        let mut allowance = Allowance::full(now);
        let burst = (0..1000).filter(|_| allowance.take(now)).count();
        assert_eq!(burst, REQUEST_BURST as usize);
        now = Timestamp::from_unix_ms(now.unix_ms() + 1_000);
        let next = (0..1000).filter(|_| allowance.take(now)).count();
        assert_eq!(next, REQUESTS_PER_S as usize);
        // A clock that is set back gives nothing.
        assert!(!allowance.take(Timestamp::from_unix_ms(0)));
    }

    #[test]
    fn a_denial_is_news_once_a_minute_and_few_are_remembered() {
        let now = Timestamp::from_unix_ms(1_000_000);
        let mut session = ClientSession::new(SessionId(1), Vec::new(), true, now);
        let resource = ResourceId::from_bytes([1; 16]);
        assert!(session.is_news(resource, ReasonCode::NoAccess, now));
        assert!(!session.is_news(resource, ReasonCode::NoAccess, now));
        assert!(session.is_news(resource, ReasonCode::NoGateway, now));
        let later = Timestamp::from_unix_ms(now.unix_ms() + DENIAL_REST_MS);
        assert!(session.is_news(resource, ReasonCode::NoAccess, later));
        for number in 0..200 {
            let resource = ResourceId::from_bytes([number; 16]);
            session.is_news(resource, ReasonCode::NoAccess, later);
        }
        assert!(session.denials.len() <= MAX_DENIALS_REMEMBERED);
    }
}
