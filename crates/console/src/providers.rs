//! Identity providers, by which people sign in.

use super::asked::Asked;
use super::fields::Fields;
use super::forms::Posted;
use super::listing::Listing;
use super::names::Names;
use super::notice::done;
use super::person::Person;
use super::state::Console;
use super::view::{Action, Cell, Field, Form, Link, Page, Section, listed};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use culvert_ids::ProviderId;
use culvert_portal_base::{Fault, Id, Problems};
use culvert_store::OrderBy;
use culvert_wire::api::{FieldProblem, Provider, ProviderGroup, ProviderPatch, UnknownPeople};

/// Characters of a wrong line that its fault repeats.
const LINE: usize = 40;

pub(super) const AT: &str = "/settings/providers";

const UNKNOWN: &[(&str, &str)] = &[
    ("refuse", "refuse: an administrator links them first"),
    ("make", "create: they become actors of kind user"),
];

const STATES: &[(&str, &str)] = &[
    ("no", "people sign in by it"),
    ("yes", "disabled: nobody signs in by it"),
];

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked).await?;
    Ok(page.into_response())
}

const LISTING: Listing = Listing {
    at: AT,
    title: "Identity providers",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("Issuer", None),
        ("State", None),
    ],
    states: &[],
    hint: "Name or issuer",
    empty: "There is none: people sign in with passwords of this portal.",
};

async fn list_page(console: &Console, person: &Person, asked: &Asked) -> Result<Page, Fault> {
    let found = console
        .service
        .providers(&person.caller, &LISTING.request(asked))
        .await?;
    let rows = found.items.iter().map(|provider| {
        vec![
            Cell::link(format!("{AT}/{}", provider.id), &provider.name),
            Cell::code(&provider.issuer),
            match provider.disabled {
                true => Cell::bad("disabled"),
                false => Cell::good("active"),
            },
        ]
    });
    let list = LISTING.table(asked, found.total, rows.collect());
    Ok(person.searched_page(
        AT,
        list,
        Some(Link {
            path: "/settings/providers/new",
            name: "New identity provider",
        }),
    ))
}

/// The values in the fields of new and of existing providers.
pub(super) struct Filled<'a> {
    pub(super) client_id: &'a str,
    pub(super) ca: &'a str,
    pub(super) scopes: &'a str,
    pub(super) groups_claim: &'a str,
    pub(super) groups: &'a str,
    pub(super) unknown: &'a str,
}

pub(super) fn common_fields(filled: &Filled<'_>) -> Vec<Field> {
    vec![
        Field::line("client_id", "Client id").value(filled.client_id),
        Field::password("client_secret", "Client secret", "off")
            .optional()
            .hint("It is never shown. Left empty, it stays what it is."),
        Field::line("scopes", "Scopes beside openid")
            .optional()
            .value(filled.scopes),
        Field::line("groups_claim", "Claim with groups")
            .optional()
            .hint("Such as “groups”, “realm_access.roles” or “/realm_access/roles”; without one, the provider brings no groups.")
            .value(filled.groups_claim),
        Field::lines("groups", "Groups")
            .hint("A line each: a value of the claim, “=”, and the name of a group here.")
            .value(filled.groups),
        Field::choice("unknown_people", "People whom nobody knows yet", UNKNOWN)
            .value(filled.unknown),
        Field::lines("ca", "Certificate authorities")
            .hint("In PEM, where no authority that the portal's system trusts vouches for it.")
            .value(filled.ca),
    ]
}

/// `staff=Staff` on a line each.
pub(super) async fn groups(
    console: &Console,
    person: &Person,
    fields: &Fields,
) -> Result<Vec<ProviderGroup>, Fault> {
    let mut problems = Problems::default();
    let mut groups = Vec::new();
    for (index, line) in fields.lines("groups").into_iter().enumerate() {
        let field = format!("groups[{index}]");
        let Some((value, name)) = line.rsplit_once('=') else {
            let shown = listed(&[line], LINE);
            let detail = format!("“{shown}” is not like “value=Group”");
            problems.take::<()>(Err(Fault::invalid(field, detail)))?;
            continue;
        };
        let group = console.service.group_named(&person.caller, name.trim());
        let group = group.await.map_err(|fault| fault.at_field(&field));
        groups.extend(problems.take(group)?.map(|group| ProviderGroup {
            value: value.trim().to_owned(),
            group: group.id,
        }));
    }
    problems.finish()?;
    Ok(groups)
}

