//! Relays: the list, and one relay.

use super::asked::Asked;
use super::edit::{rename_form, renamed};
use super::forms::Posted;
use super::listing::{Listing, RowState};
use super::names::Names;
use super::new_relay;
use super::person::Person;
use super::selected::{Act, Selection};
use super::state::Console;
use super::states;
use super::view::{Action, Buttons, Cell, Section, Table};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::RelayId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::{Live, RelayAction};
use culvert_store::{EntityKind, OrderBy, Part};
use culvert_wire::api::{Relay, RelayPatch};

pub(super) const AT: &str = "/relays";

fn actions(relay: &Relay) -> Vec<Action> {
    if relay.revoked.is_some() {
        return Vec::new();
    }
    let buttons = Buttons {
        path: format!("{AT}/{}", relay.id),
        what: &relay.name,
        version: relay.version,
    };
    let drain = match relay.draining {
        true => buttons.button("Accept ends again", "undrain"),
        false => buttons.button("Drain", "drain"),
    };
    vec![
        drain,
        buttons.for_good(
            "Revoke",
            "revoke",
            "Clients and gateways use other relays. It comes back by a new token alone.",
        ),
    ]
}

const LISTING: Listing = Listing {
    at: AT,
    title: "Relays",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("State", None),
        ("Load", None),
        ("Gateways", None),
        ("Clients", None),
        ("Last seen", Some(OrderBy::Seen)),
        ("Software", None),
        ("Actions", None),
    ],
    states: &[
        RowState::live("connected", "Connected", Live::Connected),
        RowState::new("live", "Not revoked", Part::LiveRelays),
        RowState::new("revoked", "Revoked", Part::RevokedRelays),
        RowState::live("outdated", "Older version", Live::Outdated),
    ],
    hint: "Name, address or software",
    empty: "There is no relay yet. “New relay” creates a token, and shows the commands that start one.",
};

const SELECTION: Selection = Selection {
    at: AT,
    kind: EntityKind::Relay,
    one: "relay",
    many: "relays",
    acts: &[
        (
            Act::Drain,
            "They get no new clients and gateways. Those that they have use other relays.",
        ),
        (
            Act::Revoke,
            "Clients and gateways use other relays at once. They come back by new tokens alone.",
        ),
        (
            Act::Delete,
            "Clients and gateways use other relays at once, and their names are lost.",
        ),
    ],
};

