//! The events that the log tells of, each at most once a minute for the same resource or gateway.

use culvert_ids::{GatewayId, ResourceId};
use culvert_wire::messages::ReasonCode;

/// Events that are worth a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LogEvent {
    Granted(ResourceId),
    /// Through another gateway than before.
    Moved(ResourceId),
    Denied(ResourceId, ReasonCode),
    Unasked(ResourceId),
    Revoked(ResourceId),
    /// The portal says that it is gone.
    GatewayLost(GatewayId),
    /// The portal says that it ends its grants.
    GatewayDraining(GatewayId),
    /// It does not answer.
    GatewaySilent(GatewayId),
    /// It is reached by another path.
    Path(GatewayId),
    /// It is reached by TLS, since UDP is blocked.
    PathByTls(GatewayId),
}
