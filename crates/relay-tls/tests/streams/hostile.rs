//! Peers that are no ends, or not such as they should be.

use crate::scene::{LONG, Relay, end, no_pin, open, receive, refused};
use culvert_link::pinned;
use culvert_relay_core::stream::{ALPN, PREFACE_LEN, Preface, StreamRefusal};
use culvert_relay_tls::{Bridge, BridgeError, Limits};
use rustls::pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Limits that a test need not wait for.
fn short() -> Limits {
    Limits {
        handshake: Duration::from_millis(300),
        register: Duration::from_millis(300),
        ..Limits::default()
    }
}

/// A TLS stream to the relay, without a preface.
async fn tls(relay: &Relay) -> TlsStream<TcpStream> {
    let stream = TcpStream::connect(relay.address).await.unwrap();
    let configuration = pinned(relay.certificates.pin(), vec![ALPN.to_vec()]).unwrap();
    let name = ServerName::from(IpAddr::from([127, 0, 0, 1]));
    let connector = TlsConnector::from(Arc::new(configuration));
    connector.connect(name, stream).await.unwrap()
}

/// Reads until the other side ends the stream.
async fn end_of(stream: &mut TlsStream<TcpStream>) {
    let mut rest = Vec::new();
    let _broken = timeout(LONG, stream.read_to_end(&mut rest)).await.unwrap();
}

/// A good stream works.
async fn carries(relay: &Relay) {
    let (bridge, socket, _) = open(relay).await;
    socket.send_to(b"still", bridge.local()).await.unwrap();
    let mut buffer = [0; 100];
    let (len, _) = receive(&relay.gateway, &mut buffer).await;
    assert_eq!(&buffer[..len], b"still");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_certificate_than_the_named_one_is_refused_and_the_error_says_so() {
    let relay = Relay::start(Limits::default()).await;
    let mut settings = relay.settings(&end().await);
    settings.pin = no_pin();
    let error = refused(settings).await;
    assert!(
        matches!(error, BridgeError::WrongCertificate { .. }),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("another certificate than the portal names"),
        "{text}"
    );
    relay.until(|report| report.failed_handshakes == 1).await;
    relay.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_nobodys_is_refused_with_the_reason() {
    let relay = Relay::start(Limits::default()).await;
    let mut settings = relay.settings(&end().await);
    settings.gateway_port ^= 1;
    match refused(settings).await {
        BridgeError::Refused { reason, .. } => assert_eq!(reason, StreamRefusal::NoSuchPort),
        error => panic!("{error}"),
    }
    assert_eq!(relay.report().wrong_ports, 1);
    relay.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_begins_with_something_else_is_closed() {
    let relay = Relay::start(Limits::default()).await;
    let mut plain = TcpStream::connect(relay.address).await.unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nHost: relay\r\n\r\n")
        .await
        .unwrap();
    let mut rest = Vec::new();
    let _broken = timeout(LONG, plain.read_to_end(&mut rest)).await.unwrap();
    let mut stream = tls(&relay).await;
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    end_of(&mut stream).await;
    relay
        .until(|report| report.failed_handshakes == 2 && report.newcomers == 0)
        .await;
    carries(&relay).await;
    relay.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_that_say_nothing_or_never_register_are_closed_in_time() {
    let relay = Relay::start(short()).await;
    let mut silent = TcpStream::connect(relay.address).await.unwrap();
    let mut half = TcpStream::connect(relay.address).await.unwrap();
    // The head of a record of TLS, and nothing after it.
    half.write_all(&[22, 3, 1, 1]).await.unwrap();
    let mut slow = tls(&relay).await;
    slow.write_all(b"CVR").await.unwrap();
    let mut byte = [0; 1];
    for stream in [&mut silent, &mut half] {
        let read = timeout(LONG, stream.read(&mut byte)).await.unwrap();
        assert!(
            read.is_err() || read.is_ok_and(|len| len == 0),
            "it is closed"
        );
    }
    end_of(&mut slow).await;
    let socket = end().await;
    let mut bridge = Bridge::open(relay.settings(&socket)).await.unwrap();
    let error = timeout(LONG, bridge.ended()).await.unwrap();
    assert!(matches!(error, BridgeError::Ended { .. }), "{error}");
    let report = relay.until(|report| report.unregistered == 1).await;
    assert_eq!(report.failed_handshakes, 3);
    relay.until(|report| report.newcomers == 0).await;
    relay.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_that_no_datagram_has_ends_that_stream_alone() {
    let relay = Relay::start(Limits::default()).await;
    let (bridge, socket, _) = open(&relay).await;
    let mut stream = tls(&relay).await;
    let port = relay.gateway.local_addr().unwrap().port();
    let preface = Preface { gateway_port: port }.encode();
    stream.write_all(&preface).await.unwrap();
    let mut answer = [0; PREFACE_LEN];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, preface);
    // A datagram before it is delivered.
    stream.write_all(b"\0\x05first\xff\xff").await.unwrap();
    // The relay may have closed the stream before all of it is written.
    let _closed = stream.write_all(&[7; 70_000]).await;
    let mut buffer = [0; 100];
    let (len, _) = receive(&relay.gateway, &mut buffer).await;
    assert_eq!(&buffer[..len], b"first");
    end_of(&mut stream).await;
    relay.until(|report| report.broken == 1).await;
    socket.send_to(b"other", bridge.local()).await.unwrap();
    let (len, _) = receive(&relay.gateway, &mut buffer).await;
    assert_eq!(&buffer[..len], b"other");
    relay.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_connections_of_one_source_leave_room_for_others() {
    let relay = Relay::start(Limits::default()).await;
    let (bridge, socket, _) = open(&relay).await;
    let mut held = Vec::new();
    for _ in 0..1_000 {
        let from = TcpSocket::new_v4().unwrap();
        from.bind(SocketAddr::from(([127, 0, 0, 9], 0))).unwrap();
        // The relay may have closed one before it is open here.
        held.extend(from.connect(relay.address).await);
    }
    let report = relay.until(|report| report.connections >= 1_001).await;
    assert!(report.newcomers <= 64, "{report:?}");
    relay.until(|report| report.too_many >= 1_000 - 64).await;
    // The one that was there, and a new one of another source.
    socket.send_to(b"there", bridge.local()).await.unwrap();
    let mut buffer = [0; 100];
    let (len, _) = receive(&relay.gateway, &mut buffer).await;
    assert_eq!(&buffer[..len], b"there");
    carries(&relay).await;
    drop(held);
    relay.until(|report| report.newcomers == 0).await;
    relay.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_no_relay_is_told_from_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let relay = Relay::start(Limits::default()).await;
    let mut settings = relay.settings(&end().await);
    settings.addresses = vec![listener.local_addr().unwrap()];
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n").await
    });
    let error = refused(settings.clone()).await;
    assert!(
        error.to_string().contains("does not speak TLS 1.3"),
        "{error}"
    );
    settings.addresses.clear();
    assert!(matches!(refused(settings).await, BridgeError::NoAddress));
    relay.stop();
}
