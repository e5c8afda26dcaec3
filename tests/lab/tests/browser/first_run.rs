//! From a portal that nobody owns to the first connection through the tunnel, by what the pages say.

use crate::console::{Console, PASSWORD, SOON};
use crate::page;
use anyhow::{Context, Result};
use culvert_lab::product::{PRIVATE_V4, Server};
use culvert_lab::wait_until;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

#[test]
fn the_console_leads_from_the_first_start_to_the_first_protected_connection() {
    let mut console = Console::new(1).unwrap();
    let web = Server::start(&console.product.private, PRIVATE_V4.parse().unwrap(), 80);
    let _web = web.unwrap();

    become_owner(&console).unwrap();
    let token = token_for_gateways(&console, "lab").unwrap();
    write_token(&console.product.gateways[0].token_file(), &token).unwrap();
    console.product.gateways[0].start().unwrap();
    let token = token_for_clients(&console, "laptop").unwrap();
    write_token(&console.product.client.token_file(), &token).unwrap();
    console.product.client.start().unwrap();

    let client = console.product.client.namespace.clone();
    let reaches = || {
        let line = format!("curl -fsS -m 4 http://{PRIVATE_V4}/");
        client
            .outcome(&line)
            .is_ok_and(|outcome| outcome.status.success())
    };
    assert!(!reaches(), "nothing was allowed yet");
    allow(&console).unwrap();
    wait_until("the first connection through the tunnel", SOON, reaches).unwrap();

    for (path, wanted) in [
        ("/", "laptop"),
        ("/clients", "laptop"),
        ("/log/access", "web"),
    ] {
        console.open(path).unwrap();
        page::look(&console).unwrap();
        let text = console.browser.page_text().unwrap();
        assert!(
            text.contains(wanted),
            "{path} does not show {wanted}:\n{text}"
        );
    }
}

/// Opens the portal as somebody who has just started it.
fn become_owner(console: &Console) -> Result<()> {
    let portal = &console.product.portal;
    wait_until("the set-up token", SOON, || portal.setup_token().is_some())?;
    let token = portal.setup_token().context("no token")?;
    console.open("/")?;
    console.comes_to("the page for signing in", |path| {
        path.starts_with("/sign-in")
    })?;
    console
        .browser
        .follow(&console.browser.link("First start? Set the portal up")?)?;
    let fields = [
        ("token", token.as_str()),
        ("owner", "olivia"),
        ("password", PASSWORD),
        ("again", PASSWORD),
    ];
    console.send("Become the owner", &fields)?;
    console.comes_to("the overview", |path| path == "/")?;
    page::look(console).map(drop)
}

/// Makes a site, and a token for its gateways; returns the token as the page shows it.
fn token_for_gateways(console: &Console, site: &str) -> Result<String> {
    console.open("/sites")?;
    console.send("New site", &[("name", site)])?;
    console.browser.follow(&console.browser.link(site)?)?;
    console.send(
        "Token for gateways of this site",
        &[("name", "first gateway")],
    )?;
    token_shown(console, "culvert gateway run")
}

/// Makes an actor in a group, and a token for its clients.
fn token_for_clients(console: &Console, name: &str) -> Result<String> {
    console.open("/groups")?;
    console.send("New group", &[("name", "staff")])?;
    let group = console.path()?;
    console.open("/people")?;
    let machine = "form[aria-label=\"New actor\"] option[value=service_account]";
    console.browser.click(&console.browser.one(machine)?)?;
    console.send("New actor", &[("name", name)])?;
    let actor = console.path()?;
    console.open(&group)?;
    console.send("Add a member", &[("actor", name)])?;
    console.open(&actor)?;
    console.send("Token for clients", &[("name", "its token")])?;
    token_shown(console, "culvert client run")
}

/// The token that the page shows, which also says the command to use it with.
fn token_shown(console: &Console, command: &str) -> Result<String> {
    page::look(console)?;
    let mut texts = Vec::new();
    for element in console.browser.all("pre")? {
        texts.push(console.browser.text(&element)?);
    }
    texts
        .iter()
        .find(|text| text.contains(command))
        .with_context(|| format!("no page says `{command}`: {texts:#?}"))?;
    let token = texts.iter().find(|text| text.starts_with("cv_"));
    Ok(token.context("no token is shown")?.clone())
}

/// Lets the group to the private network's web server, and to nothing else.
fn allow(console: &Console) -> Result<()> {
    console.open("/resources/new")?;
    let fields = [
        ("name", "web"),
        ("site", "lab"),
        ("address", PRIVATE_V4),
        ("filters", "tcp:80"),
    ];
    console.send("What it is", &fields)?;
    console.open("/policies")?;
    let fields = [
        ("name", "staff to web"),
        ("group", "staff"),
        ("resource", "web"),
    ];
    console.send("New policy", &fields)?;
    page::look(console).map(drop)
}

fn write_token(path: &Path, token: &str) -> Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)?;
    Ok(file.write_all(token.as_bytes())?)
}