pub(super) fn unknown_people(fields: &Fields) -> Result<UnknownPeople, Fault> {
    match fields.text("unknown_people") {
        "make" => Ok(UnknownPeople::Make),
        "refuse" => Ok(UnknownPeople::Refuse),
        other => {
            let problem = FieldProblem {
                field: "unknown_people".to_owned(),
                detail: format!("“{other}” is neither “refuse” nor “make”"),
            };
            Err(Fault::Invalid(vec![problem]))
        }
    }
}

pub(super) fn words(fields: &Fields, name: &str) -> Vec<String> {
    let words = fields.text(name).split_whitespace();
    words.map(str::to_owned).collect()
}

/// The secret in the form, if it has one.
pub(super) fn secret(fields: &Fields) -> Option<String> {
    let secret = fields.raw("client_secret").to_owned();
    Some(secret).filter(|secret| !secret.is_empty())
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    Id(id): Id<ProviderId>,
) -> Result<Response, Fault> {
    let provider = console.service.provider(&person.caller, id).await?;
    let now = as_it_is(&console, &person, &provider).await?;
    let form = form_as_it_is(&provider, &now);
    let page = provider_page(&person, &provider, form);
    Ok(page.into_response())
}

/// The present settings, in the words of the form.
struct AsItIs {
    scopes: String,
    groups: String,
    unknown: &'static str,
    disabled: &'static str,
}

async fn as_it_is(
    console: &Console,
    person: &Person,
    provider: &Provider,
) -> Result<AsItIs, Fault> {
    let groups = provider.groups.iter().map(|mapped| mapped.group.into());
    let names = Names::of(console, person, groups).await?;
    let lines = provider.groups.iter();
    let lines = lines.map(|mapped| format!("{}={}", mapped.value, names.text(mapped.group)));
    let lines: Vec<_> = lines.collect();
    Ok(AsItIs {
        scopes: provider.scopes.join(" "),
        groups: lines.join("\n"),
        unknown: match provider.unknown_people {
            UnknownPeople::Refuse => "refuse",
            UnknownPeople::Make => "make",
        },
        disabled: if provider.disabled { "yes" } else { "no" },
    })
}

fn change_form(provider: &Provider, name: &str, filled: &Filled<'_>, disabled: &str) -> Form {
    let mut fields = vec![Field::line("name", "Name").value(name)];
    fields.extend(common_fields(filled));
    fields.push(Field::choice("disabled", "State", STATES).value(disabled));
    let at = format!("{AT}/{}", provider.id);
    Form::new("Change", at, "Change", fields).with_version(provider.version)
}

fn form_as_it_is(provider: &Provider, now: &AsItIs) -> Form {
    let filled = Filled {
        client_id: &provider.client_id,
        ca: provider.ca.as_deref().unwrap_or_default(),
        scopes: &now.scopes,
        groups_claim: provider.groups_claim.as_deref().unwrap_or_default(),
        groups: &now.groups,
        unknown: now.unknown,
    };
    change_form(provider, &provider.name, &filled, now.disabled)
}

/// The form with everything that somebody has written, so that nothing of it is lost.
fn form_as_written(provider: &Provider, fields: &Fields) -> Form {
    let filled = Filled {
        client_id: fields.text("client_id"),
        ca: fields.text("ca"),
        scopes: fields.text("scopes"),
        groups_claim: fields.text("groups_claim"),
        groups: fields.text("groups"),
        unknown: fields.text("unknown_people"),
    };
    change_form(
        provider,
        fields.text("name"),
        &filled,
        fields.text("disabled"),
    )
}

