//! The paths from a client to its gateways.

use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Section, Table};
use culvert_portal_base::Fault;
use culvert_store::EntityId;
use culvert_wire::api::{ClientPath, ClientSession};
use culvert_wire::messages::PathKind;

/// The paths that the client told; nothing where it told none.
pub(super) async fn section(
    console: &Console,
    person: &Person,
    session: &ClientSession,
) -> Result<Option<Section>, Fault> {
    if session.paths.is_empty() {
        return Ok(None);
    }
    let ids = session.paths.iter().flat_map(|path| {
        let relay = path.relay.map(EntityId::from);
        relay.into_iter().chain([path.gateway.into()])
    });
    let names = Names::of(console, person, ids).await?;
    let rows = session.paths.iter().map(|path| {
        vec![
            names.shown(path.gateway),
            kind(path),
            names.maybe(path.relay),
            Cell::text(path.round_trip_us.map_or("–".to_owned(), milliseconds)),
            Cell::text(path.why.as_deref().unwrap_or("–")),
            Cell::time(Some(path.since)),
        ]
    });
    Ok(Some(Section::Table(Table {
        title: "Paths to gateways".to_owned(),
        columns: vec![
            "Gateway",
            "Path",
            "Relay",
            "Round trip",
            "Why not direct",
            "Since",
        ],
        rows: rows.collect(),
        ..Table::default()
    })))
}

fn kind(path: &ClientPath) -> Cell {
    match path.path {
        PathKind::Direct => Cell::good("direct"),
        PathKind::Relayed => Cell::plain("relayed"),
        PathKind::RelayedTls => Cell::warn("relayed by TLS, UDP is blocked"),
        PathKind::Other => Cell::plain("of a kind that this portal does not know"),
    }
}

fn milliseconds(us: u32) -> String {
    format!("{}.{} ms", us / 1_000, us % 1_000 / 100)
}
