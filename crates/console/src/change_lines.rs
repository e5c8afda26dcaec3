//! A change of the change log in words: a line for each field that differs.

use super::difference::{Change, Difference};
use super::names::Names;
use super::view::{Lines, Piece};
use culvert_store::EntityId;
use culvert_wire::api::Operation;
use culvert_wire::words;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Fields that say which other row is meant. No other field is taken for one: people choose the text in it.
const REFERENCES: [&str; 8] = [
    "actor",
    "client",
    "enrolled_with",
    "gateway",
    "group",
    "provider",
    "resource",
    "site",
];

/// The most elements of one list that a page shows.
const MAX_ELEMENTS: usize = 50;

/// The most characters of one line, and of one change: a page has 50 changes and at most 150 kB. Certificates of an
/// identity provider alone may have 32 kB. The exports have all of them.
const MAX_LINE_CHARS: usize = 500;
const MAX_CHANGE_CHARS: usize = 1_500;

/// A setting of an account.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// The name by which people know it.
    pub(super) name: String,
    /// The page on which it is changed.
    pub(super) page: &'static str,
    /// The field of the setting, if it has several.
    field: String,
}

impl Setting {
    /// The setting that a field of an account belongs to.
    pub(super) fn of(path: &[&str]) -> Self {
        const ACCOUNT: &str = "/settings/account";
        const RETENTION: &str = "/settings/retention";
        let (name, page, rest): (&str, &'static str, &[&str]) = match path {
            ["name"] => ("name of the account", ACCOUNT, &[]),
            ["settings", "grant_lifetime_s"] => ("seconds that a grant lasts", ACCOUNT, &[]),
            ["settings", "applications"] => ("programs that may use the tunnel", ACCOUNT, &[]),
            ["settings", "ranges", rest @ ..] => ("networks inside the tunnel", ACCOUNT, rest),
            ["settings", "dns", "search"] => ("DNS search domains", "/dns", &[]),
            ["settings", "dns", "domains"] => ("DNS servers", "/dns", &[]),
            ["settings", "dns", "domains", domain, ..] => {
                return Self {
                    name: format!("DNS servers of {domain}"),
                    page: "/dns",
                    field: String::new(),
                };
            }
            ["settings", "logs", "flow_log"] => ("flow log", RETENTION, &[]),
            ["settings", "logs", "access", rest @ ..] => {
                ("retention of the access log", RETENTION, rest)
            }
            ["settings", "logs", "flows", rest @ ..] => {
                ("retention of the flow log", RETENTION, rest)
            }
            ["settings", "logs", "change_days"] => {
                ("retention of the change log", RETENTION, &["days"])
            }
            ["settings", "logs", "sinks"] => ("log sinks", "/settings/sinks", &[]),
            ["settings", "logs", "sinks", sink, rest @ ..] => {
                return Self {
                    name: format!("log sink {sink}"),
                    page: "/settings/sinks",
                    field: in_words(rest),
                };
            }
            ["settings", "second_factor"] => ("second factor for all", "/people", &[]),
            ["settings", "paths"] => ("paths that are allowed", ACCOUNT, &[]),
            ["settings", "own_devices"] => (
                "WireGuard devices that people add for themselves",
                ACCOUNT,
                &[],
            ),
            ["settings", "ended_access"] => ("what happens when access ends", ACCOUNT, &[]),
            ["settings", "require_verified_gateways"] => {
                ("verified gateways", "/settings/verified-gateways", &[])
            }
            ["settings", rest @ ..] | rest => {
                return Self {
                    name: in_words(rest),
                    page: "/settings",
                    field: String::new(),
                };
            }
        };
        Self {
            name: name.to_owned(),
            page,
            field: in_words(rest),
        }
    }

    /// The name with the field.
    fn title(&self) -> String {
        match self.field.is_empty() {
            true => self.name.clone(),
            false => format!("{}, {}", self.name, self.field),
        }
    }
}

