//! A portal whose secrets are encrypted does what any does, and its directory holds no secret in clear.

use crate::browser::{Browser, PASSWORD, person};
use crate::factors::{enrol, give, half_sign_in};
use crate::logs::{answer, log_access};
use crate::support::Running;
use culvert_portal::{Home, PortalError, sealer};
use culvert_secrets::SecretsKey;
use culvert_store::{Role, SecretBytes, SecretName, StoreError};
use culvert_store_sql::SecretsAccess;
use culvert_store_sql::{SqlStore, SqliteOptions};
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use tempfile::TempDir;
use tokio::net::TcpListener;

const SINK_TOKEN: &str = "planted-sink-token";
const PROVIDER_SECRET: &str = "planted-provider-secret";

fn key(byte: u8) -> SecretsAccess {
    SecretsAccess::Key(sealer(SecretsKey::from_bytes(&[byte; 32])))
}

/// The files of the directory that hold one of these secrets, or the beginning of a private key. The log of a database, which a
/// connection that closes late leaves behind for the next one, counts as the database.
fn holding(directory: &Path, secrets: &[Vec<u8>]) -> Vec<String> {
    let mut holding = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            continue;
        }
        let content = fs::read(entry.path()).unwrap();
        let holds = |secret: &Vec<u8>| content.windows(secret.len()).any(|part| part == secret);
        if secrets.iter().any(holds) {
            let name = entry.file_name().into_string().unwrap();
            holding.insert(name.trim_end_matches("-wal").to_owned());
        }
    }
    holding.into_iter().collect()
}

async fn make_sink(running: &Running, listener: &TcpListener) {
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    let target = json!({"kind": "http", "url": url});
    let sink = json!({
        "sink": {"name": "siem", "logs": ["access"], "target": target},
        "token": SINK_TOKEN,
    });
    let mut owner = running.owner().await;
    owner.post("/api/v1/sinks", sink).await.expect(201);
}

async fn make_provider(running: &Running) {
    let provider = json!({
        "name": "Example",
        "issuer": "https://id.example",
        "client_id": "culvert",
        "client_secret": PROVIDER_SECRET,
    });
    let mut owner = running.owner().await;
    owner.post("/api/v1/providers", provider).await.expect(201);
}

/// All secrets that a portal has, as they would lie in a file.
async fn all_secrets(running: &Running, totp: &[u8]) -> Vec<Vec<u8>> {
    let mut secrets = vec![
        b"PRIVATE KEY".to_vec(),
        totp.to_vec(),
        SINK_TOKEN.into(),
        PROVIDER_SECRET.into(),
    ];
    for name in [SecretName::GrantSigning, SecretName::Pairs] {
        let none = SecretBytes::new(Vec::new());
        let stored = running.store.secret(running.account(), name, none).await;
        secrets.push(stored.unwrap().expose().to_vec());
    }
    secrets
}

async fn start(dir: TempDir, access: SecretsAccess) -> Running {
    Running::start_keyed(dir, access).await
}

#[tokio::test]
async fn people_and_sinks_are_served_and_no_secret_is_in_a_file() {
    let running = start(tempfile::tempdir().unwrap(), key(1)).await;
    let pin = running.portal.pin();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    make_sink(&running, &listener).await;
    make_provider(&running).await;
    let (_, name) = person(&running, Role::Owner).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let (mut app, _) = enrol(&mut browser).await;
    let secrets = all_secrets(&running, &app.secret).await;
    let state = running.state.clone();
    assert_eq!(holding(&state, &secrets), [""; 0], "while it runs");

    let dir = running.stop().await;
    assert_eq!(holding(&state, &secrets), [""; 0]);
    for file in ["certificate.pem", "browsers.key"] {
        assert!(!state.join(file).exists(), "{file}");
    }
    let running = start(dir, key(1)).await;
    assert_eq!(running.portal.pin(), pin, "tokens find it as before");
    let mut browser = Browser::open(&running).await;
    let ticket = half_sign_in(&mut browser, &name).await;
    give(&mut browser, &ticket, &app.code()).await.expect(303);
    log_access(&running, 1).await;
    let asked = answer(&listener, "204 No Content").await;
    assert!(asked.contains(&format!("Bearer {SINK_TOKEN}")), "{asked}");
}

