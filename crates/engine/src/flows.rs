//! Records of flows that have ended, for whoever asks in time.

use culvert_datapath::Gates;
use culvert_policy::gate::{FlowRecord, MAX_ENDED};
use std::collections::VecDeque;

/// Records that wait to be asked for: four seconds of what one gate keeps of one second, for a
/// gateway that asks every second. At 200 bytes each, some 3 MB.
const MAX_WAITING: usize = 4 * MAX_ENDED;

/// The result of [`crate::Device::take_flows`].
#[derive(Clone, Debug, Default)]
pub struct TakenFlows {
    /// Flows that have ended, in the order of their ends as far as one gate goes. One without
    /// [`FlowRecord::ended`] still lasts.
    pub records: Vec<FlowRecord>,
    /// Flows that ended since the last time and are not among them: there were too many.
    pub lost: u64,
}

/// Records that nobody has asked for yet.
#[derive(Debug, Default)]
pub(crate) struct WaitingFlows {
    records: VecDeque<FlowRecord>,
    lost: u64,
    /// The number that the gates had lost when they were last looked at.
    lost_by_gates: u64,
}

impl WaitingFlows {
    pub(crate) fn push(&mut self, record: FlowRecord) {
        if self.records.len() < MAX_WAITING {
            self.records.push_back(record);
        } else {
            self.lost += 1;
        }
    }

    /// All that wait, and with them those that last, where they are wanted.
    pub(crate) fn take(&mut self, gates: &Gates, with_lasting: bool) -> TakenFlows {
        let lost_by_gates = gates.records_lost();
        let lost = std::mem::take(&mut self.lost) + lost_by_gates - self.lost_by_gates;
        self.lost_by_gates = lost_by_gates;
        let mut records = Vec::from(std::mem::take(&mut self.records));
        if with_lasting {
            gates.for_each_lasting(|record| records.push(record));
        }
        TakenFlows { records, lost }
    }
}
