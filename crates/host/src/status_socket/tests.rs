use super::*;
use crate::MAX_TOKEN_FILE_BYTES;
use crate::request_places::MAX_CONNECTIONS_PER_USER;
use crate::watching::Watchers;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

fn form<S>(schema_version: u32) -> SocketForm<S> {
    SocketForm {
        schema_version,
        restricted: None,
        log: None,
    }
}

/// All that comes back for `bytes`, after which this end says nothing more.
async fn answer_to(path: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_request_that_is_not_understood_says_how_to_ask() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run/client.sock");
    let (requests, _received) = mpsc::channel::<StatusRequest<u8>>(1);
    let _socket = StatusSocket::bind(&path, form(1), requests, Watchers::new().door()).unwrap();
    for (line, expected, code) in [
        ("hello\n", "write a line", "not_a_request"),
        (
            "{\"schema_version\":9,\"request\":\"status\"}\n",
            "schema_version 9",
            "schema_version",
        ),
        (
            "{\"schema_version\":1,\"request\":{\"ask\":\"web\"}}\n",
            "write a line",
            "not_a_request",
        ),
    ] {
        let answer = answer_to(&path, line.as_bytes()).await;
        assert!(answer.contains(expected), "{answer}");
        let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["code"], code, "{answer}");
    }
}

#[tokio::test]
async fn a_request_that_is_too_long_hears_the_limit_and_a_silent_one_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("client.sock");
    let (requests, _received) = mpsc::channel::<StatusRequest<u8, Command>>(1);
    let _socket = StatusSocket::bind(&path, form(1), requests, Watchers::new().door()).unwrap();
    let asked = answer_to(&path, &[b'x'; 5121]).await;
    let expected = r#"{"error":"the request is longer than 5120 bytes, which is the limit","code":"request_too_long"}"#;
    assert_eq!(asked, format!("{expected}\n"));
    assert!(
        answer_to(&path, &[b'x'; 5120])
            .await
            .contains("not_a_request")
    );
    assert_eq!(answer_to(&path, b"").await, "");
    // The end of the request is never read.
    let longer = Command::Say("x".repeat(1_000_000));
    let asked = ask::<u8, Command>(&path, "client", 1, longer).await;
    assert_eq!(asked.unwrap_err().code(), Some(ErrorCode::RequestTooLong));
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    Status,
    Say(String),
    Log,
}

impl Request for Command {
    const STATUS: Self = Self::Status;

    fn is_change(&self) -> bool {
        matches!(self, Self::Say(_) | Self::Log)
    }

    fn is_log(&self) -> bool {
        matches!(self, Self::Log)
    }
}

#[tokio::test]
async fn a_command_arrives_as_it_was_given_and_is_answered_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("client.sock");
    let (requests, mut received) = mpsc::channel::<StatusRequest<u8, Command>>(1);
    let _socket = StatusSocket::bind(&path, form(1), requests, Watchers::new().door()).unwrap();
    let longest = "x".repeat(MAX_TOKEN_FILE_BYTES);
    for (command, expected) in [
        (Command::Status, Ok(7)),
        (Command::Say(longest), Ok(8)),
        (
            Command::Say("no".to_owned()),
            Err(ErrorCode::SignedOut.because("not now")),
        ),
    ] {
        let answering = async {
            let asked = received.recv().await.unwrap();
            assert_eq!(asked.request, command);
            assert_eq!(asked.peer.unwrap().pid, std::process::id());
            assert!(asked.process.unwrap().is_running());
            asked.answer.send(expected.clone()).unwrap();
        };
        let asking = ask::<u8, Command>(&path, "client", 1, command.clone());
        let (answered, ()) = tokio::join!(asking, answering);
        match expected {
            Ok(state) => assert_eq!(answered.unwrap(), state),
            Err(why) => {
                let error = answered.unwrap_err();
                assert_eq!(error.to_string(), "the client answers: not now");
                assert_eq!(error.code(), Some(why.code));
            }
        }
    }
}

