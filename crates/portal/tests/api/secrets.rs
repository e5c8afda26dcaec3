use crate::support::{Running, enrol_client, enrol_gateway, make_actor};
use culvert_store::ActorKind;
use serde_json::json;

/// CVE-2026-29196: an interface that returned private keys to whoever might read.
#[tokio::test]
async fn cve_2026_29196_no_secret_is_in_any_answer_but_the_one_that_makes_it() {
    let running = Running::start().await;
    let setup = running.setup_token();
    let mut owner = running.owner().await;
    let store = running.store.as_ref();
    let account = running.account();
    let actor = make_actor(store, account, ActorKind::Admin).await;
    let site = owner
        .post("/api/v1/sites", json!({"name": "s"}))
        .await
        .expect(201)
        .json();
    let site: culvert_ids::SiteId = site["id"].as_str().unwrap().parse().unwrap();

    let mut texts = vec![setup];
    for body in [
        json!({"kind": "api", "actor": actor, "role": "auditor", "name": "a"}),
        json!({"kind": "client", "actor": actor, "name": "c", "one_time": true}),
        json!({"kind": "gateway", "site": site, "name": "g"}),
    ] {
        let issued = owner.post("/api/v1/tokens", body).await.expect(201).json();
        texts.push(issued["secret"].as_str().unwrap().to_owned());
    }
    texts.push(enrol_client(store, account, actor).await.1);
    texts.push(enrol_gateway(store, account, site).await.1);
    let secrets: Vec<String> = texts
        .iter()
        .map(|text| text.split('.').nth(1).unwrap().to_owned())
        .collect();
    let digests: Vec<String> = texts
        .iter()
        .map(|text| {
            let token: culvert_wire::token::Token = text.parse().unwrap();
            let digest = token.bearer.secret.digest();
            digest
                .as_bytes()
                .iter()
                .map(|byte| format!("{byte:02x}"))
                .collect()
        })
        .collect();

    let document = owner.get("/api/v1/openapi.json").await.expect(200).json();
    let mut looked_at = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        if item.get("get").is_none() || path.contains('{') {
            continue;
        }
        let path = match path.as_str() {
            "/api/v1/explain" => continue,
            path => path,
        };
        let text = owner.get(path).await.expect(200).text;
        for secret in secrets.iter().chain(&digests) {
            assert!(!text.contains(secret.as_str()), "{path} shows a secret");
        }
        looked_at += 1;
    }
    assert!(looked_at >= 11, "{looked_at}");
    let tokens = owner.get("/api/v1/tokens").await.expect(200).json();
    for token in tokens["items"].as_array().unwrap() {
        let path = format!("/api/v1/tokens/{}", token["id"].as_str().unwrap());
        let text = owner.get(&path).await.expect(200).text;
        for secret in secrets.iter().chain(&digests) {
            assert!(!text.contains(secret.as_str()));
        }
    }
    let metrics = owner.get("/metrics").await.expect(200).text;
    assert!(
        secrets
            .iter()
            .all(|secret| !metrics.contains(secret.as_str()))
    );
}

#[tokio::test]
async fn a_new_token_works_and_a_revoked_one_does_not() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let actor = make_actor(running.store.as_ref(), running.account(), ActorKind::Admin).await;
    let body = json!({"kind": "api", "actor": actor, "role": "admin", "name": "ci"});
    let issued = owner.post("/api/v1/tokens", body).await.expect(201).json();
    let mut admin = running
        .client()
        .await
        .with(issued["secret"].as_str().unwrap());
    admin
        .post("/api/v1/groups", json!({"name": "g"}))
        .await
        .expect(201);
    let at = format!(
        "/api/v1/tokens/{}/revoke",
        issued["token"]["id"].as_str().unwrap()
    );
    owner.send("POST", &at, &[], None).await.expect(200);
    admin.get("/api/v1/groups").await.problem(401);
}

#[tokio::test]
async fn a_token_that_can_not_be_is_refused_at_its_field() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let store = running.store.as_ref();
    let admin = make_actor(store, running.account(), ActorKind::Admin).await;
    let user = make_actor(store, running.account(), ActorKind::User).await;
    for (body, field) in [
        (json!({"kind": "setup", "name": "t"}), "kind"),
        (
            json!({"kind": "api", "name": "t", "role": "admin"}),
            "actor",
        ),
        (json!({"kind": "api", "name": "t", "actor": admin}), "role"),
        (
            json!({"kind": "api", "name": "t", "actor": user, "role": "admin"}),
            "actor",
        ),
        (
            json!({"kind": "api", "name": "t", "actor": admin, "role": "admin", "one_time": true}),
            "one_time",
        ),
        (json!({"kind": "gateway", "name": "t"}), "site"),
        (
            json!({"kind": "relay", "name": "t", "actor": admin}),
            "actor",
        ),
        (
            json!({"kind": "gateway", "name": "t", "actor": admin}),
            "actor",
        ),
        (
            json!({"kind": "client", "name": "t", "actor": admin, "role": "admin"}),
            "role",
        ),
        (
            json!({"kind": "client", "name": "t", "actor": admin, "expires": "2020-01-01T00:00:00Z"}),
            "expires",
        ),
        (
            json!({"kind": "client", "name": "t", "actor": "act_00000000000000000000000000"}),
            "actor",
        ),
    ] {
        let problem = owner
            .post("/api/v1/tokens", body.clone())
            .await
            .problem(422);
        assert_eq!(problem["errors"][0]["field"], field, "{body}: {problem}");
    }
}
