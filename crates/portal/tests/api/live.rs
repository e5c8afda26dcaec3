use crate::support::{Client, Running, enrol_client, id_of, make_actor};
use culvert_store::ActorKind;
use serde_json::{Value, json};

async fn explain(client: &mut Client, who: &str, what: &str) -> Value {
    let path = format!("/api/v1/explain?client={who}&resource={what}");
    client.get(&path).await.expect(200).json()
}

#[tokio::test]
async fn explain_says_by_names_what_stands_in_the_way_until_nothing_does() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let store = running.store.as_ref();
    let actor = make_actor(store, running.account(), ActorKind::User).await;
    let (client, _) = enrol_client(store, running.account(), actor).await;
    let client = client.to_string();
    let desired = json!({
        "sites": [{"name": "office"}],
        "groups": [{"name": "staff", "members": []}],
        "resources": [{"name": "web", "site": "office", "kind": "address",
                       "address": "10.0.0.1", "filters": [{"protocol": "any"}]}],
        "policies": [{"name": "staff may", "group": "staff", "resource": "web",
                      "conditions": [{"kind": "verified"}]}],
    });
    owner.post("/api/v1/apply", desired).await.expect(200);
    let resources = owner.get("/api/v1/resources").await.expect(200).json();
    let resource = id_of(&resources["items"][0]);

    let denied = explain(&mut owner, &client, &resource).await;
    assert_eq!(denied["verdict"], "deny");
    assert_eq!(denied["policies"], json!([]));
    let text = denied["text"].as_str().unwrap();
    assert!(text.contains("no policy joins a group"), "{text}");

    let groups = owner.get("/api/v1/groups").await.expect(200).json();
    let members = format!("/api/v1/groups/{}/members", id_of(&groups["items"][0]));
    owner
        .post(&members, json!({ "actor": actor }))
        .await
        .expect(201);
    let denied = explain(&mut owner, &client, &resource).await;
    assert_eq!(denied["verdict"], "deny");
    assert_eq!(denied["policies"][0]["name"], "staff may");
    assert_eq!(denied["policies"][0]["group_name"], "staff");
    let text = denied["text"].as_str().unwrap();
    assert!(text.contains("not verified"), "{text}");

    let verify = format!("/api/v1/clients/{client}/verify");
    owner.send("POST", &verify, &[], None).await.expect(200);
    let allowed = explain(&mut owner, &client, &resource).await;
    assert_eq!(allowed["verdict"], "allow", "{allowed}");
    let text = allowed["text"].as_str().unwrap();
    assert!(text.contains("no gateway"), "{text}");

    let rule = json!({"applications": {"only": ["backup"]}});
    let at = format!("/api/v1/resources/{resource}");
    assert!(!text.contains("on the client:"), "{text}");
    owner.patch(&at, "*", rule).await.expect(200);
    let told = explain(&mut owner, &client, &resource).await;
    let last = told["text"].as_str().unwrap().lines().last().unwrap();
    assert_eq!(last, "on the client: only programs of backup may reach it");

    for query in ["", "client=x&resource=y", "client=&resource="] {
        owner
            .get(&format!("/api/v1/explain?{query}"))
            .await
            .problem(422);
    }
    let nobody = "cli_00000000000000000000000000";
    let path = format!("/api/v1/explain?client={nobody}&resource={resource}");
    owner.get(&path).await.problem(404);
}

#[tokio::test]
async fn explain_says_where_the_names_of_a_resource_may_lead() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let store = running.store.as_ref();
    let actor = make_actor(store, running.account(), ActorKind::User).await;
    let (client, _) = enrol_client(store, running.account(), actor).await;
    for (within, said) in [
        (
            json!(["10.7.0.0/16"]),
            "at the gateway: names may lead only into 10.7.0.0/16",
        ),
        (json!(["anywhere"]), "warning: "),
    ] {
        let desired = json!({
            "sites": [{"name": "office"}],
            "resources": [{"name": "web", "site": "office", "kind": "dns", "within": within,
                           "address": "*.corp.example", "filters": [{"protocol": "any"}]}],
        });
        owner.post("/api/v1/apply", desired).await.expect(200);
        let resources = owner.get("/api/v1/resources").await.expect(200).json();
        let resource = id_of(&resources["items"][0]);
        let explained = explain(&mut owner, &client.to_string(), &resource).await;
        let text = explained["text"].as_str().unwrap();
        let lines = text.lines().filter(|line| line.starts_with(said));
        assert_eq!(lines.count(), 1, "{said}: {text}");
    }
}

#[tokio::test]
async fn the_status_follows_the_configuration() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    owner
        .post("/api/v1/groups", json!({"name": "staff"}))
        .await
        .expect(201);
    let seq = running.store.snapshot(running.account()).await.unwrap().seq;
    loop {
        let status = owner.get("/api/v1/status").await.expect(200).json();
        assert_eq!(status["ready"], true, "{status}");
        assert_eq!(status["reasons"], json!([]));
        if status["feed_seq"] == seq.0 {
            assert_eq!(status["feed_lag"], 0);
            break;
        }
        tokio::task::yield_now().await;
    }
    for list in ["clients", "gateways"] {
        let page = owner.get(&format!("/api/v1/sessions/{list}")).await;
        assert_eq!(page.expect(200).json(), json!({"items": []}));
    }
    assert_eq!(owner.get("/readyz").await.expect(200).text, "ready\n");
    let metrics = owner.get("/metrics").await.expect(200).text;
    for line in ["culvert_portal_ready 1", "culvert_portal_feed_lag 0"] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[tokio::test]
async fn the_last_use_of_a_token_is_noted() {
    let running = Running::start().await;
    let store = std::sync::Arc::clone(&running.store);
    let account = running.account();
    drop(
        running
            .owner()
            .await
            .get("/api/v1/account")
            .await
            .expect(200),
    );
    // At the latest, when the portal stops.
    running.portal.stop().await;
    let snapshot = store.snapshot(account).await.unwrap();
    assert!(
        snapshot
            .tokens
            .iter()
            .any(|token| token.last_used.is_some())
    );
    store.close().await;
}
