//! Faults of a file: others hold it, fill it, damage it, replace it, look at it.

#![forbid(unsafe_code)]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_ids::{AccountId, ActorId, ClientId, GroupId, ResourceId, SiteId, TokenId};
use culvert_store::{
    Account, AccountSettings, Actor, ActorKind, Author, Enrolment, Group, Mutation, Resource, Seen,
    Seq, Site, Stamp, Store, StoreError, StoreExt, Token, TokenScope, TokenUses,
};
use culvert_store_sql::{SqlStore, SqliteOptions};
use culvert_wire::model::{Applications, Filter, Target, TargetKind};
use culvert_wire::token::{Secret, TokenKind};
use culvert_wire::{PublicKey, Timestamp};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection, Executor};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Something on this machine that should happen at once may take this long when others compile.
const SOON: Duration = Duration::from_secs(15);

const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_000);
const ACCOUNT: AccountId = AccountId::from_bytes([1; 16]);

struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("culvert.db")
    }

    fn options(&self) -> SqliteOptions {
        SqliteOptions::file(self.path()).busy_timeout_ms(50)
    }

    async fn open(&self) -> Result<SqlStore, StoreError> {
        SqlStore::open(&self.options()).await
    }

    /// A store with an account.
    async fn set_up(&self) -> SqlStore {
        let store = self.open().await.unwrap();
        let account = Account {
            id: ACCOUNT,
            name: "Example".to_owned(),
            settings: AccountSettings::default(),
            stamp: Stamp::default(),
        };
        store
            .create_account(account, Author::PORTAL, NOW)
            .await
            .unwrap();
        store
    }

    /// The file, as another program sees it.
    async fn raw(&self) -> SqliteConnection {
        raw(&self.path()).await
    }
}

async fn raw(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path);
    options.connect().await.unwrap()
}

/// Writes a database of the first schema, with the account, sites and resources of one of today.
async fn write_first_version(place: &Place, today: &Path) {
    let options = SqliteConnectOptions::new().filename(place.path());
    let options = options.create_if_missing(true);
    let mut connection = options.connect().await.unwrap();
    connection
        .execute(include_str!("../src/schema.sql"))
        .await
        .unwrap();
    let application = sqlx::query_scalar::<_, i64>("PRAGMA application_id")
        .fetch_one(&mut raw(today).await)
        .await
        .unwrap();
    connection
        .execute(sqlx::AssertSqlSafe(format!(
            "PRAGMA application_id = {application}; PRAGMA user_version = 1; ATTACH '{}' AS today",
            today.display()
        )))
        .await
        .unwrap();
    for table in ["account", "site", "resource"] {
        let columns = format!("SELECT group_concat(name) FROM pragma_table_info('{table}')");
        let columns = sqlx::query_scalar::<_, String>(sqlx::AssertSqlSafe(columns))
            .fetch_one(&mut connection)
            .await
            .unwrap();
        let copy = format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM today.{table}");
        connection.execute(sqlx::AssertSqlSafe(copy)).await.unwrap();
    }
    connection.close().await.unwrap();
}

fn group(number: u32) -> Group {
    let mut id = [0; 16];
    id[12..].copy_from_slice(&number.to_be_bytes());
    Group {
        id: GroupId::from_bytes(id),
        name: format!("Group {number} {}", "x".repeat(80)),
        stamp: Stamp::default(),
    }
}

fn actor(number: u8, name: &str) -> Actor {
    Actor {
        id: ActorId::from_bytes([number; 16]),
        kind: ActorKind::User,
        name: name.to_owned(),
        disabled: false,
        sign_in: None,
        stamp: Stamp::default(),
    }
}

