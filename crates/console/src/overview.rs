//! The overview: the present state.

use super::asked::Asked;
use super::chart::Chart;
use super::gateways::rate;
use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Link, Section, Table};
use super::{first_steps, gateways, own_access, verified_gateways};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use culvert_portal_base::Fault;
use culvert_portal_service::{AccessLogRequest, ListRequest};
use culvert_store::{AccessFilter, Decision, EntityId, Role};

/// Rows of each of its tables: what is seen at a glance.
const ROWS: u16 = 10;

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    if person.caller.role() == Role::User {
        return Ok(Redirect::to(own_access::AT).into_response());
    }
    let mut page = person.live_page("Overview", "/", "/", &console);
    let service = &console.service;
    let status = service.status(&person.caller).await?;
    let few = ListRequest {
        limit: Some(ROWS),
        ..ListRequest::default()
    };
    let clients = service.client_sessions(&person.caller, &few).await?;
    let gateways = service.gateway_sessions(&person.caller, &few).await?;
    let all = service.sessions_of_gateways(&person.caller).await?;
    let total_bytes_per_s = all.values().map(|session| session.rate_bytes_per_s).sum();
    let denied = AccessLogRequest {
        filter: AccessFilter {
            decision: Some(Decision::Denied),
            ..AccessFilter::default()
        },
        cursor: None,
        limit: Some(ROWS),
    };
    let denied = service.access_log(&person.caller, &denied).await?;

    let clients_now = clients.items.iter().map(|session| session.client.into());
    let gateways_now = gateways.items.iter().map(|session| session.gateway.into());
    let refused = denied.items.iter();
    let refused = refused.flat_map(|entry| [entry.client.into(), entry.resource.into()]);
    let ids: Vec<EntityId> = clients_now.chain(gateways_now).chain(refused).collect();
    let names = Names::of(&console, &person, ids).await?;

    let mut connected = Vec::new();
    for session in clients.items {
        let name = names.text(session.client);
        connected.push(vec![
            Cell::link(format!("/clients/{}", session.client), name),
            Cell::time(Some(session.since)),
            Cell::text(session.grants),
            Cell::text(session.resources),
        ]);
    }
    let mut active = Vec::new();
    for session in gateways.items {
        let name = names.text(session.gateway);
        active.push(vec![
            Cell::link(format!("{}/{}", gateways::AT, session.gateway), name),
            Cell::time(Some(session.since)),
            match (session.awaits_verification, session.draining) {
                (true, _) => Cell::warn("waits to be verified"),
                (false, true) => Cell::warn("draining"),
                (false, false) => Cell::good("accepting clients"),
            },
            Cell::text(session.clients),
            Cell::text(session.flows),
            Cell::text(rate(session.rate_bytes_per_s)),
        ]);
    }
    let mut refused = Vec::new();
    for entry in denied.items {
        refused.push(vec![
            Cell::time(Some(entry.at)),
            Cell::text(names.text(entry.client)),
            Cell::text(names.text(entry.resource)),
            Cell::text(entry.reason),
        ]);
    }

    let reasons = status.reasons.iter().cloned();
    page.sections.extend(reasons.map(Section::Alert));
    if person.may_change() && status.gateways_awaiting_verification > 0 {
        page.sections.push(Section::Links(vec![Link {
            path: verified_gateways::AT,
            name: "Gateways wait to be verified",
        }]));
    }
    if person.may_change() && (status.clients == 0 || status.gateways == 0) {
        page.sections.push(Section::Links(vec![Link {
            path: first_steps::AT,
            name: "First steps: a site, a gateway, a resource, a client",
        }]));
    }
    page.sections.push(Section::Facts {
        title: "Portal".to_owned(),
        facts: vec![
            (
                "State",
                match status.ready {
                    true => Cell::good("healthy"),
                    false => Cell::bad("unhealthy"),
                },
            ),
            ("Connected clients", Cell::text(status.clients)),
            ("Connected gateways", Cell::text(status.gateways)),
            ("Grants in force", Cell::text(status.grants)),
            ("Throughput", Cell::text(rate(total_bytes_per_s))),
            ("Damaged rows", Cell::text(status.faults)),
            ("Log records pending", Cell::text(status.records_waiting)),
            ("Log records lost", Cell::text(status.records_lost)),
            ("Version", Cell::text(status.version)),
            ("Started", Cell::time(Some(status.started))),
        ],
    });
    let activity = service.activity(&person.caller, asked.span()).await?;
    for chart in [
        Chart::throughput("/", &activity),
        Chart::denials("/", &activity),
    ] {
        page.sections.push(Section::Chart(chart));
    }
    let table = |title: &str, columns, rows, empty: &'static str| {
        Section::Table(Table {
            title: title.to_owned(),
            columns,
            rows,
            empty: empty.into(),
            ..Table::default()
        })
    };
    page.sections.push(table(
        "Gateways that are connected",
        vec![
            "Gateway",
            "Since",
            "State",
            "Clients",
            "Flows",
            "Throughput",
        ],
        active,
        "No gateway is connected. Create a token at a site, and run “culvert gateway run” with it.",
    ));
    page.sections.push(table(
        "Clients that are connected",
        vec!["Client", "Since", "Grants", "Resources"],
        connected,
        "No client is connected.",
    ));
    page.sections.push(table(
        "Recent denials",
        vec!["When", "Client", "Resource", "Why"],
        refused,
        "Nothing was denied.",
    ));
    Ok(page.into_response())
}
