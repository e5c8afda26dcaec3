//! Connections to a server on loopback that does what a portal does, and what a stranger does.

use crate::scene::{Server, bearer, connected, next_text};
use culvert_base::UnixTime;
use culvert_control::PortalAddresses;
use culvert_link::{
    Closed, ConnectError, MAX_WAITING_MESSAGES, PortalEvent, PortalLink, connect, probe_tls,
};
use culvert_wire::messages::PortalSet;
use culvert_wire::token::CertificatePin;
use futures_util::{SinkExt, StreamExt};
use rustls::ServerConfig;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{Request, Response};

#[tokio::test]
async fn texts_go_both_ways_and_the_token_is_presented() {
    let server = Server::start().await;
    let destination = server.destination();
    let (connected, (mut socket, seen)) = tokio::join!(connect(&destination), server.accept());
    let mut connection = connected.unwrap().connection;
    let bearer = bearer().expose();
    assert_eq!(seen, format!("/api/v1/session/client Bearer {}", *bearer));
    connection.sender().send("hello".to_owned()).await.unwrap();
    assert_eq!(next_text(&mut socket).await, "hello");
    socket.send(Message::text("welcome")).await.unwrap();
    assert_eq!(connection.receive().await.unwrap(), "welcome");
}

#[tokio::test]
async fn another_certificate_than_the_pinned_one_is_refused_and_gets_no_token() {
    let server = Server::start().await;
    let mut destination = server.destination();
    destination.portal.pin = Some(CertificatePin::of(b"another"));
    let (connected, accepted) = tokio::join!(connect(&destination), async {
        let mut stream = server.accept_tls().await?;
        let mut first = [0; 1];
        stream.read_exact(&mut first).await
    });
    let error = connected.unwrap_err();
    assert!(
        matches!(error, ConnectError::WrongCertificate { .. }),
        "{error}"
    );
    assert!(accepted.is_err(), "a byte of the request was sent");
}

#[tokio::test]
async fn without_a_pin_a_self_signed_certificate_is_not_trusted() {
    let server = Server::start().await;
    let mut destination = server.destination();
    destination.portal.pin = None;
    let (connected, _) = tokio::join!(connect(&destination), server.accept_tls());
    let error = connected.unwrap_err();
    let is_refusal = matches!(
        error,
        ConnectError::Tls { .. } | ConnectError::NoAuthorities
    );
    assert!(is_refusal, "{error}");
}

#[tokio::test]
async fn what_speaks_no_tls_is_told_from_a_portal() {
    let server = Server::start().await;
    let destination = server.destination();
    let plain = async {
        let (mut stream, _) = server.listener.accept().await.unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        stream
    };
    let (connected, _stream) = tokio::join!(connect(&destination), plain);
    let error = connected.unwrap_err();
    assert!(matches!(error, ConnectError::Tls { .. }), "{error}");
}

#[tokio::test]
async fn a_refused_token_is_told_from_a_busy_portal() {
    let server = Server::start().await;
    let destination = server.destination();
    let unauthorized = "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n";
    let (connected, ()) = tokio::join!(connect(&destination), server.answer(unauthorized));
    assert!(connected.unwrap_err().is_unauthorized());
    let busy = "HTTP/1.1 503 Busy\r\nretry-after: 3\r\ncontent-length: 0\r\n\r\n";
    let (connected, ()) = tokio::join!(connect(&destination), server.answer(busy));
    let error = connected.unwrap_err();
    assert!(!error.is_unauthorized());
    assert_eq!(error.retry_after_ms(), Some(3_000));
}

/// A reverse proxy that is being set up may answer so for a while.
#[tokio::test]
async fn only_the_portals_own_401_ends_the_attempts() {
    let server = Server::start().await;
    let destination = server.destination();
    let forbidden = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n";
    let (connected, ()) = tokio::join!(connect(&destination), server.answer(forbidden));
    assert!(!connected.unwrap_err().is_unauthorized());
}

#[tokio::test]
async fn the_portals_clock_is_read_from_its_answer() {
    let server = Server::start().await;
    let destination = server.destination();
    let accept = async {
        let stream = server.accept_tls().await.unwrap();
        #[expect(
            clippy::result_large_err,
            reason = "the library chooses the type of the callback's error"
        )]
        let date = |_: &Request, mut response: Response| {
            let date = "Thu, 01 Jan 2026 00:00:10 GMT".parse().unwrap();
            response.headers_mut().insert("date", date);
            Ok(response)
        };
        tokio_tungstenite::accept_hdr_async(stream, date).await
    };
    let (connected, socket) = tokio::join!(connect(&destination), accept);
    assert!(socket.is_ok());
    assert_eq!(
        connected.unwrap().portal_time,
        Some(UnixTime::from_millis(1_767_225_610_000))
    );
}

