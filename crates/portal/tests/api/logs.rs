//! Logs: exported as they are filtered, kept as the account says, and sent to sinks.

use crate::browser::signed_in;
use crate::support::{Running, enrol_client, enrol_gateway, id_of, make_actor, now};
use culvert_ids::{ActorId, ClientId, GatewayId, GrantId, ResourceId};
use culvert_store::{AccessEntry, ActorKind, Decision, FlowBatch, FlowEntry, Role};
use culvert_wire::Timestamp;
use culvert_wire::messages::FlowEnd;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// The time limit for anything that the portal does by itself.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

fn access(number: u64, reason: &str) -> AccessEntry {
    AccessEntry {
        // The later, the larger the number.
        at: Timestamp::from_unix_ms(now().unix_ms() - 60_000 + number),
        client: ClientId::from_bytes([1; 16]),
        actor: Some(ActorId::from_bytes([2; 16])),
        resource: ResourceId::from_bytes([3; 16]),
        gateway: None,
        policy: None,
        grant: None,
        decision: match number % 2 {
            0 => Decision::Denied,
            _ => Decision::Granted,
        },
        reason: reason.to_owned(),
    }
}

pub(crate) async fn log_access(running: &Running, count: u64) {
    log_access_for(running, count, "a reason").await;
}

pub(crate) async fn log_access_for(running: &Running, count: u64, reason: &str) {
    for batch in (0..count).collect::<Vec<_>>().chunks(500) {
        let entries = batch.iter().map(|number| access(*number, reason));
        let append = running
            .store
            .append_access_log(running.account(), entries.collect());
        append.await.unwrap();
    }
}

pub(crate) fn flows(count: u16) -> FlowBatch {
    let flow = |port| FlowEntry {
        at: now(),
        started: now(),
        client: ClientId::from_bytes([1; 16]),
        actor: None,
        resource: ResourceId::from_bytes([3; 16]),
        grant: GrantId::from_bytes([4; 16]),
        protocol: 6,
        address: "192.0.2.1".parse().unwrap(),
        inbound: false,
        port,
        application: None,
        path: None,
        relay: None,
        sent_bytes: 1_000,
        sent_packets: 2,
        received_bytes: 3_000,
        received_packets: 4,
        end: FlowEnd::Policy,
    };
    FlowBatch {
        gateway: GatewayId::from_bytes([5; 16]),
        run: 1,
        batch: 1,
        lost: 0,
        flows: (1..=count).map(flow).collect(),
    }
}

#[tokio::test]
async fn an_export_has_every_entry_that_the_filter_leaves() {
    let running = Running::start().await;
    // More than two pages.
    log_access(&running, 501).await;
    let mut owner = running.owner().await;
    let csv = owner.get("/api/v1/log/access/export/csv").await.expect(200);
    assert!(csv.header("content-type").starts_with("text/csv"));
    assert!(csv.header("content-disposition").contains("access-log.csv"));
    let lines: Vec<_> = csv.text.lines().collect();
    assert_eq!(lines.len(), 1 + 501);
    assert!(lines[0].starts_with("seq,at,decision,actor,client,resource"));
    assert!(lines[1].starts_with("501,") && lines[501].starts_with("1,"));
    let path = "/api/v1/log/access/export/jsonl?decision=denied";
    let json = owner.get(path).await.expect(200);
    let entries: Vec<Value> = json
        .text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(entries.len(), 251);
    assert!(entries.iter().all(|entry| entry["decision"] == "denied"));
    // The file has the same entries as a page of the API.
    let page = owner
        .get("/api/v1/log/access?decision=denied&limit=5")
        .await;
    assert_eq!(page.json()["items"].as_array().unwrap()[..], entries[..5]);
    owner
        .get("/api/v1/log/access/export/xlsx")
        .await
        .problem(404);
    let actor = ActorId::from_bytes([9; 16]);
    let path = format!("/api/v1/log/access/export/jsonl?actor={actor}");
    assert_eq!(owner.get(&path).await.expect(200).text, "");
}

