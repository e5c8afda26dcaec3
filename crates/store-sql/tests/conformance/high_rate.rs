//! Data that comes at a high rate, and secrets.

use super::Fixture;
use super::world::*;
use culvert_ids::{ClientId, PolicyId, ResourceId};
use culvert_store::{
    AccessEntry, AccessFilter, AccessSeq, Client, Decision, Grant, MAX_BATCH, MAX_REASON_LEN,
    MAX_SECRET_LEN, MachineId, PageLimit, SecretBytes, SecretName, SeenMachine, Store, StoreError,
    StoreExt,
};
use culvert_wire::model::Log;
use culvert_wire::{Cipher, Timestamp};
use std::sync::Arc;

pub(crate) async fn what_was_last_seen_is_no_change(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    let client = world.enrol(&key, "laptop", 1).await.unwrap();
    let before = world.store.snapshot(world.account).await.unwrap();
    let record = async |at| {
        let seen = SeenMachine {
            id: MachineId::Client(client.id),
            seen: seen(at),
        };
        let unknown = SeenMachine {
            id: MachineId::Client(ClientId::from_bytes(bytes())),
            ..seen.clone()
        };
        let batch = vec![seen, unknown];
        world.store.record_seen(world.account, batch).await.unwrap()
    };
    assert_eq!(record(later(2)).await, 1);
    assert_eq!(record(later(1)).await, 0);
    let read: Client = world.store.get_as(world.account, client.id).await.unwrap();
    assert_eq!(
        (&read.seen, read.stamp),
        (&Some(seen(later(2))), client.stamp)
    );
    let after = world.store.snapshot(world.account).await.unwrap();
    assert_eq!(after.seq, before.seq);
    // An administrator who changes the row does not undo it.
    let mut renamed = client;
    renamed.name = "Laptop".to_owned();
    world.update(renamed.clone()).await.unwrap();
    let read: Client = world.store.get_as(world.account, renamed.id).await.unwrap();
    assert_eq!(read.seen, Some(seen(later(2))));
}

async fn grants(world: &World, count: u64) -> Vec<Grant> {
    let (ada, site) = (world.actor("Ada").await, world.site("Berlin").await);
    let staff = world.group("Staff").await;
    let resource = world.resource(site.id, "Database").await;
    let policy = world.policy(staff.id, resource.id, "Staff").await;
    let key = world.client_key(ada.id).await;
    let client = world.enrol(&key, "laptop", 1).await.unwrap();
    let key = world.gateway_key(site.id).await;
    let gateway = world.enrol_gateway(&key, "gw", 2).await.unwrap();
    let grant = |number: u64| Grant {
        id: grant_id(),
        client: client.id,
        gateway: gateway.id,
        resource: resource.id,
        policy: policy.id,
        cipher: Cipher::ChaCha20Poly1305,
        issued: NOW,
        expires: later((number + 1) * HOUR_MS),
    };
    (0..count).map(grant).collect()
}

pub(crate) async fn grants_live_until_they_end_or_expire(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let all = grants(&world, 5).await;
    let (store, account) = (&world.store, world.account);
    assert_eq!(store.save_grants(account, all.clone()).await.unwrap(), 5);
    let live = async |now, after, limit| {
        let limit = PageLimit::new(limit);
        store.live_grants(account, now, after, limit).await.unwrap()
    };
    let page = live(NOW, None, 3).await;
    assert_eq!((&page.items[..], page.next), (&all[..3], Some(all[2].id)));
    let page = live(NOW, page.next, 3).await;
    assert_eq!((&page.items[..], page.next), (&all[3..], None));
    // At the instant of its expiry a grant no longer holds.
    assert_eq!(live(later(HOUR_MS - 1), None, 9).await.items, all);
    assert_eq!(live(later(HOUR_MS), None, 9).await.items, all[1..]);
    // A grant that is saved again is as it was saved last.
    let mut longer = all[0].clone();
    longer.expires = later(9 * HOUR_MS);
    let saved = store.save_grants(account, vec![longer.clone()]).await;
    assert_eq!(saved.unwrap(), 1);
    assert_eq!(live(later(HOUR_MS), None, 9).await.items[0], longer);
    let ended = store.end_grants(account, vec![longer.id, longer.id]).await;
    assert_eq!(ended.unwrap(), 1);
    assert_eq!(live(NOW, None, 9).await.items, all[1..]);
    let pruned = store.prune_grants(account, later(2 * HOUR_MS)).await;
    assert_eq!(pruned.unwrap(), 1);
    assert_eq!(live(NOW, None, 9).await.items, all[2..]);
    // A grant is deleted along with its client, gateway or resource.
    world.delete(all[0].client, false).await.unwrap();
    assert_eq!(live(NOW, None, 9).await.items, []);
    let saved = store.save_grants(account, vec![all[4].clone()]).await;
    assert_eq!(saved.unwrap(), 0);
}

fn entry(at: Timestamp, client: ClientId, decision: Decision) -> AccessEntry {
    AccessEntry {
        at,
        client,
        actor: None,
        resource: ResourceId::from_bytes([3; 16]),
        gateway: None,
        policy: Some(PolicyId::from_bytes([4; 16])),
        grant: None,
        decision,
        reason: "condition `time` does not hold".to_owned(),
    }
}

async fn log(
    store: &Arc<dyn Store>,
    world: &World,
    filter: AccessFilter,
    before: Option<u64>,
    limit: u64,
) -> (Vec<u64>, Option<u64>) {
    let limit = PageLimit::new(limit);
    let before = before.map(AccessSeq);
    let page = store
        .access_log(world.account, &filter, before, limit)
        .await
        .unwrap();
    let numbers = page.items.iter().map(|row| row.seq.0).collect();
    (numbers, page.next.map(|seq| seq.0))
}

