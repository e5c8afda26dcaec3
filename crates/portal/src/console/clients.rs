//! Clients: everybody's, or one's own.

use super::Console;
use super::forms::{Asked, Posted, done};
use super::person::Person;
use super::view::{Action, Cell, Section, Table};
use crate::api::Id;
use crate::fault::Fault;
use crate::service::ClientAction;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::ClientId;
use culvert_store::Role;
use culvert_wire::api::Client;

const AT: &str = "/clients";

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let request = asked.part();
    let found = console.service.clients(&person.caller, &request).await?;
    let is_own = person.caller.role() == Role::User;
    let mut rows = Vec::new();
    for client in found.items {
        let actor = match is_own {
            true => Cell::text("you"),
            false => {
                let actor = console.service.actor(&person.caller, client.actor).await?;
                Cell::link(format!("/people/{}", actor.id), actor.name)
            }
        };
        rows.push(vec![
            Cell::text(&client.name),
            actor,
            state(&client),
            Cell::code(client.ipv4),
            Cell::time(client.last_seen),
            Cell::text(client.software.as_deref().unwrap_or("–")),
            Cell::Actions(actions(&person, &client)),
        ]);
    }
    let title = if is_own { "My clients" } else { "Clients" };
    let mut page = person.page(title, AT);
    page.done = asked.done();
    page.sections.push(Section::Table(Table {
        title: title.to_owned(),
        columns: vec![
            "Name",
            "Of",
            "State",
            "Address",
            "Last seen",
            "Software",
            "Do",
        ],
        rows,
        empty: "There is none. A client comes into being when it first connects with its token.",
        next: asked.next(AT, found.next_cursor.as_deref()),
    }));
    Ok(page.into_response())
}

fn state(client: &Client) -> Cell {
    match (client.revoked, client.verified) {
        (Some(_), _) => Cell::bad("revoked"),
        (None, Some(_)) => Cell::good("verified"),
        (None, None) => Cell::plain("not verified"),
    }
}

fn actions(person: &Person, client: &Client) -> Vec<Action> {
    let action = |name, word: &str, is_grave| Action {
        name,
        what: client.name.clone(),
        path: format!("{AT}/{}/{word}", client.id),
        version: Some(client.version),
        is_grave,
    };
    let mut actions = Vec::new();
    if client.revoked.is_some() {
        return actions;
    }
    if person.may_change() {
        actions.push(match client.verified {
            Some(_) => action("Take verification back", "unverify", false),
            None => action("Verify", "verify", false),
        });
    }
    if person.may_change() || person.caller.role() == Role::User {
        actions.push(action("Revoke", "revoke", true));
    }
    actions
}

pub(super) async fn judge(
    State(console): State<Console>,
    Id(id): Id<ClientId>,
    Posted { person, fields }: Posted,
    action: ClientAction,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    console
        .service
        .judge_client(&person.caller, id, version, action)
        .await?;
    Ok(done(AT, "changed"))
}
