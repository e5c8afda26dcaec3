//! Connections through an HTTP proxy, and through what is none.

use crate::scene::{Server, bearer, next_text};
use culvert_control::PortalAddresses;
use culvert_ids::TokenId;
use culvert_link::{ConnectError, Destination, HttpProxy, PortalEvent, PortalLink, connect};
use culvert_wire::messages::PortalSet;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// Long enough for a machine that does something else meanwhile.
const LONG: Duration = Duration::from_secs(60);

/// The portal by a name that nobody but the proxy looks up.
const NAME: &str = "portal.invalid:443";

/// A listener in the place of a proxy.
struct Proxy {
    listener: TcpListener,
    url: HttpProxy,
}

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let url = url.parse().unwrap();
        Self { listener, url }
    }

    /// A connection, and the head of its request.
    async fn accept(&self) -> (TcpStream, String) {
        let (mut stream, _) = self.listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        (stream, String::from_utf8(head).unwrap())
    }

    /// The way to the portal through this proxy.
    fn destination(&self, server: &Server) -> Destination {
        let mut destination = server.destination();
        destination.portal.url = format!("https://{NAME}");
        destination.proxy = Some(self.url.clone());
        destination
    }

    /// The error of a connection to which the proxy answers so.
    async fn refusing(&self, destination: Destination, answer: &[u8]) -> ConnectError {
        let (connected, ()) = tokio::join!(connect(&destination), async {
            let (mut stream, _) = self.accept().await;
            stream.write_all(answer).await.unwrap();
            // Closed before it is read, the answer could be lost.
            let mut rest = Vec::new();
            let _closed = stream.read_to_end(&mut rest).await;
        });
        connected.unwrap_err()
    }
}

async fn to(server: &Server) -> TcpStream {
    let address = server.listener.local_addr().unwrap();
    TcpStream::connect(address).await.unwrap()
}

#[tokio::test]
async fn the_proxy_sees_host_port_and_credentials_and_nothing_else() {
    let (server, proxy) = (Server::start().await, Proxy::start().await);
    let mut destination = proxy.destination(&server);
    let with_password = proxy.url.clone();
    let with_password = with_password.with_credentials("joe:open sesame".parse().unwrap());
    destination.proxy = Some(with_password);
    let (tell, told) = watch::channel(Vec::new());
    destination.addresses = Some(tell);
    let shown = format!("{destination:?}");
    assert!(
        !shown.contains("sesame") && !shown.contains("am9l"),
        "{shown}"
    );
    let carry = async {
        let (mut client, head) = proxy.accept().await;
        let mut portal = to(&server).await;
        client
            .write_all(b"HTTP/1.1 200 OK\r\nVia: x\r\n\r\n")
            .await
            .unwrap();
        let mut first = vec![0; 4_096];
        let len = client.read(&mut first).await.unwrap();
        portal.write_all(&first[..len]).await.unwrap();
        tokio::spawn(async move { copy_bidirectional(&mut client, &mut portal).await });
        (head, first)
    };
    let (connected, (head, first), (mut socket, seen)) =
        tokio::join!(connect(&destination), carry, server.accept());
    let agent = concat!("User-Agent: culvert/", env!("CARGO_PKG_VERSION"));
    let expected = format!(
        "CONNECT {NAME} HTTP/1.1\r\nHost: {NAME}\r\n{agent}\r\nProxy-Authorization: Basic am9lOm9wZW4gc2VzYW1l\r\n\r\n"
    );
    assert_eq!(head, expected);
    // A handshake of TLS, without the token and the password.
    assert_eq!(first[0], 22);
    let bearer = bearer().expose();
    assert_eq!(seen, format!("/api/v1/session/client Bearer {}", *bearer));
    let connection = connected.unwrap().connection;
    connection.sender().send("hello".to_owned()).await.unwrap();
    assert_eq!(next_text(&mut socket).await, "hello");
    let address = proxy.listener.local_addr().unwrap();
    assert_eq!(
        *told.borrow(),
        [address],
        "the proxy's stays out of the tunnel"
    );
}

