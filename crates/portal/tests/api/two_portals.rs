//! Two portals on one PostgreSQL database, between which a balancer sends each request to the other one.

#[path = "../../../store-sql/tests/postgres/process.rs"]
mod process;

use crate::authenticator::Authenticator;
use crate::browser::{Browser, PASSWORD, person};
use crate::factors::{give, half_sign_in, secret_of};
use crate::fresh_proof::{proven_before, send_waiting, waiting};
use crate::passkeys::{self, HOST, ORIGIN, challenge, question};
use crate::support::Running;
use culvert_store::Role;
use culvert_store_sql::{PostgresOptions, SqlStore};
use process::Process;
use serde_json::json;
use std::sync::Arc;

struct Portals {
    one: Running,
    two: Running,
    _server: Process,
}

impl Portals {
    async fn start() -> Self {
        let server = Process::start();
        let start = async || {
            let socket = server.socket.display();
            let url = format!("postgres:///postgres?host={socket}&user=culvert");
            let options: PostgresOptions = url.parse().unwrap();
            let store = Arc::new(SqlStore::open(options).await.unwrap());
            let directory = tempfile::tempdir().unwrap();
            Running::start_on_store(directory, Some(ORIGIN), store).await
        };
        let (one, two) = (start().await, start().await);
        assert_eq!(one.account(), two.account());
        Self {
            one,
            two,
            _server: server,
        }
    }

    /// A browser whose next request reaches the first portal.
    async fn browser(&self) -> Browser {
        let mut browser = Browser::open(&self.one).await;
        go_to(&mut browser, &self.one).await;
        browser
    }
}

/// The browser's next request reaches that portal.
async fn go_to(browser: &mut Browser, portal: &Running) {
    browser.client = portal.client().await;
    HOST.clone_into(&mut browser.client.host);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sign_in_by_password_and_code_goes_on_at_another_portal() {
    let portals = Portals::start().await;
    let Portals { one, two, .. } = &portals;
    let (_, name) = person(one, Role::Owner).await;
    let mut browser = portals.browser().await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let page = browser.submit("/me/second-factor", &[]).await.expect(200);
    let mut app = secret_of(&page);
    go_to(&mut browser, two).await;
    let fields = [("code", &*app.code())];
    let confirm = browser.submit_enrolling("/me/second-factor/confirm", &fields);
    confirm.await.expect(200);

    let mut browser = portals.browser().await;
    let ticket = half_sign_in(&mut browser, &name).await;
    go_to(&mut browser, two).await;
    give(&mut browser, &ticket, &app.code()).await.expect(303);
    assert!(browser.cookie.is_some());
    go_to(&mut browser, one).await;
    browser.get("/me").await.expect(200);
    let mut other = portals.browser().await;
    give(&mut other, &ticket, &app.code()).await.expect(401);

    // Five codes in all with one password.
    let ticket = half_sign_in(&mut other, &name).await;
    for portal in [two, one, two, one, two] {
        go_to(&mut other, portal).await;
        give(&mut other, &ticket, "wrong").await.expect(422);
    }
    for portal in [one, two] {
        go_to(&mut other, portal).await;
        give(&mut other, &ticket, "wrong").await.expect(401);
    }
    // And ten of one person: three were right, or came too late.
    let ticket = half_sign_in(&mut other, &name).await;
    let mut refused = 0;
    for portal in [one, two, one, two] {
        go_to(&mut other, portal).await;
        let answer = give(&mut other, &ticket, "wrong").await;
        refused += u32::from(answer.status == 429);
    }
    assert_eq!(refused, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_passkey_answers_at_one_portal_the_question_of_another_once() {
    let portals = Portals::start().await;
    let Portals { one, two, .. } = &portals;
    let (actor, name) = person(one, Role::Owner).await;
    let mut browser = portals.browser().await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let phone = Authenticator::new(name.as_bytes(), ORIGIN);
    passkeys::add(&mut browser, &phone, |_| {})
        .await
        .expect(200);

    let mut browser = portals.browser().await;
    let page = browser.get("/sign-in").await.expect(200);
    let question = question(&page, "get");
    let sign = |uses| {
        phone.sign(challenge(&question), |said| {
            said.user = actor.as_bytes().to_vec();
            said.uses = uses;
        })
    };
    go_to(&mut browser, two).await;
    let fields = [("credential", &*sign(1))];
    browser
        .submit("/sign-in/passkey", &fields)
        .await
        .expect(303);
    for portal in [one, two] {
        let mut browser = portals.browser().await;
        go_to(&mut browser, portal).await;
        let fields = [("credential", &*sign(2))];
        let again = browser.submit("/sign-in/passkey", &fields).await;
        let text = again.expect(401).text;
        assert!(text.contains("was used already"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_and_a_waiting_form_go_on_at_another_portal() {
    let portals = Portals::start().await;
    let Portals { one, two, .. } = &portals;
    let (mut at_one, mut at_two) = (one.client().await, two.client().await);
    let body = json!({"machine": "laptop"});
    let begun = at_one.post("/api/v1/device-sign-ins", body).await;
    let begun = begun.expect(201).json();
    let code = begun["user_code"].as_str().unwrap();
    let asked = json!({"device_code": begun["device_code"]});
    let ask = "/api/v1/device-sign-ins/ask";
    let answer = at_two.post(ask, asked.clone()).await.expect(200).json();
    assert_eq!(answer["state"], "pending");

    let (actor, _) = person(one, Role::User).await;
    let mut browser = proven_before(one, actor, 11).await;
    go_to(&mut browser, one).await;
    let page = browser.get(&format!("/device?code={code}")).await;
    assert!(page.expect(200).text.contains("laptop"));
    let ticket = waiting(browser.submit("/device/approve", &[("code", code)]).await);
    go_to(&mut browser, two).await;
    let right = [("form", &*ticket), ("current", PASSWORD)];
    browser
        .submit("/confirm/password", &right)
        .await
        .expect(303);
    go_to(&mut browser, one).await;
    let approved = send_waiting(&mut browser, &ticket, "/device/approve").await;
    approved.expect(200);

    let (one, two) = tokio::join!(at_one.post(ask, asked.clone()), at_two.post(ask, asked));
    let states = [one, two].map(|answer| answer.expect(200).json()["state"].clone());
    let approved = states.iter().filter(|state| **state == "approved").count();
    assert_eq!(approved, 1, "{states:?}");
}
