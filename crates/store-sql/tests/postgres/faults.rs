//! Faults of the server, of the database and of others: each has one clear line, and nothing is lost.

use crate::server::Server;
use culvert_ids::{AccountId, ClientId, ResourceId};
use culvert_secrets::SecretsKey;
use culvert_store::{
    AccessEntry, AccessFilter, Account, AccountSettings, AttemptKey, AttemptLimit, Author,
    Decision, PageLimit, PendingStore as _, SecretBytes, SecretName, Stamp, StateSecret, Store,
    StoreError,
};
use culvert_store_sql::{PostgresOptions, Sealer, SecretsAccess, SqlStore};
use culvert_wire::Timestamp;
use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);
const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);

fn account(id: AccountId, name: &str) -> Account {
    Account {
        id,
        name: name.to_owned(),
        settings: AccountSettings::default(),
        stamp: Stamp::default(),
    }
}

async fn refused(options: PostgresOptions) -> StoreError {
    SqlStore::open(options).await.unwrap_err()
}

fn sealer(byte: u8) -> Sealer {
    Sealer::new(SecretsKey::from_bytes(&[byte; 32]), |nonce| {
        nonce.fill(9);
        Ok(())
    })
}

#[tokio::test]
async fn a_database_with_tables_of_another_program_is_refused_and_left_as_it_is() {
    let server = Server::get();
    for table in [
        "CREATE TABLE invoice (id int)",
        "CREATE TABLE culvert_schema (id int)",
        "CREATE TABLE culvert_schema (mark text, version int); INSERT INTO culvert_schema VALUES ('OTHER', 1)",
    ] {
        let database = server.bare_database().await;
        server.run(&database.name, table).await;
        let error = refused(database.options()).await;
        assert!(matches!(error, StoreError::Unusable { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("another program") && text.contains("createdb"),
            "{text}"
        );
        // There is still no table of the portal.
        let sql = "DO $$ BEGIN IF to_regclass('account') IS NOT NULL THEN RAISE 'written'; END IF; END $$";
        server.run(&database.name, sql).await;
    }
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let server = Server::get();
    let database = server.database().await;
    server
        .run(&database.name, "UPDATE culvert_schema SET version = 99")
        .await;
    let error = refused(database.options()).await;
    assert!(
        matches!(error, StoreError::NewerSchema { found: 99, .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_database_of_another_encoding_is_refused() {
    let server = Server::get();
    let database = server.bare_database().await;
    let name = format!("{}_latin", database.name);
    let sql = format!("CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0");
    server.run("postgres", &sql).await;
    let error = refused(server.url(&name).parse().unwrap()).await;
    let text = error.to_string();
    assert!(
        text.contains("LATIN1") && text.contains("--encoding=UTF8"),
        "{text}"
    );
}

#[tokio::test]
async fn a_database_that_only_reads_is_refused_with_the_setting_that_makes_it_so() {
    let server = Server::get();
    let database = server.database().await;
    let name = &database.name;
    let set = |value| format!("ALTER DATABASE {name} SET default_transaction_read_only = {value}");
    server.run("postgres", &set("on")).await;
    let error = refused(database.options()).await;
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("default_transaction_read_only"), "{text}");
    server.run("postgres", &set("off")).await;
    let store = SqlStore::open(database.options()).await.unwrap();
    // It may become so while a portal runs.
    server.run("postgres", &set("on")).await;
    server.end_connections(name).await;
    let error = store.ping().await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
}

#[tokio::test]
async fn a_wrong_password_a_missing_database_and_a_missing_server_have_one_line_with_the_fix() {
    let server = Server::get();
    let database = server.database().await;
    let socket = server.socket().display();
    let name = &database.name;
    let hba = format!("{socket}/data/pg_hba.conf");
    server
        .run(
            "postgres",
            "CREATE ROLE locked LOGIN PASSWORD 'right'; SET password_encryption = 'scram-sha-256'",
        )
        .await;
    server.run("postgres", &format!("COPY (SELECT 'local all locked scram-sha-256' UNION ALL SELECT 'local all all trust') TO '{hba}'")).await;
    server.run("postgres", "SELECT pg_reload_conf()").await;
    let mut said = String::new();
    for _ in 0..50 {
        let url = format!("postgres:///{name}?host={socket}&user=locked&password=wrong");
        said = refused(url.parse().unwrap()).await.to_string();
        if said.contains("password authentication failed") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        said.contains("password authentication failed") && said.contains("pg_hba.conf"),
        "{said}"
    );
    assert!(!said.contains("wrong"), "{said}");
    let error = refused(server.url("nowhere").parse().unwrap()).await;
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("nowhere") && text.contains("createdb"),
        "{text}"
    );
    let nobody = "postgres://culvert@127.0.0.1:9/culvert?sslmode=disable";
    let text = refused(nobody.parse().unwrap()).await.to_string();
    assert!(
        text.contains("127.0.0.1:9") && text.contains("check host and port"),
        "{text}"
    );
}

#[tokio::test]
async fn a_user_who_may_make_no_tables_is_told_who_may() {
    let server = Server::get();
    let database = server.bare_database().await;
    let name = &database.name;
    server
        .run(
            name,
            "CREATE ROLE guest LOGIN; REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        )
        .await;
    let url = format!(
        "postgres:///{name}?host={}&user=guest",
        server.socket().display()
    );
    let error = refused(url.parse().unwrap()).await;
    let text = error.to_string();
    assert!(
        text.contains("permission denied") && text.contains("OWNER TO"),
        "{text}"
    );
}

#[tokio::test]
async fn secrets_need_the_key_that_the_database_began_with() {
    let database = Server::get().database().await;
    let open = |access| SqlStore::open(database.options().secrets(access));
    let key = || SecretsAccess::Key(sealer(1));
    let store = open(key()).await.unwrap();
    let made = store
        .create_account(account(ACCOUNT, "Example"), Author::PORTAL, NOW)
        .await;
    made.unwrap();
    let planted = || SecretBytes::new(b"planted".to_vec());
    let secret = store.secret(ACCOUNT, SecretName::Pairs, planted()).await;
    assert_eq!(secret.unwrap(), planted());
    store.close().await;
    let error = open(SecretsAccess::Plain).await.unwrap_err();
    assert!(
        matches!(error, StoreError::SecretsKeyMissing { .. }),
        "{error:?}"
    );
    let error = open(SecretsAccess::Key(sealer(2))).await.unwrap_err();
    assert!(
        matches!(error, StoreError::OtherSecretsKey { .. }),
        "{error:?}"
    );
    let store = open(key()).await.unwrap();
    let other = SecretBytes::new(b"other".to_vec());
    let secret = store.secret(ACCOUNT, SecretName::Pairs, other).await;
    assert_eq!(secret.unwrap(), planted());
}

#[tokio::test]
async fn the_portals_own_secrets_are_kept_whether_a_key_encrypts_them_or_not() {
    for access in [SecretsAccess::Plain, SecretsAccess::Key(sealer(1))] {
        let database = Server::get().database().await;
        let open = || SqlStore::open(database.options().secrets(access.clone()));
        let store = open().await.unwrap();
        let made = store
            .create_account(account(ACCOUNT, "Example"), Author::PORTAL, NOW)
            .await;
        made.unwrap();
        let of = |text: &str| SecretBytes::new(text.as_bytes().to_vec());
        for name in StateSecret::ALL {
            assert_eq!(store.state_secret(name, None).await.unwrap(), None);
            // Of two portals that start, one makes it.
            for candidate in ["first", "second"] {
                let stored = store.state_secret(name, Some(of(candidate))).await;
                assert_eq!(stored.unwrap(), Some(of("first")));
            }
        }
        store.close().await;
        let store = open().await.unwrap();
        let name = StateSecret::Certificate;
        let replace = |current: &str, next: &str| {
            let (current, next) = (of(current), of(next));
            let store = &store;
            async move { store.replace_state_secret(name, &current, next).await }
        };
        let (one, other) = tokio::join!(replace("first", "next"), replace("first", "next"));
        assert_ne!(one.unwrap(), other.unwrap(), "one of two replaces it");
        assert!(!replace("first", "another").await.unwrap());
        assert_eq!(
            store.state_secret(name, None).await.unwrap(),
            Some(of("next"))
        );
        let other = store.state_secret(StateSecret::Browsers, None).await;
        assert_eq!(other.unwrap(), Some(of("first")));
    }
}

#[tokio::test]
async fn many_first_starts_at_once_make_one_schema_and_names_of_accounts_stay_unique() {
    let database = Server::get().bare_database().await;
    let starts: Vec<_> = (0..4)
        .map(|number| {
            let options = database.options();
            tokio::spawn(async move {
                let store = SqlStore::open(options).await.unwrap();
                let id = AccountId::from_bytes([number + 1; 16]);
                let made = store
                    .create_account(account(id, "Example"), Author::PORTAL, NOW)
                    .await;
                store.close().await;
                made
            })
        })
        .collect();
    let mut won = 0;
    for start in starts {
        match start.await.unwrap() {
            Ok(_) => won += 1,
            Err(error) => assert!(matches!(error, StoreError::NameTaken { .. }), "{error:?}"),
        }
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn a_database_that_is_gone_is_unavailable_and_is_found_again() {
    let server = Server::get();
    let database = server.database().await;
    let store = SqlStore::open(database.options()).await.unwrap();
    let made = store
        .create_account(account(ACCOUNT, "Example"), Author::PORTAL, NOW)
        .await;
    made.unwrap();
    let from = &database.name;
    server.end_connections(from).await;
    // Connections that were ended are replaced unseen.
    assert!(store.is_set_up(ACCOUNT).await.is_ok());
    let away = format!("ALTER DATABASE {from} ALLOW_CONNECTIONS false");
    server.run("postgres", &away).await;
    server.end_connections(from).await;
    let error = store.get(ACCOUNT, ACCOUNT.into()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.is_local(), "nothing may be concluded from it");
    assert!(store.ping().await.is_err());
    let back = format!("ALTER DATABASE {from} ALLOW_CONNECTIONS true");
    server.run("postgres", &back).await;
    assert!(store.get(ACCOUNT, ACCOUNT.into()).await.is_ok());
    store.ping().await.unwrap();
}

#[tokio::test]
async fn a_text_with_a_character_that_the_server_has_not_fails_no_batch() {
    let database = Server::get().database().await;
    let store = SqlStore::open(database.options()).await.unwrap();
    let made = store
        .create_account(account(ACCOUNT, "Example"), Author::PORTAL, NOW)
        .await;
    made.unwrap();
    let entry = AccessEntry {
        at: NOW,
        client: ClientId::from_bytes([1; 16]),
        actor: None,
        resource: ResourceId::from_bytes([2; 16]),
        gateway: None,
        policy: None,
        grant: None,
        decision: Decision::Denied,
        reason: "of \0 a machine".to_owned(),
    };
    store.append_access_log(ACCOUNT, vec![entry]).await.unwrap();
    let filter = AccessFilter::default();
    let found = store
        .access_log(ACCOUNT, &filter, None, PageLimit::MAX)
        .await
        .unwrap();
    assert_eq!(found.items[0].entry.reason, "of \u{FFFD} a machine");
}

#[tokio::test]
async fn sign_ins_of_strangers_that_wait_leave_connections_for_grants_and_logs() {
    let database = Server::get().database().await;
    let store = Arc::new(SqlStore::open(database.options()).await.unwrap());
    let made = store.create_account(account(ACCOUNT, "Example"), Author::PORTAL, NOW);
    made.await.unwrap();
    let options: PgConnectOptions = database.url().parse().unwrap();
    let mut other = options.connect().await.unwrap();
    let lock = "BEGIN; LOCK TABLE attempt IN ACCESS EXCLUSIVE MODE";
    sqlx::raw_sql(lock).execute(&mut other).await.unwrap();
    let mut strangers = JoinSet::new();
    for number in 0..8 {
        let store = Arc::clone(&store);
        let key = AttemptKey::from_bytes([number; 32]);
        let limit = AttemptLimit {
            one_every: Duration::from_secs(1),
            at_once: 1,
        };
        strangers.spawn(async move { store.take_attempt(ACCOUNT, key, limit).await });
    }
    // Each has begun by then, as far as it gets.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let ended = store.end_grants(ACCOUNT, Vec::new());
    let ended = tokio::time::timeout(Duration::from_secs(5), ended).await;
    ended.expect("grants do not wait for strangers").unwrap();
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    for taken in strangers.join_all().await {
        assert_eq!(taken.unwrap(), None);
    }
}
