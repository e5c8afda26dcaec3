//! A machine asks to be signed in: who sits before it compares a code here.

use super::Console;
use super::forms::{Asked, Posted};
use super::person::{Person, Refusal};
use super::view::{Cell, Field, Form, Page, Section};
use crate::fault::Fault;
use crate::service::{WaitingDevice, written_code};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};

const AT: &str = "/device";

/// Asks for the code, or shows whose it is. Who has not signed in does that first, and comes back with the
/// code.
pub(super) async fn show(
    State(console): State<Console>,
    person: Result<Person, Refusal>,
    Asked(fields): Asked,
) -> Result<Response, Fault> {
    let code = fields.text("code");
    let person = match person {
        Ok(person) => person,
        Err(Refusal::Fault(Fault::Unauthenticated)) => {
            let next = match written_code(code) {
                // The one sign in it that has a meaning in a query.
                Some(code) => format!("{AT}%3Fcode%3D{code}"),
                None => AT.to_owned(),
            };
            return Ok(Redirect::to(&format!("/sign-in?next={next}")).into_response());
        }
        Err(Refusal::Fault(fault)) => return Err(fault),
        Err(refusal @ Refusal::Enrol) => return Ok(refusal.into_response()),
    };
    if code.is_empty() {
        return Ok(page(&person, code_form("")).into_response());
    }
    match console.service.waiting_device(&person.caller, code) {
        Ok(device) => Ok(decision(&person, &device).into_response()),
        Err(fault) => {
            let (form, status) = code_form(code).refused(fault)?;
            Ok(page(&person, form).with_status(status))
        }
    }
}

fn page(person: &Person, form: Form) -> Page {
    let mut page = person.page("Sign a machine in", AT);
    page.sections = vec![Section::Form(form)];
    page
}

fn code_form(code: &str) -> Form {
    let code = Field::line("code", "Code")
        .hint("Eight letters, which “culvert sign-in” shows on the machine.")
        .value(code);
    Form::new("Which machine", AT, "Go on", vec![code]).question()
}

fn decision(person: &Person, device: &WaitingDevice) -> Page {
    let mut page = person.page("Sign a machine in", AT);
    let warning = format!(
        "Approve this only if you have just started “culvert sign-in” yourself, on a machine before you, and \
         it shows the code {}. The machine will have access to everything that you have access to.",
        device.code
    );
    let facts = vec![
        ("Code", Cell::code(&device.code)),
        ("It calls itself", Cell::text(&device.machine)),
        ("It asks from", Cell::code(device.from)),
        ("Since", Cell::time(Some(device.since))),
    ];
    let form = |title: &str, word: &str, submit| {
        let mut form = Form::new(title, format!("{AT}/{word}"), submit, Vec::new());
        form.hidden.push(("code", device.code.clone()));
        form
    };
    let approve = form("The code is the same", "approve", "Approve");
    let mut deny = form("It is not, or I did not ask", "deny", "Deny");
    deny.is_grave = true;
    page.sections = vec![
        Section::Alert(warning),
        Section::Facts {
            title: "The machine".to_owned(),
            facts,
        },
        Section::Form(approve),
        Section::Form(deny),
    ];
    page
}

pub(super) async fn decide(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
    approve: bool,
) -> Result<Response, Fault> {
    let code = fields.text("code");
    let service = &console.service;
    let decided = service.decide_device(&person.caller, code, approve).await;
    if let Err(fault) = decided {
        let (form, status) = code_form(code).refused(fault)?;
        return Ok(page(&person, form).with_status(status));
    }
    let text = match approve {
        true => "The machine is signed in as you within a few seconds. You may close this page.",
        false => "The machine was told no. Nothing was given to it.",
    };
    let mut page = person.page("Sign a machine in", AT);
    page.done = Some(text);
    Ok(page.with_status(StatusCode::OK))
}
