//! The same tests of an upgrade for both databases.

use culvert_fair::Subscriber;
use culvert_ids::{AccountId, ActorId, ClientId, GatewayId, GrantId, GroupId, ID_LEN, PolicyId};
use culvert_ids::{ProviderId, ResourceId, SiteId, TokenId};
use culvert_store::{
    AccessFilter, Author, ChangeFilter, FlowFilter, ListFilter, Logs, Mutation, NewPending, Page,
    PageLimit, PendingBounds, PendingKey, PendingKind, PendingStore, Policy, Provider, PutPending,
    SecretBytes, SecretName, Seq, Site, Stamp, Store, StoreError, StoreExt, WhenFull, WhenThere,
};
use culvert_store_sql::{SchemaStep, SqlStore};
use culvert_wire::Timestamp;
use std::time::Duration;

/// The rows that the version before wrote.
pub(crate) const ROWS: &str = include_str!("../fixtures/rows.sql");

/// The step to the version after this one: it adds a column and a table, and takes both away in the end.
pub(crate) const NEXT: SchemaStep = SchemaStep::ExpandAndContract(
    "ALTER TABLE site ADD COLUMN region TEXT; CREATE TABLE beacon (id INTEGER PRIMARY KEY); \
     INSERT INTO beacon (id) VALUES (1);",
    "ALTER TABLE site DROP COLUMN region; DROP TABLE beacon;",
);

pub(crate) const ACCOUNT: AccountId = AccountId::from_bytes(id(1, 1));
const NOW: Timestamp = Timestamp::from_unix_ms(1_800_000_000_001);

/// Longer than any test.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// An id of the fixture.
const fn id(kind: u8, number: u8) -> [u8; ID_LEN] {
    let mut bytes = [0; ID_LEN];
    bytes[0] = kind;
    bytes[ID_LEN - 1] = number;
    bytes
}

pub(crate) fn site(number: u8) -> Site {
    Site {
        id: SiteId::from_bytes(id(0x55, number)),
        name: format!("site {number}"),
        relays: None,
        stamp: Stamp::default(),
    }
}

pub(crate) async fn add_site(store: &SqlStore, number: u8) -> Result<(), StoreError> {
    let create = vec![Mutation::Create(site(number).into())];
    let written = store.write(ACCOUNT, Author::PORTAL, NOW, create).await;
    written.map(drop)
}

/// Everything that the fixture has is found.
pub(crate) async fn finds_all(store: &SqlStore) {
    let all = store.snapshot(ACCOUNT).await.unwrap();
    let actors: Vec<_> = all.actors.iter().map(|actor| &*actor.name).collect();
    assert_eq!(actors, ["ada", "bob"]);
    assert_eq!(all.groups[0].id, GroupId::from_bytes(id(3, 1)));
    assert_eq!(all.memberships[0].actor, ActorId::from_bytes(id(2, 1)));
    assert_eq!(all.sites[0].name, "office");
    assert_eq!(all.resources[0].target.address, "10.1.2.3");
    assert_eq!(all.policies[0].resource, ResourceId::from_bytes(id(6, 1)));
    assert_eq!(all.tokens[0].id, TokenId::from_bytes(id(8, 1)));
    assert_eq!(all.clients[0].id, ClientId::from_bytes(id(9, 1)));
    assert_eq!(
        all.gateways[0].enrolled_with,
        Some(TokenId::from_bytes(id(8, 1)))
    );

    let provider = ProviderId::from_bytes(id(12, 1));
    let found: Provider = store.get_as(ACCOUNT, provider).await.unwrap();
    assert_eq!(found.name, "idp");
    let secret = store.provider_secret(ACCOUNT, provider).await.unwrap();
    assert_eq!(secret.unwrap().expose(), [0xae]);
    let identity = store
        .identity(ACCOUNT, provider, "subject-1")
        .await
        .unwrap();
    let ada = ActorId::from_bytes(id(2, 1));
    assert_eq!(identity.unwrap().actor, ada);
    let (actor, verifier) = store.password(ACCOUNT, "ada").await.unwrap().unwrap();
    assert_eq!((actor, verifier.expose()), (ada, &[0xac][..]));
    let totp = store.totp_secret(ACCOUNT, ada).await.unwrap();
    assert_eq!(totp.unwrap().expose(), [0xaf]);
    assert_eq!(store.passkeys(ACCOUNT, ada).await.unwrap()[0].name, "key");
    let pairs = store.secret(ACCOUNT, SecretName::Pairs, SecretBytes::new(vec![1]));
    assert_eq!(pairs.await.unwrap().expose(), [0xaa; 32]);
    let sink = store.sink_secret(ACCOUNT, "siem").await.unwrap();
    assert_eq!(sink.unwrap().expose(), [0xad]);
    assert_eq!(
        store.sink_positions(ACCOUNT, "siem").await.unwrap().len(),
        1
    );
    assert_eq!(store.owners(ACCOUNT, NOW).await.unwrap().len(), 1);
    finds_logs(store).await;
}

async fn finds_logs(store: &SqlStore) {
    let grants: Page<_, GrantId> = store
        .live_grants(ACCOUNT, NOW, None, PageLimit::MAX)
        .await
        .unwrap();
    assert_eq!(grants.items[0].gateway, GatewayId::from_bytes(id(10, 1)));
    let filter = AccessFilter::default();
    let access = store
        .access_log(ACCOUNT, &filter, None, PageLimit::MAX)
        .await;
    assert_eq!(access.unwrap().items.len(), 2);
    let filter = FlowFilter::default();
    let flows = store.flow_log(ACCOUNT, &filter, None, PageLimit::MAX).await;
    assert_eq!(flows.unwrap().items.len(), 1);
    assert_eq!(store.flows_lost(ACCOUNT).await.unwrap(), 3);
    let first = store.changes_after(ACCOUNT, Seq(0), 3).await.unwrap();
    assert_eq!(first.len(), 3);
    let waiting = store
        .pending(ACCOUNT, PendingKey::from_bytes([0xb5; 32]))
        .await;
    assert_eq!(waiting.unwrap().unwrap().value.expose(), [0xb6]);
}

