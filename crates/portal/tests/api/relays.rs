//! Relays by the API and the console: rows, sites and settings that name them, and those that are connected.

use crate::browser::signed_in;
use crate::console_pages::version_for;
use crate::live_machines::relay_with;
use crate::support::{Client, Running, enrol_relay, id_of};
use culvert_store::Role;
use culvert_wire::api::OwnRelayStatus;
use serde_json::{Value, json};
use tokio::sync::watch;

#[tokio::test]
async fn the_relay_beside_a_portal_is_told_with_its_problems_and_the_portal_is_ready_without_it() {
    let problem = "UDP port 3478 is taken by \"others\"";
    let relay = watch::Sender::new(OwnRelayStatus {
        ports: "3478 and 3479-3542".to_owned(),
        problems: vec![problem.to_owned()],
        ..OwnRelayStatus::default()
    });
    let running = Running::start_beside(relay.subscribe()).await;
    let mut owner = running.owner().await;
    let told = owner.get("/readyz").await.expect(200).text;
    assert_eq!(told, format!("ready\nrelay: {problem}\n"));
    let status = one(&mut owner, "/api/v1/status").await;
    assert_eq!(
        status["own_relay"],
        json!({"ready": false, "addresses": [], "ports": "3478 and 3479-3542", "problems": [problem]})
    );
    let mut browser = signed_in(&running, Role::Admin).await;
    let page = browser.get("/").await.expect(200).text;
    assert!(page.contains("The relay beside this portal: UDP port 3478 is taken"));
    assert!(page.contains("not ready"), "{page}");
    relay.send_modify(|relay| {
        relay.ready = true;
        relay.problems.clear();
    });
    let page = browser.get("/").await.expect(200).text;
    assert!(!page.contains("The relay beside this portal"));
    assert_eq!(owner.get("/readyz").await.expect(200).text, "ready\n");
}

async fn one(client: &mut Client, path: &str) -> Value {
    client.get(path).await.expect(200).json()
}

#[tokio::test]
async fn a_relay_is_listed_renamed_drained_revoked_and_deleted() {
    let running = Running::start().await;
    let (id, _) = enrol_relay(running.store.as_ref(), running.account()).await;
    let mut owner = running.owner().await;
    let list = one(&mut owner, "/api/v1/relays").await;
    assert_eq!(list["items"][0]["id"], id.to_string());
    assert_eq!(list["items"][0]["addresses"], json!(["192.0.2.9:3478"]));
    let path = format!("/api/v1/relays/{id}");
    let named = owner.patch(&path, "\"1\"", json!({"name": "frankfurt"}));
    assert_eq!(named.await.expect(200).json()["name"], "frankfurt");
    owner
        .patch(&path, "\"1\"", json!({"name": "late"}))
        .await
        .problem(412);
    for (word, field, value) in [
        ("drain", "draining", json!(true)),
        ("undrain", "draining", json!(false)),
    ] {
        let path = format!("{path}/{word}");
        let done = owner.send("POST", &path, &[], None).await;
        assert_eq!(done.expect(200).json()[field], value, "{word}");
    }
    let found = one(&mut owner, "/api/v1/relays?name=FRANKFURT").await;
    assert_eq!(found["items"][0]["id"], id.to_string());
    let revoked = owner
        .send("POST", &format!("{path}/revoke"), &[], None)
        .await;
    assert!(revoked.expect(200).json()["revoked"].is_string());
    owner.delete(&path).await.expect(204);
    owner.get(&path).await.problem(404);
}

#[tokio::test]
async fn a_token_for_relays_is_of_the_account() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let made = owner.post("/api/v1/tokens", json!({"kind": "relay", "name": "t"}));
    let made = made.await.expect(201).json();
    assert!(made["secret"].as_str().unwrap().starts_with("cv_relay_"));
    assert!(made["token"].get("site").is_none() && made["token"].get("actor").is_none());
    let site = owner.post("/api/v1/sites", json!({"name": "office"})).await;
    let site = id_of(&site.expect(201).json());
    let wrong = json!({"kind": "relay", "name": "u", "site": site});
    let wrong = owner.post("/api/v1/tokens", wrong).await.problem(422);
    assert_eq!(wrong["errors"][0]["field"], "site");
}

