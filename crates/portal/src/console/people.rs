//! Actors, with their tokens and how they sign in.

use super::Console;
use super::forms::{Asked, Posted, done};
use super::identities;
use super::person::Person;
use super::view::{Action, Cell, Field, Form, Page, Section, Table};
use crate::api::Id;
use crate::fault::Fault;
use crate::service::ListRequest;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::{ActorId, TokenId};
use culvert_wire::api::{
    Actor, ActorKind, ActorPatch, ApiRole, IssuedToken, NewActor, NewSignIn, NewToken, Token,
};
use culvert_wire::token::TokenKind;

const AT: &str = "/people";

const KINDS: &[(&str, &str)] = &[
    ("user", "a person"),
    ("admin", "a person who administers"),
    ("service_account", "a machine"),
];

const ROLES: &[(&str, &str)] = &[
    ("user", "user: sees and gives up the own clients"),
    ("auditor", "auditor: reads everything"),
    ("admin", "admin: changes everything but owners"),
    ("owner", "owner: everything"),
];

/// A word of one of the API's enumerations.
fn word<T: serde::de::DeserializeOwned>(field: &str, text: &str) -> Result<T, Fault> {
    serde_json::from_value(text.into()).map_err(|error| Fault::invalid(field, error))
}

const fn role_name(role: ApiRole) -> &'static str {
    match role {
        ApiRole::User => "user",
        ApiRole::Auditor => "auditor",
        ApiRole::Admin => "admin",
        ApiRole::Owner => "owner",
    }
}

const fn kind_name(kind: ActorKind) -> &'static str {
    match kind {
        ActorKind::Admin => "admin",
        ActorKind::User => "user",
        ActorKind::ServiceAccount => "service account",
    }
}

/// What is shown of a new token, this once.
pub(super) fn once(issued: &IssuedToken, command: &str, file: &str) -> Vec<Section> {
    vec![
        Section::Alert(
            "The token is shown this once. Copy it now; who has it may use it.".to_owned(),
        ),
        Section::Lines {
            title: issued.token.name.clone(),
            text: issued.secret.clone(),
        },
        Section::Lines {
            title: "What to do with it".to_owned(),
            text: format!("Put it into {file}, of mode 0600, on the machine, and run:\n{command}"),
        },
    ]
}

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked, new_form("", "user")).await?;
    Ok(page.into_response())
}

fn new_form(name: &str, kind: &str) -> Form {
    let fields = vec![
        Field::line("name", "Name").value(name),
        Field::choice("kind", "What it is", KINDS).value(kind),
    ];
    Form::new("New actor", AT, "Make", fields)
}

fn state(actor: &Actor) -> Cell {
    match actor.disabled {
        true => Cell::bad("disabled"),
        false => Cell::good("active"),
    }
}

fn sign_in_of(actor: &Actor) -> Cell {
    match actor.sign_in {
        Some(sign_in) => Cell::text(format_args!("as {}", role_name(sign_in.role))),
        None => Cell::plain("no"),
    }
}

async fn list_page(
    console: &Console,
    person: &Person,
    asked: &Asked,
    form: Form,
) -> Result<Page, Fault> {
    let request = ListRequest {
        cursor: asked.cursor(),
        ..ListRequest::searching(asked.0.filled("search"))
    };
    let found = console.service.actors(&person.caller, &request).await?;
    let rows = found.items.iter().map(|actor| {
        vec![
            Cell::link(format!("{AT}/{}", actor.id), &actor.name),
            Cell::text(kind_name(actor.kind)),
            sign_in_of(actor),
            state(actor),
        ]
    });
    let mut page = person.page("Actors", AT);
    page.done = asked.done();
    let search = Field::line("search", "In the name")
        .optional()
        .value(asked.0.text("search"));
    page.sections.push(Section::Form(
        Form::new("Search", AT, "Search", vec![search]).question(),
    ));
    page.sections.push(Section::Table(Table {
        title: "People and service accounts".to_owned(),
        columns: vec!["Name", "Kind", "Signs in", "State"],
        rows: rows.collect(),
        empty: "There is none.",
        next: asked.next(AT, found.next_cursor.as_deref()),
    }));
    if person.may_change() {
        page.sections.push(Section::Form(form));
    }
    Ok(page)
}

pub(super) async fn create(
    State(console): State<Console>,
    asked: Asked,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let made = async {
        let new = NewActor {
            kind: word("kind", fields.text("kind"))?,
            name: fields.text("name").to_owned(),
        };
        console.service.create_actor(&person.caller, new).await
    };
    match made.await {
        Ok(actor) => Ok(done(&format!("{AT}/{}", actor.id), "made")),
        Err(fault) => {
            let form = new_form(fields.text("name"), fields.text("kind"));
            let (form, status) = form.refused(fault)?;
            let page = list_page(&console, &person, &asked, form).await?;
            Ok(page.with_status(status))
        }
    }
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
    Id(id): Id<ActorId>,
) -> Result<Response, Fault> {
    let page = actor_page(&console, &person, &asked, id, None).await?;
    Ok(page.into_response())
}

fn sign_in_form(actor: &Actor) -> Form {
    let role = actor
        .sign_in
        .map_or("user", |sign_in| role_name(sign_in.role));
    let fields = vec![
        Field::choice("role", "As", ROLES).value(role),
        Field::password("password", "Password", "new-password")
            .optional()
            .hint("12 to 256 characters. Left empty, it stays, and the role alone changes."),
    ];
    let at = format!("{AT}/{}/sign-in", actor.id);
    Form::new("Let sign in", at, "Set", fields)
}

