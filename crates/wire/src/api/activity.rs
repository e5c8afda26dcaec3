use crate::Timestamp;
use serde::{Deserialize, Serialize};

/// The span of time that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ActivitySpan {
    /// The last hour, by the minute.
    #[default]
    Hour,
    /// The last day, by the quarter of an hour.
    Day,
    /// The last week, by two hours.
    Week,
}

/// Bytes carried, grants and denials over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Activity {
    /// The span of time that is shown.
    pub span: ActivitySpan,
    /// The length of a step in seconds.
    pub step_s: u32,
    /// The steps, without a gap; the last one is under way.
    pub steps: Vec<ActivityStep>,
}

/// The totals of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityStep {
    /// The beginning of the step.
    pub at: Timestamp,
    /// Bytes that gateways carried, in both directions.
    pub bytes: u64,
    /// Grants that were given.
    pub granted: u64,
    /// Requests that were denied.
    pub denied: u64,
}
