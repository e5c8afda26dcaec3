//! The portals that share the database, and the database itself.

use super::chart::bytes;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Section, Table};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_wire::api::{DatabaseStatus, PortalOfDatabase, PortalStatus};

pub(super) const AT: &str = "/settings/portals";

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
) -> Result<Response, Fault> {
    let mut page = person.live_page("Portals", "/settings", AT, &console);
    let portals = console.service.portals(&person.caller).await?;
    let status = console.service.status(&person.caller).await?;
    page.sections.push(Section::Table(Table {
        title: "Portals of the database".to_owned(),
        columns: vec![
            "Address",
            "State",
            "Version",
            "Started",
            "Last report",
            "Clock",
        ],
        rows: portals.iter().map(row).collect(),
        ..Table::default()
    }));
    page.sections.push(database(&status));
    page.sections.push(Section::Prose {
        title: "Several portals".to_owned(),
        text: "Any number of portals may share one PostgreSQL database. One of them leads: it decides about access for \
               the machines of all. If it ends, another one leads within seconds, and what people use goes on."
            .to_owned(),
    });
    Ok(page.into_response())
}

fn row(portal: &PortalOfDatabase) -> Vec<Cell> {
    let address = match portal.address {
        Some(address) => Cell::code(address),
        None => Cell::text("–"),
    };
    let clock = portal.clock_in_words();
    let is_right = portal.clock_ahead_ms.unsigned_abs() < PortalOfDatabase::CLOCK_SHOWN_MS;
    vec![
        address,
        state(portal),
        Cell::text(&portal.version),
        Cell::time(Some(portal.started)),
        Cell::time(Some(portal.seen)),
        match is_right {
            true => Cell::text(clock),
            false => Cell::warn(clock),
        },
    ]
}

fn state(portal: &PortalOfDatabase) -> Cell {
    let this = match portal.answers {
        true => ", shows this page",
        false => "",
    };
    match (portal.leads, portal.runs) {
        (true, _) => Cell::good(format!("leads{this}")),
        (false, true) => Cell::plain(format!("follows{this}")),
        (false, false) => Cell::bad("silent"),
    }
}

fn database(status: &PortalStatus) -> Section {
    let mut facts = match &status.database {
        Some(database) => of_database(database),
        None => vec![("State", Cell::bad("does not answer"))],
    };
    facts.push((
        "Changes on their way to machines",
        Cell::text(status.feed_lag),
    ));
    facts.push((
        "Records that wait to be written",
        Cell::text(status.records_waiting),
    ));
    Section::Facts {
        title: "Database".to_owned(),
        facts,
    }
}

fn of_database(database: &DatabaseStatus) -> Vec<(&'static str, Cell)> {
    let mut facts = vec![(
        "Program",
        Cell::text(format_args!("{} {}", database.program, database.version)),
    )];
    let name = database.name.iter();
    facts.extend(name.map(|name| ("Name", Cell::code(name))));
    facts.push(("Size", Cell::text(bytes(database.size_bytes))));
    let (ms, tenths) = (
        database.answered_in_us / 1_000,
        database.answered_in_us % 1_000 / 100,
    );
    facts.push(("Answers in", Cell::text(format_args!("{ms}.{tenths} ms"))));
    facts
}
