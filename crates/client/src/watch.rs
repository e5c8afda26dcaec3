//! Watching a running client: a message for each change of its state (docs/socket.md).

use crate::request::Request;
use crate::status::{NameStatus, ResourceStatus, SCHEMA_VERSION, Status};
use culvert_base::BootTime;
use culvert_client_core::{ChangedResources, Found, Journal};
use culvert_host::{AnsweredCode, AnsweredError, ErrorCode, StatusError, Watch, WatchStream};
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

/// The end of watching.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The program does not know `watch`, such as an older client: poll it.
    #[error("the client is older than `watch`")]
    Unsupported,
    /// The client has ended, or closed the connection.
    #[error("the client has ended")]
    Ended,
    /// The client refuses.
    #[error("the client answers: {}", .0.text)]
    Refused(AnsweredError),
    /// The client writes something else.
    #[error("the client answers: a line that can't be read: {0}")]
    Unreadable(serde_json::Error),
    /// There is no connection, or none any more.
    #[error(transparent)]
    Socket(#[from] StatusError),
}

impl From<AnsweredError> for WatchError {
    /// The end of watching that the program's last line means.
    fn from(error: AnsweredError) -> Self {
        match &error.code {
            // A program that is older than codes knows no watchers either.
            None | Some(AnsweredCode::Known(ErrorCode::NotARequest)) => Self::Unsupported,
            Some(AnsweredCode::Known(ErrorCode::Ending)) => Self::Ended,
            Some(_) => Self::Refused(error),
        }
    }
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
        Err(match serde_json::from_slice::<AnsweredError>(&line) {
            Ok(error) => error.into(),
            Err(error) => WatchError::Unreadable(error),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_does_not_know_watch_is_polled_and_other_errors_end_watching() {
        let ended = |line: &str| {
            let error: AnsweredError = serde_json::from_str(line).unwrap();
            WatchError::from(error)
        };
        for line in [
            r#"{"error":"write a line such as …"}"#,
            r#"{"error":"write a line such as …","code":"not_a_request"}"#,
        ] {
            assert!(matches!(ended(line), WatchError::Unsupported), "{line}");
        }
        let ending = ended(r#"{"error":"it is ending","code":"ending"}"#);
        assert!(matches!(ending, WatchError::Ended));
        for code in [
            "too_many_watchers",
            "schema_version",
            "not_permitted",
            "of_a_later_client",
        ] {
            let refused = ended(&format!(r#"{{"error":"no","code":"{code}"}}"#));
            assert!(matches!(refused, WatchError::Refused(_)), "{code}");
            assert_eq!(refused.to_string(), "the client answers: no");
        }
    }
}
