//! A machine asks to be signed in: the person at it compares a code here.

use super::asked::Asked;
use super::forms::Posted;
use super::person::{PageRefusal, Person};
use super::state::Console;
use super::view::{Cell, Field, Form, Page, Section};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use culvert_portal_auth::device_codes::{WaitingDevice, written as written_code};
use culvert_portal_base::Fault;

const AT: &str = culvert_portal_auth::oidc::DEVICE_PAGE;

/// Asks for the code, or shows the machine that it belongs to. People who have not signed in do
/// that first, and come back with the code.
pub(super) async fn show(
    State(console): State<Console>,
    person: Result<Person, PageRefusal>,
    Asked(fields): Asked,
) -> Result<Response, Fault> {
    let code = fields.text("code");
    let person = match person {
        Ok(person) => person,
        Err(PageRefusal::Fault(Fault::Unauthenticated)) => {
            let next = match written_code(code) {
                // The one sign in it that has a meaning in a query.
                Some(code) => format!("{AT}%3Fcode%3D{code}"),
                None => AT.to_owned(),
            };
            return Ok(Redirect::to(&format!("/sign-in?next={next}")).into_response());
        }
        Err(PageRefusal::Fault(fault)) => return Err(fault),
        Err(refusal @ (PageRefusal::Enrol | PageRefusal::SignIn(_))) => {
            return Ok(refusal.into_response());
        }
    };
    if code.is_empty() {
        return Ok(page(&person, code_form("")).into_response());
    }
    match console.service.waiting_device(&person.caller, code).await {
        Ok(device) => Ok(decision(&person, &device, approve_form(&device)).into_response()),
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

/// A form for the decision about the machine.
fn decide_form(title: &str, word: &str, submit: &'static str, device: &WaitingDevice) -> Form {
    let mut form = Form::new(title, format!("{AT}/{word}"), submit, Vec::new());
    form.hide("code", device.code.clone());
    form
}

fn approve_form(device: &WaitingDevice) -> Form {
    decide_form("The code is the same", "approve", "Approve", device)
}

fn decision(person: &Person, device: &WaitingDevice, approve: Form) -> Page {
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
    let deny = decide_form("It is not, or I did not ask", "deny", "Deny", device).grave();
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

pub(super) async fn approve(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let code = fields.text("code");
    let service = &console.service;
    let approved = service.approve_device(&person.caller, code);
    let Err(fault) = approved.await else {
        let text = "The machine is signed in as you within a few seconds. You may close this page.";
        return Ok(decided(&person, text));
    };
    if !matches!(fault, Fault::Invalid(_) | Fault::Conflict(_)) {
        return Err(fault);
    }
    match service.waiting_device(&person.caller, code).await {
        Ok(device) => {
            let (form, status) = approve_form(&device).refused(fault)?;
            Ok(decision(&person, &device, form).with_status(status))
        }
        Err(_) => refused(&person, code, fault),
    }
}

pub(super) async fn deny(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let code = fields.text("code");
    match console.service.deny_device(&person.caller, code).await {
        Ok(()) => Ok(decided(
            &person,
            "The machine was told no. Nothing was given to it.",
        )),
        Err(fault) => refused(&person, code, fault),
    }
}

fn refused(person: &Person, code: &str, fault: Fault) -> Result<Response, Fault> {
    let (form, status) = code_form(code).refused(fault)?;
    Ok(page(person, form).with_status(status))
}

fn decided(person: &Person, text: &'static str) -> Response {
    let mut page = person.page("Sign a machine in", AT);
    page.done = Some(text.to_owned());
    page.with_status(StatusCode::OK)
}
