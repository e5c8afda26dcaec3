//! Sites, and the gateways that lead there.

use super::Console;
use super::forms::{Asked, Posted, done};
use super::person::Person;
use super::view::{Action, Cell, Field, Form, Page, Section, Table};
use crate::api::Id;
use crate::fault::Fault;
use crate::service::GatewayAction;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::{GatewayId, SiteId};
use culvert_wire::api::{Gateway, NewSite, NewToken, Site};
use culvert_wire::token::TokenKind;

const AT: &str = "/sites";

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked, new_form("")).await?;
    Ok(page.into_response())
}

fn new_form(name: &str) -> Form {
    let name = Field::line("name", "Name").value(name);
    Form::new("New site", AT, "Make", vec![name])
}

async fn list_page(
    console: &Console,
    person: &Person,
    asked: &Asked,
    form: Form,
) -> Result<Page, Fault> {
    let request = asked.part();
    let found = console.service.sites(&person.caller, &request).await?;
    let row = |site: Site| {
        vec![
            Cell::link(format!("{AT}/{}", site.id), site.name),
            Cell::time(Some(site.created)),
        ]
    };
    let list = Table {
        title: "Sites".to_owned(),
        columns: vec!["Name", "Made"],
        rows: found.items.into_iter().map(row).collect(),
        empty: "There is none. A site is a place with gateways and the resources behind them.",
        next: asked.next(AT, found.next_cursor.as_deref()),
    };
    Ok(person.list_page("Sites", AT, asked, list, form))
}

pub(super) async fn create(
    State(console): State<Console>,
    asked: Asked,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let name = fields.text("name").to_owned();
    let new = NewSite { name: name.clone() };
    match console.service.create_site(&person.caller, new).await {
        Ok(_) => Ok(done(AT, "made")),
        Err(fault) => {
            let (form, status) = new_form(&name).refused(fault)?;
            let page = list_page(&console, &person, &asked, form).await?;
            Ok(page.with_status(status))
        }
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
    Id(id): Id<SiteId>,
) -> Result<Response, Fault> {
    let site = console.service.site(&person.caller, id).await?;
    let request = asked.part();
    let found = console
        .service
        .gateways_of_site(&person.caller, id, request)
        .await?;
    let rows = found.items.iter().map(|gateway| {
        vec![
            Cell::text(&gateway.name),
            state(gateway),
            Cell::code(gateway.ipv4),
            Cell::time(gateway.last_seen),
            Cell::text(gateway.software.as_deref().unwrap_or("–")),
            Cell::Actions(actions(&person, gateway)),
        ]
    });
    let at = format!("{AT}/{id}");
    let mut page = person.page(site.name, AT);
    page.done = asked.done();
    page.sections.push(Section::Table(Table {
        title: "Gateways".to_owned(),
        columns: vec!["Name", "State", "Address", "Last seen", "Software", "Do"],
        rows: rows.collect(),
        empty: "There is none. Make a token, and run `culvert gateway run` with it on a machine there.",
        next: asked.next(&at, found.next_cursor.as_deref()),
    }));
    if person.may_change() {
        let name = Field::line("name", "Name of the token");
        let form = Form::new(
            "Token for gateways of this site",
            format!("{at}/token"),
            "Make",
            vec![name],
        );
        page.sections.push(Section::Form(form));
    }
    Ok(page.into_response())
}

fn state(gateway: &Gateway) -> Cell {
    match (gateway.revoked, gateway.draining) {
        (Some(_), _) => Cell::bad("revoked"),
        (None, true) => Cell::warn("drains"),
        (None, false) => Cell::good("takes clients"),
    }
}

fn actions(person: &Person, gateway: &Gateway) -> Vec<Action> {
    if !person.may_change() || gateway.revoked.is_some() {
        return Vec::new();
    }
    let action = |name, word: &str, is_grave| Action {
        name,
        what: gateway.name.clone(),
        path: format!("/gateways/{}/{word}", gateway.id),
        version: Some(gateway.version),
        is_grave,
    };
    let drain = match gateway.draining {
        true => action("Take clients again", "undrain", false),
        false => action("Drain", "drain", false),
    };
    vec![drain, action("Revoke", "revoke", true)]
}

pub(super) async fn make_token(
    State(console): State<Console>,
    Id(id): Id<SiteId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let new = NewToken {
        kind: TokenKind::Gateway,
        actor: None,
        site: Some(id),
        role: None,
        name: fields.text("name").to_owned(),
        expires: None,
        one_time: false,
    };
    let issued = console.service.create_token(&person.caller, new).await?;
    let mut page = person.page("New token", AT);
    page.sections = super::people::once(
        &issued,
        "culvert gateway run --token-file gateway.token",
        "gateway.token",
    );
    Ok(page.into_response())
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
    Ok(done(&format!("{AT}/{}", gateway.site), "changed"))
}
