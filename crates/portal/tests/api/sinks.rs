//! Sinks that are slow, silent, paused, or too late (docs/logs.md).

use crate::logs::{TIMEOUT, answer, asked, lines_of, log_access, reply};
use crate::support::{Client, Running};
use culvert_wire::Timestamp;
use culvert_wire::model::Log;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

async fn make(owner: &mut Client, name: &str, target: Value) {
    let sink = json!({"sink": {"name": name, "logs": ["access"], "target": target}});
    owner.post("/api/v1/sinks", sink).await.expect(201);
}

fn file(name: &str) -> Value {
    json!({"kind": "file", "file": name, "max_mib": 1, "keep": 1})
}

/// A sink that is an endpoint, and where it is asked.
async fn make_endpoint(owner: &mut Client, name: &str) -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    make(owner, name, json!({"kind": "http", "url": url})).await;
    listener
}

async fn pause(owner: &mut Client, name: &str, paused: bool) {
    let path = format!("/api/v1/sinks/{name}");
    let patch = json!({ "paused": paused });
    owner.patch(&path, "*", patch).await.expect(200);
}

async fn shown(owner: &mut Client, name: &str) -> Value {
    let path = format!("/api/v1/sinks/{name}");
    owner.get(&path).await.expect(200).json()
}

/// The numbers of the entries that a request has.
fn numbers(request: &str) -> Vec<u64> {
    let (_, body) = request.split_once("\r\n\r\n").unwrap();
    let lines = body.lines().map(serde_json::from_str);
    lines.map(|line| seq(&line.unwrap())).collect()
}

fn seq(line: &Value) -> u64 {
    line["seq"].as_u64().unwrap()
}

#[tokio::test]
async fn an_endpoint_gets_at_most_500_lines_at_once() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let listener = make_endpoint(&mut owner, "siem").await;
    log_access(&running, 1).await;
    // While it waits for this answer, much more comes.
    let (stream, first) = asked(&listener).await;
    assert_eq!(numbers(&first), [1]);
    log_access(&running, 1_100).await;
    reply(stream, "204 No Content").await;
    for wanted in [2..=501, 502..=1_001, 1_002..=1_101] {
        let request = answer(&listener, "204 No Content").await;
        assert_eq!(numbers(&request), wanted.collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn an_endpoint_that_never_answers_holds_up_no_other_sink_and_no_log() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let listener = make_endpoint(&mut owner, "silent").await;
    make(&mut owner, "file", file("beside.jsonl")).await;
    log_access(&running, 3).await;
    let (_waits, request) = asked(&listener).await;
    let taken = numbers(&request).len();
    assert!((1..=3).contains(&taken), "{request}");
    log_access(&running, 3).await;
    let path = running.state.join("logs/beside.jsonl");
    lines_of(&path, 6).await;
    // It still waits for the answer: had it given up, it would say so.
    let silent = shown(&mut owner, "silent").await;
    assert_eq!(
        (&silent["error"], &silent["lag"]["access"]),
        (&Value::Null, &json!(6)),
        "{silent}"
    );
}

#[tokio::test]
async fn a_sinks_token_is_changed_by_whoever_has_seen_its_version_alone() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let _listener = make_endpoint(&mut owner, "siem").await;
    let has_token = async |owner: &mut Client| shown(owner, "siem").await["has_token"] == true;
    let version = shown(&mut owner, "siem").await["version"].to_string();
    let token = json!({"token": "of-the-sink"});
    let late = owner
        .patch("/api/v1/sinks/siem", "\"999\"", token.clone())
        .await;
    late.problem(412);
    assert!(!has_token(&mut owner).await);
    let if_match = format!("\"{version}\"");
    let set = owner.patch("/api/v1/sinks/siem", &if_match, token).await;
    set.expect(200);
    assert!(has_token(&mut owner).await);
}

#[tokio::test]
async fn what_was_forgotten_before_a_sink_took_it_is_counted() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let listener = make_endpoint(&mut owner, "siem").await;
    log_access(&running, 1).await;
    let (stream, _) = asked(&listener).await;
    log_access(&running, 5).await;
    let (store, account) = (&running.store, running.account());
    let any_age = Timestamp::from_unix_ms(0);
    let forgotten = store.prune_log(account, Log::Access, any_age, 2);
    assert_eq!(forgotten.await.unwrap(), 4);
    // Pruned entries that the sink did not take are lost to it.
    reply(stream, "503 Service Unavailable").await;
    let request = answer(&listener, "204 No Content").await;
    assert_eq!(numbers(&request), [5, 6]);
    let counted = async {
        loop {
            let siem = shown(&mut owner, "siem").await;
            if siem["delivered"] == 2 {
                return siem;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let siem = timeout(TIMEOUT, counted).await.unwrap();
    assert_eq!(siem["missed"], 4, "{siem}");
}

#[tokio::test]
async fn a_sink_that_is_paused_gets_nothing_and_goes_on_without_a_gap() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    make(&mut owner, "archive", file("archive.jsonl")).await;
    let archive = running.state.join("logs/archive.jsonl");
    log_access(&running, 3).await;
    lines_of(&archive, 3).await;
    pause(&mut owner, "archive", true).await;
    // An entry at a later sink shows that the earlier changes hold too.
    make(&mut owner, "later", file("later.jsonl")).await;
    log_access(&running, 1).await;
    lines_of(&running.state.join("logs/later.jsonl"), 1).await;
    log_access(&running, 20).await;
    lines_of(&running.state.join("logs/later.jsonl"), 21).await;
    let before = lines_of(&archive, 3).await;
    assert!(before.len() <= 4, "{before:?}");
    pause(&mut owner, "archive", false).await;
    let lines = lines_of(&archive, 24).await;
    let lines: Vec<_> = lines.iter().map(seq).collect();
    assert_eq!(lines, (1..=24).collect::<Vec<_>>());
    let shown = shown(&mut owner, "archive").await;
    assert_eq!(shown["missed"], 0, "{shown}");
}
