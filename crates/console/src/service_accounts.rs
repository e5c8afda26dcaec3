//! Machines that are actors: clients come with their tokens, and scripts use the API with them.

use super::asked::Asked;
use super::forms::{Posted, done, taken};
use super::people::{self, state};
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Field, Form, Page, Table};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_wire::api::{Actor, ActorKind, NewActor};

const AT: &str = "/service-accounts";

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked, new_form("")).await?;
    Ok(page.into_response())
}

fn new_form(name: &str) -> Form {
    let name = Field::line("name", "Name")
        .hint("Its tokens are made on the next page, and shown once.")
        .value(name);
    Form::new("New service account", AT, "Create", vec![name])
}

async fn list_page(
    console: &Console,
    person: &Person,
    asked: &Asked,
    form: Form,
) -> Result<Page, Fault> {
    let (service, request) = (&console.service, asked.searched());
    let found = service.service_accounts(&person.caller, &request).await?;
    let row = |actor: &Actor| {
        vec![
            Cell::link(format!("{}/{}", people::AT, actor.id), &actor.name),
            state(actor),
            Cell::time(Some(actor.created)),
        ]
    };
    let list = Table {
        title: "Service accounts".to_owned(),
        columns: vec!["Name", "State", "Made"],
        rows: found.items.iter().map(row).collect(),
        empty: "There is none. Machines that nobody sits at are clients of a service account.",
        next: asked.next(AT, found.next_cursor.as_deref()),
    };
    Ok(person.searched_page(AT, asked, list, form))
}

pub(super) async fn create(
    State(console): State<Console>,
    asked: Asked,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let name = fields.text("name").to_owned();
    let new = NewActor {
        kind: ActorKind::ServiceAccount,
        name: name.clone(),
    };
    let made = console.service.create_actor(&person.caller, new).await;
    let onward = |actor: Actor| done(&format!("{}/{}", people::AT, actor.id), "made");
    let page = |form| list_page(&console, &person, &asked, form);
    taken(made, || new_form(&name), onward, page).await
}
