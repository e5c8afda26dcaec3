//! Accepts connections, within bounds, until it is told to stop.

use super::certificate::{Certificate, provider};
use super::hello::{HelloFault, HelloNotices, PREFIX_LEN, say_https};
use super::io::BoundedIo;
use axum::Router;
use axum::body::Body;
use axum::http::Request;
use culvert_portal_base::{Bounds, Class, Connection, Metrics};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::server::Acceptor;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;
use tower::ServiceExt;

/// For how long a peer may take to say hello: it has connected, so nothing holds it up but a lost packet, which
/// comes again after one second and after three.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// For how long a peer may take over its TLS handshake, of two round trips.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// For how long a peer may take over the head of a request, and be idle between two.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);

/// Headers of a request; browsers send some twenty.
const MAX_HEADERS: usize = 64;

/// Bytes of the head of a request. It has room for an address of [`MAX_ADDRESS_BYTES`] and half of that
/// again, so that an address that is too long gets an answer that says so. The rest is for a token of a
/// kilobyte and for headers that proxies add. Beyond it the answer is an empty one with status 431.
///
/// [`MAX_ADDRESS_BYTES`]: culvert_portal_base::MAX_ADDRESS_BYTES
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Pause after an accept that failed for want of descriptors or memory, so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// For how long requests under way may go on once the portal stops.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The address that a connection comes from; every request has it as an extension.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// Serves connections.
pub(crate) struct Server {
    pub(crate) router: Router,
    /// Without it, plain HTTP.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) bounds: Bounds,
    pub(crate) metrics: Arc<Metrics>,
    /// True if an address is exempt from the limit of each address: a proxy speaks for many.
    pub(crate) is_proxy: Box<dyn Fn(IpAddr) -> bool + Send + Sync>,
    pub(super) hello_notices: HelloNotices,
}

/// TLS 1.3 with the portal's certificate.
pub(crate) fn tls(certificate: Arc<Certificate>) -> Result<Arc<ServerConfig>, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(certificate);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// Serves until `stop` turns true, then for as long as requests are under way, but not much longer.
pub(crate) async fn serve(
    listener: TcpListener,
    server: Arc<Server>,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    let stopping = stop.clone();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&listener, &server.bounds) => accepted,
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        match accepted {
            Ok((stream, peer, room)) => {
                let server = Arc::clone(&server);
                let address = peer.ip().to_canonical();
                let is_proxy = (server.is_proxy)(address);
                let class = match server.tls {
                    Some(_) => Class::Handshake,
                    None => Class::Collector,
                };
                let admitted = server.bounds.admit(address, is_proxy, class, room);
                if let Some(counted) = admitted {
                    connections.spawn(connection(stream, peer, server, counted, stopping.clone()));
                }
            }
            Err(error) if is_about_the_peer(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "accepting connections");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if timeout(DRAIN_TIMEOUT, drained).await.is_err() {
        tracing::warn!("ending requests that took too long");
        connections.shutdown().await;
    }
}

/// A connection, and its place among the open sockets.
async fn accept(
    listener: &TcpListener,
    bounds: &Bounds,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let room = bounds.room().await;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, room))
}

/// Returns once `stop` is true, or nobody is left who could say so.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn is_about_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

/// Serves a connection until it ends, or has to give way to another.
async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    server: Arc<Server>,
    counted: Arc<Connection>,
    stop: watch::Receiver<bool>,
) {
    let serves = speak(stream, peer, &server, Arc::clone(&counted), stop);
    tokio::select! {
        () = counted.evicted() => tracing::debug!(%peer, "the connection gave way to another"),
        () = serves => {}
    }
}

async fn speak(
    stream: TcpStream,
    peer: SocketAddr,
    server: &Server,
    counted: Arc<Connection>,
    stop: watch::Receiver<bool>,
) {
    // Answers are small and whole; waiting for more of them only delays them.
    let _ = stream.set_nodelay(true);
    let Some(tls) = server.tls.clone() else {
        let stream = BoundedIo::new(stream, Some(Arc::clone(&counted)));
        return http(stream, peer, server, counted, stop).await;
    };
    let began = Instant::now();
    let fault = first_bytes(&stream, began).await;
    let stream = BoundedIo::new(stream, Some(Arc::clone(&counted)));
    if let Some(fault) = fault {
        server.metrics.handshakes_failed.inc();
        server.hello_notices.note(fault, peer, None);
        if fault == HelloFault::PlainHttp {
            let said = say_https(stream).await;
            tracing::debug!(%peer, ?said, "plain HTTP");
        }
        return;
    }
    let shaken = timeout_at(began + HANDSHAKE_TIMEOUT, shake_hands(stream, tls, began)).await;
    match shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(stream) if counted.has_shaken_hands() => {
            http(stream, peer, server, counted, stop).await;
        }
        Ok(_) => {}
        Err(error) => {
            server.metrics.handshakes_failed.inc();
            tracing::debug!(%peer, %error, "TLS handshake");
            if let Some(fault) = HelloFault::of_error(&error) {
                server.hello_notices.note(fault, peer, Some(&error));
            }
        }
    }
}

/// Looks at what a connection begins with, and leaves it to be read.
async fn first_bytes(stream: &TcpStream, began: Instant) -> Option<HelloFault> {
    let mut prefix = [0; PREFIX_LEN];
    let looked = timeout_at(began + HELLO_TIMEOUT, stream.peek(&mut prefix)).await;
    // A silent or closed connection fails again when the hello is read.
    let len = looked.ok()?.ok()?;
    HelloFault::of_prefix(&prefix[..len])
}

/// HTTP as it is spoken here, within bounds of time, number and bytes.
pub(crate) fn protocol() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_HEAD_BYTES);
    builder
}

async fn shake_hands<S>(
    stream: S,
    tls: Arc<ServerConfig>,
    began: Instant,
) -> io::Result<TlsStream<S>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let hello = LazyConfigAcceptor::new(Acceptor::default(), stream);
    let hello = timeout_at(began + HELLO_TIMEOUT, hello).await;
    let hello = hello.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    hello.into_stream(tls).await
}

async fn http<S>(
    stream: S,
    peer: SocketAddr,
    server: &Server,
    counted: Arc<Connection>,
    mut stop: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let router = server.router.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Peer(peer));
        request.extensions_mut().insert(Arc::clone(&counted));
        router.clone().oneshot(request)
    });
    let connection = protocol()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::pin!(connection);
    let served = tokio::select! {
        served = &mut connection => served,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%peer, %error, "connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::server::{ClientHello, ResolvesServerCert};
    use rustls::sign::CertifiedKey;
    use tokio::io::AsyncWriteExt;

    #[derive(Debug)]
    struct NoCertificate;

    impl ResolvesServerCert for NoCertificate {
        fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
            None
        }
    }

    fn config() -> Arc<ServerConfig> {
        let config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(NoCertificate));
        Arc::new(config)
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_has_five_seconds_to_say_hello_however_it_fills_them() {
        for sends_a_byte_each_second in [false, true] {
            let (ours, mut theirs) = tokio::io::duplex(1024);
            let trickle = tokio::spawn(async move {
                // The beginning of a hello of 149 bytes.
                for byte in [22, 3, 1, 0, 149, 1, 0, 0, 145, 3].into_iter().cycle() {
                    sleep(Duration::from_secs(1)).await;
                    if sends_a_byte_each_second {
                        theirs.write_all(&[byte]).await?;
                    }
                }
                io::Result::Ok(())
            });
            let began = Instant::now();
            let error = shake_hands(ours, config(), began).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(began.elapsed(), Duration::from_secs(5));
            trickle.abort();
        }
    }
}
