//! Things that wait for somebody's next step, and tries of secrets.

use super::Fixture;
use super::world::*;
use culvert_fair::Subscriber;
use culvert_ids::AccountId;
use culvert_store::{
    AttemptKey, AttemptLimit, MAX_PENDING_LEN, NewPending, PendingBounds, PendingKey, PendingKind,
    PutPending, SecretBytes, Store, StoreError, WhenFull, WhenThere,
};
use std::sync::Arc;
use std::time::Duration;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

const ROOM: PendingBounds = PendingBounds {
    all: 1_000,
    of_one: 1_000,
    full: WhenFull::LargestGivesWay,
};

fn key(number: u64) -> PendingKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    PendingKey::from_bytes(bytes)
}

fn value(number: u64) -> SecretBytes {
    SecretBytes::new(number.to_be_bytes().to_vec())
}

fn new(number: u64, subscriber: Subscriber, lifetime: Duration) -> NewPending {
    NewPending {
        kind: PendingKind::Device,
        key: key(number),
        subscriber,
        value: value(number),
        lifetime,
    }
}

fn at(address: &str) -> Subscriber {
    Subscriber::of(address.parse().unwrap())
}

const WAITS: PutPending = PutPending::Waits { gave_way: None };

/// A store and an account in it.
struct Table {
    store: Arc<dyn Store>,
    account: AccountId,
    _fixture: Fixture,
}

impl Table {
    async fn new(factory: impl AsyncFn() -> Fixture) -> Self {
        let fixture = factory().await;
        let world = World::beside(&fixture.store).await;
        Self {
            store: Arc::clone(&fixture.store),
            account: world.account,
            _fixture: fixture,
        }
    }

    async fn put(&self, new: NewPending, bounds: PendingBounds) -> PutPending {
        let put = self
            .store
            .put_pending(self.account, new, WhenThere::Replace, bounds);
        put.await.unwrap()
    }

    async fn put_first(&self, new: NewPending, bounds: PendingBounds) -> PutPending {
        let put = self
            .store
            .put_pending(self.account, new, WhenThere::Keep, bounds);
        put.await.unwrap()
    }

    async fn waits(&self, number: u64) -> bool {
        let found = self.store.pending(self.account, key(number)).await;
        found.unwrap().is_some()
    }
}

pub(crate) async fn what_waits_is_there_until_it_is_taken_or_its_time_is_over(
    factory: impl AsyncFn() -> Fixture,
) {
    let table = Table::new(factory).await;
    let (store, account) = (&table.store, table.account);
    let person = Subscriber::key(1);
    assert_eq!(table.put(new(1, person, LONG), ROOM).await, WAITS);
    let found = store.pending(account, key(1)).await.unwrap().unwrap();
    assert_eq!((found.value, found.version), (value(1), 1));
    assert!(found.age < LONG);
    let other = store.pending(account, key(2)).await.unwrap();
    assert_eq!(other, None);

    let taken = store.take_pending(account, key(1)).await.unwrap();
    assert_eq!(taken.unwrap().value, value(1));
    assert!(!table.waits(1).await);
    assert_eq!(store.take_pending(account, key(1)).await.unwrap(), None);

    let over = Duration::ZERO;
    assert_eq!(table.put(new(1, person, over), ROOM).await, WAITS);
    assert!(!table.waits(1).await, "its time is over");
    assert_eq!(store.take_pending(account, key(1)).await.unwrap(), None);
    let replaced = store.replace_pending(account, key(1), 1, Some(value(2)));
    assert!(!replaced.await.unwrap());
    assert_eq!(table.put_first(new(1, person, LONG), ROOM).await, WAITS);
    assert!(table.waits(1).await, "nothing was in the way");

    assert_eq!(table.put(new(1, person, LONG), ROOM).await, WAITS);
    let again = new(1, person, LONG);
    assert_eq!(table.put_first(again, ROOM).await, PutPending::IsThere);
}

pub(crate) async fn of_two_who_take_at_once_one_gets_it(factory: impl AsyncFn() -> Fixture) {
    take_at_once(factory, 20).await;
}

