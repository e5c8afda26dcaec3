use crate::support::{Running, id_of, make_actor, make_token};
use culvert_store::{ActorKind, Role, TokenScope};
use serde_json::json;

#[tokio::test]
async fn a_change_of_what_was_changed_since_is_refused_with_the_version() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let made = owner
        .post("/api/v1/groups", json!({"name": "staff"}))
        .await
        .expect(201);
    let at = made.header("location").to_owned();
    let first = made.header("etag").to_owned();
    assert_eq!(first, "\"1\"");

    let changed = owner
        .patch(&at, &first, json!({"name": "crew"}))
        .await
        .expect(200);
    assert_eq!(changed.header("etag"), "\"2\"");
    assert_eq!(changed.json()["version"], 2);

    let problem = owner
        .patch(&at, &first, json!({"name": "team"}))
        .await
        .problem(412);
    assert_eq!(problem["current_version"], 2);
    let stored = owner.get(&at).await.expect(200);
    assert_eq!(stored.json()["name"], "crew");
    assert_eq!(stored.header("etag"), "\"2\"");

    let stale = [("if-match", first.as_str())];
    let refused = owner.send("DELETE", &at, &stale, None).await;
    assert_eq!(refused.problem(412)["current_version"], 2);
    owner
        .send("DELETE", &at, &[("if-match", "\"2\"")], None)
        .await
        .expect(204);
    owner.get(&at).await.problem(404);
}

#[tokio::test]
async fn a_change_without_a_version_is_refused_and_a_star_takes_any() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let made = owner
        .post("/api/v1/sites", json!({"name": "office"}))
        .await
        .expect(201)
        .json();
    let at = format!("/api/v1/sites/{}", id_of(&made));
    let body = json!({"name": "hq"});
    owner
        .json("PATCH", &at, &[], body.clone())
        .await
        .problem(428);
    for wrong in ["1", "W/\"1\"", "\"1\", \"2\"", "\"-1\""] {
        owner.patch(&at, wrong, body.clone()).await.problem(400);
    }
    owner.patch(&at, "*", body).await.expect(200);
    // Fields that a request does not name stay as they are, and a request that changes nothing
    // makes no version.
    let same = owner.patch(&at, "*", json!({})).await.expect(200);
    assert_eq!(same.json()["name"], "hq");
    assert_eq!(same.json()["version"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_changes_to_one_version_at_the_same_moment_one_wins() {
    let running = Running::start().await;
    let mut owner = running.owner().await;
    let made = owner
        .post("/api/v1/groups", json!({"name": "staff"}))
        .await
        .expect(201)
        .json();
    let at = format!("/api/v1/groups/{}", id_of(&made));
    let mut tasks = Vec::new();
    for number in 0..8 {
        let mut owner = running.owner().await;
        let at = at.clone();
        tasks.push(tokio::spawn(async move {
            let body = json!({"name": format!("staff {number}")});
            owner.patch(&at, "\"1\"", body).await.status.as_u16()
        }));
    }
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(task.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412, 412, 412, 412, 412, 412]);
}

#[tokio::test]
async fn judging_a_client_again_changes_nothing() {
    let running = Running::start().await;
    let store = running.store.as_ref();
    let actor = make_actor(store, running.account(), ActorKind::User).await;
    let (client, _) = crate::support::enrol_client(store, running.account(), actor).await;
    let mut owner = running.owner().await;
    let verify = format!("/api/v1/clients/{client}/verify");
    let first = owner
        .send("POST", &verify, &[], None)
        .await
        .expect(200)
        .json();
    assert!(first["verified"].is_string());
    let again = owner
        .send("POST", &verify, &[], None)
        .await
        .expect(200)
        .json();
    assert_eq!(first, again);
    let revoke = format!("/api/v1/clients/{client}/revoke");
    let revoked = owner
        .send("POST", &revoke, &[], None)
        .await
        .expect(200)
        .json();
    assert!(revoked["revoked"].is_string());
    owner.send("POST", &verify, &[], None).await.problem(409);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_owners_who_shut_out_each_other_at_the_same_moment_one_stays() {
    for _ in 0..8 {
        let running = Running::start().await;
        let store = running.store.as_ref();
        let mut actors = Vec::new();
        let mut clients = Vec::new();
        for _ in 0..2 {
            let actor = make_actor(store, running.account(), ActorKind::Admin).await;
            let role = Role::Owner;
            let scope = TokenScope::Api { actor, role };
            let (_, secret) = make_token(store, running.account(), scope).await;
            actors.push(format!("/api/v1/actors/{actor}"));
            clients.push(running.client().await.with(&secret));
        }
        let (mut one, mut other) = (clients.remove(0), clients.remove(0));
        let disable = json!({"disabled": true});
        let (left, right) = tokio::join!(
            one.patch(&actors[1], "*", disable.clone()),
            other.patch(&actors[0], "*", disable.clone()),
        );
        let done = [left, right]
            .iter()
            .filter(|answer| answer.status == 200)
            .count();
        assert_eq!(done, 1, "one is done, and one comes too late");
    }
}
