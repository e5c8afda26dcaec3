//! Answers of a portal behind a reverse proxy that passes on too little.

use crate::support::{Answer, Client, Running};
use culvert_wire::CLIENT_SESSION_PATH;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const URL: &str = "https://portal.example:8443";
const OWN: &str = "portal.example:8443";

/// The headers of a WebSocket's request.
pub(crate) const UPGRADE: [(&str, &str); 4] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

async fn at(running: &Running, host: &str) -> Client {
    let mut client = running.client().await;
    host.clone_into(&mut client.host);
    client
}

async fn running() -> Running {
    Running::start_as(tempfile::tempdir().unwrap(), Some(URL)).await
}

/// Checks that an answer holds all of this.
#[track_caller]
fn says(answer: &Answer, parts: &[&str]) {
    for part in parts {
        assert!(answer.text.contains(part), "{part:?}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_page_asked_under_another_host_names_the_host_that_came_and_the_line_to_add() {
    let running = running().await;
    for host in [
        "portal.example",
        "portal.example:8444",
        "portal",
        "backend:8443",
        "other.example",
    ] {
        let mut client = at(&running, host).await;
        for accept in ["text/html", "text/plain"] {
            let answer = client
                .send("GET", "/sign-in", &[("accept", accept)], None)
                .await
                .expect(421);
            assert!(answer.header("content-type").starts_with(accept));
            let came = format!("Host: {host}`");
            says(&answer, &[&came, "Host: portal.example:8443`", URL]);
            says(&answer, &["proxy_set_header Host $http_host;"]);
            says(&answer, &["header_up Host {hostport}", "HAProxy"]);
        }
    }
}

#[tokio::test]
async fn a_proxy_that_writes_the_name_elsewhere_is_told_that_it_is_not_read_there() {
    let running = running().await;
    let mut client = at(&running, "backend:8443").await;
    let headers = [("accept", "text/plain"), ("x-forwarded-host", OWN)];
    let answer = client.send("GET", "/sign-in", &headers, None).await;
    let answer = answer.expect(421);
    says(&answer, &["X-Forwarded-Host", "is not read"]);
    says(&answer, &["Host: backend:8443`"]);
}

#[tokio::test]
async fn a_host_that_is_no_text_of_a_host_is_not_repeated() {
    let running = running().await;
    let long = "a".repeat(300);
    for host in ["<script>alert(1)</script>", "a b", &long] {
        let mut client = at(&running, host).await;
        let headers = [("accept", "text/plain")];
        let answer = client.send("GET", "/sign-in", &headers, None).await;
        let answer = answer.expect(421);
        assert!(!answer.text.contains(host), "{}", answer.text);
        says(&answer, &["Host: portal.example:8443`"]);
    }
}

#[tokio::test]
async fn a_form_that_is_refused_names_what_came_and_what_was_expected() {
    let running = running().await;
    let evil = ("origin", "https://evil.example");
    let own = ("origin", URL);
    let same = ("sec-fetch-site", "same-origin");
    for (host, headers, parts) in [
        // The proxy wrote its own address for the portal's name.
        (
            "127.0.0.1:8443",
            &[own, same] as &[_],
            &[
                "Origin: https://portal.example:8443`",
                "Host: 127.0.0.1:8443`",
                "Host: portal.example:8443`",
                "proxy_set_header Host $http_host;",
            ] as &[_],
        ),
        // Somebody else's page.
        (OWN, &[evil], &["Origin: https://evil.example`", URL]),
        (
            OWN,
            &[own, ("sec-fetch-site", "cross-site")],
            &["Sec-Fetch-Site: cross-site`", URL],
        ),
        // A proxy that passes neither on.
        (OWN, &[], &["neither `Origin` nor `Sec-Fetch-Site`", URL]),
        // A page that was loaded without TLS.
        (
            OWN,
            &[("origin", "http://portal.example:8443")],
            &["Origin: http://portal.example:8443`", URL],
        ),
    ] {
        let mut client = at(&running, host).await;
        let headers = [headers, &[("accept", "text/plain")]].concat();
        let answer = client.send("POST", "/sign-out", &headers, None).await;
        let answer = answer.expect(403);
        says(&answer, parts);
        let is_of_proxy = host != OWN;
        let names_line = answer.text.contains("proxy_set_header Host");
        assert_eq!(names_line, is_of_proxy, "{}", answer.text);
    }
}

#[tokio::test]
async fn who_asks_for_a_session_without_an_upgrade_is_told_so_before_any_token_is_looked_at() {
    let running = running().await;
    let mut client = at(&running, OWN).await;
    let answer = client
        .send("GET", CLIENT_SESSION_PATH, &UPGRADE, None)
        .await;
    answer.expect(401);
    for (missing, parts) in [
        ("upgrade", &["`Upgrade: websocket`"] as &[_]),
        ("connection", &["`Connection: upgrade`"]),
        ("sec-websocket-version", &["`Sec-WebSocket-Version: 13`"]),
        ("sec-websocket-key", &["`Sec-WebSocket-Key`"]),
    ] {
        let mut client = at(&running, OWN).await;
        let headers: Vec<_> = UPGRADE.into_iter().filter(|it| it.0 != missing).collect();
        let answer = client
            .send("GET", CLIENT_SESSION_PATH, &headers, None)
            .await;
        let detail = answer.problem(400)["detail"].as_str().unwrap().to_owned();
        let lines = [
            "proxy_http_version 1.1;",
            "proxy_set_header Upgrade $http_upgrade;",
            "proxy_set_header Connection",
        ];
        for part in parts.iter().chain(&lines) {
            assert!(detail.contains(part), "{part}: {detail}");
        }
    }
}

#[tokio::test]
async fn a_proxy_that_speaks_http_1_0_is_told_the_version() {
    let running = running().await;
    let portal = &running.portal;
    let from = std::net::Ipv4Addr::LOCALHOST;
    let mut stream = crate::support::tls_stream(from, portal.address(), portal).await;
    let headers: String = UPGRADE
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let request = format!("GET {CLIENT_SESSION_PATH} HTTP/1.0\r\nhost: {OWN}\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.contains(" 400 "), "{answer}");
    assert!(answer.contains("HTTP/1.0"), "{answer}");
    assert!(answer.contains("proxy_http_version 1.1;"), "{answer}");
}

#[tokio::test]
async fn plain_http_gets_a_short_answer_that_says_https() {
    let running = running().await;
    for request in [
        "GET / HTTP/1.1\r\nhost: portal.example\r\n\r\n".to_owned(),
        "HEAD / HTTP/1.0\r\n\r\n".to_owned(),
        "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        // An unread rest of the request must not reset the connection before the answer is read.
        format!(
            "POST /sign-in HTTP/1.1\r\nhost: a\r\ncontent-length: 40000\r\n\r\n{}",
            "x".repeat(40_000)
        ),
    ] {
        let mut stream = TcpStream::connect(running.portal.address()).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer);
        let first = request.lines().next();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{first:?}: {answer}");
        assert!(answer.contains("https://"), "{answer}");
    }
    // A client that speaks neither TLS nor HTTP gets no HTTP answer.
    let mut stream = TcpStream::connect(running.portal.address()).await.unwrap();
    stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}
