//! The flow log.

use super::asked::Asked;
use super::chart::{Chart, bytes};
use super::logs::{
    Span, Things, filter_form, from_field, none, ranges, refused, search, search_field, thing,
    until_field,
};
use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Field, Form, Link, Section, Table};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::{Fault, Problems};
use culvert_portal_service::FlowLogRequest;
use culvert_store::{EntityId, EntityKind, FlowFilter};
use culvert_wire::api::FlowLogEntry;
use culvert_wire::messages::{FlowEnd, PathKind};

const AT: &str = "/log/flows";

/// The flows that the form asks for.
pub(super) async fn filter(
    console: &Console,
    person: &Person,
    asked: &Asked,
) -> Result<FlowFilter, Fault> {
    let wanted = asked.0.text("end");
    let mut problems = Problems::default();
    let search = problems.take(search(asked))?.flatten();
    let things = Things::of(console, person, asked, &mut problems).await?;
    let span = Span::of(asked, &mut problems)?;
    problems.finish()?;
    Ok(FlowFilter {
        client: things.client,
        actor: things.actor,
        resource: things.resource,
        gateway: things.gateway,
        end: FlowEnd::ALL
            .into_iter()
            .find(|known| known.as_str() == wanted),
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
    let service = &console.service;
    let form = Form::new("Which flows", AT, "Show", fields(&asked));
    let form = filter_form(&console, &person, &asked, form).await?;
    let filter = match filter(&console, &person, &asked).await {
        Ok(filter) => filter,
        Err(fault) => return refused(person.page("Flow log", AT), form, fault),
    };
    let request = FlowLogRequest {
        filter,
        cursor: asked.cursor(),
        limit: None,
    };
    let found = service.flow_log(&person.caller, &request).await?;
    let retention = service.retention(&person.caller).await?;
    let ids = found.items.iter().flat_map(|entry| {
        let actor = entry.actor.map(EntityId::from);
        let relay = entry.relay.map(EntityId::from);
        [entry.client.into(), entry.resource.into()]
            .into_iter()
            .chain(actor)
            .chain(relay)
    });
    let names = Names::of(&console, &person, ids).await?;
    let rows = found.items.into_iter().map(|entry| row(&entry, &names));
    let mut page = person.page("Flow log", AT);
    if !retention.flow_log {
        let text = "There is no flow log: it says what each person did and when, so an \
                    administrator has to switch it on.";
        page.sections.push(Section::Alert(text.to_owned()));
        page.sections.push(Section::Links(vec![Link {
            path: "/settings/retention",
            name: "How long logs are kept",
        }]));
    }
    let activity = service.activity(&person.caller, asked.span()).await?;
    page.sections.push(Section::Form(form));
    page.sections.push(ranges(AT, &asked));
    page.sections.push(Section::Table(Table {
        title: "Flows".to_owned(),
        is_alone: true,
        columns: vec![
            "Ended",
            "Actor",
            "Client",
            "Resource",
            "To",
            "Application",
            "Path",
            "Sent",
            "Received",
            "Lasted",
            "Why it ended",
        ],
        rows: rows.collect(),
        empty: match found.next_cursor {
            Some(_) => none(true).into(),
            None => "There is none that fits. A flow is here once it has ended.".into(),
        },
        next: asked.next(AT, found.next_cursor.as_deref()),
        ..Table::default()
    }));
    let chart = Chart::throughput(AT, &activity);
    page.sections.push(Section::Charts(vec![chart]));
    Ok(page.into_response())
}

fn fields(asked: &Asked) -> Vec<Field> {
    let mut ends = vec![("", "every end")];
    ends.extend(FlowEnd::ALL.map(|one| (one.as_str(), one.as_str())));
    let found_by = "Part of a name or an address, a port, an application, or an id.";
    vec![
        search_field(asked, found_by),
        thing(asked, "actor", "Actor", EntityKind::Actor),
        thing(asked, "client", "Client", EntityKind::Client),
        thing(asked, "resource", "Resource", EntityKind::Resource),
        thing(asked, "gateway", "Gateway", EntityKind::Gateway),
        Field::choice("end", "Why it ended", &ends)
            .optional()
            .value(asked.0.text("end")),
        from_field(asked),
        until_field(asked),
    ]
}

fn row(entry: &FlowLogEntry, names: &Names) -> Vec<Cell> {
    let lasted_ms = entry.lasted_ms();
    let to = match entry.port {
        Some(port) => format!("{} {} port {port}", entry.protocol, entry.address),
        None => format!("{} {}", entry.protocol, entry.address),
    };
    let to = match (entry.inbound, entry.port) {
        (false, _) => to,
        (true, Some(port)) => format!("from {} to {} port {port}", entry.address, entry.protocol),
        (true, None) => format!("from {} by {}", entry.address, entry.protocol),
    };
    vec![
        Cell::logged(entry.at),
        names.maybe(entry.actor),
        names.shown(entry.client),
        names.shown(entry.resource),
        Cell::text(to),
        Cell::text(entry.application.as_deref().unwrap_or("–")),
        path(entry, names),
        Cell::text(bytes(entry.sent_bytes)),
        Cell::text(bytes(entry.received_bytes)),
        Cell::text(format_args!(
            "{}.{} s",
            lasted_ms / 1_000,
            lasted_ms % 1_000 / 100
        )),
        match entry.end {
            FlowEnd::Closed | FlowEnd::Idle => Cell::plain(entry.end.as_str()),
            FlowEnd::Policy => Cell::warn("cut by policy"),
            FlowEnd::Replaced | FlowEnd::Evicted | FlowEnd::Stopped | FlowEnd::Other => {
                Cell::text(entry.end.as_str())
            }
        },
    ]
}

/// The path; through a relay, its name leads there.
fn path(entry: &FlowLogEntry, names: &Names) -> Cell {
    match (entry.path, entry.relay) {
        (None, _) => Cell::text("–"),
        (Some(PathKind::Direct), _) => Cell::text("direct"),
        (Some(_), Some(relay)) => names.shown(relay),
        (Some(PathKind::Relayed), None) => Cell::text("relayed"),
        (Some(PathKind::RelayedTls), None) => Cell::text("relayed by TLS"),
        (Some(PathKind::Other), None) => Cell::text("other"),
    }
}
