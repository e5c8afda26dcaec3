//! Sign-in with a browser, carried out by the client and commanded at its socket.

use crate::portal::{DEADLINE, FakePortal, HttpSession, resource};
use crate::scene::{Running, Scene};
use culvert_client::status::{PortalState, ServiceState, SignInFailure, SignInStatus, Status};
use culvert_client::{ErrorCode, Mirror, PortalSignIn, Request, SecretText, SignIn, Watcher, ask};
use serde_json::json;
use tokio::time::{Instant, timeout};

const BEGIN: &str = "/api/v1/device-sign-ins";
const POLL: &str = "/api/v1/device-sign-ins/ask";

/// A client that waits for commands, and nothing else.
async fn waiting() -> Running {
    let client = Running::start_without_token();
    client
        .until(|it| it.service.state == ServiceState::SignedOut && it.service.signs_in)
        .await;
    client
}

fn sign_in(portal: &FakePortal) -> Request {
    let (portal, pin) = portal.place();
    Request::SignIn(SignIn::Portal(PortalSignIn {
        portal,
        certificate: Some(pin),
    }))
}

/// The request for codes, answered.
async fn give_code(http: &mut HttpSession, portal: &FakePortal, code: &str) {
    let (path, body) = http.hear().await.unwrap();
    assert_eq!((&*path, &body["machine"]), (BEGIN, &json!("laptop")));
    let (url, _) = portal.place();
    let begun = json!({
        "device_code": format!("{code}.secret"), "user_code": code, "url": format!("{url}/device"),
        "url_with_code": format!("{url}/device?code={code}"), "expires_in_s": 600, "interval_s": 1,
    });
    http.say("201 Created", &begun.to_string()).await;
}

/// A poll, answered.
async fn answer_poll(http: &mut HttpSession, code: &str, answer: serde_json::Value) {
    let (path, body) = http.hear().await.unwrap();
    let ask = json!({"device_code": format!("{code}.secret")});
    assert_eq!((&*path, body), (POLL, ask));
    http.say("200 OK", &answer.to_string()).await;
}

fn shows(status: &Status, wanted: &str) -> bool {
    matches!(&status.service.sign_in, Some(SignInStatus::Waiting { code: Some(code), .. }) if code == wanted)
}

fn failed(status: &Status) -> Option<(SignInFailure, &str)> {
    match &status.service.sign_in {
        Some(SignInStatus::Failed {
            code_of_failure,
            text,
            ..
        }) => Some((*code_of_failure, text)),
        _ => None,
    }
}

#[test]
fn somebody_signs_in_and_the_earlier_account_stays_connected_until_then() {
    Scene::new().play(async |_| {
        let client = waiting().await;
        let portal = FakePortal::start().await;
        let token = SecretText::new(zeroize::Zeroizing::new(portal.token()));
        let by_token = Request::SignIn(SignIn::Token(token));
        ask(client.socket(), by_token).await.unwrap();
        let (mut session, _) = portal.accept(1).await;
        session
            .welcome(vec![resource(1, "10.77.0.0/24")], Vec::new())
            .await;
        client.until(|it| it.ready).await;

        let status = ask(client.socket(), sign_in(&portal)).await.unwrap();
        let url = portal.place().0;
        let asking = SignInStatus::Asking { portal: url };
        assert_eq!(status.service.sign_in, Some(asking));
        let mut watcher = Watcher::open(client.socket(), None).await.unwrap();
        let mut mirror = Mirror::default();
        let mut http = portal.accept_http().await;
        give_code(&mut http, &portal, "BCDF-GHJK").await;
        let begun = Instant::now();
        loop {
            let message = timeout(DEADLINE, watcher.next()).await.unwrap().unwrap();
            mirror.apply(message).unwrap();
            if shows(&mirror.status().unwrap(), "BCDF-GHJK") {
                break;
            }
            assert!(begun.elapsed() < DEADLINE);
        }
        for _ in 0..2 {
            answer_poll(&mut http, "BCDF-GHJK", json!({"state": "pending"})).await;
        }
        let status = client.until(|it| shows(it, "BCDF-GHJK")).await;
        assert_eq!(status.portal.state, PortalState::Connected);
        let text = serde_json::to_string(&status).unwrap();
        assert!(
            !text.contains("secret") && !text.contains("cv_client"),
            "{text}"
        );

        let approved = json!({"state": "approved", "token": portal.token(), "actor": "ada"});
        answer_poll(&mut http, "BCDF-GHJK", approved).await;
        let (mut next, _) = portal.accept(2).await;
        next.welcome(vec![resource(2, "10.78.0.0/24")], Vec::new())
            .await;
        let status = client
            .until(|it| it.ready && it.resources.len() == 1 && it.resources[0].name == "resource 2")
            .await;
        assert_eq!(
            (&status.service.sign_in, status.service.sign_ins),
            (&None, 1)
        );
        let text = serde_json::to_string(&status).unwrap();
        assert!(!text.contains("cv_client"), "{text}");
        client.stop().await;
    });
}