/// Takes this many things, each by two callers at once.
pub(crate) async fn take_at_once(factory: impl AsyncFn() -> Fixture, races: u64) {
    let table = Table::new(factory).await;
    let account = table.account;
    for race in 0..races {
        assert_eq!(
            table.put(new(race, at("192.0.2.1"), LONG), ROOM).await,
            WAITS
        );
        let take = || {
            let store = Arc::clone(&table.store);
            tokio::spawn(async move { store.take_pending(account, key(race)).await })
        };
        let (one, other) = tokio::join!(take(), take());
        let taken = [one, other].map(|taken| taken.unwrap().unwrap());
        let got = taken.iter().flatten().count();
        assert_eq!(got, 1, "race {race}");
    }
}

pub(crate) async fn of_those_who_change_what_they_saw_one_does(factory: impl AsyncFn() -> Fixture) {
    let table = Table::new(factory).await;
    let account = table.account;
    table.put(new(1, at("192.0.2.1"), LONG), ROOM).await;
    for version in 1..=5 {
        let change = |number: u64| {
            let store = Arc::clone(&table.store);
            tokio::spawn(async move {
                let value = Some(value(number));
                store.replace_pending(account, key(1), version, value).await
            })
        };
        let all = futures_of(8, change).await;
        let changed = all.iter().filter(|changed| **changed).count();
        assert_eq!(changed, 1, "version {version}");
    }
    let found = table.store.pending(account, key(1)).await.unwrap().unwrap();
    assert_eq!(found.version, 6);
    let end = |version| table.store.replace_pending(account, key(1), version, None);
    assert!(!end(5).await.unwrap(), "it was changed since");
    assert!(end(6).await.unwrap());
    assert!(!table.waits(1).await);
}

async fn futures_of(
    count: u64,
    of: impl Fn(u64) -> tokio::task::JoinHandle<Result<bool, StoreError>>,
) -> Vec<bool> {
    let tasks: Vec<_> = (0..count).map(of).collect();
    let mut all = Vec::new();
    for task in tasks {
        all.push(task.await.unwrap().unwrap());
    }
    all
}

pub(crate) async fn of_those_who_come_at_once_one_is_first(factory: impl AsyncFn() -> Fixture) {
    let table = Table::new(factory).await;
    let account = table.account;
    let come = |_| {
        let store = Arc::clone(&table.store);
        tokio::spawn(async move {
            let new = new(1, Subscriber::key(1), LONG);
            let put = store.put_pending(account, new, WhenThere::Keep, ROOM).await;
            put.map(|put| put == WAITS)
        })
    };
    let firsts = futures_of(8, come).await;
    assert_eq!(firsts.iter().filter(|first| **first).count(), 1);
}

pub(crate) async fn whoever_has_the_most_makes_room_and_loses_the_oldest(
    factory: impl AsyncFn() -> Fixture,
) {
    let table = Table::new(factory).await;
    let bounds = PendingBounds {
        all: 12,
        of_one: 4,
        full: WhenFull::LargestGivesWay,
    };
    let [ada, bob] = [1, 2].map(Subscriber::key);
    let gave_way = |holder| PutPending::Waits {
        gave_way: Some(holder),
    };
    assert_eq!(table.put(new(0, ada, LONG), bounds).await, WAITS);
    for number in 1..=4 {
        assert_eq!(table.put(new(number, bob, LONG), bounds).await, WAITS);
    }
    assert_eq!(table.put(new(5, bob, LONG), bounds).await, gave_way(bob));
    assert!(table.waits(0).await && !table.waits(1).await && table.waits(2).await);

    // Seven others fill it up.
    for number in 10..17 {
        let other = Subscriber::key(number);
        assert_eq!(table.put(new(number, other, LONG), bounds).await, WAITS);
    }
    let newest = Subscriber::key(17);
    assert_eq!(
        table.put(new(17, newest, LONG), bounds).await,
        gave_way(bob)
    );
    assert!(!table.waits(2).await && table.waits(0).await && table.waits(17).await);
    // One whose time is over takes no room, and another kind has its own.
    let other_kind = NewPending {
        kind: PendingKind::Form,
        ..new(18, newest, LONG)
    };
    assert_eq!(table.put(other_kind, bounds).await, WAITS);
    table
        .store
        .take_pending(table.account, key(3))
        .await
        .unwrap();
    assert_eq!(table.put(new(3, bob, Duration::ZERO), bounds).await, WAITS);
    assert_eq!(table.put(new(19, newest, LONG), bounds).await, WAITS);
}

