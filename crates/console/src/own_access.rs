//! A person's own page: what they may use, their machines, and how to get another one connected.

use super::machine_commands;
use super::person::Person;
use super::state::Console;
use super::states;
use super::view::{Cell, Section, Table};
use super::wireguard;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use culvert_portal_base::Fault;
use culvert_portal_service::{OwnAccess, OwnMachine, OwnResource, OwnUse};
use culvert_wire::words;

pub(super) const AT: &str = "/me/access";

pub(super) async fn show(
    State(console): State<Console>,
    person: Person,
) -> Result<Response, Fault> {
    let access = console.service.own_access(&person.caller).await?;
    let mut page = person.live_page("My access", AT, AT, &console);
    let mut tables = [resources(&access), machines(&access)];
    // The first thing to do comes first.
    if access.machines.is_empty() {
        tables.reverse();
    }
    page.sections.extend(tables.map(Section::Table));
    page.sections.extend(another_machine(&console));
    if console
        .service
        .may_have_device_of(&person.caller, None)
        .await?
    {
        page.sections.extend(wireguard::way());
    }
    Ok(page.into_response())
}

fn resources(access: &OwnAccess) -> Table {
    let row = |resource: &OwnResource| {
        let (now, until) = use_of(&resource.now);
        vec![
            Cell::text(&resource.name),
            Cell::code(&resource.address),
            Cell::code(words::filters(&resource.filters)),
            now,
            until,
        ]
    };
    let title = match (access.has_more, access.has_undecided) {
        (false, false) => "What I may use",
        (true, false) => "What I may use (the first hundred)",
        (false, true) => "What I may use (not decided for all machines)",
        (true, true) => "What I may use (the first hundred, not decided for all machines)",
    };
    Table {
        title: title.to_owned(),
        columns: vec!["Name", "Address", "Ports", "Now", "Until"],
        rows: access.resources.iter().map(row).collect(),
        empty: "Nothing yet. An administrator puts you into a group that may use something.".into(),
        ..Table::default()
    }
}

fn use_of(now: &OwnUse) -> (Cell, Cell) {
    let none = Cell::time(None);
    match now {
        OwnUse::Allowed { machines, until } => {
            let from = format!("yes, from {}", machines.join(", "));
            (Cell::good(from), Cell::time(*until))
        }
        OwnUse::NoGateway => (Cell::warn("allowed, but no gateway is there"), none),
        OwnUse::Denied => (Cell::plain("denied now: an administrator sees why"), none),
        OwnUse::Unknown => {
            let why =
                "not known now: the portal's sessions do not have it yet. Load the page again.";
            (Cell::warn(why), none)
        }
        OwnUse::NoMachine => (Cell::plain("once a machine is signed in"), none),
    }
}

fn machines(access: &OwnAccess) -> Table {
    let row = |machine: &OwnMachine| {
        let client = &machine.client;
        vec![
            Cell::link(format!("/clients/{}", client.id), &client.name),
            states::presence(client, machine.is_connected),
            match client.verified {
                Some(_) => Cell::good("verified"),
                None => Cell::plain("not verified"),
            },
            Cell::time(client.last_seen),
            states::software(client),
        ]
    };
    Table {
        title: "My machines".to_owned(),
        columns: vec!["Name", "Now", "State", "Last seen", "Software"],
        rows: access.machines.iter().map(row).collect(),
        empty: "You have no machine yet. Install the client, then sign the machine in: both commands are below.".into(),
        ..Table::default()
    }
}

/// The steps from a machine without Culvert to a connected client.
pub(super) fn another_machine(console: &Console) -> Vec<Section> {
    let copy = |title: &str, note: &str, text: String| Section::Copy {
        title: title.to_owned(),
        note: note.to_owned(),
        text,
    };
    let install = "On Debian or Ubuntu, in the directory with the packages that your administrator gives you.";
    let sign_in = "It prints a code and an address. Open the address in any browser, and approve the machine.";
    let devices = (
        "/device".to_owned(),
        "Enter the code of a machine".to_owned(),
    );
    let sessions = ("/me".to_owned(), "My sessions and password".to_owned());
    vec![
        copy(
            "Install the client",
            install,
            machine_commands::INSTALL_CLIENT.to_owned(),
        ),
        copy(
            "Sign a machine in",
            sign_in,
            machine_commands::sign_in(&(console.portal)()),
        ),
        Section::Ways(vec![devices, sessions]),
    ]
}
