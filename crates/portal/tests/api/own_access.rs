//! The page of a person without a role above `user`: what they may use, and how to connect a machine.

use crate::browser::{Browser, PASSWORD, person, signed_in};
use crate::support::{Client, Running, enrol_client};
use culvert_ids::ActorId;
use culvert_store::Role;
use serde_json::{Value, json};

async fn made(owner: &mut Client, path: &str, body: Value) -> String {
    let made = owner.post(path, body).await.expect(201).json();
    made["id"].as_str().unwrap().to_owned()
}

/// A resource that a group may use, in which the actors are.
async fn resource(owner: &mut Client, name: &str, address: &str, actors: &[ActorId]) -> String {
    let site = made(
        owner,
        "/api/v1/sites",
        json!({"name": format!("site of {name}")}),
    )
    .await;
    let group = made(
        owner,
        "/api/v1/groups",
        json!({"name": format!("group of {name}")}),
    )
    .await;
    let body = json!({
        "site": site, "name": name, "kind": "address", "address": address,
        "filters": [{"protocol": "tcp", "ports": [443]}],
    });
    let resource = made(owner, "/api/v1/resources", body).await;
    let body = json!({"name": name, "group": group, "resource": resource});
    let policy = made(owner, "/api/v1/policies", body).await;
    for actor in actors {
        let members = format!("/api/v1/groups/{group}/members");
        owner
            .post(&members, json!({"actor": actor}))
            .await
            .expect(201);
    }
    policy
}

#[tokio::test]
async fn a_person_without_a_machine_is_told_what_to_do_first() {
    let running = Running::start().await;
    let mut browser = signed_in(&running, Role::User).await;
    let to = browser.get("/").await.expect(303);
    assert_eq!(to.header("location"), "/me/access");
    let page = browser.get("/me/access").await.expect(200);

    for part in [
        "You have no machine yet.",
        "Nothing yet.",
        "sudo apt install ./culvert_*.deb ./culvert-client_*.deb",
        "sudo culvert sign-in --portal https://",
        "href=\"/device\"",
        "href=\"/me\"",
    ] {
        assert!(page.text.contains(part), "{part}: {page:?}");
    }
}

#[tokio::test]
async fn a_person_sees_what_their_groups_may_use_and_nothing_else() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::User).await;
    let mut owner = running.owner().await;
    resource(&mut owner, "<b>wiki</b>", "10.7.0.1", &[actor]).await;
    resource(&mut owner, "payroll", "10.7.0.2", &[]).await;
    let off = resource(&mut owner, "switched off", "10.7.0.3", &[actor]).await;
    let body = json!({"disabled": true});
    owner
        .patch(&format!("/api/v1/policies/{off}"), "*", body)
        .await
        .expect(200);
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let page = browser.get("/me/access").await.expect(200);
    assert!(page.text.contains("10.7.0.1"), "{page:?}");
    assert!(page.text.contains("tcp:443"), "{page:?}");
    assert!(
        page.text.contains("once a machine is signed in"),
        "{page:?}"
    );
    for part in ["<b>", "payroll", "10.7.0.2", "switched off", "10.7.0.3"] {
        assert!(!page.text.contains(part), "{part}: {page:?}");
    }

    let (store, account) = (running.store.as_ref(), running.account());
    enrol_client(store, account, actor).await;
    let shown = async |browser: &mut Browser| browser.get("/me/access").await.expect(200).text;
    let mut text = shown(&mut browser).await;
    // The sessions follow the store.
    for _ in 0..100 {
        if text.contains("no gateway is there") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        text = shown(&mut browser).await;
    }
    assert!(text.contains("allowed, but no gateway is there"), "{text}");
    assert!(
        text.contains("My machines") && text.contains("away"),
        "{text}"
    );
    assert!(!text.contains("You have no machine yet."), "{text}");
}

#[tokio::test]
async fn why_a_resource_is_denied_is_not_told_to_its_person() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::User).await;
    let mut owner = running.owner().await;
    let policy = resource(&mut owner, "wiki", "10.7.0.1", &[actor]).await;
    let body = json!({"conditions": [{"kind": "verified"}]});
    owner
        .patch(&format!("/api/v1/policies/{policy}"), "*", body)
        .await
        .expect(200);
    let (store, account) = (running.store.as_ref(), running.account());
    enrol_client(store, account, actor).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let page = browser.get("/me/access").await.expect(200);
    assert!(
        page.text.contains("denied now: an administrator sees why"),
        "{page:?}"
    );
    assert!(
        !page.text.contains("the client is not verified"),
        "{page:?}"
    );
}

#[tokio::test]
async fn administrators_have_the_page_as_well() {
    let running = Running::start().await;
    for role in [Role::Auditor, Role::Admin, Role::Owner] {
        let mut browser = signed_in(&running, role).await;
        browser.get("/me/access").await.expect(200);
    }
    Browser::open(&running)
        .await
        .get("/me/access")
        .await
        .expect(303);
}

#[tokio::test]
async fn a_person_with_more_machines_than_are_asked_is_told_so() {
    let running = Running::start().await;
    let (actor, name) = person(&running, Role::User).await;
    let mut owner = running.owner().await;
    resource(&mut owner, "wiki", "10.7.0.1", &[actor]).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let (store, account) = (running.store.as_ref(), running.account());
    for machines in 1..=9 {
        enrol_client(store, account, actor).await;
        let page = browser.get("/me/access").await.expect(200);
        let is_told = page.text.contains("not decided for all machines");
        assert_eq!(is_told, machines > 8, "{machines}: {page:?}");
    }
}