#[tokio::test]
async fn a_portal_that_is_not_there_is_unreachable() {
    let server = Server::start().await;
    let destination = server.destination();
    drop(server);
    let error = connect(&destination).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn the_end_of_the_connection_is_told_with_the_portals_words() {
    use tokio_tungstenite::tungstenite::protocol::CloseFrame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
    let server = Server::start().await;
    let (connected, mut socket) = connected(&server).await;
    let mut connection = connected.connection;
    let frame = CloseFrame {
        code: CloseCode::Restart,
        reason: "back\nsoon".into(),
    };
    socket.close(Some(frame)).await.unwrap();
    let reason = Some("backsoon".to_owned());
    assert_eq!(connection.receive().await, Err(Closed::ByPortal { reason }));
}

#[tokio::test]
async fn a_message_that_is_too_long_or_binary_ends_the_connection() {
    for message in [
        // A portal that leads puts a line of up to 1,024 bytes before a message to another one.
        Message::text("x".repeat(culvert_wire::MAX_MESSAGE_LEN + 1_025)),
        Message::binary(vec![1, 2, 3]),
    ] {
        let server = Server::start().await;
        let (connected, mut socket) = connected(&server).await;
        let mut connection = connected.connection;
        // The client may close before all of it is out.
        let (received, _sent) = tokio::join!(connection.receive(), socket.send(message));
        assert!(matches!(received, Err(Closed::Protocol(_))), "{received:?}");
    }
}

#[tokio::test]
async fn a_silent_portal_is_given_up_and_one_that_answers_pings_is_not() {
    let server = Server::start().await;
    let (connected, mut socket) = connected(&server).await;
    let mut connection = connected.connection;
    // From here on the clock jumps to the next timer whenever nothing is left to be read.
    tokio::time::pause();
    let began = tokio::time::Instant::now();
    let alive = async {
        // Reading answers the pings.
        while began.elapsed().as_secs() < 60 {
            let _ping = socket.next().await;
        }
    };
    tokio::select! {
        () = alive => {}
        received = connection.receive() => panic!("{received:?}"),
    }
    let quiet_from = tokio::time::Instant::now();
    assert_eq!(connection.receive().await, Err(Closed::Silent));
    assert!(quiet_from.elapsed() <= culvert_link::SILENCE_LIMIT + culvert_link::PING_INTERVAL);
}

#[tokio::test]
async fn closing_sends_what_was_queued() {
    let server = Server::start().await;
    let (connected, mut socket) = connected(&server).await;
    assert!(
        connected
            .connection
            .sender()
            .try_send("last words".to_owned())
    );
    let ((), text) = tokio::join!(connected.connection.close(), next_text(&mut socket));
    assert_eq!(text, "last words");
}

/// A gateway answers each of thousands of grants in one task: it hears the next once its answer is
/// in the queue.
#[tokio::test]
async fn a_role_that_speaks_before_it_listens_is_never_stuck() {
    let server = Server::start().await;
    let (connected, mut socket) = connected(&server).await;
    let mut connection = connected.connection;
    let texts = 3 * MAX_WAITING_MESSAGES;
    for number in 0..texts {
        socket
            .feed(Message::text(number.to_string()))
            .await
            .unwrap();
    }
    socket.flush().await.unwrap();
    let portal = tokio::spawn(async move {
        for number in 0..texts {
            assert_eq!(next_text(&mut socket).await, number.to_string());
        }
        socket
    });
    let sender = connection.sender();
    let spoken = async {
        for number in 0..texts {
            sender.send(number.to_string()).await.unwrap();
        }
    };
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, spoken).await.unwrap();
    let _socket = portal.await.unwrap();
    for number in 0..texts {
        assert_eq!(connection.receive().await.unwrap(), number.to_string());
    }
}

/// A link by the token of a portal, which has told of these addresses.
fn link_to(server: &Server, told: &PortalSet) -> PortalLink {
    let destination = server.destination();
    let addresses = PortalAddresses::new(destination.portal.clone(), told, 1);
    PortalLink::new(destination, addresses)
}

/// The addresses of these servers, each known by the certificates of all of them.
fn told(servers: &[&Server]) -> PortalSet {
    let portals = servers.iter().map(|server| server.destination().portal);
    PortalSet {
        urls: portals.map(|portal| portal.url).collect(),
        pins: servers
            .iter()
            .map(|server| CertificatePin::of(&server.certificate))
            .collect(),
        authorities: false,
    }
}