/// Two versions work on one database at once: each reads what the other one writes.
pub(crate) async fn both_write_and_read(older: &SqlStore, newer: &SqlStore) {
    for (number, (writes, reads)) in (1..).zip([(older, newer), (newer, older)]) {
        add_site(writes, number).await.unwrap();
        let read: Site = reads.get_as(ACCOUNT, site(number).id).await.unwrap();
        assert_eq!(read.name, site(number).name);
        let changed = Site {
            name: format!("changed {number}"),
            ..read
        };
        let update = vec![Mutation::Update {
            entity: changed.into(),
            expected_version: Some(1),
        }];
        let written = reads.write(ACCOUNT, Author::PORTAL, NOW, update).await;
        written.unwrap();
        put(writes, number).await;
        let taken = reads.take_pending(ACCOUNT, key(number)).await.unwrap();
        assert_eq!(taken.unwrap().value.expose(), [number]);
        finds_all(reads).await;
    }
    let sites = older
        .list_as::<Site>(ACCOUNT, &ListFilter::default(), None, PageLimit::MAX)
        .await
        .unwrap();
    assert_eq!(sites.items.len(), 3);
}

const fn key(number: u8) -> PendingKey {
    PendingKey::from_bytes([number; 32])
}

async fn put(store: &SqlStore, number: u8) {
    let new = NewPending {
        kind: PendingKind::Device,
        key: key(number),
        subscriber: Subscriber::of([192, 0, 2, number].into()),
        value: SecretBytes::new(vec![number]),
        lifetime: LONG,
    };
    // There is room for one: others of its kind give way, and nothing else does.
    let bounds = PendingBounds {
        all: 1,
        of_one: 1,
        full: WhenFull::LargestGivesWay,
    };
    let put = store.put_pending(ACCOUNT, new, WhenThere::Replace, bounds);
    assert!(matches!(put.await.unwrap(), PutPending::Waits { .. }));
}

/// Rows of kinds that only a later version knows: a change of the configuration, and something that waits.
pub(crate) const LATER_ROWS: &str = "UPDATE account SET last_seq = last_seq + 1; \
    INSERT INTO change_log (account, seq, at_ms, operation, kind, row_id) SELECT account, last_seq, 1800000000000, \
     'create', 'beacon', account FROM account; \
    INSERT INTO pending (account, key, kind, subscriber, version, since_us, expires_us, value) SELECT account, \
     X'C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1C1', 'of-later', X'06C000020000000000', 1, 2, \
     4102444800000000, X'C2' FROM account;";

/// A version skips rows of kinds that it does not know, and leaves them as they are. `count` counts the rows that
/// [`LATER_ROWS`] made.
pub(crate) async fn skips_later_rows(store: &SqlStore, last: Seq, count: impl AsyncFn() -> i64) {
    assert_eq!(count().await, 2);
    assert_eq!(store.changes_after(ACCOUNT, last, 10).await.unwrap(), []);
    add_site(store, 9).await.unwrap();
    let changes = store.changes_after(ACCOUNT, last, 10).await.unwrap();
    let [change] = &changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!((change.seq, change.skipped), (Seq(last.0 + 2), 1));
    assert_eq!(change.id, site(9).id.into());
    let log = store
        .change_log(ACCOUNT, &ChangeFilter::default(), None, PageLimit::MAX)
        .await
        .unwrap();
    assert!(log.items.iter().all(|change| change.seq != Seq(last.0 + 1)));
    assert_eq!(log.items.len() as u64, last.0 + 1);
    put(store, 9).await;
    put(store, 10).await;
    assert_eq!(count().await, 2);
}

/// A condition that only a later version knows: nobody is let in by the rest of its policy.
pub(crate) const LATER_CONDITION: &str =
    "UPDATE policy SET conditions = '[{\"kind\":\"of-later\"}]'";

/// A version that does not know a value reads no more of its row, says so, and leaves it as it is.
pub(crate) async fn refuses_a_later_value(store: &SqlStore) {
    let policy = PolicyId::from_bytes(id(7, 1));
    for error in [
        store.snapshot(ACCOUNT).await.map(drop).unwrap_err(),
        store
            .get(ACCOUNT, policy.into())
            .await
            .map(drop)
            .unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::LaterValue { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("of-later") && text.contains("later version"),
            "{text}"
        );
    }
    // Nothing is written over it either.
    let known = Policy {
        id: policy,
        name: "p".to_owned(),
        group: GroupId::from_bytes(id(3, 1)),
        resource: ResourceId::from_bytes(id(6, 1)),
        disabled: true,
        conditions: Vec::new(),
        stamp: Stamp::default(),
    };
    let update = vec![Mutation::Update {
        entity: known.into(),
        expected_version: Some(1),
    }];
    let written = store.write(ACCOUNT, Author::PORTAL, NOW, update).await;
    let error = written.unwrap_err();
    assert!(matches!(error, StoreError::LaterValue { .. }), "{error:?}");
}

/// A version that an upgrade left behind says so, and what there is to do.
pub(crate) fn is_left_behind<T: std::fmt::Debug>(outcome: Result<T, StoreError>) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("run a later version") && text.contains("before the upgrade was finished"),
        "{text}"
    );
}
