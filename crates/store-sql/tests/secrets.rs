//! Secrets that are encrypted: what is left of them in files, and who reads them.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_ids::{AccountId, ActorId, ProviderId};
use culvert_secrets::SecretsKey;
use culvert_store::{
    Account, AccountSettings, Actor, ActorKind, Author, FactorChange, Logs, Mutation, Provider,
    ProviderSettings, Role, SecretBytes, SecretName, Stamp, StateSecret, Store, StoreError,
};
use culvert_store_sql::{Sealer, SecretsAccess, SqlStore, SqliteOptions};
use culvert_store_sql::{SecretsStatus, backup, rekey, restore, secrets_status};
use culvert_wire::Timestamp;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);
const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);
const PEOPLE: [ActorId; 2] = [ActorId::from_bytes([2; 16]), ActorId::from_bytes([3; 16])];
const PROVIDERS: [ProviderId; 2] = [
    ProviderId::from_bytes([4; 16]),
    ProviderId::from_bytes([5; 16]),
];
const SINKS: [&str; 2] = ["collector", "archive"];

/// Table, column and key of all secrets, as the documents list them.
const COLUMNS: [[&str; 3]; 5] = [
    ["secret", "value", "name"],
    ["state_secret", "value", "name"],
    ["totp", "secret", "actor_id"],
    ["provider_secret", "secret", "provider_id"],
    ["sink_secret", "value", "sink"],
];

/// The prefix of all planted secrets, and of nothing else.
const PLANTED: &str = "planted-secret-";

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn database(&self) -> PathBuf {
        self.path("portal.db")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    async fn open(&self, access: SecretsAccess) -> Result<SqlStore, StoreError> {
        let options = SqliteOptions::file(self.database()).busy_timeout_ms(50);
        SqlStore::open(&options.secrets(access)).await
    }

    async fn raw(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.database());
        options.connect().await.unwrap()
    }

    /// The files of the directory that hold these bytes.
    fn holding(&self, bytes: &[u8]) -> Vec<String> {
        let mut holding = Vec::new();
        for entry in fs::read_dir(self.0.path()).unwrap() {
            let entry = entry.unwrap();
            let content = fs::read(entry.path()).unwrap();
            if content.windows(bytes.len()).any(|found| found == bytes) {
                holding.push(entry.file_name().into_string().unwrap());
            }
        }
        holding
    }

    /// Everything that is kept in columns of secrets, as it is kept.
    async fn stored(&self) -> Vec<Vec<u8>> {
        let mut raw = self.raw().await;
        let mut stored = Vec::new();
        for [table, column, key] in COLUMNS {
            let sql = format!("SELECT {column} FROM {table} ORDER BY {key}");
            let rows = sqlx::query_scalar(AssertSqlSafe(sql));
            let rows: Vec<Vec<u8>> = rows.fetch_all(&mut raw).await.unwrap();
            stored.extend(rows);
        }
        raw.close().await.unwrap();
        stored
    }

    /// Changes what is kept, behind the store's back.
    async fn change(&self, sql: String) {
        let mut raw = self.raw().await;
        raw.execute(AssertSqlSafe(sql)).await.unwrap();
        raw.close().await.unwrap();
    }
}

fn random(bytes: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes();
    bytes
        .iter_mut()
        .zip(number)
        .for_each(|(to, from)| *to = from);
    Ok(())
}

fn sealer(byte: u8) -> Sealer {
    Sealer::new(SecretsKey::from_bytes(&[byte; 32]), random)
}

fn key(byte: u8) -> SecretsAccess {
    SecretsAccess::Key(sealer(byte))
}

fn planted(name: &str) -> SecretBytes {
    SecretBytes::new(format!("{PLANTED}{name}").into_bytes())
}

