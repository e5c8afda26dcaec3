//! A write that is done is answered so, although the store fails to read right after it.

use crate::armed_routes::World;
use crate::support::id_of;
use culvert_store::{Account, StoreExt};
use culvert_wire::token::Token;
use serde_json::json;

#[tokio::test]
async fn a_set_up_hands_out_its_token_although_nothing_can_be_read_after_it() {
    let mut world = World::start(None).await;
    let token = world.running.setup_token();
    let mut client = world.client().await.with(&token);
    world.held.refuse_rows_after_a_write();
    let body = json!({"owner": "grace", "account": "Corp"});
    let answer = client.post("/api/v1/setup", body).await.expect(201).json();
    assert!(world.held.answer_rows());
    assert_eq!(answer["owner"]["name"], "grace");
    assert_eq!(answer["account"]["name"], "Corp");
    let account = world.running.account();
    let stored: Account = world.running.store.get_as(account, account).await.unwrap();
    assert_eq!(answer["account"]["version"], stored.stamp.version);
    let secret = answer["token"]["secret"].as_str().unwrap();
    assert!(secret.parse::<Token>().is_ok());
    let mut owner = world.client().await.with(secret);
    owner.get("/api/v1/actors").await.expect(200);
}

#[tokio::test]
async fn a_resource_is_written_although_others_of_its_address_can_not_be_read() {
    let mut world = World::start(None).await;
    let mut owner = world.owner().await;
    let site = json!({"name": "here"});
    let site = id_of(&owner.post("/api/v1/sites", site).await.expect(201).json());
    let body = |name: &str| {
        json!({
            "site": site, "name": name, "kind": "address", "address": "10.0.0.9",
            "filters": [{"protocol": "any"}],
        })
    };
    let one = owner.post("/api/v1/resources", body("one")).await;
    assert_eq!(one.expect(201).json().get("warnings"), None);

    world.held.refuse_rows_after_a_write();
    let two = owner.post("/api/v1/resources", body("two")).await;
    assert!(world.held.answer_rows());
    let two = two.expect(201).json();
    assert_eq!(two.get("warnings"), None);
    let at = format!("/api/v1/resources/{}", id_of(&two));
    world.held.refuse_rows_after_a_write();
    let renamed = owner.patch(&at, "*", json!({"name": "three"})).await;
    assert!(world.held.answer_rows());
    assert_eq!(renamed.expect(200).json()["name"], "three");

    let shown = owner.get(&at).await.expect(200).json();
    let warning = shown["warnings"][0].as_str().unwrap();
    assert!(warning.contains("\"one\", which is older"), "{warning}");
}
