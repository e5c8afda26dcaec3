//! The way to another gateway: a site, a token, and the commands that start it.

use super::asked::Asked;
use super::fields::Fields;
use super::forms::{Posted, taken};
use super::paths;
use super::person::Person;
use super::state::Console;
use super::tokens::{self, Machine, MachineOwner};
use super::view::{Create, Field, Form, Page};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_store::{self as store, EntityKind};

const AT: &str = "/gateways/new";
const LIST: &str = "/gateways";
const TITLE: &str = "New gateway";

/// The way to the form, with the site filled in on the page of one.
pub(super) fn create(site: Option<&str>) -> Create {
    Create {
        path: match site {
            Some(site) => paths::asking(AT, &[("site", site)]),
            None => AT.to_owned(),
        },
        name: TITLE,
    }
}

/// The form with what was written, or what the address of its page says.
async fn form(console: &Console, person: &Person, written: &Fields) -> Result<Form, Fault> {
    let sites = console
        .service
        .choices(&person.caller, EntityKind::Site, "")
        .await?;
    let new_site = Field::line("new_site", "New site");
    let mut fields = match &*sites.names {
        [] => vec![
            new_site
                .hint("A place with gateways and the resources behind them, such as an office. It is created with the token.")
                .value(written.filled("new_site").unwrap_or("office")),
        ],
        names => {
            // The only one needs no choice.
            let only = names.first().filter(|_| names.len() == 1);
            let only = only.filter(|_| !written.has("site")).map(String::as_str);
            vec![
                Field::thing("site", "Site", EntityKind::Site)
                    .optional()
                    .value(written.filled("site").or(only).unwrap_or_default()),
                new_site
                    .optional()
                    .hint("Filled in, this site is created, and the choice above does not count.")
                    .value(written.text("new_site")),
            ]
        }
    };
    let name = Field::line("name", "Name of the token").value(written.text("name"));
    fields.push(name.hint("By it you find the token later, such as to revoke it."));
    fields.extend(tokens::uses_fields(Some(written)));
    let form = Form::new(TITLE, AT, "Create the token", fields).with_focus();
    console.with_choices(person, form).await
}

fn page(person: &Person, form: Form) -> Page {
    person.form_page(TITLE, LIST, form)
}

pub(super) async fn ask(
    State(console): State<Console>,
    person: Person,
    Asked(asked): Asked,
) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let form = form(&console, &person, &asked).await?;
    Ok(page(&person, form).into_response())
}

/// The site that the form names: a new one, or one that there is.
async fn site(console: &Console, person: &Person, fields: &Fields) -> Result<MachineOwner, Fault> {
    if let Some(name) = fields.filled("new_site") {
        return Ok(MachineOwner::NewSite(name.to_owned()));
    }
    let Some(name) = fields.filled("site") else {
        let field = match fields.has("site") {
            true => "site",
            false => "new_site",
        };
        return Err(Fault::invalid(field, "choose a site, or name a new one"));
    };
    let chosen = console
        .service
        .chosen::<store::Site>(&person.caller, name)
        .await;
    let chosen = chosen.map_err(|fault| fault.at_field("site"))?;
    Ok(MachineOwner::Site(chosen.id))
}

pub(super) async fn create_token(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let owner = site(&console, &person, &fields).await;
    let made = tokens::create_machine_token(&console, &person, &fields, Machine::Gateway, owner);
    let made = made.await;
    let again = form(&console, &person, &fields).await?;
    let page = async |form| Ok(page(&person, form));
    taken(made, || again, IntoResponse::into_response, page).await
}
