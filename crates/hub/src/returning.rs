//! The gateways that are expected back, each by the time since which it is.

use culvert_ids::GatewayId;
use culvert_wire::Timestamp;
use std::collections::BTreeMap;

/// Each gateway by the time since which it is expected.
#[derive(Debug, Default)]
pub(super) struct Returning(pub(super) BTreeMap<GatewayId, Timestamp>);
