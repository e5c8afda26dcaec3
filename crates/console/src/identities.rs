//! Identities of identity providers: on the page of an actor, and on a person's own page.

use super::forms::{Posted, taken};
use super::guard;
use super::notice::done;
use super::person::Person;
use super::provider_cookie::on_the_way;
use super::state::Console;
use super::view::{Action, Cell, Field, Form, Section, Table};
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use culvert_ids::{ActorId, IdentityId, ProviderId};
use culvert_portal_base::{Fault, Id, PublicAddress};
use culvert_portal_service::{KnownProvider, ListRequest};
use culvert_wire::api::{Actor, ActorKind, Identity, NewIdentity};

/// The identities on the page of an actor.
pub(super) async fn of_actor(
    console: &Console,
    person: &Person,
    actor: &Actor,
    may_change: bool,
) -> Result<Vec<Section>, Fault> {
    if actor.kind == ActorKind::ServiceAccount {
        return Ok(Vec::new());
    }
    let providers = console.service.known_providers().await?;
    let request = ListRequest::default().referring_to(Some(actor.id));
    let known = console.service.identities(&person.caller, &request).await?;
    let ways = ways(&providers);
    if ways.is_empty() && known.items.is_empty() {
        return Ok(Vec::new());
    }
    let path = |id| format!("/identities/{id}/unlink");
    let unlink = |id| may_change.then(|| path(id));
    let mut sections = vec![table(&providers, &known.items, unlink)];
    if may_change && !ways.is_empty() {
        sections.push(Section::Form(link_form(&ways, actor.id, ["", ""])));
    }
    Ok(sections)
}

fn link_form(ways: &[&KnownProvider], actor: ActorId, [provider, subject]: [&str; 2]) -> Form {
    let fields = vec![
        choice(ways).value(provider),
        Field::line("subject", "Subject")
            .hint("Who it is at the provider: the claim “sub”, as the page says it that refuses.")
            .value(subject),
    ];
    let at = format!("/people/{actor}/link");
    Form::new("Link with an identity", at, "Link", fields)
}

/// The identities on a person's own page.
pub(super) async fn own(console: &Console, person: &Person) -> Result<Vec<Section>, Fault> {
    let providers = console.service.known_providers().await?;
    let known = console.service.own_identities(&person.caller).await?;
    let ways = ways(&providers);
    if ways.is_empty() && known.is_empty() {
        return Ok(Vec::new());
    }
    let path = |id| Some(format!("/me/unlink/{id}"));
    let mut sections = vec![table(&providers, &known, path)];
    if !ways.is_empty() {
        let fields = vec![choice(&ways)];
        let form = Form::new(
            "Sign in by an identity provider too",
            "/me/link",
            "Link",
            fields,
        );
        sections.push(Section::Form(form));
    }
    Ok(sections)
}

/// Those by which somebody may sign in.
fn ways(providers: &[KnownProvider]) -> Vec<&KnownProvider> {
    let enabled = providers.iter().filter(|provider| !provider.disabled);
    enabled.collect()
}

fn choice(providers: &[&KnownProvider]) -> Field {
    let choices: Vec<(String, &str)> = providers
        .iter()
        .map(|provider| (provider.id.to_string(), provider.name.as_str()))
        .collect();
    let choices: Vec<(&str, &str)> = choices
        .iter()
        .map(|(id, name)| (id.as_str(), *name))
        .collect();
    Field::choice("provider", "Identity provider", &choices)
}

fn table(
    providers: &[KnownProvider],
    known: &[Identity],
    unlink: impl Fn(IdentityId) -> Option<String>,
) -> Section {
    let rows = known.iter().map(|identity| {
        let provider = providers.iter().find(|known| known.id == identity.provider);
        let name = provider.map_or_else(
            || identity.provider.to_string(),
            |provider| provider.name.clone(),
        );
        let state = match provider {
            Some(provider) if !provider.disabled => Cell::good("lets in"),
            Some(_) => Cell::warn("provider disabled"),
            None => Cell::bad("provider deleted"),
        };
        let action = unlink(identity.id).map(|path| Action {
            name: "Unlink",
            what: name.clone(),
            path,
            version: None,
            is_grave: true,
            loss: Some("It signs nobody in any more, and other sessions end."),
        });
        vec![
            Cell::text(name),
            state,
            Cell::code(&identity.subject),
            Cell::time(Some(identity.created)),
            Cell::Actions(action.into_iter().collect()),
        ]
    });
    Section::Table(Table {
        title: "Identities".to_owned(),
        columns: vec!["Identity provider", "State", "Subject", "Since", "Actions"],
        rows: rows.collect(),
        empty: "There is none.".into(),
        ..Table::default()
    })
}

/// The notice after an identity was unlinked.
const UNLINKED: &str = "Identity unlinked, and other sessions have ended.";

pub(super) async fn link(
    State(console): State<Console>,
    Id(actor): Id<ActorId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    // No field of the form, which could be wrong in it: where it is missing, the page is.
    let actor = console.service.actor(&person.caller, actor).await?.id;
    let linked = async {
        let new = NewIdentity {
            provider: fields.parse("provider")?,
            subject: fields.text("subject").to_owned(),
            actor,
        };
        console.service.create_identity(&person.caller, new).await
    };
    let providers = console.service.known_providers().await?;
    let written = ["provider", "subject"].map(|name| fields.text(name));
    let form = || link_form(&ways(&providers), actor, written);
    let onward = |_| done(&format!("/people/{actor}"), "Identity linked.");
    let page = async |form| Ok(person.form_page("Link with an identity", "/people", form));
    taken(linked.await, form, onward, page).await
}

pub(super) async fn unlink(
    State(console): State<Console>,
    Id(id): Id<IdentityId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let service = &console.service;
    service.delete_identity(&person.caller, id, None).await?;
    Ok(person.back_with(&fields, "/people", UNLINKED))
}

pub(super) async fn unlink_own(
    State(console): State<Console>,
    Id(id): Id<IdentityId>,
    Posted { person, .. }: Posted,
) -> Result<Response, Fault> {
    let service = &console.service;
    service.delete_own_identity(&person.caller, id).await?;
    Ok(done("/me", UNLINKED))
}

/// Begins a link, which no other site can: a form does, whose token it would have to know. Forms lead to
/// no other site either (`form-action 'self'`), so a page with a way on comes in between.
pub(super) async fn link_own(
    State(console): State<Console>,
    Extension(PublicAddress(from)): Extension<PublicAddress>,
    headers: HeaderMap,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    guard::must_be_at_own_name(&console, &headers)?;
    let provider: ProviderId = fields.parse("provider")?;
    let begun = console
        .service
        .begin_link(&person.caller, from, provider)
        .await?;
    let name = console.service.provider_name(provider).await?;
    let on = Cell::link(&*begun.url, format_args!("Go on to {name}"));
    let mut page = person.page("Link an identity", "/me");
    page.sections = vec![Section::Facts {
        title: "Who you are there may sign in as you from then on".to_owned(),
        facts: vec![("Identity provider", on)],
    }];
    Ok(on_the_way(&begun, page.into_response()))
}