#[tokio::test]
async fn a_site_names_relays_and_the_account_the_paths_that_are_allowed() {
    let running = Running::start().await;
    let (id, _) = enrol_relay(running.store.as_ref(), running.account()).await;
    let id = id.to_string();
    let mut owner = running.owner().await;
    let site = owner.post("/api/v1/sites", json!({"name": "office"})).await;
    let site = format!("/api/v1/sites/{}", id_of(&site.expect(201).json()));
    assert!(one(&mut owner, &site).await.get("relays").is_none());
    for (written, shown) in [
        (json!([&id, &id]), Some(json!([&id]))),
        (json!([]), Some(json!([]))),
        (json!(["any"]), None),
    ] {
        let changed = owner.patch(&site, "*", json!({ "relays": written })).await;
        assert_eq!(changed.expect(200).json().get("relays"), shown.as_ref());
    }
    let unknown = "rly_00000000000000000000000000";
    for wrong in [unknown, "frankfurt", "any"] {
        let body = json!({"relays": [&id, wrong]});
        let problem = owner.patch(&site, "*", body).await.problem(422);
        assert_eq!(problem["errors"][0]["field"], "relays[1]", "{problem}");
    }
    assert_eq!(one(&mut owner, "/api/v1/account").await["paths"], "any");
    for paths in ["relayed", "direct"] {
        let changed = owner.patch("/api/v1/account", "*", json!({ "paths": paths }));
        assert_eq!(changed.await.expect(200).json()["paths"], paths);
    }
    let body = json!({"paths": "sideways"});
    owner.patch("/api/v1/account", "*", body).await.problem(422);
}

#[tokio::test]
async fn an_account_refuses_access_that_ended_unless_it_says_otherwise() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let account = one(&mut owner, "/api/v1/account").await;
    assert_eq!(account["ended_access"], "refuse");
    for rule in ["release", "refuse"] {
        let changed = owner.patch("/api/v1/account", "*", json!({ "ended_access": rule }));
        assert_eq!(changed.await.expect(200).json()["ended_access"], rule);
    }
    let body = json!({"ended_access": "sometimes"});
    owner.patch("/api/v1/account", "*", body).await.problem(422);
}

#[tokio::test]
async fn the_relays_of_a_site_are_chosen_in_the_console_and_none_of_them_is_deleted() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::Admin).await;
    let mut owner = running.owner().await;
    let site = owner.post("/api/v1/sites", json!({"name": "office"})).await;
    let page = format!("/sites/{}", id_of(&site.expect(201).json()));
    let action = format!("{page}/relays");
    // There is nothing to choose yet.
    let without = browser.get(&page).await.expect(200).text;
    assert!(!without.contains(&action), "{without}");
    let (id, _) = enrol_relay(running.store.as_ref(), running.account()).await;
    let boxed = format!("relays.{id}");
    let api = format!("/api/v1{page}");
    for (fields, shown) in [
        (
            vec![("use", "chosen"), (&*boxed, "yes")],
            Some(json!([id.to_string()])),
        ),
        (vec![("use", "chosen")], Some(json!([]))),
        (vec![("use", "any"), (&*boxed, "yes")], None),
        (
            vec![("use", "chosen"), (&*boxed, "yes")],
            Some(json!([id.to_string()])),
        ),
    ] {
        let form = browser.get(&page).await.expect(200).text;
        let version = version_for(&form, &action);
        let fields = [fields, vec![("version", &*version)]].concat();
        browser.submit(&action, &fields).await.expect(303);
        assert_eq!(one(&mut owner, &api).await.get("relays"), shown.as_ref());
        let late = browser.submit(&action, &fields).await.expect(409);
        assert!(late.text.contains("How it is now"), "{}", late.text);
    }
    let refused = owner.delete(&format!("/api/v1/relays/{id}")).await;
    let refused = refused.problem(409).to_string();
    assert!(refused.contains("office"), "{refused}");
    let form = browser.get(&page).await.expect(200).text;
    let version = version_for(&form, &action);
    let wrong = [
        ("version", &*version),
        ("use", "chosen"),
        ("relays.frankfurt", "yes"),
    ];
    let wrong = browser.submit(&action, &wrong).await.expect(422).text;
    assert!(wrong.contains("write the id of a relay"), "{wrong}");
}