pub(crate) async fn the_access_log_is_filtered_and_paged(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let (one, two) = (ClientId::from_bytes([1; 16]), ClientId::from_bytes([2; 16]));
    let mut entries: Vec<AccessEntry> = (0..10)
        .map(|number| {
            let client = if number % 2 == 0 { one } else { two };
            let decision = Decision::ALL[(number % 4) as usize];
            entry(later(number * 1_000), client, decision)
        })
        .collect();
    entries[9].reason = "ü".repeat(MAX_REASON_LEN);
    let rest = entries.split_off(4);
    store
        .append_access_log(account, entries.clone())
        .await
        .unwrap();
    store.append_access_log(account, rest).await.unwrap();
    let all = AccessFilter::default();
    assert_eq!(
        log(store, &world, all, None, 4).await,
        (vec![10, 9, 8, 7], Some(7))
    );
    assert_eq!(
        log(store, &world, all, Some(4), 4).await,
        (vec![3, 2, 1], None)
    );
    let of_one = AccessFilter {
        client: Some(one),
        ..all
    };
    assert_eq!(
        log(store, &world, of_one, None, 3).await,
        (vec![9, 7, 5], Some(5))
    );
    let denied = AccessFilter {
        decision: Some(Decision::Denied),
        until: Some(later(6_000)),
        ..all
    };
    assert_eq!(log(store, &world, denied, None, 9).await.0, [6, 2]);
    let nothing = AccessFilter {
        gateway: Some(culvert_ids::GatewayId::from_bytes([9; 16])),
        ..all
    };
    assert_eq!(log(store, &world, nothing, None, 9).await.0, [0_u64; 0]);
    let page = store
        .access_log(account, &all, Some(AccessSeq(5)), PageLimit::MAX)
        .await
        .unwrap();
    let mut read: Vec<AccessEntry> = page.items.into_iter().map(|row| row.entry).collect();
    read.reverse();
    assert_eq!(read, entries);
    let page = store.access_log(account, &all, None, PageLimit::MAX).await;
    let longest = page.unwrap().items[0].entry.reason.len();
    assert!(longest <= MAX_REASON_LEN && longest > MAX_REASON_LEN - 4);
}

pub(crate) async fn the_access_log_is_pruned_by_age_and_number(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let client = ClientId::from_bytes([1; 16]);
    let entries = (0..20).map(|number| entry(later(number), client, Decision::Granted));
    store
        .append_access_log(account, entries.collect())
        .await
        .unwrap();
    let prune = async |older_than, keep| {
        store
            .prune_log(account, Log::Access, older_than, keep)
            .await
            .unwrap()
    };
    assert_eq!(prune(NOW, 100).await, 0);
    assert_eq!(prune(later(5), 100).await, 5);
    assert_eq!(prune(later(5), 10).await, 5);
    assert_eq!(prune(later(15), 10).await, 5);
    let all = AccessFilter::default();
    let expected: Vec<u64> = (16..=20).rev().collect();
    assert_eq!(log(store, &world, all, None, 50).await, (expected, None));
    // Numbers go on, and none comes a second time.
    assert_eq!(prune(later(99), 0).await, 5);
    let one = vec![entry(later(100), client, Decision::Ended)];
    store.append_access_log(account, one).await.unwrap();
    assert_eq!(log(store, &world, all, None, 50).await, (vec![21], None));
}

pub(crate) async fn secrets_are_made_once(factory: impl AsyncFn() -> Fixture) {
    let world = Arc::new(World::new(factory().await).await);
    let callers = (0..16).map(|byte| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            let candidate = SecretBytes::new(vec![byte; 32]);
            let name = SecretName::GrantSigning;
            world.store.secret(world.account, name, candidate).await
        })
    });
    let mut secrets = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        secrets.push(caller.await.unwrap().unwrap());
    }
    assert!(secrets.iter().all(|secret| *secret == secrets[0]));
    assert!(!format!("{:?}", secrets[0]).contains(&secrets[0].expose()[0].to_string()));
    let long = SecretBytes::new(vec![0; MAX_SECRET_LEN + 1]);
    let refused = world.store.secret(world.account, SecretName::Pairs, long);
    assert!(matches!(refused.await, Err(StoreError::TooMany { .. })));
}

pub(crate) async fn batches_are_bounded(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let grant = grants(&world, 1).await.remove(0);
    let entry = entry(NOW, grant.client, Decision::Granted);
    let seen = SeenMachine {
        id: MachineId::Client(grant.client),
        seen: seen(NOW),
    };
    let token = culvert_ids::TokenId::from_bytes([1; 16]);
    for (len, good) in [(MAX_BATCH, true), (MAX_BATCH + 1, false)] {
        let answers = [
            store
                .touch_tokens(account, vec![(token, NOW); len])
                .await
                .map(|_| ()),
            store
                .record_seen(account, vec![seen.clone(); len])
                .await
                .map(|_| ()),
            store
                .save_grants(account, vec![grant.clone(); len])
                .await
                .map(|_| ()),
            store
                .end_grants(account, vec![grant.id; len])
                .await
                .map(|_| ()),
            store
                .append_access_log(account, vec![entry.clone(); len])
                .await,
        ];
        for answer in answers {
            match answer {
                Ok(()) => assert!(good),
                Err(StoreError::TooMany { .. }) => assert!(!good),
                Err(error) => panic!("{error:?}"),
            }
        }
    }
}