fn in_words(path: &[&str]) -> String {
    path.join(" ").replace('_', " ")
}

/// The title of a field. `settings` says nothing to people.
fn title(is_account: bool, path: &[&str]) -> String {
    match (is_account, path) {
        (true, path) => Setting::of(path).title(),
        (false, ["settings", rest @ ..] | rest) => in_words(rest),
    }
}

/// The rows that the differences refer to.
pub(super) fn references<'d>(
    differences: impl IntoIterator<Item = &'d Difference<'d>>,
) -> Vec<EntityId> {
    let mut found = Vec::new();
    for Difference { path, change } in differences {
        let field = path.last().copied().unwrap_or_default();
        match change {
            Change::Value { before, after } => {
                let values = before.iter().chain(after);
                values.for_each(|value| refer(field, value, &mut found));
            }
            Change::List { removed, added } => {
                let values = removed.iter().chain(added);
                values.for_each(|value| refer(field, value, &mut found));
            }
            Change::Order => {}
        }
    }
    found
}

fn refer(field: &str, value: &Value, found: &mut Vec<EntityId>) {
    match value {
        Value::Object(fields) => fields
            .iter()
            .for_each(|(field, value)| refer(field, value, found)),
        Value::Array(values) => values.iter().for_each(|value| refer(field, value, found)),
        value => found.extend(reference(field, value)),
    }
}

fn reference(field: &str, value: &Value) -> Option<EntityId> {
    let text = value.as_str().filter(|_| REFERENCES.contains(&field))?;
    text.parse().ok()
}

/// The lines of a change.
pub(super) fn lines(
    operation: Operation,
    is_account: bool,
    differences: &[Difference<'_>],
    names: &Names,
) -> Lines {
    let titles: Vec<String> = differences
        .iter()
        .map(|difference| title(is_account, &difference.path))
        .collect();
    let mut lines = Vec::new();
    let mut room_chars = MAX_CHANGE_CHARS;
    for (difference, title) in differences.iter().zip(&titles) {
        let mut line = Line {
            pieces: Vec::new(),
            room_chars: room_chars.min(MAX_LINE_CHARS),
            names,
        };
        let before = line.room_chars;
        let field = difference.path.last().copied().unwrap_or_default();
        line.text(format!("{title}: "));
        line.change(operation, field, &difference.change);
        room_chars -= before - line.room_chars;
        lines.push(line.pieces);
        if room_chars == 0 {
            break;
        }
    }
    let others = differences.len() - lines.len();
    if others > 0 {
        let text = format!("and {others} more, which the export has");
        lines.push(vec![Piece::text(text)]);
    }
    Lines::new(&titles, lines)
}

struct Line<'n> {
    pieces: Vec<Piece>,
    /// Characters that it may still get.
    room_chars: usize,
    names: &'n Names,
}

