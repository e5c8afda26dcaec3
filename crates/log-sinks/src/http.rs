//! A sink that is an endpoint.

use super::SinkError;
use culvert_link::{LookUp, system_look_up};
use culvert_portal_base::outbound;
use culvert_store::SecretBytes;
use culvert_wire::check_authority;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

/// How long a batch may take, from looking up the name to the answer: a collector that needs longer
/// for 500 lines does not keep up.
const LIMIT: Duration = Duration::from_secs(30);

/// Bytes of an answer that are read, so that the connection ends well; nobody looks at them.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// What of a URL it takes to get there.
struct Endpoint {
    is_tls: bool,
    host: String,
    port: u16,
    /// `Host` of the request.
    authority: String,
    /// Path and query.
    path: String,
}

impl Endpoint {
    fn parse(url: &str) -> Result<Self, SinkError> {
        let wrong = |_| SinkError::new("the URL is none");
        let uri: Uri = url.parse().map_err(wrong)?;
        let is_tls = uri.scheme_str() == Some("https");
        let authority = uri
            .authority()
            .filter(|authority| uri.scheme().is_some() && !authority.host().is_empty())
            .ok_or_else(|| SinkError::new("the URL names no host"))?;
        let is_good = check_authority(authority.as_str());
        is_good.map_err(|error| SinkError::new(format!("the URL: {error}")))?;
        let host = authority.host();
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            is_tls,
            host: host.to_owned(),
            port: authority
                .port_u16()
                .unwrap_or(if is_tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path: path.to_owned(),
        })
    }
}

/// Whether it is a URL that can be asked.
pub fn check_url(url: &str) -> Result<(), String> {
    Endpoint::parse(url)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Whether a token may go there: nobody on the way can read it.
pub fn is_safe_for_tokens(url: &str) -> bool {
    Endpoint::parse(url).is_ok_and(|endpoint| {
        let address = endpoint.host.parse::<IpAddr>();
        endpoint.is_tls || address.is_ok_and(|address| address.is_loopback())
    })
}

/// Sends lines. Whatever is no 2xx has not taken them; it is sent nowhere else (redirects).
pub(super) async fn post(
    url: &str,
    token: Option<&SecretBytes>,
    lines: String,
) -> Result<(), SinkError> {
    post_by(system_look_up, url, token, lines).await
}

async fn post_by(
    look_up: LookUp,
    url: &str,
    token: Option<&SecretBytes>,
    lines: String,
) -> Result<(), SinkError> {
    let late = |_| SinkError::new(format_args!("no answer within {} s", LIMIT.as_secs()));
    timeout(LIMIT, exchange(look_up, url, token, lines))
        .await
        .map_err(late)?
}

async fn exchange(
    look_up: LookUp,
    url: &str,
    token: Option<&SecretBytes>,
    lines: String,
) -> Result<(), SinkError> {
    let endpoint = Endpoint::parse(url)?;
    let request = request(&endpoint, url, token, lines)?;
    let stream = outbound::connect(&endpoint.host, endpoint.port, look_up).await;
    let stream = stream.map_err(|error| SinkError::new(format_args!("connecting: {error}")))?;
    if !endpoint.is_tls {
        return converse(stream, request).await;
    }
    let stream = outbound::handshake(tls()?, &endpoint.host, stream).await;
    converse(stream.map_err(SinkError::new)?, request).await
}

fn request(
    endpoint: &Endpoint,
    url: &str,
    token: Option<&SecretBytes>,
    lines: String,
) -> Result<Request<Full<Bytes>>, SinkError> {
    let mut request = Request::post(&endpoint.path)
        .header(HOST, &endpoint.authority)
        .header(CONTENT_TYPE, "application/x-ndjson")
        .header(USER_AGENT, concat!("culvert/", env!("CARGO_PKG_VERSION")));
    if let Some(token) = token {
        if !is_safe_for_tokens(url) {
            return Err(SinkError::new("a token goes over https alone"));
        }
        let value = [b"Bearer ", token.expose()].concat();
        let mut value = HeaderValue::from_bytes(&value)
            .map_err(|_| SinkError::new("the token can't be sent in a header"))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    request
        .body(Full::from(lines))
        .map_err(|_| SinkError::new("the URL can't be asked"))
}

async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<(), SinkError> {
    let broken = |error: hyper::Error| SinkError::new(format_args!("HTTP: {error}"));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let answered = async {
        let answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        // What it says is its own affair; too much of it ends the connection.
        let _unread = Limited::new(answer.into_body(), MAX_ANSWER_BYTES)
            .collect()
            .await;
        match status.is_success() {
            true => Ok(()),
            false => Err(SinkError::new(format_args!("it answers {status}"))),
        }
    };
    tokio::pin!(answered);
    tokio::pin!(connection);
    tokio::select! {
        answered = &mut answered => answered,
        // Its end may come before the answer was looked at.
        _ended = &mut connection => answered.await,
    }
}

/// Those whom this machine trusts vouch for endpoints.
fn tls() -> Result<Arc<ClientConfig>, SinkError> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Arc::clone(config));
    }
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs().certs;
    roots.add_parsable_certificates(found);
    if roots.is_empty() {
        return Err(SinkError::new(
            "this machine trusts no certificate authority: install ca-certificates",
        ));
    }
    let config = outbound::client_config(roots).map_err(SinkError::new)?;
    Ok(Arc::clone(CONFIG.get_or_init(|| config)))
}

