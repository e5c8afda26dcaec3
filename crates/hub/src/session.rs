//! State of connected clients and gateways.

use super::SessionId;
use super::endpoints::SessionDevices;
use super::limits::{
    DENIAL_REST_MS, MAX_CANDIDATES, MAX_DENIALS_REMEMBERED, MAX_GRANTS_PER_GATEWAY, REQUEST_BURST,
    REQUESTS_PER_S,
};
use super::slots::SlotSet;
use culvert_base::{TokenBucket, TokenRate, UnixTime};
use culvert_ids::{GatewayId, GrantId, RelayId, ResourceId, TokenId};
use culvert_policy::ClientFacts;
use culvert_wire::messages::{
    ClientFeature, GRANTS_PER_PAGE, GatewayFeature, GatewayLoad, NatMapping, PathKind, ReasonCode,
    RelayAccess,
};
use culvert_wire::{Cipher, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Facts about a client that conditions need besides its row. They are kept while it is away, so that its
/// grants can be reviewed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The token that it last came with; none before it has come to this portal.
    pub token: Option<TokenId>,
    /// The facts that conditions look at.
    pub seen: ClientFacts,
    /// True if it enforces rules about applications; none before it has come to this portal.
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
    /// It is told of the rule about access that ended.
    pub(super) follows_ended_access: bool,
    /// It keeps the portal's addresses, and is told of others.
    pub(super) keeps_portals: bool,
    /// The resources that it was told of.
    pub(super) told: SlotSet,
    /// Numbers of the requests that wait for an answer.
    pub(super) waiting: BTreeSet<u64>,
    /// Requests that it may still make.
    pub(super) requests: TokenBucket<UnixTime>,
    denials: BTreeMap<(ResourceId, ReasonCode), Timestamp>,
    pub(super) relaying: ClientRelays,
}

/// The part of a client's session that relays and paths are about.
#[derive(Debug, Default)]
pub(super) struct ClientRelays {
    /// It uses relays, and tells where it is.
    pub(super) uses_relays: bool,
    /// The addresses at which gateways may reach it, at most [`MAX_CANDIDATES`].
    pub(super) candidates: Vec<SocketAddr>,
    /// The round trips that it measured, in microseconds.
    pub(super) reached: BTreeMap<RelayId, u32>,
    /// The NAT in front of it, as it told.
    pub(super) nat: Option<NatMapping>,
    /// The path to each gateway with a grant of the client, as it told.
    pub(super) paths: BTreeMap<GatewayId, ClientPath>,
    /// The last tokens for the relays of each such gateway.
    pub(super) issued: BTreeMap<GatewayId, IssuedRelays>,
}

/// Tokens that a client was given.
#[derive(Debug)]
pub(super) struct IssuedRelays {
    /// The gateway's round of tokens.
    pub(super) round: u64,
    pub(super) relays: Vec<RelayAccess>,
}

/// The path from a client to a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClientPath {
    pub(super) path: PathKind,
    pub(super) relay: Option<RelayId>,
    pub(super) round_trip_us: Option<u32>,
    pub(super) since: Timestamp,
}

impl ClientSession {
    pub(super) fn new(
        id: SessionId,
        ciphers: Vec<Cipher>,
        features: &[ClientFeature],
        now: Timestamp,
    ) -> Self {
        Self {
            id,
            since: now,
            ciphers,
            follows_dns: features.contains(&ClientFeature::Dns),
            follows_ended_access: features.contains(&ClientFeature::EndedAccess),
            keeps_portals: features.contains(&ClientFeature::Portals),
            told: SlotSet::default(),
            waiting: BTreeSet::new(),
            requests: TokenBucket::FULL,
            denials: BTreeMap::new(),
            relaying: ClientRelays {
                uses_relays: features.contains(&ClientFeature::Relays),
                ..ClientRelays::default()
            },
        }
    }

    /// True if a denial is to be logged: the same one was not logged lately.
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
    /// The administrator's setting for draining that it was last told.
    pub(super) told_draining: bool,
    pub(super) verification: Verification,
    pub(super) announced: Announced,
    pub(super) load: Load,
    /// The round trips to relays that it measured, in microseconds.
    pub(super) reached: BTreeMap<RelayId, u32>,
    /// The NAT in front of it, as it told.
    pub(super) nat: Option<NatMapping>,
    /// Grants that it has not said to hold, while it is yet to name more of those that it does.
    pub(super) unconfirmed: Option<BTreeSet<GrantId>>,
    /// Plain WireGuard devices, as far as it was told of them and has told where they are.
    pub(super) devices: SessionDevices,
}

/// Facts that a gateway tells of itself.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) ciphers: Vec<Cipher>,
    candidates: Vec<SocketAddr>,
    /// It says that it drains; an administrator may say so besides.
    pub(super) draining: bool,
    /// It can tell of flows, and is told whether it is to.
    pub(super) tells_flows: bool,
    /// It leads names only where their resource allows.
    pub(super) keeps_within: bool,
    /// It answers DNS questions of clients about names of resources.
    pub(super) answers_dns: bool,
    /// It keeps the portal's addresses, and is told of others.
    pub(super) keeps_portals: bool,
    /// It uses relays, and looks for clients behind NATs.
    pub(super) uses_relays: bool,
    /// It takes ids of grants in pages.
    pub(super) takes_pages: bool,
    /// It answers all DNS questions of plain WireGuard devices.
    pub(super) answers_plain: bool,
    /// It admits plain WireGuard devices without a grant, and tells where they are.
    pub(super) tells_endpoints: bool,
    /// It asks for names of such devices at other sites, and resolves names for others.
    pub(super) knows_site_names: bool,
    /// It answers DNS questions of admitted devices without a grant.
    pub(super) answers_admitted: bool,
}

