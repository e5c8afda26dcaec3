//! Ways to use the console other than by a mouse and with scripts.

use crate::console::{Console, PASSWORD};
use crate::driver::{ENTER, TAB};
use crate::{crawl, page};
use anyhow::{Result, bail};
use serde_json::json;

/// More stops than any page has before the one that is looked for.
const MAX_STOPS: usize = 60;

#[test]
fn the_keyboard_alone_signs_in_and_makes_a_resource() {
    let console = Console::with_people().unwrap();
    console.open("/sign-in").unwrap();
    type_into(&console, "name", "olivia").unwrap();
    type_into(&console, "password", &format!("{PASSWORD}{ENTER}")).unwrap();
    console
        .comes_to("the overview", |path| path == "/")
        .unwrap();
    follow(&console, "/resources").unwrap();
    follow(&console, "/resources/new").unwrap();
    type_into(&console, "name", "by keyboard").unwrap();
    type_into(&console, "site", "office").unwrap();
    type_into(&console, "address", "10.1.2.3").unwrap();
    type_into(&console, "protocol.0", "TCP").unwrap();
    type_into(&console, "ports.0", &format!("22{ENTER}")).unwrap();
    shows_the_resource(&console, "by keyboard");
}

#[test]
fn without_scripts_every_page_answers_and_a_resource_is_made() {
    let console = Console::with_people().unwrap();
    let off = json!({ "value": true });
    let set = console
        .browser
        .developer("Emulation.setScriptExecutionDisabled", &off);
    set.unwrap();
    console.sign_in("olivia").unwrap();
    let walk = crawl::walk(&console, |_| Ok(())).unwrap();
    assert!(walk.pages.len() >= 13, "{:#?}", walk.pages);
    console.open("/resources/new").unwrap();
    let fields = [
        ("name", "by no script"),
        ("site", "office"),
        ("address", "10.1.2.4"),
        ("protocol.0", "tcp"),
        ("ports.0", "22"),
    ];
    console.send("Resource", &fields).unwrap();
    shows_the_resource(&console, "by no script");
}

fn shows_the_resource(console: &Console, name: &str) {
    let is_its_page = |path: &str| path.starts_with("/resources/res_");
    console
        .comes_to("the page of the resource", is_its_page)
        .unwrap();
    page::look(console).unwrap();
    assert!(console.browser.page_text().unwrap().contains(name));
}

/// Goes from stop to stop to a field, and types.
fn type_into(console: &Console, name: &str, keys: &str) -> Result<()> {
    go_to(console, "name", |value| value == name)?;
    console.browser.press(keys)
}

/// Goes from stop to stop to a link, and follows it.
fn follow(console: &Console, path: &str) -> Result<()> {
    go_to(console, "href", |value| value.ends_with(path))?;
    console.browser.press(ENTER)?;
    console.comes_to(path, |now| now == path)
}

fn go_to(console: &Console, attribute: &str, is_it: impl Fn(&str) -> bool) -> Result<()> {
    for _ in 0..MAX_STOPS {
        console.browser.press(TAB)?;
        let focused = console.browser.focused()?;
        if is_it(&console.browser.attribute(&focused, attribute)?) {
            return Ok(());
        }
    }
    bail!(
        "{} stops on {} lead to no such place",
        MAX_STOPS,
        console.path()?
    )
}