#[cfg(test)]
#[path = "../../../tests/fixtures/half_dead_host.rs"]
mod half_dead_host;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    #[test]
    fn a_url_says_where_to_connect_and_what_to_ask_for() {
        let of = |url| {
            let it = Endpoint::parse(url).unwrap();
            (it.is_tls, it.host, it.port, it.path)
        };
        let https = of("https://siem.example/in?a=b");
        assert_eq!(https, (true, "siem.example".into(), 443, "/in?a=b".into()));
        let http = of("http://[::1]:8080");
        assert_eq!(http, (false, "::1".into(), 8080, "/".into()));
        assert!(check_url("https://:80").is_err());
        assert!(check_url("nonsense").is_err());
        assert!(check_url("https://siem.example:99999/in").is_err());
    }

    #[test]
    fn a_token_goes_where_nobody_on_the_way_can_read_it() {
        for url in [
            "https://siem.example/",
            "http://127.0.0.1:1/",
            "http://[::1]/",
        ] {
            assert!(is_safe_for_tokens(url), "{url}");
        }
        for url in [
            "http://siem.example/",
            "http://10.0.0.1/",
            "http://localhost.example/",
        ] {
            assert!(!is_safe_for_tokens(url), "{url}");
        }
    }

    #[tokio::test]
    async fn an_endpoint_that_redirects_has_taken_nothing_and_is_not_followed() {
        let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/in", endpoint.local_addr().unwrap());
        let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        elsewhere.set_nonblocking(true).unwrap();
        let location = format!("http://{}/", elsewhere.local_addr().unwrap());
        let answering = async {
            let (mut stream, _) = endpoint.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"line\n") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
            }
            let answer = format!(
                "HTTP/1.1 307 Temporary Redirect\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        };
        let (posted, _open) = tokio::join!(post(&url, None, "line\n".to_owned()), answering);
        let error = posted.unwrap_err().to_string();
        assert!(error.contains("307"), "{error}");
        let nobody = elsewhere.accept().unwrap_err();
        assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
    }

    #[tokio::test]
    async fn a_sink_with_a_dead_address_before_a_good_one_takes_lines() {
        let (dead, _held) = half_dead_host::silent().await;
        let endpoint = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let name = half_dead_host::half_dead(dead, endpoint.local_addr().unwrap());
        let url = format!("http://{name}/in");
        let answering = async {
            let (mut stream, _) = endpoint.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"line\n") {
                assert_ne!(stream.read_buf(&mut request).await.unwrap(), 0);
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            stream
        };
        let posting = post_by(half_dead_host::look_up, &url, None, "line\n".to_owned());
        let posting = timeout(Duration::from_secs(5), posting);
        let (posted, _open) = tokio::join!(posting, answering);
        posted.expect("it takes one delay").unwrap();
    }
}
