//! The change log: feed and audit log.

use super::Fixture;
use super::world::*;
use culvert_store::{
    Author, ChangeFilter, EntityKind, Mutation, Operation, PageLimit, Seq, StoreError, TokenScope,
    TokenUses,
};
use std::sync::Arc;

pub(crate) async fn changes_are_numbered_without_gaps_and_say_who_did_what(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let author = Author {
        actor: Some(ada.id),
        token: None,
        role: None,
    };
    let mut engineers = group("Engineers");
    let create = vec![Mutation::Create(engineers.clone().into())];
    world
        .store
        .write(world.account, author, later(1), create)
        .await
        .unwrap();
    engineers.name = "Builders".to_owned();
    world.update(engineers.clone()).await.unwrap();
    world.delete(engineers.id, false).await.unwrap();

    let changes = world
        .store
        .changes_after(world.account, Seq(0), 100)
        .await
        .unwrap();
    let numbers: Vec<u64> = changes.iter().map(|change| change.seq.0).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!(changes[0].id, world.account.into());
    let [_, _, created, updated, deleted] = &changes[..] else {
        panic!("{changes:?}");
    };
    assert_eq!((created.author, created.at), (author, later(1)));
    assert_eq!(updated.author, Author::PORTAL);
    assert_eq!(created.operation, Operation::Create);
    assert_eq!(updated.operation, Operation::Update);
    assert_eq!(deleted.operation, Operation::Delete);
    assert_eq!(created.before, None);
    assert_eq!(created.after, updated.before);
    assert_eq!(updated.after, deleted.before);
    assert_eq!(deleted.after, None);
    assert_eq!(updated.before.as_ref().unwrap().stamp().version, 1);
    assert_eq!(updated.after.as_ref().unwrap().stamp().version, 2);

    // The rest from any place, and no more than asked for.
    let rest = |seq, limit| world.store.changes_after(world.account, Seq(seq), limit);
    assert_eq!(rest(2, 100).await.unwrap(), changes[2..]);
    assert_eq!(rest(2, 2).await.unwrap(), changes[2..4]);
    assert_eq!(rest(5, 100).await.unwrap(), []);
    // A reader that knows more than there is has seen another state of the database.
    let more = rest(6, 100).await.unwrap_err();
    assert!(
        matches!(more, StoreError::WentBack { known: 6, last: 5 }),
        "{more:?}"
    );
    // Another account's changes have numbers of their own.
    let other = World::beside(&world.store).await;
    let changes = world.store.changes_after(other.account, Seq(0), 9).await;
    assert_eq!(changes.unwrap()[0].seq, Seq(1));
}

