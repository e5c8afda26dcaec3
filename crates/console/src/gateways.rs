//! One gateway.

use super::answers::{self, UseOf};
use super::asked::Asked;
use super::edit::{rename_form, renamed};
use super::enrolment;
use super::forms::Posted;
use super::listing::{Listing, RowState};
use super::names::Names;
use super::new_gateway;
use super::person::Person;
use super::selected::{Act, Selection};
use super::state::Console;
use super::states;
pub(super) use super::states::rate;
use super::view::{Action, Buttons, Cell, Section};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::GatewayId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::{GatewayAction, Live};
use culvert_store::{EntityId, EntityKind, MachineId, OrderBy, Part};
use culvert_wire::api::{Gateway, GatewayPatch};

pub(super) const AT: &str = "/gateways";

pub(super) fn actions(gateway: &Gateway) -> Vec<Action> {
    if gateway.revoked.is_some() {
        return Vec::new();
    }
    let buttons = Buttons {
        path: format!("{AT}/{}", gateway.id),
        what: &gateway.name,
        version: gateway.version,
    };
    let drain = match gateway.draining {
        true => buttons.button("Accept clients again", "undrain"),
        false => buttons.button("Drain", "drain"),
    };
    vec![
        drain,
        buttons.for_good(
            "Drain now",
            "drain-now",
            "Its clients move to another gateway of the site within seconds, and connections through it break.",
        ),
        buttons.for_good(
            "Revoke",
            "revoke",
            "It carries nothing any more, and comes back by a new token alone.",
        ),
    ]
}

/// Verifies a gateway, or takes that back. Beside its fingerprint alone: whoever verifies compares.
pub(super) fn verify_action(gateway: &Gateway) -> Option<Action> {
    if gateway.revoked.is_some() {
        return None;
    }
    let buttons = Buttons {
        path: format!("{AT}/{}", gateway.id),
        what: &gateway.name,
        version: gateway.version,
    };
    Some(match gateway.verified {
        Some(_) => buttons.for_good(
            "Take verification back",
            "unverify",
            "Where gateways have to be verified, its clients lose their access through it at once.",
        ),
        None => buttons.button("Verify", "verify"),
    })
}

/// The token that it presented with its key, by name.
pub(super) fn enrolled_with(gateway: &Gateway, names: &Names) -> Cell {
    match gateway.enrolled_with {
        Some(token) => Cell::link(enrolment::page_of(token), names.text(token)),
        None => Cell::text("–"),
    }
}

const LISTING: Listing = Listing {
    at: AT,
    title: "Gateways",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("Site", Some(OrderBy::Holder)),
        ("State", None),
        ("Load", None),
        ("Address", None),
        ("Last seen", Some(OrderBy::Seen)),
        ("Software", None),
        ("Actions", None),
    ],
    states: &[
        RowState::live("connected", "Connected", Live::Connected),
        RowState::new("unverified", "Not verified", Part::UnverifiedGateways),
        RowState::new("verified", "Verified", Part::VerifiedGateways),
        RowState::new("draining", "Draining", Part::DrainingGateways),
        RowState::new("revoked", "Revoked", Part::RevokedGateways),
        RowState::live("outdated", "Older version", Live::Outdated),
    ],
    hint: "Name, site, address or software",
    empty: "There is no gateway yet. “New gateway” creates a token, and shows the commands that start one.",
};

const SELECTION: Selection = Selection {
    at: AT,
    kind: EntityKind::Gateway,
    one: "gateway",
    many: "gateways",
    acts: &[
        (
            Act::Drain,
            "They get no new clients. Flows that exist go on until they end.",
        ),
        (
            Act::Revoke,
            "Their clients go to other gateways at once. They come back by new tokens alone.",
        ),
        (
            Act::Delete,
            "Their clients go to other gateways at once, and their names and addresses are lost.",
        ),
    ],
};

pub(super) async fn change_selected(
    State(console): State<Console>,
    posted: Posted,
) -> Result<Response, Fault> {
    SELECTION.send(&console, posted).await
}

