//! From a token to an open WebSocket.

use crate::connection::Connection;
use crate::look_up::{LookUp, system_look_up};
use crate::proxy::HttpProxy;
use crate::tcp::{self, Dial, Way};
use crate::{ConnectError, tls};
use culvert_base::{UnixTime, whole_millis};
use culvert_control::{ATTEMPT_LIMIT, Attempt, Trust};
use culvert_wire::token::{Bearer, CertificatePin, Portal};
use culvert_wire::{MAX_MESSAGE_LEN, PortalKey, Timestamp, UDP_PORT_HEADER};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::handshake::client::Request;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::{AUTHORIZATION, DATE, RETRY_AFTER, USER_AGENT};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self};
use zeroize::Zeroizing;

/// The longest message that is taken: one of the portal, behind the line that a portal that leads puts before it.
const MAX_FRAME_LEN: usize = MAX_MESSAGE_LEN + 1_024;

/// The port of a URL that names none.
const HTTPS_PORT: u16 = 443;

/// The portal to connect to, and the credential.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The portal.
    pub portal: Portal,
    /// The path of the session: [`culvert_wire::CLIENT_SESSION_PATH`] or
    /// [`culvert_wire::GATEWAY_SESSION_PATH`].
    pub path: &'static str,
    /// The credential that is presented.
    pub credential: Credential,
    /// `SO_MARK` of the connection, so that it stays out of the tunnel.
    pub mark: Option<u32>,
    /// The look-up of the portal's name, and of the proxy's.
    pub look_up: LookUp,
    /// The proxy that connects to the portal; without one, this machine does.
    pub proxy: Option<HttpProxy>,
    /// Told the addresses that are tried from now on, at most eight: those of the portal, or of the proxy.
    pub addresses: Option<watch::Sender<Vec<SocketAddr>>>,
}

/// The credential that is presented: a machine's token, or a portal's key.
#[derive(Clone)]
pub struct Credential(Zeroizing<String>);

impl From<&Bearer> for Credential {
    fn from(bearer: &Bearer) -> Self {
        Self(bearer.expose())
    }
}

impl From<&PortalKey> for Credential {
    fn from(key: &PortalKey) -> Self {
        Self(key.expose())
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Credential(…)")
    }
}

/// An open connection, and what the portal said on the way.
#[derive(Debug)]
pub struct Connected {
    /// The connection.
    pub connection: Connection,
    /// The portal's clock, in milliseconds of Unix time and to the second, where it told it.
    pub portal_time: Option<UnixTime>,
    /// The pin by which the portal was known; none where an authority vouches for it.
    pub pin: Option<CertificatePin>,
    /// The UDP port at which the portal tells ends their own address, if it has one.
    pub udp_port: Option<u16>,
}

/// Connects to the portal of the destination, within 10 s.
///
/// # Errors
/// [`ConnectError`] says what to do.
pub async fn connect(destination: &Destination) -> Result<Connected, ConnectError> {
    let attempt = Attempt {
        url: destination.portal.url.clone(),
        trust: Trust::of(&destination.portal),
        limit: ATTEMPT_LIMIT,
        earlier: 0,
    };
    connect_to(destination, &attempt).await
}

/// Connects to the address of an attempt, whatever portal the destination names.
pub(crate) async fn connect_to(
    destination: &Destination,
    attempt: &Attempt,
) -> Result<Connected, ConnectError> {
    let place = parts(&attempt.url)?;
    let connected = connect_in_time(destination, attempt, place);
    match tokio::time::timeout(attempt.limit, connected).await {
        Ok(result) => result,
        Err(_elapsed) => Err(ConnectError::TimedOut {
            authority: place.0.to_owned(),
            seconds: attempt.limit.as_secs(),
        }),
    }
}

async fn connect_in_time(
    destination: &Destination,
    attempt: &Attempt,
    (authority, host, port): (&str, &str, u16),
) -> Result<Connected, ConnectError> {
    let request = request(destination, authority).map_err(|_| ConnectError::Url {
        url: attempt.url.clone(),
    })?;
    let dial = Dial {
        mark: destination.mark,
        look_up: destination.look_up,
        proxy: destination.proxy.as_ref(),
        addresses: destination.addresses.as_ref(),
        earlier: attempt.earlier,
    };
    let stream = secure(&attempt.url, &attempt.trust, &dial, (host, port)).await?;
    upgrade((request, authority), &attempt.trust, stream).await
}

