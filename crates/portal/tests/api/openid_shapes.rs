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