async fn set_up(store: &SqlStore) {
    let account = Account {
        id: ACCOUNT,
        name: "Example".to_owned(),
        settings: AccountSettings::default(),
        stamp: Stamp::default(),
    };
    let created = store.create_account(account, Author::PORTAL, NOW).await;
    created.unwrap();
    for name in [SecretName::GrantSigning, SecretName::Pairs] {
        let secret = planted(name.as_str());
        store.secret(ACCOUNT, name, secret).await.unwrap();
    }
    for (number, id) in (0..).zip(PEOPLE) {
        let actor = Actor {
            id,
            kind: ActorKind::User,
            name: format!("Person {number}"),
            disabled: false,
            sign_in: None,
            stamp: Stamp::default(),
        };
        let password = Mutation::SetPassword {
            actor: id,
            role: Some(Role::Admin),
            verifier: SecretBytes::new(b"verifier".to_vec()),
            expected_version: None,
        };
        let mutations = vec![Mutation::Create(actor.into()), password];
        write(store, mutations).await;
        write(store, vec![totp(id, &format!("totp-{number}"))]).await;
    }
    for (number, id) in (0..).zip(PROVIDERS) {
        let provider = Provider {
            id,
            name: format!("Provider {number}"),
            issuer: format!("https://id{number}.example"),
            client_id: "culvert".to_owned(),
            secret_set: None,
            disabled: false,
            settings: ProviderSettings::default(),
            stamp: Stamp::default(),
        };
        let secret = Mutation::SetProviderSecret {
            provider: id,
            secret: planted(&format!("provider-{number}")),
        };
        write(store, vec![Mutation::Create(provider.into()), secret]).await;
    }
    for sink in SINKS {
        let secret = Some(planted(sink));
        let sink = sink.to_owned();
        write(store, vec![Mutation::SetSinkSecret { sink, secret }]).await;
    }
    for name in StateSecret::ALL {
        let secret = planted(name.as_str());
        store.state_secret(name, Some(secret)).await.unwrap();
    }
}

async fn write(store: &SqlStore, mutations: Vec<Mutation>) {
    let written = store.write(ACCOUNT, Author::PORTAL, NOW, mutations).await;
    written.unwrap();
}

fn totp(actor: ActorId, name: &str) -> Mutation {
    let change = FactorChange::Set {
        secret: planted(name),
        step: 1,
        codes: Vec::new(),
    };
    Mutation::ChangeFactor { actor, change }
}

/// All secrets as the portal reads them, or the first error.
async fn read(store: &SqlStore) -> Result<Vec<String>, StoreError> {
    let other = || SecretBytes::new(b"another".to_vec());
    let mut found = Vec::new();
    for name in [SecretName::GrantSigning, SecretName::Pairs] {
        found.push(Some(store.secret(ACCOUNT, name, other()).await?));
    }
    for actor in PEOPLE {
        found.push(store.totp_secret(ACCOUNT, actor).await?);
    }
    for provider in PROVIDERS {
        found.push(store.provider_secret(ACCOUNT, provider).await?);
    }
    for sink in SINKS {
        found.push(store.sink_secret(ACCOUNT, sink).await?);
    }
    for name in StateSecret::ALL {
        found.push(store.state_secret(name, None).await?);
    }
    let text = |secret: SecretBytes| String::from_utf8(secret.expose().to_vec()).unwrap();
    Ok(found.into_iter().flatten().map(text).collect())
}

/// The secrets that [`read`] finds: those of the state directory only if secrets are encrypted.
fn all(with_state: bool) -> Vec<String> {
    let names = "grant-signing pairs totp-0 totp-1 provider-0 provider-1 collector archive";
    let state = if with_state {
        "certificate browsers"
    } else {
        ""
    };
    let names = names.split(' ').chain(state.split_ascii_whitespace());
    names.map(|name| format!("{PLANTED}{name}")).collect()
}

#[tokio::test]
async fn a_file_that_is_not_encrypted_has_the_portals_own_secrets_only_if_a_server_had_them() {
    let place = Place::new();
    let store = place.open(SecretsAccess::Plain).await.unwrap();
    let of = |text: &str| SecretBytes::new(text.as_bytes().to_vec());
    let name = StateSecret::Certificate;
    let stored = store.state_secret(name, Some(of("made"))).await;
    assert_eq!(stored.unwrap(), None);
    let replaced = store
        .replace_state_secret(name, &of("made"), of("next"))
        .await;
    assert!(!replaced.unwrap());
    place
        .change("INSERT INTO state_secret VALUES ('certificate', x'6d6f766564')".to_owned())
        .await;
    let stored = store.state_secret(name, Some(of("made"))).await;
    assert_eq!(stored.unwrap(), Some(of("moved")));
    let replaced = store
        .replace_state_secret(name, &of("moved"), of("next"))
        .await;
    assert!(replaced.unwrap());
    store.close().await;
    // A key encrypts it with the rest.
    rekey(&place.database(), None, Some(&sealer(1)))
        .await
        .unwrap();
    assert_eq!(place.holding(b"next"), [""; 0]);
    let store = place.open(key(1)).await.unwrap();
    assert_eq!(
        store.state_secret(name, None).await.unwrap(),
        Some(of("next"))
    );
}

async fn encrypted() -> Place {
    let place = Place::new();
    let store = place.open(key(1)).await.unwrap();
    set_up(&store).await;
    store.close().await;
    place
}

