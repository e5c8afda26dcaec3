//! Gateways come and go: grants through one that is lost are asked for again.

use super::client::Client;
use super::gateway::PeerReport;
use super::grant::{Grant, Introduction};
use super::log::LogEvent;
use super::network::Network;
use culvert_base::{BootTime, LogLine, Traffic};
use culvert_ids::{GatewayId, ResourceId};
use culvert_wire::PublicKey;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

impl<P> Client<P> {
    /// The data plane's reports of its peers, at this very moment. To be told when
    /// [`Self::poll_report`] says so: paths are judged by it.
    pub fn handle_peers(&mut self, reports: &[PeerReport], now: BootTime) {
        let log = self.outbox.log_queue();
        self.gateways.handle_reports(reports, log, now);
        self.promote_successors(now);
        self.keep_names_in_use(now);
        self.ask_for_same_target(now);
        self.finish(now);
    }

    /// The bytes that the data plane has counted at each place, at this very moment: at [`Self::counted_places`] of them.
    /// To be told before [`Self::handle_peers`].
    pub fn handle_traffic(&mut self, sums: &[Traffic]) {
        if self.routes.counting_mut().report(sums) {
            self.routes.set_stale();
        }
    }

    /// The number of places that the data plane was told to count at.
    #[must_use]
    pub const fn counted_places(&self) -> usize {
        self.routes.counting().used()
    }

    /// The time at which [`Self::handle_peers`] is to be called; never if there is no peer.
    #[must_use]
    pub fn poll_report(&self, now: BootTime) -> Option<BootTime> {
        self.gateways.poll_report(now)
    }

    /// Addresses at which the gateways in use may be: the ways there matter.
    #[must_use]
    pub fn destinations(&self) -> Vec<IpAddr> {
        self.gateways.destinations()
    }

    /// A grant leads through this gateway.
    pub(super) fn meet_gateway(&mut self, introduction: &Introduction, now: BootTime) {
        for stranger in self.gateways.strangers_to(introduction) {
            self.replace_gateway(stranger, now);
        }
        self.routes.set_stale();
        let network = self.network.as_ref();
        let guard = || network.map(Network::path_guard).unwrap_or_default();
        let log = self.outbox.log_queue();
        self.gateways.meet(introduction, guard, log, now);
        let id = introduction.id;
        self.paths.set_relays(id, &introduction.relays, now);
        self.follow_relays(id, now);
        // Access was asked for because somebody wants to send. The relays are ways to the gateway by now.
        self.gateways.reach(id, now);
    }

    /// A gateway is elsewhere.
    pub(super) fn move_gateway(&mut self, id: GatewayId, candidates: &[SocketAddr], now: BootTime) {
        self.accesses.move_gateway(id, candidates);
        let log = self.outbox.log_queue();
        if self.gateways.set_candidates(id, candidates, log, now) {
            self.routes.set_stale();
        }
    }

    /// The portal says that a gateway is gone.
    pub(super) fn handle_gateway_lost(&mut self, id: GatewayId, now: BootTime) {
        if let Some(lost) = self.gateways.get(id) {
            self.outbox.log_event(LogEvent::GatewayLost(id), now, || {
                LogLine::info("a gateway is gone, as the portal says")
                    .with_text("gateway", &lost.introduction.name)
            });
        }
        self.lose_gateway(id, now);
    }

    /// A gateway is gone, and every grant through it. Those in use are asked for again.
    fn lose_gateway(&mut self, id: GatewayId, now: BootTime) {
        self.lose_grants(id, |grant| grant.gateway.id == id, now);
    }

    /// A gateway is about to end every grant through it: those in use are asked for anew, while they still carry.
    pub(super) fn leave_gateway(&mut self, id: GatewayId, now: BootTime) {
        let grants = self.accesses.iter().filter_map(|(resource, access)| {
            let grant = access.grant.as_ref()?;
            Some((resource, grant)).filter(|_| access.successor.is_none())
        });
        let through_it = grants.filter(|(_, grant)| grant.gateway.id == id);
        let in_use: Vec<ResourceId> = through_it
            .filter(|(id, grant)| self.is_wanted(*id, grant, grant.life() / 3, now))
            .map(|(resource, _)| resource)
            .collect();
        if let Some(gateway) = self.gateways.get(id) {
            let event = LogEvent::GatewayDraining(id);
            self.outbox.log_event(event, now, || {
                LogLine::info("a gateway drains: asking for another")
                    .with_text("gateway", &gateway.introduction.name)
                    .with("resources", in_use.len())
            });
        }
        for resource in in_use {
            self.ask(resource, now);
        }
    }

    /// A gateway has another key, or another gateway has its: what the one that was known was
    /// granted is void. There are grants of both for a moment.
    fn replace_gateway(&mut self, id: GatewayId, now: BootTime) {
        if let Some(key) = self.gateways.get(id).map(|known| known.introduction.key) {
            let is_of_known = |grant: &Grant| grant.gateway.id == id && grant.gateway.key == key;
            self.lose_grants(id, is_of_known, now);
        }
    }

    fn lose_grants(&mut self, id: GatewayId, is_lost: impl Fn(&Grant) -> bool, now: BootTime) {
        let lost = self.accesses.grants_lost(is_lost);
        if self.gateways.contains(id) || !lost.is_empty() {
            self.outbox.counters.gateways_lost += 1;
        }
        for grant in lost {
            self.lose_grant(grant, now);
        }
        self.gateways.remove(id);
        self.routes.set_stale();
    }

    /// Makes known whoever a grant leads through, loses whoever does not answer, and forgets the
    /// others. Returns who shall begin a handshake.
    pub(super) fn update_gateways(&mut self, now: BootTime) -> BTreeSet<PublicKey> {
        let mut begin = BTreeSet::new();
        loop {
            let before = self.outbox.counters.gateways_lost;
            let unknown: BTreeMap<GatewayId, Introduction> = self
                .accesses
                .granted()
                .filter(|(_, grant)| !self.gateways.contains(grant.gateway.id))
                .map(|(_, grant)| (grant.gateway.id, grant.gateway.clone()))
                .collect();
            for introduction in unknown.values() {
                self.meet_gateway(introduction, now);
            }
            begin.append(&mut self.drain_races(now));
            // Each round that loses a gateway has fewer grants than the one before.
            if unknown.is_empty() && self.outbox.counters.gateways_lost == before {
                break;
            }
        }
        if self.routes.is_stale() {
            let live = self.accesses.granted();
            let live = live.map(|(_, grant)| grant.gateway.id).collect();
            self.gateways.keep_only(&live);
        }
        begin
    }

    /// Loses gateways that are dead. Returns those that shall begin a handshake.
    fn drain_races(&mut self, now: BootTime) -> BTreeSet<PublicKey> {
        let has_portal = self.portal.is_open();
        let raced = self.gateways.drain_races(has_portal, &mut self.outbox, now);
        if raced.has_changed {
            self.routes.set_stale();
        }
        if raced.is_portal_wanted {
            self.portal.hurry();
        }
        for id in raced.dead {
            self.gateways.avoid(id, now);
            self.lose_gateway(id, now);
        }
        raced.begin
    }
}