impl Announced {
    /// The most grants that the gateway may have.
    pub(super) const fn max_grants(&self) -> usize {
        match self.takes_pages {
            true => MAX_GRANTS_PER_GATEWAY,
            false => GRANTS_PER_PAGE,
        }
    }

    /// The facts of a hello.
    pub(super) fn new(
        ciphers: Vec<Cipher>,
        candidates: Vec<SocketAddr>,
        draining: bool,
        features: &[GatewayFeature],
    ) -> Self {
        let mut announced = Self {
            ciphers,
            candidates: Vec::new(),
            draining,
            tells_flows: features.contains(&GatewayFeature::Flows),
            keeps_within: features.contains(&GatewayFeature::Within),
            answers_dns: features.contains(&GatewayFeature::Dns),
            keeps_portals: features.contains(&GatewayFeature::Portals),
            uses_relays: features.contains(&GatewayFeature::Relays),
            takes_pages: features.contains(&GatewayFeature::GrantPages),
            answers_plain: features.contains(&GatewayFeature::PlainDns),
            tells_endpoints: features.contains(&GatewayFeature::DeviceEndpoints),
            knows_site_names: features.contains(&GatewayFeature::SiteNames),
            answers_admitted: features.contains(&GatewayFeature::AdmittedDns),
        };
        announced.replace_candidates(candidates);
        announced
    }

    /// The addresses at which clients may reach it, at most [`MAX_CANDIDATES`].
    pub(super) fn candidates(&self) -> &[SocketAddr] {
        &self.candidates
    }

    /// It has other addresses now. Returns the former ones.
    pub(super) fn replace_candidates(
        &mut self,
        mut candidates: Vec<SocketAddr>,
    ) -> Vec<SocketAddr> {
        candidates.truncate(MAX_CANDIDATES);
        std::mem::replace(&mut self.candidates, candidates)
    }
}

/// The load that a client is expected to be for a gateway that had none at its last report, in thousandths of its
/// processors. Its load until then, such as that of its start, says nothing of clients. A gateway with a few
/// downloads reports 20 ‰ or more: three new clients elsewhere do not outweigh it.
const FIRST_CLIENT_PERMILLE: u64 = 6;

/// The load of a gateway: its last report, and the clients that came to it since.
#[derive(Debug, Default)]
pub(super) struct Load {
    last: GatewayLoad,
    /// The time of the last report that was counted.
    counted_at: Option<Timestamp>,
    /// Clients that were given to it since its last report.
    given: u32,
}

impl Load {
    /// The last report.
    pub(super) const fn last(&self) -> GatewayLoad {
        self.last
    }

    /// It reported its load.
    pub(super) const fn report(&mut self, load: GatewayLoad) {
        self.last = load;
        self.given = 0;
    }

    /// A client was given to it.
    pub(super) const fn give(&mut self) {
        self.given += 1;
    }

    /// The traffic of its last report is counted now. Returns the time of the one that was counted before.
    pub(super) const fn count(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.counted_at.replace(now)
    }

    /// The expected load, in thousandths of its processors. It is the load that the gateway reported, and the
    /// share of clients that were given to it since, if they are like the others. Without this, all clients
    /// of five seconds would go to the gateway that was least busy at their beginning.
    pub(super) fn expected_permille(&self) -> u64 {
        let said = u64::from(self.last.processor_permille);
        let per_client = match u64::from(self.last.clients) {
            0 => FIRST_CLIENT_PERMILLE,
            clients => (said / clients).max(1),
        };
        said + u64::from(self.given) * per_client
    }
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
    /// True if it can tell of flows, and has served.
    pub(super) const fn may_tell_flows(&self) -> bool {
        self.announced.tells_flows && self.verification.has_served
    }
}

/// The requests that a client may make.
pub(super) const REQUEST_RATE: TokenRate = TokenRate::per_second(REQUESTS_PER_S, REQUEST_BURST);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_come_together_to_gateways_without_any_are_spread_whatever_these_did_before() {
        let reported = |processor_permille| {
            let mut load = Load::default();
            load.report(GatewayLoad {
                processor_permille,
                ..GatewayLoad::default()
            });
            load
        };
        // One has just started, which is work too.
        let mut gateways = [reported(15), reported(2)];
        for _ in 0..6 {
            let least = gateways
                .iter_mut()
                .min_by_key(|load| load.expected_permille());
            least.unwrap().give();
        }
        assert!(gateways.iter().all(|load| load.given >= 2), "{gateways:?}");
    }

    #[test]
    fn a_denial_is_news_once_a_minute_and_few_are_remembered() {
        let now = Timestamp::from_unix_ms(1_000_000);
        let mut session = ClientSession::new(SessionId(1), Vec::new(), &[ClientFeature::Dns], now);
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
