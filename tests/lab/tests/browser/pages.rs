//! Every page as every role: it answers, loads nothing from elsewhere, and can be used by everybody.

use crate::console::{Console, PEOPLE};
use crate::{crawl, page, sizes};

/// Every list and log.
const LISTS: [&str; 12] = [
    "/sites",
    "/gateways",
    "/clients",
    "/resources",
    "/policies",
    "/people",
    "/groups",
    "/service-accounts",
    "/settings/tokens",
    "/log/access",
    "/log/changes",
    "/log/flows",
];

#[test]
fn every_page_that_an_owner_is_led_to_answers_and_is_usable_by_everybody() {
    let console = Console::with_everything().unwrap();
    for path in ["/sign-in", "/set-up"] {
        console.open(path).unwrap();
        page::is_usable(&console, path.trim_matches('/')).unwrap();
    }
    visit_all(&console, PEOPLE[0]);
    console.open("/components").unwrap();
    page::is_usable(&console, "components").unwrap();
}

#[test]
fn every_page_that_another_role_is_led_to_answers_and_is_usable_by_everybody() {
    let console = Console::with_everything().unwrap();
    for person in &PEOPLE[1..] {
        visit_all(&console, *person);
    }
}

/// Opens every page as this person.
fn visit_all(console: &Console, (name, role): (&str, &str)) {
    console.sign_in(name).unwrap();
    let mut problems = Vec::new();
    let walk = crawl::walk(console, |path| {
        // Administrators see the same pages, auditors the same with fewer forms.
        if matches!(role, "owner" | "user") {
            problems.extend(page::is_for_everybody(console, &picture_name(role, path)).err());
            if LISTS.contains(&path) && role == "owner" {
                problems.extend(sizes::shows_rows_above_the_fold(console).err());
            }
        }
        Ok(())
    });
    let walk = walk.unwrap();
    assert!(problems.is_empty(), "{role}: {problems:#?}");
    let enough = if role == "user" { 2 } else { 16 };
    assert!(walk.pages.len() >= enough, "{role}: {:#?}", walk.pages);
    let sees_all = role == "user" || walk.has_everything();
    assert!(sees_all, "{role}: {:#?}", walk.pages);
    let may_change = matches!(role, "owner" | "admin");
    let makes = walk
        .forms
        .iter()
        .any(|form| form.action == "post /policies");
    assert_eq!(makes, may_change, "{role}: {:#?}", walk.forms);
}

#[test]
fn pages_after_a_form_are_usable_by_everybody() {
    let console = Console::with_everything().unwrap();
    console.sign_in("olivia").unwrap();
    let sent = |form: &str, fields: &[(&str, &str)], name: &str| {
        console.send(form, fields).unwrap();
        let loaded = page::is_usable(&console, name).unwrap();
        (loaded.status, console.browser.page_text().unwrap())
    };

    // A form that was refused, at its fields. There is one site, which is chosen already.
    console.open("/resources/new").unwrap();
    let wrong = [("name", "x"), ("address", "not an address")];
    let (status, _) = sent("Resource", &wrong, "refused-form");
    assert_eq!(status, 422);

    // Another person has made a change meanwhile.
    let groups = console.api("GET", "/groups", None).unwrap();
    let path = format!("/groups/{}", groups["items"][0]["id"].as_str().unwrap());
    console.open(&path).unwrap();
    let admin = "group set staff --name crew";
    console.product.portal.admin(admin).unwrap();
    let (status, text) = sent("Rename", &[("name", "team")], "conflict");
    assert_eq!(status, 409);
    assert!(text.contains("How it is now"), "{text}");

    // A secret that is shown once.
    let sites = console.api("GET", "/sites", None).unwrap();
    let path = format!("/sites/{}", sites["items"][0]["id"].as_str().unwrap());
    console.open(&path).unwrap();
    let name = [("name", "second gateway")];
    let (_, text) = sent("Token for gateways of this site", &name, "token-once");
    assert!(text.contains("cv_gateway_"), "{text}");

    console.open("/explain").unwrap();
    let clients = console.api("GET", "/clients", None).unwrap();
    let client = clients["items"][0]["name"].as_str().unwrap();
    for (resource, verdict) in [("intranet", "yes"), ("vault", "no")] {
        let asked = [("client", client), ("resource", resource)];
        let form = "May this client use this resource now?";
        let (_, text) = sent(form, &asked, &format!("explain-{verdict}"));
        assert!(text.contains("Why") && text.contains(verdict), "{text}");
    }

    console.open("/me/second-factor").unwrap();
    let (_, text) = sent("Set up an authenticator app", &[], "qr-code");
    assert!(text.contains("Scan this"), "{text}");
    let (status, _) = sent("Confirm", &[("code", "000000")], "wrong-code");
    assert_eq!(status, 422);
}

fn picture_name(role: &str, path: &str) -> String {
    let page = crawl::kind_of(path).replace('/', "-");
    match page.trim_matches('-') {
        "" => format!("{role}-overview"),
        page => format!("{role}-{page}"),
    }
}
