//! Passwords that others guess first are refused, by whatever way they are set.

use crate::browser::{Browser, PASSWORD, person};
use crate::support::{Answer, Running};
use culvert_store::Role;
use serde_json::json;

/// The portal's name.
const HOST: &str = "vault.firma.zone";

/// Passwords, with a part of the reason.
const COMMON: [(&str, &str); 6] = [
    ("aaaaaaaaaaaa", "repeats"),
    ("123456789012", "common"),
    ("passwordpassword", "repeats"),
    ("qwertyuiop12", "common"),
    ("P4ssw0rd-2026", "common"),
    ("Vault-Firma-26", "own name"),
];

fn assert_refused(answer: &Answer, way: &str, password: &str, reason: &str) {
    assert_eq!(answer.status, 422, "{way} {password}: {answer:?}");
    assert!(answer.text.contains(reason), "{way} {password}: {answer:?}");
}

#[tokio::test]
async fn a_common_password_is_refused_by_every_way_to_set_one() {
    let dir = tempfile::tempdir().unwrap();
    let running = Running::start_as(dir, Some(&format!("https://{HOST}"))).await;
    let token = running.setup_token();
    let (actor, name) = person(&running, Role::Admin).await;
    let mut owner = running.owner().await;
    let at = format!("/api/v1/actors/{actor}");
    let mut admin = Browser::open(&running).await;
    HOST.clone_into(&mut admin.client.host);
    admin.sign_in(&name, PASSWORD).await.expect(303);
    let invited = json!({"name": "grace", "role": "user"});
    let issued = owner.post("/api/v1/invitations", invited).await;
    let issued = issued.expect(201).json();
    let link = issued["link"].as_str().unwrap().rsplit('/').next().unwrap();
    let mut stranger = Browser::open(&running).await;
    HOST.clone_into(&mut stranger.client.host);
    let mut before = running.client().await.with(&token);
    let own = (&*name, "the name");
    for (password, reason) in COMMON.into_iter().chain([own]) {
        let version = owner.get(&at).await.expect(200).json()["version"].to_string();
        let fields = [
            ("role", "user"),
            ("password", password),
            ("version", &*version),
        ];
        let page = format!("/people/{actor}/sign-in");
        let answer = admin.submit(&page, &fields).await;
        assert_refused(&answer, &page, password, reason);
        assert!(
            !answer.text.contains(&format!("\"{password}\"")),
            "{answer:?}"
        );

        let fields = [
            ("current", PASSWORD),
            ("password", password),
            ("again", password),
        ];
        let answer = admin.submit("/me/password", &fields).await;
        assert_refused(&answer, "/me/password", password, reason);

        let body = json!({"role": "admin", "password": password});
        let answer = owner.post(&format!("{at}/sign-in"), body).await;
        assert_refused(&answer, "the API", password, reason);

        // The names of others are no part of these.
        if password == name {
            continue;
        }
        let fields = [("link", link), ("password", password), ("again", password)];
        let answer = stranger.submit_with("/invitation", "", &fields).await;
        assert_refused(&answer, "/invitation", password, reason);

        let fields = [
            ("token", &*token),
            ("owner", "ada"),
            ("password", password),
            ("again", password),
        ];
        let answer = stranger.submit_with("/set-up", "", &fields).await;
        assert_refused(&answer, "/set-up", password, reason);
        let body = json!({"owner": "ada", "password": password});
        let answer = before.post("/api/v1/setup", body).await;
        assert_refused(&answer, "the API's set-up", password, reason);
        for browser in [&mut stranger, &mut admin] {
            browser.move_on(&running).await;
            HOST.clone_into(&mut browser.client.host);
        }
    }
    // The old password is still the one, and the token and the link are still good.
    let mut browser = Browser::open(&running).await;
    HOST.clone_into(&mut browser.client.host);
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let body = json!({"owner": "ada", "password": "battery staple horse"});
    before.post("/api/v1/setup", body).await.expect(201);
}
