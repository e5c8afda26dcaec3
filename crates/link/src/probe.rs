//! A step-by-step test of the path to a portal, for a person who looks for a fault. It signs nobody in.

use crate::ConnectError;
use crate::connect::{date, encrypt_by, open, parts, text};
use crate::look_up::system_look_up;
use crate::nat64::reachable;
use crate::tcp::{MAX_ADDRESSES, alternate};
use crate::tls;
use culvert_base::UnixTime;
use culvert_control::{ATTEMPT_LIMIT, Trust};
use culvert_wire::token::{CertificatePin, Portal};
use rustls::pki_types::ServerName;
use std::io;
use std::net::SocketAddr;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Error;
use tokio_tungstenite::tungstenite::http::header::LOCATION;

/// The results of the steps. A step is absent if a step that must come before it failed.
#[derive(Debug)]
pub struct Probe {
    /// The addresses of the portal's name, or itself where it is one.
    pub addresses: Result<Vec<SocketAddr>, ConnectError>,
    /// The addresses, each with the result of a TCP connection to it.
    pub tcp: Vec<(SocketAddr, io::Result<()>)>,
    /// The result of the TLS handshake, in which the server proves to be the portal.
    pub tls: Option<Result<(), ConnectError>>,
    /// The answer to a request for a session without a token.
    pub answer: Option<Result<PortalAnswer, ConnectError>>,
}

/// The answer of a portal over HTTP, or of another server in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalAnswer {
    /// The HTTP status. A portal says 401.
    pub status: u16,
    /// The target of a redirect.
    pub location: Option<String>,
    /// Its clock, to the second; `None` if the answer has no date.
    pub clock: Option<UnixTime>,
}

/// Goes as far as it can; each step within 10 s.
///
/// # Errors
/// [`ConnectError::Url`]: the portal's URL is none.
pub async fn probe(portal: &Portal, path: &str) -> Result<Probe, ConnectError> {
    let (authority, host, port) = parts(&portal.url)?;
    let addresses = resolve(host, port).await;
    let tcp = match &addresses {
        Ok(addresses) => reach(addresses).await,
        Err(_) => Vec::new(),
    };
    let mut probe = Probe {
        addresses,
        tcp,
        tls: None,
        answer: None,
    };
    if !probe.tcp.iter().any(|(_, reached)| reached.is_ok()) {
        return Ok(probe);
    }
    let stream = match open(portal).await {
        Ok(stream) => stream,
        Err(error) => {
            probe.tls = Some(Err(error));
            return Ok(probe);
        }
    };
    probe.tls = Some(Ok(()));
    let asked = timeout(
        ATTEMPT_LIMIT,
        client_async(format!("wss://{authority}{path}"), stream),
    );
    let reason = match asked.await {
        Err(_elapsed) => {
            let authority = authority.to_owned();
            probe.answer = Some(Err(ConnectError::TimedOut {
                authority,
                seconds: ATTEMPT_LIMIT.as_secs(),
            }));
            return Ok(probe);
        }
        Ok(Err(Error::Http(response))) => {
            probe.answer = Some(Ok(PortalAnswer {
                status: response.status().as_u16(),
                location: text(response.headers().get(LOCATION)).map(str::to_owned),
                clock: date(&response),
            }));
            return Ok(probe);
        }
        Ok(Err(error)) => error.to_string(),
        Ok(Ok(_)) => "it opens a session to somebody without a token".to_owned(),
    };
    probe.answer = Some(Err(ConnectError::NoPortal {
        authority: authority.to_owned(),
        reason,
    }));
    Ok(probe)
}

/// The TLS handshake with a server that is known by its pin alone, within 10 s. It says nothing more and goes away.
///
/// # Errors
/// [`ConnectError`] says what failed.
pub async fn probe_tls(
    address: SocketAddr,
    pin: CertificatePin,
    alpn: &[u8],
) -> Result<(), ConnectError> {
    let trust = Trust {
        pins: vec![pin],
        authorities: false,
    };
    let mut configuration = tls::configuration(&trust)?;
    configuration.alpn_protocols = vec![alpn.to_vec()];
    let authority = address.to_string();
    let connected = async {
        let unreachable = |source| ConnectError::Unreachable {
            authority: authority.clone(),
            source,
        };
        let stream = TcpStream::connect(address).await.map_err(unreachable)?;
        let name = ServerName::IpAddress(address.ip().into());
        encrypt_by(configuration, name, stream, authority.clone()).await
    };
    match timeout(ATTEMPT_LIMIT, connected).await {
        Ok(result) => result.map(drop),
        Err(_elapsed) => Err(ConnectError::TimedOut {
            authority,
            seconds: ATTEMPT_LIMIT.as_secs(),
        }),
    }
}

async fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, ConnectError> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let failed = |source| ConnectError::Resolve {
        host: host.to_owned(),
        source,
    };
    let found = timeout(ATTEMPT_LIMIT, tokio::net::lookup_host((host, port))).await;
    let found = found.unwrap_or_else(|_elapsed| Err(io::ErrorKind::TimedOut.into()));
    let found = found.map_err(failed)?.collect();
    let mut addresses = alternate(reachable(found, system_look_up, None).await);
    addresses.truncate(MAX_ADDRESSES);
    Ok(addresses)
}

/// Tries all of them at once.
async fn reach(addresses: &[SocketAddr]) -> Vec<(SocketAddr, io::Result<()>)> {
    let mut attempts = JoinSet::new();
    for address in addresses.iter().copied() {
        attempts.spawn(async move {
            let connected = timeout(ATTEMPT_LIMIT, TcpStream::connect(address)).await;
            let connected = connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            (address, connected.map(drop))
        });
    }
    let mut reached = attempts.join_all().await;
    reached.sort_by_key(|(address, _)| addresses.iter().position(|it| it == address));
    reached
}
