use crate::support::{Client, Running};
use culvert_portal::{Home, Options, Portal, SetupState};
use culvert_store::{Store, TokenScope};
use culvert_store_sql::{SqlStore, SqliteOptions};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

#[tokio::test]
async fn the_setup_token_makes_an_owner_whose_token_works() {
    let running = Running::start().await;
    let mut client = running.client().await.with(&running.setup_token());
    let answer = client
        .post("/api/v1/setup", json!({"owner": "ada", "account": "Corp"}))
        .await
        .expect(201)
        .json();
    assert_eq!(answer["owner"]["name"], "ada");
    assert_eq!(answer["account"]["name"], "Corp");
    assert_eq!(answer["token"]["token"]["role"], "owner");
    let secret = answer["token"]["secret"].as_str().unwrap();
    let token: culvert_wire::token::Token = secret.parse().unwrap();
    let portal = token.portal.unwrap();
    assert_eq!(portal, running.portal.whereabouts());
    assert_eq!(portal.pin, Some(running.portal.pin()));

    client.set_token(Some(secret));
    let actors = client.get("/api/v1/actors").await.expect(200).json();
    assert_eq!(actors["items"][0]["name"], "ada");
}

/// TS-2025-007: a one-time key that several used at the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ts_2025_007_a_setup_token_used_twice_at_the_same_moment_makes_one_owner() {
    let running = Running::start().await;
    let token = running.setup_token();
    let mut clients = Vec::new();
    for _ in 0..16 {
        clients.push(running.client().await.with(&token));
    }
    let requests = clients.into_iter().enumerate().map(|(at, mut client)| {
        tokio::spawn(async move {
            let body = json!({"owner": format!("owner {at}")});
            client.post("/api/v1/setup", body).await.status.as_u16()
        })
    });
    let requests: Vec<_> = requests.collect();
    let mut statuses = Vec::new();
    for request in requests {
        statuses.push(request.await.unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses[0], 201, "{statuses:?}");
    assert!(
        statuses[1..].iter().all(|status| *status == 401),
        "{statuses:?}"
    );
    let snapshot = running.store.snapshot(running.account()).await.unwrap();
    assert_eq!(snapshot.actors.len(), 1);
    let api = |token: &&culvert_store::Token| matches!(token.scope, TokenScope::Api { .. });
    assert_eq!(snapshot.tokens.iter().filter(api).count(), 1);
}

#[tokio::test]
async fn a_set_up_that_fails_leaves_the_token_unused() {
    let running = Running::start().await;
    let mut client = running.client().await.with(&running.setup_token());
    let long = "x".repeat(101);
    for body in [json!({}), json!({"owner": ""}), json!({ "owner": long })] {
        client.post("/api/v1/setup", body).await.problem(422);
    }
    client
        .post("/api/v1/setup", json!({"owner": "ada"}))
        .await
        .expect(201);
    client
        .post("/api/v1/setup", json!({"owner": "eve"}))
        .await
        .problem(401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_portals_that_start_first_at_once_have_one_account_and_one_setup_token() {
    let store = SqlStore::open(&SqliteOptions::memory()).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(store);
    let dir = tempfile::tempdir().unwrap();
    let start = |name: &str| {
        let home = Home::open(&dir.path().join(name)).unwrap();
        let options = Options::new("127.0.0.1:0".parse().unwrap());
        tokio::spawn(Portal::start(options, home, Arc::clone(&store)))
    };
    let starts = [start("one"), start("other")];
    let mut portals = Vec::new();
    for started in starts {
        portals.push(started.await.unwrap().unwrap());
    }
    let account = portals[0].account();
    assert_eq!(portals[1].account(), account);
    let begun = |portal: &&Portal| matches!(portal.setup(), SetupState::Begun(_));
    assert_eq!(portals.iter().filter(begun).count(), 1);
    let snapshot = store.snapshot(account).await.unwrap();
    assert_eq!(snapshot.tokens.len(), 1);
    for portal in portals {
        portal.stop().await;
    }
}

#[tokio::test]
async fn a_new_setup_token_ends_the_old_one() {
    let running = Running::start().await;
    let old = running.setup_token();
    let whereabouts = running.portal.whereabouts();
    let new = culvert_portal_service::issue_setup_token(
        running.store.as_ref(),
        running.account(),
        whereabouts,
    );
    let new = new.await.unwrap().token.expose().to_string();
    let mut client = running.client().await.with(&old);
    let body = json!({"owner": "ada"});
    client
        .post("/api/v1/setup", body.clone())
        .await
        .problem(401);
    client.set_token(Some(&new));
    client.post("/api/v1/setup", body).await.expect(201);
}

#[tokio::test]
async fn a_new_setup_token_ends_no_other_token() {
    let running = Running::start().await;
    let secret = culvert_store_owner(&running).await;
    let mut client = running.client().await.with(&secret);
    client.get("/api/v1/account").await.expect(200);
    let whereabouts = running.portal.whereabouts();
    let (store, account) = (running.store.as_ref(), running.account());
    let issued = culvert_portal_service::issue_setup_token(store, account, whereabouts);
    issued.await.unwrap();
    client.get("/api/v1/account").await.expect(200);
    let snapshot = running.store.snapshot(account).await.unwrap();
    let lives = |token: &&culvert_store::Token| token.revoked.is_none();
    let api = |token: &&culvert_store::Token| matches!(token.scope, TokenScope::Api { .. });
    assert_eq!(snapshot.tokens.iter().filter(api).filter(lives).count(), 1);
}

#[tokio::test]
async fn a_restart_keeps_certificate_account_and_tokens() {
    let running = Running::start().await;
    assert!(matches!(running.portal.setup(), SetupState::Begun(_)));
    let (pin, account) = (running.portal.pin(), running.account());
    let dir = running.stop().await;

    let running = Running::start_in(dir).await;
    assert!(matches!(running.portal.setup(), SetupState::Open));
    assert_eq!((running.portal.pin(), running.account()), (pin, account));
    let secret = culvert_store_owner(&running).await;
    let dir = running.stop().await;

    let running = Running::start_in(dir).await;
    assert!(matches!(running.portal.setup(), SetupState::Done));
    let mut client: Client = running.client().await.with(&secret);
    client.get("/api/v1/account").await.expect(200);
}

async fn culvert_store_owner(running: &Running) -> String {
    let role = culvert_store::Role::Owner;
    crate::support::api_token(running.store.as_ref(), running.account(), role).await
}

#[tokio::test]
async fn what_the_portal_keeps_is_its_owners_alone() {
    let running = Running::start().await;
    let mode =
        |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&running.state), 0o700);
    let mut files = 0;
    for file in std::fs::read_dir(&running.state).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        files += 1;
    }
    assert!(files >= 3, "certificate, whereabouts, database");
}

#[tokio::test]
async fn a_second_portal_in_the_same_directory_does_not_start() {
    let running = Running::start().await;
    let error = Home::open(&running.state).unwrap_err();
    assert!(error.to_string().contains("in use"), "{error}");
    assert!(Home::open_beside(&running.state).is_ok());
}