#[tokio::test]
async fn an_exported_line_has_the_names_of_what_it_speaks_of_and_the_ids_of_what_is_gone() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let mut owner = running.owner().await;
    let site = owner.post("/api/v1/sites", json!({"name": "Bonn"})).await;
    let site = id_of(&site.expect(201).json());
    let body = json!({
        "site": site, "name": "Wiki", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let resource = owner.post("/api/v1/resources", body).await.expect(201);
    let resource = id_of(&resource.json()).parse().unwrap();
    let (gateway, _) = enrol_gateway(store, account, site.parse().unwrap()).await;
    let actor = make_actor(store, account, ActorKind::User).await;
    let (client, _) = enrol_client(store, account, actor).await;
    let there = AccessEntry {
        client,
        resource,
        gateway: Some(gateway),
        ..access(0, "here")
    };
    let gone = AccessEntry {
        gateway: Some(GatewayId::from_bytes([5; 16])),
        ..access(0, "gone")
    };
    let append = store.append_access_log(account, vec![there, gone.clone()]);
    append.await.unwrap();
    let csv = owner.get("/api/v1/log/access/export/csv").await.expect(200);
    let named = |line: usize| -> Vec<String> {
        let line = csv.text.lines().nth(line).unwrap();
        let values = line
            .split(',')
            .map(|value| value.trim_matches('"').to_owned());
        // The client, the resource and the gateway.
        values.skip(4).take(3).collect()
    };
    let names = [
        format!("client {client}"),
        "Wiki".to_owned(),
        format!("gateway {gateway}"),
    ];
    assert_eq!(named(2), names);
    let ids = [
        gone.client.to_string(),
        gone.resource.to_string(),
        gone.gateway.unwrap().to_string(),
    ];
    assert_eq!(named(1), ids);
}

#[tokio::test]
async fn flows_are_listed_filtered_and_exported() {
    let running = Running::start().await;
    let append = running
        .store
        .append_flows(running.account(), vec![flows(3)]);
    append.await.unwrap();
    let mut owner = running.owner().await;
    let page = owner.get("/api/v1/log/flows?end=policy&limit=2").await;
    let page = page.expect(200).json();
    let first = &page["items"][0];
    assert_eq!(
        (&first["port"], &first["protocol"]),
        (&json!(3), &json!("tcp"))
    );
    assert_eq!(first["application"], Value::Null);
    let next = page["next_cursor"].as_str().unwrap();
    let path = format!("/api/v1/log/flows?cursor={next}");
    assert_eq!(owner.get(&path).await.json()["items"][0]["port"], 1);
    let csv = owner.get("/api/v1/log/flows/export/csv").await.expect(200);
    assert_eq!(csv.text.lines().count(), 4);
    let mut echo = flows(1);
    echo.batch = 2;
    (echo.flows[0].protocol, echo.flows[0].port) = (1, 0);
    let append = running.store.append_flows(running.account(), vec![echo]);
    append.await.unwrap();
    let page = owner.get("/api/v1/log/flows?limit=1").await.expect(200);
    let of_no_port = &page.json()["items"][0];
    assert_eq!(of_no_port["protocol"], "icmp");
    assert_eq!(of_no_port["port"], Value::Null);
    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = browser.get("/log/flows").await.expect(200).text;
    assert!(page.contains("tcp 192.0.2.1 port 3") && page.contains("3.0 kB"));
    assert!(page.contains("There is no flow log"), "it is off: {page}");
    assert!(page.contains("/log/flows/export/csv"));
}

#[tokio::test]
async fn the_console_draws_what_happened_and_says_it_in_words() {
    let running = Running::start().await;
    log_access(&running, 10).await;
    let traffic = vec![(now(), 60_000_000)];
    let traffic = running.store.record_traffic(running.account(), traffic);
    traffic.await.unwrap();
    let mut owner = running.owner().await;
    let activity = owner.get("/api/v1/activity?span=week").await.expect(200);
    let steps = activity.json()["steps"].as_array().unwrap().clone();
    assert_eq!(steps.len(), 84);
    assert_eq!(
        steps[83]["denied"].as_u64().unwrap() + steps[82]["denied"].as_u64().unwrap(),
        5
    );
    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = browser.get("/?span=day").await.expect(200).text;
    assert!(page.contains("<svg") && !page.contains("style="), "{page}");
    assert!(page.contains("Throughput of the last day: 60.0 MB in all"));
    assert!(page.contains("Denied requests of the last day: 5 in all"));
    assert!(page.contains("Denied requests as a table"));
    let page = browser.get("/log/access").await.expect(200).text;
    assert!(page.contains("Denied requests of the last hour"));
}

#[tokio::test]
async fn what_is_kept_is_changed_by_those_who_may_and_is_in_the_change_log() {
    let running = Running::start().await;
    let mut admin = running.with_role(Role::Admin).await;
    let shown = admin.get("/api/v1/retention").await.expect(200);
    assert_eq!(shown.json()["flow_log"], false);
    let etag = shown.header("etag").to_owned();
    let body = json!({"flow_log": true, "access": {"days": 7, "entries": 1000}});
    let changed = admin.patch("/api/v1/retention", &etag, body.clone()).await;
    assert_eq!(changed.expect(200).json()["access"]["days"], 7);
    admin
        .patch("/api/v1/retention", &etag, body)
        .await
        .problem(412);
    // Those whom the change log watches do not shorten it.
    let body = json!({"change_days": 90});
    admin
        .patch("/api/v1/retention", "*", body.clone())
        .await
        .problem(403);
    let mut owner = running.owner().await;
    owner
        .patch("/api/v1/retention", "*", body)
        .await
        .expect(200);
    let body = json!({"change_days": 1});
    owner
        .patch("/api/v1/retention", "*", body)
        .await
        .problem(422);
    let log = owner
        .get("/api/v1/log/changes?entity=account&limit=1")
        .await;
    let entry = &log.json()["items"][0];
    assert_eq!(
        entry["before"]["settings"]["logs"]["change_days"],
        Value::Null
    );
    assert_eq!(entry["after"]["settings"]["logs"]["change_days"], 90);
    // 0 days keep the change log for good.
    let body = json!({"change_days": 0});
    let changed = owner.patch("/api/v1/retention", "*", body).await;
    assert_eq!(changed.expect(200).json()["change_days"], 0);
    let mut browser = signed_in(&running, Role::Owner).await;
    let fields = [
        ("flow_log", "yes"),
        ("access_days", "0"),
        ("access_entries", "5000"),
        ("flows_days", "5"),
        ("flows_entries", "5000"),
        ("version", "1"),
    ];
    let page = browser.submit("/settings/retention", &fields).await;
    assert!(page.expect(409).text.contains("Somebody else changed"));
}

/// Waits until the portal has written so many lines.
pub(crate) async fn lines_of(path: &std::path::Path, count: usize) -> Vec<Value> {
    let read = async {
        loop {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            if text.lines().count() >= count {
                return text;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    let text = timeout(TIMEOUT, read).await.unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn a_file_gets_what_comes_and_goes_on_after_a_restart_without_a_gap() {
    let running = Running::start().await;
    log_access(&running, 3).await;
    let mut owner = running.owner().await;
    let target = json!({"kind": "file", "file": "access.jsonl", "max_mib": 1, "keep": 2});
    let sink = json!({"sink": {"name": "file", "logs": ["access"], "target": target}});
    owner.post("/api/v1/sinks", sink.clone()).await.expect(201);
    owner.post("/api/v1/sinks", sink).await.problem(422);
    let tried = owner.post("/api/v1/sinks/file/test", json!(null)).await;
    assert_eq!(tried.expect(200).json()["taken"], true);
    log_access(&running, 600).await;
    let path = running.state.join("logs/access.jsonl");
    let lines = lines_of(&path, 601).await;
    assert_eq!(lines[0]["log"], "test");
    let numbers = |lines: &[Value]| -> Vec<u64> {
        let of_log = lines.iter().filter(|line| line["log"] == "access");
        of_log.map(|line| line["seq"].as_u64().unwrap()).collect()
    };
    assert_eq!(numbers(&lines), (4..=603).collect::<Vec<_>>());
    let shown = owner.get("/api/v1/sinks/file").await.expect(200).json();
    assert_eq!(shown["has_token"], false);
    drop(owner);
    // Entries that are logged while nobody sends are not lost.
    let account = running.account();
    let store = std::sync::Arc::clone(&running.store);
    running.portal.stop().await;
    let entries = vec![access(1, "while it was away")];
    store.append_access_log(account, entries).await.unwrap();
    store.close().await;
    let dir = running.state.clone();
    drop(store);
    let options = culvert_portal::Options::new("127.0.0.1:0".parse().unwrap());
    let home = culvert_portal::Home::open(&dir).unwrap();
    let database = culvert_store_sql::SqliteOptions::file(home.database_path());
    let store = culvert_store_sql::SqlStore::open(&database).await.unwrap();
    let store: std::sync::Arc<dyn culvert_store::Store> = std::sync::Arc::new(store);
    let portal = culvert_portal::Portal::start(options, home, std::sync::Arc::clone(&store));
    let portal = portal.await.unwrap();
    let lines = lines_of(&path, 602).await;
    assert_eq!(numbers(&lines).last(), Some(&604));
    let distinct: std::collections::BTreeSet<_> = numbers(&lines).into_iter().collect();
    assert_eq!(distinct.len(), 601, "none is missing");
    portal.stop().await;
    store.close().await;
}

/// Answers one request with a status, and returns what was asked.
pub(crate) async fn answer(listener: &TcpListener, status: &str) -> String {
    let (stream, text) = asked(listener).await;
    reply(stream, status).await;
    text
}

/// The next request, whole, and where its answer is waited for.
pub(crate) async fn asked(listener: &TcpListener) -> (TcpStream, String) {
    let asked = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut text = Vec::new();
        loop {
            let mut part = [0; 4096];
            let len = stream.read(&mut part).await.unwrap();
            text.extend_from_slice(&part[..len]);
            let so_far = String::from_utf8_lossy(&text).into_owned();
            let Some((head, body)) = so_far.split_once("\r\n\r\n") else {
                continue;
            };
            let wanted = head.to_ascii_lowercase();
            let wanted = wanted.split_once("content-length: ").unwrap().1;
            let wanted: usize = wanted.lines().next().unwrap().trim().parse().unwrap();
            if body.len() >= wanted {
                break;
            }
        }
        (stream, String::from_utf8(text).unwrap())
    };
    timeout(TIMEOUT, asked).await.unwrap()
}

pub(crate) async fn reply(mut stream: TcpStream, status: &str) {
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
}

#[tokio::test]
async fn an_endpoint_gets_the_same_lines_again_until_it_takes_them_and_its_token_is_never_shown() {
    const TOKEN: &str = "planted-sink-secret";
    let running = Running::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    let mut owner = running.owner().await;
    let sink = json!({
        "sink": {"name": "siem", "logs": ["access"], "target": {"kind": "http", "url": url}},
        "token": TOKEN,
    });
    let made = owner.post("/api/v1/sinks", sink).await.expect(201);
    assert_eq!(made.json()["has_token"], true);
    log_access(&running, 2).await;
    let refused = answer(&listener, "503 Service Unavailable").await;
    assert!(refused.starts_with("POST /in HTTP/1.1"));
    assert!(refused.contains(&format!("Bearer {TOKEN}")));
    let shown = async {
        loop {
            let shown = owner.get("/api/v1/sinks/siem").await.expect(200).json();
            if shown["error"].is_string() {
                return shown;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    let shown = timeout(TIMEOUT, shown).await.unwrap();
    assert!(shown["error"].as_str().unwrap().contains("503"), "{shown}");
    assert_eq!(shown["lag"]["access"], 2);
    let taken = answer(&listener, "204 No Content").await;
    let body = |text: &str| text.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body(&taken), body(&refused));
    assert_eq!(body(&taken).lines().count(), 2);
    // Nothing that is shown, logged or exported has the token, whatever happens to the sink.
    let patch = json!({"paused": true, "token": TOKEN});
    owner
        .patch("/api/v1/sinks/siem", "*", patch)
        .await
        .expect(200);
    let mut browser = signed_in(&running, Role::Owner).await;
    for path in [
        "/api/v1/sinks",
        "/api/v1/sinks/siem",
        "/api/v1/log/changes",
        "/api/v1/log/changes/export/csv",
        "/api/v1/log/changes/export/jsonl",
        "/api/v1/retention",
        "/api/v1/account",
    ] {
        let text = owner.get(path).await.expect(200).text;
        assert!(!text.contains(TOKEN), "{path}: {text}");
    }
    for path in ["/settings/sinks", "/log/changes"] {
        let text = browser.get(path).await.expect(200).text;
        assert!(!text.contains(TOKEN), "{path}: {text}");
    }
    owner.delete("/api/v1/sinks/siem").await.expect(204);
    owner.get("/api/v1/sinks/siem").await.problem(404);
}

#[tokio::test]
async fn a_sink_that_would_leak_or_write_elsewhere_is_refused() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let new = |target: Value, token: Value| json!({"sink": {"name": "x", "logs": ["access"], "target": target}, "token": token});
    let file = |name: &str| json!({"kind": "file", "file": name, "max_mib": 1, "keep": 1});
    let http = |url: &str| json!({"kind": "http", "url": url});
    for sink in [
        new(file("../portal.db"), json!(null)),
        new(file("/etc/passwd"), json!(null)),
        new(file("a"), json!("secret")),
        new(http("http://192.0.2.1/"), json!("secret")),
        new(http("https://me:pw@192.0.2.1/"), json!(null)),
        new(http("https://192.0.2.1/"), json!("two words")),
        new(http("file:///etc/passwd"), json!(null)),
    ] {
        owner.post("/api/v1/sinks", sink).await.problem(422);
    }
    assert_eq!(owner.get("/api/v1/sinks").await.json()["items"], json!([]));
}
