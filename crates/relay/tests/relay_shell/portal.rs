//! A portal on loopback: TLS, WebSocket, and messages in their order.

use culvert_base::PresharedKey;
use culvert_ids::{RelayId, TokenId};
use culvert_wire::messages::{FromRelay, PortalSet, Sequenced, ToRelay};
use culvert_wire::token::{Bearer, CertificatePin, Portal, Secret, Token, TokenKind};
use culvert_wire::{Decoded, PROTOCOL, decode, encode};
use futures_util::{SinkExt, StreamExt};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// The time limit for anything that is waited for.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) const RELAY: RelayId = RelayId::from_bytes([1; 16]);

/// The key of the relay's tokens.
pub(crate) const PORTAL_KEY: [u8; 32] = [42; 32];

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
                kind: TokenKind::Relay,
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

    /// A session up to `hello`, which is returned.
    pub(crate) async fn accept(&self, epoch: u64) -> (Session, FromRelay) {
        let accept = async {
            let (stream, _) = self.listener.accept().await.unwrap();
            let stream = self.acceptor.accept(stream).await.unwrap();
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
}

impl Session {
    pub(crate) async fn say(&mut self, message: ToRelay) {
        self.seq += 1;
        let text = encode(&Sequenced {
            epoch: self.epoch,
            seq: self.seq,
            message,
        });
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// The next message of the relay.
    pub(crate) async fn hear(&mut self) -> FromRelay {
        let next = async {
            loop {
                if let Message::Text(text) = self.socket.next().await.unwrap().unwrap() {
                    break decode::<FromRelay>(text.as_str()).unwrap();
                }
            }
        };
        match tokio::time::timeout(DEADLINE, next).await.unwrap() {
            Decoded::Known(message) => message,
            Decoded::Unknown { kind } => panic!("unknown kind {kind}"),
        }
    }

    pub(crate) async fn welcome(&mut self) {
        self.say(ToRelay::Welcome {
            protocol: PROTOCOL,
            relay: RELAY,
            key: PresharedKey::from_bytes(PORTAL_KEY),
            draining: false,
            portals: PortalSet::default(),
        })
        .await;
    }
}
