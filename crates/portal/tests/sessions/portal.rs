//! A portal's sessions behind a plain listener, and machines that speak to it.

use axum::body::Body;
use axum::{Extension, Router};
use culvert_control_server::{NoCountries, Reach, Sessions};
use culvert_ids::{
    AccountId, ActorId, GroupId, MembershipId, PolicyId, RANDOM_LEN, ResourceId, SiteId, TokenId,
};
use culvert_portal_base::PublicAddress;
use culvert_store::{
    Account, AccountSettings, Actor, ActorKind, Author, EntityId, Group, Membership, Mutation,
    Policy, Resource, Site, Stamp, Store, Token, TokenScope, TokenUses,
};
use culvert_store_sql::{SqlStore, SqliteOptions};
use culvert_wire::messages::{
    ClientFeature, FromClient, FromGateway, Sequenced, ToClient, ToGateway, decode_sequenced,
};
use culvert_wire::model::{Applications, Filter, Target, TargetKind};
use culvert_wire::token::{Bearer, CertificatePin, Secret, TokenKind};
use culvert_wire::{
    CLIENT_SESSION_PATH, Cipher, Decoded, GATEWAY_SESSION_PATH, Message as Kinds, PublicKey,
    Timestamp, encode,
};
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::http::{Request, Response, StatusCode};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};
use tower::ServiceExt;

/// The longest wait of a test for something that must come. The test fails after that, and its
/// result never depends on the length.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// The capacity of a pipe: more than a session has to say at once.
const PIPE_BYTES: usize = 1 << 16;

pub(crate) const ACCOUNT: AccountId = AccountId::from_bytes([0xac; 16]);
pub(crate) const SITE: SiteId = SiteId::from_bytes([1; 16]);
pub(crate) const ACTOR: ActorId = ActorId::from_bytes([2; 16]);
pub(crate) const GROUP: GroupId = GroupId::from_bytes([3; 16]);
pub(crate) const RESOURCE: ResourceId = ResourceId::from_bytes([4; 16]);
pub(crate) const POLICY: PolicyId = PolicyId::from_bytes([5; 16]);
pub(crate) const MEMBERSHIP: MembershipId = MembershipId::from_bytes([6; 16]);
pub(crate) const CLIENT_TOKEN: TokenId = TokenId::from_bytes([7; 16]);
pub(crate) const GATEWAY_TOKEN: TokenId = TokenId::from_bytes([8; 16]);
pub(crate) const RELAY_TOKEN: TokenId = TokenId::from_bytes([10; 16]);

pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Timestamp::from_unix_ms(u64::try_from(since.as_millis()).unwrap())
}

pub(crate) fn bearer(kind: TokenKind, id: TokenId) -> Bearer {
    let secret = Secret::new([9; 32]);
    Bearer { kind, id, secret }
}

pub(crate) fn client_bearer() -> Bearer {
    bearer(TokenKind::Client, CLIENT_TOKEN)
}

pub(crate) fn gateway_bearer() -> Bearer {
    bearer(TokenKind::Gateway, GATEWAY_TOKEN)
}

/// A portal with an actor in a group that may use a resource of a site, and a token for each side.
pub(crate) struct Portal {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) sessions: Sessions,
    pub(crate) address: SocketAddr,
    pub(crate) directory: Arc<TempDir>,
    router: Router,
}

pub(crate) async fn open(directory: &TempDir) -> Arc<dyn Store> {
    let options = SqliteOptions::file(directory.path().join("portal.db"));
    Arc::new(SqlStore::open(&options).await.unwrap())
}

impl Portal {
    pub(crate) async fn start() -> Self {
        let directory = Arc::new(tempfile::tempdir().unwrap());
        let store = open(&directory).await;
        let stamp = Stamp::default();
        let account = Account {
            id: ACCOUNT,
            name: "corp".to_owned(),
            settings: AccountSettings::default(),
            stamp,
        };
        store
            .create_account(account, Author::PORTAL, now())
            .await
            .unwrap();
        let portal = Self::with(store, directory).await;
        portal.write(configuration()).await;
        portal
    }

    /// Starts anew on the same database.
    pub(crate) async fn restart(self) -> Self {
        self.sessions.stop().await;
        self.store.close().await;
        let store = open(&self.directory).await;
        Self::with(store, self.directory).await
    }

