//! The roles of people: any person may get any role and lose it again, and keeps machines and groups.

use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::console::version_on;
use crate::support::{Running, enrol_client, make_actor};
use culvert_ids::ActorId;
use culvert_store::{ActorKind, Role};
use serde_json::{Value, json};

/// A person of kind `user` who signs in.
async fn user(running: &Running) -> (ActorId, String) {
    person(running, Role::User).await
}

#[tokio::test]
async fn a_user_becomes_an_administrator_and_a_user_again_with_machines_and_groups() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let (actor, name) = user(&running).await;
    let (client, _) = enrol_client(store, account, actor).await;
    let mut owner = running.owner().await;
    let group = owner.post("/api/v1/groups", json!({"name": "staff"})).await;
    let group = group.expect(201).json()["id"].as_str().unwrap().to_owned();
    let members = format!("/api/v1/groups/{group}/members");
    owner
        .post(&members, json!({"actor": actor}))
        .await
        .expect(201);
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let at = format!("/api/v1/actors/{actor}/sign-in");
    for (role, status) in [
        ("auditor", 200),
        ("admin", 200),
        ("owner", 200),
        ("user", 403),
    ] {
        let set = owner
            .post(&at, json!({"role": role}))
            .await
            .expect(200)
            .json();
        assert_eq!(
            (&set["kind"], &set["sign_in"]["role"]),
            (&json!("user"), &json!(role))
        );
        // The sessions that there were have ended.
        browser.get("/me").await.expect(303);
        browser.cookie = None;
        browser.sign_in(&name, PASSWORD).await.expect(303);
        browser.get("/policies").await.expect(status);
    }
    let clients = owner.get("/api/v1/clients").await.expect(200).json();
    let clients = clients["items"].as_array().unwrap();
    let mine = clients
        .iter()
        .find(|row| row["id"] == json!(client))
        .unwrap();
    assert_eq!(mine["revoked"], Value::Null);
    let members = owner.get(&members).await.expect(200).json();
    assert_eq!(members["items"][0]["actor"], json!(actor));
    // The change log has each step.
    let log = owner.get("/api/v1/log/changes").await;
    let log = log.expect(200).text;
    for role in ["auditor", "admin", "owner"] {
        assert!(
            log.contains(&format!("\"role\":\"{role}\"")),
            "{role}: {log}"
        );
    }
}

#[tokio::test]
async fn a_role_is_given_by_those_who_may_and_no_admin_changes_an_owner() {
    let running = Running::start().await;
    let (actor, _) = user(&running).await;
    let path = format!("/people/{actor}");
    let set = format!("{path}/sign-in");
    for (by, role, status) in [
        (Role::Admin, "owner", 403),
        (Role::Auditor, "admin", 403),
        (Role::User, "admin", 403),
        (Role::Admin, "admin", 303),
        (Role::Owner, "owner", 303),
        // An admin changes no owner, whatever kind the owner is of.
        (Role::Admin, "user", 403),
    ] {
        let mut browser = signed_in(&running, by).await;
        let mut owner = running.owner().await;
        let now = owner
            .get(&format!("/api/v1/actors/{actor}"))
            .await
            .expect(200)
            .json();
        let version = now["version"].to_string();
        let fields = [("role", role), ("password", ""), ("version", &*version)];
        let answer = browser.submit(&set, &fields).await;
        assert_eq!(
            answer.status.as_u16(),
            status,
            "{by:?} {role}: {}",
            answer.text
        );
    }
}

