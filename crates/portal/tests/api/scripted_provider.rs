//! An identity provider that answers whatever a test says, for shapes and faults that `oidc-provider` does not have.

use crate::browser::Browser;
use crate::openid_provider::{at_own_name, own_name};
use crate::support::{Answer, Client, Running, id_of};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::PrivateKeyDer;
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

pub(crate) const CLIENT_ID: &str = "culvert";

/// An answer of the provider.
#[derive(Clone)]
pub(crate) enum Reply {
    Body(u16, &'static str, String),
    /// Claims in a JWT that the provider signs, with its content type.
    Signed(Value),
    /// None, ever.
    Silence,
}

impl Reply {
    pub(crate) fn json(claims: &Value) -> Self {
        Self::Body(200, "application/json", claims.to_string())
    }
}

/// A key of the provider, and the same as it publishes it.
#[derive(Clone)]
pub(crate) struct Key {
    private: EncodingKey,
    published: Value,
    id: Option<String>,
}

impl Key {
    /// Every key has the same id, unless it is given another.
    pub(crate) fn new() -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let private = EncodingKey::from_ec_der(pair.serialized_der());
        let told = Jwk::from_encoding_key(&private, Algorithm::ES256).unwrap();
        let published = serde_json::to_value(told).unwrap();
        let key = Self {
            private,
            published,
            id: None,
        };
        key.named("key")
    }

    pub(crate) fn named(&self, id: &str) -> Self {
        let mut key = self.clone();
        key.published["kid"] = json!(id);
        key.id = Some(id.to_owned());
        key
    }

    pub(crate) fn unnamed(&self) -> Self {
        let mut key = self.clone();
        key.published.as_object_mut().unwrap().remove("kid");
        key.id = None;
        key
    }
}

/// Everything that the provider says.
pub(crate) struct Script {
    /// Claims of the ID token beside those that it must have.
    pub(crate) id_token: Value,
    pub(crate) user_info: Reply,
    /// In place of the metadata.
    pub(crate) metadata: Option<Reply>,
    /// It signs by this one.
    pub(crate) key: Key,
    /// It publishes these.
    pub(crate) published: Vec<Key>,
    nonce: String,
    /// The number of requests for each path.
    asked: BTreeMap<String, u32>,
}

/// A portal, a provider that it knows, and an owner.
pub(crate) struct Stage {
    pub(crate) running: Running,
    pub(crate) owner: Client,
    pub(crate) issuer: String,
    /// The provider at the portal.
    pub(crate) id: String,
    pub(crate) script: Arc<Mutex<Script>>,
    browsers: AtomicU8,
}

impl Stage {
    pub(crate) async fn new(settings: Value) -> Self {
        Self::speaking(&[&rustls::version::TLS13], settings).await
    }

