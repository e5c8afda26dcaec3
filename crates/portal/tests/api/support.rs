//! A portal in a directory of its own, and clients that know it by its pin.

use culvert_base::UnixTime;
use culvert_ids::{AccountId, ActorId, ClientId, GatewayId, RANDOM_LEN, RelayId, SiteId, TokenId};
use culvert_portal::{CertificateFiles, Home, Options, Portal, SetupState};
use culvert_store::{
    Account, AccountSettings, Actor, ActorKind, Author, Enrolment, Mutation, RelayEnrolment, Role,
    Seen, Stamp, Store, Token as TokenRow, TokenScope, TokenUses,
};
use culvert_store_sql::SecretsAccess;
use culvert_store_sql::{SqlStore, SqliteOptions};
use culvert_wire::api::OwnRelayStatus;
use culvert_wire::token::{Bearer, Secret, Token, TokenKind};
use culvert_wire::{PublicKey, Timestamp};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use serde_json::Value;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_unix_ms(u64::try_from(since.as_millis()).unwrap())
}

/// Different each time, and later ones larger.
pub(crate) fn birth() -> (UnixTime, [u8; RANDOM_LEN]) {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let mut random = [0; RANDOM_LEN];
    random[..8].copy_from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_be_bytes());
    (now().unix_time(), random)
}

fn options_for(url: Option<&str>) -> Options {
    let mut options = Options::new("127.0.0.1:0".parse().unwrap());
    options.url = url.map(str::to_owned);
    options
}