async fn actor_page(
    console: &Console,
    person: &Person,
    asked: &Asked,
    id: ActorId,
    refused: Option<Form>,
) -> Result<Page, Fault> {
    let actor = console.service.actor(&person.caller, id).await?;
    let request = asked.part().referring_to(Some(id));
    let tokens = console.service.tokens(&person.caller, &request).await?;
    let rows = tokens.items.iter().map(|token| {
        vec![
            Cell::text(&token.name),
            Cell::text(match token.role {
                Some(role) => format!("{}, {}", token.kind, role_name(role)),
                None => token.kind.to_string(),
            }),
            token_state(token),
            Cell::time(token.expires),
            Cell::time(token.last_used),
            Cell::Actions(token_actions(person, token)),
        ]
    });
    let at = format!("{AT}/{id}");
    let mut page = person.page(&actor.name, AT);
    page.done = asked.done();
    let mut facts = vec![
        ("Kind", Cell::text(kind_name(actor.kind))),
        ("State", state(&actor)),
        ("Signs in", sign_in_of(&actor)),
        ("Made", Cell::time(Some(actor.created))),
    ];
    if person.may_change() {
        facts.push(("Do", Cell::Actions(actions(&actor))));
    }
    page.sections.push(Section::Facts {
        title: "Actor".to_owned(),
        facts,
    });
    page.sections.push(Section::Table(Table {
        title: "Tokens and sessions".to_owned(),
        columns: vec!["Name", "Kind", "State", "Ends", "Last used", "Do"],
        rows: rows.collect(),
        empty: "There is none.",
        next: asked.next(&at, tokens.next_cursor.as_deref()),
    }));
    if person.may_change() {
        let token = Field::line("name", "Name of the token");
        let token = Form::new(
            "Token for clients",
            format!("{at}/token"),
            "Make",
            vec![token],
        );
        page.sections.push(Section::Form(token));
        if actor.kind != ActorKind::ServiceAccount {
            let form = refused.unwrap_or_else(|| sign_in_form(&actor));
            page.sections.push(Section::Form(form));
        }
    }
    let linked = identities::of_actor(console, person, &actor).await?;
    page.sections.extend(linked);
    Ok(page)
}

fn actions(actor: &Actor) -> Vec<Action> {
    let action = |name, word: &str, version, is_grave| Action {
        name,
        what: actor.name.clone(),
        path: format!("{AT}/{}/{word}", actor.id),
        version,
        is_grave,
    };
    let version = Some(actor.version);
    let mut actions = vec![match actor.disabled {
        true => action("Enable", "enable", version, false),
        false => action("Disable", "disable", version, true),
    }];
    if actor.sign_in.is_some() {
        actions.push(action("End all sessions", "end-sessions", None, true));
        actions.push(action("End signing in", "end-sign-in", None, true));
    }
    actions
}

fn token_state(token: &Token) -> Cell {
    match (token.revoked, token.used) {
        (Some(_), _) => Cell::bad("revoked"),
        (None, Some(_)) => Cell::plain("used"),
        (None, None) => Cell::good("not revoked"),
    }
}

fn token_actions(person: &Person, token: &Token) -> Vec<Action> {
    if !person.may_change() || token.revoked.is_some() {
        return Vec::new();
    }
    vec![Action {
        name: "Revoke",
        what: token.name.clone(),
        path: format!("/tokens/{}/revoke", token.id),
        version: Some(token.version),
        is_grave: true,
    }]
}

pub(super) async fn set_sign_in(
    State(console): State<Console>,
    asked: Asked,
    Id(id): Id<ActorId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let set = async {
        let new = NewSignIn {
            role: word("role", fields.text("role"))?,
            password: Some(fields.raw("password").to_owned()).filter(|text| !text.is_empty()),
        };
        console
            .service
            .set_sign_in(&person.caller, id, None, new)
            .await
    };
    match set.await {
        Ok(_) => Ok(done(&format!("{AT}/{id}"), "changed")),
        Err(fault) => {
            let actor = console.service.actor(&person.caller, id).await?;
            let (form, status) = sign_in_form(&actor).refused(fault)?;
            let page = actor_page(&console, &person, &asked, id, Some(form)).await?;
            Ok(page.with_status(status))
        }
    }
}

pub(super) async fn end_sign_in(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    console
        .service
        .end_sign_in(&person.caller, id, None)
        .await?;
    Ok(done(&format!("{AT}/{id}"), "changed"))
}

pub(super) async fn end_sessions(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    let ended = console.service.end_sessions(&person.caller, id, None);
    ended.await?;
    Ok(done(&format!("{AT}/{id}"), "sessions"))
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
    console
        .service
        .change_actor(&person.caller, id, version, patch)
        .await?;
    Ok(done(&format!("{AT}/{id}"), "changed"))
}

pub(super) async fn make_token(
    State(console): State<Console>,
    Id(id): Id<ActorId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let new = NewToken {
        kind: TokenKind::Client,
        actor: Some(id),
        site: None,
        role: None,
        name: fields.text("name").to_owned(),
        expires: None,
        one_time: false,
    };
    let issued = console.service.create_token(&person.caller, new).await?;
    let mut page = person.page("New token", AT);
    page.sections = once(
        &issued,
        "culvert client run --token-file client.token",
        "client.token",
    );
    Ok(page.into_response())
}

pub(super) async fn revoke_token(
    State(console): State<Console>,
    Id(id): Id<TokenId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let token = console
        .service
        .revoke_token(&person.caller, id, version)
        .await?;
    let back = match token.actor {
        Some(actor) => format!("{AT}/{actor}"),
        None => AT.to_owned(),
    };
    Ok(done(&back, "revoked"))
}
