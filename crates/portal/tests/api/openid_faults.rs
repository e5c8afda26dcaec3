//! Identity providers that are wrong, away, silent, or talk without end.

use crate::browser::{PASSWORD, person};
use crate::openid::{Scene, signed_in_as};
use crate::openid_provider::{CLIENT_SECRET, Kind, at_own_name, path_of};
use crate::support::{Client, Running, id_of};
use culvert_store::Role;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
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

#[tokio::test]
async fn whoever_goes_on_to_a_provider_reads_which_it_is() {
    let running = Running::start().await;
    let (issuer, ca, talking) = describing_itself().await;
    let mut owner = running.owner().await;
    let mut ids = Vec::new();
    for (name, issuer) in [("Other", "https://id.example"), ("Corp staff", &*issuer)] {
        let new = json!({"name": name, "issuer": issuer, "client_id": "c", "ca": ca});
        let made = owner.post("/api/v1/providers", new).await.expect(201);
        ids.push(id_of(&made.json()));
    }
    let (_, name) = person(&running, Role::Admin).await;
    let mut browser = signed_in_as(&running, &name).await;
    let page = browser.submit("/me/link", &[("provider", &ids[1])]).await;
    let page = page.expect(200).text;
    assert!(page.contains("Go on to Corp staff"), "{page}");
    assert!(page.contains(&format!("{issuer}/auth")), "{page}");
    talking.abort();
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

/// The address at which a test speaks for a provider, and the certificate to be believed.
async fn listening() -> (TcpListener, TlsAcceptor, String) {
    let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    (listener, acceptor, certified.cert.pem())
}

/// One that says what it is, and nothing else.
async fn describing_itself() -> (String, String, JoinHandle<()>) {
    let (listener, acceptor, ca) = listening().await;
    let issuer = format!("https://{}", listener.local_addr().unwrap());
    let metadata = json!({
        "issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
        "keys": [],
    });
    let body = metadata.to_string();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let talking = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (issuer, ca, talking)
}

async fn endless() -> (SocketAddr, String, JoinHandle<()>) {
    let (listener, acceptor, ca) = listening().await;
    let address = listener.local_addr().unwrap();
    let talking = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let mut stream = acceptor.accept(stream).await.unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n";
        stream.write_all(head).await.unwrap();
        // Until the portal has had enough.
        while stream.write_all(&[b' '; 16_384]).await.is_ok() {}
    });
    (address, ca, talking)
}
