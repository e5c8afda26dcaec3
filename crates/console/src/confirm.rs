//! A person proves once more who they are, before acts that give access or weaken a proof. The form that asks for such
//! an act waits meanwhile, and is sent from the page that follows.

use super::asked::Asked;
use super::forms::Posted;
use super::guard;
use super::late_form;
use super::paths::{CONFIRM, page_of_form};
use super::person::{PageRefusal, Person};
use super::provider_cookie::on_the_way;
use super::second_step::code_field;
use super::state::Console;
use super::view::{Cell, Field, Form, Page, PasskeyKind, Section};
use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use culvert_ids::ProviderId;
use culvert_portal_base::{Fault, PublicAddress};
use culvert_portal_service::{PendingForm, WaysToProve};

const TITLE: &str = "Confirm that it is you";

/// Lets a form pass whose person was proven lately. Any other waits, and its person is asked.
pub(super) async fn ask(
    State(console): State<Console>,
    request: Request,
    next: Next,
) -> Result<Response, PageRefusal> {
    if request.method() != Method::POST {
        return Ok(next.run(request).await);
    }
    let (mut parts, body) = request.into_parts();
    let person = match Person::from_session(&mut parts, &console).await {
        Ok(person) => person,
        Err(refusal) => {
            let request = Request::from_parts(parts, body);
            return Err(late_form::refused(refusal, &console, request).await);
        }
    };
    if console.service.is_proven(&person.caller).await? {
        parts.extensions.insert(person);
        return Ok(next.run(Request::from_parts(parts, body)).await);
    }
    let path = parts.uri.path().to_owned();
    let posted = Posted::of(person, Request::from_parts(parts, body)).await?;
    let caller = &posted.person.caller;
    let ticket = console
        .service
        .keep_form(caller, path, posted.fields.into_stored())
        .await?;
    Ok(Redirect::to(&format!("{CONFIRM}?form={ticket}")).into_response())
}

/// Asks by what the person has.
pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    Asked(fields): Asked,
) -> Result<Response, Fault> {
    let page = page(&console, &person, fields.text("form"), None).await?;
    Ok(page.into_response())
}

async fn page(
    console: &Console,
    person: &Person,
    ticket: &str,
    refused: Option<Fault>,
) -> Result<Page, Fault> {
    let ways = console.service.ways_to_prove(&person.caller).await?;
    let stored = console.service.pending_form(&person.caller, ticket);
    let stored = stored.await?;
    let mut page = person.page(TITLE, "/me");
    let mut forms = forms(ways, ticket);
    let why = match &stored {
        Some(_) => {
            "It is more than ten minutes ago that you proved who you are. Your form has not been sent yet: what you filled \
             in waits for 15 minutes."
        }
        None => "What you confirm here holds for ten minutes.",
    };
    page.sections.push(Section::Alert(why.to_owned()));
    if forms.is_empty() {
        let text = "You have no password and no passkey here, and no identity provider knows you. Sign out, and sign in \
                    again; an administrator may have to let you.";
        page.sections.push(Section::Alert(text.to_owned()));
    }
    if let (Some(fault), Some(first)) = (refused, forms.first_mut()) {
        match fault {
            Fault::Invalid(problems) => *first = first.clone().with_problems(&problems),
            fault => return Err(fault),
        }
    }
    page.sections.extend(forms.into_iter().map(Section::Form));
    Ok(page)
}

fn forms(ways: WaysToProve, ticket: &str) -> Vec<Form> {
    let mut forms = Vec::new();
    if ways.password {
        let mut fields = vec![Field::password(
            "current",
            "Your password",
            "current-password",
        )];
        if ways.code {
            fields
                .push(code_field().hint("The six digits that your app shows, or a recovery code."));
        }
        let at = format!("{CONFIRM}/password");
        forms.push(Form::new("With your password", at, "Confirm", fields));
    }
    if let Some(question) = ways.passkey {
        let at = format!("{CONFIRM}/passkey");
        let form = Form::new("With a passkey", at, "Confirm with a passkey", Vec::new());
        forms.push(form.for_passkey(PasskeyKind::Get, question));
    }
    for (id, name) in ways.providers {
        let title = format!("With {name}");
        let mut form = Form::new(
            title,
            format!("{CONFIRM}/provider"),
            "Sign in there",
            Vec::new(),
        );
        form.hide("provider", id.to_string());
        forms.push(form);
    }
    for form in &mut forms {
        form.hide("form", ticket.to_owned());
    }
    forms
}

/// The outcome of a proof: onward to the form that waits, or the question again.
async fn proven(
    console: &Console,
    person: &Person,
    ticket: &str,
    came: Result<(), Fault>,
) -> Result<Response, Fault> {
    match came {
        Ok(()) => Ok(onward(ticket)),
        Err(fault @ Fault::Invalid(_)) => {
            let page = page(console, person, ticket, Some(fault)).await?;
            Ok(page.with_status(StatusCode::UNPROCESSABLE_ENTITY))
        }
        Err(fault) => Err(fault),
    }
}

/// To the form that waits.
pub(super) fn onward(ticket: &str) -> Response {
    Redirect::to(&page_of_form(ticket)).into_response()
}

pub(super) async fn by_password(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let (password, code) = (fields.raw("current"), fields.text("code"));
    let came = console
        .service
        .prove_by_password(&person.caller, from, password, code)
        .await;
    proven(&console, &person, fields.text("form"), came).await
}

pub(super) async fn by_passkey(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let came = console
        .service
        .prove_by_passkey(&person.caller, from, fields.raw("credential"))
        .await;
    proven(&console, &person, fields.text("form"), came).await
}

/// Begins the way to a provider. Forms lead to no other site (`form-action 'self'`), so a page with a way on comes in
/// between.
pub(super) async fn by_provider(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    headers: HeaderMap,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    guard::must_be_at_own_name(&console, &headers)?;
    let provider: ProviderId = fields.parse("provider")?;
    let form = fields.text("form").to_owned();
    let begun = console
        .service
        .begin_proof(&person.caller, from, provider, form)
        .await?;
    let name = console.service.provider_name(provider).await?;
    let on = Cell::link(&*begun.url, format_args!("Go on to {name}"));
    let mut page = person.page(TITLE, "/me");
    page.sections = vec![Section::Facts {
        title: "The provider asks you to sign in anew".to_owned(),
        facts: vec![("Identity provider", on)],
    }];
    Ok(on_the_way(&begun, page.into_response()))
}

/// The form that waited, to be sent.
pub(super) async fn done(
    State(console): State<Console>,
    person: Person,
    Asked(fields): Asked,
) -> Result<Response, Fault> {
    let ticket = fields.text("form");
    if !console.service.is_proven(&person.caller).await? {
        return Ok(Redirect::to(&format!("{CONFIRM}?form={ticket}")).into_response());
    }
    let mut page = person.page("It is you", "/me");
    page.done = Some("Confirmed for ten minutes.".to_owned());
    let stored = console.service.pending_form(&person.caller, ticket);
    match stored.await? {
        Some(stored) => page.sections.push(Section::Form(waiting_form(stored))),
        None => page.sections.push(Section::Alert(
            "No form waits any more. Fill it in once more.".to_owned(),
        )),
    }
    Ok(page.into_response())
}

fn waiting_form(stored: PendingForm) -> Form {
    let mut form = Form::new(
        "Your form is not sent yet",
        stored.path,
        "Send it now",
        Vec::new(),
    );
    for (name, value) in stored.fields {
        form.hide(name, value.to_string());
    }
    form
}
