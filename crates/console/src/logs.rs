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
use culvert_ids::{ActorId, ClientId, GatewayId, ResourceId};
use culvert_portal_base::{Ago, Fault, Problems, parse_ago_at};
use culvert_portal_service::{AccessLogRequest, search_text};
use culvert_store::{self as store, AccessFilter, Decision, EntityId, EntityKind, SearchText};
use culvert_wire::Timestamp;
use culvert_wire::api::{AccessDecision, AccessLogEntry};
use culvert_wire::words;

pub(super) fn from_field(asked: &Asked) -> Field {
    Field::line("from", "From")
        .optional()
        .hint("Such as 4h, yesterday, 2026-11-22 or 2026-11-22 14:00.")
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

/// The times between which entries are asked for. Days begin at midnight in the zone that the address names.
pub(super) struct Span {
    pub(super) from: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
}

impl Span {
    pub(super) fn of(asked: &Asked, problems: &mut Problems) -> Result<Self, Fault> {
        let zone =
            words::parse_time_zone(zone(asked)).map_err(|reason| Fault::invalid(ZONE, reason));
        let Some(zone) = problems.take(zone)? else {
            return Ok(Self {
                from: None,
                until: None,
            });
        };
        let mut time = |name: &str| -> Result<Option<Timestamp>, Fault> {
            let Some(text) = asked.0.filled(name) else {
                return Ok(None);
            };
            let ago = parse_ago_at(text, &zone).map_err(|reason| Fault::invalid(name, reason));
            Ok(problems.take(ago)?.map(Ago::timestamp))
        };
        Ok(Self {
            from: time("from")?,
            until: time("until")?,
        })
    }
}

/// The field of an address with the time zone of its days.
const ZONE: &str = "zone";

/// The zone that is asked for: the script of the page writes the browser's into its links and forms.
fn zone(asked: &Asked) -> &str {
    asked.0.filled(ZONE).unwrap_or("UTC")
}

/// The form of a log, with its zone and the things to choose from.
pub(super) async fn filter_form(
    console: &Console,
    person: &Person,
    asked: &Asked,
    mut form: Form,
) -> Result<Form, Fault> {
    form.hide(ZONE, asked.0.text(ZONE).to_owned());
    console.with_choices(person, form.question()).await
}

/// A field with a thing that entries are about.
pub(super) fn thing(
    asked: &Asked,
    name: &'static str,
    label: &'static str,
    kind: EntityKind,
) -> Field {
    Field::thing(name, label, kind)
        .optional()
        .value(asked.0.text(name))
}

/// The things of a log whose entries are asked for.
#[derive(Default)]
pub(super) struct Things {
    pub(super) actor: Option<ActorId>,
    pub(super) client: Option<ClientId>,
    pub(super) resource: Option<ResourceId>,
    pub(super) gateway: Option<GatewayId>,
}

impl Things {
    pub(super) async fn of(
        console: &Console,
        person: &Person,
        asked: &Asked,
        problems: &mut Problems,
    ) -> Result<Self, Fault> {
        let actor = chosen::<store::Actor>(console, person, asked, "actor");
        let actor = problems.take(actor.await)?.flatten();
        let client = chosen::<store::Client>(console, person, asked, "client");
        let client = problems.take(client.await)?.flatten();
        let resource = chosen::<store::Resource>(console, person, asked, "resource");
        let resource = problems.take(resource.await)?.flatten();
        let gateway = chosen::<store::Gateway>(console, person, asked, "gateway");
        let gateway = problems.take(gateway.await)?.flatten();
        Ok(Self {
            actor: actor.map(|actor| actor.id),
            client: client.map(|client| client.id),
            resource: resource.map(|resource| resource.id),
            gateway: gateway.map(|gateway| gateway.id),
        })
    }
}

/// The thing that a field means; a part of its name is enough.
async fn chosen<T: store::Kind>(
    console: &Console,
    person: &Person,
    asked: &Asked,
    field: &str,
) -> Result<Option<T>, Fault> {
    let Some(text) = asked.0.filled(field) else {
        return Ok(None);
    };
    let found = console.service.chosen::<T>(&person.caller, text).await;
    found.map(Some).map_err(|fault| fault.at_field(field))
}

/// The entries that the form asks for.
pub(super) async fn access_filter(
    console: &Console,
    person: &Person,
    asked: &Asked,
) -> Result<AccessFilter, Fault> {
    let wanted = asked.0.text("decision");
    let mut problems = Problems::default();
    let search = problems.take(search(asked))?.flatten();
    let things = Things::of(console, person, asked, &mut problems).await?;
    let span = Span::of(asked, &mut problems)?;
    problems.finish()?;
    Ok(AccessFilter {
        client: things.client,
        actor: things.actor,
        resource: things.resource,
        gateway: things.gateway,
        decision: Decision::ALL
            .into_iter()
            .find(|known| known.as_str() == wanted),
        from: span.from,
        until: span.until,
        search,
        after: None,
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
        zone: zone(asked).to_owned(),
        has_own_zone: asked.0.filled(ZONE).is_some(),
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
    let form = Form::new("Filter", AT, "Show", access_fields(&asked));
    let form = filter_form(&console, &person, &asked, form).await?;
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
        Field::choice("decision", "Decision", &choices)
            .optional()
            .value(asked.0.text("decision")),
        thing(asked, "actor", "Actor", EntityKind::Actor),
        thing(asked, "client", "Client", EntityKind::Client),
        thing(asked, "resource", "Resource", EntityKind::Resource),
        thing(asked, "gateway", "Gateway", EntityKind::Gateway),
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
