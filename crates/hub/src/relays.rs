//! The relays: where each one is, to which gateways its ports belong, and what the ends were told of them.

use super::limits::{MAX_RELAY_PORTS, MAX_WITHDRAWALS, RELAY_CLOCK_MARGIN_MS, RELAY_TOKEN_MS};
use super::output::SessionId;
use super::timers::later;
use culvert_ids::{ClientId, GatewayId, RelayId, TokenId};
use culvert_wire::messages::{RelayLoad, RelayPlace, RelayPort};
use culvert_wire::{PresharedKey, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// All relays that are connected or expected back, and what was given out of them.
#[derive(Debug, Default)]
pub(super) struct Relays {
    pub(super) known: BTreeMap<RelayId, KnownRelay>,
    /// The relays of each gateway.
    pub(super) given: BTreeMap<GatewayId, GivenRelays>,
    /// Pairs that may have a token which is still good.
    pub(super) pairs: BTreeSet<(GatewayId, ClientId)>,
    /// The places that clients were told of.
    pub(super) told_places: Vec<RelayPlace>,
    pub(super) withdrawals: Withdrawals,
    /// The last time of issue of a token.
    last_issued: Timestamp,
    rounds: u64,
}

/// A relay that is connected, or was a moment ago.
#[derive(Debug)]
pub(super) struct KnownRelay {
    /// Its session; none while it is expected back.
    pub(super) session: Option<RelaySession>,
    /// The end of the time for which it was last expected back.
    pub(super) expected_until: Timestamp,
    pub(super) place: RelayPlace,
    /// The key of its tokens.
    pub(super) key: PresharedKey,
    pub(super) ports: Ports,
    /// It says that it drains; an administrator may say so besides.
    pub(super) draining: bool,
    pub(super) load: RelayLoad,
    pub(super) issues: Issues,
}

/// The times of issue of a relay's tokens, since it joined: tokens are of another key then, and nothing that was withdrawn before
/// concerns them ([ADR 0063]).
///
/// [ADR 0063]: ../../../docs/adr/0063-withdrawals-follow-the-keys-of-tokens.md
#[derive(Debug)]
pub(super) struct Issues {
    /// The last one.
    last: Timestamp,
    /// The last one that was withdrawn.
    withdrawn: Option<Timestamp>,
}

impl Issues {
    /// Of a relay that joins now. A relay of an earlier version does not ask which key a token is of: tokens of the portal that
    /// led before may have been issued until now, by that one's clock.
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            last: later(now, RELAY_CLOCK_MARGIN_MS),
            withdrawn: None,
        }
    }

    /// The time of issue of a token that is made now: later than all that was withdrawn.
    pub(super) fn issue(&mut self, now: Timestamp) -> Timestamp {
        let first = self.withdrawn.map_or(now, |last| later(last, 1));
        let at = now.max(first);
        self.last = self.last.max(at);
        at
    }

    /// Withdraws tokens. Returns the last time of issue that this concerns.
    pub(super) fn withdraw(&mut self) -> Timestamp {
        self.withdrawn = Some(self.last);
        self.last
    }
}

/// The session of a relay.
#[derive(Clone, Copy, Debug)]
pub(super) struct RelaySession {
    pub(super) id: SessionId,
    pub(super) since: Timestamp,
    /// The token that it came with.
    pub(super) token: TokenId,
    /// The administrator's setting for draining that it was last told.
    pub(super) told_draining: bool,
}

/// The relays that a gateway was given, and how far its clients know of them.
#[derive(Debug, Default)]
pub(super) struct GivenRelays {
    /// Each with the gateway's port there; the best one first.
    pub(super) relays: Vec<(RelayId, u16)>,
    /// The number of the last round of new tokens: a client that has those of this round lacks nothing.
    pub(super) round: u64,
    pub(super) progress: Progress,
    /// The time of the next step.
    pub(super) next: Timestamp,
}

/// The progress of a round of new tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Progress {
    /// Everyone has them. The next round begins at half of their lifetime.
    #[default]
    Done,
    /// Clients up to this one have them; none has where there is none.
    Clients(Option<ClientId>),
}

impl Relays {
    pub(super) fn new(now: Timestamp) -> Self {
        Self {
            // Tokens of the portal that led before may have been issued until now, by its clock.
            last_issued: later(now, RELAY_CLOCK_MARGIN_MS),
            ..Self::default()
        }
    }

    pub(super) fn session(&self, id: RelayId) -> Option<SessionId> {
        let session = self.known.get(&id)?.session?;
        Some(session.id)
    }

    /// Those that are connected.
    pub(super) fn connected(&self) -> impl Iterator<Item = (RelayId, &KnownRelay)> {
        let connected = self.known.iter().filter(|(_, it)| it.session.is_some());
        connected.map(|(id, relay)| (*id, relay))
    }

