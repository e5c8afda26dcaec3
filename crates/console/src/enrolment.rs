//! From a new token to the machine that comes with it: the commands, shown once, and the wait until it is connected.

use super::machine_commands;
use super::names::Names;
use super::person::Person;
use super::state::Console;
use super::states;
use super::view::{Action, Buttons, Cell, Page, Section, Step, Steps};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::{ActorId, SiteId, TokenId};
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::ListRequest;
use culvert_store::{EntityId, Order, OrderBy, Position};
use culvert_wire::api::{Gateway, IssuedToken, Token};
use culvert_wire::token::TokenKind;

/// Machines of a site or an actor among which that of a token is looked for: those that were seen last.
const MAX_MACHINES: u16 = 50;

/// The page of a token.
pub(super) fn page_of(token: TokenId) -> String {
    format!("/tokens/{token}")
}

/// The sections that show a new token, this once.
pub(super) fn secret_of(issued: &IssuedToken) -> Vec<Section> {
    let secret = &issued.secret;
    let ways = match issued.token.kind {
        TokenKind::Client => machine_commands::client_ways(secret),
        TokenKind::Gateway => machine_commands::gateway_ways(secret),
        TokenKind::Relay => machine_commands::relay_ways(secret),
        TokenKind::Api | TokenKind::Setup | TokenKind::Session => Vec::new(),
    };
    let note = "It is shown this once. Copy it now, and keep it secret.";
    let mut sections = vec![Section::Copy {
        title: "The token".to_owned(),
        note: note.to_owned(),
        text: secret.clone(),
    }];
    if !ways.is_empty() {
        sections.push(Section::Alternatives {
            title: "The commands".to_owned(),
            note: "Choose one, and paste it into a shell of the machine. The token goes into a file that only root reads."
                .to_owned(),
            ways,
        });
    }
    sections
}

/// The page that shows a new token, this once. It waits for the machine.
pub(super) async fn once(
    console: &Console,
    person: &Person,
    issued: &IssuedToken,
) -> Result<Page, Fault> {
    let mut page = page(console, person, &issued.token).await?;
    // Below what makes the page live, above what it waits for.
    page.sections.splice(1..1, secret_of(issued));
    Ok(page)
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    Id(id): Id<TokenId>,
) -> Result<Response, Fault> {
    let token = console.service.token(&person.caller, id).await?;
    // Sessions are on the page of their person.
    if matches!(token.kind, TokenKind::Session | TokenKind::Setup) {
        return Err(Fault::NotFound(id.to_string()));
    }
    Ok(page(&console, &person, &token).await?.into_response())
}

async fn page(console: &Console, person: &Person, token: &Token) -> Result<Page, Fault> {
    let at = match token.kind {
        TokenKind::Gateway => "/gateways",
        TokenKind::Relay => "/relays",
        TokenKind::Client => "/clients",
        TokenKind::Api | TokenKind::Setup | TokenKind::Session => "/settings",
    };
    let title = format!("Token {}", token.name);
    let mut page = person.live_page(title, at, page_of(token.id), console);
    let holder = token.actor.map(EntityId::from);
    let holder = holder.or(token.site.map(EntityId::from));
    let names = Names::of(console, person, holder).await?;
    let waiting = match (token.kind, token.site, token.actor) {
        (TokenKind::Gateway, Some(site), _) => {
            Some(for_gateway(console, person, token, site, &names).await?)
        }
        (TokenKind::Client, _, Some(actor)) => {
            Some(for_client(console, person, token, actor, &names).await?)
        }
        (TokenKind::Relay, ..) => Some(for_relay(console, person, token).await?),
        _ => None,
    };
    page.sections.extend(waiting.map(Section::Steps));
    let mut facts = vec![
        (
            match token.kind {
                TokenKind::Gateway => "Site",
                _ => "Owner",
            },
            match token.kind {
                TokenKind::Relay => Cell::text("the account"),
                _ => names.maybe(holder),
            },
        ),
        ("State", states::token(token)),
        ("Ends", Cell::time(token.expires)),
        ("Last used", Cell::time(token.last_used)),
        ("Created", Cell::time(Some(token.created))),
    ];
    if person.may_change() {
        facts.push(("Actions", person.buttons(actions(token))));
    }
    page.sections.push(Section::Facts {
        title: "Token".to_owned(),
        facts,
    });
    Ok(page)
}

/// The buttons of a token.
pub(super) fn actions(token: &Token) -> Vec<Action> {
    let buttons = Buttons {
        path: format!("/tokens/{}", token.id),
        what: &token.name,
        version: token.version,
    };
    match token.revoked {
        Some(_) => Vec::new(),
        None => vec![buttons.for_good(
            "Revoke",
            "revoke",
            "Machines and programs with this token are refused.",
        )],
    }
}

/// The machines of an actor or a site that were seen last.
fn seen_last(of: impl Into<EntityId>) -> ListRequest {
    last_seen().referring_to(Some(of))
}

/// The machines of a kind that were seen last.
fn last_seen() -> ListRequest {
    ListRequest {
        limit: Some(MAX_MACHINES),
        position: Some(Position {
            order: Order {
                by: OrderBy::Seen,
                is_descending: true,
            },
            skipped: 0,
        }),
        ..ListRequest::default()
    }
}

