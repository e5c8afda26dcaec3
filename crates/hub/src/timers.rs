//! Timers of the hub.

use culvert_ids::{ClientId, GatewayId, GrantId, RelayId, TokenId};
use culvert_wire::Timestamp;
use std::collections::BTreeSet;

/// An event at a set time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A gateway has not answered an offer in time.
    Offer(GrantId),
    /// A grant expires.
    Expiry(GrantId),
    /// A token expires that machines came with.
    Token(TokenId),
    /// The remaining grants through a gateway that is drained at once end.
    Drained(GatewayId),
    /// A gateway that was expected has not come back in time.
    Return(GatewayId),
    /// Requests have waited long enough for a gateway that is expected.
    Requests,
    /// Requests have waited for their turn at a gateway for long enough.
    Turns(GatewayId),
    /// The standing grants of a plain WireGuard device are looked at again.
    PlainReview(ClientId),
    /// A gateway has not resolved a name for a device at another site in time.
    NameAsk(u64),
    /// Ends get other tokens for the relays of a gateway.
    Relays(GatewayId),
    /// A relay that was expected has not come back in time.
    RelayReturn(RelayId),
}

/// Each at most once a grant, a gateway, a plain device, a question for a name, a session of a relay or an expiry of a token, and
/// bounded with them.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Timestamp, Timer)>);

impl Timers {
    pub(super) fn set(&mut self, at: Timestamp, timer: Timer) {
        self.0.insert((at, timer));
    }

    pub(super) fn clear(&mut self, at: Timestamp, timer: Timer) {
        self.0.remove(&(at, timer));
    }

    pub(super) fn next(&self) -> Option<Timestamp> {
        self.0.first().map(|(at, _)| *at)
    }

    /// One that is due.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<Timer> {
        let (at, _) = self.0.first()?;
        if *at > now {
            return None;
        }
        self.0.pop_first().map(|(_, timer)| timer)
    }
}

/// `ms` later.
pub(super) const fn later(at: Timestamp, ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(at.unix_ms().saturating_add(ms))
}