    /// Sessions that came with the token.
    pub(super) fn with_token(&self, token: TokenId) -> Vec<SessionId> {
        let sessions = self.known.values().filter_map(|relay| relay.session);
        let with = sessions.filter(|session| session.token == token);
        with.map(|session| session.id).collect()
    }

    /// The number of another round of new tokens, which no gateway had before.
    pub(super) const fn next_round(&mut self) -> u64 {
        self.rounds += 1;
        self.rounds
    }

    /// Notes the time of issue of a token.
    pub(super) fn note_issue(&mut self, at: Timestamp) {
        self.last_issued = self.last_issued.max(at);
    }

    /// Notes that tokens of the gateway, or of one of its clients, count no more. Returns the sessions of the relays that are to
    /// know, each with the last time of issue that this concerns there.
    pub(super) fn withdraw(
        &mut self,
        gateway: GatewayId,
        client: Option<ClientId>,
    ) -> Vec<(SessionId, Timestamp)> {
        self.withdrawals.note((gateway, client), self.last_issued);
        let relays = self.known.values_mut();
        let relays = relays.filter(|relay| relay.ports.find(gateway).is_some());
        let told = relays.filter_map(|relay| Some((relay.session?.id, relay.issues.withdraw())));
        told.collect()
    }

    /// Forgets the pairs of a gateway.
    pub(super) fn forget_pairs(&mut self, gateway: GatewayId) {
        let first = (gateway, ClientId::from_bytes([0; culvert_ids::ID_LEN]));
        let last = (
            gateway,
            ClientId::from_bytes([u8::MAX; culvert_ids::ID_LEN]),
        );
        let pairs: Vec<_> = self.pairs.range(first..=last).copied().collect();
        for pair in pairs {
            self.pairs.remove(&pair);
        }
    }
}

/// An end whose tokens count no more: a gateway, or one of its clients.
pub(super) type Withdrawn = (GatewayId, Option<ClientId>);

/// Withdrawals that relays may not have heard of, since they were away.
#[derive(Debug, Default)]
pub(super) struct Withdrawals {
    /// Each with the last time of issue that it concerns.
    until: BTreeMap<Withdrawn, Timestamp>,
}

impl Withdrawals {
    fn note(&mut self, end: Withdrawn, until: Timestamp) {
        self.until.insert(end, until);
        if self.until.len() > MAX_WITHDRAWALS {
            let oldest = self.until.iter().min_by_key(|(_, until)| **until);
            if let Some(oldest) = oldest.map(|(end, _)| *end) {
                self.until.remove(&oldest);
            }
        }
    }

    /// Those whose tokens would still be good at `now`.
    pub(super) fn recent(&mut self, now: Timestamp) -> Vec<Withdrawn> {
        let is_recent = |until: &Timestamp| later(*until, RELAY_TOKEN_MS) > now;
        self.until.retain(|_, until| is_recent(until));
        self.until.keys().copied().collect()
    }
}

/// The gateway ports of a relay.
#[derive(Debug)]
pub(super) struct Ports {
    first: u16,
    count: u16,
    holders: BTreeMap<u16, Holder>,
    of: BTreeMap<GatewayId, u16>,
}

/// The gateway to which a port belongs.
#[derive(Clone, Copy, Debug)]
struct Holder {
    gateway: GatewayId,
    /// The end of the last token for the port: no other gateway gets it before.
    until: Timestamp,
}

impl Ports {
    /// The ports from `first` on, at most [`MAX_RELAY_PORTS`].
    pub(super) fn new(first: u16, count: u16) -> Self {
        let room = u16::MAX - first;
        Self {
            first,
            count: count.min(MAX_RELAY_PORTS).min(room.saturating_add(1)),
            holders: BTreeMap::new(),
            of: BTreeMap::new(),
        }
    }

    /// Takes over who has which port. A port outside the range, and a second one of a gateway, are passed over.
    pub(super) fn adopt(&mut self, ports: impl IntoIterator<Item = RelayPort>, until: Timestamp) {
        for RelayPort { port, gateway } in ports {
            let is_inside = port
                .checked_sub(self.first)
                .is_some_and(|at| at < self.count);
            if is_inside && !self.holders.contains_key(&port) && !self.of.contains_key(&gateway) {
                self.hold(port, Holder { gateway, until });
            }
        }
    }

    /// The ports that belong to somebody.
    pub(super) fn held(&self) -> Vec<RelayPort> {
        let held = self.of.iter().map(|(gateway, port)| RelayPort {
            port: *port,
            gateway: *gateway,
        });
        held.collect()
    }

    pub(super) fn find(&self, gateway: GatewayId) -> Option<u16> {
        self.of.get(&gateway).copied()
    }

