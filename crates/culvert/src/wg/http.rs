//! A minimal HTTP/1.1 server (RFC 9112) for one resource, `GET /metrics`: every connection carries
//! one request, and everything about it is bounded.

use super::metrics::{self, Format};
use super::status::Status;
use crate::exit::Failure;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Threads that serve, each one collector at a time: one may be stuck until its deadline while
/// another collects.
const SERVERS: usize = 2;

/// Most bytes of a request: RFC 9112 §3 recommends room for a request line of 8000.
const MAX_REQUEST: usize = 8192;

/// For how long a client may take over its request, and again over the answer. Collectors give up
/// after ten seconds by default.
const DEADLINE: Duration = Duration::from_secs(10);

/// Pause after an accept that failed for want of descriptors or memory, so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on `address`.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .map_err(|error| Failure::io(format_args!("serving metrics on {address}"), &error))
}

/// Serves `listener` on threads of their own, until the process ends. `status` may have nothing to
/// show when the interface is ending.
pub(crate) fn spawn(
    listener: TcpListener,
    status: impl Fn() -> Option<Status> + Send + Sync + 'static,
) -> io::Result<()> {
    let shared = Arc::new((listener, status));
    for _ in 0..SERVERS {
        let shared = Arc::clone(&shared);
        thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || accept(&shared.0, &shared.1))?;
    }
    Ok(())
}

fn accept(listener: &TcpListener, status: &impl Fn() -> Option<Status>) {
    loop {
        match listener.accept() {
            Ok((client, _)) => {
                if let Err(error) = serve(&client, status) {
                    tracing::debug!(%error, "metrics client gone");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "accepting metrics clients");
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

fn serve(client: &TcpStream, status: &impl Fn() -> Option<Status>) -> io::Result<()> {
    let request = read_request(client)?;
    let response = Response::of(&request, status);
    let mut bytes = response.head().into_bytes();
    if !request.starts_with(b"HEAD ") {
        bytes.extend_from_slice(response.body.as_bytes());
    }
    let deadline = Instant::now() + DEADLINE;
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        client.set_write_timeout(Some(left(deadline)?))?;
        let len = (&*client).write(rest)?;
        rest = &rest[len..];
    }
    Ok(())
}

/// The head of a request, up to its empty line, or as much as fits [`MAX_REQUEST`].
fn read_request(client: &TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + DEADLINE;
    let mut request = vec![0; MAX_REQUEST];
    let mut len = 0;
    while len < request.len() && !request[..len].windows(4).any(|end| end == b"\r\n\r\n") {
        client.set_read_timeout(Some(left(deadline)?))?;
        match (&*client).read(&mut request[len..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => len += more,
        }
    }
    request.truncate(len);
    Ok(request)
}

struct Response {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Response {
    fn of(request: &[u8], status: &impl Fn() -> Option<Status>) -> Self {
        let Some((method, path, accept)) = parse(request) else {
            return Self::text("400 Bad Request", "not a request of HTTP/1.1\n");
        };
        if path.split('?').next() != Some("/metrics") {
            return Self::text("404 Not Found", "metrics are at /metrics\n");
        }
        if !matches!(method, "GET" | "HEAD") {
            return Self::text("405 Method Not Allowed", "only GET and HEAD\n");
        }
        let Some(status) = status() else {
            return Self::text("503 Service Unavailable", "the interface is ending\n");
        };
        let format = match accept.contains("application/openmetrics-text") {
            true => Format::OpenMetrics,
            false => Format::Prometheus,
        };
        Self {
            status: "200 OK",
            content_type: format.content_type(),
            body: metrics::render(&status, format),
        }
    }

    fn text(status: &'static str, body: &str) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.to_owned(),
        }
    }

    fn head(&self) -> String {
        // RFC 9110 §10.2.1: a 405 says which methods there are. It may stand in any response.
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nAllow: GET, HEAD\r\n\
             Connection: close\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        )
    }
}

/// Method, target and `Accept` of a complete request.
fn parse(request: &[u8]) -> Option<(&str, &str, &str)> {
    let head = std::str::from_utf8(request).ok()?;
    let (head, _) = head.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    if words.next().is_some() || !version.starts_with("HTTP/1.") {
        return None;
    }
    let accept = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("accept"))
        .map_or("", |(_, value)| value);
    Some((method, target, accept))
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn metrics_are_served_in_the_format_the_collector_accepts() {
        let plain = ask("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(plain.starts_with("HTTP/1.1 200 OK\r\n"), "{plain}");
        assert!(plain.contains("Content-Type: text/plain; version=0.0.4"));
        assert!(!plain.contains("# EOF"));
        let open = ask(
            "GET /metrics?a=b HTTP/1.1\r\nACCEPT: application/openmetrics-text; version=1.0.0\r\n\r\n",
        );
        assert!(open.contains("Content-Type: application/openmetrics-text; version=1.0.0"));
        assert!(open.ends_with("# EOF\n"));
    }

    #[test]
    fn the_length_is_that_of_the_body_and_head_has_none() {
        let full = ask("GET /metrics HTTP/1.1\r\n\r\n");
        let (head, body) = full.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        let answer = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert_eq!(answer.split_once("\r\n\r\n").unwrap(), (head, ""));
    }

    #[test]
    fn anything_else_is_refused_by_its_status() {
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metricsx HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics\r\n\r\n", "400"),
            ("GET /metrics HTTP/2\r\n\r\n", "400"),
            ("\r\n\r\n", "400"),
        ] {
            let answer = ask(request);
            assert_eq!(answer.split(' ').nth(1), Some(status), "{request:?}");
        }
        let endless = format!("GET /metrics HTTP/1.1\r\nA: {}", "a".repeat(MAX_REQUEST));
        assert!(ask(&endless[..MAX_REQUEST]).starts_with("HTTP/1.1 400 "));
    }

    #[test]
    fn an_ending_interface_is_unavailable() {
        let answer = ask_with("GET /metrics HTTP/1.1\r\n\r\n", &|| None);
        assert!(answer.starts_with("HTTP/1.1 503 "));
    }

    fn ask(request: &str) -> String {
        ask_with(request, &|| Some(Status::default()))
    }

    fn ask_with(request: &str, status: &impl Fn() -> Option<Status>) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let (server, _) = listener.accept().unwrap();
        serve(&server, status).unwrap();
        drop(server);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }
}