/// All gateways, whatever their site.
pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let mut page = person.live_page("Gateways", AT, AT, &console);
    page.create = person.may_change().then(|| new_gateway::create(None));
    let service = &console.service;
    let found = service
        .gateways(&person.caller, &LISTING.request(&asked))
        .await?;
    let sites = found.items.iter().map(|gateway| gateway.site.into());
    let names = Names::of(&console, &person, sites).await?;
    let sessions = service.sessions_of_gateways(&person.caller).await?;
    let account = service.account(&person.caller).await?;
    let rows = found.items.iter().map(|gateway| {
        let session = sessions.get(&gateway.id);
        vec![
            Cell::link(format!("{AT}/{}", gateway.id), &gateway.name),
            names.shown(gateway.site),
            states::gateway(gateway, session, account.require_verified_gateways),
            Cell::text(session.map_or("–".to_owned(), states::load)),
            Cell::code(gateway.ipv4),
            Cell::time(gateway.last_seen),
            Cell::text(gateway.software.as_deref().unwrap_or("–")),
            person.menu(actions(gateway)),
        ]
    });
    let mut table = LISTING.table(&asked, found.total, rows.collect());
    let shown = found
        .items
        .iter()
        .map(|gateway| (gateway.id, gateway.version, gateway.name.as_str()));
    SELECTION.offer(&person, &mut table, shown);
    page.sections.push(Section::Table(table));
    Ok(page.into_response())
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    Id(id): Id<GatewayId>,
) -> Result<Response, Fault> {
    let mut page = person.live_page("", AT, format!("{AT}/{id}"), &console);
    let service = &console.service;
    let gateway = service.gateway(&person.caller, id).await?;
    let token = gateway.enrolled_with.map(EntityId::from);
    let ids = token.into_iter().chain([gateway.site.into()]);
    let names = Names::of(&console, &person, ids).await?;
    let account = service.account(&person.caller).await?;
    let sessions = service.sessions_of_gateways(&person.caller).await?;
    let session = sessions.get(&id);
    page.title.clone_from(&gateway.name);
    let mut facts = vec![
        (
            "State",
            states::gateway(&gateway, session, account.require_verified_gateways),
        ),
        ("Verified since", Cell::time(gateway.verified)),
        ("Site", names.shown(gateway.site)),
        ("Address", Cell::code(gateway.ipv4)),
        ("IPv6 address", Cell::code(gateway.ipv6)),
        ("Key", Cell::code(gateway.public_key)),
        ("Fingerprint", Cell::code(&gateway.fingerprint)),
        ("Enrolled with token", enrolled_with(&gateway, &names)),
        (
            "Software",
            Cell::text(gateway.software.as_deref().unwrap_or("–")),
        ),
        ("Last seen", Cell::time(gateway.last_seen)),
        ("Created", Cell::time(Some(gateway.created))),
    ];
    if person.may_change() {
        let verify = verify_action(&gateway);
        let buttons = verify.into_iter().chain(actions(&gateway));
        facts.push(("Actions", person.buttons(buttons)));
    }
    page.sections.push(Section::Facts {
        title: "Gateway".to_owned(),
        facts,
    });
    if let Some(session) = session {
        let candidates = session.candidates.iter().map(ToString::to_string);
        let candidates: Vec<_> = candidates.collect();
        page.sections.push(Section::Facts {
            title: "Now".to_owned(),
            facts: vec![
                ("Connected since", Cell::time(Some(session.since))),
                (
                    "Processor",
                    Cell::text(format_args!("{} %", session.processor_permille / 10)),
                ),
                ("Carries", Cell::text(rate(session.rate_bytes_per_s))),
                ("Clients", Cell::text(session.clients)),
                ("Grants", Cell::text(session.grants)),
                ("Flows", Cell::text(session.flows)),
                ("Clients try it at", Cell::code(candidates.join(" "))),
            ],
        });
    }
    if let Some(session) = session.filter(|session| session.grants > 0) {
        let machine = MachineId::Gateway(id);
        let grants = service.grants_of(&person.caller, machine, answers::ROWS);
        let grants = grants.await?;
        let grants = answers::grants(&console, &person, &grants, false, session.grants);
        page.sections.extend(grants.await?);
    }
    let of = UseOf {
        id: id.into(),
        field: "gateway",
        name: &gateway.name,
    };
    page.sections
        .extend(answers::recent_use(&console, &person, of).await?);
    let rename = rename_form(&format!("{AT}/{id}"), &gateway.name);
    page.sections
        .extend(person.forms([rename.with_version(gateway.version)]));
    Ok(page.into_response())
}

pub(super) async fn rename(
    State(console): State<Console>,
    Id(id): Id<GatewayId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let name = Some(fields.text("name").to_owned());
    let service = &console.service;
    let changed = service
        .change_gateway(&person.caller, id, version, GatewayPatch { name })
        .await;
    let now = async {
        let gateway = service.gateway(&person.caller, id).await?;
        Ok((gateway.name, gateway.version))
    };
    let at = (AT, format!("{AT}/{id}"));
    renamed(&person, at, &fields, changed, now).await
}

pub(super) async fn judge(
    State(console): State<Console>,
    Id(id): Id<GatewayId>,
    Posted { person, fields }: Posted,
    action: GatewayAction,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let gateway = console
        .service
        .judge_gateway(&person.caller, id, version, action)
        .await?;
    let onward = match action {
        GatewayAction::Verify | GatewayAction::Unverify => format!("{AT}/{id}"),
        GatewayAction::Drain | GatewayAction::Undrain | GatewayAction::Revoke => AT.to_owned(),
    };
    let word = match action {
        GatewayAction::Verify => "verified",
        GatewayAction::Unverify => "no longer verified",
        GatewayAction::Drain => "draining",
        GatewayAction::Undrain => "accepting clients again",
        GatewayAction::Revoke => "revoked",
    };
    let notice = format!("Gateway {} {word}.", gateway.name);
    Ok(person.back_with(&fields, &onward, &notice))
}

/// Drains a gateway and moves its clients at once. If no other can take them, the page says so.
pub(super) async fn drain_now(
    State(console): State<Console>,
    Id(id): Id<GatewayId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let drained = console
        .service
        .drain_gateway_now(&person.caller, id, version, false)
        .await?;
    let notice = format!("Gateway {} drained, its clients moved.", drained.name);
    Ok(person.back_with(&fields, AT, &notice))
}