pub(crate) async fn concurrent_writes_leave_no_gap(factory: impl AsyncFn() -> Fixture) {
    const WRITERS: usize = 16;
    let world = Arc::new(World::new(factory().await).await);
    let writers = (0..WRITERS).map(|writer| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let good = group(&format!("Group {writer}"));
            world.create(good.clone()).await;
            // A write that fails takes no number.
            let bad = Mutation::Create(group("").into());
            world.write(vec![bad]).await.unwrap_err();
            world.delete(good.id, false).await.unwrap();
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let changes = world
        .store
        .changes_after(world.account, Seq(0), 1_000)
        .await
        .unwrap();
    let numbers: Vec<u64> = changes.iter().map(|change| change.seq.0).collect();
    let expected: Vec<u64> = (1..=1 + 2 * WRITERS as u64).collect();
    assert_eq!(numbers, expected);
}

pub(crate) async fn the_change_log_is_filtered_and_paged(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let author = Author {
        actor: Some(ada.id),
        token: None,
        role: None,
    };
    for number in 0..10 {
        let create = vec![Mutation::Create(group(&format!("Group {number}")).into())];
        let at = later(number * 1_000);
        world
            .store
            .write(world.account, author, at, create)
            .await
            .unwrap();
    }
    let log = async |filter: ChangeFilter, before: Option<u64>, limit: u64| {
        let limit = PageLimit::new(limit);
        let before = before.map(Seq);
        let page = world
            .store
            .change_log(world.account, &filter, before, limit)
            .await
            .unwrap();
        let numbers: Vec<u64> = page.items.iter().map(|change| change.seq.0).collect();
        (numbers, page.next.map(|seq| seq.0))
    };
    let all = ChangeFilter::default();
    assert_eq!(log(all, None, 5).await, (vec![12, 11, 10, 9, 8], Some(8)));
    assert_eq!(log(all, Some(8), 5).await, (vec![7, 6, 5, 4, 3], Some(3)));
    assert_eq!(log(all, Some(3), 5).await, (vec![2, 1], None));
    // A page that is just full is the last one.
    assert_eq!(log(all, Some(6), 5).await, (vec![5, 4, 3, 2, 1], None));
    let groups = ChangeFilter {
        kind: Some(EntityKind::Group),
        ..all
    };
    assert_eq!(log(groups, None, 2).await, (vec![12, 11], Some(11)));
    let one = ChangeFilter {
        id: Some(ada.id.into()),
        ..all
    };
    assert_eq!(log(one, None, 5).await, (vec![2], None));
    let hers = ChangeFilter {
        actor: Some(ada.id),
        ..all
    };
    assert_eq!(log(hers, None, 200).await.0.len(), 10);
    let then = ChangeFilter {
        from: Some(later(3_000)),
        until: Some(later(5_000)),
        ..all
    };
    assert_eq!(log(then, None, 5).await, (vec![7, 6], None));
}

pub(crate) async fn no_digest_is_in_the_change_log(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let key = world.token(TokenScope::Setup, TokenUses::One).await;
    world.delete(key.id, false).await.unwrap();
    let changes = world
        .store
        .changes_after(world.account, Seq(0), 100)
        .await
        .unwrap();
    let text = serde_json::to_string(&changes).unwrap();
    assert!(text.contains(&key.id.to_string()));
    assert!(!text.contains("digest"));
    let hex: String = key
        .digest
        .as_bytes()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let list = serde_json::to_string(key.digest.as_bytes()).unwrap();
    assert!(!text.contains(&hex) && !text.contains(list.trim_matches(['[', ']'])));
}

pub(crate) async fn whoever_watches_wakes_after_a_commit(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let mut watch = world.store.watch();
    let store = Arc::clone(&world.store);
    let account = world.account;
    let follower = tokio::spawn(async move {
        let mut seen = Seq(1);
        while seen < Seq(20) {
            assert!(watch.changed().await);
            let changes = store.changes_after(account, seen, 100).await.unwrap();
            for change in changes {
                assert_eq!(change.seq.0, seen.0 + 1);
                seen = change.seq;
            }
        }
    });
    for number in 2..=20 {
        world.group(&format!("Group {number}")).await;
    }
    let deadline = std::time::Duration::from_secs(30);
    tokio::time::timeout(deadline, follower)
        .await
        .unwrap()
        .unwrap();
}

pub(crate) async fn a_snapshot_says_up_to_which_change(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let empty = world.store.snapshot(world.account).await.unwrap();
    assert_eq!((empty.seq, empty.account.id), (Seq(1), world.account));
    assert_eq!(empty.groups, []);
    let ada = world.actor("Ada").await;
    let site = world.site("Berlin").await;
    let key = world.client_key(ada.id).await;
    let client = world.enrol(&key, "laptop", 1).await.unwrap();
    let snapshot = world.store.snapshot(world.account).await.unwrap();
    assert_eq!(snapshot.seq, Seq(5));
    assert_eq!(snapshot.actors[0].id, ada.id);
    assert_eq!(snapshot.sites[0].id, site.id);
    assert_eq!(snapshot.tokens[0].id, key.token);
    assert_eq!(snapshot.clients, [client]);
}