#[tokio::test]
async fn a_file_names_the_relays_of_a_site_and_without_a_word_they_stay() {
    let running = Running::start().await;
    let (id, _) = enrol_relay(running.store.as_ref(), running.account()).await;
    let name = format!("relay {id}");
    let mut owner = running.owner().await;
    let mut apply = async |site: Value| {
        let report = owner
            .post("/api/v1/apply", json!({ "sites": [site] }))
            .await;
        let report = report.expect(200).json();
        let count = report["changes"].as_array().unwrap().len();
        let sites = owner.get("/api/v1/sites").await.expect(200).json();
        (count, sites["items"][0].get("relays").cloned())
    };
    let named = json!({"name": "office", "relays": [&name]});
    let shown = Some(json!([id.to_string()]));
    assert_eq!(apply(named.clone()).await, (1, shown.clone()));
    assert_eq!(apply(named).await, (0, shown.clone()));
    assert_eq!(apply(json!({"name": "office"})).await, (0, shown));
    let any = json!({"name": "office", "relays": ["any"]});
    assert_eq!(apply(any).await, (1, None));
    let unknown = json!({"sites": [{"name": "office", "relays": ["paris"]}]});
    let problem = owner.post("/api/v1/apply", unknown).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "sites[0].relays[0]");
}

#[tokio::test]
async fn a_connected_relay_is_shown_by_the_api_the_metrics_and_the_console() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let made = owner.post("/api/v1/tokens", json!({"kind": "relay", "name": "t"}));
    let made = made.await.expect(201).json();
    let mut browser = signed_in(&running, Role::Admin).await;
    let token = format!("/tokens/{}", id_of(&made["token"]));
    let waiting = browser.get(&token).await.expect(200).text;
    assert!(
        waiting.contains("Waiting for the relay to connect"),
        "{waiting}"
    );
    // Its URL and certificate are for the machine, and not for the portal.
    let secret = made["secret"].as_str().unwrap();
    let bearer: culvert_wire::token::Token = secret.parse().unwrap();
    let _relay = relay_with(&running, &bearer.bearer.expose()).await;
    let sessions = one(&mut owner, "/api/v1/sessions/relays").await;
    assert_eq!(sessions["items"].as_array().unwrap().len(), 1);
    assert_eq!(sessions["items"][0]["draining"], false);
    assert_eq!(one(&mut owner, "/api/v1/status").await["relays"], 1);
    let metrics = owner.get("/metrics").await.expect(200).text;
    assert!(
        metrics.contains("culvert_portal_relays_connected 1\n"),
        "{metrics}"
    );
    let list = browser.get("/relays").await.expect(200).text;
    assert!(
        list.contains("New relay") && list.contains(">relay</a>"),
        "{list}"
    );
    let id = sessions["items"][0]["relay"].as_str().unwrap();
    let page = browser.get(&format!("/relays/{id}")).await.expect(200).text;
    assert!(
        page.contains("192.0.2.9:3478") && page.contains("Connected since"),
        "{page}"
    );
    let there = browser.get(&token).await.expect(200).text;
    assert!(there.contains("relay is connected."), "{there}");
}
