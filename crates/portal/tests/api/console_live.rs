//! Pages that follow what happens: who is told, when, and until when.

use crate::browser::{Browser, LIVE, PASSWORD, person, signed_in};
use crate::support::{Running, enrol_client, id_of, make_actor};
use culvert_store::{ActorKind, Role, Token, TokenScope};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Longer than anything here takes; nothing is proven by waiting that long.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A stream of a page.
struct Stream {
    body: Incoming,
    /// It ends with the connection.
    _browser: Browser,
}

async fn follow(running: &Running, cookie: Option<&str>, since: &str) -> Result<Stream, u16> {
    let mut browser = Browser::open(running).await;
    let path = format!("/live?since={since}");
    let headers = [("cookie", cookie.unwrap_or_default())];
    let response = browser.client.begin("GET", &path, &headers, None).await;
    if response.status() != 200 {
        return Err(response.status().as_u16());
    }
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    Ok(Stream {
        body: response.into_body(),
        _browser: browser,
    })
}

impl Stream {
    /// The next event; none at the end.
    async fn next(&mut self) -> Option<String> {
        let frame = timeout(TIMEOUT, self.body.frame()).await.expect("in time");
        let data = frame?.ok()?.into_data().unwrap();
        Some(String::from_utf8(data.to_vec()).unwrap())
    }

    /// Waits until it says that something has happened.
    async fn changed(&mut self) {
        loop {
            let said = self.next().await.expect("it goes on");
            if said.contains("data: changed") {
                return;
            }
        }
    }

    /// Waits for the end.
    async fn ended(&mut self) {
        while self.next().await.is_some() {}
    }
}

/// The sequence number of the log when the page was made.
fn since(text: &str) -> String {
    let (_, rest) = text.split_once("data-since=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

async fn make_site(running: &Running, name: &str) {
    let mut owner = running.owner().await;
    let made = owner.post("/api/v1/sites", json!({ "name": name })).await;
    made.expect(201);
}

#[tokio::test]
async fn a_page_is_told_once_of_all_that_happens_in_a_second() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = browser.get("/").await.expect(200);
    let cookie = browser.cookie.clone();
    let since = since(&page.text);
    let mut stream = follow(&running, cookie.as_deref(), &since)
        .await
        .ok()
        .unwrap();
    stream.next().await;
    make_site(&running, "first").await;
    stream.changed().await;
    let began = Instant::now();
    let mut owner = running.owner().await;
    let mut told = 0;
    for at in 0..200 {
        let body = json!({ "name": format!("site {at}") });
        owner.post("/api/v1/sites", body).await.expect(201);
        while let Ok(frame) = timeout(Duration::ZERO, stream.body.frame()).await {
            told += usize::from(frame.is_some());
        }
    }
    let most = began.elapsed().as_secs() as usize + 1;
    assert!(told <= most, "{told} in {:?}", began.elapsed());
    stream.changed().await;
}

#[tokio::test]
async fn what_happened_between_the_page_and_its_stream_is_told_at_once() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let before = since(&browser.get("/").await.expect(200).text);
    make_site(&running, "meanwhile").await;
    // The sessions follow the change log.
    while since(&browser.get("/").await.expect(200).text) == before {
        tokio::task::yield_now().await;
    }
    let cookie = browser.cookie.clone();
    let mut stream = follow(&running, cookie.as_deref(), &before)
        .await
        .ok()
        .unwrap();
    assert!(stream.next().await.unwrap().contains("data: changed"));
}

#[tokio::test]
async fn a_stream_ends_with_its_session_its_role_and_its_portal() {
    let running = Running::start().await;
    for what in ["sign out", "disable", "role"] {
        let (actor, name) = person(&running, Role::Admin).await;
        let mut browser = Browser::open(&running).await;
        browser.sign_in(&name, PASSWORD).await.expect(303);
        let cookie = browser.cookie.clone();
        let mut stream = follow(&running, cookie.as_deref(), "0").await.ok().unwrap();
        let mut owner = running.owner().await;
        let path = format!("/api/v1/actors/{actor}");
        match what {
            "sign out" => drop(browser.submit("/sign-out", &[]).await.expect(303)),
            "disable" => {
                let patch = owner.patch(&path, "*", json!({"disabled": true})).await;
                patch.expect(200);
            }
            _ => {
                let body = json!({"role": "auditor", "password": PASSWORD});
                let path = format!("{path}/sign-in");
                owner.post(&path, body).await.expect(200);
            }
        }
        stream.ended().await;
        assert_eq!(
            follow(&running, cookie.as_deref(), "0").await.err(),
            Some(303)
        );
    }
    let browser = signed_in(&running, Role::Admin).await;
    let mut stream = follow(&running, browser.cookie.as_deref(), "0")
        .await
        .ok()
        .unwrap();
    let stopped = tokio::spawn(running.stop());
    stream.ended().await;
    timeout(TIMEOUT, stopped).await.expect("in time").unwrap();
}