#[tokio::test]
async fn a_portal_is_encrypted_rotated_and_decrypted_and_stays_what_it_is() {
    let running = start(tempfile::tempdir().unwrap(), SecretsAccess::Plain).await;
    let (pin, state) = (running.portal.pin(), running.state.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    make_sink(&running, &listener).await;
    make_provider(&running).await;
    let (_, name) = person(&running, Role::Owner).await;
    let mut browser = Browser::open(&running).await;
    browser.sign_in(&name, PASSWORD).await.expect(303);
    let (mut app, _) = enrol(&mut browser).await;
    let secrets = all_secrets(&running, &app.secret).await;
    let dir = running.stop().await;
    let plain_files = holding(&state, &secrets);
    assert!(
        plain_files.contains(&"certificate.pem".to_owned()),
        "{plain_files:?}"
    );
    assert!(
        plain_files.contains(&"portal.db".to_owned()),
        "{plain_files:?}"
    );

    let keys = [1, 2].map(|byte| sealer(SecretsKey::from_bytes(&[byte; 32])));
    let home = Home::open_stopped(&state).unwrap();
    let status = home.encrypt_secrets(&keys[0]).await.unwrap();
    // Two of the portal, two of its directory, one of each other kind.
    assert_eq!((status.key, status.total()), (Some(keys[0].key_id()), 7));
    assert_eq!(holding(&state, &secrets), [""; 0]);
    home.encrypt_secrets(&keys[0])
        .await
        .expect("it may be repeated");
    let refused = home.encrypt_secrets(&keys[1]).await.unwrap_err();
    assert!(matches!(
        refused,
        PortalError::Store(StoreError::OtherSecretsKey { .. })
    ));
    home.rotate_secrets(&keys[0], &keys[1]).await.unwrap();
    drop(home);

    let running = start(dir, key(2)).await;
    assert_eq!(running.portal.pin(), pin);
    let mut browser = Browser::open(&running).await;
    let ticket = half_sign_in(&mut browser, &name).await;
    give(&mut browser, &ticket, &app.code()).await.expect(303);
    let dir = running.stop().await;

    let home = Home::open_stopped(&state).unwrap();
    let refused = home.decrypt_secrets(&keys[0]).await.unwrap_err();
    assert!(matches!(
        refused,
        PortalError::Store(StoreError::OtherSecretsKey { .. })
    ));
    assert_eq!(holding(&state, &secrets), [""; 0], "nothing happened");
    home.decrypt_secrets(&keys[1]).await.unwrap();
    drop(home);
    assert_eq!(holding(&state, &secrets), plain_files);
    let running = start(dir, SecretsAccess::Plain).await;
    assert_eq!(running.portal.pin(), pin);
    log_access(&running, 1).await;
    let asked = answer(&listener, "204 No Content").await;
    assert!(asked.contains(&format!("Bearer {SINK_TOKEN}")), "{asked}");
}

#[tokio::test]
async fn a_portal_that_is_started_finishes_what_an_encryption_that_was_ended_left() {
    let running = start(tempfile::tempdir().unwrap(), SecretsAccess::Plain).await;
    let (pin, state) = (running.portal.pin(), running.state.clone());
    let dir = running.stop().await;
    let sealer = sealer(SecretsKey::from_bytes(&[1; 32]));
    let database = state.join("portal.db");
    // Ended after the database was encrypted, and before the files were moved into it.
    let done = culvert_store_sql::rekey(&database, None, Some(&sealer)).await;
    done.unwrap();
    assert!(state.join("certificate.pem").exists());
    let running = start(dir, key(1)).await;
    assert_eq!(running.portal.pin(), pin);
    for file in ["certificate.pem", "browsers.key"] {
        assert!(!state.join(file).exists(), "{file}");
    }
    let dir = running.stop().await;
    // Ended after the files were written, and before the database was decrypted.
    fs::write(state.join("browsers.key"), "another").unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(state.join("browsers.key"), private).unwrap();
    let running = start(dir, key(1)).await;
    assert_eq!(running.portal.pin(), pin);
    assert!(
        state.join("browsers.key").exists(),
        "what is not in the database is not removed"
    );
    let _dir = running.stop().await;
    let options = SqliteOptions::file(&database).secrets(SecretsAccess::Plain);
    assert!(SqlStore::open(&options).await.is_err());
}