async fn add(store: &SqlStore, number: u32) -> Result<(), StoreError> {
    let create = vec![Mutation::Create(group(number).into())];
    store
        .write(ACCOUNT, Author::PORTAL, NOW, create)
        .await
        .map(|_| ())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn nobody_else_can_read_the_file_and_its_log() {
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let path = state.join("culvert.db");
    let store = SqlStore::open(&SqliteOptions::file(&path)).await.unwrap();
    assert_eq!((mode(&state), mode(&path)), (0o700, 0o600));
    for log in ["culvert.db-wal", "culvert.db-shm"] {
        assert_eq!(mode(&state.join(log)), 0o600, "{log}");
    }
    store.close().await;
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    SqlStore::open(&SqliteOptions::file(&path)).await.unwrap();
    assert_eq!(mode(&path), 0o600);
}

#[tokio::test]
async fn what_was_acknowledged_outlives_the_store() {
    let place = Place::new();
    let store = place.set_up().await;
    add(&store, 1).await.unwrap();
    store.close().await;
    assert!(matches!(
        store.ping().await,
        Err(StoreError::Unavailable(_))
    ));
    let store = place.open().await.unwrap();
    let read: Group = store.get_as(ACCOUNT, group(1).id).await.unwrap();
    assert_eq!(read.stamp.version, 1);
}

/// The files as a killed process leaves them: nothing closed, nothing moved out of the log.
#[tokio::test]
async fn what_was_acknowledged_outlives_a_killed_process() {
    let place = Place::new();
    let store = place.set_up().await;
    for number in 0..20 {
        add(&store, number).await.unwrap();
    }
    let left = Place::new();
    for file in ["culvert.db", "culvert.db-wal"] {
        let from = place.directory.path().join(file);
        fs::copy(from, left.directory.path().join(file)).unwrap();
    }
    let after = left.open().await.unwrap();
    let snapshot = after.snapshot(ACCOUNT).await.unwrap();
    assert_eq!((snapshot.groups.len(), snapshot.seq), (20, Seq(21)));
}

#[tokio::test]
async fn a_database_that_another_process_holds_is_locked_for_writers_only() {
    let place = Place::new();
    let store = place.set_up().await;
    let mut other = place.raw().await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    let error = add(&store, 1).await.unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    assert!(error.is_local() && error.to_string().contains("another process"));
    store.snapshot(ACCOUNT).await.unwrap();
    other.execute("ROLLBACK").await.unwrap();
    add(&store, 1).await.unwrap();
}

#[tokio::test]
async fn a_command_beside_a_portal_that_writes_opens_and_reads_at_once() {
    let place = Place::new();
    place.set_up().await.close().await;
    let mut portal = place.raw().await;
    portal.execute("BEGIN IMMEDIATE").await.unwrap();
    let command = place.open().await.unwrap();
    command.snapshot(ACCOUNT).await.unwrap();
}

#[tokio::test]
async fn a_machine_that_comes_again_as_it_was_waits_for_no_write() {
    let place = Place::new();
    let store = place.set_up().await;
    let actor = actor(2, "Ada");
    let secret = Secret::new([7; 32]);
    let token = Token {
        id: TokenId::from_bytes([3; 16]),
        scope: TokenScope::Client { actor: actor.id },
        name: "laptop".to_owned(),
        uses: TokenUses::Many,
        expires: None,
        revoked: None,
        used: None,
        last_used: None,
        proven: None,
        stamp: Stamp::default(),
    };
    let (id, digest) = (token.id, secret.digest());
    let rows = vec![
        Mutation::Create(actor.into()),
        Mutation::CreateToken { token, digest },
    ];
    store
        .write(ACCOUNT, Author::PORTAL, NOW, rows)
        .await
        .unwrap();
    let comes = async || {
        let principal = store
            .authenticate(id, &digest, TokenKind::Client, NOW)
            .await?;
        let machine = Enrolment {
            new_id: ClientId::from_bytes([4; 16]),
            machine: "machine".to_owned(),
            name: "laptop".to_owned(),
            public_key: PublicKey::from_bytes([5; 32]),
            seen: Seen {
                at: NOW,
                address: None,
                software: "culvert 0.1.0".to_owned(),
            },
        };
        store.enrol_client(ACCOUNT, &principal, machine, NOW).await
    };
    let first = comes().await.unwrap();
    let mut other = place.raw().await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    assert_eq!(comes().await.unwrap(), first);
}

#[tokio::test]
async fn a_database_that_another_process_keeps_to_itself_does_not_open() {
    let place = Place::new();
    place.set_up().await.close().await;
    let mut other = place.raw().await;
    other
        .execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT")
        .await
        .unwrap();
    let error = place.open().await.unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    other.close().await.unwrap();
    place.open().await.unwrap();
}

#[tokio::test]
async fn a_full_database_refuses_writes_whole_and_goes_on_when_there_is_room() {
    let place = Place::new();
    place.set_up().await.close().await;
    let size = fs::metadata(place.path()).unwrap().len();
    let options = place.options().max_bytes(size + 64 * 1024);
    let store = SqlStore::open(&options).await.unwrap();
    let mut written = 0;
    let error = loop {
        match add(&store, written).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 10_000);
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    assert!(written > 10);
    let snapshot = store.snapshot(ACCOUNT).await.unwrap();
    assert_eq!(snapshot.groups.len(), written as usize);
    assert_eq!(snapshot.seq, Seq(u64::from(written) + 1));
    store.close().await;
    let store = place.open().await.unwrap();
    add(&store, written).await.unwrap();
}

#[tokio::test]
async fn resources_of_the_first_version_are_for_every_application_and_lead_anywhere() {
    let place = Place::new();
    let store = place.set_up().await;
    let site = Site {
        id: SiteId::from_bytes([2; 16]),
        name: "office".to_owned(),
        relays: None,
        stamp: Stamp::default(),
    };
    let resource = Resource {
        id: ResourceId::from_bytes([3; 16]),
        site: site.id,
        name: "web".to_owned(),
        target: Target {
            kind: TargetKind::Address,
            address: "10.0.0.1".to_owned(),
        },
        inbound: Vec::new(),
        filters: vec![Filter::Any],
        applications: Applications::Only(vec!["backup".to_owned()]),
        within: Some(vec!["10.0.0.0/8".to_owned()]),
        stamp: Stamp::default(),
    };
    let id = resource.id;
    let rows = vec![
        Mutation::Create(site.into()),
        Mutation::Create(resource.into()),
    ];
    store
        .write(ACCOUNT, Author::PORTAL, NOW, rows)
        .await
        .unwrap();
    store.close().await;
    let first_version = Place::new();
    write_first_version(&first_version, &place.path()).await;
    let store = first_version.open().await.unwrap();
    let found: Resource = store.get_as(ACCOUNT, id).await.unwrap();
    assert_eq!(found.applications, Applications::Any);
    assert_eq!(found.within, None);
}

/// Two people whose names differ in the case of one letter, from before that was refused.
#[tokio::test]
async fn twins_from_before_keys_were_normalised_can_be_changed() {
    let place = Place::new();
    let store = place.set_up().await;
    let rows = [actor(2, "\u{1f0}"), actor(3, "x")];
    let rows = rows.map(|row| Mutation::Create(row.into()));
    store
        .write(ACCOUNT, Author::PORTAL, NOW, rows.into())
        .await
        .unwrap();
    store.close().await;
    let mut other = place.raw().await;
    other
        .execute("UPDATE actor SET name = 'J\u{30c}', name_key = 'j\u{30c}' WHERE name = 'x'")
        .await
        .unwrap();
    other.close().await.unwrap();
    let store = place.open().await.unwrap();
    for row in [actor(2, "\u{1f0}"), actor(3, "J\u{30c}")] {
        let disabled = Mutation::Update {
            entity: Actor {
                disabled: true,
                ..row.clone()
            }
            .into(),
            expected_version: None,
        };
        store
            .write(ACCOUNT, Author::PORTAL, NOW, vec![disabled])
            .await
            .unwrap();
        let found: Actor = store.get_as(ACCOUNT, row.id).await.unwrap();
        assert!(found.disabled && found.name == row.name, "{found:?}");
    }
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_left_alone() {
    let place = Place::new();
    place.set_up().await.close().await;
    let mut other = place.raw().await;
    other
        .execute("PRAGMA user_version = 999; PRAGMA journal_mode = DELETE")
        .await
        .unwrap();
    other.close().await.unwrap();
    let before = fs::read(place.path()).unwrap();
    let error = place.open().await.unwrap_err();
    assert!(
        matches!(error, StoreError::NewerSchema { found: 999, .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("restore the backup"));
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[tokio::test]
async fn what_is_no_database_of_ours_is_refused() {
    let place = Place::new();
    fs::write(
        place.path(),
        "This is a letter, not a database.\n".repeat(200),
    )
    .unwrap();
    let before = fs::read(place.path()).unwrap();
    let error = place.open().await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert_eq!(fs::read(place.path()).unwrap(), before);

    let place = Place::new();
    fs::write(place.path(), "").unwrap();
    let mut other = place.raw().await;
    other.execute("CREATE TABLE letters (text)").await.unwrap();
    other.close().await.unwrap();
    let error = place.open().await.unwrap_err();
    assert!(error.to_string().contains("another program"), "{error}");
}

#[tokio::test]
async fn a_damaged_database_is_an_error_and_not_an_empty_answer() {
    let place = Place::new();
    let store = place.set_up().await;
    for number in 0..500 {
        add(&store, number).await.unwrap();
    }
    store.close().await;
    let mut bytes = fs::read(place.path()).unwrap();
    // All pages but the first, which has the schema.
    for page in bytes.chunks_mut(4_096).skip(1) {
        page[..64].fill(0xa5);
    }
    fs::write(place.path(), bytes).unwrap();
    let error = match place.open().await {
        Ok(store) => store.snapshot(ACCOUNT).await.map(|_| ()).unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
    assert!(error.to_string().contains("restore the last backup"));
}

/// Rows that SQLite reads without complaint, but this program did not write.
#[tokio::test]
async fn a_row_that_makes_no_sense_is_an_error_and_not_an_empty_answer() {
    let place = Place::new();
    let store = place.set_up().await;
    add(&store, 1).await.unwrap();
    let mut other = place.raw().await;
    for (sql, may_be_later) in [
        ("UPDATE account SET settings = '{'", false),
        ("UPDATE actor_group SET version = -1", false),
        ("UPDATE change_log SET operation = 'burn'", true),
        (
            "UPDATE change_log SET operation = 'create', row_after = '{'",
            false,
        ),
        (
            "UPDATE change_log SET operation = 'create', row_after = '[]'",
            true,
        ),
    ] {
        other.execute(sql).await.unwrap();
        let snapshot = store.snapshot(ACCOUNT).await.map(|_| ());
        let changes = store.changes_after(ACCOUNT, Seq(0), 9).await.map(|_| ());
        let error = snapshot.and(changes).unwrap_err();
        match may_be_later {
            true => assert!(matches!(error, StoreError::LaterValue { .. }), "{error:?}"),
            false => assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}"),
        }
        let repair = "UPDATE account SET settings = '{}'; UPDATE actor_group SET version = 1";
        other.execute(repair).await.unwrap();
    }
}

#[tokio::test]
async fn a_place_where_no_file_can_be_is_named_in_the_error() {
    for path in ["/proc/culvert/culvert.db", "/dev/null"] {
        let error = SqlStore::open(&SqliteOptions::file(path))
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[tokio::test]
async fn a_database_that_can_not_be_written_does_not_answer_as_if_it_could() {
    let place = Place::new();
    place.set_up().await.close().await;
    let size = fs::metadata(place.path()).unwrap().len();
    let options = place.options().max_bytes(size + 16 * 1024);
    let store = SqlStore::open(&options).await.unwrap();
    store.ping().await.unwrap();

    let mut other = place.raw().await;
    other.execute("BEGIN IMMEDIATE").await.unwrap();
    add(&store, 0).await.unwrap_err();
    let error = store.ping().await.unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
    other.execute("ROLLBACK").await.unwrap();
    // The writer's connection goes back to its pool behind the answer; while it is not there, the last answer holds.
    let can_write = async {
        while store.ping().await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, can_write).await.unwrap();

    let mut number = 1;
    while add(&store, number).await.is_ok() {
        number += 1;
        assert!(number < 10_000);
    }
    let error = store.ping().await.unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
    store.close().await;
    let store = place.open().await.unwrap();
    store.ping().await.unwrap();
    let names = sqlx::query("SELECT name FROM secret");
    let probes = names.fetch_all(&mut place.raw().await).await.unwrap();
    assert_eq!(probes.len(), 0, "nothing is left of the question");
}

/// SQLite itself would go on writing into a file that has no name any more.
#[tokio::test]
async fn nothing_is_acknowledged_that_goes_into_a_file_which_was_taken_away() {
    for suffix in ["", "-wal"] {
        let place = Place::new();
        let store = place.set_up().await;
        add(&store, 1).await.unwrap();
        let file = place.directory.path().join(format!("culvert.db{suffix}"));
        let aside = place.directory.path().join("aside");
        fs::rename(&file, &aside).unwrap();
        for error in [
            add(&store, 2).await.unwrap_err(),
            store.ping().await.unwrap_err(),
        ] {
            assert!(error.is_local(), "{error:?}");
            let path = file.display().to_string();
            assert!(error.to_string().contains(&path), "{error}");
        }
        fs::write(&file, "another").unwrap();
        assert!(add(&store, 2).await.is_err());
        fs::rename(&aside, &file).unwrap();
        add(&store, 2).await.unwrap();
        store.ping().await.unwrap();
    }
}
