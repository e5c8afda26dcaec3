//! Gateways that are expected back: those with grants from before the portal's start, those whose portal is gone, and those
//! whose connection broke.
//!
//! Their grants stay in force meanwhile, since they serve their clients without a portal. A request that only such a gateway
//! could serve waits for it for a while.

use super::Hub;
use super::asks::{Ask, Pair, Purpose};
use crate::grants::Stage;
use crate::limits::REQUEST_WAIT_MS;
use crate::returning::Expected;
use crate::timers::Timer;
use culvert_ids::GatewayId;
use culvert_wire::Timestamp;

impl Hub {
    /// Expects a gateway that is not connected.
    pub(super) fn expect_gateway(&mut self, gateway: GatewayId, within_ms: u64, now: Timestamp) {
        self.stop_expecting(gateway);
        let expected = Expected {
            since: now,
            within_ms,
        };
        self.returning.0.insert(gateway, expected);
        self.timers.set(expected.end(), Timer::Return(gateway));
        let end_of_wait = expected.end_of_wait(REQUEST_WAIT_MS);
        self.timers.set(end_of_wait, Timer::Requests);
    }

    /// The gateway is back, or lost.
    pub(super) fn stop_expecting(&mut self, gateway: GatewayId) {
        if let Some(expected) = self.returning.0.remove(&gateway) {
            self.timers.clear(expected.end(), Timer::Return(gateway));
        }
    }

    /// The gateway's session is gone, and the gateway may be well. Its unanswered offers go to others, or to itself when
    /// it is back.
    pub(super) fn interrupt_gateway(&mut self, gateway: GatewayId, within_ms: u64, now: Timestamp) {
        let mut offered = Vec::new();
        for id in self.grants_of_gateway(gateway) {
            let is_offered = self
                .grants
                .get(id)
                .is_some_and(|grant| grant.stage == Stage::Offered);
            if is_offered && let Some(grant) = self.drop_grant(id) {
                offered.push((grant.row.client, grant.row.resource));
            }
        }
        self.expect_gateway(gateway, within_ms, now);
        for pair in offered {
            self.retry_offer(pair, gateway, true, now);
        }
    }

    /// True if the policies allow the request, no gateway that is connected can serve it, and one is expected that may.
    pub(super) fn waits_for_gateway(&self, pair: Pair, ask: &Ask, now: Timestamp) -> bool {
        if ask.purpose != Purpose::Answer {
            return false;
        }
        let site = self.directory.resource(pair.1).map(|row| row.parsed.site);
        let may_serve = |id: &GatewayId| {
            !ask.wish.avoid.contains(id)
                && self.directory.gateway(*id).map(|row| row.site) == site
                && self.directory.may_serve(*id)
                && self.directory.admit_gateway(*id).is_ok()
        };
        let mut returning = self.returning.0.iter();
        returning.any(|(id, it)| now < it.end_of_wait(REQUEST_WAIT_MS) && may_serve(id))
            && self.permit(pair, now).is_ok()
            && self.choose(pair, &ask.wish.avoid).is_err()
    }

    /// Goes on with the requests that wait: those that the gateway may serve, or all.
    pub(super) fn serve_waiting(&mut self, gateway: Option<GatewayId>, now: Timestamp) {
        let site = gateway.and_then(|id| Some(self.directory.gateway(id)?.site));
        let is_served = |pair: &Pair| {
            let row = self.directory.resource(pair.1);
            gateway.is_none() || row.map(|row| row.parsed.site) == site
        };
        let waiting: Vec<Pair> = self.asks.waiting().filter(is_served).collect();
        for pair in waiting {
            if let Some(ask) = self.take_ask(pair) {
                self.advance(pair, ask, now);
            }
        }
    }
}
