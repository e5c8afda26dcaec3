use crate::support::{Running, api_token, read_metrics, tls_stream};
use culvert_store::Role;
use serde_json::json;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The time in which the portal must find its database again: its pause between attempts, with room
/// for a busy machine.
const FOUND_AGAIN_WITHIN: Duration = Duration::from_secs(30);

/// OZ GHSA-q8g9: a body without bounds, before anybody was asked who they are.
#[tokio::test]
async fn ghsa_q8g9_a_body_that_is_too_large_is_refused_before_anyone_is_asked_who_they_are() {
    let running = Running::start().await;
    for (path, limit) in [
        ("/api/v1/groups", 64 * 1024),
        ("/api/v1/setup", 64 * 1024),
        ("/api/v1/apply", 4 * 1024 * 1024),
        ("/nowhere", 64 * 1024),
    ] {
        let mut stranger = running.client().await;
        let body = vec![b' '; limit + 1];
        let headers = [("content-type", "application/json")];
        let answer = stranger.send("POST", path, &headers, Some(body)).await;
        let problem = answer.problem(413);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&limit.to_string()), "{detail}");
    }
}

#[tokio::test]
async fn a_body_up_to_the_bound_is_read() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let mut body = json!({"name": "staff"}).to_string().into_bytes();
    body.resize(64 * 1024, b' ');
    let headers = [("content-type", "application/json")];
    owner
        .send("POST", "/api/v1/groups", &headers, Some(body))
        .await
        .expect(201);
}

#[tokio::test]
async fn whoever_asks_too_often_is_told_when_to_come_back() {
    let running = Running::start().await;
    let mut stranger = running.client().await;
    let mut refused = None;
    // The bound is 500 at once and 50 a second; a machine that sends slower than that has no need
    // of it.
    for _ in 0..20_000 {
        let answer = stranger.get("/api/v1/groups").await;
        if answer.status == 429 {
            refused = Some(answer);
            break;
        }
        answer.expect(401);
    }
    let refused = refused.expect("a limit");
    let wait: u64 = refused.header("retry-after").parse().unwrap();
    assert!(wait >= 1);
    refused.problem(429);
}

/// The hello of OpenSSL 3.0 to `localhost` with TLS 1.2 as its newest version, and a cipher suite of TLS 1.2 that goes with the
/// portal's certificate.
const HELLO_OF_TLS_1_2: &[u8] = b"\x16\x03\x01\x00\x95\x01\x00\x00\x91\x03\x03\x18\x6d\x21\xba\x6f\
\xde\x01\x5a\xfd\xe7\x87\x0d\x37\x05\x13\x41\x7d\xc3\xa3\xa3\x05\x67\x5f\x15\xc9\xa6\xd0\xbb\xce\
\x22\xe7\x41\x00\x00\x04\xc0\x2b\x00\xff\x01\x00\x00\x64\x00\x00\x00\x0e\x00\x0c\x00\x00\x09\
localhost\x00\x0b\x00\x04\x03\x00\x01\x02\x00\x0a\x00\x0c\x00\x0a\x00\x1d\x00\x17\x00\x1e\x00\x19\
\x00\x18\x00\x23\x00\x00\x00\x16\x00\x00\x00\x17\x00\x00\x00\x0d\x00\x2a\x00\x28\x04\x03\x05\x03\
\x06\x03\x08\x07\x08\x08\x08\x09\x08\x0a\x08\x0b\x08\x04\x08\x05\x08\x06\x04\x01\x05\x01\x06\x01\
\x03\x03\x03\x01\x03\x02\x04\x02\x05\x02\x06\x02";

/// A fatal alert, `protocol_version` (RFC 8446 §6.2).
const WRONG_VERSION: &[u8] = &[21, 3, 3, 0, 2, 2, 70];

#[tokio::test]
async fn nothing_but_tls_1_3_is_spoken() {
    let running = Running::start().await;
    // Our own client says that it speaks TLS 1.3, and is served.
    running.client().await.get("/healthz").await.expect(200);
    let request = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
    // Plain HTTP is told to use TLS, and gets nothing else.
    let told: &[u8] = b"HTTP/1.1 400 Bad Request\r\n";
    for (said, answer) in [(HELLO_OF_TLS_1_2, WRONG_VERSION), (&request[..], told)] {
        let mut stream = TcpStream::connect(running.portal.address()).await.unwrap();
        stream.write_all(said).await.unwrap();
        let mut answered = Vec::new();
        // A reset may answer bytes that are no TLS.
        let _ = stream.read_to_end(&mut answered).await;
        assert!(answered.starts_with(answer), "{answered:?}");
    }
}

