//! Clients: everybody's, or one's own.

use super::answers::{self, PoliciesOf, UseOf};
use super::asked::Asked;
use super::client_paths;
use super::edit::{rename_form, renamed};
use super::explain::{self, Preset};
use super::forms::Posted;
use super::listing::{Listing, RowState};
use super::names::Names;
use super::new_client;
use super::notice::done;
use super::paths::file_of;
use super::person::Person;
use super::plain_endpoints;
use super::selected::{Act, Selection};
use super::state::Console;
use super::states;
use super::view::{Action, Buttons, Cell, Piece, Section};
use super::wireguard;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_ids::ClientId;
use culvert_portal_base::{Fault, Id};
use culvert_portal_service::{ClientAction, Live};
use culvert_store::{EntityKind, MachineId, OrderBy, Part, Role};
use culvert_wire::api::{Client, ClientPatch, PlainClientFile, PlainClientPeer};

const AT: &str = "/clients";

const LISTING: Listing = Listing {
    at: AT,
    title: "Clients",
    columns: &[
        ("Name", Some(OrderBy::Name)),
        ("Owner", Some(OrderBy::Holder)),
        ("Now", None),
        ("State", None),
        ("Address", None),
        ("Last seen", Some(OrderBy::Seen)),
        ("Software", None),
        ("Actions", None),
    ],
    states: &[
        RowState::live("connected", "Connected", Live::Connected),
        RowState::new("unverified", "Not verified", Part::UnverifiedClients),
        RowState::new("verified", "Verified", Part::VerifiedClients),
        RowState::new("revoked", "Revoked", Part::RevokedClients),
        RowState::live("outdated", "Older version", Live::Outdated),
    ],
    hint: "Name, owner, address or software",
    empty: "There is none. A client comes into being when it first connects with its token.",
};

const SELECTION: Selection = Selection {
    at: AT,
    kind: EntityKind::Client,
    one: "client",
    many: "clients",
    acts: &[
        (Act::Verify, ""),
        (
            Act::Revoke,
            "They lose all access at once, and come back by new tokens alone.",
        ),
        (
            Act::Delete,
            "They lose all access at once, and their names and addresses.",
        ),
    ],
};

pub(super) async fn change_selected(
    State(console): State<Console>,
    posted: Posted,
) -> Result<Response, Fault> {
    SELECTION.send(&console, posted).await
}

pub(super) async fn list(
    State(console): State<Console>,
    person: Person,
    asked: Asked,
) -> Result<Response, Fault> {
    let is_own = person.caller.role() == Role::User;
    let title = if is_own { "My clients" } else { "Clients" };
    let mut page = person.live_page(title, AT, AT, &console);
    page.create = new_client::create(&person);
    let request = LISTING.request(&asked);
    let service = &console.service;
    let found = service.clients(&person.caller, &request).await?;
    let sessions = service.sessions_of_clients(&person.caller, &found.items);
    let sessions = sessions.await?;
    let names = owners(&console, &person, &found.items).await?;
    let mut rows = Vec::new();
    for client in &found.items {
        rows.push(vec![
            Cell::link(format!("{AT}/{}", client.id), &client.name),
            owner(&person, client, &names),
            states::presence(client, sessions.contains_key(&client.id)),
            states::client(client),
            Cell::code(client.ipv4),
            Cell::time(client.last_seen),
            states::software(client),
            Cell::Menu(actions(&person, client)),
        ]);
    }
    let mut table = LISTING.table(&asked, found.total, rows);
    title.clone_into(&mut table.title);
    let shown = found.items.iter();
    let shown = shown.map(|client| (client.id, client.version, client.name.as_str()));
    SELECTION.offer(&person, &mut table, shown);
    page.sections.push(Section::Table(table));
    Ok(page.into_response())
}

/// The names of the clients' owners. Users see their own clients alone, and no names.
async fn owners(console: &Console, person: &Person, clients: &[Client]) -> Result<Names, Fault> {
    let owners = clients.iter().map(|client| client.actor.into());
    match person.caller.role() {
        Role::User => Ok(Names::default()),
        Role::Auditor | Role::Admin | Role::Owner => Names::of(console, person, owners).await,
    }
}

