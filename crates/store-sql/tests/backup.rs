//! A backup while others write, and what comes back from it.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_age::{AgeError, Envelope, Identity};
use culvert_ids::{AccountId, GroupId};
use culvert_store::{
    Account, AccountSettings, Author, Group, Mutation, SecretBytes, Seq, Stamp, Store, StoreError,
};
use culvert_store_sql::{BackupError, BackupFile, backup, restore};
use culvert_store_sql::{SqlStore, SqliteOptions};
use culvert_wire::Timestamp;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Executor};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);
const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The names in the directory, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.0.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    /// A database with an account.
    async fn set_up(&self) -> SqlStore {
        let store = open(&self.path("portal.db")).await;
        let account = Account {
            id: ACCOUNT,
            name: "Example".to_owned(),
            settings: AccountSettings::default(),
            stamp: Stamp::default(),
        };
        let created = store.create_account(account, Author::PORTAL, NOW).await;
        created.unwrap();
        store
    }
}

async fn open(path: &Path) -> SqlStore {
    SqlStore::open(&SqliteOptions::file(path)).await.unwrap()
}

/// One change that is one group more, with something to copy.
async fn add(store: &SqlStore, number: u32) {
    let mut id = [0; 16];
    id[12..].copy_from_slice(&number.to_be_bytes());
    let group = Group {
        id: GroupId::from_bytes(id),
        name: format!("Group {number} {}", "x".repeat(80)),
        stamp: Stamp::default(),
    };
    let create = vec![Mutation::Create(group.into())];
    let written = store.write(ACCOUNT, Author::PORTAL, NOW, create).await;
    written.unwrap();
}

fn certificate() -> BackupFile {
    BackupFile {
        name: "certificate.pem".to_owned(),
        content: SecretBytes::new(b"the key of the portal".to_vec()),
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn holds(path: &Path, words: &[u8]) -> bool {
    let bytes = fs::read(path).unwrap();
    bytes.windows(words.len()).any(|window| window == words)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_is_whole_while_others_write() {
    let place = Place::new();
    let store = Arc::new(place.set_up().await);
    let is_enough = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, is_enough) = (Arc::clone(&store), Arc::clone(&is_enough));
        tokio::spawn(async move {
            for number in 0.. {
                if is_enough.load(Ordering::Relaxed) {
                    return;
                }
                add(&store, number).await;
            }
        })
    };
    let mut watch = store.watch();
    let copies = Place::new();
    let mut last = Seq(0);
    for number in 0..5 {
        // Each has something to copy that the one before had not.
        assert!(watch.changed().await);
        let file = copies.path(&format!("backup-{number}"));
        let database = copies.path(&format!("restored-{number}.db"));
        let files = [certificate()];
        backup(&place.path("portal.db"), &files, None, &file)
            .await
            .unwrap();
        assert_eq!(mode(&file), 0o600);
        assert_eq!(restore(&file, &[], &database).await.unwrap(), files);
        assert_eq!(mode(&database), 0o600);
        let snapshot = open(&database).await.snapshot(ACCOUNT).await.unwrap();
        assert_eq!(snapshot.groups.len() as u64 + 1, snapshot.seq.0);
        assert!(snapshot.seq > last);
        last = snapshot.seq;
    }
    is_enough.store(true, Ordering::Relaxed);
    writer.await.unwrap();
    let names = copies.names();
    assert!(!names.iter().any(|name| name.contains("partial")));
}

#[tokio::test]
async fn what_was_restored_goes_on_where_the_backup_ended_and_keeps_nothing_of_the_files() {
    let place = Place::new();
    let store = place.set_up().await;
    add(&store, 1).await;
    let (file, restored) = (place.path("backup"), place.path("restored.db"));
    // The last change is in the write-ahead log alone.
    backup(&place.path("portal.db"), &[certificate()], None, &file)
        .await
        .unwrap();
    let content = certificate().content;
    assert!(holds(&file, content.expose()));
    restore(&file, &[], &restored).await.unwrap();
    assert!(!holds(&restored, content.expose()));
    let again = open(&restored).await;
    add(&again, 2).await;
    let snapshot = again.snapshot(ACCOUNT).await.unwrap();
    assert_eq!((snapshot.groups.len(), snapshot.seq), (2, Seq(3)));
}

#[tokio::test]
async fn a_backup_replaces_no_file_and_leaves_none_when_it_fails() {
    let place = Place::new();
    place.set_up().await.close().await;
    let database = place.path("portal.db");
    let file = place.path("backup");
    fs::write(&file, "mine").unwrap();
    let error = backup(&database, &[], None, &file).await.unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error:?}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    fs::remove_file(&file).unwrap();

    let partial = place.path("backup.partial");
    fs::write(&partial, "another backup under way").unwrap();
    let error = backup(&database, &[], None, &file).await.unwrap_err();
    assert!(error.to_string().contains("backup.partial"), "{error}");
    assert!(partial.exists());
    fs::remove_file(&partial).unwrap();

    let nowhere = place.path("missing/backup");
    let error = backup(&database, &[], None, &nowhere).await.unwrap_err();
    assert!(matches!(error, BackupError::File { .. }), "{error:?}");
    let missing = place.path("missing.db");
    let error = backup(&missing, &[], None, &file).await.unwrap_err();
    assert!(error.to_string().contains("missing.db"), "{error}");
    assert_eq!(place.names(), ["portal.db"]);
}