/// A machine that is connected.
struct Connected {
    path: String,
    name: String,
}

async fn for_gateway(
    console: &Console,
    person: &Person,
    token: &Token,
    site: SiteId,
    names: &Names,
) -> Result<Steps, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    let found = service.gateways(caller, &seen_last(site)).await?;
    let sessions = service.sessions_of_gateways(caller).await?;
    let account = service.account(caller).await?;
    let (enrolled, others): (Vec<_>, Vec<_>) = found
        .items
        .into_iter()
        .filter(|gateway| sessions.contains_key(&gateway.id))
        .partition(|gateway| gateway.enrolled_with == Some(token.id));
    // A gateway that comes again with its key keeps the token of its first time.
    let came_again = |gateway: &Gateway| {
        let session = sessions.get(&gateway.id);
        let is_new = session.is_some_and(|session| session.since >= token.created);
        is_new && token.used.or(token.last_used).is_some()
    };
    let connected: Vec<_> = match enrolled.is_empty() {
        true => others.into_iter().filter(came_again).collect(),
        false => enrolled,
    };
    let unverified = connected.iter().find(|gateway| gateway.verified.is_none());
    let verify = account.require_verified_gateways.then(|| {
        let is_done = !connected.is_empty() && unverified.is_none();
        let text = "It lets no client in before. Compare its fingerprint with “culvert gateway status” on the machine.";
        let mut step = Step::new("The gateway is verified", is_done, text);
        step.link = unverified.map(|gateway| (format!("/gateways/{}", gateway.id), "Verify it"));
        step
    });
    let connected = connected.iter().map(|gateway| Connected {
        path: format!("/gateways/{}", gateway.id),
        name: gateway.name.clone(),
    });
    let mut steps = steps(
        token,
        ("gateway", "The gateway is connected"),
        &format!("for gateways of the site {}", names.text(site)),
        &connected.collect::<Vec<_>>(),
    );
    steps.extend(verify);
    Ok(waiting("From the token to a connected gateway", steps))
}

async fn for_client(
    console: &Console,
    person: &Person,
    token: &Token,
    actor: ActorId,
    names: &Names,
) -> Result<Steps, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    let found = service.clients(caller, &seen_last(actor)).await?;
    let sessions = service.sessions_of_clients(caller, &found.items).await?;
    // A client does not say by which token it came: one that has connected since is taken for it.
    let connected = found.items.iter().filter(|client| {
        let session = sessions.get(&client.id);
        session.is_some_and(|session| session.since >= token.created)
    });
    let connected = connected.map(|client| Connected {
        path: format!("/clients/{}", client.id),
        name: client.name.clone(),
    });
    let steps = steps(
        token,
        ("client", "The client is connected"),
        &format!("for clients of {}", names.text(actor)),
        &connected.collect::<Vec<_>>(),
    );
    Ok(waiting("From the token to a connected client", steps))
}

async fn for_relay(console: &Console, person: &Person, token: &Token) -> Result<Steps, Fault> {
    let (service, caller) = (&console.service, &person.caller);
    let found = service.relays(caller, &last_seen()).await?;
    let sessions = service.sessions_of_relays(caller).await?;
    // A relay does not say by which token it came: one that has connected since is taken for it.
    let connected = found.items.iter().filter(|relay| {
        let session = sessions.get(&relay.id);
        session.is_some_and(|session| session.since >= token.created)
    });
    let connected = connected.map(|relay| Connected {
        path: format!("/relays/{}", relay.id),
        name: relay.name.clone(),
    });
    let steps = steps(
        token,
        ("relay", "The relay is connected"),
        "for relays of the account",
        &connected.collect::<Vec<_>>(),
    );
    Ok(waiting("From the token to a connected relay", steps))
}

/// The token, and the machine that comes with it: the kind of machine, and the title of its step.
fn steps(
    token: &Token,
    (kind, title): (&str, &'static str),
    whose: &str,
    connected: &[Connected],
) -> Vec<Step> {
    let uses = match token.one_time {
        true => "It enrols one machine.",
        false => "It enrols any number of machines.",
    };
    let first = Step::new("The token", true, &format!("It is {whose}. {uses}"));
    let names: Vec<&str> = connected.iter().map(|machine| &*machine.name).collect();
    let mut second = match &*names {
        [] => Step::new(
            title,
            false,
            &format!("Waiting for the {kind} to connect …"),
        ),
        [name] => Step::new(title, true, &format!("{name} is connected.")),
        names => Step::new(title, true, &format!("{} are connected.", names.join(", "))),
    };
    second.link = match connected {
        [] => Some((page_of(token.id), "Look again")),
        [machine, ..] => Some((machine.path.clone(), "Its page")),
    };
    vec![first, second]
}

/// The steps with what is heard of them: the one that is waited for, or the last.
fn waiting(title: &str, steps: Vec<Step>) -> Steps {
    let now = steps.iter().find(|step| !step.is_done);
    let news = now.or(steps.last()).map_or("", |step| &step.text);
    Steps::new(title, news.to_owned(), steps)
}
