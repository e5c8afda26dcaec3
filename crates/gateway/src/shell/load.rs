//! The load of the gateway.

use super::tunnel::TrafficCounts;
use culvert_base::{BootTime, whole_millis};
use culvert_wire::messages::GatewayLoad;

/// The measurements of the last look.
#[derive(Debug, Default)]
pub(crate) struct Load {
    looked: Option<(BootTime, u64, u64)>,
    /// The load that was reported then.
    pub(crate) last: GatewayLoad,
}

impl Load {
    /// The load since the last look.
    pub(crate) fn next(&mut self, traffic: &TrafficCounts, now: BootTime) -> GatewayLoad {
        let used_ms = culvert_host::processor_time_ms().unwrap_or(0);
        let (then, bytes, used_then_ms) = self.looked.unwrap_or((now, traffic.bytes, used_ms));
        self.looked = Some((now, traffic.bytes, used_ms));
        let elapsed_ms = whole_millis(now.saturating_since(then)).max(1);
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let permille = used_ms.saturating_sub(used_then_ms) * 1000 / (elapsed_ms * processors);
        self.last = GatewayLoad {
            clients: 0,
            flows: u32::try_from(traffic.flows).unwrap_or(u32::MAX),
            // A peer that was removed takes its count along.
            rate_bytes_per_s: traffic.bytes.saturating_sub(bytes) * 1000 / elapsed_ms,
            processor_permille: u16::try_from(permille.min(1000)).unwrap_or(1000),
        };
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_since_the_last_look() {
        let mut load = Load::default();
        let traffic = |bytes| TrafficCounts {
            bytes,
            flows: 3,
            ..TrafficCounts::default()
        };
        let first = load.next(&traffic(1_000), BootTime::from_millis(10_000));
        assert_eq!(first.rate_bytes_per_s, 0);
        let second = load.next(&traffic(6_000), BootTime::from_millis(15_000));
        assert_eq!(second.rate_bytes_per_s, 1_000);
        assert_eq!(second.flows, 3);
        assert_eq!(load.last, second);
    }
}
