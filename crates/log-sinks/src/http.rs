//! A sink that is an endpoint.

use crate::error::SinkError;
use culvert_http::{
    HttpError, Limits, Network, Target, USER_AGENT, ask, client_config, system_roots,
};
use culvert_link::{LookUp, system_look_up};
use culvert_store::SecretBytes;
use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use hyper::header::{self, HeaderValue};
use rustls::ClientConfig;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The bounds of a batch. A collector that needs longer for 500 lines does not keep up. Its answer is read so that the
/// connection ends well; nobody looks at it.
const LIMITS: Limits = Limits {
    time: Duration::from_secs(30),
    answer_bytes: 64 * 1024,
};

/// Checks that it is a URL that can be asked.
pub fn check_url(url: &str) -> Result<(), String> {
    Target::parse(url)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// True if a token may go there: nobody on the way can read it.
pub fn is_safe_for_tokens(url: &str) -> bool {
    Target::parse(url).is_ok_and(|target| target.is_private())
}

/// Sends lines. An answer other than 2xx means that they were not taken. Redirects are not
/// followed.
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
    let target = Target::parse(url).map_err(SinkError::new)?;
    let request = request(&target, token, lines)?;
    let network = Network {
        look_up,
        tls: if target.is_tls { tls()? } else { None },
    };
    // An answer that is too long or breaks off has a status all the same.
    let answer = ask(&network, &target, request, LIMITS).await;
    let status = answer.map_err(fault)?.status;
    match status.is_success() {
        true => Ok(()),
        false => Err(SinkError::new(format_args!("it answers {status}"))),
    }
}

fn request(
    target: &Target,
    token: Option<&SecretBytes>,
    lines: String,
) -> Result<Request<Full<Bytes>>, SinkError> {
    let mut request = Request::post(&target.path)
        .header(header::HOST, &target.authority)
        .header(header::CONTENT_TYPE, "application/x-ndjson")
        .header(header::USER_AGENT, USER_AGENT);
    if let Some(token) = token {
        if !target.is_private() {
            return Err(SinkError::new("a token goes over https alone"));
        }
        let value = [b"Bearer ", token.expose()].concat();
        let mut value = HeaderValue::from_bytes(&value)
            .map_err(|_| SinkError::new("the token can't be sent in a header"))?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    request
        .body(Full::from(lines))
        .map_err(|_| SinkError::new("the URL can't be asked"))
}

fn fault(error: HttpError) -> SinkError {
    match error {
        HttpError::Connect(error) => SinkError::new(format_args!("connecting: {error}")),
        HttpError::Exchange(error) => SinkError::new(format_args!("HTTP: {error}")),
        HttpError::Tls(_) | HttpError::Late(_) => SinkError::new(error),
    }
}

/// Those whom this machine trusts vouch for endpoints; none where it trusts nobody.
fn tls() -> Result<Option<Arc<ClientConfig>>, SinkError> {
    static CONFIG: OnceLock<Arc<ClientConfig>> = OnceLock::new();
    if let Some(config) = CONFIG.get() {
        return Ok(Some(Arc::clone(config)));
    }
    let roots = system_roots();
    if roots.is_empty() {
        return Ok(None);
    }
    let config = client_config(roots).map_err(SinkError::new)?;
    Ok(Some(Arc::clone(CONFIG.get_or_init(|| config))))
}

#[cfg(test)]
#[path = "../../../tests/fixtures/half_dead_host.rs"]
mod half_dead_host;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

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
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        other.set_nonblocking(true).unwrap();
        let location = format!("http://{}/", other.local_addr().unwrap());
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
        let nobody = other.accept().unwrap_err();
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
