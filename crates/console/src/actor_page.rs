//! The page of a person or a machine: how they sign in, their groups and tokens, and all that is done to them.

use super::answers;
use super::asked::Asked;
use super::edit::{
    Edit, Now, delete_form, delete_question, deleted, is_cascade, names_on, rename_form, renamed,
};
use super::forms::{Posted, taken};
use super::identities;
use super::members;
use super::notice::done;
use super::people::{AT, invitation_of, role_of, sign_in_of, state};
use super::person::Person;
use super::roles::{role_name, roles_for};
use super::state::Console;
use super::tokens::{self, Machine, MachineOwner};
use super::view::{Action, Buttons, Cell, Field, Form, Page, Section, Table};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::ActorId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::{Caller, ListRequest};
use culvert_wire::api::{Actor, ActorKind, ActorPatch, NewSignIn};

/// The things that are deleted with an actor.
const ALL: &str = "with its tokens and clients";

const PASSWORD_HINT: &str =
    "12 to 256 characters. Left empty, it stays, and the role alone changes.";

/// The same in a form that comes back: a page never has a password that was written.
const PASSWORD_AGAIN_HINT: &str = "12 to 256 characters. Write it once more. Left empty, the one that there is stays, \
                                   and the role alone changes.";

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
    Id(id): Id<ActorId>,
) -> Result<Response, Fault> {
    let page = actor_page(&console, &person, &asked, id, None).await?;
    Ok(page.into_response())
}

fn sign_in_form(person: &Person, id: ActorId, role: &str, hint: &'static str) -> Form {
    let fields = vec![
        Field::choice("role", "As", roles_for(person)).value(role).hint(
            "Their API tokens may do no more. When they no longer sign in, the tokens are revoked.",
        ),
        Field::password("password", "Password", "new-password")
            .optional()
            .hint(hint),
    ];
    let at = format!("{AT}/{id}/sign-in");
    Form::new("Let sign in", at, "Set", fields)
}

fn sign_in_form_as_is(person: &Person, actor: &Actor) -> Form {
    let role = actor
        .sign_in
        .map_or("user", |sign_in| role_name(sign_in.role));
    sign_in_form(person, actor.id, role, PASSWORD_HINT).with_version(actor.version)
}

/// `refused` stands in the place of the form with its title.
pub(super) async fn actor_page(
    console: &Console,
    person: &Person,
    asked: &Asked,
    id: ActorId,
    refused: Option<Form>,
) -> Result<Page, Fault> {
    let actor = console.service.actor(&person.caller, id).await?;
    let request = asked.part().referring_to(Some(id));
    let tokens = console.service.tokens(&person.caller, &request).await?;
    let at = format!("{AT}/{id}");
    let list = match actor.kind {
        ActorKind::ServiceAccount => "/service-accounts",
        ActorKind::Admin | ActorKind::User => AT,
    };
    let mut page = person.page(&actor.name, list);
    let mut facts = vec![
        ("Role", role_of(&actor)),
        ("State", state(&actor)),
        ("Signs in", sign_in_of(&actor)),
        ("Created", Cell::time(Some(actor.created))),
    ];
    let may_change =
        person.may_change() && console.service.may_change_actor(&person.caller, id).await?;
    if let Some(ends) = invitation_of(&actor) {
        facts.push(("Link to set a password, until", Cell::time(Some(ends))));
    }
    if may_change {
        facts.push(("Actions", person.buttons(actions(&actor))));
    } else if person.may_change() {
        let why = "Owners, and what they have, are changed by owners alone.";
        facts.push(("Changes", Cell::text(why)));
    }
    page.sections.push(Section::Facts {
        title: "About".to_owned(),
        facts,
    });
    page.sections
        .extend(answers::of_actor(console, person, &actor).await?);
    page.sections.push(Section::Table(Table {
        title: "Tokens and sessions".to_owned(),
        columns: tokens::columns(),
        rows: tokens
            .items
            .iter()
            .map(|token| tokens::row(person, token, may_change))
            .collect(),
        empty: "There is none.".into(),
        next: asked.next(&at, tokens.next_cursor.as_deref()),
        ..Table::default()
    }));
    let mut forms = vec![tokens::machine_form(&at, Machine::Client, None)];
    if may_change {
        let form = members::of_actor(console, person, id).await?;
        // They may be in every group already.
        forms.extend((!form.fields.is_empty()).then_some(form));
    }
    if actor.kind != ActorKind::ServiceAccount {
        forms.push(sign_in_form_as_is(person, &actor));
    }
    forms.push(rename_form(&at, &actor.name).with_version(actor.version));
    forms.push(delete_form(&at, ALL).with_version(actor.version));
    if let Some(refused) = refused
        && let Some(form) = forms.iter_mut().find(|form| form.title == refused.title)
    {
        *form = refused;
    }
    if may_change {
        page.sections.extend(person.forms(forms));
    }
    let linked = identities::of_actor(console, person, &actor, may_change).await?;
    page.sections.extend(linked);
    Ok(page)
}

