//! The change log, the newest entry first.

use super::asked::Asked;
use super::logs::{
    actor_of, from_field, none, ranges, refused, search, search_field, time, until_field,
};
use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Field, Form, Section, Table};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_portal_service::ChangeLogRequest;
use culvert_store::{ChangeFilter, EntityId, EntityKind};
use culvert_wire::api::{ChangeLogEntry, Operation};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const AT: &str = "/log/changes";

/// Fields that say which other row is meant. No other field is taken for one: people choose what stands in it.
const REFERENCES: [&str; 5] = ["actor", "group", "provider", "resource", "site"];

/// The changes that the form asks for.
pub(super) async fn filter(
    console: &Console,
    person: &Person,
    asked: &Asked,
) -> Result<ChangeFilter, Fault> {
    let kind = asked.0.text("entity");
    Ok(ChangeFilter {
        kind: EntityKind::ALL
            .iter()
            .copied()
            .find(|known| known.as_str() == kind),
        id: asked.0.optional("id")?,
        actor: actor_of(console, person, asked).await?,
        from: time(asked, "from")?,
        until: time(asked, "until")?,
        search: search(asked)?,
        after: None,
    })
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let form = Form::new("Which changes", AT, "Show", fields(&asked)).question();
    let filter = match filter(&console, &person, &asked).await {
        Ok(filter) => filter,
        Err(fault) => return refused(person.page("Change log", AT), form, fault),
    };
    let request = ChangeLogRequest {
        filter,
        cursor: asked.cursor(),
        limit: None,
    };
    let found = console.service.change_log(&person.caller, &request).await?;
    let names = names_in(&console, &person, &found.items).await?;
    let rows = found.items.iter().map(|entry| row(entry, &names));
    let mut page = person.page("Change log", AT);
    page.sections.push(Section::Form(form));
    page.sections.push(ranges(AT, &asked));
    page.sections.push(Section::Table(Table {
        title: "Changes".to_owned(),
        columns: vec![
            "No.",
            "When",
            "By",
            "Operation",
            "Kind",
            "Name",
            "Before and after",
        ],
        rows: rows.collect(),
        empty: none(found.next_cursor.is_some()).into(),
        next: asked.next(AT, found.next_cursor.as_deref()),
        ..Table::default()
    }));
    Ok(page.into_response())
}

fn fields(asked: &Asked) -> Vec<Field> {
    let mut kinds = vec![("", "everything")];
    let known = EntityKind::ALL.iter();
    kinds.extend(known.map(|kind| (kind.as_str(), kind.as_str())));
    vec![
        search_field(asked, "A name, an id, or a value before or after."),
        Field::choice("entity", "Kind", &kinds).value(asked.0.text("entity")),
        Field::line("id", "Which, by its id")
            .optional()
            .hint("Such as res_…, which stands in the address of its page.")
            .value(asked.0.text("id")),
        Field::line("actor", "By whom, by the name")
            .optional()
            .value(asked.0.text("actor")),
        from_field(asked),
        until_field(asked),
    ]
}

/// The names of all that the entries speak of.
async fn names_in(
    console: &Console,
    person: &Person,
    entries: &[ChangeLogEntry],
) -> Result<Names, Fault> {
    let mut names = Names::default();
    let mut ids = Vec::new();
    for entry in entries {
        let id = id_of(entry);
        if let (Some(id), Some(name)) = (id, own_name(entry)) {
            names.note(id, name);
        }
        if let (Some(id), Operation::Delete) = (id, entry.operation) {
            names.note_gone(id);
        }
        for state in [&entry.before, &entry.after].into_iter().flatten() {
            references(state, &mut ids);
        }
        ids.extend(entry.actor.map(EntityId::from));
    }
    names.find(console, person, ids).await?;
    Ok(names)
}

fn row(entry: &ChangeLogEntry, names: &Names) -> Vec<Cell> {
    vec![
        Cell::text(entry.seq),
        Cell::time(Some(entry.at)),
        match entry.actor {
            Some(actor) => names.shown(actor),
            None => Cell::text("the portal"),
        },
        Cell::text(match entry.operation {
            Operation::Create => "created",
            Operation::Update => "changed",
            Operation::Delete => "deleted",
        }),
        Cell::text(&entry.entity),
        which(entry, names),
        Cell::code(difference(
            entry.before.as_ref(),
            entry.after.as_ref(),
            names,
        )),
    ]
}

fn id_of(entry: &ChangeLogEntry) -> Option<EntityId> {
    entry.entity_id.parse().ok()
}

/// The name that it had then.
fn own_name(entry: &ChangeLogEntry) -> Option<&str> {
    field(entry, "name")?.as_str()
}

/// A field's new value; of a deleted thing, the last value.
fn field<'e>(entry: &'e ChangeLogEntry, name: &str) -> Option<&'e Value> {
    let state = entry.after.as_ref().or(entry.before.as_ref())?;
    state.get(name)
}

/// The changed thing, by the name that it had then. A thing without a name is shown by the things
/// that it joins.
fn which(entry: &ChangeLogEntry, names: &Names) -> Cell {
    let Some(id) = id_of(entry) else {
        return Cell::code(&entry.entity_id);
    };
    if let Some(name) = own_name(entry) {
        return names.linked(id, name);
    }
    let referred = |name| -> Option<EntityId> { field(entry, name)?.as_str()?.parse().ok() };
    let known = |id| names.get(id).map_or_else(|| id.to_string(), str::to_owned);
    match (referred("actor"), referred("group"), referred("provider")) {
        (Some(actor), Some(group), _) => {
            names.linked(group, format_args!("{} in {}", known(actor), known(group)))
        }
        (Some(actor), None, Some(provider)) => names.linked(
            actor,
            format_args!("{} at {}", known(actor), known(provider)),
        ),
        _ => Cell::code(id),
    }
}

/// The rows that a value refers to, however deep.
fn references(value: &Value, found: &mut Vec<EntityId>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match reference(name, value) {
                    Some(id) => found.push(id),
                    None => references(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

fn reference(name: &str, value: &Value) -> Option<EntityId> {
    let text = value.as_str().filter(|_| REFERENCES.contains(&name))?;
    text.parse().ok()
}

/// The value with names where it refers to other rows.
fn named(name: &str, value: &Value, names: &Names) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter();
            let fields = fields.map(|(name, value)| (name.clone(), named(name, value, names)));
            Value::Object(fields.collect())
        }
        Value::Array(values) => values.iter().map(|value| named("", value, names)).collect(),
        value => {
            let found = reference(name, value).and_then(|id| names.get(id));
            found.map_or_else(|| value.clone(), Value::from)
        }
    }
}

/// The fields that are not as they were; all, of what is new or gone.
fn difference(before: Option<&Value>, after: Option<&Value>, names: &Names) -> String {
    let none = Map::new();
    let fields = |value: Option<&Value>| {
        let object = value.and_then(Value::as_object);
        object.cloned().unwrap_or_else(|| none.clone())
    };
    let (was, is) = (fields(before), fields(after));
    let mut lines = Vec::new();
    let all: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    for name in all {
        if matches!(name.as_str(), "version" | "created" | "updated") {
            continue;
        }
        let named = |value| named(name, value, names);
        match (was.get(name), is.get(name)) {
            (Some(was), Some(is)) if was == is => {}
            (Some(was), Some(is)) => lines.push(format!("{name}: {} → {}", named(was), named(is))),
            (Some(value), None) | (None, Some(value)) => {
                lines.push(format!("{name}: {}", named(value)));
            }
            (None, None) => {}
        }
    }
    lines.join("; ")
}
