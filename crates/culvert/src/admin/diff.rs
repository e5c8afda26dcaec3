//! Prints the changes that a configuration makes, for people.

use super::dns::in_words;
use super::output::Colours;
use super::words::{applications, conditions, filters};
use crate::visible::visible;
use anstyle::AnsiColor;
use culvert_base::quoted;
use culvert_wire::api::{ApplyChange, FieldChange, Operation};
use culvert_wire::model::{Applications, Condition, DnsDomain, Filter};
use serde::Deserialize;
use serde_json::Value;
use std::fmt::Write;

/// The changes one below the other, each with its fields.
pub(super) fn render(changes: &[ApplyChange], colours: Colours) -> String {
    let mut text = String::new();
    for change in changes {
        let (sign, colour) = match change.operation {
            Operation::Create => ('+', AnsiColor::Green),
            Operation::Update => ('~', AnsiColor::Yellow),
            Operation::Delete => ('-', AnsiColor::Red),
        };
        let line = format!("{sign} {} {}", change.entity, quoted(&change.name));
        let _infallible = writeln!(text, "{}", colours.paint(colour, line));
        // The name is enough for a removed object; an added one has it above already.
        let is_shown = |field: &&FieldChange| match change.operation {
            Operation::Create => field.field != "name",
            Operation::Update => true,
            Operation::Delete => false,
        };
        for change in change.fields.iter().filter(is_shown) {
            let _infallible = writeln!(text, "    {}", field(change));
        }
    }
    text
}

/// `2 to create, 1 to change`.
pub(super) fn summary(changes: &[ApplyChange], words: [&str; 3]) -> String {
    let [created, changed, deleted] = words;
    let count = |operation| {
        let of_that = changes
            .iter()
            .filter(|change| change.operation == operation);
        of_that.count()
    };
    let parts = [
        (count(Operation::Create), created),
        (count(Operation::Update), changed),
        (count(Operation::Delete), deleted),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    parts.join(", ")
}

/// `address: 10.0.0.0/8 → 10.0.0.0/16`.
pub(super) fn field(change: &FieldChange) -> String {
    let value = |value: &Value| self::value(&change.field, value);
    let name = visible(&change.field);
    match (&change.before, &change.after) {
        (Some(before), Some(after)) => format!("{name}: {} → {}", value(before), value(after)),
        (None, Some(after)) => format!("{name}: {}", value(after)),
        (Some(before), None) => format!("{name}: {} → (none)", value(before)),
        (None, None) => name,
    }
}

/// True if a field's value has its own wording, whatever its type.
pub(super) fn is_in_words(field: &str) -> bool {
    WORDED.contains(&field)
}

/// Fields that [`value`] has words for.
const WORDED: [&str; 7] = [
    "filters",
    "inbound",
    "conditions",
    "applications",
    "dns.search",
    "dns.domains",
    "within",
];

fn value(field: &str, value: &Value) -> String {
    let as_words = match field {
        "filters" | "inbound" => Vec::<Filter>::deserialize(value)
            .ok()
            .map(|list| filters(&list)),
        "conditions" => Vec::<Condition>::deserialize(value)
            .ok()
            .map(|list| conditions(&list)),
        "applications" => Applications::deserialize(value)
            .ok()
            .map(|rule| applications(&rule)),
        "dns.search" | "within" => Vec::<String>::deserialize(value)
            .ok()
            .map(|list| list_or_none(&list)),
        "dns.domains" => Vec::<DnsDomain>::deserialize(value).ok().map(|list| {
            let each = list.iter().map(|it| in_words(&it.name, &it.servers));
            list_or_none(&each.collect::<Vec<_>>())
        }),
        _ => None,
    };
    as_words.unwrap_or_else(|| match value {
        Value::String(text) => visible(text),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        other => visible(&other.to_string()),
    })
}

fn list_or_none(list: &[String]) -> String {
    match list.is_empty() {
        true => "(none)".to_owned(),
        false => visible(&list.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn change(
        operation: Operation,
        fields: &[(&str, Option<Value>, Option<Value>)],
    ) -> ApplyChange {
        let fields = fields.iter().map(|(field, before, after)| FieldChange {
            field: (*field).to_owned(),
            before: before.clone(),
            after: after.clone(),
        });
        ApplyChange {
            operation,
            entity: "resource".to_owned(),
            name: "web".to_owned(),
            fields: fields.collect(),
        }
    }

    fn changes() -> [ApplyChange; 3] {
        let tcp = |ports: Value| Some(json!([{"protocol": "tcp", "ports": ports}]));
        [
            change(
                Operation::Create,
                &[
                    ("name", None, Some(json!("web"))),
                    ("address", None, Some(json!("10.0.0.0/8"))),
                    ("filters", None, tcp(json!([80, "8000-8100"]))),
                ],
            ),
            change(
                Operation::Update,
                &[
                    ("filters", tcp(json!([80])), Some(json!([]))),
                    ("disabled", Some(json!(false)), Some(json!(true))),
                    (
                        "conditions",
                        Some(json!([])),
                        Some(json!([{"kind": "verified"}])),
                    ),
                ],
            ),
            change(Operation::Delete, &[("name", Some(json!("web")), None)]),
        ]
    }

    #[test]
    fn a_diff_shows_what_comes_what_changes_and_what_goes() {
        assert_eq!(
            render(&changes(), Colours::new(false)),
            "+ resource \"web\"\n\
             \x20   address: 10.0.0.0/8\n\
             \x20   filters: tcp:80,8000-8100\n\
             ~ resource \"web\"\n\
             \x20   filters: tcp:80 → none\n\
             \x20   disabled: no → yes\n\
             \x20   conditions: always → verified\n\
             - resource \"web\"\n"
        );
        let words = ["to create", "to change", "to delete"];
        assert_eq!(
            summary(&changes(), words),
            "1 to create, 1 to change, 1 to delete"
        );
        assert_eq!(summary(&changes()[1..2], words), "1 to change");
    }

    #[test]
    fn on_a_terminal_what_goes_is_red() {
        let text = render(&changes()[2..], Colours::new(true));
        assert_eq!(text, "\u{1b}[31m- resource \"web\"\u{1b}[0m\n");
    }
}
