//! A server that does what a portal does, for tests of connections to one.

use culvert_ids::TokenId;
use culvert_link::{Connected, Destination, connect};
use culvert_wire::token::{Bearer, CertificatePin, Portal, Secret, TokenKind};
use futures_util::StreamExt;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

pub(crate) struct Server {
    pub(crate) listener: TcpListener,
    pub(crate) acceptor: TlsAcceptor,
    pub(crate) certificate: CertificateDer<'static>,
}

impl Server {
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

    pub(crate) fn destination(&self) -> Destination {
        let address = self.listener.local_addr().unwrap();
        Destination {
            portal: Portal {
                url: format!("https://{address}"),
                pin: Some(CertificatePin::of(&self.certificate)),
            },
            path: culvert_wire::CLIENT_SESSION_PATH,
            credential: (&bearer()).into(),
            mark: None,
            look_up: culvert_link::system_look_up,
            proxy: None,
            addresses: None,
        }
    }

    pub(crate) async fn accept_tls(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let (stream, _) = self.listener.accept().await?;
        self.acceptor.accept(stream).await
    }

    pub(crate) async fn accept(&self) -> (WebSocketStream<TlsStream<TcpStream>>, String) {
        let stream = self.accept_tls().await.unwrap();
        let mut seen = String::new();
        #[expect(
            clippy::result_large_err,
            reason = "the library chooses the type of the callback's error"
        )]
        let note = |request: &Request, response: Response| {
            let authorization = request.headers()["authorization"].to_str().unwrap();
            seen = format!("{} {authorization}", request.uri().path());
            Ok(response)
        };
        let socket = tokio_tungstenite::accept_hdr_async(stream, note).await;
        (socket.unwrap(), seen)
    }

    /// Answers the request of one connection by `response`.
    pub(crate) async fn answer(&self, response: &str) {
        let mut stream = self.accept_tls().await.unwrap();
        let mut request = [0; 4096];
        let _read = stream.read(&mut request).await.unwrap();
        stream.write_all(response.as_bytes()).await.unwrap();
        let _closed = stream.shutdown().await;
    }
}

pub(crate) async fn connected(
    server: &Server,
) -> (Connected, WebSocketStream<TlsStream<TcpStream>>) {
    let destination = server.destination();
    let (connected, (socket, _)) = tokio::join!(connect(&destination), server.accept());
    (connected.unwrap(), socket)
}

pub(crate) fn bearer() -> Bearer {
    Bearer {
        kind: TokenKind::Client,
        id: TokenId::from_bytes([7; 16]),
        secret: Secret::new([9; 32]),
    }
}

pub(crate) async fn next_text(socket: &mut WebSocketStream<TlsStream<TcpStream>>) -> String {
    loop {
        if let Message::Text(text) = socket.next().await.unwrap().unwrap() {
            return text.as_str().to_owned();
        }
    }
}