/// A request with a body in chunks that has no end, sent until there is an answer.
async fn send_without_end(running: &Running, head: &str) -> String {
    let address = running.portal.address();
    let stream = tls_stream(Ipv4Addr::LOCALHOST, address, &running.portal).await;
    let (mut reader, mut writer) = tokio::io::split(stream);
    let head = format!("{head}host: localhost\r\ntransfer-encoding: chunked\r\n\r\n");
    writer.write_all(head.as_bytes()).await.unwrap();
    let endless = tokio::spawn(async move {
        let chunk = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
        // The portal may close the connection.
        while writer.write_all(chunk.as_bytes()).await.is_ok() {}
    });
    let mut status = [0; 12];
    let answered = tokio::time::timeout(ANSWERED_WITHIN, reader.read_exact(&mut status)).await;
    answered.expect("an answer").unwrap();
    endless.abort();
    String::from_utf8_lossy(&status[9..]).into_owned()
}

/// For how long an answer is waited for, on a busy machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_body_without_end_is_not_read_to_it_whoever_sends_it() {
    let running = Running::start().await;
    let token = api_token(running.store.as_ref(), running.account(), Role::Owner).await;
    let json = "content-type: application/json\r\n";
    let known = format!("authorization: Bearer {token}\r\n{json}");
    let form = "content-type: application/x-www-form-urlencoded\r\norigin: https://localhost\r\n";
    for (path, headers, status) in [
        // Nobody who is not known makes the portal read a body, but by what strangers may send.
        ("/api/v1/groups", json, "401"),
        ("/api/v1/apply", json, "401"),
        ("/api/v1/setup", json, "401"),
        ("/api/v1/device-sign-ins", json, "413"),
        ("/sign-in", form, "413"),
        ("/api/v1/groups", &known, "413"),
        ("/api/v1/apply", &known, "413"),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\n{headers}");
        assert_eq!(send_without_end(&running, &head).await, status, "{head}");
    }
}

#[tokio::test]
async fn health_and_metrics_tell_what_is_so() {
    let running = Running::start().await;
    let mut stranger = running.client().await;
    assert_eq!(stranger.get("/healthz").await.expect(200).text, "alive\n");
    stranger.get("/metrics").await.problem(401);
    let mut auditor = running.with_role(Role::Auditor).await;
    auditor.get("/api/v1/groups/x").await.problem(404);
    let metrics = auditor.get("/metrics").await.expect(200);
    for line in [
        "culvert_portal_requests_total{route=\"/api/v1/groups/{id}\",method=\"GET\",status=\"404\"} 1",
        "culvert_portal_requests_total{route=\"/healthz\",method=\"GET\",status=\"200\"} 1",
        "culvert_portal_store_duration_seconds_count{operation=\"authenticate\"}",
    ] {
        assert!(metrics.text.contains(line), "{line}: {}", metrics.text);
    }
    // On the listener of its own, whoever reaches it may read.
    let answer = read_metrics(&running).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert!(answer.contains("culvert_portal_ready"), "{answer}");
}

#[tokio::test]
async fn a_portal_whose_database_is_gone_is_not_ready_but_alive() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    running.store.close().await;
    owner.get("/healthz").await.expect(200);
    let answer = owner.get("/readyz").await.expect(503);
    assert!(answer.text.contains("database"), "{}", answer.text);
    let problem = owner.get("/api/v1/groups").await.problem(503);
    assert!(
        !problem.to_string().contains("sqlite"),
        "the asker need not know: {problem}"
    );
}

#[tokio::test]
async fn a_portal_whose_database_was_taken_away_acknowledges_nothing_and_is_not_ready() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    owner.get("/readyz").await.expect(200);
    let file = running.state.join("portal.db");
    let aside = running.state.join("aside");
    std::fs::rename(&file, &aside).unwrap();
    let answer = owner.get("/readyz").await.expect(503);
    assert!(answer.text.contains("database"), "{}", answer.text);
    let path = running.state.display().to_string();
    assert!(!answer.text.contains(&path), "{}", answer.text);
    let group = serde_json::json!({"name": "staff"});
    let refused = owner.post("/api/v1/groups", group.clone()).await;
    refused.problem(503);
    std::fs::rename(&aside, &file).unwrap();
    // The watcher of the change log asks at its own times, and may have failed meanwhile.
    tokio::time::timeout(FOUND_AGAIN_WITHIN, async {
        while owner.get("/readyz").await.status != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("ready again once the database is back");
    owner.post("/api/v1/groups", group).await.expect(201);
}

#[tokio::test]
async fn every_answer_forbids_keeping_framing_and_sniffing() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    for path in [
        "/healthz",
        "/api/v1/groups",
        "/nowhere",
        "/api/v1/openapi.json",
    ] {
        let answer = owner.get(path).await;
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert!(answer.header("content-security-policy").contains("'none'"));
        assert_eq!(answer.header("access-control-allow-origin"), "");
        assert_eq!(answer.header("x-request-id").len(), 16);
    }
}
