//! Lifetimes of sessions and set-up tokens (docs/threat-model.md).

use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::support::{Running, now};
use culvert_store::{Author, ListFilter, Mutation, PageLimit, Role, StoreExt, Token, TokenScope};
use culvert_wire::Timestamp;
use serde_json::json;

const HOUR_MS: u64 = 60 * 60 * 1_000;

/// The rows of tokens of such a scope.
async fn rows(running: &Running, is_it: impl Fn(&TokenScope) -> bool) -> Vec<Token> {
    let filter = ListFilter::default();
    let rows = running
        .store
        .list_as::<Token>(running.account(), &filter, None, PageLimit::MAX);
    let mut rows = rows.await.unwrap().items;
    rows.retain(|row| is_it(&row.scope));
    rows
}

/// Has it end now.
async fn end(running: &Running, row: Token) {
    let over = Timestamp::from_unix_ms(now().unix_ms() - 1);
    let expires = Some(over);
    let update = Mutation::Update {
        expected_version: None,
        entity: Token { expires, ..row }.into(),
    };
    let store = &running.store;
    let written = store.write(running.account(), Author::PORTAL, now(), vec![update]);
    written.await.unwrap();
}

const fn is_session(scope: &TokenScope) -> bool {
    matches!(scope, TokenScope::Session { .. })
}

fn is_setup(scope: &TokenScope) -> bool {
    *scope == TokenScope::Setup
}

fn lifetime_ms(row: &Token) -> u64 {
    row.expires.unwrap().unix_ms() - row.stamp.created.unix_ms()
}

/// The row is written a moment after its end was reckoned.
#[track_caller]
fn lasts(row: &Token, hours: u64) {
    let short = (hours * HOUR_MS).checked_sub(lifetime_ms(row));
    let is_exact = short.is_some_and(|short| short < 60_000);
    assert!(is_exact, "{} ms are not {hours} h", lifetime_ms(row));
}

#[tokio::test]
async fn a_session_is_good_for_twelve_hours_and_then_leads_to_signing_in() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let row = rows(&running, is_session).await.pop().unwrap();
    lasts(&row, 12);
    let token = browser.form_token().await;
    browser.get("/people").await.expect(200);
    let cookie = browser.cookie.clone();
    end(&running, row).await;
    let answer = browser.get("/people").await.expect(303);
    assert_eq!(answer.header("location"), "/sign-in?next=%2Fpeople");
    browser.cookie = cookie;
    let made = browser.submit_with("/sites", &token, &[("name", "late")]);
    let answer = made.await.expect(303);
    let to = answer.header("location");
    let waits = "/sign-in?next=%2Fconfirm%2Fdone%3Fform%3D";
    assert!(to.starts_with(waits) && to.ends_with("&form=waits"), "{to}");
    let snapshot = running.store.snapshot(running.account()).await.unwrap();
    assert!(snapshot.sites.is_empty(), "nothing was made");
}

#[tokio::test]
async fn a_session_that_is_over_is_forgotten_when_its_person_signs_in_again() {
    let running = Running::start().await;
    let (_, name) = person(&running, Role::Admin).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let over = rows(&running, is_session).await.pop().unwrap();
    let id = over.id;
    end(&running, over).await;
    browser.cookie = None;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let rows = rows(&running, is_session).await;
    assert!(rows.len() == 1 && rows[0].id != id, "{rows:?}");
}

#[tokio::test]
async fn a_setup_token_is_good_for_a_day_and_makes_no_owner_after_it() {
    let running = Running::start().await;
    let row = rows(&running, is_setup).await.pop().unwrap();
    lasts(&row, 24);
    end(&running, row).await;
    let token = running.setup_token();
    let mut client = running.client().await.with(&token);
    let body = json!({"owner": "ada", "password": PASSWORD});
    client.post("/api/v1/setup", body).await.problem(401);
    let mut browser = Browser::open(&running).await;
    let fields = [
        ("token", &*token),
        ("owner", "ada"),
        ("password", PASSWORD),
        ("again", PASSWORD),
    ];
    let page = browser.submit("/set-up", &fields).await.expect(422);
    assert!(page.text.contains("has expired"), "{}", page.text);
    let snapshot = running.store.snapshot(running.account()).await.unwrap();
    assert!(snapshot.actors.is_empty(), "nobody owns it");
}