#[tokio::test]
async fn a_planted_secret_is_in_no_byte_once_secrets_are_encrypted() {
    let place = Place::new();
    let store = place.open(SecretsAccess::Plain).await.unwrap();
    set_up(&store).await;
    // Pages that are freed, and a log that has grown.
    for round in 0..40 {
        write(
            &store,
            vec![totp(PEOPLE[0], &format!("totp-{round}-before"))],
        )
        .await;
    }
    write(&store, vec![totp(PEOPLE[0], "totp-0")]).await;
    assert_eq!(
        place.holding(PLANTED.as_bytes()),
        ["portal.db-wal"],
        "otherwise this test finds nothing that there is"
    );
    store.close().await;
    assert_eq!(place.holding(PLANTED.as_bytes()), ["portal.db"]);

    let status = rekey(&place.database(), None, Some(&sealer(1)))
        .await
        .unwrap();
    assert_eq!(status.key, Some(sealer(1).key_id()));
    assert!(status.is_clean);
    assert_eq!(status.total(), 8);
    assert_eq!(place.holding(PLANTED.as_bytes()), [""; 0]);

    let store = place.open(key(1)).await.unwrap();
    assert_eq!(read(&store).await.unwrap(), all(false));
    for name in StateSecret::ALL {
        let secret = planted(name.as_str());
        store.state_secret(name, Some(secret)).await.unwrap();
    }
    write(&store, vec![totp(PEOPLE[0], "totp-0")]).await;
    assert_eq!(read(&store).await.unwrap(), all(true));
    let copy = place.path("portal.backup");
    backup(&place.database(), &[], None, &copy).await.unwrap();
    assert_eq!(
        place.holding(PLANTED.as_bytes()),
        [""; 0],
        "while it is in use"
    );
    store.close().await;
    assert_eq!(place.holding(PLANTED.as_bytes()), [""; 0]);

    let restored = Place::new();
    restore(&copy, &[], &restored.database()).await.unwrap();
    let error = restored.open(SecretsAccess::Plain).await.unwrap_err();
    assert!(
        matches!(error, StoreError::SecretsKeyMissing { .. }),
        "{error}"
    );
    let store = restored.open(key(1)).await.unwrap();
    assert_eq!(read(&store).await.unwrap(), all(true));
}

#[tokio::test]
async fn a_new_database_begins_encrypted_and_nothing_is_written_in_clear() {
    let place = Place::new();
    let store = place.open(key(1)).await.unwrap();
    set_up(&store).await;
    assert_eq!(read(&store).await.unwrap(), all(true));
    assert_eq!(place.holding(PLANTED.as_bytes()), [""; 0], "in the log");
    store.close().await;
    assert_eq!(place.holding(PLANTED.as_bytes()), [""; 0]);
    let status = secrets_status(&place.database(), Some(&sealer(1)))
        .await
        .unwrap();
    assert_eq!(status.total(), 10);
}

#[tokio::test]
async fn after_a_rotation_the_old_key_opens_nothing_and_old_values_are_gone() {
    let place = encrypted().await;
    let before = place.stored().await;
    assert_eq!(before.len(), 10);
    let status = rekey(&place.database(), Some(&sealer(1)), Some(&sealer(2))).await;
    assert_eq!(status.unwrap().key, Some(sealer(2).key_id()));
    for value in before {
        assert_eq!(place.holding(&value), [""; 0]);
    }
    let error = place.open(key(1)).await.unwrap_err();
    let (needed, given) = (sealer(2).key_id(), sealer(1).key_id());
    assert_eq!(
        error.to_string(),
        format!(
            "its secrets are encrypted with key {needed}, and key {given} was given: give the file of key {needed}"
        )
    );
    let store = place.open(key(2)).await.unwrap();
    assert_eq!(read(&store).await.unwrap(), all(true));
}

#[tokio::test]
async fn decrypted_secrets_are_what_they_were() {
    let place = encrypted().await;
    let status = rekey(&place.database(), Some(&sealer(1)), None)
        .await
        .unwrap();
    assert_eq!((status.key, status.total()), (None, 8));
    let store = place.open(SecretsAccess::Plain).await.unwrap();
    assert_eq!(read(&store).await.unwrap(), all(false));
}