#[tokio::test]
async fn a_socket_that_nobody_answers_at_is_replaced_and_a_live_one_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("client.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (requests, _received) = mpsc::channel::<StatusRequest<u8>>(1);
    let first =
        StatusSocket::bind(&path, form(1), requests.clone(), Watchers::new().door()).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let second = StatusSocket::bind(&path, form(1), requests, Watchers::new().door()).unwrap_err();
    assert!(matches!(second, HostError::SocketInUse { .. }));
    drop(first);
    assert!(!path.exists());
    let asked = ask::<u8, OnlyStatus>(&path, "client", 1, OnlyStatus::Status).await;
    let error = asked.unwrap_err();
    assert!(matches!(error, StatusError::NotRunning { .. }), "{error}");
    assert!(error.to_string().contains("culvert client run"));
}

#[tokio::test]
async fn who_asks_is_answered_and_hears_of_another_version() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("gateway.sock");
    let (requests, mut received) = mpsc::channel::<StatusRequest<Vec<u8>>>(1);
    let _socket = StatusSocket::bind(&path, form(2), requests, Watchers::new().door()).unwrap();
    let answering = async {
        let request = received.recv().await.unwrap();
        request.answer.send(Ok(vec![7, 8])).unwrap();
    };
    let (asked, ()) = tokio::join!(
        ask::<Vec<u8>, OnlyStatus>(&path, "gateway", 2, OnlyStatus::Status),
        answering
    );
    assert_eq!(asked.unwrap(), [7, 8]);
    let asked = ask::<Vec<u8>, OnlyStatus>(&path, "gateway", 1, OnlyStatus::Status).await;
    let error = asked.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::SchemaVersion));
    assert!(
        error
            .to_string()
            .starts_with("the gateway answers: schema_version 1"),
        "{error}"
    );
}

#[tokio::test]
async fn who_asks_is_answered_beside_silent_connections() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("client.sock");
    let (requests, mut received) = mpsc::channel::<StatusRequest<u8>>(1);
    let _socket = StatusSocket::bind(&path, form(1), requests, Watchers::new().door()).unwrap();
    let mut silent = Vec::new();
    for _ in 1..MAX_CONNECTIONS_PER_USER {
        silent.push(UnixStream::connect(&path).await.unwrap());
    }
    let answering = async {
        let asked = received.recv().await.unwrap();
        asked.answer.send(Ok(7)).unwrap();
    };
    let asking = ask::<u8, OnlyStatus>(&path, "client", 1, OnlyStatus::Status);
    let (asked, ()) = tokio::join!(asking, answering);
    assert_eq!(asked.unwrap(), 7);
    silent.push(UnixStream::connect(&path).await.unwrap());
    let asked = ask::<u8, OnlyStatus>(&path, "client", 1, OnlyStatus::Status).await;
    let error = asked.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::TooManyRequests));
    assert!(
        error
            .to_string()
            .contains("requests of this user are under way"),
        "{error}"
    );
}

#[tokio::test]
async fn the_last_lines_of_the_log_are_told_if_there_are_any() {
    let directory = tempfile::tempdir().unwrap();
    let (requests, _received) = mpsc::channel::<StatusRequest<u8, Command>>(1);
    let log = Arc::new(RecentLog::default());
    log.append("INFO began");
    for (name, log) in [("with", Some(log)), ("without", None)] {
        let path = directory.path().join(name);
        let form = SocketForm { log, ..form(1) };
        let door = Watchers::new().door();
        let _socket = StatusSocket::bind(&path, form, requests.clone(), door).unwrap();
        match ask_log(&path, "client", 1, Command::Log).await {
            Ok(lines) => assert_eq!((name, &*lines), ("with", &["INFO began".to_owned()][..])),
            Err(error) => {
                assert_eq!(
                    (name, error.code()),
                    ("without", Some(ErrorCode::NoLog)),
                    "{error}"
                );
            }
        }
    }
}