#[tokio::test]
async fn a_proxy_that_refuses_is_told_with_the_fix_and_without_the_password() {
    let (server, proxy) = (Server::start().await, Proxy::start().await);
    let plain = proxy.destination(&server);
    let mut with_password = plain.clone();
    let url = proxy.url.clone();
    with_password.proxy = Some(url.with_credentials("joe:sesame".parse().unwrap()));
    for (destination, answer, expected) in [
        (
            &plain,
            "407 Proxy Authentication Required",
            "name it by --proxy-credentials-file",
        ),
        (
            &with_password,
            "407 Proxy Authentication Required",
            "correct the file of --proxy-credentials-file",
        ),
        (&plain, "403 Forbidden", "its rules forbid it"),
        (&plain, "405 Method Not Allowed", "it does not know CONNECT"),
        (
            &with_password,
            "502 Bad Gateway",
            "it does not reach that host",
        ),
        (&plain, "302 Found", "HTTP 302"),
    ] {
        let answer = format!("HTTP/1.1 {answer}\r\nContent-Length: 3\r\n\r\nno\n");
        let error = proxy.refusing(destination.clone(), answer.as_bytes()).await;
        let text = error.to_string();
        assert!(text.contains(expected), "{text}");
        assert!(!text.contains("sesame") && !text.contains('\n'), "{text}");
        assert!(!error.is_unauthorized(), "it is tried again: {text}");
        let waits = matches!(error, ConnectError::ProxyCredentials { .. });
        assert_eq!(error.retry_after_ms().is_some(), waits, "{text}");
    }
}

#[tokio::test]
async fn something_that_is_no_proxy_is_told_from_one_at_once() {
    let (server, proxy) = (Server::start().await, Proxy::start().await);
    for (answer, expected) in [
        (&b"SSH-2.0-OpenSSH_9.6\r\n"[..], "is not HTTP/1"),
        (b"<html>\r\n\r\n", "is not HTTP/1"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "more than an answer"),
        (b"HTTP/1.1 2xx OK\r\n\r\n", "is not HTTP/1"),
    ] {
        let attempt = proxy.refusing(proxy.destination(&server), answer);
        let error = timeout(LONG, attempt).await.unwrap();
        assert!(error.to_string().contains(expected), "{error}");
    }
    // An interim answer is none yet.
    let interim = b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 504 Gateway Timeout\r\n\r\n";
    let error = proxy.refusing(proxy.destination(&server), interim).await;
    assert!(error.to_string().contains("HTTP 504"), "{error}");
}

#[tokio::test]
async fn headers_without_an_end_are_read_up_to_a_bound() {
    let (server, proxy) = (Server::start().await, Proxy::start().await);
    let destination = proxy.destination(&server);
    let endless = async {
        let (mut stream, _) = proxy.accept().await;
        stream.write_all(b"HTTP/1.1 200 OK\r\n").await.unwrap();
        let mut sent = 0_usize;
        // Until nobody reads any more.
        while stream.write_all(&[b'x'; 1_000]).await.is_ok() {
            sent += 1_000;
        }
        sent
    };
    let both = async { tokio::join!(connect(&destination), endless) };
    let (connected, _sent) = timeout(LONG, both).await.unwrap();
    let error = connected.unwrap_err();
    assert!(
        error.to_string().contains("its answer is too long"),
        "{error}"
    );
}

#[tokio::test]
async fn a_proxy_that_is_not_there_or_breaks_off_is_named() {
    let (server, proxy) = (Server::start().await, Proxy::start().await);
    let destination = proxy.destination(&server);
    let (connected, ()) = tokio::join!(connect(&destination), async {
        drop(proxy.accept().await);
    });
    let text = connected.unwrap_err().to_string();
    assert!(
        text.contains("it closed the connection") || text.contains("does not answer"),
        "{text}"
    );
    drop(proxy);
    let error = connect(&destination).await.unwrap_err();
    assert!(matches!(error, ConnectError::ProxyBroke { .. }), "{error}");
    assert!(
        error.to_string().starts_with("the proxy http://127.0.0.1:"),
        "{error}"
    );
}

/// Many proxies end each connection after a minute.
#[tokio::test]
async fn a_session_that_the_proxy_ends_begins_again_through_it() {
    let (server, proxy) = (Server::start().await, Proxy::start().await);
    let destination = proxy.destination(&server);
    let token = TokenId::from_bytes([7; 16]);
    let set = PortalSet::default().stored(token);
    let told = PortalSet::from_stored(set.as_bytes(), token);
    let addresses = PortalAddresses::new(destination.portal.clone(), &told, 1);
    let mut link = PortalLink::new(destination, addresses);
    for _ in 0..3 {
        link.connect();
        let carry = async {
            let (mut client, _) = proxy.accept().await;
            let mut portal = to(&server).await;
            client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
            let carried = async move { copy_bidirectional(&mut client, &mut portal).await };
            tokio::spawn(carried).abort_handle()
        };
        let (event, carrying, _socket) = tokio::join!(link.next(), carry, server.accept());
        assert!(matches!(event, PortalEvent::Opened(_)), "{event:?}");
        carrying.abort();
        let event = timeout(LONG, link.next()).await.unwrap();
        assert!(matches!(event, PortalEvent::Closed(_)), "{event:?}");
    }
}
