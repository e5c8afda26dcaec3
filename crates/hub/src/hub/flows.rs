//! Traffic of gateways: reports of flows for the log, and bytes for the charts.

use super::Hub;
use crate::output::SessionId;
use culvert_ids::GatewayId;
use culvert_policy::Applications;
use culvert_store::{FlowBatch, FlowEntry};
use culvert_wire::Timestamp;
use culvert_wire::messages::{EndedFlow, FlowReport, MAX_FLOWS_PER_REPORT, ToGateway};

/// Flows that one report may say were lost: more is no number of flows.
const MAX_LOST: u64 = u32::MAX as u64;

/// The longest time for which a gateway's rate counts, in milliseconds. It reports its rate every five
/// seconds; if reports are missing, its rate was not known.
const MAX_RATE_MS: u64 = 15_000;

/// The fastest that a gateway may say to be, in bytes a second: eight terabits, so that sums of a
/// year stay below 2^63.
const MAX_RATE_BYTES_PER_S: u64 = 1_000_000_000_000;

impl Hub {
    /// A report is in the flow log: its gateway need not keep it any longer.
    pub fn handle_flows_written(&mut self, session: SessionId, run: u64, batch: u64) {
        // The session may be gone; the next one asks again.
        self.outbox
            .tell_gateway(session, ToGateway::FlowsTaken { run, batch });
    }

    /// Has a gateway know whether it is to tell of flows.
    pub(super) fn tell_flow_log(&mut self, session: SessionId) {
        let on = self.directory.settings().logs.flow_log;
        self.outbox.tell_gateway(session, ToGateway::FlowLog { on });
    }

    /// The same for all that can tell.
    pub(super) fn tell_flow_log_to_all(&mut self) {
        for session in self.sessions.gateways.telling_flows() {
            self.tell_flow_log(session);
        }
    }

    /// Passes a report on to the flow log. It is dropped if the log is off or the gateway never served.
    pub(super) fn take_flows(&mut self, gateway: GatewayId, report: &FlowReport, now: Timestamp) {
        let Some(session) = self.sessions.gateways.session(gateway) else {
            return;
        };
        if !self.directory.settings().logs.flow_log || !self.sessions.gateways.has_served(gateway) {
            return;
        }
        let flows = report.flows.iter().take(MAX_FLOWS_PER_REPORT);
        let batch = FlowBatch {
            gateway,
            run: report.run,
            batch: report.batch,
            lost: report.lost.min(MAX_LOST),
            flows: flows
                .map(|flow| self.flow_entry(gateway, flow, now))
                .collect(),
        };
        self.outbox.flows(session, batch);
    }

    /// Bytes since the gateway last said how fast it is.
    pub(super) fn count_traffic(
        &mut self,
        gateway: GatewayId,
        rate_bytes_per_s: u64,
        now: Timestamp,
    ) {
        let Some(session) = self.sessions.gateways.get_mut(gateway) else {
            return;
        };
        if !session.verification.has_served {
            return;
        }
        let before = session.load.count(now).unwrap_or(session.since);
        let passed_ms = now.unix_ms().saturating_sub(before.unix_ms());
        let rate = rate_bytes_per_s.min(MAX_RATE_BYTES_PER_S);
        let bytes = rate * passed_ms.min(MAX_RATE_MS) / 1_000;
        if bytes > 0 {
            self.outbox.traffic_bytes(bytes);
        }
    }

    fn flow_entry(&self, gateway: GatewayId, flow: &EndedFlow, now: Timestamp) -> FlowEntry {
        let client = self.directory.client(flow.client);
        let path = self.path_of_flow(flow.client, gateway, flow.ended.min(now));
        FlowEntry {
            // A gateway's clock may be ahead; what has been written down is over.
            at: flow.ended.min(now),
            started: flow.started.min(flow.ended).min(now),
            client: flow.client,
            actor: client.map(|client| client.actor),
            resource: flow.resource,
            grant: flow.grant,
            protocol: flow.protocol,
            address: flow.address,
            port: flow.port,
            inbound: flow.inbound,
            application: self.application_of(gateway, flow),
            path: path.map(|(kind, _)| kind),
            relay: path.and_then(|(_, relay)| relay),
            sent_bytes: flow.sent_bytes,
            sent_packets: flow.sent_packets,
            received_bytes: flow.received_bytes,
            received_packets: flow.received_packets,
            end: flow.end,
        }
    }

    /// The application that a flow came from, where the resource's rule leaves one alone. The client's
    /// kernel keeps the rule (docs/adr/0010), so this is what a client that is what it says to be let
    /// out; nothing is decided by it. A client that could not hear of the rule may have kept another
    /// one: it has heard of it where a grant was made for it since, or none can be left from before.
    fn application_of(&self, gateway: GatewayId, flow: &EndedFlow) -> Option<String> {
        let row = self.directory.resource(flow.resource)?;
        let Applications::Only(names) = &row.parsed.applications else {
            return None;
        };
        let only = names.iter().next().filter(|_| names.len() == 1)?;
        let grant = self.grants.get(flow.grant).map(|grant| &grant.row);
        let grant = grant.filter(|row| {
            (row.client, row.resource, row.gateway) == (flow.client, flow.resource, gateway)
        });
        let is_since =
            grant.is_some_and(|grant| grant.issued >= row.updated && flow.started >= grant.issued);
        let lifetime_ms = u64::from(self.directory.settings().grant_lifetime_s) * 1_000;
        let outlived_ms = row.updated.unix_ms().saturating_add(lifetime_ms);
        (is_since || flow.started.unix_ms() >= outlived_ms).then(|| only.to_string())
    }
}
