//! The own passkeys.

use super::forms::Posted;
use super::notice::done;
use super::paths::SECOND_FACTOR;
use super::person::Person;
use super::recovery_codes::codes_page;
use super::state::Console;
use super::view::{Cell, Field, Form, Page, PasskeyKind, Section, Table};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_portal_service::{OwnPasskey, Question};

/// The page with one of the own passkeys.
fn at(handle: &str) -> String {
    format!("/me/passkeys/{handle}")
}

/// The own passkeys, for the page of the second factor.
pub(super) async fn sections(console: &Console, person: &Person) -> Result<Vec<Section>, Fault> {
    let keys = console.service.own_passkeys(&person.caller).await?;
    let rows = keys.iter().map(|key| {
        vec![
            Cell::link(at(&key.handle), &key.name),
            Cell::time(Some(key.created)),
            Cell::time(key.last_used),
        ]
    });
    let mut sections = vec![Section::Table(Table {
        title: "Passkeys".to_owned(),
        columns: vec!["Name", "Since", "Last used"],
        rows: rows.collect(),
        empty: "None. A passkey signs you in with your fingerprint, face or PIN instead of a password, and no \
                other site can ask for it.".into(),
        ..Table::default()
    })];
    if console.service.relying_party().is_none() {
        sections.push(Section::Alert(
            "Passkeys are bound to a name, and this portal is at an address. Whoever runs it gives it a name \
             by “culvert portal run --url https://NAME”."
                .to_owned(),
        ));
        return Ok(sections);
    }
    sections.push(Section::Form(begin_form("")));
    Ok(sections)
}

pub(super) fn begin_form(name: &str) -> Form {
    let name = Field::line("name", "What you call it")
        .hint("For you to know it by, such as “Phone” or “Key in the drawer”.")
        .value(name);
    Form::new("Add a passkey", "/me/passkeys", "Go on", vec![name])
}

/// The page on which the authenticator makes the key.
fn make_page(person: &Person, name: &str, question: Question) -> Page {
    let mut form = Form::new(
        "Create the passkey",
        "/me/passkeys/confirm",
        "Create the passkey",
        Vec::new(),
    );
    form.hide("name", name.to_owned());
    let mut page = person.page("Add a passkey", "/me");
    let form = form.for_passkey(PasskeyKind::Create, question);
    page.sections.push(Section::Form(form));
    page
}

pub(super) async fn begin(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let name = fields.text("name");
    let begun = match name {
        "" => Err(Fault::invalid("name", "give it a name")),
        _ => console.service.begin_passkey(&person.caller).await,
    };
    match begun {
        Ok(question) => Ok(make_page(&person, name, question).into_response()),
        Err(fault) => {
            let (form, status) = begin_form(name).refused(fault)?;
            let mut page = person.page("Add a passkey", "/me");
            page.sections.push(Section::Form(form));
            Ok(page.with_status(status))
        }
    }
}

pub(super) async fn confirm(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let name = fields.text("name");
    let confirmed = console
        .service
        .confirm_passkey(&person.caller, name, fields.raw("credential"))
        .await;
    match confirmed {
        Ok(Some(codes)) => Ok(codes_page(&person, &codes).into_response()),
        Ok(None) => Ok(done(
            SECOND_FACTOR,
            &format!("You may sign in with the passkey {name}."),
        )),
        Err(fault) => {
            let (form, status) = begin_form(name).refused(fault)?;
            let mut page = person.page("Add a passkey", "/me");
            page.sections.push(Section::Form(form));
            Ok(page.with_status(status))
        }
    }
}

fn rename_form(key: &OwnPasskey) -> Form {
    let name = Field::line("name", "What you call it").value(&*key.name);
    Form::new(
        "Rename",
        format!("{}/name", at(&key.handle)),
        "Rename",
        vec![name],
    )
}

fn remove_form(key: &OwnPasskey) -> Form {
    let action = format!("{}/remove", at(&key.handle));
    Form::new("Remove", action, "Remove the passkey", Vec::new()).grave()
}

/// The form that was refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Rename,
    Remove,
}

pub(super) async fn show(
    State(console): State<Console>,
    Path(handle): Path<String>,
    person: Person,
) -> Result<Response, Fault> {
    let (page, status) = one(&console, &person, &handle, None).await?;
    Ok(page.with_status(status))
}

async fn one(
    console: &Console,
    person: &Person,
    handle: &str,
    mut refused: Option<(Step, Fault)>,
) -> Result<(Page, StatusCode), Fault> {
    let key = console.service.own_passkey(&person.caller, handle).await?;
    let mut page = person.page(format!("Passkey {}", key.name), "/me");
    page.sections.push(Section::Facts {
        title: "Use".to_owned(),
        facts: vec![
            ("Since", Cell::time(Some(key.created))),
            ("Last used", Cell::time(key.last_used)),
        ],
    });
    let mut status = StatusCode::OK;
    for (step, mut form) in [
        (Step::Rename, rename_form(&key)),
        (Step::Remove, remove_form(&key)),
    ] {
        if let Some((_, fault)) = refused.take_if(|(which, _)| *which == step) {
            (form, status) = form.refused(fault)?;
        }
        page.sections.push(Section::Form(form));
    }
    Ok((page, status))
}

async fn refused(
    console: &Console,
    person: &Person,
    handle: &str,
    step: Step,
    fault: Fault,
) -> Result<Response, Fault> {
    let (page, status) = one(console, person, handle, Some((step, fault))).await?;
    Ok(page.with_status(status))
}

pub(super) async fn rename(
    State(console): State<Console>,
    Path(handle): Path<String>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let name = fields.text("name");
    let service = &console.service;
    match service.rename_passkey(&person.caller, &handle, name).await {
        Ok(()) => Ok(done(&at(&handle), &format!("Renamed to {name}."))),
        Err(fault) => refused(&console, &person, &handle, Step::Rename, fault).await,
    }
}

pub(super) async fn remove(
    State(console): State<Console>,
    Path(handle): Path<String>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    let removed = console
        .service
        .remove_passkey(&person.caller, &handle)
        .await;
    match removed {
        Ok(()) => Ok(done(SECOND_FACTOR, "The passkey is removed.")),
        Err(fault) => refused(&console, &person, &handle, Step::Remove, fault).await,
    }
}