#[test]
fn a_second_one_replaces_the_first_and_one_is_given_up_whatever_the_portal_does() {
    Scene::new().play(async |_| {
        let client = waiting().await;
        let (silent, portal) = (FakePortal::start().await, FakePortal::start().await);
        ask(client.socket(), sign_in(&silent)).await.unwrap();
        let mut unanswered = silent.accept_http().await;
        assert!(unanswered.hear().await.is_some());
        ask(client.socket(), sign_in(&portal)).await.unwrap();
        // The first request is given up at once.
        assert!(unanswered.hear().await.is_none());
        let mut http = portal.accept_http().await;
        give_code(&mut http, &portal, "BCDF-GHJK").await;
        client.until(|it| shows(it, "BCDF-GHJK")).await;
        let status = ask(client.socket(), Request::CancelSignIn).await.unwrap();
        assert_eq!(status.service.sign_in, None);
        assert_eq!(status.service.state, ServiceState::SignedOut);
        // A token from elsewhere gives it up too.
        ask(client.socket(), sign_in(&silent)).await.unwrap();
        let token = SecretText::new(zeroize::Zeroizing::new(portal.token()));
        let by_token = Request::SignIn(SignIn::Token(token));
        let status = ask(client.socket(), by_token).await.unwrap();
        assert_eq!(status.service.sign_in, None);
        client.stop().await;
    });
}

#[test]
fn each_failure_says_what_it_is() {
    Scene::new().play(async |_| {
        let client = waiting().await;
        let fails = async |code: SignInFailure, says: &str| {
            let status = client.until(|it| failed(it).is_some()).await;
            let (found, text) = failed(&status).unwrap();
            assert!(found == code && text.contains(says), "{found:?}: {text}");
            ask(client.socket(), Request::CancelSignIn).await.unwrap();
        };
        let portal = FakePortal::start().await;
        for (status, body, code, says) in [
            (
                "404 Not Found",
                "nothing".to_owned(),
                SignInFailure::NotAPortal,
                "knows no sign-in",
            ),
            (
                "200 OK",
                "<html>".to_owned(),
                SignInFailure::NotAPortal,
                "of another form",
            ),
            (
                "200 OK",
                "x".repeat(1 << 20),
                SignInFailure::NotAPortal,
                "too long",
            ),
            (
                "429 Too Many Requests",
                String::new(),
                SignInFailure::Busy,
                "is busy",
            ),
            (
                "502 Bad Gateway",
                String::new(),
                SignInFailure::Unreachable,
                "HTTP 502",
            ),
        ] {
            ask(client.socket(), sign_in(&portal)).await.unwrap();
            let mut http = portal.accept_http().await;
            assert!(http.hear().await.is_some());
            http.say(status, &body).await;
            fails(code, says).await;
        }
        ask(client.socket(), sign_in(&portal)).await.unwrap();
        let mut http = portal.accept_http().await;
        give_code(&mut http, &portal, "BCDF-GHJK").await;
        answer_poll(&mut http, "BCDF-GHJK", json!({"state": "denied"})).await;
        fails(SignInFailure::Refused, "was denied").await;

        ask(client.socket(), sign_in(&portal)).await.unwrap();
        let mut http = portal.accept_http().await;
        give_code(&mut http, &portal, "BCDF-GHJK").await;
        let no_token = json!({"state": "approved", "token": "cv_api_x", "actor": "ada"});
        answer_poll(&mut http, "BCDF-GHJK", no_token).await;
        fails(SignInFailure::NotAPortal, "token can't be used").await;

        let (url, _) = portal.place();
        let wrong = Request::SignIn(SignIn::Portal(PortalSignIn {
            portal: url,
            certificate: Some("00".repeat(32)),
        }));
        ask(client.socket(), wrong).await.unwrap();
        let refused = async {
            // The client breaks the handshake off.
            let _refused = timeout(DEADLINE, portal.try_accept_tls()).await.unwrap();
        };
        tokio::join!(refused, fails(SignInFailure::Certificate, "certificate"));

        let gone = sign_in(&portal);
        drop(portal);
        ask(client.socket(), gone).await.unwrap();
        fails(SignInFailure::Unreachable, "does not answer").await;
        client.stop().await;
    });
}

#[test]
fn urls_that_can_not_be_a_portals_are_refused_at_once() {
    Scene::new().play(async |_| {
        let client = waiting().await;
        for (portal, certificate) in [
            ("http://127.0.0.1:8443", None),
            ("https://user@portal.example.com", None),
            ("https://portal.example.com/path", None),
            ("https://portal.example.com", Some("00")),
        ] {
            let request = Request::SignIn(SignIn::Portal(PortalSignIn {
                portal: portal.to_owned(),
                certificate: certificate.map(str::to_owned),
            }));
            let error = ask(client.socket(), request).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::InvalidPortal));
            let error = error.to_string();
            assert!(
                error.contains("a portal's URL") || error.contains("SHA-256"),
                "{error}"
            );
        }
        client.until(|it| it.service.sign_in.is_none()).await;
        client.stop().await;
        let portal = FakePortal::start().await;
        let client = Running::start(&portal, |_| {});
        let (mut session, _) = portal.accept(1).await;
        session.welcome(Vec::new(), Vec::new()).await;
        let status = client.until(|it| it.ready).await;
        assert!(!status.service.signs_in);
        for request in [sign_in(&portal), Request::CancelSignIn] {
            let error = ask(client.socket(), request).await.unwrap_err();
            assert_eq!(error.code(), Some(ErrorCode::ControlledByToken));
            let error = error.to_string();
            assert!(error.contains("administrator's token"), "{error}");
        }
        client.stop().await;
    });
}