#[tokio::test]
async fn nobody_follows_without_a_session_and_a_session_not_with_many_pages() {
    let running = Running::start().await;
    for cookie in [None, Some("__Host-culvert=nonsense")] {
        assert_eq!(follow(&running, cookie, "0").await.err(), Some(303));
    }
    let browser = signed_in(&running, Role::Admin).await;
    let cookie = browser.cookie.as_deref();
    assert_eq!(follow(&running, cookie, "nonsense").await.err(), Some(422));
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(follow(&running, cookie, "0").await.ok().unwrap());
    }
    assert_eq!(follow(&running, cookie, "0").await.err(), Some(429));
    let other = signed_in(&running, Role::Admin).await;
    assert!(follow(&running, other.cookie.as_deref(), "0").await.is_ok());
    streams.pop();
    let began = Instant::now();
    // The portal hears of it when it next writes to that page.
    loop {
        make_site(&running, &format!("site {:?}", began.elapsed())).await;
        match follow(&running, cookie, "0").await {
            Ok(_) => break,
            Err(status) => assert_eq!(status, 429),
        }
        assert!(began.elapsed() < TIMEOUT, "its place is free again");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn who_sees_the_own_clients_alone_hears_nothing_of_others() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let (user, name) = person(&running, Role::User).await;
    let other = make_actor(store, account, ActorKind::User).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let page = browser.get("/clients").await.expect(200);
    let cookie = browser.cookie.clone();
    let mut stream = follow(&running, cookie.as_deref(), &since(&page.text))
        .await
        .ok()
        .unwrap();
    stream.next().await;
    enrol_client(store, account, other).await;
    make_site(&running, "elsewhere").await;
    // The stream looks, and says that it is still there.
    let said = stream.next().await.unwrap();
    assert_eq!(said, ":\n\n");
    enrol_client(store, account, user).await;
    stream.changed().await;
}

#[tokio::test]
async fn a_page_that_answers_a_form_says_where_it_is_asked_for_again() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = owner.post("/api/v1/sites", json!({"name": "site"})).await;
    let path = format!("/sites/{}", id_of(&site.expect(201).json()));
    let mut browser = signed_in(&running, Role::Admin).await;
    let form = format!("{path}/token");
    let wrong = [("name", ""), ("uses", "one")];
    let refused = browser.submit(&form, &wrong).await.expect(422);
    let says = format!("data-path=\"{path}\"");
    assert!(refused.text.contains(&says), "{}", refused.text);
    for page in [&*path, "/", "/clients", "/first-steps"] {
        let text = browser.get(page).await.expect(200).text;
        assert!(text.contains(&format!("data-path=\"{page}\"")), "{page}");
    }
    // A browser that loads the form again is led there too; a program learns the fault.
    let accept = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let led = browser.send("GET", &form, &accept, None).await.expect(303);
    assert_eq!(led.header("location"), path);
    let refused = browser.get(&form).await;
    assert_eq!(refused.header("allow"), "POST");
    refused.problem(405);
}

/// A page that nobody looks at would otherwise keep its session from ending for as long as it is open.
#[tokio::test]
async fn a_page_that_follows_does_not_use_its_session() {
    let mut running = Running::start().await;
    let browser = signed_in(&running, Role::Admin).await;
    let cookie = browser.cookie.clone();
    for (headers, is_used) in [(LIVE, false), (&[], true)] {
        let mut browser = Browser::open(&running).await;
        browser.cookie.clone_from(&cookie);
        browser.send("GET", "/", headers, None).await.expect(200);
        let mut stream = follow(&running, cookie.as_deref(), "0").await.ok().unwrap();
        stream.next().await;
        // The portal writes last uses down when it ends.
        running = Running::start_in(running.stop().await).await;
        let snapshot = running.store.snapshot(running.account()).await.unwrap();
        let is_session = |token: &&Token| matches!(token.scope, TokenScope::Session { .. });
        let session = snapshot.tokens.iter().find(is_session).unwrap();
        assert_eq!(session.last_used.is_some(), is_used);
    }
}