pub(crate) async fn a_site_that_takes_all_leaves_one_for_everybody_else(
    factory: impl AsyncFn() -> Fixture,
) {
    let table = Table::new(factory).await;
    let bounds = PendingBounds {
        all: 24,
        of_one: 2,
        full: WhenFull::OwnIsRefused,
    };
    let person = new(0, at("192.0.2.1"), LONG);
    assert_eq!(table.put(person, bounds).await, WAITS);
    let mut number = 1;
    let mut put_from = async |address: &str| {
        let put = table.put(new(number, at(address), LONG), bounds).await;
        number += 1;
        put
    };
    let mut of_site = async |site: u16| {
        let mut fits = 0;
        for network in 0..16 {
            let put = put_from(&format!("2001:{site:x}:1:{network:x}00::1")).await;
            fits += usize::from(matches!(put, PutPending::Waits { .. }));
        }
        fits
    };
    assert_eq!(of_site(0x1000).await, 4 * 2, "a /48 has four shares");
    for site in 0x1001..0x1005 {
        of_site(site).await;
    }
    let put = put_from("203.0.113.1").await;
    assert!(
        matches!(put, PutPending::Waits { gave_way: Some(_) }),
        "{put:?}"
    );
    assert!(table.waits(0).await, "others have more");
}

pub(crate) async fn one_with_a_full_share_is_told_how_long_to_wait(
    factory: impl AsyncFn() -> Fixture,
) {
    let table = Table::new(factory).await;
    for full in [WhenFull::OwnIsRefused, WhenFull::IsRefused] {
        let bounds = PendingBounds {
            all: 4,
            of_one: 2,
            full,
        };
        let base = 100 * (full as u64 + 1);
        let kind = match full {
            WhenFull::IsRefused => PendingKind::SpentChallenge,
            _ => PendingKind::Device,
        };
        let put = async |number: u64, from: &str| {
            let new = NewPending {
                kind,
                ..new(base + number, at(from), LONG)
            };
            table.put_first(new, bounds).await
        };
        for number in 0..2 {
            assert_eq!(put(number, "192.0.2.1").await, WAITS);
        }
        let refused = put(2, "192.0.2.1").await;
        let PutPending::Refused { wait } = refused else {
            panic!("{full:?}: {refused:?}");
        };
        assert!(wait <= LONG && wait > LONG / 2, "{wait:?}");
        for number in 3..5 {
            assert_eq!(put(number, "192.0.2.2").await, WAITS);
        }
        let other = put(5, "192.0.2.3").await;
        match full {
            WhenFull::IsRefused => assert!(matches!(other, PutPending::Refused { .. })),
            _ => assert!(matches!(other, PutPending::Waits { gave_way: Some(_) })),
        }
        assert_eq!(table.waits(base).await, full == WhenFull::IsRefused);
    }
}

pub(crate) async fn bounds_hold_for_those_who_come_at_once(factory: impl AsyncFn() -> Fixture) {
    let table = Table::new(factory).await;
    let bounds = PendingBounds {
        all: 100,
        of_one: 5,
        full: WhenFull::OwnIsRefused,
    };
    let account = table.account;
    let come = |number| {
        let store = Arc::clone(&table.store);
        tokio::spawn(async move {
            let new = new(number, at("192.0.2.1"), LONG);
            let put = store
                .put_pending(account, new, WhenThere::Keep, bounds)
                .await;
            put.map(|put| put == WAITS)
        })
    };
    let fits = futures_of(20, come).await;
    assert_eq!(fits.iter().filter(|fits| **fits).count(), 5);
}