/// A portal that runs.
pub(crate) struct Running {
    pub(crate) portal: Portal,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) state: PathBuf,
    dir: TempDir,
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::start_in(tempfile::tempdir().unwrap()).await
    }

    pub(crate) async fn start_in(dir: TempDir) -> Self {
        Self::start_as(dir, None).await
    }

    /// One that has a name.
    pub(crate) async fn start_as(dir: TempDir, url: Option<&str>) -> Self {
        Self::start_with(dir, options_for(url), |store| store).await
    }

    /// One on a store that is made of the one that tests have.
    pub(crate) async fn start_on(
        dir: TempDir,
        url: Option<&str>,
        of: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Self {
        Self::start_with(dir, options_for(url), of).await
    }

    /// One with the certificate of these files.
    pub(crate) async fn start_certified(files: CertificateFiles) -> Self {
        let mut options = options_for(None);
        options.certificate = Some(files);
        Self::start_with(tempfile::tempdir().unwrap(), options, |store| store).await
    }

    /// One that believes the proxies of a network.
    pub(crate) async fn start_behind(proxies: &str) -> Self {
        let mut options = options_for(None);
        options.trusted_proxies = vec![proxies.parse().unwrap()];
        Self::start_with(tempfile::tempdir().unwrap(), options, |store| store).await
    }

    /// One with a relay beside it, whose state is told so.
    pub(crate) async fn start_beside(relay: watch::Receiver<OwnRelayStatus>) -> Self {
        let mut options = options_for(None);
        options.own_relay = Some(relay);
        Self::start_with(tempfile::tempdir().unwrap(), options, |store| store).await
    }

    /// One whose secrets are kept so.
    pub(crate) async fn start_keyed(dir: TempDir, access: SecretsAccess) -> Self {
        Self::start_in_state(dir, options_for(None), access, |store| store).await
    }

    async fn start_with(
        dir: TempDir,
        options: Options,
        of: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Self {
        Self::start_in_state(dir, options, SecretsAccess::Plain, of).await
    }

    async fn start_in_state(
        dir: TempDir,
        options: Options,
        access: SecretsAccess,
        of: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Self {
        let home = Home::open(&dir.path().join("portal")).unwrap();
        let store =
            SqlStore::open(&SqliteOptions::file(home.database_path()).secrets(access)).await;
        Self::start_at(dir, home, options, Arc::new(store.unwrap()), of).await
    }

    /// One on this store.
    pub(crate) async fn start_on_store(
        dir: TempDir,
        url: Option<&str>,
        store: Arc<dyn Store>,
    ) -> Self {
        let home = Home::open(&dir.path().join("portal")).unwrap();
        Self::start_at(dir, home, options_for(url), store, |store| store).await
    }

    async fn start_at(
        dir: TempDir,
        home: Home,
        mut options: Options,
        store: Arc<dyn Store>,
        of: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Self {
        let state = dir.path().join("portal");
        options.metrics = Some("127.0.0.1:0".parse().unwrap());
        let portal = Portal::start(options, home, of(Arc::clone(&store))).await;
        Self {
            portal: portal.unwrap(),
            store,
            state,
            dir,
        }
    }

    /// Ends it; what it leaves behind can be started again.
    pub(crate) async fn stop(self) -> TempDir {
        self.portal.stop().await;
        self.store.close().await;
        self.dir
    }

    pub(crate) fn account(&self) -> AccountId {
        self.portal.account()
    }

    /// The token of the first start.
    pub(crate) fn setup_token(&self) -> String {
        let SetupState::Begun(token) = self.portal.setup() else {
            panic!("not the first start");
        };
        token.token.expose().to_string()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.portal.address(), &self.portal).await
    }

    /// A connection from `127.0.1.HOST`: tests that ask more often than one address may take turns of them.
    pub(crate) async fn client_at(&self, host: u8) -> Client {
        let from = Ipv4Addr::new(127, 0, 1, host);
        let to = self.portal.address();
        Client::connect_from(from, to, &self.portal).await
    }

    /// An owner of the portal's account.
    pub(crate) async fn owner(&self) -> Client {
        let secret = api_token(self.store.as_ref(), self.account(), Role::Owner).await;
        self.client().await.with(&secret)
    }

    /// Someone with a role in the portal's account.
    pub(crate) async fn with_role(&self, role: Role) -> Client {
        let secret = api_token(self.store.as_ref(), self.account(), role).await;
        self.client().await.with(&secret)
    }
}

/// A second account in the same database.
pub(crate) async fn other_account(store: &dyn Store) -> AccountId {
    let (born, random) = birth();
    let account = Account {
        id: AccountId::new(born, random),
        name: format!("other {}", born.as_millis()),
        settings: AccountSettings::default(),
        stamp: Stamp::default(),
    };
    let account = store.create_account(account, Author::PORTAL, now()).await;
    account.unwrap().id
}

pub(crate) async fn make_actor(store: &dyn Store, account: AccountId, kind: ActorKind) -> ActorId {
    let (born, random) = birth();
    let id = ActorId::new(born, random);
    let actor = Actor {
        id,
        kind,
        name: format!("actor {id}"),
        disabled: false,
        sign_in: None,
        stamp: Stamp::default(),
    };
    let create = vec![Mutation::Create(actor.into())];
    store
        .write(account, Author::PORTAL, now(), create)
        .await
        .unwrap();
    id
}

/// A token of an admin who was made for it.
pub(crate) async fn api_token(store: &dyn Store, account: AccountId, role: Role) -> String {
    let actor = make_actor(store, account, ActorKind::Admin).await;
    make_token(store, account, TokenScope::Api { actor, role })
        .await
        .1
}

pub(crate) async fn make_token(
    store: &dyn Store,
    account: AccountId,
    scope: TokenScope,
) -> (TokenId, String) {
    make_token_at(store, account, scope, now()).await
}

/// The same, made at another time.
pub(crate) async fn make_token_at(
    store: &dyn Store,
    account: AccountId,
    scope: TokenScope,
    at: Timestamp,
) -> (TokenId, String) {
    let (born, random) = birth();
    let id = TokenId::new(born, random);
    let mut secret = [7; 32];
    secret[..10].copy_from_slice(&random);
    let secret = Secret::new(secret);
    let token = TokenRow {
        id,
        scope,
        name: format!("token {id}"),
        uses: TokenUses::Many,
        expires: None,
        revoked: None,
        used: None,
        last_used: None,
        proven: None,
        stamp: Stamp::default(),
    };
    let digest = secret.digest();
    let create = vec![Mutation::CreateToken { token, digest }];
    store
        .write(account, Author::PORTAL, at, create)
        .await
        .unwrap();
    let kind = scope.kind();
    let bearer = Bearer { kind, id, secret };
    let portal = None;
    (id, Token { bearer, portal }.expose().to_string())
}

pub(crate) fn seen(software: &str) -> Seen {
    Seen {
        at: now(),
        address: Some("203.0.113.7".parse().unwrap()),
        software: software.to_owned(),
    }
}

pub(crate) fn fresh_key() -> PublicKey {
    let (_, random) = birth();
    let mut key = [3; 32];
    key[..RANDOM_LEN].copy_from_slice(&random);
    PublicKey::from_bytes(key)
}

pub(crate) async fn enrol_client(
    store: &dyn Store,
    account: AccountId,
    actor: ActorId,
) -> (ClientId, String) {
    enrol_client_as(store, account, actor, "0.1.0").await
}

/// A client that says that it is of such a version.
pub(crate) async fn enrol_client_as(
    store: &dyn Store,
    account: AccountId,
    actor: ActorId,
    software: &str,
) -> (ClientId, String) {
    let (_, text) = make_token(store, account, TokenScope::Client { actor }).await;
    let bearer = text.parse::<Token>().unwrap().bearer;
    let digest = bearer.secret.digest();
    let principal = store
        .authenticate(bearer.id, &digest, TokenKind::Client, now())
        .await
        .unwrap();
    let (born, random) = birth();
    let new_id = ClientId::new(born, random);
    let machine = Enrolment {
        new_id,
        machine: format!("machine of {new_id}"),
        name: format!("client {new_id}"),
        public_key: fresh_key(),
        seen: seen(software),
    };
    let client = store
        .enrol_client(account, &principal, machine, now())
        .await
        .unwrap();
    (client.id, text)
}

pub(crate) async fn enrol_gateway(
    store: &dyn Store,
    account: AccountId,
    site: SiteId,
) -> (GatewayId, String) {
    let (_, text) = make_token(store, account, TokenScope::Gateway { site }).await;
    let bearer = text.parse::<Token>().unwrap().bearer;
    let digest = bearer.secret.digest();
    let principal = store
        .authenticate(bearer.id, &digest, TokenKind::Gateway, now())
        .await
        .unwrap();
    let (born, random) = birth();
    let new_id = GatewayId::new(born, random);
    let machine = Enrolment {
        new_id,
        machine: format!("machine of {new_id}"),
        name: format!("gateway {new_id}"),
        public_key: fresh_key(),
        seen: seen("0.1.0"),
    };
    let gateway = store
        .enrol_gateway(account, &principal, machine, now())
        .await
        .unwrap();
    (gateway.id, text)
}

pub(crate) async fn enrol_relay(store: &dyn Store, account: AccountId) -> (RelayId, String) {
    let (_, text) = make_token(store, account, TokenScope::Relay).await;
    let bearer = text.parse::<Token>().unwrap().bearer;
    let digest = bearer.secret.digest();
    let principal = store
        .authenticate(bearer.id, &digest, TokenKind::Relay, now())
        .await
        .unwrap();
    let (born, random) = birth();
    let new_id = RelayId::new(born, random);
    let machine = RelayEnrolment {
        new_id,
        machine: format!("machine of {new_id}"),
        name: format!("relay {new_id}"),
        addresses: vec!["192.0.2.9:3478".parse().unwrap()],
        seen: seen("0.1.0"),
    };
    let relay = store
        .enrol_relay(account, &principal, machine, now())
        .await
        .unwrap();
    (relay.id, text)
}

/// One connection to the portal.
pub(crate) struct Client {
    sender: SendRequest<Full<Bytes>>,
    token: Option<String>,
    pub(crate) host: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    /// Fails unless it has the status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status.as_u16(), status, "{self:?}");
        self
    }

    /// The problem, which every error must be.
    #[track_caller]
    pub(crate) fn problem(self, status: u16) -> Value {
        let answer = self.expect(status);
        assert_eq!(answer.header("content-type"), "application/problem+json");
        let problem = answer.json();
        assert_eq!(problem["status"], status);
        let kind = problem["type"].as_str().unwrap();
        assert!(kind.starts_with("urn:culvert:problem:"), "{problem}");
        assert_eq!(problem["request_id"], answer.header("x-request-id"));
        problem
    }
}

/// The id in a JSON object.
#[track_caller]
pub(crate) fn id_of(json: &Value) -> String {
    json["id"]
        .as_str()
        .unwrap_or_else(|| panic!("{json}"))
        .to_owned()
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, portal: &Portal) -> Self {
        Self::connect_from(Ipv4Addr::LOCALHOST, address, portal).await
    }

    async fn connect_from(from: Ipv4Addr, address: SocketAddr, portal: &Portal) -> Self {
        let stream = tls_stream(from, address, portal).await;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let token = None;
        let host = "localhost".to_owned();
        Self {
            sender,
            token,
            host,
        }
    }

    pub(crate) fn with(mut self, token: &str) -> Self {
        self.token = Some(token.to_owned());
        self
    }

    pub(crate) fn token(&self) -> Option<String> {
        self.token.clone()
    }

    pub(crate) fn set_token(&mut self, token: Option<&str>) {
        self.token = token.map(str::to_owned);
    }

    pub(crate) async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], None).await
    }

    pub(crate) async fn post(&mut self, path: &str, body: Value) -> Answer {
        self.json("POST", path, &[], body).await
    }

    pub(crate) async fn patch(&mut self, path: &str, if_match: &str, body: Value) -> Answer {
        self.json("PATCH", path, &[("if-match", if_match)], body)
            .await
    }

    pub(crate) async fn delete(&mut self, path: &str) -> Answer {
        self.send("DELETE", path, &[], None).await
    }

    pub(crate) async fn json(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Value,
    ) -> Answer {
        let mut headers = headers.to_vec();
        headers.push(("content-type", "application/json"));
        self.send(method, path, &headers, Some(body.to_string().into()))
            .await
    }

    pub(crate) async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Answer {
        let response = self.begin(method, path, headers, body).await;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status,
            headers: parts.headers,
            // Fonts are no text.
            text: String::from_utf8_lossy(&bytes).into_owned(),
        }
    }

    /// The same, up to where the answer's body begins.
    pub(crate) async fn begin(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Response<Incoming> {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(path)
            .header("host", &self.host);
        if let Some(token) = &self.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::new(Bytes::from(body.unwrap_or_default()));
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request.body(body).unwrap()).await;
        response.unwrap()
    }
}

/// A connection to the portal, which is known by its pin.
pub(crate) async fn tls_stream(
    from: Ipv4Addr,
    address: SocketAddr,
    portal: &Portal,
) -> TlsStream<TcpStream> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let pinned = Pinned {
        pin: portal.pin().to_string(),
        algorithms: provider.signature_verification_algorithms,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(pinned))
        .with_no_client_auth();
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((from, 0).into()).unwrap();
    let stream = socket.connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap()
}

/// Knows the portal by its pin, as machines do.
#[derive(Debug)]
struct Pinned {
    pin: String,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: rustls::pki_types::UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let pin = culvert_wire::token::CertificatePin::of(end_entity).to_string();
        assert_eq!(pin, self.pin);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.3 alone".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The portal's metrics, at the listener of their own.
pub(crate) async fn read_metrics(running: &Running) -> String {
    let address = running.portal.metrics_address().unwrap();
    let mut open = TcpStream::connect(address).await.unwrap();
    open.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    let mut answer = String::new();
    open.read_to_string(&mut answer).await.unwrap();
    answer
}