/// Connects over a TCP connection that the caller has made to the portal of the destination, within 10 s.
///
/// # Errors
/// [`ConnectError`] says what to do.
pub async fn connect_over(
    destination: &Destination,
    stream: TcpStream,
) -> Result<Connected, ConnectError> {
    let Portal { url, .. } = &destination.portal;
    let (authority, host, port) = parts(url)?;
    let request =
        request(destination, authority).map_err(|_| ConnectError::Url { url: url.clone() })?;
    let trust = Trust::of(&destination.portal);
    let connected = async {
        let stream = encrypt(url, &trust, stream, (host, port)).await?;
        upgrade((request, authority), &trust, stream).await
    };
    match tokio::time::timeout(ATTEMPT_LIMIT, connected).await {
        Ok(result) => result,
        Err(_elapsed) => Err(ConnectError::TimedOut {
            authority: authority.to_owned(),
            seconds: ATTEMPT_LIMIT.as_secs(),
        }),
    }
}

/// Opens the WebSocket.
async fn upgrade(
    (request, authority): (Request, &str),
    trust: &Trust,
    stream: TlsStream<TcpStream>,
) -> Result<Connected, ConnectError> {
    let pin = known_by(&stream, trust);
    let limits = WebSocketConfig::default()
        .max_message_size(Some(MAX_FRAME_LEN))
        .max_frame_size(Some(MAX_FRAME_LEN));
    let (socket, response) = client_async_with_config(request, stream, Some(limits))
        .await
        .map_err(|error| refusal(authority, error))?;
    Ok(Connected {
        connection: Connection::start(socket),
        portal_time: date(&response),
        pin,
        udp_port: udp_port(&response),
    })
}

/// The port in [`UDP_PORT_HEADER`]; an older portal has none.
fn udp_port<B>(response: &tungstenite::http::Response<B>) -> Option<u16> {
    let port = text(response.headers().get(UDP_PORT_HEADER))?;
    port.trim().parse().ok().filter(|port| *port > 0)
}

/// The pin of the certificate that the portal has shown, if it counts.
fn known_by(stream: &TlsStream<TcpStream>, trust: &Trust) -> Option<CertificatePin> {
    let (_, session) = stream.get_ref();
    let shown = CertificatePin::of(session.peer_certificates()?.first()?);
    trust.pins.contains(&shown).then_some(shown)
}

/// Opens a connection to the portal for HTTP/1.1, within 10 s: TLS 1.3, the portal known by its pin or
/// by the public authorities.
///
/// # Errors
/// [`ConnectError`] says what to do.
pub async fn open(portal: &Portal) -> Result<TlsStream<TcpStream>, ConnectError> {
    let way = Way {
        proxy: None,
        mark: None,
        look_up: system_look_up,
    };
    open_by(portal, &way).await
}

/// As [`open`], on this way. The portal's name is looked up as the proxy's.
///
/// # Errors
/// [`ConnectError`] says what to do.
pub async fn open_by(portal: &Portal, way: &Way) -> Result<TlsStream<TcpStream>, ConnectError> {
    let (authority, host, port) = parts(&portal.url)?;
    let dial = Dial {
        mark: way.mark,
        look_up: way.look_up,
        proxy: way.proxy.as_ref(),
        addresses: None,
        earlier: 0,
    };
    let trust = Trust::of(portal);
    let secured = secure(&portal.url, &trust, &dial, (host, port));
    match tokio::time::timeout(ATTEMPT_LIMIT, secured).await {
        Ok(result) => result,
        Err(_elapsed) => Err(ConnectError::TimedOut {
            authority: authority.to_owned(),
            seconds: ATTEMPT_LIMIT.as_secs(),
        }),
    }
}

/// Checks that a portal's URL has a host and a port that a connection can be made to. With one that has
/// not, every attempt ends in the same way.
///
/// # Errors
/// [`ConnectError::Url`].
pub fn check_url(portal: &Portal) -> Result<(), ConnectError> {
    let (_, host, _) = parts(&portal.url)?;
    server_name(&portal.url, host).map(drop)
}

fn server_name(url: &str, host: &str) -> Result<ServerName<'static>, ConnectError> {
    let name = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(name.to_owned()).map_err(|_| ConnectError::Url {
        url: url.to_owned(),
    })
}

async fn secure(
    url: &str,
    trust: &Trust,
    dial: &Dial<'_>,
    (host, port): (&str, u16),
) -> Result<TlsStream<TcpStream>, ConnectError> {
    server_name(url, host)?;
    let stream = tcp::connect(host, port, dial).await?;
    encrypt(url, trust, stream, (host, port)).await
}

async fn encrypt(
    url: &str,
    trust: &Trust,
    stream: TcpStream,
    (host, port): (&str, u16),
) -> Result<TlsStream<TcpStream>, ConnectError> {
    let name = server_name(url, host)?;
    let configuration = tls::configuration(trust)?;
    encrypt_by(configuration, name, stream, format!("{host}:{port}")).await
}

