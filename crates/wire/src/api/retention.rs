use crate::model::Keep;
use serde::{Deserialize, Serialize};

/// The retention of the logs, and the switch of the flow log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Retention {
    /// True if gateways report flows. Entries that were reported before stay until their retention
    /// ends.
    pub flow_log: bool,
    /// The retention of the access log.
    pub access: Keep,
    /// The retention of the flow log.
    pub flows: Keep,
    /// The retention of the change log in days; 0 keeps it for good.
    pub change_days: u32,
    /// Flows that ended and are in no log, since a gateway could not keep them until the portal took
    /// them.
    pub flows_lost: u64,
    /// The account's version, which counts its changes; the `ETag`.
    pub version: u64,
}

/// A change of how long logs are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RetentionPatch {
    /// True to let gateways report flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_log: Option<bool>,
    /// The new retention of the access log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Keep>,
    /// The new retention of the flow log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Keep>,
    /// The new retention of the change log in days, 90 to 3650; 0 keeps it for good. Owners alone
    /// may say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_days: Option<u32>,
}
