//! Identity providers that are wrong, away, silent, or talk without end.

use crate::browser::{PASSWORD, person};
use crate::openid::Scene;
use crate::openid_provider::{CLIENT_SECRET, Kind, at_own_name, path_of};
use crate::support::{Client, Running, id_of};
use culvert_store::Role;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

#[tokio::test]
async fn a_token_of_a_clock_that_is_off_is_refused() {
    for (minutes, why) in [(-120, "it has expired"), (120, "from the future")] {
        let kind = Kind {
            clock_ms: minutes * 60_000,
            ..Kind::default()
        };
        let scene = Scene::new(&kind, json!({"unknown_people": "make"})).await;
        scene.openid.knows(&json!({"s-1": {"name": "Ada"}}));
        let mut browser = at_own_name(&scene.running).await;
        let refused = scene.arrive(&mut browser, "s-1").await.expect(403);
        assert!(refused.text.contains(why), "{minutes}: {}", refused.text);
        assert!(browser.cookie.is_none());
    }
}

#[tokio::test]
async fn a_provider_that_is_away_or_not_believed_is_named_on_a_page() {
    let mut scene = Scene::new(&Kind::default(), json!({"unknown_people": "make"})).await;
    scene.openid.knows(&json!({"s-1": {"name": "Ada"}}));
    let mut browser = at_own_name(&scene.running).await;
    let way = format!("/sign-in/with/{}", scene.id);
    // Nobody vouches for its certificate.
    scene.change(json!({"ca": ""})).await;
    let page = browser.get(&way).await.expect(502);
    assert!(page.text.contains("certificate"), "{}", page.text);
    let ca = scene.openid.ca.clone();
    scene.change(json!({"ca": ca})).await;
    // The secret is another: the provider says so.
    scene.change(json!({"client_secret": "another"})).await;
    let refused = scene.arrive(&mut browser, "s-1").await.expect(403);
    assert!(refused.text.contains("invalid_client"), "{}", refused.text);
    scene.change(json!({"client_secret": CLIENT_SECRET})).await;
    // It goes away while somebody is there.
    let url = scene.begin(&mut browser, "/").await;
    let back = scene.openid.sign_in(&url, "s-1").await;
    scene.openid.stop();
    let page = browser
        .get(path_of(&scene.running, &back))
        .await
        .expect(502);
    assert!(page.text.contains("can&#39;t be asked"), "{}", page.text);
    assert!(browser.cookie.is_none());
    // Passwords still work.
    let (_, name) = person(&scene.running, Role::User).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
}

/// One that never answers, and one whose answer never ends.
#[tokio::test]
async fn a_provider_that_is_silent_or_talks_without_end_is_given_up() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (endless, ca, talking) = endless().await;
    let begin = async |owner: &mut Client, name: &str, address: SocketAddr, ca: &str| {
        let new = json!({
            "name": name, "issuer": format!("https://{address}"), "client_id": "c", "ca": ca,
        });
        let made = owner.post("/api/v1/providers", new).await.expect(201);
        format!("/sign-in/with/{}", id_of(&made.json()))
    };
    let address = silent.local_addr().unwrap();
    let silent_way = begin(&mut owner, "silent", address, &ca).await;
    let endless_way = begin(&mut owner, "endless", endless, &ca).await;
    let mut browser = at_own_name(&running).await;
    let page = browser.get(&endless_way).await.expect(502);
    assert!(page.text.contains("length limit exceeded"), "{}", page.text);
    let page = browser.get(&silent_way).await.expect(502);
    assert!(
        page.text.contains("did not answer within 10 s"),
        "{}",
        page.text
    );
    talking.abort();
}

async fn endless() -> (SocketAddr, String, JoinHandle<()>) {
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let talking = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
        stream.write_all(head).await.unwrap();
        // Until the portal has had enough.
        while stream.write_all(&[b' '; 16_384]).await.is_ok() {}
    });
    (address, certified.cert.pem(), talking)
}
