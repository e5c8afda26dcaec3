//! The load of the relay.

use crate::clock;
use culvert_base::{BootTime, whole_millis};
use culvert_wire::messages::RelayLoad;

/// The measurements of the last look.
#[derive(Debug, Default)]
pub(crate) struct Load {
    looked: Option<(BootTime, u64, u64)>,
    /// The load that was reported then.
    pub(crate) last: RelayLoad,
}

impl Load {
    /// The load since the last look, of a relay that forwarded `bytes` since its start.
    pub(crate) fn next(&mut self, ends: (usize, usize), bytes: u64, now: BootTime) -> RelayLoad {
        let used_ms = culvert_host::processor_time_ms().unwrap_or(0);
        let (then, bytes_then, used_then_ms) = self.looked.unwrap_or((now, bytes, used_ms));
        self.looked = Some((now, bytes, used_ms));
        let elapsed_ms = whole_millis(now.saturating_since(then)).max(1);
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let permille = used_ms.saturating_sub(used_then_ms) * 1_000 / (elapsed_ms * processors);
        let count = |ends: usize| u32::try_from(ends).unwrap_or(u32::MAX);
        self.last = RelayLoad {
            gateways: count(ends.0),
            clients: count(ends.1),
            rate_bytes_per_s: bytes.saturating_sub(bytes_then) * 1_000 / elapsed_ms,
            processor_permille: u16::try_from(permille.min(1_000)).unwrap_or(1_000),
        };
        self.last
    }

    /// The load since now, by this machine's clock.
    pub(crate) fn look(&mut self, ends: (usize, usize), bytes: u64) -> RelayLoad {
        self.next(ends, bytes, clock::boot_time())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_since_the_last_look() {
        let mut load = Load::default();
        let at = BootTime::from_millis;
        assert_eq!(load.next((1, 2), 1_000, at(10_000)).rate_bytes_per_s, 0);
        let second = load.next((1, 3), 6_000, at(15_000));
        assert_eq!(second.rate_bytes_per_s, 1_000);
        assert_eq!((second.gateways, second.clients), (1, 3));
        assert_eq!(load.last, second);
    }
}