pub(crate) async fn encrypt_by(
    configuration: ClientConfig,
    name: ServerName<'static>,
    stream: TcpStream,
    authority: String,
) -> Result<TlsStream<TcpStream>, ConnectError> {
    let connector = TlsConnector::from(Arc::new(configuration));
    connector.connect(name, stream).await.map_err(|source| {
        if tls::is_wrong_certificate(&source) {
            return ConnectError::WrongCertificate { authority };
        }
        match tls::wrong_dates(&source) {
            Some(fault) => ConnectError::CertificateDates {
                authority,
                fault,
                now: now(),
            },
            None => ConnectError::Tls { authority, source },
        }
    })
}

/// The time of this machine's clock, to the second.
fn now() -> Timestamp {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_ms = unix.unwrap_or_default().as_secs().saturating_mul(1_000);
    Timestamp::from_unix_ms(unix_ms)
}

/// `host[:port]`, the host and the port of a portal's URL.
pub(crate) fn parts(url: &str) -> Result<(&str, &str, u16), ConnectError> {
    let no_url = || ConnectError::Url {
        url: url.to_owned(),
    };
    let authority = url.strip_prefix("https://").ok_or_else(no_url)?;
    let after_brackets = authority.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[after_brackets..].find(':') {
        Some(colon) => {
            let colon = after_brackets + colon;
            let port = authority[colon + 1..].parse().map_err(|_| no_url())?;
            (&authority[..colon], port)
        }
        None => (authority, HTTPS_PORT),
    };
    if host.is_empty() {
        return Err(no_url());
    }
    Ok((authority, host, port))
}

fn request(destination: &Destination, authority: &str) -> Result<Request, tungstenite::Error> {
    let url = format!("wss://{authority}{}", destination.path);
    let mut request = url.into_client_request()?;
    let text = Zeroizing::new(format!("Bearer {}", *destination.credential.0));
    let mut authorization =
        HeaderValue::try_from(text.as_str()).map_err(tungstenite::http::Error::from)?;
    // Keeps it out of every Debug text.
    authorization.set_sensitive(true);
    request.headers_mut().insert(AUTHORIZATION, authorization);
    let agent = HeaderValue::from_static(concat!("culvert/", env!("CARGO_PKG_VERSION")));
    request.headers_mut().insert(USER_AGENT, agent);
    Ok(request)
}

fn refusal(authority: &str, error: tungstenite::Error) -> ConnectError {
    let tungstenite::Error::Http(response) = error else {
        return ConnectError::NoPortal {
            authority: authority.to_owned(),
            reason: error.to_string(),
        };
    };
    let status = response.status().as_u16();
    match status {
        // A proxy in front of a portal may say 403 for a while; the portal itself says 401.
        401 => ConnectError::Unauthorized,
        _ => ConnectError::Refused {
            status,
            retry_after_ms: retry_after_ms(
                text(response.headers().get(RETRY_AFTER)),
                date(&response),
            ),
        },
    }
}

/// RFC 9110 §10.2.3: a number of seconds or a date.
fn retry_after_ms(value: Option<&str>, now: Option<UnixTime>) -> Option<u64> {
    let value = value?.trim();
    if let Ok(seconds) = value.parse::<u64>() {
        return Some(seconds.saturating_mul(1_000));
    }
    let wait = unix_time(value)?.saturating_since(now?);
    Some(whole_millis(wait))
}

pub(crate) fn date<B>(response: &tungstenite::http::Response<B>) -> Option<UnixTime> {
    unix_time(text(response.headers().get(DATE))?)
}

fn unix_time(http_date: &str) -> Option<UnixTime> {
    let time = httpdate::parse_http_date(http_date).ok()?;
    let span = time.duration_since(UNIX_EPOCH).ok()?;
    Some(UnixTime::after_epoch(span))
}

pub(crate) fn text(header: Option<&HeaderValue>) -> Option<&str> {
    header?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_falls_into_host_and_port() {
        for (url, expected) in [
            ("https://portal.example", Some(("portal.example", 443))),
            (
                "https://portal.example:8443",
                Some(("portal.example", 8443)),
            ),
            ("https://192.0.2.1:443", Some(("192.0.2.1", 443))),
            ("https://[2001:db8::1]", Some(("[2001:db8::1]", 443))),
            ("https://[2001:db8::1]:8443", Some(("[2001:db8::1]", 8443))),
            ("https://portal.example:", None),
            ("https://portal.example:65536", None),
            ("https://:443", None),
        ] {
            let found = parts(url).ok().map(|(_, host, port)| (host, port));
            assert_eq!(found, expected, "{url}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(retry_after_ms(Some("7"), None), Some(7_000));
        let now = unix_time("Wed, 21 Oct 2026 07:28:00 GMT");
        let later = Some("Wed, 21 Oct 2026 07:28:30 GMT");
        assert_eq!(retry_after_ms(later, now), Some(30_000));
        assert_eq!(retry_after_ms(Some("soon"), now), None);
        assert_eq!(retry_after_ms(None, now), None);
    }
}
