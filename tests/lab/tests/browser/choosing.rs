//! Forms that look for names while somebody writes, and that grow by rows.

use crate::console::{Console, SOON};
use crate::page;
use culvert_lab::wait_until;
use serde_json::json;

#[test]
fn today_in_a_log_begins_at_the_midnight_of_the_browser() {
    let console = Console::with_people().unwrap();
    console.sign_in("olivia").unwrap();
    // Browsers call it by its old name, Asia/Calcutta.
    let zone = json!({ "timezoneId": "Asia/Kolkata" });
    let set = console
        .browser
        .developer("Emulation.setTimezoneOverride", &zone);
    set.unwrap();
    console.open("/log/changes").unwrap();
    let text = console.browser.page_text().unwrap();
    assert!(
        text.contains("Days begin at midnight in Asia/Calcutta."),
        "{text}"
    );
    let today = console.browser.link("Today").unwrap();
    console.browser.follow(&today).unwrap();
    let loaded = page::is_usable(&console, "log-of-today").unwrap();
    assert_eq!(loaded.status, 200);
    let path = console.path().unwrap();
    assert!(path.contains("zone=Asia%2FCalcutta"), "{path}");
    // A day of the form is one of that zone as well.
    console
        .send("Which changes", &[("from", "2026-11-22")])
        .unwrap();
    assert_eq!(page::look(&console).unwrap().status, 200);
    let path = console.path().unwrap();
    assert!(path.contains("zone=Asia%2FCalcutta"), "{path}");
    // A link that somebody sent keeps the zone of whoever sent it.
    console
        .open("/log/changes?from=today&zone=America/New_York")
        .unwrap();
    let text = console.browser.page_text().unwrap();
    assert!(
        text.contains("Days begin at midnight in America/New_York."),
        "{text}"
    );
}

#[test]
fn a_form_finds_names_while_somebody_writes_and_gets_more_rows() {
    let console = Console::with_people().unwrap();
    console.sign_in("olivia").unwrap();
    for number in 0..60 {
        let group = json!({ "name": format!("farm {number:02}") });
        console.api("POST", "/groups", Some(&group)).unwrap();
    }
    console.open("/policies/new").unwrap();
    page::is_usable(&console, "new-policy").unwrap();
    let options = |name: &str| {
        const ASK: &str = "const field = document.querySelector(`input[name=${arguments[0]}]`);
            return [...field.list.options].map((option) => option.value).join('|');";
        let found = console.browser.run(ASK, &[json!(name)]).unwrap();
        found.as_str().unwrap().to_owned()
    };
    assert!(options("group").starts_with("farm 00|"));
    let group = "input[name=group]";
    console.browser.fill(group, "FARM 5").unwrap();
    let fits = "farm 50|farm 51|farm 52|farm 53|farm 54|farm 55|farm 56|farm 57|farm 58|farm 59";
    wait_until("the names that fit", SOON, || options("group") == fits).unwrap();
    // A list of countries goes on behind its last comma.
    let country = "input[name=country]";
    console.browser.fill(country, "Germany, Au").unwrap();
    assert!(options("country").contains("|Germany, Austria|"));
    // The browser knows its time zone.
    let zone = "return document.querySelector('input[name=zone]').value";
    assert_ne!(console.browser.run(zone, &[]).unwrap(), json!(""));

    console.open("/resources/new").unwrap();
    page::is_usable(&console, "new-resource").unwrap();
    let more = console.browser.one("button.more-rows").unwrap();
    console.browser.click(&more).unwrap();
    let row = console.browser.one("select[name='protocol.3']").unwrap();
    let focused = console.browser.focused().unwrap();
    let name = |of: &_| console.browser.attribute(of, "name").unwrap();
    assert_eq!(name(&focused), name(&row));
    assert_eq!(
        console.browser.all("input[name='ports.3']").unwrap().len(),
        1
    );
    page::is_for_everybody(&console, "port-rows").unwrap();
}
