//! Logs are searched for what people type, and what is too long to be asked is answered in a line.

use crate::browser::signed_in;
use crate::support::{Running, make_actor, now};
use culvert_ids::{ClientId, PolicyId, ResourceId};
use culvert_store::{AccessEntry, ActorKind, Decision, Role, SecretBytes, StoreExt};
use serde_json::{Value, json};

fn denied(reason: &str) -> AccessEntry {
    AccessEntry {
        at: now(),
        client: ClientId::from_bytes([1; 16]),
        actor: None,
        resource: ResourceId::from_bytes([3; 16]),
        gateway: None,
        policy: None,
        grant: None,
        decision: Decision::Denied,
        reason: reason.to_owned(),
    }
}

/// The reasons on a page of the access log.
fn reasons(page: &Value) -> Vec<String> {
    let items = page["items"].as_array().unwrap().iter();
    items
        .map(|item| item["reason"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn the_api_the_console_and_exports_search_alike() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let ada = make_actor(store, account, ActorKind::User).await;
    let name = store.get_as::<culvert_store::Actor>(account, ada).await;
    let name = name.unwrap().name;
    let mut entries: Vec<_> = (0..5)
        .map(|at| denied(&format!("100% sure {at}")))
        .collect();
    entries.push(denied("100 sure"));
    entries[2].actor = Some(ada);
    store.append_access_log(account, entries).await.unwrap();
    let mut owner = running.owner().await;
    // Literally, a page at a time.
    let first = owner
        .get("/api/v1/log/access?search=100%25+SURE&limit=3")
        .await;
    let first = first.expect(200).json();
    assert_eq!(
        reasons(&first),
        ["100% sure 4", "100% sure 3", "100% sure 2"]
    );
    let next = first["next_cursor"].as_str().unwrap();
    let path = format!("/api/v1/log/access?search=100%25+SURE&limit=3&cursor={next}");
    let second = owner.get(&path).await.expect(200).json();
    assert_eq!(reasons(&second), ["100% sure 1", "100% sure 0"]);
    assert_eq!(second["next_cursor"], Value::Null);
    // By the name of whom it is about, and by the id.
    for text in [name.to_uppercase(), ada.to_string()] {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("search", &text)
            .finish();
        let found = owner.get(&format!("/api/v1/log/access?{query}")).await;
        assert_eq!(
            reasons(&found.expect(200).json()),
            ["100% sure 2"],
            "{text}"
        );
        let changes = owner.get(&format!("/api/v1/log/changes?{query}")).await;
        let changes = changes.expect(200).json();
        assert_eq!(changes["items"][0]["entity"], "actor", "{text}");
        let csv = owner
            .get(&format!("/api/v1/log/access/export/csv?{query}"))
            .await;
        assert_eq!(csv.expect(200).text.lines().count(), 2, "{text}");
    }
    let path = "/api/v1/log/access?search=sure&after=4";
    let since = owner.get(path).await.expect(200).json();
    assert_eq!(reasons(&since), ["100 sure", "100% sure 4"]);
    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = browser
        .get("/log/access?search=sure+4")
        .await
        .expect(200)
        .text;
    assert!(
        page.contains("100% sure 4") && !page.contains("100% sure 3"),
        "{page}"
    );
    assert!(
        page.contains("value=\"sure 4\""),
        "the form says what was asked"
    );
    assert!(
        page.contains("/log/access/export/csv?search=sure+4"),
        "{page}"
    );
    for path in ["/log/changes?search=nothing", "/log/flows?search=nothing"] {
        let page = browser.get(path).await.expect(200).text;
        assert!(page.contains("There is none that fits."), "{page}");
    }
}

#[tokio::test]
async fn a_search_that_is_too_long_is_refused_in_a_line() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let mut browser = signed_in(&running, Role::Owner).await;
    for letters in [201, 5_000] {
        let text = "x".repeat(letters);
        for log in ["access", "changes", "flows"] {
            let path = format!("/api/v1/log/{log}?search={text}");
            let problem = owner.get(&path).await.problem(422);
            assert_eq!(problem["errors"][0]["field"], "search");
            let page = browser.get(&format!("/log/{log}?search={text}")).await;
            let page = page.expect(422).text;
            assert!(page.contains("a part of it is enough"), "{page}");
        }
    }
    owner
        .get("/api/v1/log/access?search=a%0Ab")
        .await
        .problem(422);
    owner.get("/api/v1/log/access?search=+").await.expect(200);
    owner.get("/api/v1/log/access?after=x").await.problem(422);
}

#[tokio::test]
async fn an_address_that_is_too_long_is_answered_and_not_with_nothing() {
    let running = Running::start().await;
    let text = "x".repeat(5_000);
    let filter: Vec<_> = ["search", "actor", "client", "resource"]
        .map(|field| format!("{field}={text}"))
        .into();
    let filter = filter.join("&");
    let mut owner = running.owner().await;
    let problem = owner
        .get(&format!("/api/v1/log/access?{filter}"))
        .await
        .problem(414);
    assert!(problem["detail"].as_str().unwrap().contains("16384"));
    let mut browser = signed_in(&running, Role::Owner).await;
    for path in ["/log/access", "/log/flows", "/resources", "/explain"] {
        let page = browser.get(&format!("{path}?{filter}")).await.expect(414);
        assert!(page.header("content-type").starts_with("text/html"));
        assert!(
            page.text.contains("The address is too long"),
            "{}",
            page.text
        );
        assert!(page.text.contains("16384 bytes"), "{}", page.text);
    }
    // A browser does not make one from the forms of the console.
    let page = browser.get("/log/access").await.expect(200).text;
    let form = page
        .split("<form")
        .find(|form| form.contains("method=\"get\""));
    let inputs = form.unwrap().split("<input").skip(1);
    let inputs: Vec<_> = inputs
        .filter(|input| !input.starts_with(" type=\"hidden\""))
        .collect();
    assert!(inputs.len() >= 3, "{inputs:#?}");
    assert!(
        inputs
            .iter()
            .all(|input| input.contains("maxlength=\"200\"")),
        "{page}"
    );
}

#[tokio::test]
async fn of_two_sinks_of_one_name_that_are_made_at_once_one_is_there_with_its_own_token() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let mut one = running.owner().await;
    let mut other = running.owner().await;
    for round in 0..20 {
        let sink = |port: u16| {
            let target = json!({"kind": "http", "url": format!("http://127.0.0.1:{port}/")});
            let sink = json!({"name": "siem", "logs": ["access"], "target": target});
            json!({"sink": sink, "token": format!("token-of-{port}")})
        };
        let (first, second) = tokio::join!(
            one.post("/api/v1/sinks", sink(1)),
            other.post("/api/v1/sinks", sink(2)),
        );
        let mut made: Vec<u16> = vec![];
        for (answer, port) in [(first, 1), (second, 2)] {
            match answer.status.as_u16() {
                201 => made.push(port),
                _ => drop(answer.problem(422)),
            }
        }
        assert_eq!(made.len(), 1, "round {round}");
        let settings = store
            .get_as::<culvert_store::Account>(account, account)
            .await;
        let sinks = settings.unwrap().settings.logs.sinks;
        let url = json!({"kind": "http", "url": format!("http://127.0.0.1:{}/", made[0])});
        assert_eq!(json!(sinks[0].target), url);
        let secret = store.sink_secret(account, "siem").await.unwrap();
        let token = format!("token-of-{}", made[0]);
        assert_eq!(
            secret,
            Some(SecretBytes::new(token.into_bytes())),
            "round {round}"
        );
        let places = store.sink_positions(account, "siem").await.unwrap();
        assert!(!places.is_empty());
        one.delete("/api/v1/sinks/siem").await.expect(204);
    }
}