fn owner(person: &Person, client: &Client, names: &Names) -> Cell {
    match person.caller.role() {
        Role::User => Cell::text("you"),
        Role::Auditor | Role::Admin | Role::Owner => names.shown(client.actor),
    }
}

fn actions(person: &Person, client: &Client) -> Vec<Action> {
    let mut actions = Vec::new();
    if client.revoked.is_some() {
        return actions;
    }
    let buttons = Buttons {
        path: format!("{AT}/{}", client.id),
        what: &client.name,
        version: client.version,
    };
    if person.may_change() {
        actions.push(match client.verified {
            Some(_) => buttons.for_good(
                "Take verification back",
                "unverify",
                "It loses at once the access that only verified clients have.",
            ),
            None => buttons.button("Verify", "verify"),
        });
    }
    if person.may_change() || person.caller.role() == Role::User {
        let loss = match is_plain(client) {
            true => "It loses all access at once. Nobody gets in with its key again.",
            false => "It loses all access at once, and comes back by a new token alone.",
        };
        actions.push(buttons.for_good("Revoke", "revoke", loss));
    }
    actions
}

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
    Id(id): Id<ClientId>,
) -> Result<Response, Fault> {
    let mut page = person.live_page("", AT, format!("{AT}/{id}"), &console);
    let service = &console.service;
    let client = service.client(&person.caller, id).await?;
    let shown = std::slice::from_ref(&client);
    let sessions = service.sessions_of_clients(&person.caller, shown).await?;
    let session = sessions.get(&id);
    let names = owners(&console, &person, shown).await?;
    page.title.clone_from(&client.name);
    page.sections.push(Section::Facts {
        title: "Client".to_owned(),
        facts: facts(&person, &client, &names, session.is_some()),
    });
    if is_plain(&client) {
        let file = service.plain_client_file(&person.caller, id).await?;
        let may_rekey = service.may_have_device_of(&person.caller, Some(client.actor));
        let may_rekey = client.revoked.is_none() && may_rekey.await?;
        page.sections.extend(about_file(&person, &file, may_rekey));
        let endpoints = service.plain_client_endpoints(&person.caller, id).await;
        let endpoints = endpoints.unwrap_or_default();
        page.sections
            .extend(plain_endpoints::section(&file, &endpoints));
    }
    if let Some(session) = session {
        page.sections.push(Section::Facts {
            title: "Connected".to_owned(),
            facts: vec![
                ("Since", Cell::time(Some(session.since))),
                ("Grants in force", Cell::text(session.grants)),
                ("Resources that it knows", Cell::text(session.resources)),
            ],
        });
    }
    if let Some(session) = session.filter(|_| person.caller.role() != Role::User) {
        page.sections
            .extend(client_paths::section(&console, &person, session).await?);
    }
    if person.caller.role() != Role::User {
        let total = session.map_or(0, |session| session.grants);
        page.sections
            .extend(answers_about(&console, &person, &client, total).await?);
    }
    // People rename and delete a plain device of their own.
    if person.may_change() || is_plain(&client) && person.caller.role() == Role::User {
        let rename = rename_form(&format!("{AT}/{id}"), &client.name);
        let delete = Buttons {
            path: format!("{AT}/{id}"),
            what: &client.name,
            version: client.version,
        };
        let delete = delete.for_good(
            "Delete",
            "delete",
            "It loses all access at once, and its name and address.",
        );
        page.sections
            .push(Section::Form(rename.with_version(client.version)));
        page.sections.push(Section::Facts {
            title: "Delete".to_owned(),
            facts: vec![(
                match is_plain(&client) {
                    true => "It can be added again with a new key",
                    false => "With a token that is good it enrols anew",
                },
                Cell::Actions(vec![delete]),
            )],
        });
    }
    Ok(page.into_response())
}

/// True for a device without Culvert.
fn is_plain(client: &Client) -> bool {
    !client.gateways.is_empty()
}

