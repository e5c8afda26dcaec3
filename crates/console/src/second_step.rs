//! The second step of signing in, after a password that was right: a code or a passkey.

use super::fields::Fields;
use super::paths::next_page;
use super::sign_in_page::{page, sentence, sign_in_again, with_session};
use super::state::Console;
use super::view::{Field, Form, Kind, Page, PasskeyKind, Section};
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use culvert_portal_base::{Fault, PublicAddress};
use culvert_portal_service::Question;

/// The field for a code of an app, which browsers fill in.
pub(super) fn code_field() -> Field {
    let mut field = Field::line("code", "Code");
    if let Kind::Line { autocomplete, .. } = &mut field.kind {
        *autocomplete = "one-time-code";
    }
    field
}

/// The form that follows a password that was right.
fn code_form(ticket: &str, next: &str) -> Form {
    let code = code_field().hint("The six digits that your app shows, or a recovery code.");
    let mut form = Form::new("Second factor", "/sign-in/code", "Sign in", vec![code]);
    form.hide("ticket", ticket.to_owned());
    form.hide("next", next.to_owned());
    form
}

/// The second step of signing in.
pub(super) async fn by_code(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    fields: Fields,
) -> Result<Response, Fault> {
    let next = next_page(fields.text("next"));
    let ticket = fields.text("ticket");
    let begun = console
        .service
        .sign_in_by_code(from, ticket, fields.text("code"))
        .await;
    match begun {
        Ok(begun) => Ok(with_session(&begun.token, &next)),
        Err(Fault::Invalid(problems)) => {
            let form = code_form(ticket, &next).with_problems(&problems);
            Ok(page("Sign in", form, Vec::new()).with_status(StatusCode::UNPROCESSABLE_ENTITY))
        }
        Err(Fault::Unauthenticated) => {
            let why = "It took too long, or too many codes were wrong. Begin again.";
            sign_in_again(&console, &next, why).await
        }
        Err(fault) => Err(fault),
    }
}

/// The form that follows a right password, for people with passkeys.
fn passkey_form(ticket: &str, next: &str, question: Question) -> Form {
    let mut form = Form::new(
        "Passkey",
        "/sign-in/passkey/second",
        "Go on with a passkey",
        Vec::new(),
    );
    form.hide("ticket", ticket.to_owned());
    form.hide("next", next.to_owned());
    form.for_passkey(PasskeyKind::Get, question)
}

/// The second step of signing in, by a passkey.
pub(super) async fn by_passkey(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    fields: Fields,
) -> Result<Response, Fault> {
    let next = next_page(fields.text("next"));
    let ticket = fields.text("ticket");
    let begun = console
        .service
        .sign_in_by_passkey_after_password(from, ticket, fields.raw("credential"))
        .await;
    match begun {
        Ok(begun) => Ok(with_session(&begun.token, &next)),
        Err(Fault::Invalid(problems)) => {
            let page = second_step(&console, ticket, &next).await?;
            let why = sentence(problems.into_iter().map(|problem| problem.detail));
            let page = page.with_problem(&why);
            Ok(page.with_status(StatusCode::UNPROCESSABLE_ENTITY))
        }
        Err(Fault::Unauthenticated) => {
            let why = "It took too long. Begin again.";
            sign_in_again(&console, &next, why).await
        }
        Err(fault) => Err(fault),
    }
}

/// The page after a password that was right: a passkey, where the person has one, or a code.
pub(super) async fn second_step(
    console: &Console,
    ticket: &str,
    next: &str,
) -> Result<Page, Fault> {
    let question = console
        .service
        .ask_for_passkey_after_password(ticket)
        .await?;
    let code = code_form(ticket, next);
    Ok(match question {
        Some(question) => page(
            "Sign in",
            passkey_form(ticket, next, question),
            vec![Section::Form(code)],
        ),
        None => page("Sign in", code, Vec::new()),
    })
}
