use crate::Timestamp;
use crate::model::{Log, Sink};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Where entries of the logs go besides, and how that goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SinkView {
    /// What it is.
    pub sink: Sink,
    /// Whether it has a token, which is never shown.
    pub has_token: bool,
    /// Entries of each log that it is yet to get.
    pub lag: BTreeMap<Log, u64>,
    /// Entries that it got since the portal's start.
    pub delivered: u64,
    /// Entries that it will not get: they were forgotten before it could take them.
    pub missed: u64,
    /// When it last took something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_at: Option<Timestamp>,
    /// Why it does not take anything now.
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
    /// What it is to be.
    pub sink: Sink,
    /// What it shows to an endpoint, as a bearer token; `https` or the portal's own machine alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// A change of a sink. Where it is, is not changed: its token would go somewhere else. Make another.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SinkPatch {
    /// Which logs it is to get. One that is new to it begins with its next entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<BTreeSet<Log>>,
    /// Whether it is to get nothing for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Another token; an empty one takes it away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

/// What came of trying a sink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SinkTest {
    /// Whether it took a line.
    pub taken: bool,
    /// Why not.
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
