//! A relay's side: accepts streams, and carries them on threads of their own.

use crate::admission::{Admission, Admitted, Limits};
use crate::certificate::Certificates;
use crate::counters::Counters;
use crate::pump::{Loopback, Pump};
use crate::{Report, StreamEnd, tcp};
use culvert_fair::Subscriber;
use culvert_relay_core::stream::{ALPN, PREFACE_LEN, Preface, StreamRefusal, write_refusal};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Pause after an accept that failed for want of descriptors or memory, so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The settings of a relay's side.
#[derive(Debug)]
pub struct AcceptorSettings {
    /// Its listening sockets.
    pub listeners: Vec<std::net::TcpListener>,
    /// The certificates that it shows.
    pub certificates: Arc<Certificates>,
    /// The ports of gateways, each on loopback too.
    pub gateway_ports: RangeInclusive<u16>,
    /// The bounds of streams.
    pub limits: Limits,
    /// The threads that carry streams.
    pub threads: NonZeroUsize,
}

/// Accepts streams until it is stopped.
#[derive(Debug)]
pub struct Acceptor {
    runtime: Runtime,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    gateway_ports: RangeInclusive<u16>,
    handshake_limit: Duration,
    admission: Arc<Admission>,
    counters: Arc<Counters>,
}

impl Acceptor {
    /// Starts its threads.
    ///
    /// # Errors
    /// The system's, and that of TLS.
    pub fn start(settings: AcceptorSettings) -> io::Result<Self> {
        let tls = TlsAcceptor::from(Arc::new(configuration(settings.certificates)?));
        let shared = Arc::new(Shared {
            gateway_ports: settings.gateway_ports,
            handshake_limit: settings.limits.handshake,
            admission: Arc::new(Admission::new(settings.limits)),
            counters: Arc::default(),
        });
        let runtime = Builder::new_multi_thread()
            .worker_threads(settings.threads.get())
            .thread_name("relay-tls")
            .enable_all()
            .build()?;
        for listener in settings.listeners {
            listener.set_nonblocking(true)?;
            let listener = {
                let _entered = runtime.enter();
                TcpListener::from_std(listener)?
            };
            runtime.spawn(accept(listener, tls.clone(), Arc::clone(&shared)));
        }
        Ok(Self { runtime, shared })
    }

    /// The numbers of its streams.
    #[must_use]
    pub fn report(&self) -> Report {
        let (streams, newcomers) = self.shared.admission.counts();
        self.shared.counters.report(streams, newcomers)
    }

    /// Ends all streams.
    pub fn stop(self) {
        // Nothing in it blocks, and it may be dropped by a thread that must not.
        self.runtime.shutdown_background();
    }
}

fn configuration(certificates: Arc<Certificates>) -> io::Result<ServerConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut configuration = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    configuration.alpn_protocols = vec![ALPN.to_vec()];
    // Streams last: nobody resumes one.
    configuration.send_tls13_tickets = 0;
    Ok(configuration)
}

async fn accept(listener: TcpListener, tls: TlsAcceptor, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                shared.counters.connections.add(1);
                match shared.admission.admit(peer.ip()) {
                    Some(place) => {
                        tokio::spawn(serve(stream, peer, place, tls.clone(), Arc::clone(&shared)));
                    }
                    None => shared.counters.too_many.add(1),
                }
            }
            Err(error) if is_about_the_peer(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "accepting TLS connections");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_about_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

/// Serves a connection until it ends.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    mut place: Admitted,
    tls: TlsAcceptor,
    shared: Arc<Shared>,
) {
    let source = place.source();
    let opened = tokio::select! {
        opened = timeout(shared.handshake_limit, open(stream, source, tls, &shared)) => opened,
        () = place.evicted() => {
            shared.counters.too_many.add(1);
            return;
        }
    };
    let pump = match opened {
        Ok(Ok(Some(pump))) => pump,
        Ok(Ok(None)) => return,
        Ok(Err(error)) => {
            shared.counters.failed_handshakes.add(1);
            tracing::debug!(%peer, %error, "a TLS stream did not open");
            return;
        }
        Err(_elapsed) => {
            shared.counters.failed_handshakes.add(1);
            tracing::debug!(%peer, "a TLS stream did not open in time");
            return;
        }
    };
    let end = pump.with_place(place).run(std::future::pending()).await;
    tracing::debug!(%peer, %end, "a TLS stream ended");
    match end {
        StreamEnd::Closed | StreamEnd::Here => {}
        StreamEnd::TooMany => shared.counters.too_many.add(1),
        StreamEnd::Unregistered => shared.counters.unregistered.add(1),
        StreamEnd::Silent | StreamEnd::Broken(_) | StreamEnd::Tls(_) | StreamEnd::Frame(_) => {
            shared.counters.broken.add(1);
        }
    }
}

/// Takes the handshake and the preface; `None` if the stream was refused.
async fn open(
    stream: TcpStream,
    source: Subscriber,
    tls: TlsAcceptor,
    shared: &Shared,
) -> io::Result<Option<Pump>> {
    tcp::set_up(&stream)?;
    let mut stream = tls.accept(stream).await?;
    let mut bytes = [0; PREFACE_LEN];
    stream.read_exact(&mut bytes).await?;
    let preface = Preface::parse(&bytes).map_err(io::Error::other)?;
    let refusal = match shared.gateway_ports.contains(&preface.gateway_port) {
        false => {
            shared.counters.wrong_ports.add(1);
            Some(StreamRefusal::NoSuchPort)
        }
        true if !shared.admission.can_register(source) => {
            shared.counters.too_many.add(1);
            Some(StreamRefusal::Full)
        }
        true => None,
    };
    if let Some(refusal) = refusal {
        refuse(stream, refusal).await?;
        return Ok(None);
    }
    let loopback = Loopback::open(preface.gateway_port)?;
    stream.write_all(&preface.encode()).await?;
    stream.flush().await?;
    let (stream, tls) = stream.into_inner();
    let counters = Arc::clone(&shared.counters);
    Ok(Some(Pump::new(tls.into(), stream, loopback, counters)))
}

async fn refuse(mut stream: TlsStream<TcpStream>, refusal: StreamRefusal) -> io::Result<()> {
    stream.write_all(&write_refusal(refusal)).await?;
    stream.shutdown().await
}
