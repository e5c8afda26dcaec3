//! Pages that follow what happens while they are open.

use crate::console::{Console, SOON};
use crate::page;
use anyhow::{Context, Result};
use culvert_lab::wait_until;
use serde_json::json;

/// The event number of the shown page, and its text about following.
fn live(console: &Console) -> Result<(String, String)> {
    const ASK: &str = "const live = document.getElementById('live');
        return [live.dataset.since, live.textContent];";
    let found = console.browser.run(ASK, &[])?;
    let part = |at: usize| Ok(found[at].as_str().context("no text")?.to_owned());
    part(0).and_then(|since| part(1).map(|says| (since, says)))
}

#[test]
fn a_page_that_answers_a_refused_form_follows_what_happens_and_can_be_loaded_again() {
    let console = Console::with_people().unwrap();
    console.sign_in("olivia").unwrap();
    let sites = console.api("GET", "/sites", None).unwrap();
    let id = sites["items"][0]["id"].as_str().unwrap();
    let path = format!("/sites/{id}");
    console.open(&path).unwrap();
    page::look(&console).unwrap();
    let wrong = [("name", "x"), ("expires", "never")];
    console
        .send("Token for gateways of this site", &wrong)
        .unwrap();
    assert_eq!(page::look(&console).unwrap().status, 422);
    assert_eq!(console.path().unwrap(), format!("{path}/token"));
    let is_live = || live(&console).is_ok_and(|(_, says)| says == "Live");
    wait_until("the page follows", SOON, is_live).unwrap();
    let (before, _) = live(&console).unwrap();
    let site = json!({"name": "meanwhile"});
    console.api("POST", "/sites", Some(&site)).unwrap();
    let is_new = || live(&console).is_ok_and(|(since, says)| since != before && says == "Live");
    wait_until("the page is as it is now", SOON, is_new)
        .with_context(|| format!("{:?}", live(&console)))
        .unwrap();
    // By its address alone, as from the line above the page.
    console.open(&format!("{path}/token")).unwrap();
    page::look(&console).unwrap();
    assert_eq!(console.path().unwrap(), path);
}