    async fn with(store: Arc<dyn Store>, directory: Arc<TempDir>) -> Self {
        let countries = Arc::new(NoCountries);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let reach = Reach {
            address,
            pin: Box::new(|| CertificatePin::of(b"of no portal")),
        };
        let sessions = Sessions::start(Arc::clone(&store), ACCOUNT, countries, reach)
            .await
            .unwrap();
        let from = PublicAddress(IpAddr::from([203, 0, 113, 5]));
        let router = sessions.router().layer(Extension(from));
        let served = router.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(router.clone(), stream));
            }
        });
        Self {
            store,
            sessions,
            address,
            directory,
            router: served,
        }
    }

    pub(crate) async fn write(&self, mutations: Vec<Mutation>) {
        let author = Author::PORTAL;
        self.store
            .write(ACCOUNT, author, now(), mutations)
            .await
            .unwrap();
    }

    pub(crate) async fn delete(&self, id: impl Into<EntityId>) {
        self.write(vec![Mutation::Delete {
            id: id.into(),
            expected_version: None,
            cascade: true,
        }])
        .await;
    }

    pub(crate) async fn client(&self, machine: &str) -> Machine<ToClient> {
        let mut line = self.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
        line.say(&hello_client(machine)).await;
        line
    }

    /// A client that says this operating system, as JSON.
    pub(crate) async fn client_running(
        &self,
        machine: &str,
        system: Option<&str>,
    ) -> Machine<ToClient> {
        let mut line = self.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
        let mut hello = hello_client(machine);
        if let FromClient::Hello { os, .. } = &mut hello {
            *os = system.map(|system| serde_json::from_str(system).unwrap());
        }
        line.say(&hello).await;
        line
    }

    /// A client without sockets, of which a process may have a thousand only.
    pub(crate) async fn client_by_pipe(
        &self,
        machine: &str,
    ) -> Result<Machine<ToClient, DuplexStream>, Response<Option<Vec<u8>>>> {
        let (near, far) = duplex(PIPE_BYTES);
        tokio::spawn(serve(self.router.clone(), far));
        let url = format!("ws://{}{CLIENT_SESSION_PATH}", self.address);
        let bearer = client_bearer().expose();
        let mut line = Machine::try_begin(request(&url, Some(&bearer)), near).await?;
        line.say(&hello_client(machine)).await;
        Ok(line)
    }

    pub(crate) async fn gateway(&self, machine: &str) -> Machine<ToGateway> {
        let mut line = self.dial(GATEWAY_SESSION_PATH, &gateway_bearer()).await;
        line.say(&hello_gateway(machine)).await;
        line
    }

    pub(crate) async fn dial<M: Kinds>(&self, path: &str, bearer: &Bearer) -> Machine<M> {
        self.try_dial(path, Some(&bearer.expose())).await.unwrap()
    }

    /// Dials; or the status and headers of the refusal.
    pub(crate) async fn try_dial<M: Kinds>(
        &self,
        path: &str,
        token: Option<&str>,
    ) -> Result<Machine<M>, Response<Option<Vec<u8>>>> {
        let request = request(&format!("ws://{}{path}", self.address), token);
        let stream = TcpStream::connect(self.address).await.unwrap();
        Machine::try_begin(request, stream).await
    }

    pub(crate) async fn refusal(&self, path: &str, token: Option<&str>) -> StatusCode {
        let refused = self.try_dial::<ToClient>(path, token).await;
        refused.map(|_| ()).unwrap_err().status()
    }
}

async fn serve(router: Router, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
    let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
        router.clone().oneshot(request.map(Body::new))
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    drop(connection.await);
}

pub(crate) fn request(url: &str, token: Option<&str>) -> Request<()> {
    let mut request = url.into_client_request().unwrap();
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    request
}

/// Everything that [`Portal::start`] configures.
pub(crate) fn configuration() -> Vec<Mutation> {
    let stamp = Stamp::default();
    let create = Mutation::Create;
    let token = |id, name: &str, scope| Mutation::CreateToken {
        token: Token {
            id,
            scope,
            name: name.to_owned(),
            uses: TokenUses::Many,
            expires: None,
            revoked: None,
            used: None,
            last_used: None,
            proven: None,
            stamp,
        },
        digest: Secret::new([9; 32]).digest(),
    };
    vec![
        create(
            Actor {
                id: ACTOR,
                kind: ActorKind::ServiceAccount,
                name: "build".to_owned(),
                disabled: false,
                sign_in: None,
                stamp,
            }
            .into(),
        ),
        create(
            Group {
                id: GROUP,
                name: "builders".to_owned(),
                stamp,
            }
            .into(),
        ),
        create(
            Membership {
                id: MEMBERSHIP,
                group: GROUP,
                actor: ACTOR,
                stamp,
            }
            .into(),
        ),
        create(
            Site {
                id: SITE,
                name: "cellar".to_owned(),
                relays: None,
                stamp,
            }
            .into(),
        ),
        create(a_resource(RESOURCE, "10.0.1.0/24").into()),
        create(
            Policy {
                id: POLICY,
                name: "builders may".to_owned(),
                group: GROUP,
                resource: RESOURCE,
                disabled: false,
                conditions: Vec::new(),
                stamp,
            }
            .into(),
        ),
        token(CLIENT_TOKEN, "clients", TokenScope::Client { actor: ACTOR }),
        token(
            GATEWAY_TOKEN,
            "gateways",
            TokenScope::Gateway { site: SITE },
        ),
        token(RELAY_TOKEN, "relays", TokenScope::Relay),
    ]
}