    /// With this suite of TLS 1.2 alone, and a certificate for it.
    pub(crate) async fn by_suite(suite: SupportedCipherSuite, settings: Value) -> Self {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        provider.cipher_suites = vec![suite];
        let key = match format!("{suite:?}").contains("RSA") {
            true => rcgen::KeyPair::generate_for(&rcgen::PKCS_RSA_SHA256),
            false => rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256),
        };
        let versions = &[&rustls::version::TLS12];
        Self::serving(provider, versions, key.unwrap(), settings).await
    }

    pub(crate) async fn speaking(
        versions: &[&'static SupportedProtocolVersion],
        settings: Value,
    ) -> Self {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        Self::serving(provider, versions, key, settings).await
    }

    async fn serving(
        provider: CryptoProvider,
        versions: &[&'static SupportedProtocolVersion],
        key: rcgen::KeyPair,
        settings: Value,
    ) -> Self {
        let certificate = rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = certificate.self_signed(&key).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = format!("https://{}", listener.local_addr().unwrap());
        let key = Key::new();
        let script = Arc::new(Mutex::new(Script {
            id_token: json!({}),
            user_info: Reply::json(&json!({"sub": "s-1"})),
            metadata: None,
            published: vec![key.clone()],
            key,
            nonce: String::new(),
            asked: BTreeMap::new(),
        }));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        tokio::spawn(serve(listener, acceptor, issuer.clone(), script.clone()));
        let running = Running::start().await;
        let mut owner = running.owner().await;
        let mut new = json!({
            "name": "Example", "issuer": issuer, "client_id": CLIENT_ID, "ca": certificate.pem(),
        });
        let more = settings.as_object().unwrap().clone();
        new.as_object_mut().unwrap().extend(more);
        let made = owner.post("/api/v1/providers", new).await.expect(201);
        Self {
            running,
            owner,
            issuer,
            id: id_of(&made.json()),
            script,
            browsers: AtomicU8::new(1),
        }
    }

    /// With the group Staff, for the value `staff` of `claim`.
    pub(crate) async fn with_staff(claim: &str, settings: Value) -> (Self, String) {
        let mut stage = Self::new(settings).await;
        let staff = stage.group("Staff").await;
        let groups = json!([{"value": "staff", "group": staff}]);
        let patch = json!({"groups_claim": claim, "groups": groups});
        stage.change(patch).await;
        (stage, staff)
    }

    pub(crate) async fn change(&mut self, patch: Value) {
        let at = format!("/api/v1/providers/{}", self.id);
        self.owner.patch(&at, "*", patch).await.expect(200);
    }

    pub(crate) fn says(&self, id_token: &Value, user_info: Reply) {
        let mut script = self.script.lock().unwrap();
        script.id_token = id_token.clone();
        script.user_info = user_info;
    }

    pub(crate) fn asked(&self, path: &str) -> u32 {
        let script = self.script.lock().unwrap();
        script.asked.get(path).copied().unwrap_or_default()
    }

    /// Begins to sign in, which leads to the provider.
    pub(crate) async fn begin(&self, browser: &mut Browser) -> Answer {
        let way = format!("/sign-in/with/{}?next=/", self.id);
        browser.get(&way).await
    }

    /// Goes to the provider, and comes back with `more` in the query.
    pub(crate) async fn arrive_with(&self, browser: &mut Browser, more: &str) -> Answer {
        let begun = self.begin(browser).await.expect(303);
        let url = begun.header("location").to_owned();
        self.script.lock().unwrap().nonce = parameter(&url, "nonce");
        let state = parameter(&url, "state");
        let back = format!("/sign-in/callback?state={state}&code=c{more}");
        browser.get(&back).await
    }

    /// Signs in in a new browser, at an address of its own: each may begin 20 sign-ins at once.
    pub(crate) async fn sign_in(&self) -> Answer {
        let mut browser = at_own_name(&self.running).await;
        let address = self.browsers.fetch_add(1, Ordering::Relaxed);
        browser.client = self.running.client_at(address).await;
        own_name(&self.running, &mut browser);
        self.arrive_with(&mut browser, "").await
    }

    pub(crate) async fn group(&mut self, name: &str) -> String {
        let new = json!({"name": name});
        let made = self.owner.post("/api/v1/groups", new).await;
        id_of(&made.expect(201).json())
    }

    pub(crate) async fn members(&mut self, group: &str) -> Vec<String> {
        let at = format!("/api/v1/groups/{group}/members");
        let page = self.owner.get(&at).await.expect(200).json();
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|member| member["actor"].as_str().unwrap().to_owned())
            .collect()
    }

    /// The actors by which the provider knows people.
    pub(crate) async fn known(&mut self) -> Vec<String> {
        let page = self.owner.get("/api/v1/identities").await.expect(200);
        let page = page.json();
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|identity| identity["actor"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn parameter(url: &str, name: &str) -> String {
    let (_, rest) = url.split_once(&format!("&{name}=")).unwrap();
    rest.split('&').next().unwrap().to_owned()
}

async fn serve(
    listener: TcpListener,
    acceptor: TlsAcceptor,
    issuer: String,
    script: Arc<Mutex<Script>>,
) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(answer(
            stream,
            acceptor.clone(),
            issuer.clone(),
            script.clone(),
        ));
    }
}

async fn answer(
    stream: TcpStream,
    acceptor: TlsAcceptor,
    issuer: String,
    script: Arc<Mutex<Script>>,
) {
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap().to_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or_default()];
    stream.read_exact(&mut body).await.unwrap();
    let reply = script.lock().unwrap().reply(&issuer, &path);
    let Some((status, content_type, body)) = reply else {
        return std::future::pending().await;
    };
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: {content_type}\r\nlocation: https://elsewhere.example/\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await.unwrap();
    let _gone = stream.shutdown().await;
}

impl Script {
    fn reply(&mut self, issuer: &str, path: &str) -> Option<(u16, &'static str, String)> {
        *self.asked.entry(path.to_owned()).or_default() += 1;
        let reply = match path {
            "/.well-known/openid-configuration" => self.metadata.clone().unwrap_or_else(|| {
                Reply::json(&json!({
                    "issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"),
                    "token_endpoint": format!("{issuer}/token"),
                    "jwks_uri": format!("{issuer}/keys"),
                    "userinfo_endpoint": format!("{issuer}/me"),
                }))
            }),
            "/keys" => {
                let keys = self.published.iter().map(|key| key.published.clone());
                Reply::json(&json!({"keys": keys.collect::<Vec<_>>()}))
            }
            "/token" => {
                let now_s = get_current_timestamp();
                let mut claims = json!({
                    "iss": issuer, "aud": CLIENT_ID, "sub": "s-1", "nonce": self.nonce,
                    "exp": now_s + 60, "iat": now_s,
                });
                let more = self.id_token.as_object().unwrap().clone();
                claims.as_object_mut().unwrap().extend(more);
                let token = self.sign(&claims);
                Reply::json(&json!({"id_token": token, "access_token": "access"}))
            }
            "/me" => self.user_info.clone(),
            _ => Reply::Body(404, "text/html", "<h1>Not found</h1>".to_owned()),
        };
        match reply {
            Reply::Body(status, content_type, body) => Some((status, content_type, body)),
            Reply::Signed(claims) => Some((200, "application/jwt", self.sign(&claims))),
            Reply::Silence => None,
        }
    }

    fn sign(&self, claims: &Value) -> String {
        let mut header = Header::new(Algorithm::ES256);
        header.kid.clone_from(&self.key.id);
        encode(&header, claims, &self.key.private).unwrap()
    }

    /// Tokens are signed by one key from now on, and these are published.
    pub(crate) fn signs_by(&mut self, key: &Key, published: &[&Key]) {
        self.key = key.clone();
        self.published = published.iter().map(|key| (*key).clone()).collect();
    }
}
