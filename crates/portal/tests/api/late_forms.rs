//! Forms that arrive after their session has ended (docs/sign-in.md).

use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::fresh_proof::hidden;
use crate::support::{Answer, Running, now};
use culvert_ids::{ActorId, TokenId};
use culvert_store::{Author, Mutation, Role, StoreExt, Token};
use culvert_wire::Timestamp;

/// Ends the browser's session by time.
async fn expire(running: &Running, browser: &Browser) {
    let cookie = browser.cookie.as_deref().unwrap();
    let (_, bearer) = cookie.split_once('=').unwrap();
    let bearer =
        culvert_wire::token::Token::parse_as(bearer, culvert_wire::token::TokenKind::Session);
    let id: TokenId = bearer.unwrap().bearer.id;
    let (store, account) = (&running.store, running.account());
    let row: Token = store.get_as(account, id).await.unwrap();
    let expires = Some(Timestamp::from_unix_ms(now().unix_ms() - 1));
    let update = Mutation::Update {
        expected_version: None,
        entity: Token { expires, ..row }.into(),
    };
    let written = store.write(account, Author::PORTAL, now(), vec![update]);
    written.await.unwrap();
}

/// Sends a form after the session has ended: the page for signing in, and the page that it leads to.
async fn late(
    browser: &mut Browser,
    path: &str,
    token: &str,
    fields: &[(&str, &str)],
) -> (Answer, String) {
    let answer = browser.submit_with(path, token, fields).await.expect(303);
    let to = answer.header("location").to_owned();
    assert!(to.starts_with("/sign-in?"), "{to}");
    let page = browser.get(&to).await.expect(200);
    let (_, next) = page.text.split_once("name=\"next\" value=\"").unwrap();
    let next = next.split('"').next().unwrap().replace("&#38;", "&");
    (page, next)
}

/// Somebody whose session has ended, with the token of its forms.
async fn somebody(running: &Running) -> (Browser, ActorId, String, String) {
    let (actor, name) = person(running, Role::Admin).await;
    let mut browser = Browser::open(running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let token = browser.form_token().await;
    expire(running, &browser).await;
    (browser, actor, name, token)
}

#[tokio::test]
async fn a_form_that_comes_late_waits_for_its_person_to_sign_in() {
    let running = Running::start().await;
    let (mut browser, _, name, token) = somebody(&running).await;
    let (page, next) = late(&mut browser, "/groups", &token, &[("name", "Late & kept")]).await;
    assert!(
        page.text.contains("Your session had ended"),
        "{}",
        page.text
    );
    assert!(!page.text.contains("Late"), "{}", page.text);

    let fields = [("name", &*name), ("password", PASSWORD), ("next", &*next)];
    let arrived = browser
        .submit_with("/sign-in", "", &fields)
        .await
        .expect(303);
    assert_eq!(arrived.header("location"), next);
    let page = browser.get(&next).await.expect(200);
    let stored = hidden(&page, "/groups");
    let stored: Vec<(&str, &str)> = stored
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    browser.submit("/groups", &stored).await.expect(303);
    let groups = browser.get("/groups").await.expect(200);
    assert!(groups.text.contains("Late &#38; kept"), "{}", groups.text);
}

#[tokio::test]
async fn a_late_form_is_given_to_no_other_person() {
    let running = Running::start().await;
    let (mut browser, _, _, token) = somebody(&running).await;
    let (_, next) = late(&mut browser, "/groups", &token, &[("name", "secret plans")]).await;
    let mut other = signed_in(&running, Role::Owner).await;
    let page = other.get(&next).await.expect(200);
    assert!(!page.text.contains("secret plans"), "{}", page.text);
    assert!(page.text.contains("No form waits"), "{}", page.text);
    // Without signing in, nobody gets it either.
    let asked = browser.get(&next).await.expect(303);
    assert!(asked.header("location").starts_with("/sign-in"));
}

#[tokio::test]
async fn a_form_is_not_kept_without_its_session_and_its_person_is_told_so() {
    let running = Running::start().await;
    let (mut browser, _, _, token) = somebody(&running).await;
    // A page of no session of this browser, and a proof that nobody waits for.
    for (path, token) in [("/groups", "forged"), ("/confirm/password", &*token)] {
        let (page, next) = late(&mut browser, path, token, &[("name", "x")]).await;
        assert!(
            page.text.contains("the form was not kept"),
            "{path}: {}",
            page.text
        );
        assert_eq!(next, "/", "{path}");
    }
    // A session that was ended is unknown, and so is one that never was.
    let (_, name) = person(&running, Role::Admin).await;
    let mut ended = Browser::open(&running).await;
    ended.sign_in(&name, PASSWORD).await.expect(303);
    let token = ended.form_token().await;
    let cookie = ended.cookie.clone();
    ended.submit("/sign-out", &[]).await.expect(303);
    ended.cookie = cookie;
    let (page, _) = late(&mut ended, "/groups", &token, &[("name", "x")]).await;
    assert!(page.text.contains("the form was not kept"), "{}", page.text);
    // A form of nobody asks for a sign-in, and says nothing of a session.
    let mut stranger = Browser::open(&running).await;
    let answer = stranger
        .submit_with("/groups", "", &[("name", "x")])
        .await
        .expect(303);
    assert_eq!(answer.header("location"), "/sign-in");
}

#[tokio::test]
async fn a_late_form_that_needs_a_fresh_proof_waits_as_well() {
    let running = Running::start().await;
    let (mut browser, actor, name, token) = somebody(&running).await;
    let path = format!("/people/{actor}/token");
    let fields = [("name", "laptop"), ("uses", "one")];
    let (_, next) = late(&mut browser, &path, &token, &fields).await;
    let sign_in = [("name", &*name), ("password", PASSWORD), ("next", &*next)];
    browser
        .submit_with("/sign-in", "", &sign_in)
        .await
        .expect(303);
    let page = browser.get(&next).await.expect(200);
    let stored = hidden(&page, &path);
    let stored: Vec<(&str, &str)> = stored
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(stored, fields);
    // Signing in was the proof.
    let made = browser.submit(&path, &stored).await.expect(200);
    assert!(made.text.contains("The token"), "{}", made.text);
}
