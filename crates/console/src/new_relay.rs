//! The way to another relay: a token, and the commands that start it.

use super::fields::Fields;
use super::forms::{Posted, taken};
use super::person::Person;
use super::state::Console;
use super::tokens::{self, Machine, MachineOwner};
use super::view::{Create, Field, Form, Page};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;

const AT: &str = "/relays/new";
const LIST: &str = "/relays";
const TITLE: &str = "New relay";

/// The way to the form.
pub(super) fn create() -> Create {
    Create {
        path: AT.to_owned(),
        name: TITLE,
    }
}

fn form(written: Option<&Fields>) -> Form {
    let name = written.map_or("", |fields| fields.text("name"));
    let name = Field::line("name", "Name of the token").value(name);
    let mut fields = vec![name.hint("By it you find the token later, such as to revoke it.")];
    fields.extend(tokens::uses_fields(written));
    Form::new(TITLE, AT, "Create the token", fields).with_focus()
}

fn page(person: &Person, form: Form) -> Page {
    person.form_page(TITLE, LIST, form)
}

pub(super) async fn ask(person: Person) -> Result<Response, Fault> {
    person.caller.may_change()?;
    Ok(page(&person, form(None)).into_response())
}

pub(super) async fn create_token(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let owner = Ok(MachineOwner::Account);
    let made = tokens::create_machine_token(&console, &person, &fields, Machine::Relay, owner);
    let page = async |form| Ok(page(&person, form));
    let again = || form(Some(&fields));
    taken(made.await, again, IntoResponse::into_response, page).await
}
