//! No log has a secret.

use crate::browser::{Browser, PASSWORD, person};
use crate::factors::enrol;
use crate::logs::{TIMEOUT, flows, log_access};
use crate::support::{Answer, Client, Running, api_token};
use culvert_store::Role;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{sleep, timeout};

const LOGS: [&str; 3] = ["access", "changes", "flows"];

async fn made(owner: &mut Client, path: &str, body: Value) -> Value {
    let answer: Answer = owner.post(path, body).await;
    answer.expect(201).json()
}

/// Those that people prove themselves by.
async fn of_people(running: &Running) -> Vec<String> {
    let (_, name) = person(running, Role::Admin).await;
    let mut browser = Browser::open(running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let (app, codes) = enrol(&mut browser).await;
    let mut secrets = vec![
        PASSWORD.to_owned(),
        data_encoding::BASE32_NOPAD.encode(&app.secret),
        browser.cookie.unwrap(),
    ];
    assert_eq!(codes.len(), 10);
    secrets.extend(codes);
    secrets
}

/// Secrets of machines and of other systems.
async fn of_machines(running: &Running, owner: &mut Client) -> Vec<String> {
    let mut secrets = vec![running.setup_token()];
    secrets.push(api_token(running.store.as_ref(), running.account(), Role::Admin).await);
    let site = made(owner, "/api/v1/sites", json!({"name": "office"})).await;
    let token = json!({"kind": "gateway", "site": site["id"], "name": "gateway"});
    let token = made(owner, "/api/v1/tokens", token).await;
    secrets.push(token["secret"].as_str().unwrap().to_owned());
    for (path, secret, body) in [
        (
            "/api/v1/providers",
            "planted-client-secret",
            json!({"name": "p", "issuer": "https://id.example", "client_id": "culvert",
                   "client_secret": "planted-client-secret"}),
        ),
        (
            "/api/v1/sinks",
            "planted-sink-token",
            json!({"token": "planted-sink-token", "sink": {
                "name": "away", "logs": LOGS,
                "target": {"kind": "http", "url": "http://127.0.0.1:1/"},
            }}),
        ),
    ] {
        made(owner, path, body).await;
        secrets.push(secret.to_owned());
    }
    let invited = json!({"name": "grace", "role": "user"});
    let invited = made(owner, "/api/v1/invitations", invited).await;
    let link = invited["link"].as_str().unwrap();
    secrets.push(link.rsplit('/').next().unwrap().to_owned());
    let device = json!({"machine": "laptop"});
    let device = made(owner, "/api/v1/device-sign-ins", device).await;
    secrets.push(device["device_code"].as_str().unwrap().to_owned());
    secrets
}

/// Waits until the sink has everything.
async fn is_even(owner: &mut Client, sink: &str) {
    let path = format!("/api/v1/sinks/{sink}");
    let even = async {
        loop {
            let shown = owner.get(&path).await.expect(200).json();
            let mut lags = shown["lag"].as_object().unwrap().values();
            if lags.all(|lag| lag == 0) {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(TIMEOUT, even).await.unwrap();
}

/// Secrets of every kind, planted where people, administrators and machines put them.
#[tokio::test]
async fn no_planted_secret_is_in_any_log_export_or_sink() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let target = json!({"kind": "file", "file": "all.jsonl", "max_mib": 1, "keep": 1});
    let sink = json!({"sink": {"name": "all", "logs": LOGS, "target": target}});
    made(&mut owner, "/api/v1/sinks", sink).await;
    let mut planted = of_machines(&running, &mut owner).await;
    planted.extend(of_people(&running).await);
    // Of tokens the part that proves something is behind the dot.
    let secrets: Vec<_> = planted
        .iter()
        .map(|secret| secret.rsplit('.').next().unwrap())
        .collect();
    assert!(
        secrets.iter().all(|secret| secret.len() >= 8),
        "{secrets:?}"
    );
    log_access(&running, 1).await;
    let append = running
        .store
        .append_flows(running.account(), vec![flows(1)]);
    append.await.unwrap();
    is_even(&mut owner, "all").await;
    let path = running.state.join("logs/all.jsonl");
    let mut texts = vec![std::fs::read_to_string(&path).unwrap()];
    for log in LOGS {
        assert!(texts[0].contains(&format!("\"log\":\"{log}\"")), "{log}");
        for rest in ["?limit=200", "/export/csv", "/export/jsonl"] {
            let path = format!("/api/v1/log/{log}{rest}");
            texts.push(owner.get(&path).await.expect(200).text);
        }
    }
    for text in texts {
        for secret in &secrets {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
}
