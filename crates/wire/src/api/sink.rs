use crate::Timestamp;
use crate::model::{Log, Sink};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A further destination of log entries, and the state of its delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SinkView {
    /// The settings of the sink.
    pub sink: Sink,
    /// True if the sink has a token, which is never shown.
    pub has_token: bool,
    /// Entries of each log that it is yet to get.
    pub lag: BTreeMap<Log, u64>,
    /// Entries that it got since the portal that answers began to lead.
    pub delivered: u64,
    /// Entries that it will not get: they were forgotten before it could take them.
    pub missed: u64,
    /// The time of the last successful delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Timestamp>,
    /// The reason why deliveries fail now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The account's version, which counts its changes; the `ETag`.
    pub version: u64,
}

/// All sinks; there are few.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SinkList {
    /// In the order of their making.
    pub items: Vec<SinkView>,
}

/// A new sink.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSink {
    /// The settings of the sink.
    pub sink: Sink,
    /// The bearer token for an endpoint. It is allowed for `https` and for the portal's own machine
    /// only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// A change of a sink. Its destination can't be changed: its token would go somewhere else. Make another.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SinkPatch {
    /// The logs that it is to get. A log that is new to it begins with its next entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<BTreeSet<Log>>,
    /// True to send nothing to the sink for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Another token; an empty one takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// The result of a test of a sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SinkTest {
    /// True if the sink accepted a line.
    pub taken: bool,
    /// The reason of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl fmt::Debug for NewSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("NewSink")
            .field("sink", &self.sink)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for SinkPatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SinkPatch")
            .field("logs", &self.logs)
            .field("paused", &self.paused)
            .finish_non_exhaustive()
    }
}
