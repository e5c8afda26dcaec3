//! The way to another client: a person signs their machine in, or a machine gets a token.

use super::asked::Asked;
use super::fields::Fields;
use super::forms::{Posted, taken};
use super::own_access;
use super::person::Person;
use super::state::Console;
use super::tokens::{self, Machine, MachineOwner};
use super::view::{Create, Field, Form, Link, Page, Section};
use super::wireguard;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_store::{self as store, EntityKind, Role};

const AT: &str = "/clients/new";
const LIST: &str = "/clients";

const NAME: &str = "New client";

/// The way to another client. People of the role `user` have the commands on their own page; auditors make none.
pub(super) fn create(person: &Person) -> Option<Create> {
    let path = match person.caller.role() {
        Role::User => own_access::AT,
        Role::Admin | Role::Owner => AT,
        Role::Auditor => return None,
    };
    Some(Create {
        path: path.to_owned(),
        name: NAME,
    })
}

async fn form(console: &Console, person: &Person, written: &Fields) -> Result<Form, Fault> {
    let mut fields = vec![
        Field::thing("actor", "Owner", EntityKind::Actor)
            .hint("A service account for a machine that nobody sits at, otherwise the person.")
            .value(written.text("actor")),
        Field::line("name", "Name of the token")
            .hint("By it you find the token later, such as to revoke it.")
            .value(written.text("name")),
    ];
    fields.extend(tokens::uses_fields(Some(written)));
    let title = "A machine that nobody signs in";
    let form = Form::new(title, AT, "Create the token", fields);
    console.with_choices(person, form).await
}

/// The commands for people first: they need no secret.
fn page(console: &Console, person: &Person, form: Form) -> Page {
    let mut page = person.page(NAME, LIST);
    page.sections.extend(own_access::another_machine(console));
    page.sections.extend(wireguard::way());
    page.sections.push(Section::Form(form));
    page.sections.push(Section::Links(vec![Link {
        path: "/service-accounts/new",
        name: "New service account",
    }]));
    page
}

pub(super) async fn ask(
    State(console): State<Console>,
    person: Person,
    Asked(asked): Asked,
) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let form = form(&console, &person, &asked).await?;
    Ok(page(&console, &person, form).into_response())
}

pub(super) async fn create_token(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let chosen = console
        .service
        .chosen::<store::Actor>(&person.caller, fields.text("actor"))
        .await;
    let owner = chosen.map(|actor| MachineOwner::Actor(actor.id));
    let owner = owner.map_err(|fault| fault.at_field("actor"));
    let made = tokens::create_machine_token(&console, &person, &fields, Machine::Client, owner);
    let made = made.await;
    let again = form(&console, &person, &fields).await?;
    let page = async |form| Ok(page(&console, &person, form));
    taken(made, || again, IntoResponse::into_response, page).await
}
