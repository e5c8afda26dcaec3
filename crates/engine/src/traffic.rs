//! Bytes by destination, as a client's workers count them.

use crate::device::Device;
use culvert_base::{Traffic, TrafficSlot};

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
