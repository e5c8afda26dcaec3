//! What of an entry stands in a line, and where entries are asked for.

use super::super::api::{Api, Names};
use super::super::diff;
use super::super::output::instant;
use crate::exit::Failure;
use culvert_ids::{ActorId, ClientId, ResourceId};
use culvert_wire::api::{
    AccessDecision, AccessLogEntry, Actor, ChangeLogEntry, Client, FieldChange, FlowLogEntry,
    Operation, Resource,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// An entry of a log.
pub(super) trait Entry: DeserializeOwned + Serialize {
    /// Its log, under the API's prefix.
    const PATH: &'static str;
    const COLUMNS: &'static [&'static str];

    fn seq(&self) -> u64;
    fn row(&self, names: &LogNames) -> Vec<String>;
}

/// The names of what entries are about.
pub(super) struct LogNames {
    actors: Names<ActorId>,
    clients: Names<ClientId>,
    resources: Names<ResourceId>,
}

impl LogNames {
    pub(super) async fn of(api: &mut Api) -> Result<Self, Failure> {
        Ok(Self {
            actors: api.names::<Actor>().await?,
            clients: api.names::<Client>().await?,
            resources: api.names::<Resource>().await?,
        })
    }
}

impl Entry for ChangeLogEntry {
    const PATH: &'static str = "/log/changes";
    const COLUMNS: &'static [&'static str] = &["TIME", "BY", "CHANGE"];

    fn seq(&self) -> u64 {
        self.seq
    }

    fn row(&self, names: &LogNames) -> Vec<String> {
        let by = self.actor.as_ref();
        vec![
            instant(Some(self.at)),
            by.map_or_else(|| "portal".to_owned(), |actor| names.actors.of(actor)),
            change(self),
        ]
    }
}

impl Entry for AccessLogEntry {
    const PATH: &'static str = "/log/access";
    const COLUMNS: &'static [&'static str] = &["TIME", "CLIENT", "RESOURCE", "DECISION", "WHY"];

    fn seq(&self) -> u64 {
        self.seq
    }

    fn row(&self, names: &LogNames) -> Vec<String> {
        vec![
            instant(Some(self.at)),
            names.clients.of(&self.client),
            names.resources.of(&self.resource),
            decision(self.decision).to_owned(),
            self.reason.clone(),
        ]
    }
}

impl Entry for FlowLogEntry {
    const PATH: &'static str = "/log/flows";
    const COLUMNS: &'static [&'static str] = &[
        "ENDED", "CLIENT", "RESOURCE", "TO", "SENT", "RECEIVED", "SECONDS", "END",
    ];

    fn seq(&self) -> u64 {
        self.seq
    }

    fn row(&self, names: &LogNames) -> Vec<String> {
        let port = self
            .port
            .map_or_else(String::new, |port| format!(" {port}"));
        vec![
            instant(Some(self.at)),
            names.clients.of(&self.client),
            names.resources.of(&self.resource),
            format!("{} {}{port}", self.protocol, self.address),
            self.sent_bytes.to_string(),
            self.received_bytes.to_string(),
            (self.lasted_ms() / 1_000).to_string(),
            self.end.as_str().to_owned(),
        ]
    }
}

/// `update policy "NAME": disabled: no → yes`.
fn change(entry: &ChangeLogEntry) -> String {
    let operation = match entry.operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
    };
    let row = entry.after.as_ref().or(entry.before.as_ref());
    let name = row.and_then(|row| row.get("name")).and_then(Value::as_str);
    let name = name.map_or_else(|| entry.entity_id.clone(), |name| format!("{name:?}"));
    let what = format!("{operation} {} {name}", entry.entity);
    let fields = match (&entry.before, &entry.after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => changed_fields(before, after),
        _ => String::new(),
    };
    match fields.is_empty() {
        true => what,
        false => format!("{what}: {fields}"),
    }
}

/// Fields of every row that count and date its changes.
const STAMP: [&str; 3] = ["version", "created", "updated"];

/// The fields that differ.
fn changed_fields(before: &Map<String, Value>, after: &Map<String, Value>) -> String {
    let keys = before
        .keys()
        .chain(after.keys().filter(|key| !before.contains_key(*key)));
    let differ =
        keys.filter(|key| !STAMP.contains(&key.as_str()) && before.get(*key) != after.get(*key));
    let shown = differ.map(|key| {
        let change = FieldChange {
            field: key.clone(),
            before: before.get(key).cloned(),
            after: after.get(key).cloned(),
        };
        diff::field(&change)
    });
    shown.collect::<Vec<_>>().join("; ")
}

const fn decision(decision: AccessDecision) -> &'static str {
    match decision {
        AccessDecision::Granted => "granted",
        AccessDecision::Denied => "denied",
        AccessDecision::Revoked => "revoked",
        AccessDecision::Ended => "ended",
    }
}
