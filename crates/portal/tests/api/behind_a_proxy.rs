//! What a portal behind a reverse proxy says when the proxy passes on too little.

use crate::support::Running;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const URL: &str = "https://portal.example:8443";

async fn running() -> Running {
    Running::start_as(tempfile::tempdir().unwrap(), Some(URL)).await
}

#[tokio::test]
async fn plain_http_gets_a_short_answer_that_says_https() {
    let running = running().await;
    for request in [
        "GET / HTTP/1.1\r\nhost: portal.example\r\n\r\n".to_owned(),
        "HEAD / HTTP/1.0\r\n\r\n".to_owned(),
        "OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        // What is not read must not take the answer away.
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
    // Whoever speaks neither is not answered in HTTP.
    let mut stream = TcpStream::connect(running.portal.address()).await.unwrap();
    stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}
