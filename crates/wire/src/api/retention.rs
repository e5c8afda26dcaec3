use crate::model::Keep;
use serde::{Deserialize, Serialize};

/// How long the logs are kept, and whether there is a flow log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Retention {
    /// Whether gateways tell of flows. What was told before stays until its time is over.
    pub flow_log: bool,
    /// How much of the access log is kept.
    pub access: Keep,
    /// How much of the flow log is kept.
    pub flows: Keep,
    /// How many days of the change log are kept; 0 keeps it for good.
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
    /// Whether gateways are to tell of flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_log: Option<bool>,
    /// How much of the access log is to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Keep>,
    /// How much of the flow log is to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Keep>,
    /// How many days of the change log are to be kept, 90 to 3650; 0 keeps it for good. Owners alone
    /// may say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_days: Option<u32>,
}