    /// The gateway's port, which is its own until `until`. A new one is the first free one from a place that its id
    /// decides: so portals that never met assign alike. None if all ports are taken.
    pub(super) fn assign(
        &mut self,
        gateway: GatewayId,
        now: Timestamp,
        until: Timestamp,
    ) -> Option<u16> {
        if let Some(port) = self.find(gateway) {
            if let Some(holder) = self.holders.get_mut(&port) {
                holder.until = holder.until.max(until);
            }
            return Some(port);
        }
        let count = u64::from(self.count);
        let start = place_of(gateway).checked_rem(count)?;
        let is_free = |port: &u16| {
            let holder = self.holders.get(port);
            holder.is_none_or(|holder| holder.until <= now)
        };
        let ports = (0..count).filter_map(|at| {
            let at = u16::try_from((start + at) % count).ok()?;
            self.first.checked_add(at)
        });
        let port = { ports }.find(is_free)?;
        self.hold(port, Holder { gateway, until });
        Some(port)
    }

    /// The port is nobody's: all tokens for it were withdrawn.
    pub(super) fn release(&mut self, gateway: GatewayId) {
        if let Some(port) = self.of.remove(&gateway) {
            self.holders.remove(&port);
        }
    }

    fn hold(&mut self, port: u16, holder: Holder) {
        if let Some(before) = self.holders.insert(port, holder) {
            self.of.remove(&before.gateway);
        }
        self.of.insert(holder.gateway, port);
    }
}

/// A number that an id decides, alike everywhere (FNV-1a over its bytes).
fn place_of(gateway: GatewayId) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    gateway.as_bytes().iter().fold(OFFSET, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn gateway(number: u8) -> GatewayId {
        GatewayId::from_bytes([number; 16])
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_unix_ms(ms)
    }

    #[test]
    fn each_gateway_has_a_port_of_its_own_and_the_same_at_every_portal() {
        let (mut here, mut there) = (Ports::new(3_479, 64), Ports::new(3_479, 64));
        let mut seen = BTreeSet::new();
        for number in 0..64 {
            let port = here.assign(gateway(number), at(1), at(100)).unwrap();
            assert!((3_479..3_543).contains(&port));
            assert!(seen.insert(port), "{port} is given twice");
            assert_eq!(here.assign(gateway(number), at(1), at(100)), Some(port));
            assert_eq!(there.assign(gateway(number), at(1), at(100)), Some(port));
        }
        assert_eq!(here.assign(gateway(200), at(1), at(100)), None);
        assert_eq!(here.held().len(), 64);
    }

    #[test]
    fn a_port_goes_to_another_gateway_once_no_token_for_it_is_good() {
        let mut ports = Ports::new(10, 1);
        assert_eq!(ports.assign(gateway(1), at(0), at(100)), Some(10));
        assert_eq!(ports.assign(gateway(1), at(50), at(150)), Some(10));
        assert_eq!(ports.assign(gateway(2), at(149), at(300)), None);
        assert_eq!(ports.assign(gateway(2), at(150), at(300)), Some(10));
        assert_eq!(ports.find(gateway(1)), None);
    }

    #[test]
    fn what_a_relay_says_is_taken_over_where_it_can_be_true() {
        let mut ports = Ports::new(u16::MAX - 1, 64);
        let said = |port, number| RelayPort {
            port,
            gateway: gateway(number),
        };
        ports.adopt(
            [
                said(5, 1),
                said(u16::MAX, 2),
                said(u16::MAX, 3),
                said(u16::MAX - 1, 2),
            ],
            at(100),
        );
        assert_eq!(ports.held(), [said(u16::MAX, 2)]);
        assert_eq!(ports.assign(gateway(4), at(0), at(1)), Some(u16::MAX - 1));
        assert_eq!(ports.assign(gateway(5), at(0), at(1)), None);
        assert_eq!(Ports::new(1, 0).assign(gateway(1), at(0), at(1)), None);
    }

    #[test]
    fn a_token_is_issued_later_than_all_that_was_withdrawn() {
        let mut issues = Issues::new(at(1_000));
        assert_eq!(issues.issue(at(10_000)), at(10_000));
        assert_eq!(issues.withdraw(), at(10_000));
        assert_eq!(issues.issue(at(10_000)), at(10_001));
        // A clock that is set back changes nothing while the relay stays connected.
        assert_eq!(issues.issue(at(5)), at(10_001));
        // Its next session has another key.
        assert_eq!(Issues::new(at(5)).issue(at(5)), at(5));
    }

    #[test]
    fn a_withdrawal_is_repeated_while_a_token_of_before_is_good() {
        let mut relays = Relays::new(at(1_000));
        relays.note_issue(at(10_000));
        assert_eq!(relays.withdraw(gateway(1), None), []);
        let before = at(10_000 + RELAY_TOKEN_MS - 1);
        assert_eq!(relays.withdrawals.recent(before), [(gateway(1), None)]);
        let after = at(10_000 + RELAY_TOKEN_MS);
        assert_eq!(relays.withdrawals.recent(after), []);
    }
}