#[tokio::test]
async fn nothing_but_a_whole_backup_is_restored() {
    let place = Place::new();
    let store = place.set_up().await;
    for number in 0..200 {
        add(&store, number).await;
    }
    store.close().await;
    let good = place.path("good");
    backup(&place.path("portal.db"), &[certificate()], None, &good)
        .await
        .unwrap();
    let bytes = fs::read(&good).unwrap();
    let file = place.path("given");
    let target = place.path("restored.db");
    let given = async |bytes: &[u8]| {
        fs::write(&file, bytes).unwrap();
        let error = restore(&file, &[], &target).await.unwrap_err();
        assert!(!target.exists(), "{error}");
        assert!(error.to_string().contains("given"), "{error}");
        error
    };

    for no_backup in [
        &b""[..],
        &[b'x'; 8192],
        &fs::read(place.path("portal.db")).unwrap(),
    ] {
        let error = given(no_backup).await;
        assert!(matches!(error, BackupError::NotABackup { .. }), "{error:?}");
    }
    let mut overwritten = bytes.clone();
    let middle = bytes.len() / 2;
    overwritten[middle..middle + 4096].fill(0xff);
    for damaged in [&bytes[..bytes.len() - 4096], &overwritten] {
        let error = given(damaged).await;
        assert!(matches!(error, BackupError::Damaged { .. }), "{error:?}");
    }
    let missing = place.path("missing");
    let error = restore(&missing, &[], &target).await.unwrap_err();
    assert!(matches!(error, BackupError::File { .. }), "{error:?}");

    fs::write(&target, "mine").unwrap();
    for from in [&good, &missing, &file] {
        restore(from, &[], &target).await.unwrap_err();
        assert_eq!(fs::read(&target).unwrap(), b"mine");
    }
    let error = restore(&good, &[], &target).await.unwrap_err();
    assert!(matches!(error, BackupError::Exists { .. }), "{error:?}");
}

