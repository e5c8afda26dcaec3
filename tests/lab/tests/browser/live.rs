//! Pages that follow what happens (docs/adr/0020-pages-that-follow.md), by their script.

use crate::console::{Console, SOON};
use culvert_lab::wait_until;
use serde_json::json;

/// The status text of a page.
const STATE: &str = "return document.getElementById('live').textContent";

/// Up to where the page has taken over what happened.
const SINCE: &str = "return document.getElementById('live').dataset.since";

fn says(console: &Console, wanted: &str) {
    let is_said = || {
        let state = console.browser.run(STATE, &[]);
        state.is_ok_and(|state| state.as_str().is_some_and(|text| text.starts_with(wanted)))
    };
    wait_until(wanted, SOON, is_said)
        .map_err(|error| error.context(format!("{:?}", console.browser.run(STATE, &[]))))
        .unwrap();
}

fn comes_to_show(console: &Console, text: &str) {
    let shows = || shows(console, text);
    wait_until(text, SOON, shows).unwrap();
}

fn shows(console: &Console, text: &str) -> bool {
    let page = console.browser.page_text();
    page.is_ok_and(|page| page.contains(text))
}

#[test]
fn the_heading_stays_first_when_a_live_page_gets_more_parts() {
    let mut console = Console::with_everything().unwrap();
    console.sign_in("olivia").unwrap();
    console.open("/").unwrap();
    says(&console, "Live");
    assert!(!shows(&console, "First steps"));
    console.product.client.stop().unwrap();
    comes_to_show(&console, "First steps");
    let first = "return document.querySelector('main').firstElementChild.textContent";
    let first = console.browser.run(first, &[]).unwrap();
    assert_eq!(first, "Overview");
}

/// Gives the person whose client it is another name, which the client's page shows.
fn rename(console: &Console, from: &str, to: &str) {
    let line = format!("actor set {from} --name {to}");
    console.product.portal.admin(&line).unwrap();
}

#[test]
fn a_live_page_leaves_alone_what_someone_has_in_hand() {
    let console = Console::with_everything().unwrap();
    console.sign_in("olivia").unwrap();
    let clients = console.api("GET", "/clients", None).unwrap();
    let path = format!("/clients/{}", clients["items"][0]["id"].as_str().unwrap());
    console.open(&path).unwrap();
    says(&console, "Live");
    let browser = &console.browser;
    let field = "form[aria-label=Rename] [name=name]";
    browser.fill(field, "half of a na").unwrap();
    rename(&console, "ursula", "undine");
    comes_to_show(&console, "undine");
    // The focus stays, so typing continues there.
    browser.press("me").unwrap();
    let written = "return document.activeElement.name + ': ' + document.activeElement.value";
    let written = browser.run(written, &[]).unwrap();
    assert_eq!(written, "name: half of a name");

    // Nor does what the keyboard has come to go away under it, until it goes on.
    let link = "document.querySelector('main dl a').focus()";
    browser.run(link, &[]).unwrap();
    rename_unseen(&console, "undine", "ulrike");
    let focused = browser.run("return document.activeElement.textContent", &[]);
    assert_eq!(focused.unwrap(), "undine");
    browser.run("document.activeElement.blur()", &[]).unwrap();
    comes_to_show(&console, "ulrike");

    // Marked content stays, and so does the mark.
    let mark = "getSelection().selectAllChildren(document.querySelector('main dl'));
        return getSelection().toString()";
    let marked = browser.run(mark, &[]).unwrap();
    assert!(marked.as_str().is_some_and(|text| text.contains("ulrike")));
    rename_unseen(&console, "ulrike", "umbra");
    let still = browser.run("return getSelection().toString()", &[]);
    assert_eq!(still.unwrap(), marked);
    let unmark = browser.run("getSelection().removeAllRanges()", &[]);
    unmark.unwrap();
    rename(&console, "umbra", "uriel");
    comes_to_show(&console, "uriel");
}

/// Does so, and waits until the page has asked for what is new, and does not show it.
fn rename_unseen(console: &Console, from: &str, to: &str) {
    let before = console.browser.run(SINCE, &[]).unwrap();
    rename(console, from, to);
    let since = || console.browser.run(SINCE, &[]);
    let has_asked = || since().is_ok_and(|since| since != before);
    wait_until("the page has asked for what is new", SOON, has_asked).unwrap();
    assert!(!shows(console, to), "{from} is in somebody's hands");
}

#[test]
fn a_button_copies_the_token_beside_it() {
    let console = Console::with_people().unwrap();
    console.sign_in("olivia").unwrap();
    let browser = &console.browser;
    let rights = json!({
        "origin": console.url,
        "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"],
    });
    browser
        .developer("Browser.grantPermissions", &rights)
        .unwrap();
    let sites = console.api("GET", "/sites", None).unwrap();
    let path = format!("/sites/{}", sites["items"][0]["id"].as_str().unwrap());
    console.open(&path).unwrap();
    let form = "Token for gateways of this site";
    console.send(form, &[("name", "gateway")]).unwrap();
    let token = "return [...document.querySelectorAll('pre[data-copy]')]
        .find(text => text.textContent.startsWith('cv_')).textContent";
    let token = browser.run(token, &[]).unwrap();
    let place = "return [...document.querySelectorAll('pre[data-copy]')]
        .findIndex(text => text.textContent.startsWith('cv_'))";
    let place = browser.run(place, &[]).unwrap().as_u64().unwrap();
    let buttons = browser.all("button.copy").unwrap();
    let button = &buttons[usize::try_from(place).unwrap()];
    browser.click(button).unwrap();
    let is_copied = || browser.text(button).is_ok_and(|text| text == "Copied");
    wait_until("the button says so", SOON, is_copied).unwrap();
    let copied = "return navigator.clipboard.readText()";
    assert_eq!(browser.run(copied, &[]).unwrap(), token);
}

#[test]
fn a_page_says_when_it_is_not_live_and_is_again_when_the_portal_is_back() {
    let mut console = Console::with_people().unwrap();
    console.sign_in("olivia").unwrap();
    console.open("/").unwrap();
    says(&console, "Live");
    console.product.portal.stop().unwrap();
    says(&console, "Not live");
    console.product.portal.start().unwrap();
    says(&console, "Live");

    // Signed out in another window.
    const SIGN_OUT: &str = "const form = document.querySelector('form.out');
        return fetch(form.action, { method: 'POST', body: new URLSearchParams(new FormData(form)) })
            .then(answer => answer.ok)";
    assert_eq!(console.browser.run(SIGN_OUT, &[]).unwrap(), true);
    says(&console, "Not live: you are signed out");
}