impl Line<'_> {
    fn text(&mut self, text: impl AsRef<str>) {
        self.piece(Piece::text(text.as_ref()));
    }

    /// Appends a piece, cut where there is no room for all of it.
    fn piece(&mut self, mut piece: Piece) {
        if self.room_chars == 0 {
            return;
        }
        let chars = piece.text.chars().count();
        if chars > self.room_chars {
            piece.text = piece.text.chars().take(self.room_chars).collect();
            piece.text.push('…');
        }
        self.room_chars = self.room_chars.saturating_sub(chars);
        // Texts beside each other are one.
        match (self.pieces.last_mut(), &piece.path) {
            (Some(last), None) if last.path.is_none() => last.text.push_str(&piece.text),
            _ => self.pieces.push(piece),
        }
    }

    fn change(&mut self, operation: Operation, field: &str, change: &Change<'_>) {
        match (operation, change) {
            (Operation::Create | Operation::Delete, Change::Value { before, after }) => {
                self.value(field, after.or(*before));
            }
            (Operation::Update, Change::Value { before, after }) => {
                self.value(field, *before);
                self.text(" → ");
                self.value(field, *after);
            }
            (_, Change::List { removed, added }) => {
                if !added.is_empty() {
                    self.text("added ");
                    self.each(field, added);
                }
                if !removed.is_empty() {
                    self.text(if added.is_empty() {
                        "removed "
                    } else {
                        "; removed "
                    });
                    self.each(field, removed);
                }
            }
            (_, Change::Order) => self.text("another order"),
        }
    }

    fn each(&mut self, field: &str, values: &[&Value]) {
        for (at, value) in values.iter().take(MAX_ELEMENTS).enumerate() {
            if at > 0 {
                self.text(", ");
            }
            self.value(field, Some(value));
        }
        let others = values.len().saturating_sub(MAX_ELEMENTS);
        if others > 0 {
            self.text(format!(" and {others} more"));
        }
    }

    fn value(&mut self, field: &str, value: Option<&Value>) {
        let Some(value) = value else {
            return self.text("none");
        };
        if let Some(text) = special(field, value) {
            return self.text(text);
        }
        match value {
            Value::Null => self.text("none"),
            Value::Array(values) if values.is_empty() => self.text("none"),
            Value::Array(values) => self.each(field, &values.iter().collect::<Vec<_>>()),
            Value::Object(fields) => {
                for (at, (field, value)) in fields.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    self.text(format!("{comma}{} ", field.replace('_', " ")));
                    self.value(field, Some(value));
                }
            }
            Value::String(text) if text.is_empty() => self.text("empty"),
            Value::String(text) => match reference(field, value) {
                Some(id) => self.piece(self.names.piece(id)),
                None => self.text(text),
            },
            Value::Bool(_) | Value::Number(_) => self.text(value.to_string()),
        }
    }
}

