//! From the overview to a person who has signed in by a link.

use crate::console::Console;
use crate::page;
use anyhow::Result;

const NAME: &str = "Grace Hopper";

const CHOSEN: &str = "battery staple horse";

#[test]
fn a_person_is_invited_by_three_clicks_from_the_overview_and_signs_in() {
    let console = Console::with_people().unwrap();
    console.sign_in("olivia").unwrap();
    console.open("/").unwrap();
    // Three clicks, and nothing that exists is typed.
    click(&console, "People").unwrap();
    click(&console, "Invite a person").unwrap();
    page::is_usable(&console, "invite").unwrap();
    console.send("Invite a person", &[("name", NAME)]).unwrap();
    page::is_usable(&console, "invitation-link").unwrap();
    let link = console.browser.one("pre[data-copy=\"The link\"]").unwrap();
    let link = console.browser.text(&link).unwrap();
    assert!(link.contains("/invitation/"), "{link}");
    console.open("/people").unwrap();
    let text = console.browser.page_text().unwrap();
    assert!(text.contains("invited until"), "{text}");

    // As the person, in a browser that nobody has signed in with.
    console.browser.forget_cookies().unwrap();
    console.browser.open(&link).unwrap();
    page::is_usable(&console, "invitation").unwrap();
    let wrong = [
        ("password", "passwordpassword"),
        ("again", "passwordpassword"),
    ];
    console.send("Choose a password", &wrong).unwrap();
    page::is_usable(&console, "invitation-refused").unwrap();
    let text = console.browser.page_text().unwrap();
    assert!(text.contains("repeats a few characters"), "{text}");
    let right = [("password", CHOSEN), ("again", CHOSEN)];
    console.send("Choose a password", &right).unwrap();
    console
        .comes_to("the own page", |path| path == "/me/access")
        .unwrap();
    page::is_usable(&console, "my-access").unwrap();
    let text = console.browser.page_text().unwrap();
    assert!(text.contains("You have no machine yet."), "{text}");
    assert!(text.contains("culvert sign-in --portal https://"), "{text}");

    // The link is used up.
    console.browser.open(&link).unwrap();
    let text = console.browser.page_text().unwrap();
    assert!(text.contains("This link is not valid."), "{text}");
}

/// Follows the link with this text.
fn click(console: &Console, text: &str) -> Result<()> {
    let link = console.browser.link(text)?;
    console.browser.follow(&link)
}
