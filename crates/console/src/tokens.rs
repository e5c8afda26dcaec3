//! Tokens: those of machines and of the API. Their secrets are shown once.

use super::asked::Asked;
use super::enrolment;
use super::fields::Fields;
use super::forms::{Posted, taken};
use super::listing::{Listing, RowState};
use super::names::Names;
use super::person::Person;
use super::roles::role_name;
use super::selected::{Act, Selection};
use super::state::Console;
use super::states;
use super::view::{Cell, Field, Form, Link, Page};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::{ActorId, SiteId, TokenId};
use culvert_portal_base::{Fault, Id, Problems};
use culvert_store::{self as store, EntityId, EntityKind, OrderBy, Part};
use culvert_wire::api::{NewSite, NewToken, Token};
use culvert_wire::token::TokenKind;

const AT: &str = "/settings/tokens";
const LIST: &str = "/settings";

/// The kind of machine that a token is for, if it is made on the page of the machine's actor or
/// site.
#[derive(Clone, Copy, Debug)]
pub(super) enum Machine {
    Client,
    Gateway,
    Relay,
}

/// The owner of a machine's token.
#[derive(Clone, Debug)]
pub(super) enum MachineOwner {
    /// Of a client.
    Actor(ActorId),
    /// Of a gateway.
    Site(SiteId),
    /// Of a gateway at a site that is created with the token.
    NewSite(String),
    /// Of a relay.
    Account,
}

/// The fields for the number of a token's uses and its end.
pub(super) fn uses_fields(written: Option<&Fields>) -> [Field; 2] {
    let text = |name| written.map_or("", |fields| fields.text(name));
    let uses = [
        // A browser offers the first: a token that leaks then lets in nobody else.
        ("one", "one machine, and no second one"),
        ("many", "any number of machines"),
    ];
    [
        Field::choice("uses", "Enrols", &uses).value(text("uses")),
        Field::line("expires", "Until")
            .optional()
            .hint("Such as in 30 days, 2027-01-31 or 2027-01-31 18:00, in UTC. Empty: until it is revoked.")
            .value(text("expires")),
    ]
}

/// Makes a token for machines of the thing at `path`.
pub(super) fn machine_form(path: &str, machine: Machine, written: Option<&Fields>) -> Form {
    let name = written.map_or("", |fields| fields.text("name"));
    let mut form = vec![Field::line("name", "Name of the token").value(name)];
    form.extend(uses_fields(written));
    let title = match machine {
        Machine::Client => "Token for clients",
        Machine::Gateway => "Token for gateways of this site",
        Machine::Relay => "Token for relays",
    };
    Form::new(title, format!("{path}/token"), "Create", form)
}

/// Creates the token that the form asks for, and the page that shows it. All wrong fields are named at once, a wrong
/// owner among them.
pub(super) async fn create_machine_token(
    console: &Console,
    person: &Person,
    fields: &Fields,
    machine: Machine,
    owner: Result<MachineOwner, Fault>,
) -> Result<Page, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    caller.may_change()?;
    let mut problems = Problems::default();
    let owner = problems.take(owner)?;
    let (actor, site, new_site) = match owner {
        None | Some(MachineOwner::Account) => (None, None, None),
        Some(MachineOwner::Actor(actor)) => (Some(actor), None, None),
        Some(MachineOwner::Site(site)) => (None, Some(site), None),
        Some(MachineOwner::NewSite(name)) => (None, None, Some(NewSite { name })),
    };
    let kind = match machine {
        Machine::Client => TokenKind::Client,
        Machine::Gateway => TokenKind::Gateway,
        Machine::Relay => TokenKind::Relay,
    };
    let new = NewToken {
        kind,
        actor,
        site,
        role: None,
        name: fields.text("name").to_owned(),
        expires: problems.take(fields.ahead("expires"))?.flatten(),
        one_time: fields.text("uses") == "one",
    };
    let checked = match &new_site {
        Some(site) => service.check_token_at_new_site(caller, site, &new).await,
        None => service.check_token(caller, &new).await,
    };
    problems.take(checked)?;
    problems.finish()?;
    let issued = match &new_site {
        Some(site) => service.create_token_at_new_site(caller, site, new).await,
        None => service.create_token(caller, new).await,
    };
    enrolment::once(console, person, &issued?).await
}

/// Name, kind, state, end, last use and buttons of a token: cells of a table.
pub(super) fn row(person: &Person, token: &Token, may_change: bool) -> Vec<Cell> {
    vec![
        match token.kind {
            TokenKind::Session | TokenKind::Setup => Cell::text(&token.name),
            TokenKind::Api | TokenKind::Client | TokenKind::Gateway | TokenKind::Relay => {
                Cell::link(enrolment::page_of(token.id), &token.name)
            }
        },
        Cell::text(match token.role {
            Some(role) => format!("{}, {}", token.kind, role_name(role)),
            None => token.kind.to_string(),
        }),
        states::token(token),
        Cell::time(token.expires),
        Cell::time(token.last_used),
        person.menu(enrolment::actions(token).into_iter().filter(|_| may_change)),
    ]
}

/// The column titles above [`row`].
pub(super) fn columns() -> Vec<&'static str> {
    vec!["Name", "Kind", "State", "Ends", "Last used", "Actions"]
}

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let page = list_page(&console, &person, &asked).await?;
    Ok(page.into_response())
}