#[tokio::test]
async fn the_page_of_an_owner_offers_an_administrator_nothing_that_is_refused() {
    let running = Running::start().await;
    let (owner, name) = person(&running, Role::Owner).await;
    let path = format!("/people/{owner}");
    let mut admin = signed_in(&running, Role::Admin).await;
    let page = admin.get(&path).await.expect(200);
    assert!(
        page.text.contains("changed by owners alone"),
        "{}",
        page.text
    );
    for form in [
        "disable",
        "end-sessions",
        "end-sign-in",
        "sign-in",
        "name",
        "delete",
        "token",
    ] {
        let form = format!("action=\"{path}/{form}\"");
        assert!(!page.text.contains(&form), "{form}");
    }
    // Of others an administrator changes everything, and gives no role that owners alone give.
    let (user, _) = user(&running).await;
    let page = admin.get(&format!("/people/{user}")).await.expect(200);
    assert!(
        page.text
            .contains(&format!("action=\"/people/{user}/disable\""))
    );
    assert!(
        page.text.contains("<option value=\"admin\">"),
        "{}",
        page.text
    );
    assert!(
        !page.text.contains("<option value=\"owner\""),
        "{}",
        page.text
    );
    let mut other = Browser::open(&running).await;
    other.sign_in(&name, PASSWORD).await.expect(303);
    let page = other.get(&format!("/people/{user}")).await.expect(200);
    assert!(
        page.text.contains("<option value=\"owner\""),
        "{}",
        page.text
    );
}

#[tokio::test]
async fn the_api_tokens_of_a_person_do_no_more_than_the_person() {
    let running = Running::start().await;
    let (actor, _) = user(&running).await;
    let mut owner = running.owner().await;
    let token = json!({"name": "script", "kind": "api", "actor": actor, "role": "admin"});
    let refused = owner
        .post("/api/v1/tokens", token.clone())
        .await
        .expect(422);
    assert!(
        refused.text.contains("\"field\":\"actor\""),
        "{}",
        refused.text
    );
    let at = format!("/api/v1/actors/{actor}/sign-in");
    owner.post(&at, json!({"role": "admin"})).await.expect(200);
    let made = owner.post("/api/v1/tokens", token).await.expect(201).json();
    let secret = made["secret"].as_str().unwrap();
    let mut script = running.client().await.with(secret);
    script.get("/api/v1/policies").await.expect(200);
    owner.post(&at, json!({"role": "user"})).await.expect(200);
    script.get("/api/v1/policies").await.expect(403);
}

#[tokio::test]
async fn a_pruned_configuration_spares_a_person_who_administers() {
    let running = Running::start().await;
    let (store, account) = (running.store.as_ref(), running.account());
    let (chief, _) = user(&running).await;
    let other = make_actor(store, account, ActorKind::User).await;
    let mut owner = running.owner().await;
    let at = format!("/api/v1/actors/{chief}/sign-in");
    owner
        .post(&at, json!({"role": "auditor"}))
        .await
        .expect(200);
    let wanted = json!({"sites": [], "actors": [], "groups": [], "resources": [], "policies": []});
    let applied = owner
        .post("/api/v1/apply?prune=true&allow_empty=true", wanted)
        .await;
    applied.expect(200);
    owner
        .get(&format!("/api/v1/actors/{chief}"))
        .await
        .expect(200);
    owner
        .get(&format!("/api/v1/actors/{other}"))
        .await
        .expect(404);
}

#[tokio::test]
async fn the_last_owner_keeps_the_role_whatever_kind_they_are_of() {
    let running = Running::start().await;
    let (actor, name) = user(&running).await;
    let mut first = running.owner().await;
    let at = format!("/api/v1/actors/{actor}/sign-in");
    first.post(&at, json!({"role": "owner"})).await.expect(200);
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    // All other owners go.
    let tokens = first.get("/api/v1/tokens").await.expect(200).json();
    for token in tokens["items"].as_array().unwrap() {
        if token["role"] == json!("owner") {
            let id = token["id"].as_str().unwrap();
            let fields = [("version", &*token["version"].to_string())];
            let revoked = browser
                .submit(&format!("/tokens/{id}/revoke"), &fields)
                .await;
            revoked.expect(303);
        }
    }
    let page = browser.get(&format!("/people/{actor}")).await.expect(200);
    let version = version_on(&page.text);
    let fields = [("role", "user"), ("password", ""), ("version", &*version)];
    let path = format!("/people/{actor}/sign-in");
    let refused = browser.submit(&path, &fields).await.expect(409);
    assert!(
        refused.text.contains("last way in for an owner"),
        "{}",
        refused.text
    );
}
