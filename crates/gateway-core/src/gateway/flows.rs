//! Flows that have ended, as the gateway hears and tells of them.

use super::Gateway;
use crate::flows::ended_flow;
use crate::network::Network;
use culvert_base::BootTime;
use culvert_policy::gate::FlowRecord;
use culvert_wire::messages::FromGateway;

impl Gateway {
    /// Flows that have ended, and how many more did. One whose record does not say why ends with
    /// the gateway.
    pub fn handle_flows(&mut self, records: Vec<FlowRecord>, lost: u64, now: BootTime) {
        let site_dns = self.network.as_ref().map(Network::site_dns);
        let (clients, session) = (self.data_plane.clients(), &self.portal.session);
        let ended = |record: &FlowRecord| ended_flow(record, clients, session, now);
        self.flows.handle_ended(records, lost, site_dns, ended);
        self.tell_flows(now);
    }

    /// True if every flow that [`Self::handle_flows`] told of is in the portal's log, or nobody
    /// wants to know.
    #[must_use]
    pub fn flows_are_told(&self) -> bool {
        self.flows.is_told()
    }

    pub(super) fn want_flows(&mut self, on: bool, now: BootTime) {
        self.flows.want(on);
        self.tell_flows(now);
    }

    pub(super) fn flows_taken(&mut self, run: u64, batch: u64, now: BootTime) {
        self.flows.taken(run, batch);
        self.tell_flows(now);
    }

    pub(super) fn tell_flows(&mut self, now: BootTime) {
        if let Some(report) = self.flows.next_report(now) {
            self.tell(FromGateway::Flows(report));
        }
    }
}
