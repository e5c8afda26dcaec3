//! Bytes by destination, as a client's workers count them.

use crate::configuration::GateKind;
use crate::device::Device;
use culvert_base::{Traffic, TrafficSlot};
use culvert_datapath::WorkerCounters;
use std::sync::Arc;

impl Device {
    /// Bytes by destination since the start, over all workers, at the first `places` of them. Zero on a device that is no
    /// client's. It does not ask the control thread.
    pub fn traffic(&self, places: usize) -> Vec<Traffic> {
        let slots = (0..places).map_while(TrafficSlot::new);
        let sum = |slot| {
            let mut sum = Traffic::default();
            for counters in &self.worker_counters {
                sum += counters.traffic.read(slot);
            }
            sum
        };
        slots.map(sum).collect()
    }
}

/// The counters of a worker.
pub(crate) fn counters_for(gate: GateKind) -> Arc<WorkerCounters> {
    match gate {
        GateKind::Client => Arc::new(WorkerCounters::with_traffic()),
        GateKind::Open | GateKind::Gateway { .. } => Arc::default(),
    }
}
