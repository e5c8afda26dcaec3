//! The page for signing in, with all ways that there are, and what ends it: a session.

use super::notice::FORGET;
use super::person::{keep, session};
use super::state::Console;
use super::view::{Field, Form, Kind, Link, Page, PasskeyKind, Section};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use culvert_portal_base::Fault;

pub(super) fn page(title: &str, form: Form, more: Vec<Section>) -> Page {
    let mut sections = vec![Section::Form(form.with_focus())];
    sections.extend(more);
    Page {
        title: title.to_owned(),
        who: None,
        at: "",
        done: None,
        create: None,
        sections,
    }
}

pub(super) fn password_form(name: &str, next: &str) -> Form {
    let mut fields = vec![
        Field::line("name", "Name").value(name),
        Field::password("password", "Password", "current-password"),
    ];
    if let Kind::Line { autocomplete, .. } = &mut fields[0].kind {
        *autocomplete = "username";
    }
    let mut form = Form::new("Sign in", "/sign-in", "Sign in", fields);
    form.hide("next", next.to_owned());
    form
}

/// The form for signing in once more, and why.
pub(super) async fn sign_in_again(
    console: &Console,
    next: &str,
    why: &str,
) -> Result<Response, Fault> {
    let mut form = password_form("", next);
    form.problem = Some(why.to_owned());
    let page = sign_in_page(console, form, next).await?;
    Ok(page.with_status(StatusCode::UNAUTHORIZED))
}

pub(super) async fn sign_in_page(console: &Console, form: Form, next: &str) -> Result<Page, Fault> {
    let ways = console.service.ways_to_sign_in().await?;
    let ways = ways.into_iter().map(|(id, name)| {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("next", next)
            .finish();
        let path = format!("/sign-in/with/{id}?{query}");
        (path, format!("Sign in with {name}"))
    });
    let ways: Vec<_> = ways.collect();
    let mut page = page("Sign in", form, Vec::new());
    if let Some(form) = passkey_form(console, next).await? {
        page.sections.push(Section::Form(form));
    }
    if !ways.is_empty() {
        page.sections.insert(0, Section::Ways(ways));
    }
    if !console.service.is_set_up().await? {
        let set_up = Link {
            path: "/set-up",
            name: "First start? Set the portal up",
        };
        page.sections.push(Section::Links(vec![set_up]));
    }
    Ok(page)
}

/// The form for signing in without a password, where the portal has a name that passkeys can be bound to.
async fn passkey_form(console: &Console, next: &str) -> Result<Option<Form>, Fault> {
    if console.service.relying_party().is_none() {
        return Ok(None);
    }
    let question = console.service.ask_for_passkey().await?;
    let mut form = Form::new(
        "With a passkey",
        "/sign-in/passkey",
        "Sign in with a passkey",
        Vec::new(),
    );
    form.hide("next", next.to_owned());
    Ok(Some(form.for_passkey(PasskeyKind::Get, question)))
}

/// The problems of a refused form, in one sentence.
pub(super) fn sentence(details: impl Iterator<Item = String>) -> String {
    let details: Vec<_> = details.collect();
    let text = details.join("; ");
    let mut letters = text.chars();
    let first = letters
        .next()
        .map(|letter| letter.to_uppercase().to_string());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// Ends the session that the browser had before another.
pub(super) async fn end_before(console: &Console, headers: &HeaderMap) -> Result<(), Fault> {
    if let Some(before) = session(headers)
        && let Ok(caller) = console.service.resume(&before).await
    {
        console.service.sign_out(&caller).await?;
    }
    Ok(())
}

/// To a page, with a session.
pub(super) fn with_session(token: &str, next: &str) -> Response {
    let mut response = Redirect::to(next).into_response();
    if let Some(cookie) = keep(token) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    // A notice is for the person who signed in before.
    response.headers_mut().append(header::SET_COOKIE, FORGET);
    response
}
