//! Identity providers as they are: what they call groups, where these stand, and what fails beside.

use crate::openid_provider::at_own_name;
use crate::scripted_provider::{Key, Reply, Stage};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

#[tokio::test]
async fn a_provider_that_speaks_tls_1_2_signs_people_in() {
    let settings = json!({"unknown_people": "make"});
    let stage = Stage::speaking(&[&rustls::version::TLS12], settings).await;
    stage.sign_in().await.expect(303);
}

/// The alerts of servers without TLS 1.2, and without ECDHE and an AEAD suite.
#[tokio::test]
async fn a_provider_whose_tls_is_too_old_is_refused_with_the_reason() {
    let mut stage = Stage::new(json!({})).await;
    for (alert, reason) in [(70, "TLS 1.2"), (40, "cipher suite")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("https://{}", listener.local_addr().unwrap());
        let new = json!({"name": reason, "issuer": issuer, "client_id": "c"});
        let made = stage.owner.post("/api/v1/providers", new).await.expect(201);
        let id = crate::support::id_of(&made.json());
        let refusing = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut hello = [0; 1024];
            let _length = stream.read(&mut hello).await.unwrap();
            stream.write_all(&[21, 3, 3, 0, 2, 2, alert]).await.unwrap();
            stream
        };
        let mut browser = at_own_name(&stage.running).await;
        let way = format!("/sign-in/with/{id}");
        let (page, _open) = tokio::join!(browser.get(&way), refusing);
        let text = page.expect(502).text;
        assert!(text.contains(reason) && text.contains("ECDHE"), "{text}");
    }
}

#[tokio::test]
async fn discovery_that_is_wrong_is_shown_as_it_came_and_as_it_was_expected() {
    let stage = Stage::new(json!({})).await;
    let issuer = stage.issuer.clone();
    let mut browser = at_own_name(&stage.running).await;
    let long = format!("https://{}", "x".repeat(5_000));
    let of = |said: &str| {
        Reply::json(&json!({
            "issuer": said, "authorization_endpoint": format!("{issuer}/auth"),
            "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
        }))
    };
    let html = "<!doctype html><script>alert(1)</script>";
    for (reply, says) in [
        (
            Reply::Body(200, "text/html; charset=utf-8", html.to_owned()),
            vec!["text/html", "doctype", "JSON"],
        ),
        (Reply::Body(404, "text/html", html.to_owned()), vec!["404"]),
        (
            Reply::Body(302, "text/html", String::new()),
            vec!["302", "https://elsewhere.example/"],
        ),
        (
            Reply::json(&json!({"issuer": issuer})),
            vec!["authorization_endpoint"],
        ),
        (Reply::json(&json!([])), vec!["openid-configuration"]),
        (of(&format!("{issuer}/")), vec!["/</", &issuer]),
        (
            of("https://id.example/realms/a"),
            vec!["https://id.example/realms/a", &issuer],
        ),
        (
            of("https://login.example/{tenantid}/v2.0"),
            vec!["{tenantid}", "tenant"],
        ),
        (
            of("<script>alert(1)</script>\n\u{202e}"),
            vec!["&#60;script&#62;", "u{202e}"],
        ),
        (of(&long), vec!["https://xxx", &issuer]),
    ] {
        stage.script.lock().unwrap().metadata = Some(reply);
        let page = stage.begin(&mut browser).await.expect(502).text;
        for said in says {
            let said = if said == "/</" {
                &*format!("{issuer}/ ")
            } else {
                said
            };
            assert!(page.contains(said), "{said}: {page}");
        }
        assert!(
            !page.contains("<script>alert") && page.len() < 5_000,
            "{page}"
        );
    }
}

#[tokio::test]
async fn an_issuer_that_differs_is_shown_beside_the_one_that_was_expected() {
    let stage = Stage::new(json!({"unknown_people": "make"})).await;
    let mut browser = at_own_name(&stage.running).await;
    let more = "&iss=https%3A%2F%2Fother.example%2F%3Cb%3E";
    let page = stage.arrive_with(&mut browser, more).await.expect(403).text;
    for said in ["https://other.example/&#60;b&#62;", &stage.issuer] {
        assert!(page.contains(said), "{said}: {page}");
    }
    stage.says(&json!({"iss": "https://sts.example/1/"}), Reply::Silence);
    let page = stage.sign_in().await.expect(403).text;
    for said in ["https://sts.example/1/", &stage.issuer] {
        assert!(page.contains(said), "{said}: {page}");
    }
    stage.says(&json!({"aud": "someone"}), Reply::Silence);
    let page = stage.sign_in().await.expect(403).text;
    for said in ["someone", "culvert"] {
        assert!(page.contains(said), "{said}: {page}");
    }
}

#[tokio::test]
async fn a_key_that_changes_under_its_id_is_asked_for_once_and_not_again_within_a_minute() {
    let stage = Stage::new(json!({"unknown_people": "make"})).await;
    stage.sign_in().await.expect(303);
    assert_eq!(stage.asked("/keys"), 1);
    let change = |published: bool| {
        let key = Key::new();
        let mut script = stage.script.lock().unwrap();
        script.key = key.clone();
        if published {
            script.published = key;
        }
    };
    change(true);
    stage.sign_in().await.expect(303);
    assert_eq!(stage.asked("/keys"), 2);
    stage.sign_in().await.expect(303);
    assert_eq!(stage.asked("/keys"), 2, "the new key is remembered");
    for published in [false, true] {
        change(published);
        let refused = stage.sign_in().await.expect(403);
        assert!(refused.text.contains("signature"), "{}", refused.text);
        assert_eq!(stage.asked("/keys"), 2, "once a minute");
    }
}