#[tokio::test]
async fn a_backup_of_a_later_version_is_refused_by_name() {
    let place = Place::new();
    place.set_up().await.close().await;
    let file = place.path("backup");
    backup(&place.path("portal.db"), &[], None, &file)
        .await
        .unwrap();
    let options = SqliteConnectOptions::new().filename(&file);
    let mut raw = options.connect().await.unwrap();
    raw.execute("PRAGMA user_version = 999").await.unwrap();
    drop(raw);
    let error = restore(&file, &[], &place.path("restored.db"))
        .await
        .unwrap_err();
    let BackupError::Store { source, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(matches!(source, StoreError::NewerSchema { .. }));
    assert!(error.to_string().contains("999"), "{error}");
}

fn identity(byte: u8) -> Identity {
    Identity::from_bytes(&[byte; 32]).unwrap()
}

/// The randomness of a test: each value once.
fn envelope(to: &Identity) -> Option<Envelope> {
    let mut next = 0_u8;
    let envelope = Envelope::new(&[to.recipient()], |bytes| {
        for byte in bytes {
            *byte = next;
            next = next.wrapping_add(1);
        }
    });
    Some(envelope.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_backup_comes_back_and_holds_nothing_in_plain() {
    let place = Place::new();
    let store = place.set_up().await;
    // More than one chunk of 64 KiB, part of it in the write-ahead log alone.
    for number in 0..200 {
        add(&store, number).await;
    }
    let copies = Place::new();
    let (first, second) = (copies.path("first"), copies.path("second"));
    let files = [certificate()];
    let database = place.path("portal.db");
    let before = place.names();
    // Two at once are two copies.
    let (made, other) = tokio::join!(
        backup(&database, &files, envelope(&identity(1)), &first),
        backup(&database, &files, envelope(&identity(2)), &second),
    );
    made.unwrap();
    other.unwrap();
    assert_eq!(place.names(), before, "nothing lies beside the database");
    assert_eq!(copies.names(), ["first", "second"]);
    assert_eq!(mode(&first), 0o600);
    for plain in [&b"SQLite format"[..], b"the key of the portal", b"Example"] {
        assert!(!holds(&first, plain), "{plain:?}");
    }
    for (file, byte) in [(first, 1), (second, 2)] {
        let restored = copies.path(&format!("restored-{byte}.db"));
        let identities = [identity(9), identity(byte)];
        assert_eq!(restore(&file, &identities, &restored).await.unwrap(), files);
        assert_eq!(mode(&restored), 0o600);
        let snapshot = open(&restored).await.snapshot(ACCOUNT).await.unwrap();
        assert_eq!(snapshot.groups.len(), 200);
    }
}

#[tokio::test]
async fn an_encrypted_backup_that_was_changed_or_is_anothers_is_refused_by_its_reason() {
    let place = Place::new();
    place.set_up().await.close().await;
    let (plain, good) = (place.path("plain"), place.path("good"));
    let database = place.path("portal.db");
    backup(&database, &[], None, &plain).await.unwrap();
    let sealed = backup(&database, &[], envelope(&identity(1)), &good);
    sealed.await.unwrap();
    let bytes = fs::read(&good).unwrap();
    let (file, target) = (place.path("given"), place.path("restored.db"));
    let given = async |bytes: &[u8], identities: &[Identity]| {
        fs::write(&file, bytes).unwrap();
        let error = restore(&file, identities, &target).await.unwrap_err();
        assert!(!target.exists(), "{error}");
        assert!(error.to_string().contains("given"), "{error}");
        error
    };

    let error = given(&bytes, &[]).await;
    assert!(matches!(error, BackupError::Encrypted { .. }), "{error:?}");
    let error = given(&fs::read(&plain).unwrap(), &[identity(1)]).await;
    assert!(
        matches!(error, BackupError::NotEncrypted { .. }),
        "{error:?}"
    );
    let reason = |error| match error {
        BackupError::Decrypting { source, .. } => source,
        other => panic!("{other:?}"),
    };
    let error = reason(given(&bytes, &[identity(2)]).await);
    assert!(matches!(error, AgeError::NoMatch), "{error:?}");
    let mut changed = bytes.clone();
    let middle = bytes.len() / 2;
    changed[middle] ^= 1;
    let error = reason(given(&changed, &[identity(1)]).await);
    assert!(matches!(error, AgeError::Forged), "{error:?}");
    let error = reason(given(&bytes[..50], &[identity(1)]).await);
    assert!(matches!(error, AgeError::CutOff), "{error:?}");
    reason(given(&bytes[..bytes.len() - 1], &[identity(1)]).await);
}
