use crate::Timestamp;
use serde::{Deserialize, Serialize};

/// How far back.
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

/// What was carried, granted and denied over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Activity {
    /// How far back.
    pub span: ActivitySpan,
    /// How long a step is, in seconds.
    pub step_s: u32,
    /// The steps, without a gap; the last one is under way.
    pub steps: Vec<ActivityStep>,
}

/// What happened in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActivityStep {
    /// When it begins.
    pub at: Timestamp,
    /// What gateways carried, in bytes of both directions.
    pub bytes: u64,
    /// Grants that were given.
    pub granted: u64,
    /// Requests that were denied.
    pub denied: u64,
}