pub(crate) async fn pending_things_are_of_one_account_and_bounded(
    factory: impl AsyncFn() -> Fixture,
) {
    let fixture = factory().await;
    let store = &fixture.store;
    let ours = World::beside(store).await.account;
    let theirs = World::beside(store).await.account;
    let person = Subscriber::key(1);
    let put = |account, new| store.put_pending(account, new, WhenThere::Keep, ROOM);
    assert_eq!(put(ours, new(1, person, LONG)).await.unwrap(), WAITS);
    assert_eq!(store.pending(theirs, key(1)).await.unwrap(), None);
    assert_eq!(store.take_pending(theirs, key(1)).await.unwrap(), None);
    let changed = store.replace_pending(theirs, key(1), 1, None).await;
    assert!(!changed.unwrap());
    assert_eq!(put(theirs, new(1, person, LONG)).await.unwrap(), WAITS);
    assert!(store.take_pending(ours, key(1)).await.unwrap().is_some());
    assert!(store.pending(theirs, key(1)).await.unwrap().is_some());

    let longest = |len| NewPending {
        value: SecretBytes::new(vec![7; len]),
        ..new(2, person, LONG)
    };
    let stored = put(ours, longest(MAX_PENDING_LEN)).await;
    assert_eq!(stored.unwrap(), WAITS);
    let found = store.pending(ours, key(2)).await.unwrap().unwrap();
    assert_eq!(found.value.expose().len(), MAX_PENDING_LEN);
    let longer = put(ours, longest(MAX_PENDING_LEN + 1)).await;
    assert!(matches!(longer, Err(StoreError::TooMany { .. })));

    let unknown = account_id();
    let limit = AttemptLimit {
        one_every: LONG,
        at_once: 1,
    };
    let attempt = AttemptKey::from_bytes([1; 32]);
    let answers = [
        put(unknown, new(1, person, LONG)).await.map(drop),
        store.pending(unknown, key(1)).await.map(drop),
        store.take_pending(unknown, key(1)).await.map(drop),
        store
            .replace_pending(unknown, key(1), 1, None)
            .await
            .map(drop),
        store.take_attempt(unknown, attempt, limit).await.map(drop),
    ];
    for (at, answer) in answers.into_iter().enumerate() {
        assert!(
            matches!(answer, Err(StoreError::NoAccount)),
            "{at}: {answer:?}"
        );
    }
    let take = |account| store.take_attempt(account, attempt, limit);
    assert_eq!(take(ours).await.unwrap(), None);
    assert!(take(ours).await.unwrap().is_some());
    assert_eq!(take(theirs).await.unwrap(), None);
}

pub(crate) async fn tries_are_counted_by_whoever_lets_them_pass(
    factory: impl AsyncFn() -> Fixture,
) {
    let table = Table::new(factory).await;
    let account = table.account;
    let limit = AttemptLimit {
        one_every: LONG,
        at_once: 10,
    };
    let attempt = |number: u8| AttemptKey::from_bytes([number; 32]);
    let try_it = |_| {
        let store = Arc::clone(&table.store);
        tokio::spawn(async move {
            let wait = store.take_attempt(account, attempt(1), limit).await;
            wait.map(|wait| wait.is_none())
        })
    };
    let passed = futures_of(30, try_it).await;
    assert_eq!(passed.iter().filter(|passed| **passed).count(), 10);
    let take = |key, limit| table.store.take_attempt(account, key, limit);
    let wait = take(attempt(1), limit).await.unwrap().unwrap();
    assert!(wait <= LONG && wait > LONG / 2, "{wait:?}");
    assert_eq!(take(attempt(2), limit).await.unwrap(), None, "another one");

    // A limit that gives back at once never refuses.
    let generous = AttemptLimit {
        one_every: Duration::ZERO,
        at_once: 1,
    };
    for _ in 0..40 {
        assert_eq!(take(attempt(3), generous).await.unwrap(), None);
    }
}
