//! The times at which plain WireGuard devices are looked at again.

use culvert_ids::ClientId;
use culvert_wire::Timestamp;
use std::collections::BTreeMap;

/// The next look at each plain device: one at most, so it is bounded with the devices.
#[derive(Debug, Default)]
pub(super) struct PlainReviews(pub(super) BTreeMap<ClientId, Timestamp>);
