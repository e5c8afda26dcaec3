//! The own second factor.

use super::drawing::Drawing;
use super::forms::Posted;
use super::notice::done;
use super::passkeys;
use super::paths::SECOND_FACTOR;
use super::person::Person;
use super::recovery_codes::{codes_left, codes_page};
use super::second_step::code_field;
use super::state::Console;
use super::view::{Cell, Form, Page, Section};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_portal_service::{Enrolment, OwnFactors};

/// The state of the second factor, for a person's own page.
pub(super) fn state(factors: &OwnFactors) -> Cell {
    let keys = match factors.passkeys {
        0 => None,
        1 => Some("a passkey".to_owned()),
        count => Some(format!("{count} passkeys")),
    };
    let app = factors.since.map(|since| format!("an app, since {since}"));
    let factors_of: Vec<_> = keys.into_iter().chain(app).collect();
    match (factors_of.is_empty(), factors.is_required) {
        (false, _) => Cell::good(factors_of.join("; ")),
        (true, true) => Cell::bad("none, though one is required"),
        (true, false) => Cell::plain("none"),
    }
}

fn begin_form(factors: &OwnFactors) -> Form {
    let title = match factors.since {
        Some(_) => "Set up another app in its place",
        None => "Set up an authenticator app",
    };
    Form::new(title, SECOND_FACTOR, "Begin", Vec::new())
}

fn codes_form() -> Form {
    Form::new(
        "New recovery codes",
        "/me/recovery-codes",
        "Create",
        Vec::new(),
    )
}

fn remove_form() -> Form {
    let mut form = Form::new(
        "Sign in without the app",
        "/me/second-factor/remove",
        "Remove the app",
        Vec::new(),
    );
    form.is_grave = true;
    form
}

/// The form that was refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    Codes,
    Remove,
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
) -> Result<Response, Fault> {
    let (page, _) = overview(&console, &person, None).await?;
    Ok(page.into_response())
}

async fn overview(
    console: &Console,
    person: &Person,
    refused: Option<(Step, Fault)>,
) -> Result<(Page, StatusCode), Fault> {
    let factors = console.service.own_factors(&person.caller).await?;
    let mut page = person.page("Second factor", "/me");
    if person.caller.must_enrol() {
        page.sections.push(Section::Alert(
            "Your organisation asks for a second factor. Set one up to go on.".to_owned(),
        ));
    }
    let mut facts = vec![("Second factor", state(&factors))];
    if factors.has_any() {
        facts.push(("Recovery codes left", codes_left(factors.recovery_codes)));
    }
    page.sections.push(Section::Facts {
        title: "How you sign in".to_owned(),
        facts,
    });
    if !factors.has_password {
        page.sections.push(Section::Alert(
            "You sign in by an identity provider, which asks for what it wants. A second factor of this portal would \
             stand beside a password, and you have none here."
                .to_owned(),
        ));
        return match refused {
            Some((_, fault)) => Err(fault),
            None => Ok((page, StatusCode::OK)),
        };
    }
    page.sections
        .extend(passkeys::sections(console, person).await?);
    let mut forms = vec![(Step::Begin, begin_form(&factors))];
    if factors.has_any() {
        forms.push((Step::Codes, codes_form()));
    }
    if factors.since.is_some() && (factors.passkeys > 0 || !factors.is_required) {
        forms.push((Step::Remove, remove_form()));
    }
    let mut status = StatusCode::OK;
    let mut refused = refused;
    for (step, mut form) in forms {
        if refused.as_ref().is_some_and(|(which, _)| *which == step)
            && let Some((_, fault)) = refused.take()
        {
            (form, status) = form.refused(fault)?;
        }
        page.sections.push(Section::Form(form));
    }
    match refused {
        // There is no form for it any more.
        Some((_, fault)) => Err(fault),
        None => Ok((page, status)),
    }
}

async fn refused(
    console: &Console,
    person: &Person,
    step: Step,
    fault: Fault,
) -> Result<Response, Fault> {
    let (page, status) = overview(console, person, Some((step, fault))).await?;
    Ok(page.with_status(status))
}

fn confirm_form() -> Form {
    let code = code_field().hint("The six digits that the app shows now.");
    Form::new(
        "Confirm",
        "/me/second-factor/confirm",
        "Confirm",
        vec![code],
    )
}

fn enrolment_page(person: &Person, enrolment: &Enrolment, confirm: Form) -> Page {
    let mut page = person.page("Set up an authenticator app", "/me");
    if let Some(drawing) = Drawing::qr(&enrolment.uri) {
        page.sections.push(Section::Drawing {
            title: "Scan this with your app".to_owned(),
            drawing,
        });
    }
    page.sections.push(Section::Copy {
        title: "Or type this secret into it".to_owned(),
        note: "It counts once a code has confirmed it, and is not shown afterwards.".to_owned(),
        text: enrolment.secret.to_string(),
    });
    page.sections.push(Section::Form(confirm));
    page
}

pub(super) async fn begin(
    State(console): State<Console>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    let begun = console.service.begin_enrolment(&person.caller).await;
    match begun {
        Ok(enrolment) => Ok(enrolment_page(&person, &enrolment, confirm_form()).into_response()),
        Err(fault) => refused(&console, &person, Step::Begin, fault).await,
    }
}

pub(super) async fn confirm(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let confirmed = console
        .service
        .confirm_enrolment(&person.caller, fields.text("code"))
        .await;
    match confirmed {
        Ok(codes) => Ok(codes_page(&person, &codes).into_response()),
        Err(fault @ Fault::Invalid(_)) => {
            // The app may have read the picture wrongly: it stays until the next code.
            let begun = console.service.begun_enrolment(&person.caller).await?;
            let Some(enrolment) = begun else {
                return refused(&console, &person, Step::Begin, fault).await;
            };
            let (form, status) = confirm_form().refused(fault)?;
            Ok(enrolment_page(&person, &enrolment, form).with_status(status))
        }
        Err(fault) => refused(&console, &person, Step::Begin, fault).await,
    }
}

pub(super) async fn new_codes(
    State(console): State<Console>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    let made = console.service.new_recovery_codes(&person.caller).await;
    match made {
        Ok(codes) => Ok(codes_page(&person, &codes).into_response()),
        Err(fault) => refused(&console, &person, Step::Codes, fault).await,
    }
}

pub(super) async fn remove(
    State(console): State<Console>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    let removed = console.service.remove_own_factor(&person.caller).await;
    match removed {
        Ok(()) => Ok(done(SECOND_FACTOR, "The authenticator app is removed.")),
        Err(fault) => refused(&console, &person, Step::Remove, fault).await,
    }
}