/// The text of values that have a written form of their own: the one of the forms and of the command line.
fn special(field: &str, value: &Value) -> Option<String> {
    fn list<T: DeserializeOwned>(value: &Value, words: impl Fn(&[T]) -> String) -> Option<String> {
        let list = match value {
            Value::Array(_) => Vec::<T>::deserialize(value),
            element => T::deserialize(element).map(|element| vec![element]),
        };
        list.ok().map(|list| words(&list))
    }
    match field {
        "filters" | "inbound" => list(value, words::filters),
        "conditions" => list(value, words::conditions),
        "applications" => {
            let rule = culvert_wire::model::Applications::deserialize(value);
            rule.ok().map(|rule| words::applications(&rule))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::difference::differences;
    use super::*;
    use culvert_ids::GroupId;
    use serde_json::{Map, json};

    /// The lines of a change, as a person reads them.
    fn read(operation: Operation, is_account: bool, states: &[Option<Value>; 2]) -> Vec<String> {
        let [before, after] = states;
        let found = differences(before.as_ref(), after.as_ref());
        let lines = lines(operation, is_account, &found, &Names::default());
        let lines = lines.lines.into_iter();
        lines
            .map(|line| line.into_iter().map(|piece| piece.text).collect())
            .collect()
    }

    fn changed(before: Value, after: Value) -> Vec<String> {
        read(Operation::Update, false, &[Some(before), Some(after)])
    }

    #[test]
    fn values_are_told_as_people_write_them() {
        assert_eq!(
            changed(
                json!({"verified": null}),
                json!({"verified": "2026-11-29T07:00:00.000Z"})
            ),
            ["verified: none → 2026-11-29T07:00:00.000Z"]
        );
        assert_eq!(
            changed(
                json!({"applications": "any"}),
                json!({"applications": {"only": ["backup"]}})
            ),
            ["applications: any → only:backup"]
        );
        assert_eq!(
            changed(
                json!({"conditions": []}),
                json!({"conditions": [{"kind": "country", "countries": ["AT", "DE"]}]})
            ),
            ["conditions: added in AT or DE"]
        );
        // A value that nothing of this version reads is told all the same.
        assert_eq!(
            changed(
                json!({"filters": []}),
                json!({"filters": [{"protocol": "new", "is_odd": true}]})
            ),
            ["filters: added is odd true, protocol new"]
        );
        assert_eq!(
            changed(
                json!({"settings": {"scopes": ["a", "b"]}}),
                json!({"settings": {"scopes": ["b", "a"]}})
            ),
            ["scopes: another order"]
        );
        let new = json!({"id": "x", "name": "", "groups": [], "kind": "user"});
        assert_eq!(
            read(Operation::Create, false, &[None, Some(new.clone())]),
            ["groups: none", "kind: user", "name: empty"]
        );
        assert_eq!(
            read(Operation::Delete, false, &[Some(new), None]),
            ["groups: none", "kind: user", "name: empty"]
        );
    }

    #[test]
    fn a_long_list_is_cut_off_with_its_count() {
        let many: Vec<u32> = (0..60).collect();
        let lines = changed(json!({"ports": []}), json!({"ports": many}));
        assert!(lines[0].starts_with("ports: added 0, 1, "), "{lines:?}");
        assert!(lines[0].ends_with(", 49 and 10 more"), "{lines:?}");
    }

    #[test]
    fn a_row_with_a_name_is_a_link_and_a_text_is_none() {
        let group = GroupId::from_bytes([1; 16]);
        let (before, after) = (
            json!({"name": "a", "group": group}),
            json!({"name": group, "group": GroupId::from_bytes([2; 16])}),
        );
        let found = differences(Some(&before), Some(&after));
        let referred = references(&found);
        assert_eq!(referred.len(), 2);
        let mut names = Names::default();
        names.note(group.into(), "staff");
        let lines = lines(Operation::Update, false, &found, &names).lines;
        let staff = Piece {
            text: "staff".to_owned(),
            path: Some(format!("/groups/{group}")),
        };
        assert!(lines[0].contains(&staff), "{lines:?}");
        // The id that somebody chose as a name stays a text.
        assert_eq!(lines[1], [Piece::text(format!("name: a → {group}"))]);
    }

    #[test]
    fn each_setting_of_an_account_has_a_name_and_a_page() {
        let account = culvert_store::AccountSettings::default();
        let mut settings = serde_json::to_value(account).unwrap();
        settings["dns"] = json!({
            "search": ["a.example"], "domains": [{"name": "b.example", "servers": ["10.0.0.1"]}],
        });
        settings["logs"]["change_days"] = json!(90);
        settings["logs"]["sinks"] = json!([{"name": "s", "logs": [], "paused": true}]);
        let account = json!({"name": "n", "settings": settings});
        for found in differences(None, Some(&account)) {
            let setting = Setting::of(&found.path);
            assert_ne!(setting.page, "/settings", "{:?}", found.path);
        }
        let days = ["settings", "logs", "access", "days"];
        assert_eq!(
            Setting::of(&days).title(),
            "retention of the access log, days"
        );
        let unknown = Setting::of(&["settings", "new_one"]);
        assert_eq!((&*unknown.name, unknown.page), ("new one", "/settings"));
    }

    #[test]
    fn a_change_of_any_size_has_lines_of_a_bounded_length() {
        let long = "x".repeat(32 * 1024);
        let told = changed(json!({"ca": "a"}), json!({ "ca": long }));
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("ca: a → xxx") && told[0].ends_with("x…"));
        assert_eq!(told[0].chars().count(), MAX_LINE_CHARS + 1);

        let fields: Map<String, Value> = (0..9)
            .map(|number| (format!("field{number}"), json!(long)))
            .collect();
        let told = changed(json!({}), Value::Object(fields));
        let chars: usize = told.iter().map(|line| line.chars().count()).sum();
        assert!(chars <= MAX_CHANGE_CHARS + 50, "{chars}");
        assert_eq!(told.last().unwrap(), "and 6 more, which the export has");
    }
}