pub(crate) fn a_resource(id: ResourceId, address: &str) -> Resource {
    Resource {
        id,
        site: SITE,
        name: format!("network {address}"),
        target: Target {
            kind: TargetKind::Cidr,
            address: address.to_owned(),
        },
        inbound: Vec::new(),
        filters: vec![Filter::Any],
        applications: Applications::Any,
        within: None,
        stamp: Stamp::default(),
    }
}

/// A key of the machine's own.
fn key_of(machine: &str, side: u8) -> PublicKey {
    let mut key = [side; 32];
    for (place, byte) in key.iter_mut().zip(machine.bytes().take(31)) {
        *place = byte;
    }
    PublicKey::from_bytes(key)
}

pub(crate) fn hello_client(machine: &str) -> FromClient {
    FromClient::Hello {
        protocols: vec![1],
        version: "0.1.0".to_owned(),
        machine: machine.to_owned(),
        name: machine.to_owned(),
        public_key: key_of(machine, 1),
        ciphers: vec![Cipher::Aes256Gcm],
        features: vec![ClientFeature::Applications],
        os: None,
    }
}

pub(crate) fn hello_gateway(machine: &str) -> FromGateway {
    FromGateway::Hello {
        protocols: vec![1],
        version: "0.1.0".to_owned(),
        machine: machine.to_owned(),
        name: machine.to_owned(),
        public_key: key_of(machine, 2),
        ciphers: vec![Cipher::Aes256Gcm],
        candidates: vec!["192.0.2.1:51820".parse().unwrap()],
        draining: false,
        grants: Vec::new(),
        more_grants: false,
        features: Vec::new(),
    }
}

/// A machine's end of its session.
pub(crate) struct Machine<M, S = TcpStream> {
    pub(crate) socket: WebSocketStream<S>,
    place: Option<(u64, u64)>,
    kinds: std::marker::PhantomData<M>,
}

impl<M: Kinds, S: AsyncRead + AsyncWrite + Unpin> Machine<M, S> {
    /// Begins a session on a connection.
    pub(crate) async fn begin(request: Request<()>, stream: S) -> Result<Self, Error> {
        let (socket, _) = client_async(request, stream).await?;
        Ok(Self {
            socket,
            place: None,
            kinds: std::marker::PhantomData,
        })
    }

    /// Begins; or the status and headers of the refusal.
    async fn try_begin(request: Request<()>, stream: S) -> Result<Self, Response<Option<Vec<u8>>>> {
        match Self::begin(request, stream).await {
            Ok(machine) => Ok(machine),
            Err(Error::Http(response)) => Err(*response),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn say(&mut self, message: &impl Kinds) {
        self.send(Message::text(encode(message))).await;
    }

    pub(crate) async fn send(&mut self, message: Message) {
        self.socket.send(message).await.unwrap();
    }

    /// The next message; none once the portal has closed.
    pub(crate) async fn try_hear(&mut self) -> Option<M> {
        loop {
            let frame = timeout(DEADLINE, self.socket.next())
                .await
                .expect("a message");
            match frame {
                Some(Ok(Message::Text(text))) => return Some(self.take(&text)),
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) | Some(Err(_)) | None => return None,
                Some(Ok(other)) => panic!("{other:?}"),
            }
        }
    }

    pub(crate) async fn hear(&mut self) -> M {
        self.try_hear().await.expect("the session goes on")
    }

    fn take(&mut self, text: &str) -> M {
        let Sequenced {
            epoch,
            seq,
            message,
        } = decode_sequenced::<M>(text).unwrap();
        let (expected_epoch, last) = self.place.unwrap_or((epoch, 0));
        assert_eq!((epoch, seq), (expected_epoch, last + 1));
        self.place = Some((epoch, seq));
        match message {
            Decoded::Known(message) => message,
            Decoded::Unknown { kind } => panic!("{kind}"),
        }
    }

    /// True if nothing but pings came before the portal's answer to the last message.
    pub(crate) async fn next_is_unsupported(&mut self) -> bool {
        self.send(Message::text(r#"{"type":"are_you_there"}"#))
            .await;
        let heard = self.hear().await;
        encode(&heard).contains("unsupported")
    }
}

/// Ids for what a test adds.
pub(crate) fn random() -> [u8; RANDOM_LEN] {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    [NEXT.fetch_add(1, Ordering::Relaxed); RANDOM_LEN]
}
