//! Watching the service: the lines that it sends for each change, and the copy of the state that they lead to
//! (docs/socket.md).

use crate::exchange::{AnswerError, ErrorCode, refused};
use crate::status::{
    Dns, Gateway, Heard, Portal, Resource, SCHEMA_VERSION, Service, Status, sorted,
};
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::sync::Arc;

/// The most resources that a copy holds: the service's own bound. A peer that names more is not the service.
pub const MAX_RESOURCES: usize = 20_000;

/// The reason why a line is no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchError {
    /// The service does not know watching, such as an older one: poll it.
    Unsupported,
    /// There are as many watchers as there may be: poll it for now.
    TooMany,
    /// The service ends.
    Ending,
    /// It is no message of the form that is spoken here.
    Answer(AnswerError),
}

/// A message. Its sections are those that the window shows.
#[derive(Deserialize)]
struct Line {
    #[serde(default)]
    schema_version: u32,
    sequence: Option<u64>,
    status: Option<Box<Status>>,
    changes: Option<Box<Changes>>,
    #[serde(default)]
    removed: Vec<String>,
    error: Option<String>,
    code: Option<ErrorCode>,
}

#[derive(Deserialize)]
struct VersionOnly {
    schema_version: u32,
}

/// The sections that changed. A section that is there may be `null`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Changes {
    version: Option<String>,
    name: Option<String>,
    #[serde(deserialize_with = "present")]
    client: Option<Option<String>>,
    portal_url: Option<String>,
    service: Option<Service>,
    portal: Option<Portal>,
    ready: Option<bool>,
    #[serde(deserialize_with = "present")]
    not_ready_because: Option<Option<String>>,
    resources: Vec<Resource>,
    gateways: Option<Vec<Gateway>>,
    dns: Option<Dns>,
    problems: Option<Vec<String>>,
}

fn present<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

/// The copy of the service's state. It outlives connections, so that a watcher resumes where it was.
#[derive(Debug, Default)]
pub struct Mirror {
    sequence: Option<u64>,
    status: Option<Arc<Status>>,
}

impl Mirror {
    /// The number to resume after; none without a state.
    #[must_use]
    pub fn after(&self) -> Option<u64> {
        self.sequence.filter(|_| self.status.is_some())
    }

    /// Applies a line that came at `now_ms`, and returns the state that it leads to. After an error the copy is empty.
    ///
    /// # Errors
    /// If the line is no message.
    pub fn apply(&mut self, line: &[u8], now_ms: u64) -> Result<Arc<Status>, WatchError> {
        let applied = self.applied(line, now_ms);
        if applied.is_err() {
            *self = Self::default();
        }
        applied
    }

    fn applied(&mut self, line: &[u8], now_ms: u64) -> Result<Arc<Status>, WatchError> {
        let line = parse(line)?;
        let mut status = match (line.status, self.status.take()) {
            (Some(mut status), _) => {
                status.heard = Heard::at(now_ms);
                *status
            }
            // The window has the state before too, and shares what does not change.
            (None, Some(before)) => Arc::unwrap_or_clone(before),
            (None, None) => return Err(unreadable("changes came before a state")),
        };
        remove(&mut status.resources, &line.removed);
        if let Some(changes) = line.changes {
            changes.apply(&mut status, now_ms);
        }
        if status.resources.len() > MAX_RESOURCES {
            return Err(unreadable(&format!(
                "the state has more than {MAX_RESOURCES} resources"
            )));
        }
        let status = Arc::new(status);
        self.sequence = line.sequence;
        self.status = Some(Arc::clone(&status));
        Ok(status)
    }
}

impl Changes {
    fn apply(self, status: &mut Status, now_ms: u64) {
        fn set<T>(place: &mut T, value: Option<T>) -> bool {
            value.map(|value| *place = value).is_some()
        }
        let heard = &mut status.heard;
        if set(&mut status.service, self.service) {
            heard.service_ms = now_ms;
        }
        if set(&mut status.portal, self.portal) {
            heard.portal_ms = now_ms;
        }
        if set(&mut status.gateways, self.gateways) {
            heard.gateways_ms = now_ms;
        }
        set(&mut status.version, self.version);
        set(&mut status.name, self.name);
        set(&mut status.client, self.client);
        set(&mut status.portal_url, self.portal_url);
        set(&mut status.ready, self.ready);
        set(&mut status.not_ready_because, self.not_ready_because);
        set(&mut status.dns, self.dns);
        set(&mut status.problems, self.problems);
        merge(&mut status.resources, sorted(self.resources));
    }
}

/// Shares the resources of `now` that are equal to those of `before`: a service that is polled tells all of them anew.
pub fn share(before: &Status, now: &mut Status) {
    let mut known = before.resources.iter().peekable();
    for resource in &mut now.resources {
        while known.next_if(|known| known.id < resource.id).is_some() {}
        if let Some(same) = known.next_if(|known| *known == resource) {
            *resource = Arc::clone(same);
        }
    }
}

fn remove(resources: &mut Vec<Arc<Resource>>, removed: &[String]) {
    if !removed.is_empty() {
        let gone: HashSet<&str> = removed.iter().map(String::as_str).collect();
        resources.retain(|resource| !gone.contains(resource.id.as_str()));
    }
}

/// Puts changed and new resources into the list, which stays in order.
fn merge(resources: &mut Vec<Arc<Resource>>, changed: Vec<Arc<Resource>>) {
    let mut added = Vec::new();
    for resource in changed {
        match resources.binary_search_by(|known| known.id.cmp(&resource.id)) {
            Ok(place) => resources[place] = resource,
            Err(_) => added.push(resource),
        }
    }
    if !added.is_empty() {
        resources.append(&mut added);
        resources.sort_by(|a, b| a.id.cmp(&b.id));
    }
}

fn parse(line: &[u8]) -> Result<Line, WatchError> {
    let parsed: Line = match serde_json::from_slice(line) {
        Ok(parsed) => parsed,
        Err(error) => {
            let version = serde_json::from_slice::<VersionOnly>(line);
            return Err(WatchError::Answer(match version {
                Ok(VersionOnly { schema_version }) if schema_version != SCHEMA_VERSION => {
                    AnswerError::Version(schema_version)
                }
                _ => AnswerError::Unreadable(error.to_string()),
            }));
        }
    };
    if let Some(text) = parsed.error {
        return Err(match parsed.code {
            Some(ErrorCode::NotARequest) => WatchError::Unsupported,
            Some(ErrorCode::TooManyWatchers) => WatchError::TooMany,
            Some(ErrorCode::Ending) => WatchError::Ending,
            code => match (refused(text, code), code) {
                // A service that is older than codes knows no watchers either.
                (AnswerError::Refused(_), None) => WatchError::Unsupported,
                (error, _) => WatchError::Answer(error),
            },
        });
    }
    let inner = parsed.status.as_ref().map(|status| status.schema_version);
    for version in [Some(parsed.schema_version), inner].into_iter().flatten() {
        if version != SCHEMA_VERSION {
            return Err(WatchError::Answer(AnswerError::Version(version)));
        }
    }
    if parsed.status.is_none() && parsed.changes.is_none() {
        return Err(unreadable("a line has neither a state nor changes"));
    }
    Ok(parsed)
}

fn unreadable(text: &str) -> WatchError {
    WatchError::Answer(AnswerError::Unreadable(text.to_owned()))
}

#[cfg(test)]
mod tests;
