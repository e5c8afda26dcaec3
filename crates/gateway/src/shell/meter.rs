//! The measurements of the tunnel: the load of the gateway and the traffic of each client.

use super::load::Load;
use super::traffic::{Rates, Traffic};
use super::tunnel::TrafficCounts;
use culvert_base::BootTime;
use culvert_wire::PublicKey;
use culvert_wire::messages::GatewayLoad;

/// The measurements up to the last reading.
#[derive(Debug, Default)]
pub(super) struct Meter {
    load: Load,
    traffic: Traffic,
}

impl Meter {
    /// Takes the rates since the last reading, and returns the load.
    pub(super) fn read(&mut self, counts: &TrafficCounts, now: BootTime) -> GatewayLoad {
        self.traffic.look(counts, now);
        self.load.next(counts, now)
    }

    /// The load at the last reading.
    pub(super) const fn load(&self) -> &GatewayLoad {
        &self.load.last
    }

    /// The rates of a client at the last reading.
    pub(super) fn rates(&self, key: &PublicKey) -> Rates {
        self.traffic.rates(key)
    }
}
