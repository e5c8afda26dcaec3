//! The gates' table and the flows that they know, on a device whose packets are judged.

use crate::flows::{TakenFlows, WaitingFlows};
use culvert_base::BootTime;
use culvert_datapath::{EndedFlow, Gates, Inside, SWEEP_INTERVAL};
use culvert_policy::gate::{GateTable, InboundRules};
use std::sync::Arc;

/// The grants by which packets are judged, and records of flows.
pub(super) struct Gating {
    /// The grants of each client.
    table: Option<Arc<GateTable>>,
    /// At a client: what may begin at its host.
    inbound: Option<Arc<InboundRules>>,
    inside: Option<Inside>,
    swept: BootTime,
    ended: WaitingFlows,
}

impl Gating {
    pub(super) fn new(now: BootTime) -> Self {
        Self {
            table: None,
            inbound: None,
            inside: None,
            swept: now,
            ended: WaitingFlows::default(),
        }
    }

    /// Takes over the parts of a change that are there.
    pub(super) fn change(&mut self, table: Option<Arc<GateTable>>, inside: Option<Inside>) {
        if table.is_some() {
            self.table = table;
        }
        self.inside = inside.or(self.inside);
    }

    pub(super) fn table(&self) -> Option<Arc<GateTable>> {
        self.table.clone()
    }

    /// Sets what may begin at this host from here on.
    pub(super) fn set_inbound(&mut self, rules: InboundRules) {
        self.inbound = (!rules.is_empty()).then(|| Arc::new(rules));
    }

    pub(super) fn inbound(&self) -> Option<Arc<InboundRules>> {
        self.inbound.clone()
    }

    pub(super) const fn inside(&self) -> Option<Inside> {
        self.inside
    }

    /// Ends flows that no packet ends, and logs and keeps those that have ended.
    pub(super) fn sweep(&mut self, gates: Option<&Gates>, now: BootTime) {
        let (Some(gates), Some(table)) = (gates, &self.table) else {
            return;
        };
        if !now.has_passed(self.swept, SWEEP_INTERVAL) {
            return;
        }
        self.swept = now;
        let ended = &mut self.ended;
        gates.sweep(table, now, |record| {
            tracing::debug!("a flow has ended: {}", EndedFlow(record));
            ended.push(record);
        });
    }

    /// Records of flows since the last time; none without gates.
    pub(super) fn take_flows(&mut self, gates: Option<&Gates>, with_lasting: bool) -> TakenFlows {
        gates.map_or_else(TakenFlows::default, |gates| {
            self.ended.take(gates, with_lasting)
        })
    }
}
