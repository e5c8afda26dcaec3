//! The list of people and machines, and new ones.

use super::asked::Asked;
use super::edit::{Edit, Now};
use super::forms::{Posted, taken};
use super::invitations::INVITE;
use super::listing::{Listing, RowState};
use super::notice::done;
use super::paths::PEOPLE;
use super::person::Person;
use super::roles::role_name;
use super::selected::{Act, Selection};
use super::state::Console;
use super::view::{Cell, Field, Form, Page, Section};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::{Fault, now};
use culvert_store::{EntityKind, OrderBy, Part};
use culvert_wire::Timestamp;
use culvert_wire::api::{AccountPatch, Actor, ActorKind, NewActor, SecondFactorRule, SignIn};

pub(super) const AT: &str = PEOPLE;

const KINDS: &[(&str, &str)] = &[
    ("user", "a person"),
    ("admin", "a person who administers"),
    ("service_account", "a machine"),
];

const RULES: &[(&str, &str)] = &[
    ("off", "nobody"),
    ("administrators", "all roles but user"),
    ("everybody", "everybody who signs in with a password"),
];

const fn rule_name(rule: SecondFactorRule) -> &'static str {
    match rule {
        SecondFactorRule::Off => "off",
        SecondFactorRule::Administrators => "administrators",
        SecondFactorRule::Everybody => "everybody",
    }
}

pub(super) const fn kind_name(kind: ActorKind) -> &'static str {
    match kind {
        ActorKind::Admin => "admin",
        ActorKind::User => "user",
        ActorKind::ServiceAccount => "service account",
    }
}

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked).await?;
    Ok(page.into_response())
}

fn new_form(name: &str, kind: &str) -> Form {
    let fields = vec![
        Field::line("name", "Name").value(name),
        Field::choice("kind", "Person or machine", KINDS).value(kind),
    ];
    Form::new("New person or machine", AT, "Create", fields)
}

pub(super) fn state(actor: &Actor) -> Cell {
    let is_new = |sign_in: &SignIn| sign_in.password_set.is_none();
    match invitation_of(actor) {
        _ if actor.disabled => Cell::bad("disabled"),
        Some(ends) if actor.sign_in.as_ref().is_some_and(is_new) => match ends <= now() {
            true => Cell::bad("invitation ended"),
            false => Cell::warn(format_args!("invited until {}", day(ends))),
        },
        _ => Cell::good("active"),
    }
}

/// The end of the link by which the person may set a password.
pub(super) fn invitation_of(actor: &Actor) -> Option<Timestamp> {
    actor.sign_in?.invitation_ends
}

/// The day of an instant, in UTC.
fn day(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

/// The role of a person, or that it is a machine.
pub(super) fn role_of(actor: &Actor) -> Cell {
    let role = actor.sign_in.map(|sign_in| role_name(sign_in.role));
    Cell::text(role.unwrap_or_else(|| kind_name(actor.kind)))
}

pub(super) fn sign_in_of(actor: &Actor) -> Cell {
    match actor.sign_in {
        Some(sign_in) => {
            let with = match (
                sign_in.second_factor.is_some() || sign_in.passkeys > 0,
                sign_in,
            ) {
                (true, _) => "with a second factor",
                (
                    false,
                    SignIn {
                        password_set: Some(_),
                        ..
                    },
                ) => "by password alone",
                (false, _) => "without a password",
            };
            Cell::text(with)
        }
        None => Cell::plain("no"),
    }
}

pub(super) async fn ask(person: Person) -> Result<Response, Fault> {
    person.caller.may_change()?;
    Ok(person
        .form_page("New person or machine", AT, new_form("", "user"))
        .into_response())
}

const LISTING: Listing = Listing {
    at: AT,
    title: "People and machines",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("Role", None),
        ("Signs in", None),
        ("State", None),
    ],
    states: &[
        RowState::new("administrators", "Administrators", Part::Administrators),
        RowState::new("invited", "Invited", Part::InvitedActors),
        RowState::new("disabled", "Disabled", Part::DisabledActors),
    ],
    hint: "Name",
    empty: "There is none.",
};

const SELECTION: Selection = Selection {
    at: AT,
    kind: EntityKind::Actor,
    one: "person",
    many: "people",
    acts: &[
        (Act::AddToGroup, ""),
        (
            Act::Disable,
            "They can't sign in, and their machines lose all access at once. Enabled again, the machines come back by \
             themselves.",
        ),
        (Act::Enable, ""),
        (
            Act::Delete,
            "They are gone for good. A person who still has machines or tokens is not deleted.",
        ),
    ],
};

pub(super) async fn change_selected(
    State(console): State<Console>,
    posted: Posted,
) -> Result<Response, Fault> {
    SELECTION.send(&console, posted).await
}

async fn list_page(console: &Console, person: &Person, asked: &Asked) -> Result<Page, Fault> {
    let found = console
        .service
        .actors(&person.caller, &LISTING.request(asked))
        .await?;
    let rows = found.items.iter().map(|actor| {
        vec![
            Cell::link(format!("{AT}/{}", actor.id), &actor.name),
            role_of(actor),
            sign_in_of(actor),
            state(actor),
        ]
    });
    let mut list = LISTING.table(asked, found.total, rows.collect());
    let shown = found
        .items
        .iter()
        .map(|actor| (actor.id, actor.version, actor.name.as_str()));
    SELECTION.offer(person, &mut list, shown);
    let mut page = person.searched_page(AT, list, Some(INVITE));
    if person.may_change() {
        let account = console.service.account(&person.caller).await?;
        let form = rule_form(rule_name(account.second_factor));
        let form = form.with_version(account.version);
        page.sections.push(Section::Form(form));
    }
    Ok(page)
}

fn rule_form(rule: &str) -> Form {
    let rule = Field::choice("second_factor", "Required for", RULES).value(rule);
    Form::new("Second factor", "/people/second-factor", "Set", vec![rule])
}

/// Sets who must have a second factor.
pub(super) async fn require_factor(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let patch = AccountPatch {
        second_factor: Some(fields.word("second_factor")?),
        ..AccountPatch::default()
    };
    let version = fields.version()?;
    let service = &console.service;
    let changed = service.change_account(&person.caller, version, patch).await;
    let edit = Edit {
        person: &person,
        fields: &fields,
        at: AT,
        form: rule_form(fields.text("second_factor")),
        onward: (
            AT.to_owned(),
            "The rule for second factors is changed.".to_owned(),
        ),
    };
    let now = async {
        let account = service.account(&person.caller).await?;
        let rule = rule_name(account.second_factor);
        let label = RULES.iter().find(|(word, _)| *word == rule);
        Ok(Now {
            facts: vec![(
                "Required for",
                Cell::text(label.map_or(rule, |(_, label)| *label)),
            )],
            version: account.version,
        })
    };
    edit.finish(changed, now).await
}

pub(super) async fn create(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let made = async {
        let new = NewActor {
            kind: fields.word("kind")?,
            name: fields.text("name").to_owned(),
        };
        console.service.create_actor(&person.caller, new).await
    };
    let onward = |actor: Actor| {
        done(
            &format!("{AT}/{}", actor.id),
            &format!("{} created.", actor.name),
        )
    };
    let form = || new_form(fields.text("name"), fields.text("kind"));
    let page = async |form| Ok(person.form_page("New person or machine", AT, form));
    taken(made.await, form, onward, page).await
}
