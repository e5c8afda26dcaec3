//! The change log, the newest entry first.

use super::asked::Asked;
use super::change_lines::{Setting, lines, references};
use super::difference::{Difference, differences};
use super::logs::{
    Span, Things, filter_form, from_field, none, ranges, refused, search, search_field, thing,
    until_field,
};
use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Field, Form, Section, Table, listed};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::{Fault, Problems};
use culvert_portal_service::ChangeLogRequest;
use culvert_store::{ChangeFilter, EntityId, EntityKind};
use culvert_wire::api::{ChangeLogEntry, Operation};
use serde_json::Value;

const AT: &str = "/log/changes";

/// The longest names of settings that stand beside each other, in characters.
const MAX_SETTINGS: usize = 40;

/// The changes that the form asks for.
pub(super) async fn filter(
    console: &Console,
    person: &Person,
    asked: &Asked,
) -> Result<ChangeFilter, Fault> {
    let kind = asked.0.text("entity");
    let mut problems = Problems::default();
    let search = problems.take(search(asked))?.flatten();
    let id = problems.take(asked.0.optional("id"))?.flatten();
    let things = Things::of(console, person, asked, &mut problems).await?;
    let span = Span::of(asked, &mut problems)?;
    problems.finish()?;
    Ok(ChangeFilter {
        kind: EntityKind::ALL
            .iter()
            .copied()
            .find(|known| known.as_str() == kind),
        id,
        actor: things.actor,
        from: span.from,
        until: span.until,
        search,
        after: None,
    })
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let form = Form::new("Which changes", AT, "Show", fields(&asked));
    let form = filter_form(&console, &person, &asked, form).await?;
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
    let changes: Vec<_> = found.items.iter().map(Changed::of).collect();
    let names = names_in(&console, &person, &changes).await?;
    let rows = changes.iter().map(|change| row(change, &names));
    let mut page = person.page("Change log", AT);
    page.sections.push(Section::Form(form));
    page.sections.push(ranges(AT, &asked));
    page.sections.push(Section::Table(Table {
        title: "Changes".to_owned(),
        is_alone: true,
        columns: vec!["When", "By", "Change", "Name", "Before and after"],
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
        Field::choice("entity", "Kind", &kinds)
            .optional()
            .value(asked.0.text("entity")),
        Field::line("id", "Id")
            .optional()
            .hint("Such as res_…, which stands in the address of its page.")
            .value(asked.0.text("id")),
        thing(asked, "actor", "By", EntityKind::Actor),
        from_field(asked),
        until_field(asked),
    ]
}

/// An entry, with the fields that differ.
struct Changed<'e> {
    entry: &'e ChangeLogEntry,
    differences: Vec<Difference<'e>>,
}

impl<'e> Changed<'e> {
    fn of(entry: &'e ChangeLogEntry) -> Self {
        Self {
            entry,
            differences: differences(entry.before.as_ref(), entry.after.as_ref()),
        }
    }

    fn is_of_account(&self) -> bool {
        self.entry.entity == EntityKind::Account.as_str()
    }
}

/// The names of all that the entries speak of.
async fn names_in(
    console: &Console,
    person: &Person,
    changes: &[Changed<'_>],
) -> Result<Names, Fault> {
    let mut names = Names::default();
    let mut ids = Vec::new();
    for Changed { entry, differences } in changes {
        let id = id_of(entry);
        if let (Some(id), Some(name)) = (id, own_name(entry)) {
            names.note(id, name);
        }
        if let (Some(id), Operation::Delete) = (id, entry.operation) {
            names.note_gone(id);
        }
        ids.extend(references(differences));
        ids.extend(REFERRED.iter().filter_map(|name| referred(entry, name)));
        ids.extend(entry.actor.map(EntityId::from));
    }
    names.find(console, person, ids).await?;
    Ok(names)
}

fn row(change: &Changed<'_>, names: &Names) -> Vec<Cell> {
    let entry = change.entry;
    let is_of_account = change.is_of_account();
    vec![
        Cell::logged(entry.at),
        match entry.actor {
            Some(actor) => names.shown(actor),
            None => Cell::text("the portal"),
        },
        Cell::text(format_args!(
            "{} {}",
            match entry.operation {
                Operation::Create => "created",
                Operation::Update => "changed",
                Operation::Delete => "deleted",
            },
            entry.entity
        )),
        match settings(change) {
            Some(settings) => settings,
            None => which(entry, names),
        },
        Cell::Lines(lines(
            entry.operation,
            is_of_account,
            &change.differences,
            names,
        )),
    ]
}

/// The settings of the account that an entry changes. An account is the only one: its name would say nothing.
fn settings(change: &Changed<'_>) -> Option<Cell> {
    if !change.is_of_account() || change.entry.operation != Operation::Update {
        return None;
    }
    let settings = change.differences.iter();
    let settings: Vec<_> = settings.map(|found| Setting::of(&found.path)).collect();
    let first = settings.first()?;
    let is_one_page = settings.iter().all(|other| other.page == first.page);
    let page = if is_one_page { first.page } else { "/settings" };
    let names: Vec<_> = settings
        .iter()
        .map(|setting| setting.name.clone())
        .collect();
    Some(Cell::link(page, listed(&names, MAX_SETTINGS)))
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

/// The fields of a thing without a name by which it is known.
const REFERRED: [&str; 3] = ["actor", "group", "provider"];

fn referred(entry: &ChangeLogEntry, name: &str) -> Option<EntityId> {
    field(entry, name)?.as_str()?.parse().ok()
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
    let known = |id: EntityId| names.text(id);
    let [actor, group, provider] = REFERRED.map(|name| referred(entry, name));
    match (actor, group, provider) {
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