#[tokio::test]
async fn denials_with_ids_are_shown_with_the_names_that_are_known() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let mut owner = running.owner().await;
    let mut made = async |path: &str, body: Value| {
        let made = owner.post(&format!("/api/v1{path}"), body).await;
        made.expect(201).json()["id"].as_str().unwrap().to_owned()
    };
    let site = made("/sites", json!({"name": "here"})).await;
    let resource = json!({
        "site": site, "name": "db", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let resource = made("/resources", resource).await;
    let group = made("/groups", json!({"name": "staff"})).await;
    let policy = json!({"name": "office", "group": group, "resource": resource});
    let policy = made("/policies", policy).await;
    let gone = PolicyId::from_bytes([9; 16]);
    let old = format!(
        "denied\n{policy} of {group}: the client is not verified\n{gone} of {group}: it expired"
    );
    let entries = vec![denied(&old)];
    store.append_access_log(account, entries).await.unwrap();
    let shown = format!(
        "denied: policy \"office\" of group \"staff\": the client is not verified; {gone} of group \"staff\": it \
         expired"
    );
    let page = owner.get("/api/v1/log/access").await.expect(200).json();
    assert_eq!(reasons(&page), [shown.as_str()]);
    let lines = owner.get("/api/v1/log/access/export/jsonl").await;
    let line: Value = serde_json::from_str(&lines.expect(200).text).unwrap();
    assert_eq!(line["reason"], shown);
    let mut browser = signed_in(&running, Role::Auditor).await;
    let page = browser.get("/log/access").await.expect(200).text;
    assert!(
        page.contains("policy &#34;office&#34; of group &#34;staff&#34;"),
        "{page}"
    );
}
