//! The group and the resource that a policy joins may be changed like its other fields.

use crate::support::{Running, id_of};
use serde_json::{Value, json};

async fn made(running: &Running, path: &str, body: Value) -> String {
    let mut owner = running.owner().await;
    id_of(&owner.post(path, body).await.expect(201).json())
}

#[tokio::test]
async fn a_policy_gets_another_group_and_resource_by_its_version_and_the_log_says_both() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = made(&running, "/api/v1/sites", json!({"name": "site"})).await;
    let mut groups = Vec::new();
    let mut resources = Vec::new();
    for number in 0..2 {
        let group = json!({"name": format!("group {number}")});
        groups.push(made(&running, "/api/v1/groups", group).await);
        let resource = json!({
            "site": site, "name": format!("r{number}"), "kind": "address",
            "address": format!("10.0.0.{number}"), "filters": [],
        });
        resources.push(made(&running, "/api/v1/resources", resource).await);
    }
    let policy = json!({"name": "p", "group": groups[0], "resource": resources[0]});
    let id = made(&running, "/api/v1/policies", policy).await;
    let at = format!("/api/v1/policies/{id}");

    let patch = json!({"group": groups[1], "resource": resources[1]});
    let changed = owner.patch(&at, "\"1\"", patch).await.expect(200).json();
    assert_eq!(changed["group"], groups[1]);
    assert_eq!(changed["resource"], resources[1]);
    let late = json!({"group": groups[0]});
    owner.patch(&at, "\"1\"", late).await.problem(412);
    for (field, nothing) in [("group", &resources[0]), ("resource", &groups[0])] {
        let wrong = json!({ field: nothing });
        let status = owner.patch(&at, "\"2\"", wrong).await.status.as_u16();
        assert!([400, 422].contains(&status), "{field}: {status}");
    }
    let gone = format!("/api/v1/groups/{}", groups[0]);
    owner.delete(&gone).await.expect(204);
    let missing = json!({"group": groups[0]});
    owner.patch(&at, "\"2\"", missing).await.problem(422);

    let log = owner.get("/api/v1/log/changes?entity=policy").await;
    let log = log.expect(200).json();
    let entry = &log["items"][0];
    assert_eq!(entry["operation"], "update");
    assert_eq!(entry["before"]["group"], groups[0]);
    assert_eq!(entry["after"]["group"], groups[1]);
    assert_eq!(entry["before"]["resource"], resources[0]);
    assert_eq!(entry["after"]["resource"], resources[1]);
}

#[tokio::test]
async fn a_country_without_a_database_is_warned_of_and_one_that_is_none_is_refused() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = made(&running, "/api/v1/sites", json!({"name": "site"})).await;
    let group = made(&running, "/api/v1/groups", json!({"name": "group"})).await;
    let resource = json!({
        "site": site, "name": "r", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let resource = made(&running, "/api/v1/resources", resource).await;
    let policy = |code: &str| {
        json!({
            "name": "p", "group": group, "resource": resource,
            "conditions": [{"kind": "country", "countries": [code]}],
        })
    };
    for code in ["XX", "ZZ", "UK"] {
        let problem = owner
            .post("/api/v1/policies", policy(code))
            .await
            .problem(422);
        assert_eq!(problem["errors"][0]["field"], "conditions[0]", "{problem}");
    }
    let made = owner
        .post("/api/v1/policies", policy("DE"))
        .await
        .expect(201)
        .json();
    let warned = |policy: &Value| {
        let warning = policy["warnings"][0].as_str().unwrap_or_default();
        assert!(
            warning.contains("never holds") && warning.contains("--geoip"),
            "{policy}"
        );
    };
    warned(&made);
    let at = format!("/api/v1/policies/{}", id_of(&made));
    warned(&owner.get(&at).await.expect(200).json());
    let list = owner.get("/api/v1/policies").await.expect(200).json();
    warned(&list["items"][0]);
    let file = json!({"policies": [{
        "name": "p", "group": "group", "resource": "r",
        "conditions": [{"kind": "country", "countries": ["DE"]}],
    }]});
    let report = owner.post("/api/v1/apply", file).await.expect(200).json();
    let warning = report["warnings"][0].as_str().unwrap();
    assert!(
        warning.starts_with("policy \"p\": it never holds"),
        "{warning}"
    );
    let none = json!({"conditions": []});
    let changed = owner.patch(&at, "*", none).await.expect(200).json();
    assert_eq!(changed.get("warnings"), None);
}
