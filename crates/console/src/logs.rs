//! The access log, the newest first, and what the logs share.

use super::asked::Asked;
use super::chart::Chart;
use super::explain;
use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Chip, Field, Form, Lines, Page, Piece, Section, Table, listed};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::{ActorId, ClientId, ResourceId};
use culvert_portal_base::{Fault, parse_ago};
use culvert_portal_service::{AccessLogRequest, search_text};
use culvert_store::{AccessFilter, Decision, EntityId, SearchText};
use culvert_wire::Timestamp;
use culvert_wire::api::{AccessDecision, AccessLogEntry};

pub(super) fn from_field(asked: &Asked) -> Field {
    Field::line("from", "From")
        .optional()
        .hint("Such as 4h, yesterday, 2026-11-22 or 2026-11-22 14:00, in UTC.")
        .value(asked.0.text("from"))
}

pub(super) fn until_field(asked: &Asked) -> Field {
    Field::line("until", "Before")
        .optional()
        .value(asked.0.text("until"))
}

/// A text to look for, `hint` being where.
pub(super) fn search_field(asked: &Asked, hint: &'static str) -> Field {
    Field::line("search", "Search")
        .optional()
        .hint(hint)
        .value(asked.0.text("search"))
}

pub(super) fn search(asked: &Asked) -> Result<Option<SearchText>, Fault> {
    search_text(asked.0.filled("search"))
}

/// The text in place of entries. A page of a search may have none, though older ones follow.
pub(super) const fn none(has_next: bool) -> &'static str {
    match has_next {
        true => {
            "There is none among the entries that were looked at. The next page looks at older ones."
        }
        false => "There is none that fits.",
    }
}

pub(super) fn time(asked: &Asked, name: &str) -> Result<Option<Timestamp>, Fault> {
    match asked.0.filled(name) {
        Some(text) => match parse_ago(text) {
            Ok(ago) => Ok(Some(ago.timestamp())),
            Err(reason) => Err(Fault::invalid(name, reason)),
        },
        None => Ok(None),
    }
}

/// The actor that a form names.
pub(super) async fn actor_of(
    console: &Console,
    person: &Person,
    asked: &Asked,
) -> Result<Option<ActorId>, Fault> {
    let Some(name) = asked.0.filled("actor") else {
        return Ok(None);
    };
    let found = console.service.actor_named(&person.caller, name).await;
    Ok(Some(found.map_err(|fault| fault.at_field("actor"))?.id))
}

/// The resource that a form names.
pub(super) async fn resource_of(
    console: &Console,
    person: &Person,
    asked: &Asked,
) -> Result<Option<ResourceId>, Fault> {
    let Some(name) = asked.0.filled("resource") else {
        return Ok(None);
    };
    let found = console.service.resource_named(&person.caller, name).await;
    Ok(Some(found.map_err(|fault| fault.at_field("resource"))?.id))
}

/// The client that a form names.
pub(super) async fn client_of(
    console: &Console,
    person: &Person,
    asked: &Asked,
) -> Result<Option<ClientId>, Fault> {
    let Some(name) = asked.0.filled("client") else {
        return Ok(None);
    };
    let found = console.service.client_named(&person.caller, name).await;
    Ok(Some(found.map_err(|fault| fault.at_field("client"))?.id))
}

/// The entries that the form asks for.
pub(super) async fn access_filter(
    console: &Console,
    person: &Person,
    asked: &Asked,
) -> Result<AccessFilter, Fault> {
    let wanted = asked.0.text("decision");
    Ok(AccessFilter {
        client: client_of(console, person, asked).await?,
        actor: actor_of(console, person, asked).await?,
        resource: resource_of(console, person, asked).await?,
        decision: Decision::ALL
            .into_iter()
            .find(|known| known.as_str() == wanted),
        from: time(asked, "from")?,
        until: time(asked, "until")?,
        search: search(asked)?,
        ..AccessFilter::default()
    })
}

/// The longest reason that stands in a table by itself, in characters: a line of its column.
const LINE: usize = 40;

/// Spans of time that people ask a log for, as the fields `from` and `until` have them.
const RANGES: [(&str, &str, &str); 5] = [
    ("All times", "", ""),
    ("Last hour", "1h", ""),
    ("Today", "today", ""),
    ("Yesterday", "yesterday", "today"),
    ("Last 7 days", "7d", ""),
];