fn actions(actor: &Actor) -> Vec<Action> {
    let buttons = Buttons {
        path: format!("{AT}/{}", actor.id),
        what: &actor.name,
        version: actor.version,
    };
    let mut actions = vec![match actor.disabled {
        true => buttons.button("Enable", "enable"),
        false => buttons.for_good(
            "Disable",
            "disable",
            "Their sessions and the connections of their clients end at once. Their clients wait, and come back within half a minute after you enable them again.",
        ),
    }];
    if actor.kind != ActorKind::ServiceAccount && !actor.disabled {
        actions.push(buttons.button("New link", "invitation"));
    }
    let Some(sign_in) = actor.sign_in else {
        return actions;
    };
    let mut at_any_version = |name, word, loss| {
        let button = buttons.for_good(name, word, loss);
        actions.push(Action {
            version: None,
            ..button
        });
    };
    if sign_in.invitation_ends.is_some() {
        at_any_version(
            "Withdraw the link",
            "withdraw",
            "The link that they have works no more. A password that they have stays.",
        );
    }
    at_any_version(
        "End all sessions",
        "end-sessions",
        "All their browsers have to sign in again.",
    );
    at_any_version(
        "End signing in",
        "end-sign-in",
        "Password, second factor, passkeys and sessions are removed. Their clients go on.",
    );
    if sign_in.second_factor.is_some() || sign_in.passkeys > 0 {
        at_any_version(
            "Remove the second factor",
            "reset-second-factor",
            "They sign in without it, until they set up another one.",
        );
    }
    actions
}

pub(super) async fn set_sign_in(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let service = &console.service;
    let set = async {
        let new = NewSignIn {
            role: fields.word("role")?,
            password: Some(fields.raw("password").to_owned()).filter(|text| !text.is_empty()),
        };
        service.set_sign_in(&person.caller, id, version, new).await
    };
    let hint = match fields.raw("password").is_empty() {
        true => PASSWORD_HINT,
        false => PASSWORD_AGAIN_HINT,
    };
    let edit = Edit {
        person: &person,
        fields: &fields,
        at: AT,
        form: sign_in_form(&person, id, fields.text("role"), hint),
        onward: (
            format!("{AT}/{id}"),
            format!(
                "The sign-in of {} is set.",
                console.name_of(&person, id).await?
            ),
        ),
    };
    let now = async {
        let actor = service.actor(&person.caller, id).await?;
        Ok(Now {
            facts: vec![
                ("Name", Cell::text(&actor.name)),
                ("State", state(&actor)),
                ("Role", role_of(&actor)),
                ("Signs in", sign_in_of(&actor)),
            ],
            version: actor.version,
        })
    };
    edit.finish(set.await, now).await
}

pub(super) async fn end_sign_in(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    let name = console.name_of(&person, id).await?;
    console
        .service
        .end_sign_in(&person.caller, id, None)
        .await?;
    let notice = format!("{name} no longer signs in.");
    Ok(done(&format!("{AT}/{id}"), &notice))
}

pub(super) async fn end_sessions(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    let name = console.name_of(&person, id).await?;
    let ended = console.service.end_sessions(&person.caller, id, None);
    ended.await?;
    let notice = format!("All sessions of {name} have ended.");
    Ok(done(&format!("{AT}/{id}"), &notice))
}

pub(super) async fn switch(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, fields }: Posted,
    disabled: bool,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let patch = ActorPatch {
        disabled: Some(disabled),
        ..ActorPatch::default()
    };
    let actor = console
        .service
        .change_actor(&person.caller, id, version, patch)
        .await?;
    let word = if disabled { "disabled" } else { "enabled" };
    let notice = format!("{} {word}.", actor.name);
    Ok(person.back_with(&fields, &format!("{AT}/{id}"), &notice))
}

pub(super) async fn make_token(
    State(console): State<Console>,
    asked: Asked,
    Id(id): Id<ActorId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let at = format!("{AT}/{id}");
    let owner = Ok(MachineOwner::Actor(id));
    let made = tokens::create_machine_token(&console, &person, &fields, Machine::Client, owner);
    let onward = IntoResponse::into_response;
    let form = || tokens::machine_form(&at, Machine::Client, Some(&fields));
    let page = |form| actor_page(&console, &person, &asked, id, Some(form));
    taken(made.await, form, onward, page).await
}

async fn name_and_version(
    console: &Console,
    caller: &Caller,
    id: ActorId,
) -> Result<(String, u64), Fault> {
    let actor = console.service.actor(caller, id).await?;
    Ok((actor.name, actor.version))
}

pub(super) async fn rename(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let patch = ActorPatch {
        name: Some(fields.text("name").to_owned()),
        ..ActorPatch::default()
    };
    let service = &console.service;
    let changed = service
        .change_actor(&person.caller, id, version, patch)
        .await;
    let now = name_and_version(&console, &person.caller, id);
    let at = (AT, format!("{AT}/{id}"));
    renamed(&person, at, &fields, changed, now).await
}

/// The things that are deleted with an actor.
async fn goes_with(
    console: &Console,
    caller: &Caller,
    id: ActorId,
) -> Result<Vec<(&'static str, Cell)>, Fault> {
    let of_actor = ListRequest::default().referring_to(Some(id));
    let clients = console.service.clients(caller, &of_actor).await?;
    let tokens = console.service.made_tokens(caller, &of_actor).await?;
    Ok(vec![
        ("Clients", names_on(&clients, |client| &client.name)),
        ("Tokens", names_on(&tokens, |token| &token.name)),
    ])
}

pub(super) async fn delete(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let service = &console.service;
    let name = console.name_of(&person, id).await?;
    person.caller.may_change()?;
    let goes = goes_with(&console, &person.caller, id).await?;
    let path = format!("{AT}/{id}");
    if let Some(page) = delete_question(&person, (AT, &path), &fields, &name, goes) {
        return Ok(page.into_response());
    }
    let gone = service
        .delete_actor(&person.caller, id, version, is_cascade(&fields))
        .await;
    let now = name_and_version(&console, &person.caller, id);
    let at = (AT, format!("{AT}/{id}"));
    deleted(&person, at, (&fields, ALL), &name, gone, now).await
}

pub(super) async fn reset_factor(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    let name = console.name_of(&person, id).await?;
    console
        .service
        .reset_factor(&person.caller, id, None)
        .await?;
    let notice = format!("The second factor of {name} is removed.");
    Ok(done(&format!("{AT}/{id}"), &notice))
}
