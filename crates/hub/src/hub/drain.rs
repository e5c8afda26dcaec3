//! Draining a gateway at once: its clients are given another gateway of the site, then the grants that are left end.
//!
//! A client that is connected asks anew for the grants that it uses, and another gateway has them before this one gives them
//! up. Grants that nobody uses, and those of clients that do not know the message, end after [`DRAIN_NOW_MS`].

use super::Hub;
use crate::limits::DRAIN_NOW_MS;
use crate::reasons::StatedReason;
use crate::timers::{Timer, later};
use culvert_ids::GatewayId;
use culvert_store::Decision;
use culvert_wire::Timestamp;
use culvert_wire::messages::{ReasonCode, ToClient};

impl Hub {
    /// True if the clients of a gateway keep their access without it: it has none, or another gateway of its site can
    /// take them now.
    #[must_use]
    pub fn is_dispensable(&self, id: GatewayId) -> bool {
        let Some(site) = self.directory.gateway(id).map(|row| row.site) else {
            return true;
        };
        let mut others = self.directory.gateways_of(site);
        let takes_clients = |other: GatewayId| {
            other != id
                && self.sessions.gateways.contains(other)
                && self.directory.may_serve(other)
                && !self.is_draining(other)
        };
        self.grants.count(id).clients == 0 || others.any(takes_clients)
    }

    /// Moves the clients of a gateway that drains to others of its site, and ends its remaining grants soon.
    /// Returns the number of its clients; `None` if it does not drain.
    pub fn handle_drain_now(&mut self, id: GatewayId, now: Timestamp) -> Option<usize> {
        let drains = self.directory.gateway(id).is_some_and(|row| row.draining);
        if !drains {
            return None;
        }
        let clients = self.grants.count(id).clients;
        if clients > 0 {
            self.sessions.gateways.leave(id);
            self.timers
                .set(later(now, DRAIN_NOW_MS), Timer::Drained(id));
            for client in self.clients_through(id) {
                self.send_client(client, ToClient::GatewayDraining { gateway: id });
            }
        }
        self.finish(now);
        Some(clients)
    }

    /// The time for moving is over: the grants that are left end, unless the draining was ended meanwhile.
    pub(super) fn end_drained(&mut self, id: GatewayId, now: Timestamp) {
        if !self.sessions.gateways.is_leaving(id) {
            return;
        }
        self.revoke_grants_through(id);
        let text = "the gateway is being drained";
        let drained = StatedReason::plain(ReasonCode::NoGateway, text);
        self.void_grants_through(id, &drained, Decision::Revoked, now);
        // Not before what it had not answered is offered to others.
        self.sessions.gateways.stay(id);
        self.review_relays(id, true, now);
    }
}
