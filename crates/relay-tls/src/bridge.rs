//! An end's stream to a relay.

use crate::certificate::protocols;
use crate::counters::Counters;
use crate::pump::{Loopback, Pump};
use crate::{BridgeError, StreamEnd, tcp};
use culvert_link::{
    ConnectError, HttpProxy, LookUp, Way, connect_tcp, is_wrong_certificate, pinned,
};
use culvert_relay_core::stream::{PREFACE_LEN, Preface, parse_answer};
use culvert_wire::token::CertificatePin;
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The time limit of [`Bridge::open`].
pub const OPEN_LIMIT: Duration = crate::HANDSHAKE_LIMIT;

/// The settings of a stream.
#[derive(Clone, Debug)]
pub struct BridgeSettings {
    /// The relay's addresses, each with its port for TLS.
    pub addresses: Vec<SocketAddr>,
    /// SHA-256 of the relay's certificate.
    pub pin: CertificatePin,
    /// The gateway's port at the relay.
    pub gateway_port: u16,
    /// The port of the WireGuard socket. Datagrams are exchanged with it alone.
    pub tunnel_port: u16,
    /// The proxy that connects to the relay; without one, this machine does.
    pub proxy: Option<HttpProxy>,
    /// `SO_MARK` of the connection, so that it stays out of the tunnel.
    pub mark: Option<u32>,
    /// The look-up of the proxy's name: [`culvert_link::system_look_up`], or another one in a sandbox.
    pub look_up: LookUp,
}

/// An open stream to one gateway port of a relay. Dropping it closes the stream.
#[derive(Debug)]
pub struct Bridge {
    local: SocketAddr,
    relay: SocketAddr,
    ended: Option<oneshot::Receiver<StreamEnd>>,
    /// The stream ends when it is dropped.
    _stop: oneshot::Sender<()>,
}

impl Bridge {
    /// Connects to the relay, within 10 s. The stream is carried by a task of the current runtime.
    ///
    /// # Errors
    /// [`BridgeError`] says what to do.
    pub async fn open(settings: BridgeSettings) -> Result<Self, BridgeError> {
        let relay = *settings.addresses.first().ok_or(BridgeError::NoAddress)?;
        match timeout(OPEN_LIMIT, Self::connect(settings, relay)).await {
            Ok(opened) => opened,
            Err(_elapsed) => Err(BridgeError::TimedOut { relay }),
        }
    }

    async fn connect(settings: BridgeSettings, relay: SocketAddr) -> Result<Self, BridgeError> {
        let way = Way {
            proxy: settings.proxy,
            mark: settings.mark,
            look_up: settings.look_up,
        };
        let stream = connect_tcp(settings.addresses, &way).await?;
        tcp::set_up(&stream).map_err(|source| ConnectError::Local {
            what: "set up the connection to the relay",
            source,
        })?;
        // A proxy's address is not the relay's.
        let relay = match &way.proxy {
            None => stream.peer_addr().unwrap_or(relay),
            Some(_) => relay,
        };
        let connector =
            TlsConnector::from(Arc::new(pinned(settings.pin, protocols(settings.pin))?));
        // An address is not told to the server: the handshake names nobody.
        let name = ServerName::from(relay.ip());
        let connected = connector.connect(name, stream).await;
        let mut stream = connected.map_err(|source| match is_wrong_certificate(&source) {
            true => BridgeError::WrongCertificate { relay },
            false => BridgeError::Tls { relay, source },
        })?;
        let preface = Preface {
            gateway_port: settings.gateway_port,
        };
        let broke = |error: io::Error| BridgeError::Ended {
            relay,
            reason: StreamEnd::Broken(error),
        };
        stream.write_all(&preface.encode()).await.map_err(broke)?;
        stream.flush().await.map_err(broke)?;
        let mut answer = [0; PREFACE_LEN];
        stream.read_exact(&mut answer).await.map_err(broke)?;
        match parse_answer(&answer, preface) {
            Ok(Ok(())) => {}
            Ok(Err(reason)) => return Err(BridgeError::Refused { relay, reason }),
            Err(_) => return Err(BridgeError::NoRelay { relay }),
        }
        let loopback = Loopback::open(settings.tunnel_port).map_err(BridgeError::Loopback)?;
        let local = loopback.address();
        let (stream, tls) = stream.into_inner();
        let pump = Pump::new(tls.into(), stream, loopback, Arc::new(Counters::default()));
        Ok(Self::start(pump, local, relay))
    }

    fn start(pump: Pump, local: SocketAddr, relay: SocketAddr) -> Self {
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        tokio::spawn(async move {
            let why = pump
                .run(async {
                    // Nothing is ever sent: the sender is dropped.
                    let _dropped = stopped.await;
                })
                .await;
            // The owner may be gone.
            let _unheard = end.send(why);
        });
        Self {
            local,
            relay,
            ended: Some(ended),
            _stop: stop,
        }
    }

    /// The loopback address that stands for the relay's gateway port.
    #[must_use]
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// The relay's address.
    #[must_use]
    pub const fn relay(&self) -> SocketAddr {
        self.relay
    }

    /// Waits until the stream has ended, and says why; once. May be dropped and called again.
    pub async fn ended(&mut self) -> BridgeError {
        let Some(ended) = &mut self.ended else {
            return std::future::pending().await;
        };
        // Without an answer, the runtime ends.
        let reason = ended.await.unwrap_or(StreamEnd::Here);
        self.ended = None;
        BridgeError::Ended {
            relay: self.relay,
            reason,
        }
    }
}
