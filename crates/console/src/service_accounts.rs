//! Machines that are actors: clients come with their tokens, and scripts use the API with them.

use super::asked::Asked;
use super::forms::{Posted, taken};
use super::listing::{Listing, RowState};
use super::notice::done;
use super::people::{self, state};
use super::person::Person;
use super::state::Console;
use super::view::{Cell, Field, Form, Link, Page};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_store::{OrderBy, Part};
use culvert_wire::api::{Actor, ActorKind, NewActor};

const AT: &str = "/service-accounts";

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked).await?;
    Ok(page.into_response())
}

fn new_form(name: &str) -> Form {
    let name = Field::line("name", "Name")
        .hint("Its tokens are made on the next page, and shown once.")
        .value(name);
    Form::new("New service account", AT, "Create", vec![name])
}

pub(super) async fn ask(person: Person) -> Result<Response, Fault> {
    person.caller.may_change()?;
    Ok(person
        .form_page("New service account", AT, new_form(""))
        .into_response())
}

const LISTING: Listing = Listing {
    at: AT,
    title: "Service accounts",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("State", None),
        ("Created", Some(OrderBy::Created)),
    ],
    states: &[RowState::new("disabled", "Disabled", Part::DisabledActors)],
    hint: "Name",
    empty: "There is none. Machines that nobody sits at are clients of a service account.",
};

async fn list_page(console: &Console, person: &Person, asked: &Asked) -> Result<Page, Fault> {
    let (service, request) = (&console.service, LISTING.request(asked));
    let found = service.service_accounts(&person.caller, &request).await?;
    let row = |actor: &Actor| {
        vec![
            Cell::link(format!("{}/{}", people::AT, actor.id), &actor.name),
            state(actor),
            Cell::time(Some(actor.created)),
        ]
    };
    let list = LISTING.table(asked, found.total, found.items.iter().map(row).collect());
    Ok(person.searched_page(
        AT,
        list,
        Some(Link {
            path: "/service-accounts/new",
            name: "New service account",
        }),
    ))
}

pub(super) async fn create(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let name = fields.text("name").to_owned();
    let new = NewActor {
        kind: ActorKind::ServiceAccount,
        name: name.clone(),
    };
    let made = console.service.create_actor(&person.caller, new).await;
    let onward = |actor: Actor| {
        done(
            &format!("{}/{}", people::AT, actor.id),
            &format!("Service account {} created.", actor.name),
        )
    };
    let page = async |form| Ok(person.form_page("New service account", AT, form));
    taken(made, || new_form(&name), onward, page).await
}