fn provider_page(person: &Person, provider: &Provider, form: Form) -> Page {
    let mut page = person.page(&provider.name, AT);
    let mut facts = vec![
        ("Issuer", Cell::code(&provider.issuer)),
        (
            "Redirect URI, to be told to it",
            Cell::code(&provider.redirect_uri),
        ),
        (
            "Client secret",
            match provider.secret_set {
                Some(_) => Cell::good("set"),
                None => Cell::plain("none: a public client"),
            },
        ),
        ("Secret since", Cell::time(provider.secret_set)),
    ];
    if person.may_change() {
        let delete = Action {
            name: "Delete",
            what: provider.name.clone(),
            path: format!("{AT}/{}/delete", provider.id),
            version: Some(provider.version),
            is_grave: true,
            loss: Some("Nobody signs in by it any more, and who is linked with it is not."),
        };
        facts.push(("Actions", Cell::Actions(vec![delete])));
    }
    page.sections.push(Section::Facts {
        title: "Identity provider".to_owned(),
        facts,
    });
    if person.may_change() {
        page.sections.push(Section::Form(form));
    }
    page
}

pub(super) async fn change(
    State(console): State<Console>,
    Id(id): Id<ProviderId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let changed = async {
        let (service, caller) = (&console.service, &person.caller);
        let version = fields.version()?;
        caller.may_change()?;
        let mut problems = Problems::default();
        let patch = ProviderPatch {
            name: Some(fields.text("name").to_owned()),
            client_id: Some(fields.text("client_id").to_owned()),
            client_secret: secret(&fields),
            ca: Some(fields.text("ca").to_owned()),
            scopes: Some(words(&fields, "scopes")),
            groups_claim: Some(fields.text("groups_claim").to_owned()),
            groups: problems.take(groups(&console, &person, &fields).await)?,
            unknown_people: Some(unknown_people(&fields)?),
            disabled: Some(fields.text("disabled") == "yes"),
        };
        problems.take(service.check_provider(caller, id, &patch).await)?;
        problems.finish()?;
        service.change_provider(caller, id, version, patch).await
    };
    match changed.await {
        Ok(provider) => Ok(done(
            &format!("{AT}/{id}"),
            &format!("Identity provider {} changed.", provider.name),
        )),
        Err(Fault::VersionConflict { .. }) => {
            let provider = console.service.provider(&person.caller, id).await?;
            let now = as_it_is(&console, &person, &provider).await?;
            let mut form = form_as_written(&provider, &fields);
            let text = "Somebody else has changed it meanwhile: above is how it is now. Send this again to \
                        have it as you wrote it.";
            form.problem = Some(text.to_owned());
            let mut page = provider_page(&person, &provider, form);
            page.sections.insert(0, how_it_is(&provider, &now));
            Ok(page.with_status(StatusCode::CONFLICT))
        }
        Err(fault) => {
            let provider = console.service.provider(&person.caller, id).await?;
            let (form, status) = form_as_written(&provider, &fields).refused(fault)?;
            let page = provider_page(&person, &provider, form);
            Ok(page.with_status(status))
        }
    }
}

fn how_it_is(provider: &Provider, now: &AsItIs) -> Section {
    let claim = provider.groups_claim.clone().unwrap_or_default();
    Section::Facts {
        title: "How it is now".to_owned(),
        facts: vec![
            ("Name", Cell::text(&provider.name)),
            ("Client id", Cell::code(&provider.client_id)),
            (
                "Certificate authorities",
                Cell::code(provider.ca.as_deref().unwrap_or_default()),
            ),
            ("Scopes", Cell::code(&now.scopes)),
            ("Claim with groups", Cell::code(claim)),
            ("Groups", Cell::text(&now.groups)),
            ("Unknown people", Cell::text(now.unknown)),
            ("Disabled", Cell::text(now.disabled)),
        ],
    }
}

pub(super) async fn delete(
    State(console): State<Console>,
    Id(id): Id<ProviderId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let name = console.name_of(&person, id).await?;
    console
        .service
        .delete_provider(&person.caller, id, version)
        .await?;
    Ok(done(AT, &format!("Identity provider {name} deleted.")))
}
