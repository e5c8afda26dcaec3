//! A new identity provider: its form, filled in by a template, and its test before it is saved.

use super::asked::Asked;
use super::fields::Fields;
use super::forms::Posted;
use super::notice::done;
use super::person::Person;
use super::provider_templates;
use super::providers::{AT, Filled, common_fields, groups, secret, unknown_people, words};
use super::state::Console;
use super::view::{Cell, Field, Form, Page, Section};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::ProviderId;
use culvert_portal_auth::oidc::{ClientTrial, Trial};
use culvert_portal_base::{Fault, Problems};
use culvert_wire::api::{NewProvider, Provider};

/// The form, with a template in it if the address names one.
pub(super) async fn ask(
    State(console): State<Console>,
    person: Person,
    Asked(asked): Asked,
) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let template = provider_templates::filled(&asked);
    let note = template.as_ref().map(|(_, note)| *note);
    let form = new_form(template.as_ref().map(|(fields, _)| fields));
    let mut page = new_page(&console, &person, form, Vec::new());
    if let Some(note) = note {
        page.sections.insert(1, Section::Note(note.to_owned()));
    }
    Ok(page.into_response())
}

/// The page of the form: the redirect URI comes first, since the provider asks for it before it has a client id. Then the
/// outcome of a test, if there is one.
fn new_page(
    console: &Console,
    person: &Person,
    form: Form,
    tested: Vec<(&'static str, Cell)>,
) -> Page {
    let mut page = person.page("New identity provider", AT);
    let ways = provider_templates::ways("/settings/providers/new");
    page.sections.push(Section::Ways(ways));
    page.sections.push(Section::Facts {
        title: "For the provider".to_owned(),
        facts: vec![("Redirect URI", Cell::code(console.service.redirect_uri()))],
    });
    if !tested.is_empty() {
        page.sections.push(Section::Facts {
            title: "Tested, and not saved yet".to_owned(),
            facts: tested,
        });
    }
    page.sections.push(Section::Form(form));
    page
}

/// The outcome of a test.
fn tested(trial: Trial) -> Vec<(&'static str, Cell)> {
    vec![
        (
            "Issuer",
            Cell::good("answers, by a certificate that is trusted"),
        ),
        ("Keys", Cell::good(format_args!("{}", trial.keys))),
        (
            "Client id and secret",
            match trial.client {
                ClientTrial::Accepted => Cell::good("accepted"),
                ClientTrial::Refused(said) => Cell::bad(said),
                ClientTrial::Unclear(said) => {
                    Cell::plain(format_args!("the provider does not tell: {said}"))
                }
            },
        ),
    ]
}

/// The fields of a new one, as they were filled in.
fn new_form(filled: Option<&Fields>) -> Form {
    let given = |name| filled.map_or("", |fields| fields.text(name));
    let mut fields = vec![
        Field::line("name", "Name")
            .hint("People read it where they sign in.")
            .value(given("name")),
        Field::line("issuer", "Issuer")
            .hint("A URL, exactly as the provider says it. It stays that.")
            .value(given("issuer")),
    ];
    let unknown = if given("unknown_people").is_empty() {
        "refuse"
    } else {
        given("unknown_people")
    };
    let scopes = match filled {
        Some(fields) => fields.text("scopes"),
        None => "profile email",
    };
    let is_secret_lost = filled.is_some_and(|fields| !fields.raw("client_secret").is_empty());
    fields.extend(common_fields(&Filled {
        client_id: given("client_id"),
        ca: given("ca"),
        scopes,
        groups_claim: given("groups_claim"),
        groups: given("groups"),
        unknown,
    }));
    if let Some(secret) = fields
        .iter_mut()
        .find(|field| field.name == "client_secret")
    {
        secret.hint = match is_secret_lost {
            true => "Type it again: no page shows a secret.",
            false => "It is never shown. A public client has none.",
        };
    }
    Form::new("New identity provider", AT, "Create", fields).with_test()
}

/// The provider that a form asks for. All wrong fields are named at once.
async fn wanted(console: &Console, person: &Person, fields: &Fields) -> Result<NewProvider, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    caller.may_change()?;
    let mut problems = Problems::default();
    let new = NewProvider {
        name: fields.text("name").to_owned(),
        issuer: fields.text("issuer").to_owned(),
        client_id: fields.text("client_id").to_owned(),
        client_secret: secret(fields),
        ca: fields.filled("ca").map(str::to_owned),
        scopes: Some(words(fields, "scopes")),
        groups_claim: fields.filled("groups_claim").map(str::to_owned),
        groups: problems
            .take(groups(console, person, fields).await)?
            .unwrap_or_default(),
        unknown_people: unknown_people(fields)?,
    };
    problems.take(service.check_new_provider(caller, new.clone()).await)?;
    problems.finish()?;
    Ok(new)
}

/// The outcome of a form that asks for a new provider.
enum Outcome {
    Created { id: ProviderId, name: String },
    Tested(Trial),
}

pub(super) async fn create(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let outcome = async {
        let (service, caller) = (&console.service, &person.caller);
        let new = wanted(&console, &person, &fields).await?;
        Ok(match fields.text("act") {
            "test" => Outcome::Tested(service.try_provider(caller, new).await?),
            _ => {
                let Provider { id, name, .. } = service.create_provider(caller, new).await?;
                Outcome::Created { id, name }
            }
        })
    };
    let form = || new_form(Some(&fields));
    match outcome.await {
        Ok(Outcome::Created { id, name }) => Ok(done(
            &format!("{AT}/{id}"),
            &format!("Identity provider {name} created."),
        )),
        Ok(Outcome::Tested(trial)) => {
            let page = new_page(&console, &person, form(), tested(trial));
            Ok(page.into_response())
        }
        Err(fault) => {
            let (form, status) = form().refused(fault)?;
            let page = new_page(&console, &person, form, Vec::new());
            Ok(page.with_status(status))
        }
    }
}
