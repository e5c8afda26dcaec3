//! A person's own page: sessions and the password.

use super::factors;
use super::forms::Posted;
use super::identities;
use super::notice::{done, noticed};
use super::paths::SECOND_FACTOR;
use super::person::{Person, forget};
use super::recovery_codes::codes_left_if;
use super::sign_in_page::with_session;
use super::state::Console;
use super::view::{Action, Cell, Field, Form, Section, Table};
use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use culvert_ids::TokenId;
use culvert_portal_base::{Fault, Id, PublicAddress};
use culvert_wire::api::FieldProblem;

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
) -> Result<Response, Fault> {
    let page = page(&console, &person, &[]).await?;
    Ok(page.into_response())
}

async fn page(
    console: &Console,
    person: &Person,
    problems: &[FieldProblem],
) -> Result<super::view::Page, Fault> {
    let (sessions, this) = console.service.own_sessions(&person.caller).await?;
    let rows = sessions.iter().map(|session| {
        vec![
            match session.id == this {
                true => Cell::good("this one"),
                false => Cell::plain("another browser"),
            },
            Cell::time(Some(session.created)),
            Cell::time(session.last_used),
            Cell::time(session.expires),
            Cell::Actions(vec![Action {
                name: "End",
                what: format!("the session since {}", session.created),
                path: format!("/me/sessions/{}/end", session.id),
                version: None,
                is_grave: true,
                loss: Some("That browser has to sign in again."),
            }]),
        ]
    });
    let everywhere = Action {
        name: "Sign out everywhere",
        what: String::new(),
        path: "/me/sign-out-everywhere".to_owned(),
        version: None,
        is_grave: true,
        loss: Some("Every browser has to sign in again, this one included."),
    };
    let others = Action {
        name: "Sign out all others",
        path: "/me/sessions/end-others".to_owned(),
        is_grave: true,
        loss: Some("All other browsers have to sign in again."),
        ..everywhere.clone()
    };
    let factors = console.service.own_factors(&person.caller).await?;
    let fields = vec![
        Field::password("current", "Your password now", "current-password"),
        Field::password("password", "New password", "new-password").hint("12 to 256 characters."),
        Field::password("again", "New password once more", "new-password"),
    ];
    let mut form = Form::new("Change the password", "/me/password", "Change", fields);
    if !problems.is_empty() {
        form = form.with_problems(problems);
    }
    let mut page = person.page("My sign-in", "/me");
    page.sections = vec![
        Section::Table(Table {
            title: "Sessions".to_owned(),
            columns: vec!["Browser", "Since", "Last used", "Ends", "Actions"],
            rows: rows.collect(),
            ..Table::default()
        }),
        Section::Facts {
            title: "All sessions".to_owned(),
            facts: vec![
                ("But this one", Cell::Actions(vec![others])),
                ("This one included", Cell::Actions(vec![everywhere])),
            ],
        },
        Section::Facts {
            title: "Second factor".to_owned(),
            facts: vec![
                ("State", factors::state(&factors)),
                ("Recovery codes left", codes_left_if(&factors)),
                ("Change", Cell::link(SECOND_FACTOR, "Second factor")),
            ],
        },
        Section::Form(form),
    ];
    let linked = identities::own(console, person).await?;
    page.sections.extend(linked);
    Ok(page)
}

pub(super) async fn change_password(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let new = fields.raw("password");
    let changed = match fields.raw("again") == new {
        true => {
            let current = fields.raw("current");
            let service = &console.service;
            service
                .change_own_password(&person.caller, from, current, new)
                .await
        }
        false => Err(Fault::invalid("again", "it is not the same as above")),
    };
    match changed {
        Ok(begun) => {
            let notice = "The password is changed, and all other sessions have ended.";
            Ok(noticed(with_session(&begun.token, "/me"), notice))
        }
        Err(Fault::Invalid(problems)) => {
            let page = page(&console, &person, &problems).await?;
            Ok(page.with_status(StatusCode::UNPROCESSABLE_ENTITY))
        }
        Err(fault) => Err(fault),
    }
}

pub(super) async fn end_session(
    State(console): State<Console>,
    Id(id): Id<TokenId>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    console.service.end_own_session(&person.caller, id).await?;
    Ok(done("/me", "The session has ended."))
}

pub(super) async fn end_others(
    State(console): State<Console>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    console.service.end_other_sessions(&person.caller).await?;
    Ok(done("/me", "All other sessions have ended."))
}

pub(super) async fn sign_out(
    State(console): State<Console>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    console.service.sign_out(&person.caller).await?;
    Ok(signed_out())
}

pub(super) async fn sign_out_everywhere(
    State(console): State<Console>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    console.service.sign_out_everywhere(&person.caller).await?;
    Ok(signed_out())
}

fn signed_out() -> Response {
    let mut response = Redirect::to("/sign-in").into_response();
    if let Some(cookie) = forget() {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
