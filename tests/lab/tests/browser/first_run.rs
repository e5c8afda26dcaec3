//! From a portal that nobody owns to the first connection through the tunnel, by what the pages say.

use crate::console::{Console, PASSWORD, SOON};
use crate::page;
use anyhow::{Context, Result, bail};
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
    take(&console, "Create the site", &[("site", "lab")]).unwrap();
    let name = [("gateway", "first gateway")];
    take(&console, "Create the command for the gateway", &name).unwrap();
    let token = token_shown(&console, "culvert gateway run").unwrap();
    page::is_for_everybody(&console, "first-gateway").unwrap();
    write_token(&console.product.gateways[0].token_file(), &token).unwrap();
    console.product.gateways[0].start().unwrap();
    comes_to_steps(&console, 3);

    // The next step is on the page when it is opened again.
    console.open("/first-steps").unwrap();
    let fields = [
        ("name", "web"),
        ("address", PRIVATE_V4),
        ("filters", "tcp:80"),
        ("group", "staff"),
    ];
    take(&console, "Create the resource and its policy", &fields).unwrap();
    let name = [("client", "laptop")];
    take(&console, "Create the command for the client", &name).unwrap();
    let token = token_shown(&console, "culvert client run").unwrap();
    write_token(&console.product.client.token_file(), &token).unwrap();
    console.product.client.start().unwrap();
    comes_to_steps(&console, 5);

    let client = console.product.client.namespace.clone();
    let reaches = || {
        let line = format!("curl -fsS -m 4 http://{PRIVATE_V4}/");
        client
            .outcome(&line)
            .is_ok_and(|outcome| outcome.status.success())
    };
    wait_until("the first connection through the tunnel", SOON, reaches).unwrap();
    comes_to_steps(&console, 6);

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
    console.comes_to("the page for the first start", |path| path == "/set-up")?;
    page::is_usable(console, "first-run")?;
    let fields = [
        ("token", token.as_str()),
        ("owner", "olivia"),
        ("password", PASSWORD),
        ("again", PASSWORD),
    ];
    console.send("Become the owner", &fields)?;
    console.comes_to("the first steps", |path| path == "/first-steps")?;
    page::is_usable(console, "first-steps").map(drop)
}

/// Takes one of the first steps.
fn take(console: &Console, form: &str, fields: &[(&str, &str)]) -> Result<()> {
    console.send(form, fields)?;
    page::look(console).map(drop)
}

/// Waits until the page that is open says so, by itself: nobody loads it again.
fn comes_to_steps(console: &Console, steps: u32) {
    let wanted = format!("{steps} of 6 steps are done");
    let says_so = || {
        let text = console.browser.page_text();
        text.is_ok_and(|text| text.contains(&wanted))
    };
    wait_until(&wanted, SOON, says_so)
        .with_context(|| console.browser.page_text().unwrap_or_default())
        .unwrap();
}

/// The token that the page shows, which also says the command to use it with: one of several ways.
fn token_shown(console: &Console, command: &str) -> Result<String> {
    page::look(console)?;
    choose(console, "One command")?;
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

/// Chooses one of the ways that a page shows.
pub(crate) fn choose(console: &Console, way: &str) -> Result<()> {
    for label in console.browser.all(".switch label")? {
        if console.browser.text(&label)? == way {
            return console.browser.click(&label);
        }
    }
    bail!("no way is called {way}")
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
