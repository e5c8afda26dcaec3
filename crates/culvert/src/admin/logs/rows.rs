//! The columns of a line for each kind of log entry, and the path at which entries are requested.

use super::super::api::{Api, Names};
use super::super::diff;
use super::super::output::instant;
use crate::exit::Failure;
use culvert_base::quoted;
use culvert_ids::{ActorId, ClientId, ResourceId};
use culvert_wire::api::{
    AccessDecision, AccessLogEntry, Actor, ChangeLogEntry, Client, FieldChange, FlowLogEntry,
    Operation, Resource,
};
use culvert_wire::messages::PathKind;
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
        "ENDED", "CLIENT", "RESOURCE", "TO", "SENT", "RECEIVED", "SECONDS", "PATH", "END",
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
            self.path.map_or("-", PathKind::as_str).to_owned(),
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
    let name = name.map_or_else(|| entry.entity_id.clone(), quoted);
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
    let mut changes = Vec::new();
    let fields = of_both(before, after).filter(|field| !STAMP.contains(&field.name));
    for field in fields {
        match (field.name, field.before, field.after) {
            // Settings of a whole account, known by the names of their parts.
            ("settings", Some(Value::Object(before)), Some(Value::Object(after))) => {
                for part in of_both(before, after) {
                    part.differences(part.name, &mut changes);
                }
            }
            _ => field.differences(field.name, &mut changes),
        }
    }
    let shown: Vec<String> = changes.iter().map(diff::field).collect();
    shown.join("; ")
}

/// A field as it was and as it is.
struct Field<'a> {
    name: &'a str,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
}

/// The fields of two objects.
fn of_both<'a>(
    before: &'a Map<String, Value>,
    after: &'a Map<String, Value>,
) -> impl Iterator<Item = Field<'a>> {
    let new = after.keys().filter(|key| !before.contains_key(*key));
    before.keys().chain(new).map(|name| Field {
        name,
        before: before.get(name),
        after: after.get(name),
    })
}

impl Field<'_> {
    /// The values that changed, and not the whole object around them.
    fn differences(&self, path: &str, changes: &mut Vec<FieldChange>) {
        if self.before == self.after {
            return;
        }
        let parts = match (self.before, self.after) {
            _ if diff::is_in_words(path) => None,
            (Some(Value::Object(before)), Some(Value::Object(after))) => {
                Some((before.clone(), after.clone()))
            }
            (Some(Value::Array(before)), Some(Value::Array(after))) => {
                by_name(before).zip(by_name(after))
            }
            _ => None,
        };
        match &parts {
            Some((before, after)) => {
                for part in of_both(before, after) {
                    part.differences(&format!("{path}.{}", part.name), changes);
                }
            }
            None => changes.push(FieldChange {
                field: path.to_owned(),
                before: self.before.cloned(),
                after: self.after.cloned(),
            }),
        }
    }
}

/// A list of things with names, such as sinks, by those names.
fn by_name(list: &[Value]) -> Option<Map<String, Value>> {
    let named = list.iter().map(|item| {
        let name = item.get("name")?.as_str()?;
        Some((name.to_owned(), item.clone()))
    });
    named.collect()
}

const fn decision(decision: AccessDecision) -> &'static str {
    match decision {
        AccessDecision::Granted => "granted",
        AccessDecision::Denied => "denied",
        AccessDecision::Revoked => "revoked",
        AccessDecision::Ended => "ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn changed(before: &Value, after: &Value) -> String {
        changed_fields(before.as_object().unwrap(), after.as_object().unwrap())
    }

    #[test]
    fn of_settings_only_what_changed_is_shown() {
        let settings = |days: u32, sinks: Value| {
            json!({
                "version": days,
                "settings": {
                    "ranges": {"machines_ipv4": "100.64.0.0/11"},
                    "dns": {"search": [], "domains": []},
                    "logs": {"access": {"days": days, "entries": 100}, "sinks": sinks},
                }
            })
        };
        let siem =
            |paused: bool| json!({"name": "siem", "paused": paused, "url": "https://a.example"});
        assert_eq!(
            changed(&settings(30, json!([])), &settings(60, json!([]))),
            "logs.access.days: 30 → 60"
        );
        let archive = json!({"name": "archive"});
        assert_eq!(
            changed(
                &settings(30, json!([siem(false), archive])),
                &settings(30, json!([archive, siem(true)]))
            ),
            "logs.sinks.siem.paused: no → yes"
        );
        assert_eq!(
            changed(
                &settings(30, json!([siem(false), archive])),
                &settings(30, json!([siem(false)]))
            ),
            "logs.sinks.archive: {\"name\":\"archive\"} → (none)"
        );
    }

    #[test]
    fn what_has_words_is_shown_in_words() {
        let dns = |search: Value| json!({"settings": {"dns": {"search": search, "domains": []}}});
        assert_eq!(
            changed(&dns(json!([])), &dns(json!(["corp.example"]))),
            "dns.search: (none) → corp.example"
        );
        assert_eq!(
            changed(
                &json!({"filters": [{"protocol": "tcp", "ports": [80]}], "name": "db"}),
                &json!({"filters": [], "name": "db"})
            ),
            "filters: tcp:80 → none"
        );
    }
}
