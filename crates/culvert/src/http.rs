//! A minimal HTTP/1.1 server (RFC 9112) for what programs tell of themselves: metrics and health. Every
//! connection carries one request, and everything about it is bounded.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Threads that serve, each one client at a time: one may be stuck until its deadline while another
/// collects.
const SERVERS: usize = 2;

/// Most bytes of a request: RFC 9112 §3 recommends room for a request line of 8000.
const MAX_REQUEST: usize = 8192;

/// For how long a client may take over its request, and again over the answer. Collectors give up
/// after ten seconds by default.
const DEADLINE: Duration = Duration::from_secs(10);

/// Pause after an accept that failed for want of descriptors or memory, so as not to spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A request by GET or HEAD.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// Without what stands behind a question mark.
    pub(crate) path: &'a str,
    /// The header `Accept`, empty where there is none.
    pub(crate) accept: &'a str,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    status: &'static str,
    content_type: &'static str,
    body: String,
}

impl Response {
    /// The answer to a successful request.
    pub(crate) fn ok(content_type: &'static str, body: String) -> Self {
        Self {
            status: "200 OK",
            content_type,
            body,
        }
    }

    /// Plain text; `status` is the code and its phrase.
    pub(crate) fn text(status: &'static str, body: impl Into<String>) -> Self {
        Self {
            status,
            content_type: "text/plain; charset=utf-8",
            body: body.into(),
        }
    }

    /// There is no such thing; `where_else` says what there is.
    pub(crate) fn not_found(where_else: &str) -> Self {
        Self::text("404 Not Found", where_else)
    }

    /// Not now.
    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::text("503 Service Unavailable", why)
    }

    fn of(request: &[u8], answer: &impl Fn(Request<'_>) -> Self) -> Self {
        match parse(request) {
            None => Self::text("400 Bad Request", "not a request of HTTP/1.1\n"),
            Some(("GET" | "HEAD", request)) => answer(request),
            Some(_) => Self::text("405 Method Not Allowed", "only GET and HEAD\n"),
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

/// Serves `listener` on threads of their own, called `name`, until the process ends.
pub(crate) fn spawn(
    name: &str,
    listener: TcpListener,
    answer: impl Fn(Request<'_>) -> Response + Send + Sync + 'static,
) -> io::Result<()> {
    let shared = Arc::new((listener, answer));
    for _ in 0..SERVERS {
        let shared = Arc::clone(&shared);
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || accept(&shared.0, &shared.1))?;
    }
    Ok(())
}

fn accept(listener: &TcpListener, answer: &impl Fn(Request<'_>) -> Response) {
    loop {
        match listener.accept() {
            Ok((client, _)) => {
                if let Err(error) = serve(&client, answer) {
                    tracing::debug!(%error, "metrics or health client gone");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                tracing::warn!(%error, "accepting metrics or health clients");
                thread::sleep(ACCEPT_PAUSE);
            }
        }
    }
}

fn serve(client: &TcpStream, answer: &impl Fn(Request<'_>) -> Response) -> io::Result<()> {
    let request = read_request(client)?;
    let response = Response::of(&request, answer);
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

/// Method and content of a complete request.
fn parse(request: &[u8]) -> Option<(&str, Request<'_>)> {
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
    let path = target.split('?').next()?;
    Some((method, Request { path, accept }))
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn the_length_is_that_of_the_body_and_head_has_none() {
        let full = ask("GET /here HTTP/1.1\r\n\r\n", &here);
        let (head, body) = full.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())));
        let answer = ask("HEAD /here HTTP/1.1\r\n\r\n", &here);
        assert_eq!(answer.split_once("\r\n\r\n").unwrap(), (head, ""));
    }

    #[test]
    fn a_request_is_told_by_its_path_and_what_it_accepts() {
        let request = "GET /here?a=b HTTP/1.1\r\nHost: a\r\nACCEPT: application/text\r\n\r\n";
        assert!(ask(request, &here).ends_with("it accepts application/text"));
    }

    #[test]
    fn anything_else_is_refused_by_its_status() {
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /herex HTTP/1.1\r\n\r\n", "404"),
            ("POST /here HTTP/1.1\r\n\r\n", "405"),
            ("GET /here\r\n\r\n", "400"),
            ("GET /here HTTP/2\r\n\r\n", "400"),
            ("\r\n\r\n", "400"),
        ] {
            let answer = ask(request, &here);
            assert_eq!(answer.split(' ').nth(1), Some(status), "{request:?}");
        }
        let endless = format!("GET /here HTTP/1.1\r\nA: {}", "a".repeat(MAX_REQUEST));
        assert!(ask(&endless[..MAX_REQUEST], &here).starts_with("HTTP/1.1 400 "));
    }

    fn here(request: Request<'_>) -> Response {
        match request.path {
            "/here" => Response::ok("text/plain", format!("it accepts{}", request.accept)),
            _ => Response::not_found("it is at /here\n"),
        }
    }

    /// Everything that a client of such a server reads.
    pub(crate) fn ask(request: &str, answer: &impl Fn(Request<'_>) -> Response) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(request.as_bytes()).unwrap();
        let (server, _) = listener.accept().unwrap();
        serve(&server, answer).unwrap();
        drop(server);
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    }
}
