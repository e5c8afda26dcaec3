//! Forms that wait until their person has proved anew who they are (docs/sign-in.md, "A fresh proof").

use crate::console::{Console, PASSWORD};
use crate::page;
use anyhow::{Context, Result};
use serde_json::{Value, json};

/// A little longer than a proof is fresh for.
const A_BREAK_MS: u64 = 11 * 60 * 1000;

/// A name with what HTML, forms and queries have to escape.
const NAME: &str = "Example & <Söhne> \"+%20'";

/// A group at the provider, with the same.
const GROUP: &str = "cn=\"R&D\", ou=<a>";

/// The title of the form that waited.
pub(crate) const WAITING: &str = "Your form is not sent yet";

/// Moves the last proof of every session into the past.
pub(crate) fn take_a_break(console: &Console) -> Result<()> {
    let database = console.product.portal.state_dir().join("portal.db");
    // The portal may be writing: its locks are waited for.
    let change = format!(
        "UPDATE token SET proven_ms = proven_ms - {A_BREAK_MS} WHERE proven_ms IS NOT NULL;
         SELECT changes();"
    );
    let sqlite = std::process::Command::new("sqlite3")
        .args(["-cmd", ".timeout 10000"])
        .arg(&database)
        .arg(change)
        .output()
        .context("sqlite3 (package sqlite3): run scripts/setup.sh")?;
    let changed = String::from_utf8_lossy(&sqlite.stdout);
    let error = String::from_utf8_lossy(&sqlite.stderr);
    let is_changed = changed
        .trim()
        .parse::<u32>()
        .is_ok_and(|changed| changed > 0);
    anyhow::ensure!(is_changed, "no session was changed: {changed}{error}");
    Ok(())
}

/// Sends a form, which has to wait: the next page asks who it is.
fn is_asked(console: &Console, form: &str, fields: &[(&str, &str)], picture: &str) {
    console.send(form, fields).unwrap();
    let asks = |path: &str| path.starts_with("/confirm?form=");
    console.comes_to("the question who it is", asks).unwrap();
    page::is_usable(console, picture).unwrap();
}

/// The answer was right: the page with the form that waited is there.
fn goes_on(console: &Console) {
    let goes_on = |path: &str| path.starts_with("/confirm/done?form=");
    console.comes_to("the form that waited", goes_on).unwrap();
    page::is_usable(console, "fresh-proof-given").unwrap();
}

/// The text of the page, which was refused because of a field.
fn refused(console: &Console) -> String {
    assert_eq!(page::look(console).unwrap().status, 422);
    console.browser.page_text().unwrap()
}

/// The names of all tokens that were made.
fn tokens(console: &Console) -> Vec<String> {
    let tokens = console.api("GET", "/tokens", None).unwrap();
    let tokens = tokens["items"].as_array().unwrap().iter();
    let names = tokens.filter_map(|token| token["name"].as_str());
    names.map(str::to_owned).collect()
}

#[test]
fn a_form_after_a_break_asks_for_the_password_and_is_sent_as_it_was_typed() {
    let console = Console::with_people().unwrap();
    console.sign_in("olivia").unwrap();
    let authority = rcgen::generate_simple_self_signed(["id.example".to_owned()]).unwrap();
    let authority = authority.cert.pem().replace('\r', "");
    let groups = format!("{GROUP}=staff\nothers=staff");
    let typed = [
        ("name", NAME),
        ("issuer", "https://id.example"),
        ("client_id", "culvert"),
        ("client_secret", "s3cret"),
        ("groups_claim", "groups"),
        ("groups", &*groups),
        ("ca", &*authority),
    ];
    take_a_break(&console).unwrap();
    console.open("/settings/providers/new").unwrap();
    is_asked(&console, "New identity provider", &typed, "fresh-proof");
    let none = console.api("GET", "/providers", None).unwrap();
    assert_eq!(none["items"], json!([]));

    let form = "With your password";
    console
        .send(form, &[("current", "wrong horse battery staple")])
        .unwrap();
    let text = refused(&console);
    assert!(text.contains("it is not your password"), "{text}");
    page::is_for_everybody(&console, "fresh-proof-refused").unwrap();
    console.send(form, &[("current", PASSWORD)]).unwrap();
    goes_on(&console);
    let none = console.api("GET", "/providers", None).unwrap();
    assert_eq!(none["items"], json!([]), "not before it is sent");
    console.send(WAITING, &[]).unwrap();
    let is_made = |path: &str| path.starts_with("/settings/providers/idp_");
    console.comes_to("the provider's page", is_made).unwrap();
    page::look(&console).unwrap();

    let made = console.api("GET", "/providers", None).unwrap();
    let made = &made["items"][0];
    let text = |name: &str| made[name].as_str().unwrap_or_default().replace('\r', "");
    assert_eq!(text("name"), NAME);
    assert_eq!(text("ca").trim(), authority.trim());
    let values = made["groups"].as_array().unwrap().iter();
    let values: Vec<&Value> = values.map(|group| &group["value"]).collect();
    assert_eq!(values, [GROUP, "others"]);

    // For ten minutes nothing else waits.
    console.open("/settings/tokens/new").unwrap();
    let token = [("name", "at once"), ("site", "office")];
    console.choose("New token", "kind", "gateway").unwrap();
    console.send("New token", &token).unwrap();
    let text = console.browser.page_text().unwrap();
    assert!(text.contains("cv_gateway_"), "{text}");
}

#[test]
fn a_person_with_a_passkey_proves_by_it_or_by_password_and_code_who_they_are() {
    let console = Console::with_people_at_localhost().unwrap();
    console.browser.add_authenticator().unwrap();
    console.sign_in("olivia").unwrap();
    console.open("/me/second-factor").unwrap();
    console
        .send("Add a passkey", &[("name", "Laptop")])
        .unwrap();
    console.send("Create the passkey", &[]).unwrap();
    let codes = console.browser.page_text().unwrap();
    let is_code = |word: &&str| word.len() > 12 && word.contains('-');
    let code = codes.split_whitespace().find(is_code);
    let code = code.with_context(|| codes.clone()).unwrap();

    let make = |name: &str| {
        take_a_break(&console).unwrap();
        console.open("/settings/tokens/new").unwrap();
        console.choose("New token", "kind", "gateway").unwrap();
        let token = [("name", name), ("site", "office")];
        is_asked(&console, "New token", &token, "fresh-proof-with-passkey");
    };
    let is_made = |name: &str| {
        assert!(!tokens(&console).contains(&name.to_owned()), "{name}");
        console.send(WAITING, &[]).unwrap();
        let text = console.browser.page_text().unwrap();
        assert!(text.contains("cv_gateway_"), "{text}");
        assert!(tokens(&console).contains(&name.to_owned()), "{name}");
    };

    make("by <code> & password");
    let form = "With your password";
    let wrong = [("current", PASSWORD), ("code", "000000")];
    console.send(form, &wrong).unwrap();
    let text = refused(&console);
    assert!(text.contains("wrong, or was used already"), "{text}");
    let right = [("current", PASSWORD), ("code", code)];
    console.send(form, &right).unwrap();
    goes_on(&console);
    is_made("by <code> & password");

    make("by <passkey> & \"nothing\" else");
    console.send("With a passkey", &[]).unwrap();
    goes_on(&console);
    is_made("by <passkey> & \"nothing\" else");
}