/// Links to spans of time, and to files with what the form asks for.
pub(super) fn ranges(at: &str, asked: &Asked) -> Section {
    let now = (asked.0.text("from"), asked.0.text("until"));
    let chips = RANGES.map(|(name, from, until)| Chip {
        name,
        path: asked.with(at, &[("from", from), ("until", until)]),
        is_current: now == (from, until),
    });
    let link = |format: &str| asked.same(&format!("{at}/export/{format}"));
    Section::Ranges {
        chips: chips.into(),
        exports: vec![
            (link("csv"), "Export as CSV"),
            (link("jsonl"), "Export as JSON lines"),
        ],
    }
}

pub(super) async fn access(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    const AT: &str = "/log/access";
    let service = &console.service;
    let form = Form::new("Filter", AT, "Show", access_fields(&asked)).question();
    let filter = match access_filter(&console, &person, &asked).await {
        Ok(filter) => filter,
        Err(fault) => return refused(person.page("Access log", AT), form, fault),
    };
    let request = AccessLogRequest {
        filter,
        cursor: asked.cursor(),
        limit: None,
    };
    let found = service.access_log(&person.caller, &request).await?;
    let ids = found.items.iter().flat_map(|entry| {
        let actor = entry.actor.map(EntityId::from);
        let gateway = entry.gateway.map(EntityId::from);
        let both = [entry.client.into(), entry.resource.into()];
        both.into_iter().chain(actor).chain(gateway)
    });
    let names = Names::of(&console, &person, ids).await?;
    let rows = found.items.into_iter();
    let rows = rows.map(|entry| access_row(entry, &names));
    let mut page = person.page("Access log", AT);
    let activity = service.activity(&person.caller, asked.span()).await?;
    page.sections.push(Section::Form(form));
    page.sections.push(ranges(AT, &asked));
    page.sections.push(Section::Table(Table {
        title: "Access".to_owned(),
        is_alone: true,
        columns: vec![
            "When", "Decision", "Actor", "Client", "Resource", "Gateway", "Why", "Now",
        ],
        rows: rows.collect(),
        empty: none(found.next_cursor.is_some()).into(),
        next: asked.next(AT, found.next_cursor.as_deref()),
        ..Table::default()
    }));
    page.sections
        .push(Section::Charts(vec![Chart::denials(AT, &activity)]));
    Ok(page.into_response())
}

fn access_fields(asked: &Asked) -> Vec<Field> {
    let mut choices = vec![("", "all decisions")];
    choices.extend(Decision::ALL.map(|one| (one.as_str(), one.as_str())));
    vec![
        search_field(asked, "Part of a name or of why, or an id."),
        Field::choice("decision", "Decision", &choices).value(asked.0.text("decision")),
        Field::line("actor", "Actor")
            .optional()
            .value(asked.0.text("actor")),
        Field::line("client", "Client")
            .optional()
            .value(asked.0.text("client")),
        Field::line("resource", "Resource")
            .optional()
            .value(asked.0.text("resource")),
        from_field(asked),
        until_field(asked),
    ]
}

/// A page that asks for what its form can't say: the form alone, with what was written and what is wrong with it.
pub(super) fn refused(mut page: Page, form: Form, fault: Fault) -> Result<Response, Fault> {
    let (form, status) = form.refused(fault)?;
    page.sections.push(Section::Form(form));
    Ok(page.with_status(status))
}

fn access_row(entry: AccessLogEntry, names: &Names) -> Vec<Cell> {
    let explain = match entry.decision {
        AccessDecision::Denied => explain::link(names, entry.client, entry.resource),
        AccessDecision::Granted | AccessDecision::Revoked | AccessDecision::Ended => Cell::text(""),
    };
    vec![
        Cell::logged(entry.at),
        match entry.decision {
            AccessDecision::Granted => Cell::good("granted"),
            AccessDecision::Denied => Cell::bad("denied"),
            AccessDecision::Revoked => Cell::warn("revoked"),
            AccessDecision::Ended => Cell::plain("ended"),
        },
        names.maybe(entry.actor),
        names.shown(entry.client),
        names.shown(entry.resource),
        names.maybe(entry.gateway),
        why(entry.reason),
        explain,
    ]
}

/// A reason that fits a line as it is; of a longer one the last part, which names the cause, with all of it below.
fn why(reason: String) -> Cell {
    if reason.chars().count() <= LINE {
        return Cell::Text(reason);
    }
    let cause = reason.rsplit("\": ").next().unwrap_or(&reason);
    let cause = cause.lines().next().unwrap_or(cause).to_owned();
    Cell::Lines(Lines {
        summary: Some(listed(&[cause], LINE)),
        lines: vec![vec![Piece::text(reason)]],
    })
}
