//! Watching a running client: a message for each change of its state (docs/socket.md).

use crate::request::Request;
use crate::status::{NameStatus, ResourceStatus, SCHEMA_VERSION, Status};
use culvert_base::BootTime;
use culvert_client_core::{ChangedResources, Found, Journal};
use culvert_host::{StatusError, Watch, WatchRefusal, WatchStream};
use culvert_ids::ResourceId;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A message to a watcher: the whole state, or changes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatchMessage {
    /// [`SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The number of the state that it leads to; none where an older client is polled.
    pub sequence: Option<u64>,
    /// The whole state, if it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<Status>>,
    /// The changes otherwise: sections of the state that replace earlier ones, but `resources` and `names`, which have the
    /// changed resources and all of their names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Map<String, Value>>,
    /// Resources that are gone, and their names with them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<ResourceId>,
}

impl WatchMessage {
    /// The whole state.
    #[must_use]
    pub fn whole(sequence: Option<u64>, status: Box<Status>) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            sequence,
            status: Some(status),
            changes: None,
            removed: Vec::new(),
        }
    }
}

/// A line that is no message.
#[derive(Deserialize)]
struct Refused {
    error: String,
    code: Option<WatchRefusal>,
}

/// The end of watching.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The client is older than `watch`: poll it.
    #[error("the client is older than `watch`")]
    Unsupported,
    /// The client has ended, or closed the connection.
    #[error("the client has ended")]
    Ended,
    /// The client refuses.
    #[error("the client answers: {0}")]
    Refused(String),
    /// There is no connection, or none any more.
    #[error(transparent)]
    Socket(#[from] StatusError),
}

/// Watches a running client.
#[derive(Debug)]
pub struct Watcher(WatchStream);

impl Watcher {
    /// Begins to watch the client that answers at `path`. `after` is the number of the last message of an earlier
    /// watcher, so that only the changes since are told.
    ///
    /// # Errors
    /// [`WatchError::Socket`].
    pub async fn open(path: &Path, after: Option<u64>) -> Result<Self, WatchError> {
        let request = Request::Watch(Watch { after });
        let stream = WatchStream::open(path, "client", SCHEMA_VERSION, request).await?;
        Ok(Self(stream))
    }

    /// The next message. It may be dropped and called again without a loss.
    ///
    /// # Errors
    /// The reason for which there are no more.
    pub async fn next(&mut self) -> Result<WatchMessage, WatchError> {
        let Some(line) = self.0.next().await? else {
            return Err(WatchError::Ended);
        };
        if let Ok(message) = serde_json::from_slice(&line) {
            return Ok(message);
        }
        Err(match serde_json::from_slice::<Refused>(&line) {
            Ok(Refused { code: None, .. }) => WatchError::Unsupported,
            Ok(Refused {
                code: Some(WatchRefusal::Ending),
                ..
            }) => WatchError::Ended,
            Ok(Refused { error, .. }) => WatchError::Refused(error),
            Err(error) => WatchError::Refused(format!("a line that can't be read: {error}")),
        })
    }
}

/// A watcher's copy of the state.
#[derive(Debug, Default)]
pub struct Mirror {
    /// The state without resources and names.
    sections: Map<String, Value>,
    resources: BTreeMap<ResourceId, ResourceStatus>,
    names: BTreeMap<ResourceId, Vec<NameStatus>>,
}

impl Mirror {
    /// Applies a message.
    ///
    /// # Errors
    /// If a part of it can't be read. The copy is worth nothing then: watch from the beginning.
    pub fn apply(&mut self, message: WatchMessage) -> Result<(), serde_json::Error> {
        let mut changes = message.changes.unwrap_or_default();
        if let Some(mut status) = message.status {
            let resources = std::mem::take(&mut status.resources);
            let names = std::mem::take(&mut status.names);
            *self = Self::default();
            if let Value::Object(sections) = serde_json::to_value(*status)? {
                self.sections = sections;
            }
            self.set_resources(resources, names);
        }
        for id in &message.removed {
            self.resources.remove(id);
            self.names.remove(id);
        }
        let resources = taken(&mut changes, "resources")?;
        let names = taken(&mut changes, "names")?;
        self.set_resources(resources, names);
        self.sections.extend(changes);
        Ok(())
    }

    fn set_resources(&mut self, resources: Vec<ResourceStatus>, names: Vec<NameStatus>) {
        for resource in resources {
            self.names.remove(&resource.id);
            self.resources.insert(resource.id, resource);
        }
        for name in names {
            self.names.entry(name.resource).or_default().push(name);
        }
    }

    /// The state.
    ///
    /// # Errors
    /// If there was no whole one yet.
    pub fn status(&self) -> Result<Status, serde_json::Error> {
        let mut sections = self.sections.clone();
        for name in ["resources", "names"] {
            sections.insert(name.to_owned(), Value::Array(Vec::new()));
        }
        let mut status: Status = serde_json::from_value(Value::Object(sections))?;
        status.resources = self.resources.values().cloned().collect();
        status.names = self.names.values().flatten().cloned().collect();
        Ok(status)
    }
}

fn taken<T: for<'de> Deserialize<'de>>(
    changes: &mut Map<String, Value>,
    name: &str,
) -> Result<Vec<T>, serde_json::Error> {
    changes
        .remove(name)
        .map_or(Ok(Vec::new()), serde_json::from_value)
}

/// Tells whether a state is another than the last one, for those who poll.
#[derive(Debug)]
pub struct Differences(Journal);

impl Default for Differences {
    fn default() -> Self {
        Self(Journal::new(0))
    }
}

impl Differences {
    /// True if more has changed than the time. Counts count at most once a second of `now`.
    ///
    /// # Errors
    /// None that is known: a state can be written.
    pub fn is_other(&mut self, status: &Status, now: BootTime) -> Result<bool, serde_json::Error> {
        let before = self.0.sequence();
        if let Value::Object(sections) = serde_json::to_value(status)? {
            let found = Found {
                resources: ChangedResources::Some(BTreeSet::new()),
                accesses: BTreeMap::new(),
                traffic: BTreeMap::new(),
                sections: &sections,
            };
            self.0.note(found, now);
        }
        Ok(self.0.sequence() != before)
    }
}
