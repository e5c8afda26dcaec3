//! What happens by itself, and when.

use culvert_ids::{GatewayId, GrantId, TokenId};
use culvert_wire::Timestamp;
use std::collections::BTreeSet;

/// Something that a time brings about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// When a gateway has not answered an offer.
    Offer(GrantId),
    /// When a grant's time is over.
    Expiry(GrantId),
    /// When a token expires that machines came with.
    Token(TokenId),
    /// When the grants end that are left of a gateway which is drained at once.
    Drained(GatewayId),
    /// When a gateway with grants from before the portal's start has not come back.
    Return(GatewayId),
}

/// Each at most once a grant, a gateway or an expiry of a token, and bounded with them.
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
