//! Gateways that are expected back: those with grants from before the portal's start, and those whose portal is gone.
//!
//! Their grants stay in force meanwhile, since they serve their clients without a portal. A request that only such a gateway
//! could serve waits for it for a while.

use super::Hub;
use super::asks::{Ask, Pair, Purpose};
use crate::grants::Stage;
use crate::limits::{GATEWAY_RETURN_MS, REQUEST_WAIT_MS};
use crate::timers::{Timer, later};
use culvert_ids::GatewayId;
use culvert_wire::Timestamp;

impl Hub {
    /// Expects a gateway that is not connected.
    pub(super) fn expect_gateway(&mut self, gateway: GatewayId, now: Timestamp) {
        self.stop_expecting(gateway);
        self.returning.0.insert(gateway, now);
        let end = later(now, GATEWAY_RETURN_MS);
        self.timers.set(end, Timer::Return(gateway));
        self.timers
            .set(later(now, REQUEST_WAIT_MS), Timer::Requests);
    }

    /// The gateway is back, or lost.
    pub(super) fn stop_expecting(&mut self, gateway: GatewayId) {
        if let Some(since) = self.returning.0.remove(&gateway) {
            let end = later(since, GATEWAY_RETURN_MS);
            self.timers.clear(end, Timer::Return(gateway));
        }
    }

    /// The gateway's portal is gone, and its session with it. Its unanswered offers go to others, or to itself
    /// when it is back.
    pub(super) fn interrupt_gateway(&mut self, gateway: GatewayId, now: Timestamp) {
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
        self.expect_gateway(gateway, now);
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
        returning.any(|(id, since)| now < later(*since, REQUEST_WAIT_MS) && may_serve(id))
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
