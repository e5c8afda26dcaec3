//! Machines for which somebody signs in with a browser.

use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::fresh_proof::{proven_before, send_waiting, waiting};
use crate::support::{Client, Running, make_actor};
use culvert_store::{ActorKind, Role, StoreExt, TokenScope, TokenUses};

use culvert_wire::token::{Token, TokenKind};
use serde_json::{Value, json};

async fn begin(anyone: &mut Client, machine: &str) -> Value {
    let body = json!({ "machine": machine });
    let begun = anyone.post("/api/v1/device-sign-ins", body).await;
    begun.expect(201).json()
}

async fn ask(anyone: &mut Client, begun: &Value) -> Value {
    let body = json!({"device_code": begun["device_code"]});
    let answer = anyone.post("/api/v1/device-sign-ins/ask", body).await;
    answer.expect(200).json()
}

async fn seq(running: &Running) -> culvert_store::Seq {
    running.store.snapshot(running.account()).await.unwrap().seq
}

#[tokio::test]
async fn a_machine_gets_a_token_of_one_use_of_who_compares_and_approves_its_code() {
    let running = Running::start().await;
    let mut machine = running.client().await;
    let before = seq(&running).await;
    let begun = begin(&mut machine, "ada's <laptop>").await;
    let code = begun["user_code"].as_str().unwrap();
    let own = running.portal.whereabouts().url;
    assert_eq!(begun["url"], format!("{own}/device"));
    assert_eq!(begun["url_with_code"], format!("{own}/device?code={code}"));
    assert_eq!(ask(&mut machine, &begun).await["state"], "pending");
    assert_eq!(ask(&mut machine, &begun).await["state"], "slow_down");
    assert_eq!(seq(&running).await, before, "nothing is made for strangers");

    // The code stays in mind over signing in.
    let (actor, name) = person(&running, Role::User).await;
    let mut browser = Browser::open(&running).await;
    let at = format!("/device?code={code}");
    let away = browser.get(&at).await.expect(303);
    assert_eq!(
        away.header("location"),
        format!("/sign-in?next=/device%3Fcode%3D{code}")
    );
    browser.get(away.header("location")).await.expect(200);
    let fields = [("name", &*name), ("password", PASSWORD), ("next", &*at)];
    let back = browser.submit("/sign-in", &fields).await.expect(303);
    assert_eq!(back.header("location"), at);
    let page = browser.get(&at).await.expect(200);
    for part in [code, "ada&#39;s &#60;laptop&#62;", "127.0.0.1"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert_eq!(
        ask(&mut machine, &begun).await["state"],
        "slow_down",
        "looking is no yes"
    );
    browser
        .submit("/device/approve", &[("code", code)])
        .await
        .expect(200);

    let answer = ask(&mut machine, &begun).await;
    assert_eq!(
        (&answer["state"], &answer["actor"]),
        (&json!("approved"), &json!(name))
    );
    let token: Token = answer["token"].as_str().unwrap().parse().unwrap();
    assert_eq!(token.bearer.kind, TokenKind::Client);
    let portal = token.portal.clone().unwrap();
    assert_eq!(portal.url, own);
    assert_eq!(
        portal.pin.map(|pin| pin.to_string()),
        Some(running.portal.pin().to_string())
    );
    let row: culvert_store::Token = running
        .store
        .get_as(running.account(), token.bearer.id)
        .await
        .unwrap();
    assert_eq!(row.scope, TokenScope::Client { actor });
    assert_eq!(row.uses, TokenUses::One);
    // It is told once.
    assert_eq!(ask(&mut machine, &begun).await["state"], "expired");
    let again = browser.submit("/device/approve", &[("code", code)]).await;
    assert!(
        again
            .expect(422)
            .text
            .contains("no machine shows this code")
    );
}

#[tokio::test]
async fn who_was_proven_a_while_ago_proves_it_again_to_approve_a_machine_and_keeps_the_code() {
    let running = Running::start().await;
    let mut machine = running.client().await;
    let (actor, _) = person(&running, Role::User).await;
    let approve = async |browser: &mut Browser, code: &str| {
        browser.submit("/device/approve", &[("code", code)]).await
    };
    let begun = begin(&mut machine, "laptop").await;
    let mut fresh = proven_before(&running, actor, 9).await;
    let code = begun["user_code"].as_str().unwrap();
    approve(&mut fresh, code).await.expect(200);

    let begun = begin(&mut machine, "laptop").await;
    let code = begun["user_code"].as_str().unwrap();
    let mut old = proven_before(&running, actor, 11).await;
    old.get(&format!("/device?code={code}")).await.expect(200);
    let ticket = waiting(approve(&mut old, code).await);
    for wrong in ["", "not the password"] {
        let fields = [("form", &*ticket), ("current", wrong)];
        let page = old.submit("/confirm/password", &fields).await.expect(422);
        assert!(page.text.contains("it is not your password"));
    }
    assert_eq!(ask(&mut machine, &begun).await["state"], "pending");
    let right = [("form", &*ticket), ("current", PASSWORD)];
    old.submit("/confirm/password", &right).await.expect(303);
    let approved = send_waiting(&mut old, &ticket, "/device/approve").await;
    approved.expect(200);
    assert_eq!(ask(&mut machine, &begun).await["state"], "approved");
}

#[tokio::test]
async fn who_has_nothing_to_prove_it_by_is_told_and_approves_no_machine() {
    let running = Running::start().await;
    let mut machine = running.client().await;
    let begun = begin(&mut machine, "laptop").await;
    let fields = [("code", begun["user_code"].as_str().unwrap())];
    let actor = make_actor(running.store.as_ref(), running.account(), ActorKind::User).await;
    let mut owner = running.owner().await;
    let at = format!("/api/v1/actors/{actor}/sign-in");
    owner.post(&at, json!({"role": "user"})).await.expect(200);

    let mut old = proven_before(&running, actor, 11).await;
    let ticket = waiting(old.submit("/device/approve", &fields).await);
    let page = old
        .get(&format!("/confirm?form={ticket}"))
        .await
        .expect(200);
    assert!(
        page.text.contains("You have no password and no passkey"),
        "{}",
        page.text
    );
    let guess = [("form", &*ticket), ("current", PASSWORD)];
    let refused = old.submit("/confirm/password", &guess).await;
    assert!(refused.status.is_client_error(), "{refused:?}");
    old.get(&format!("/confirm/done?form={ticket}"))
        .await
        .expect(303);
    assert_eq!(ask(&mut machine, &begun).await["state"], "pending");
}

#[tokio::test]
async fn a_machine_that_is_denied_gets_nothing() {
    let running = Running::start().await;
    let mut machine = running.client().await;
    let begun = begin(&mut machine, "laptop").await;
    let code = begun["user_code"].as_str().unwrap();
    let mut browser = signed_in(&running, Role::Owner).await;
    let before = seq(&running).await;
    browser
        .submit("/device/deny", &[("code", code)])
        .await
        .expect(200);
    browser
        .submit("/device/approve", &[("code", code)])
        .await
        .expect(422);
    assert_eq!(ask(&mut machine, &begun).await["state"], "denied");
    assert_eq!(ask(&mut machine, &begun).await["state"], "expired");
    assert_eq!(seq(&running).await, before, "nothing was made");
}

#[tokio::test]
async fn who_was_shut_out_after_approving_signs_no_machine_in() {
    let running = Running::start().await;
    let mut machine = running.client().await;
    let begun = begin(&mut machine, "laptop").await;
    let code = begun["user_code"].as_str().unwrap();
    let (actor, name) = person(&running, Role::User).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    browser
        .submit("/device/approve", &[("code", code)])
        .await
        .expect(200);
    let mut owner = running.owner().await;
    let at = format!("/api/v1/actors/{actor}");
    owner
        .patch(&at, "*", json!({"disabled": true}))
        .await
        .expect(200);
    assert_eq!(ask(&mut machine, &begun).await["state"], "denied");
}

#[tokio::test]
async fn who_guesses_codes_has_to_wait_and_so_has_who_begins_many() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::User).await;
    let mut refused = None;
    for _ in 0..30 {
        let page = browser.get("/device?code=BCDF-GHJK").await;
        if page.status == 429 {
            refused = Some(page);
            break;
        }
        page.expect(422);
    }
    let refused = refused.expect("guesses have a limit");
    assert!(!refused.header("retry-after").is_empty());
    let mut machine = running.client().await;
    let mut begun = 0;
    loop {
        let body = json!({"machine": "laptop"});
        let answer = machine.post("/api/v1/device-sign-ins", body).await;
        if answer.status == 429 {
            break;
        }
        answer.expect(201);
        begun += 1;
        assert!(begun <= 64, "an address takes at most 64 codes");
    }
    assert!(begun >= 60, "{begun}");
}

#[tokio::test]
async fn a_machine_cannot_hide_what_it_is_called_from_the_person_who_approves_it() {
    let running = Running::start().await;
    let mut machine = running.client().await;
    let begun = begin(&mut machine, "lap\u{202e}p\not\u{200b}").await;
    let mut browser = signed_in(&running, Role::Owner).await;
    let at = format!("/device?code={}", begun["user_code"].as_str().unwrap());
    let page = browser.get(&at).await.expect(200);
    assert!(
        page.text.contains("lap\u{fffd}p\u{fffd}ot\u{fffd}"),
        "{}",
        page.text
    );
}

#[tokio::test]
async fn what_no_machine_is_called_is_refused() {
    let running = Running::start().await;
    let mut machine = running.client().await;
    for name in ["", "  ", &"x".repeat(61)] {
        let body = json!({ "machine": name });
        let answer = machine.post("/api/v1/device-sign-ins", body).await;
        answer.problem(422);
    }
    let unknown = json!({"device_code": "x"});
    assert_eq!(ask(&mut machine, &unknown).await["state"], "expired");
}
