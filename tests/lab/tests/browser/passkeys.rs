//! Passkeys, by an authenticator of the browser's own.

use crate::console::{Console, PASSWORD};
use crate::page;

#[test]
fn a_passkey_is_made_and_signs_in_alone_and_beside_a_password_until_it_is_removed() {
    let console = Console::with_people_at_localhost().unwrap();
    console.browser.add_authenticator().unwrap();
    console.sign_in("olivia").unwrap();

    console.open("/me/second-factor").unwrap();
    console
        .send("Add a passkey", &[("name", "Laptop")])
        .unwrap();
    page::is_usable(&console, "passkey-to-make").unwrap();
    console.send("Create the passkey", &[]).unwrap();
    page::is_usable(&console, "recovery-codes").unwrap();
    let text = console.browser.page_text().unwrap();
    assert!(text.contains("Recovery codes"), "{text}");

    console.browser.forget_cookies().unwrap();
    console.open("/sign-in").unwrap();
    page::is_usable(&console, "sign-in-with-passkeys").unwrap();
    console.send("With a passkey", &[]).unwrap();
    console
        .comes_to("the overview", |path| path == "/")
        .unwrap();

    console.browser.forget_cookies().unwrap();
    console.open("/sign-in").unwrap();
    let fields = [("name", "olivia"), ("password", PASSWORD)];
    console.send("Sign in", &fields).unwrap();
    page::is_usable(&console, "second-step").unwrap();
    console.send("Passkey", &[]).unwrap();
    console
        .comes_to("the overview", |path| path == "/")
        .unwrap();

    console.open("/me/second-factor").unwrap();
    page::look(&console).unwrap();
    let key = console.browser.link("Laptop").unwrap();
    console.browser.follow(&key).unwrap();
    page::is_usable(&console, "passkey").unwrap();
    console.send("Remove", &[]).unwrap();
    console
        .comes_to("the second factor", |path| {
            path.starts_with("/me/second-factor")
        })
        .unwrap();

    console.browser.forget_cookies().unwrap();
    console.open("/sign-in").unwrap();
    console.send("With a passkey", &[]).unwrap();
    page::is_usable(&console, "passkey-refused").unwrap();
    let text = console.browser.page_text().unwrap();
    assert!(text.contains("does not accept the passkey"), "{text}");
}
