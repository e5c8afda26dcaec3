//! A portal on loopback: TLS, WebSocket, and messages in their order.

use culvert_ids::{ClientId, ResourceId, SiteId, TokenId};
use culvert_wire::messages::{FromClient, Interface, Ranges, Sequenced, ToClient};
use culvert_wire::model::{Filter, Resource, Target, TargetKind, ToldApplications, ToldTarget};
use culvert_wire::token::{Bearer, CertificatePin, Portal, Secret, Token, TokenKind};
use culvert_wire::{Decoded, decode, encode};
use futures_util::{SinkExt, StreamExt};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// The time limit for anything that is waited for.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) const CLIENT: Interface = Interface {
    ipv4: Ipv4Addr::new(100, 64, 0, 9),
    ipv6: std::net::Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0, 0, 0, 0, 9),
};

pub(crate) struct FakePortal {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    certificate: CertificateDer<'static>,
}

/// One session, from the portal's side.
pub(crate) struct Session {
    socket: WebSocketStream<TlsStream<TcpStream>>,
    epoch: u64,
    seq: u64,
}

impl FakePortal {
    pub(crate) async fn start() -> Self {
        let key = rcgen::generate_simple_self_signed(["portal.example".to_owned()]).unwrap();
        let certificate = key.cert.der().clone();
        let private = PrivateKeyDer::try_from(key.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], private)
            .unwrap();
        Self {
            listener: TcpListener::bind("127.0.0.1:0").await.unwrap(),
            acceptor: TlsAcceptor::from(Arc::new(config)),
            certificate,
        }
    }

    /// A token for this portal.
    pub(crate) fn token(&self) -> String {
        let token = Token {
            bearer: Bearer {
                kind: TokenKind::Client,
                id: TokenId::from_bytes([7; 16]),
                secret: Secret::new([9; 32]),
            },
            portal: Some(Portal {
                url: format!("https://{}", self.listener.local_addr().unwrap()),
                pin: Some(CertificatePin::of(&self.certificate)),
            }),
        };
        token.expose().to_string()
    }

    async fn accept_tls(&self) -> TlsStream<TcpStream> {
        self.try_accept_tls().await.unwrap()
    }

    /// A connection, unless the client breaks the handshake off.
    pub(crate) async fn try_accept_tls(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let (stream, _) = self.listener.accept().await.unwrap();
        self.acceptor.accept(stream).await
    }

    /// A session up to `hello`, which is returned.
    pub(crate) async fn accept(&self, epoch: u64) -> (Session, FromClient) {
        let accept = async {
            let stream = self.accept_tls().await;
            tokio_tungstenite::accept_async(stream).await.unwrap()
        };
        let socket = tokio::time::timeout(DEADLINE, accept).await.unwrap();
        let mut session = Session {
            socket,
            epoch,
            seq: 0,
        };
        let hello = session.hear().await;
        (session, hello)
    }

    /// Answers one attempt by `response`.
    pub(crate) async fn answer(&self, response: &str) {
        let mut stream = self.accept_tls().await;
        let mut request = [0; 4096];
        let _read = stream.read(&mut request).await.unwrap();
        stream.write_all(response.as_bytes()).await.unwrap();
        let _closed = stream.shutdown().await;
    }
}

/// A connection of HTTP/1.1, from the portal's side.
pub(crate) struct HttpSession(TlsStream<TcpStream>);

impl FakePortal {
    /// The URL, and the SHA-256 of the certificate.
    pub(crate) fn place(&self) -> (String, String) {
        let url = format!("https://{}", self.listener.local_addr().unwrap());
        (url, CertificatePin::of(&self.certificate).to_string())
    }

    pub(crate) async fn accept_http(&self) -> HttpSession {
        let accepted = tokio::time::timeout(DEADLINE, self.accept_tls());
        HttpSession(accepted.await.unwrap())
    }
}

impl HttpSession {
    /// The path and body of the next request; nothing if the client has closed the connection.
    pub(crate) async fn hear(&mut self) -> Option<(String, serde_json::Value)> {
        let mut request = Vec::new();
        loop {
            let mut part = [0; 4096];
            let read = tokio::time::timeout(DEADLINE, self.0.read(&mut part));
            match read.await.unwrap() {
                Ok(0) | Err(_) => return None,
                Ok(len) => request.extend_from_slice(&part[..len]),
            }
            let text = String::from_utf8_lossy(&request);
            if let Some((head, body)) = text.split_once("\r\n\r\n")
                && let Ok(body) = serde_json::from_str(body)
            {
                let path = head.split(' ').nth(1).unwrap().to_owned();
                return Some((path, body));
            }
        }
    }

    pub(crate) async fn say(&mut self, status: &str, body: &str) {
        let len = body.len();
        let text = format!("HTTP/1.1 {status}\r\ncontent-length: {len}\r\n\r\n{body}");
        // The client may have had enough of a long answer.
        let _sent = self.0.write_all(text.as_bytes()).await;
    }
}

impl Session {
    pub(crate) async fn say(&mut self, message: ToClient) {
        self.seq += 1;
        let text = encode(&Sequenced {
            epoch: self.epoch,
            seq: self.seq,
            message,
        });
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The next message of the client.
    pub(crate) async fn hear(&mut self) -> FromClient {
        let next = async {
            loop {
                if let Message::Text(text) = self.socket.next().await.unwrap().unwrap() {
                    break decode::<FromClient>(text.as_str()).unwrap();
                }
            }
        };
        match tokio::time::timeout(DEADLINE, next).await.unwrap() {
            Decoded::Known(message) => message,
            Decoded::Unknown { kind } => panic!("unknown kind {kind}"),
        }
    }

    pub(crate) async fn welcome(
        &mut self,
        resources: Vec<Resource>,
        grants: Vec<culvert_ids::GrantId>,
    ) {
        self.say(ToClient::Welcome {
            relays: Vec::new(),
            protocol: 1,
            client: ClientId::from_bytes([9; 16]),
            interface: CLIENT,
            ranges: Ranges {
                machines_ipv4: "100.64.0.0/11".to_owned(),
                machines_ipv6: "fd00:2021:1111::/112".to_owned(),
                names_ipv4: "100.96.0.0/11".to_owned(),
                names_ipv6: "fd00:2021:1111:8000::/107".to_owned(),
            },
            resources,
            later_resources: 0,
            grants,
            grant_lifetime_s: 3600,
            dns: culvert_wire::model::Dns::default(),
            portals: culvert_wire::messages::PortalSet::default(),
            releases_ended_access: false,
        })
        .await;
    }
}

pub(crate) fn resource(number: u8, address: &str) -> Resource {
    let kind = match address {
        _ if address.contains('/') => TargetKind::Cidr,
        _ if address.parse::<std::net::IpAddr>().is_ok() => TargetKind::Address,
        _ => TargetKind::Dns,
    };
    Resource {
        id: ResourceId::from_bytes([number; 16]),
        name: format!("resource {number}"),
        site: SiteId::from_bytes([1; 16]),
        target: ToldTarget::Known(Target {
            kind,
            address: address.to_owned(),
        }),
        inbound: Vec::new().into(),
        filters: vec![Filter::Any].into(),
        applications: ToldApplications::default(),
    }
}

/// Candidates of a message, as socket addresses.
pub(crate) type Candidates = Vec<SocketAddr>;
