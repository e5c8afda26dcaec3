//! The gateways that are expected back.

use crate::timers::later;
use culvert_ids::GatewayId;
use culvert_wire::Timestamp;
use std::collections::BTreeMap;

/// The gateways that are expected back.
#[derive(Debug, Default)]
pub(super) struct Returning(pub(super) BTreeMap<GatewayId, Expected>);

/// The time within which a gateway is expected back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub(super) since: Timestamp,
    pub(super) within_ms: u64,
}

impl Expected {
    /// From then on the gateway is lost.
    pub(super) fn end(self) -> Timestamp {
        later(self.since, self.within_ms)
    }

    /// Until then requests wait for the gateway, `wait_ms` at most.
    pub(super) fn end_of_wait(self, wait_ms: u64) -> Timestamp {
        later(self.since, wait_ms.min(self.within_ms))
    }
}
