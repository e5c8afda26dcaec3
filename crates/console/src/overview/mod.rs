//! The overview: the present state, and the last 24 hours.

mod layout;
mod network;
mod sums;
mod warnings;

use super::asked::Asked;
use super::chart::Chart;
use super::gateways::rate;
use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Link, Page, Section, Table, Warning};
use super::{first_steps, gateways, own_access, relays};
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use culvert_ids::GatewayId;
use culvert_portal_base::{Fault, now};
use culvert_portal_service::ListRequest;
use culvert_store::Role;
use culvert_wire::Timestamp;
use culvert_wire::api::{ClientSession, GatewaySession, PortalStatus};
use std::collections::BTreeMap;

pub(crate) use layout::{Picture, WIDTH};

/// Rows of each of its tables: what is seen at a glance.
const ROWS: u16 = 10;

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

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
    let all = service.sessions_of_gateways(&person.caller).await?;
    let day_ago = Timestamp::from_unix_ms(now().unix_ms().saturating_sub(DAY_MS));
    let totals = service.access_totals(&person.caller, day_ago).await?;

    let outdated = service.outdated(&person.caller).await?;
    let portals = service.portals(&person.caller).await?;
    add_alerts(&mut page, &person, &status);
    let warnings = warnings::all(
        &(console.certificate)(),
        outdated,
        &status.version,
        status.gateways_awaiting_verification,
        &portals,
        now(),
    );
    if !warnings.is_empty() {
        page.sections.push(Section::Warnings(warnings));
    }
    let picture = network::picture(&console, &person, &totals, &all).await?;
    page.sections.extend(picture.map(Section::Network));
    let total_bytes_per_s = all.values().map(|session| session.rate_bytes_per_s).sum();
    page.sections.push(portal_facts(status, total_bytes_per_s));
    let activity = service.activity(&person.caller, asked.span()).await?;
    page.sections.push(Section::Charts(vec![
        Chart::throughput("/", &activity),
        Chart::denials("/", &activity),
    ]));

    let few = ListRequest {
        limit: Some(ROWS),
        ..ListRequest::default()
    };
    let clients = service.client_sessions(&person.caller, &few).await?;
    let ids = clients.items.iter().map(|session| session.client.into());
    let ids = ids.chain(all.keys().take(usize::from(ROWS)).map(|id| (*id).into()));
    let ids: Vec<_> = ids.chain(sums::ids(&totals)).collect();
    let names = Names::of(&console, &person, ids).await?;
    page.sections.extend(sums::sections(&totals, &names));
    page.sections.push(gateways_table(&all, &names));
    page.sections.push(clients_table(clients.items, &names));
    Ok(page.into_response())
}

/// All that needs somebody.
fn add_alerts(page: &mut Page, person: &Person, status: &PortalStatus) {
    let reasons = status.reasons.iter().cloned();
    page.sections.extend(reasons.map(Section::Alert));
    let problems = status
        .own_relay
        .iter()
        .flat_map(|relay| &relay.problems)
        .map(|problem| Warning {
            text: format!("The relay beside this portal: {problem}"),
            link: Some((relays::AT.to_owned(), "Relays")),
        });
    let problems: Vec<_> = problems.collect();
    if !problems.is_empty() {
        page.sections.push(Section::Warnings(problems));
    }
    if person.may_change() && (status.clients == 0 || status.gateways == 0) {
        page.sections.push(Section::Links(vec![Link {
            path: first_steps::AT,
            name: "First steps: a site, a gateway, a resource, a client",
        }]));
    }
}

fn portal_facts(status: PortalStatus, total_bytes_per_s: u64) -> Section {
    let relay = status.own_relay.map(|relay| {
        let cell = match relay.ready {
            true => Cell::good("ready"),
            false => Cell::bad("not ready"),
        };
        ("Relay beside the portal", cell)
    });
    Section::Facts {
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
        ]
        .into_iter()
        .chain(relay)
        .collect(),
    }
}

fn gateways_table(sessions: &BTreeMap<GatewayId, GatewaySession>, names: &Names) -> Section {
    let rows = sessions.values().take(usize::from(ROWS)).map(|session| {
        let name = names.text(session.gateway);
        vec![
            Cell::link(format!("{}/{}", gateways::AT, session.gateway), name),
            match (session.awaits_verification, session.draining) {
                (true, _) => Cell::warn("waits to be verified"),
                (false, true) => Cell::warn("draining"),
                (false, false) => Cell::good("accepting clients"),
            },
            Cell::text(session.clients),
            Cell::text(session.flows),
            Cell::text(rate(session.rate_bytes_per_s)),
            Cell::time(Some(session.since)),
        ]
    });
    Section::Table(Table {
        title: "Connected gateways".to_owned(),
        columns: vec!["Gateway", "State", "Clients", "Flows", "Throughput", "Since"],
        rows: rows.collect(),
        empty: "No gateway is connected. Create a token at a site, and run “culvert gateway run” with it."
            .into(),
        ..Table::default()
    })
}

fn clients_table(sessions: Vec<ClientSession>, names: &Names) -> Section {
    let rows = sessions.into_iter().map(|session| {
        vec![
            Cell::link(
                format!("/clients/{}", session.client),
                names.text(session.client),
            ),
            Cell::text(session.grants),
            Cell::text(session.resources),
            Cell::time(Some(session.since)),
        ]
    });
    Section::Table(Table {
        title: "Connected clients".to_owned(),
        columns: vec!["Client", "Grants", "Resources", "Since"],
        rows: rows.collect(),
        empty: "No client is connected.".into(),
        ..Table::default()
    })
}