fn facts(
    person: &Person,
    client: &Client,
    names: &Names,
    is_connected: bool,
) -> Vec<(&'static str, Cell)> {
    let from = client.last_address.map(|address| address.to_string());
    let mut facts = vec![
        ("Now", states::presence(client, is_connected)),
        ("State", states::client(client)),
        ("Verified since", Cell::time(client.verified)),
        ("Owner", owner(person, client, names)),
        ("Software", states::software(client)),
    ];
    facts.extend([
        ("Last seen", Cell::time(client.last_seen)),
        ("From", Cell::text(from.as_deref().unwrap_or("–"))),
        ("Address", Cell::code(client.ipv4)),
        ("IPv6 address", Cell::code(client.ipv6)),
        ("Key", Cell::code(client.public_key)),
        ("Created", Cell::time(Some(client.created))),
        ("Actions", Cell::Actions(actions(person, client))),
    ]);
    facts
}

/// The gateways of a plain WireGuard device, the way to its file, and all that does not work on it.
fn about_file(person: &Person, file: &PlainClientFile, may_rekey: bool) -> Vec<Section> {
    let gateway = |peer: &PlainClientPeer| Piece {
        text: peer.gateway_name.clone(),
        path: match person.caller.role() {
            Role::User => None,
            Role::Auditor | Role::Admin | Role::Owner => {
                Some(format!("/gateways/{}", peer.gateway))
            }
        },
    };
    let path = file_of(file.client.id);
    let mut ways = vec![(path.clone(), "Show the file again".to_owned())];
    if may_rekey {
        ways.push((format!("{path}#new-key"), "New key".to_owned()));
    }
    vec![
        Section::Chips {
            title: "Gateways".to_owned(),
            chips: file.peers.iter().map(gateway).collect(),
            empty: "None is left: give the device another one.",
        },
        Section::Ways(ways),
        wireguard::limits(file),
    ]
}

/// Its grants, what it may use, what it was denied, and the question why.
async fn answers_about(
    console: &Console,
    person: &Person,
    client: &Client,
    grants: u64,
) -> Result<Vec<Section>, Fault> {
    let service = &console.service;
    let mut sections = Vec::new();
    if grants > 0 {
        let machine = MachineId::Client(client.id);
        let of_client = service.grants_of(&person.caller, machine, answers::ROWS);
        let of_client = of_client.await?;
        sections.extend(answers::grants(console, person, &of_client, true, grants).await?);
    }
    let of = PoliciesOf::Actor(client.actor);
    sections.extend(answers::policies(console, person, of).await?);
    let of = UseOf {
        id: client.id.into(),
        field: "client",
        name: &client.name,
    };
    sections.extend(answers::recent_use(console, person, of).await?);
    sections.push(explain::panel(console, person, &Preset::Client(&client.name)).await?);
    Ok(sections)
}

pub(super) async fn rename(
    State(console): State<Console>,
    Id(id): Id<ClientId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let name = Some(fields.text("name").to_owned());
    let service = &console.service;
    let changed = service
        .change_client(&person.caller, id, version, ClientPatch { name })
        .await;
    let now = async {
        let client = service.client(&person.caller, id).await?;
        Ok((client.name, client.version))
    };
    let at = (AT, format!("{AT}/{id}"));
    renamed(&person, at, &fields, changed, now).await
}

pub(super) async fn delete(
    State(console): State<Console>,
    Id(id): Id<ClientId>,
    Posted { person, fields }: Posted,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let service = &console.service;
    let name = service.client(&person.caller, id).await?.name;
    service.delete_client(&person.caller, id, version).await?;
    Ok(done(AT, &format!("Client {name} deleted.")))
}

pub(super) async fn judge(
    State(console): State<Console>,
    Id(id): Id<ClientId>,
    Posted { person, fields }: Posted,
    action: ClientAction,
) -> Result<Response, Fault> {
    let version = fields.version()?;
    let client = console
        .service
        .judge_client(&person.caller, id, version, action)
        .await?;
    let word = match action {
        ClientAction::Verify => "verified",
        ClientAction::Unverify => "no longer verified",
        ClientAction::Revoke => "revoked",
    };
    let notice = format!("Client {} {word}.", client.name);
    Ok(person.back_with(&fields, AT, &notice))
}