#[tokio::test]
async fn a_link_goes_on_to_the_next_address_and_knows_each_by_what_the_portal_told() {
    let (token, dead, new) = (
        Server::start().await,
        Server::start().await,
        Server::start().await,
    );
    let mut link = link_to(&token, &told(&[&dead, &new]));
    drop(dead);
    link.connect();
    let failed = link.next().await;
    assert!(matches!(failed, PortalEvent::Failed(_)), "{failed:?}");
    assert!(!link.is_last());
    link.connect();
    let (opened, _socket) = tokio::join!(link.next(), new.accept());
    assert!(matches!(opened, PortalEvent::Opened(_)), "{opened:?}");
    assert_eq!(link.url(), new.destination().portal.url);
    assert_eq!(link.pin(), new.destination().portal.pin);
}

#[tokio::test]
async fn a_certificate_that_nobody_handed_over_counts_at_no_address() {
    let (token, other, stranger) = (
        Server::start().await,
        Server::start().await,
        Server::start().await,
    );
    // The address of one with the certificate of another.
    let told = PortalSet {
        urls: vec![stranger.destination().portal.url],
        ..told(&[&other])
    };
    let mut link = link_to(&token, &told);
    link.connect();
    let (failed, refused) = tokio::join!(link.next(), stranger.accept_tls());
    assert!(
        matches!(
            failed,
            PortalEvent::Failed(ConnectError::WrongCertificate { .. })
        ),
        "{failed:?}"
    );
    assert!(refused.is_err());
    // The token's own address is still there, by the token's own certificate.
    link.connect();
    let (opened, _socket) = tokio::join!(link.next(), token.accept());
    assert!(matches!(opened, PortalEvent::Opened(_)), "{opened:?}");
    assert!(link.is_last());
}

/// The portal would take it for a session, and the next attempt would replace that.
#[tokio::test]
async fn a_link_that_is_left_ends_its_attempt() {
    for is_dropped in [true, false] {
        let server = Server::start().await;
        let mut link = link_to(&server, &PortalSet::default());
        link.connect();
        let (mut stream, _) = server.listener.accept().await.unwrap();
        let _kept = match is_dropped {
            true => {
                drop(link);
                None
            }
            false => {
                link.disconnect().await;
                Some(link)
            }
        };
        let mut greeting = Vec::new();
        // Well before the attempt ends by itself.
        let limit = Duration::from_secs(5);
        let ended = tokio::time::timeout(limit, stream.read_to_end(&mut greeting)).await;
        assert!(ended.is_ok(), "dropped: {is_dropped}");
    }
}

#[tokio::test]
async fn a_link_tells_of_its_connection_and_sends_what_is_queued_when_it_is_left() {
    let server = Server::start().await;
    let mut link = link_to(&server, &PortalSet::default());
    assert!(!link.try_send("to nobody".to_owned()));
    link.connect();
    let (opened, (mut socket, _)) = tokio::join!(link.next(), server.accept());
    assert!(matches!(opened, PortalEvent::Opened(None)), "{opened:?}");
    socket.send(Message::text("welcome")).await.unwrap();
    let said = link.next().await;
    assert!(matches!(&said, PortalEvent::Text(text) if text == "welcome"));

    link.send("first".to_owned()).await;
    assert!(link.try_send("last words".to_owned()));
    let closing = link.disconnect();
    assert!(!link.try_send("too late".to_owned()));
    let heard = async {
        assert_eq!(next_text(&mut socket).await, "first");
        next_text(&mut socket).await
    };
    let ((), text) = tokio::join!(closing, heard);
    assert_eq!(text, "last words");

    link.connect();
    let (_, (socket, _)) = tokio::join!(link.next(), server.accept());
    drop(socket);
    let ended = link.next().await;
    assert!(matches!(ended, PortalEvent::Closed(_)), "{ended:?}");
}

#[tokio::test]
async fn a_tls_listener_is_known_by_its_pin_and_its_protocol() {
    let mut server = Server::start().await;
    let mut config = ServerConfig::clone(server.acceptor.config());
    config.alpn_protocols = vec![b"culvert-relay/1".to_vec()];
    server.acceptor = TlsAcceptor::from(Arc::new(config));
    let address = server.listener.local_addr().unwrap();
    let right = CertificatePin::of(&server.certificate);
    let probe = |pin, alpn: &'static [u8]| {
        let accepted = server.accept_tls();
        async move { tokio::join!(probe_tls(address, pin, alpn), accepted).0 }
    };
    probe(right, b"culvert-relay/1").await.unwrap();
    let wrong = CertificatePin::of(b"another");
    let refused = probe(wrong, b"culvert-relay/1").await.unwrap_err();
    assert!(
        matches!(refused, ConnectError::WrongCertificate { .. }),
        "{refused}"
    );
    let other = probe(right, b"http/1.1").await.unwrap_err();
    assert!(matches!(other, ConnectError::Tls { .. }), "{other}");
    drop(server);
    let nobody = probe_tls(address, right, b"culvert-relay/1").await;
    assert!(matches!(nobody, Err(ConnectError::Unreachable { .. })));
}