#[tokio::test]
async fn without_the_right_key_nothing_is_opened_and_nothing_written() {
    let place = encrypted().await;
    let before = fs::read(place.database()).unwrap();
    let missing = place.open(SecretsAccess::Plain).await.unwrap_err();
    let text = missing.to_string();
    let id = sealer(1).key_id().to_string();
    for part in [&id, "--secrets-key FILE", "credential `secrets-key`"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(place.open(key(2)).await.is_err());
    let refused = |from: Option<u8>, to: Option<u8>| {
        let [from, to] = [from, to].map(|byte| byte.map(sealer));
        let database = place.database();
        async move {
            rekey(&database, from.as_ref(), to.as_ref())
                .await
                .unwrap_err()
        }
    };
    for (from, to) in [
        (None, Some(1)),
        (None, None),
        (Some(2), Some(3)),
        (Some(2), None),
    ] {
        refused(from, to).await;
    }
    assert!(
        secrets_status(&place.database(), Some(&sealer(2)))
            .await
            .is_err()
    );
    assert_eq!(fs::read(place.database()).unwrap(), before);
    let store = place.open(key(1)).await.unwrap();
    assert_eq!(read(&store).await.unwrap(), all(true), "nothing is lost");
}

#[tokio::test]
async fn a_key_for_a_database_in_clear_is_refused_until_it_is_encrypted() {
    let place = Place::new();
    let store = place.open(SecretsAccess::Plain).await.unwrap();
    set_up(&store).await;
    store.close().await;
    let error = place.open(key(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::SecretsNotEncrypted { .. }));
    assert!(
        error.to_string().contains("culvert portal secrets encrypt"),
        "{error}"
    );
    let status = secrets_status(&place.database(), None).await.unwrap();
    assert_eq!((status.key, status.total()), (None, 8));
}

#[tokio::test]
async fn secrets_of_two_rows_can_not_be_exchanged() {
    for [table, column, key_column] in COLUMNS {
        let place = encrypted().await;
        place
            .change(format!(
                "CREATE TEMP TABLE two AS SELECT {key_column} AS k, {column} AS v FROM {table}; \
                 UPDATE {table} SET {column} = (SELECT v FROM two WHERE k <> {table}.{key_column})"
            ))
            .await;
        let before = place.stored().await;
        let store = place.open(key(1)).await.unwrap();
        let error = read(&store).await.unwrap_err().to_string();
        store.close().await;
        let tested = secrets_status(&place.database(), Some(&sealer(1))).await;
        // A rotation that meets one does nothing.
        let rotated = rekey(&place.database(), Some(&sealer(1)), Some(&sealer(2))).await;
        let [tested, rotated] = [tested, rotated].map(|status| status.unwrap_err().to_string());
        for error in [&error, &tested, &rotated] {
            for part in [
                table,
                column,
                key_column,
                "it was changed, or belongs to another row",
            ] {
                assert!(error.contains(part), "{table}: {error}");
            }
        }
        assert_eq!(place.stored().await, before, "{table}");
        assert!(
            place.open(key(2)).await.is_err(),
            "the key is still the first"
        );
    }
}

#[tokio::test]
async fn a_secret_in_clear_among_encrypted_ones_is_refused() {
    for [table, column, _] in COLUMNS {
        let place = encrypted().await;
        let sql = format!("UPDATE {table} SET {column} = CAST('in clear' AS BLOB)");
        place.change(sql).await;
        let store = place.open(key(1)).await.unwrap();
        let error = read(&store).await.unwrap_err().to_string();
        assert!(error.contains("it is not encrypted"), "{table}: {error}");
    }
}

#[tokio::test]
async fn whoever_opens_without_secrets_needs_no_key_and_gets_none() {
    let place = encrypted().await;
    let store = place.open(SecretsAccess::Nothing).await.unwrap();
    assert_eq!(
        store
            .accounts(None, culvert_store::PageLimit::MAX)
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    let error = store.totp_secret(ACCOUNT, PEOPLE[0]).await.unwrap_err();
    assert!(error.is_local(), "{error}");
    let name = SecretName::Pairs;
    assert!(store.secret(ACCOUNT, name, planted("other")).await.is_err());
}

#[tokio::test]
async fn a_database_of_before_says_that_nothing_is_encrypted() {
    let place = Place::new();
    place
        .open(SecretsAccess::Plain)
        .await
        .unwrap()
        .close()
        .await;
    place
        .change("DROP TABLE secrets_key; DROP TABLE state_secret".to_owned())
        .await;
    let status = secrets_status(&place.database(), None).await.unwrap();
    let empty = SecretsStatus {
        key: None,
        is_clean: true,
        secrets: status.secrets.clone(),
    };
    assert_eq!(status, empty);
    assert_eq!(status.total(), 0);
}
