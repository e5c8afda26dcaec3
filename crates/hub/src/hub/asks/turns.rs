//! Requests that wait until a gateway has answered others.

use super::ask::{Ask, Permit, Purpose, Turn};
use super::pair::Pair;
use crate::hub::Hub;
use crate::limits::{GRANT_ANSWER_MS, OFFER_TURN_MS, SHORTEN_TURN_MS};
use crate::reasons::StatedReason;
use crate::timers::{Timer, later};
use culvert_ids::GatewayId;
use culvert_wire::Timestamp;
use culvert_wire::messages::ReasonCode;

impl Hub {
    /// True if the gateway has as many offers as it may. A grant that has to end soon does not wait.
    pub(super) fn has_to_wait(
        &self,
        gateway: GatewayId,
        ask: &Ask,
        permit: Permit,
        now: Timestamp,
    ) -> bool {
        !self.has_room(gateway)
            && match ask.purpose {
                Purpose::Answer => true,
                Purpose::Shorten => last_turn(permit, now) > now,
            }
    }

    /// The request waits for its turn at a gateway.
    pub(super) fn wait_for_turn(
        &mut self,
        pair: Pair,
        mut ask: Ask,
        gateway: GatewayId,
        permit: Permit,
        now: Timestamp,
    ) {
        let longest = match ask.purpose {
            Purpose::Answer => later(now, OFFER_TURN_MS),
            Purpose::Shorten => last_turn(permit, now),
        };
        let until = ask.turn.map_or(longest, |turn| turn.until.min(longest));
        ask.turn = Some(Turn {
            gateway: Some(gateway),
            until,
        });
        self.asks.insert(pair, ask);
        self.move_turn_timer(gateway);
    }

    /// Makes the offers for which gateways have room now.
    pub(in crate::hub) fn offer_waiting(&mut self, now: Timestamp) {
        while let Some(gateway) = self.next_with_room() {
            // One that has gone has room: its requests look for another.
            let pair = self.asks.queues.next_turn(gateway);
            let Some((pair, ask)) = pair.and_then(|pair| Some((pair, self.take_ask(pair)?))) else {
                return;
            };
            self.move_turn_timer(gateway);
            self.advance(pair, ask, now);
        }
    }

    /// Requests have waited for this gateway for too long.
    pub(in crate::hub) fn end_turns(&mut self, gateway: GatewayId, now: Timestamp) {
        self.asks.queues.timer_came(gateway);
        let text = "the site's gateway has too many requests at once";
        let refusal = StatedReason::plain(ReasonCode::TryLater, text);
        for pair in self.asks.queues.overdue(gateway, now) {
            if let Some(ask) = self.take_ask(pair) {
                self.fail_ask(pair, ask, &refusal, now);
            }
        }
        self.move_turn_timer(gateway);
    }

    fn next_with_room(&self) -> Option<GatewayId> {
        let mut busy = self.asks.queues.busy();
        busy.find(|gateway| !self.sessions.gateways.contains(*gateway) || self.has_room(*gateway))
    }

    fn has_room(&self, gateway: GatewayId) -> bool {
        let unanswered = self.grants.count(gateway).offers;
        self.asks.queues.has_room(gateway, unanswered)
    }

    fn move_turn_timer(&mut self, gateway: GatewayId) {
        if let Some((set, needed)) = self.asks.queues.move_timer(gateway) {
            if let Some(at) = set {
                self.timers.clear(at, Timer::Turns(gateway));
            }
            if let Some(at) = needed {
                self.timers.set(at, Timer::Turns(gateway));
            }
        }
    }
}

/// The last time at which a grant may be offered in the place of one that lasts too long: the gateway answers before the
/// policies end it.
fn last_turn(permit: Permit, now: Timestamp) -> Timestamp {
    let longest = later(now, SHORTEN_TURN_MS);
    let end = permit.until.map(Timestamp::unix_ms);
    let end = end.map(|end| Timestamp::from_unix_ms(end.saturating_sub(GRANT_ANSWER_MS)));
    end.map_or(longest, |end| end.min(longest))
}
