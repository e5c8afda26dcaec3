//! Resources, and what changes of them.

use crate::support::{Running, id_of};
use serde_json::{Value, json};

#[tokio::test]
async fn a_resource_is_changed_in_what_is_given_and_keeps_the_rest() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = owner.post("/api/v1/sites", json!({"name": "a"})).await;
    let site = id_of(&site.expect(201).json());
    let resource = json!({
        "site": site, "name": "web", "kind": "address", "address": "10.0.0.1", "filters": [],
    });
    let made = owner.post("/api/v1/resources", resource).await.expect(201);
    let at = format!("/api/v1/resources/{}", id_of(&made.json()));
    let shown = |resource: &Value| {
        ["name", "kind", "address"].map(|field| resource[field].as_str().unwrap().to_owned())
    };
    for (patch, expected) in [
        (json!({"name": "shop"}), ["shop", "address", "10.0.0.1"]),
        (
            json!({"address": "10.0.0.2"}),
            ["shop", "address", "10.0.0.2"],
        ),
        (
            json!({"kind": "cidr", "address": "10.1.0.0/16"}),
            ["shop", "cidr", "10.1.0.0/16"],
        ),
        (
            json!({"address": "10.2.0.0/16"}),
            ["shop", "cidr", "10.2.0.0/16"],
        ),
        (
            json!({"kind": "dns", "address": "shop.example"}),
            ["shop", "dns", "shop.example"],
        ),
    ] {
        let changed = owner.patch(&at, "*", patch.clone()).await.expect(200);
        assert_eq!(shown(&changed.json()), expected, "{patch}");
        let read = owner.get(&at).await.expect(200);
        assert_eq!(shown(&read.json()), expected, "{patch}");
    }
    // The kind alone is changed where the address is one of that kind.
    let kind = json!({"kind": "address"});
    let problem = owner.patch(&at, "*", kind.clone()).await.problem(422);
    assert_eq!(problem["errors"][0]["field"], "address", "{problem}");
}
