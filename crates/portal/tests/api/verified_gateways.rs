//! Gateways are verified by an administrator, who is shown what to compare, and who loses access first.

use crate::browser::signed_in;
use crate::console::version_on;
use crate::support::{Running, enrol_gateway, id_of};
use culvert_ids::GatewayId;
use culvert_store::{Gateway, Role, StoreExt, Token};
use serde_json::{Value, json};

const PAGE: &str = "/settings/verified-gateways";

/// A portal with a gateway that nobody has verified.
async fn enrolled() -> (Running, GatewayId) {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let site = owner.post("/api/v1/sites", json!({"name": "here"})).await;
    let site = id_of(&site.expect(201).json()).parse().unwrap();
    let store = running.store.as_ref();
    let (gateway, _) = enrol_gateway(store, running.account(), site).await;
    (running, gateway)
}

async fn row(running: &Running, id: GatewayId) -> Gateway {
    let store = &running.store;
    store.get_as(running.account(), id).await.unwrap()
}

async fn shown(running: &Running, id: GatewayId) -> Value {
    let mut owner = running.owner().await;
    let path = format!("/api/v1/gateways/{id}");
    owner.get(&path).await.expect(200).json()
}

#[tokio::test]
async fn the_api_shows_what_is_to_be_compared_and_verifies_and_takes_it_back() {
    let (running, id) = enrolled().await;
    let gateway = row(&running, id).await;
    let first = shown(&running, id).await;
    assert_eq!(first["fingerprint"], gateway.public_key.fingerprint());
    assert_eq!(first["software"], "0.1.0");
    let token = gateway.enrolled_with.unwrap();
    assert_eq!(first["enrolled_with"], token.to_string());
    assert!(first.get("verified").is_none());

    let mut owner = running.owner().await;
    let path = |word: &str| format!("/api/v1/gateways/{id}/{word}");
    let verified = owner.send("POST", &path("verify"), &[], None).await;
    let verified = verified.expect(200).json();
    assert!(verified["verified"].is_string());
    // Again, it changes nothing.
    let again = owner.send("POST", &path("verify"), &[], None).await;
    assert_eq!(again.expect(200).json(), verified);
    let stale = [("if-match", "\"1\"")];
    owner
        .send("POST", &path("unverify"), &stale, None)
        .await
        .expect(412);
    owner
        .send("POST", &path("unverify"), &[], None)
        .await
        .expect(200);
    assert!(shown(&running, id).await.get("verified").is_none());
    let log = owner.get("/api/v1/log/changes?entity=gateway").await;
    let log = log.expect(200).json();
    let entry = &log["items"][0];
    assert!(entry["before"]["verified"].is_number() || entry["before"]["verified"].is_string());
    assert!(entry["after"]["verified"].is_null() && entry["actor"].is_string());

    owner
        .send("POST", &path("revoke"), &[], None)
        .await
        .expect(200);
    owner
        .send("POST", &path("verify"), &[], None)
        .await
        .expect(409);
}

#[tokio::test]
async fn the_console_lists_who_would_lose_access_before_gateways_have_to_be_verified() {
    let (running, id) = enrolled().await;
    let gateway = row(&running, id).await;
    let token = gateway.enrolled_with.unwrap();
    let token: Token = running
        .store
        .get_as(running.account(), token)
        .await
        .unwrap();
    let mut browser = signed_in(&running, Role::Admin).await;
    let page = browser.get(PAGE).await.expect(200);
    for part in [
        &gateway.name,
        &gateway.public_key.fingerprint(),
        "0.1.0",
        &token.name,
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let is_required = async || {
        let mut owner = running.owner().await;
        let account = owner.get("/api/v1/account").await.expect(200).json();
        account["require_verified_gateways"] == true
    };
    let version = account_version(&running).await;
    let fields = |cut| {
        vec![
            ("require_verified_gateways", "yes"),
            ("cut", cut),
            ("version", &*version),
        ]
    };
    let refused = browser.submit(PAGE, &fields("no")).await.expect(422);
    assert!(refused.text.contains(&gateway.name), "{}", refused.text);
    assert!(!is_required().await);
    browser.submit(PAGE, &fields("yes")).await.expect(303);
    assert!(is_required().await);
    let page = browser.get(PAGE).await.expect(200);
    assert!(page.text.contains("waits to be verified"), "{}", page.text);

    let at = format!("/gateways/{id}");
    let seen = version_on(&browser.get(&at).await.expect(200).text);
    let verify = format!("{at}/verify");
    browser
        .submit(&verify, &[("version", &*seen)])
        .await
        .expect(303);
    assert!(row(&running, id).await.verified.is_some());
    let page = browser.get(&at).await.expect(200);
    assert!(page.text.contains("Take verification back"));
    assert!(page.text.contains(&gateway.public_key.fingerprint()));
    let page = browser.get(PAGE).await.expect(200);
    assert!(!page.text.contains(&gateway.name), "{}", page.text);
}

async fn account_version(running: &Running) -> String {
    let mut owner = running.owner().await;
    let account = owner.get("/api/v1/account").await.expect(200).json();
    account["version"].to_string()
}