fn new_form(written: Option<&Fields>) -> Form {
    let text = |name| written.map_or("", |fields| fields.text(name));
    let kinds = [
        ("api", "the API, for an actor"),
        ("client", "clients of an actor"),
        ("gateway", "gateways of a site"),
        ("relay", "relays of the account"),
    ];
    let roles = [
        ("auditor", "auditor: reads everything"),
        ("user", "user: sees and gives up the actor's own clients"),
        ("admin", "admin: changes everything but owners"),
        ("owner", "owner: everything"),
    ];
    let mut fields = vec![
        Field::line("name", "Name").value(text("name")),
        Field::choice("kind", "For", &kinds).value(text("kind")),
        Field::thing("actor", "Actor", EntityKind::Actor)
            .optional()
            .hint("An admin or a service account for the API.")
            .value(text("actor")),
        Field::thing("site", "Site", EntityKind::Site)
            .optional()
            .hint("Of a token for gateways.")
            .value(text("site")),
        Field::choice("role", "What the API allows with it", &roles).value(text("role")),
    ];
    fields.extend(uses_fields(written));
    Form::new("New token", AT, "Create", fields)
}

pub(super) async fn ask(State(console): State<Console>, person: Person) -> Result<Response, Fault> {
    person.caller.may_change()?;
    let form = console.with_choices(&person, new_form(None)).await?;
    Ok(person.form_page("New token", LIST, form).into_response())
}

const LISTING: Listing = Listing {
    at: AT,
    title: "Tokens",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("Owner", Some(OrderBy::Holder)),
        ("Kind", None),
        ("State", None),
        ("Ends", None),
        ("Last used", Some(OrderBy::Seen)),
        ("Actions", None),
    ],
    states: &[
        RowState::new("live", "Not revoked", Part::LiveTokens),
        RowState::new("revoked", "Revoked", Part::RevokedTokens),
    ],
    hint: "Name or owner",
    empty: "There is none.",
};

const SELECTION: Selection = Selection {
    at: AT,
    kind: EntityKind::Token,
    one: "token",
    many: "tokens",
    acts: &[(
        Act::Revoke,
        "Nothing enrols or signs in by them any more. Machines that have enrolled stay.",
    )],
};

pub(super) async fn change_selected(
    State(console): State<Console>,
    posted: Posted,
) -> Result<Response, Fault> {
    SELECTION.send(&console, posted).await
}

async fn list_page(console: &Console, person: &Person, asked: &Asked) -> Result<Page, Fault> {
    let service = &console.service;
    let request = LISTING.request(asked);
    let found = service.made_tokens(&person.caller, &request).await?;
    let mut rows = Vec::new();
    let of = |token: &Token| -> Option<EntityId> {
        let actor = token.actor.map(EntityId::from);
        actor.or(token.site.map(EntityId::from))
    };
    let names = Names::of(console, person, found.items.iter().filter_map(of)).await?;
    for token in &found.items {
        let mut cells = row(person, token, true);
        cells.insert(1, names.maybe(of(token)));
        rows.push(cells);
    }
    let mut list = LISTING.table(asked, found.total, rows);
    let shown = found
        .items
        .iter()
        .map(|token| (token.id, token.version, token.name.as_str()));
    SELECTION.offer(person, &mut list, shown);
    Ok(person.searched_page(
        AT,
        list,
        Some(Link {
            path: "/settings/tokens/new",
            name: "New token",
        }),
    ))
}

pub(super) async fn create(
    State(console): State<Console>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let made = async {
        let new = wanted(&console, &person, &fields).await?;
        let issued = console.service.create_token(&person.caller, new).await?;
        enrolment::once(&console, &person, &issued).await
    };
    let onward = IntoResponse::into_response;
    let page = async |form| {
        let form = console.with_choices(&person, form).await?;
        Ok(person.form_page("New token", LIST, form))
    };
    taken(made.await, || new_form(Some(&fields)), onward, page).await
}

/// The token that the form asks for. All wrong fields are named at once.
async fn wanted(console: &Console, person: &Person, fields: &Fields) -> Result<NewToken, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    caller.may_change()?;
    let kind = fields.word("kind")?;
    let mut problems = Problems::default();
    let actor = match fields.filled("actor") {
        Some(name) => {
            let actor = service.chosen::<store::Actor>(caller, name).await;
            problems.take(actor.map_err(|fault| fault.at_field("actor")))?
        }
        None => None,
    };
    let actor = actor.map(|actor| actor.id);
    let site = match fields.filled("site") {
        Some(name) => {
            let site = service.chosen::<store::Site>(caller, name).await;
            problems.take(site.map_err(|fault| fault.at_field("site")))?
        }
        None => None,
    };
    let site = site.map(|site| site.id);
    let new = NewToken {
        kind,
        actor,
        site,
        role: match kind {
            TokenKind::Api => Some(fields.word("role")?),
            _ => None,
        },
        name: fields.text("name").to_owned(),
        expires: problems.take(fields.ahead("expires"))?.flatten(),
        one_time: fields.text("uses") == "one",
    };
    problems.take(service.check_token(caller, &new).await)?;
    problems.finish()?;
    Ok(new)
}

pub(super) async fn revoke(
    State(console): State<Console>,
    Id(id): Id<TokenId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let service = &console.service;
    let token = service.revoke_token(&person.caller, id, version).await?;
    let back = match (token.kind, token.actor) {
        (TokenKind::Client | TokenKind::Session, Some(actor)) => format!("/people/{actor}"),
        _ => AT.to_owned(),
    };
    let notice = format!("Token {} revoked.", token.name);
    Ok(person.back_with(&fields, &back, &notice))
}