pub(super) async fn change_selected(
    State(console): State<Console>,
    posted: Posted,
) -> Result<Response, Fault> {
    SELECTION.send(&console, posted).await
}

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let mut page = person.live_page("Relays", AT, AT, &console);
    page.create = person.may_change().then(new_relay::create);
    let service = &console.service;
    let found = service
        .relays(&person.caller, &LISTING.request(&asked))
        .await?;
    let sessions = service.sessions_of_relays(&person.caller).await?;
    let rows = found.items.iter().map(|relay| {
        let session = sessions.get(&relay.id);
        let number = |number: Option<u64>| match number {
            Some(number) => Cell::text(number),
            None => Cell::text("–"),
        };
        vec![
            Cell::link(format!("{AT}/{}", relay.id), &relay.name),
            states::relay(relay, session),
            Cell::text(session.map_or("–".to_owned(), states::relay_load)),
            number(session.map(|session| session.gateways)),
            number(session.map(|session| session.clients)),
            Cell::time(relay.last_seen),
            Cell::text(relay.software.as_deref().unwrap_or("–")),
            person.menu(actions(relay)),
        ]
    });
    let mut table = LISTING.table(&asked, found.total, rows.collect());
    let shown = found
        .items
        .iter()
        .map(|relay| (relay.id, relay.version, relay.name.as_str()));
    SELECTION.offer(&person, &mut table, shown);
    page.sections.push(Section::Table(table));
    Ok(page.into_response())
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    Id(id): Id<RelayId>,
) -> Result<Response, Fault> {
    let mut page = person.live_page("", AT, format!("{AT}/{id}"), &console);
    let service = &console.service;
    let relay = service.relay(&person.caller, id).await?;
    let sessions = service.sessions_of_relays(&person.caller).await?;
    let session = sessions.get(&id);
    page.title.clone_from(&relay.name);
    let addresses = session.map_or(&relay.addresses, |session| &session.addresses);
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let mut facts = vec![
        ("State", states::relay(&relay, session)),
        ("Addresses", Cell::code(addresses.join(" "))),
        (
            "Software",
            Cell::text(relay.software.as_deref().unwrap_or("–")),
        ),
        ("Last seen", Cell::time(relay.last_seen)),
        ("Created", Cell::time(Some(relay.created))),
    ];
    if person.may_change() {
        facts.push(("Actions", person.buttons(actions(&relay))));
    }
    page.sections.push(Section::Facts {
        title: "Relay".to_owned(),
        facts,
    });
    if let Some(session) = session {
        let tls = session.tls_port.map(|port| port.to_string());
        page.sections.push(Section::Facts {
            title: "Now".to_owned(),
            facts: vec![
                ("Connected since", Cell::time(Some(session.since))),
                (
                    "Processor",
                    Cell::text(format_args!("{} %", session.processor_permille / 10)),
                ),
                (
                    "Forwards",
                    Cell::text(states::rate(session.rate_bytes_per_s)),
                ),
                ("Gateways registered", Cell::text(session.gateways)),
                ("Clients registered", Cell::text(session.clients)),
                ("TLS port", Cell::text(tls.as_deref().unwrap_or("–"))),
            ],
        });
    }
    page.sections
        .extend(gateways_of(&console, &person, id).await?);
    let rename = rename_form(&format!("{AT}/{id}"), &relay.name);
    page.sections
        .extend(person.forms([rename.with_version(relay.version)]));
    Ok(page.into_response())
}

/// The gateways that are reached through it; nothing where there is none.
async fn gateways_of(
    console: &Console,
    person: &Person,
    id: RelayId,
) -> Result<Option<Section>, Fault> {
    let sessions = console.service.sessions_of_gateways(&person.caller).await?;
    let through = sessions.values();
    let through: Vec<_> = through
        .filter(|session| session.relays.contains(&id))
        .collect();
    if through.is_empty() {
        return Ok(None);
    }
    let ids = through.iter().map(|session| session.gateway.into());
    let names = Names::of(console, person, ids).await?;
    let rows = through.iter().map(|session| {
        vec![
            names.shown(session.gateway),
            Cell::text(session.clients),
            Cell::text(states::rate(session.rate_bytes_per_s)),
        ]
    });
    Ok(Some(Section::Table(Table {
        title: "Gateways that are reached through it".to_owned(),
        columns: vec!["Gateway", "Clients", "Carries in all"],
        rows: rows.collect(),
        ..Table::default()
    })))
}

pub(super) async fn rename(
    State(console): State<Console>,
    Id(id): Id<RelayId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let name = Some(fields.text("name").to_owned());
    let service = &console.service;
    let changed = service
        .change_relay(&person.caller, id, version, RelayPatch { name })
        .await;
    let now = async {
        let relay = service.relay(&person.caller, id).await?;
        Ok((relay.name, relay.version))
    };
    let at = (AT, format!("{AT}/{id}"));
    renamed(&person, at, &fields, changed, now).await
}

pub(super) async fn judge(
    State(console): State<Console>,
    Id(id): Id<RelayId>,
    Posted { person, fields }: Posted,
    action: RelayAction,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let relay = console
        .service
        .judge_relay(&person.caller, id, version, action)
        .await?;
    let word = match action {
        RelayAction::Drain => "draining",
        RelayAction::Undrain => "accepting ends again",
        RelayAction::Revoke => "revoked",
    };
    let notice = format!("Relay {} {word}.", relay.name);
    Ok(person.back_with(&fields, AT, &notice))
}
