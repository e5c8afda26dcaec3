//! The recent use of a thing, and the members of groups, in numbers.

use super::Fixture;
use super::world::{HOUR_MS, NOW, World, later, membership};
use culvert_ids::{ActorId, ClientId, GatewayId, GrantId, GroupId, ResourceId};
use culvert_store::{
    AccessEntry, Decision, DenialCause, EntityId, FlowBatch, FlowEntry, MAX_BATCH,
    MAX_DENIAL_CAUSES, MAX_USE_ROWS, RecentUse, StoreError,
};
use culvert_wire::Timestamp;
use culvert_wire::messages::FlowEnd;
use std::collections::BTreeMap;

const GATEWAY: GatewayId = GatewayId::from_bytes([2; 16]);
const WEB: ResourceId = ResourceId::from_bytes([4; 16]);
const MAIL: ResourceId = ResourceId::from_bytes([5; 16]);

fn client(number: u8) -> ClientId {
    ClientId::from_bytes([number; 16])
}

/// Clients 1 and 2 are of one actor, all others of another.
fn actor(number: u8) -> ActorId {
    ActorId::from_bytes([number.div_ceil(2); 16])
}

fn entry(hour: u64, of: u8, resource: ResourceId, decision: Decision, why: &str) -> AccessEntry {
    AccessEntry {
        at: later(hour * HOUR_MS),
        client: client(of),
        actor: Some(actor(of)),
        resource,
        gateway: Some(GATEWAY),
        policy: None,
        grant: None,
        decision,
        reason: why.to_owned(),
    }
}

fn flow(hour: u64, of: u8, resource: ResourceId, bytes: u64) -> FlowEntry {
    FlowEntry {
        at: later(hour * HOUR_MS),
        started: NOW,
        client: client(of),
        actor: Some(actor(of)),
        resource,
        grant: GrantId::from_bytes([5; 16]),
        protocol: 6,
        address: "2001:db8::1".parse().unwrap(),
        inbound: false,
        port: 443,
        application: None,
        path: None,
        relay: None,
        sent_bytes: bytes,
        sent_packets: 1,
        received_bytes: 1,
        received_packets: 1,
        end: FlowEnd::Closed,
    }
}

async fn recent(world: &World, about: impl Into<EntityId>, from: Timestamp) -> RecentUse {
    let found = world.store.recent_use(world.account, about.into(), from);
    found.await.unwrap()
}

pub(crate) async fn the_recent_use_of_a_thing_is_counted_with_the_causes_of_denials(
    factory: impl AsyncFn() -> Fixture,
) {
    use Decision::{Denied, Ended, Granted, Revoked};
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let entries = vec![
        entry(0, 1, WEB, Granted, "too old"),
        entry(0, 1, WEB, Denied, "too old"),
        entry(2, 1, WEB, Granted, "allowed"),
        entry(3, 2, WEB, Granted, "allowed"),
        entry(3, 3, WEB, Granted, "allowed"),
        entry(3, 3, WEB, Granted, "allowed"),
        entry(4, 1, WEB, Ended, "over"),
        entry(4, 1, WEB, Revoked, "back"),
        entry(4, 1, WEB, Denied, "not verified"),
        entry(5, 3, WEB, Denied, "no policy"),
        entry(6, 3, WEB, Denied, "not verified"),
        entry(6, 2, WEB, Denied, "not verified"),
        entry(7, 1, MAIL, Denied, "not verified"),
        entry(7, 1, MAIL, Granted, "allowed"),
    ];
    store.append_access_log(account, entries).await.unwrap();
    let flows = vec![
        flow(0, 1, WEB, 1_000),
        flow(2, 1, WEB, u64::from(u32::MAX)),
        flow(3, 3, WEB, 7),
        flow(3, 3, MAIL, 70),
    ];
    let batch = FlowBatch {
        gateway: GATEWAY,
        run: 1,
        batch: 1,
        lost: 0,
        flows,
    };
    store.append_flows(account, vec![batch]).await.unwrap();
    let from = later(HOUR_MS);
    let cause = |reason: &str, resource, count, clients, last_client, hour: u64| DenialCause {
        reason: reason.to_owned(),
        resource,
        count,
        clients,
        last_client: client(last_client),
        last: later(hour * HOUR_MS),
    };
    let web = recent(&world, WEB, from).await;
    let of_web = RecentUse {
        granted: 4,
        denied: 4,
        actors: 2,
        clients: 3,
        resources: 1,
        flows: 2,
        bytes: u64::from(u32::MAX) + 1 + 7 + 1,
        causes: vec![
            cause("not verified", WEB, 3, 3, 2, 6),
            cause("no policy", WEB, 1, 1, 3, 5),
        ],
        is_partial: false,
    };
    assert_eq!(web, of_web);
    let one = recent(&world, client(1), from).await;
    assert_eq!((one.granted, one.resources, one.flows), (2, 2, 1));
    // Of as many, the latest comes first.
    let causes = vec![
        cause("not verified", MAIL, 1, 1, 1, 7),
        cause("not verified", WEB, 1, 1, 1, 4),
    ];
    assert_eq!(one.causes, causes);
    let both = recent(&world, actor(1), from).await;
    assert_eq!((both.granted, both.clients, both.actors), (3, 2, 1));
    let gateway = recent(&world, GATEWAY, from).await;
    assert_eq!((gateway.granted, gateway.denied, gateway.flows), (5, 5, 3));
    let nothing = recent(&world, ResourceId::from_bytes([9; 16]), from).await;
    assert_eq!(nothing, RecentUse::default());
    let refused = store.recent_use(account, account.into(), from).await;
    assert!(matches!(
        refused,
        Err(StoreError::Invalid { field: "about", .. })
    ));
}

pub(crate) async fn the_recent_use_of_a_thing_counts_a_bounded_number_of_entries(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let causes = u64::from(MAX_DENIAL_CAUSES) + 1;
    let mut written = 0;
    let most = u64::from(MAX_USE_ROWS);
    while written < most {
        let next = (written + MAX_BATCH as u64).min(most);
        let entries = (written..next).map(|number| {
            let reason = format!("cause {}", number % causes);
            entry(2, 1, WEB, Decision::Denied, &reason)
        });
        let entries = store.append_access_log(account, entries.collect());
        entries.await.unwrap();
        written = next;
    }
    let before = recent(&world, WEB, later(HOUR_MS)).await;
    // There is no older entry, which nobody knows without a look.
    assert_eq!((before.denied, before.is_partial), (most, true));
    assert_eq!(before.causes.len(), usize::from(MAX_DENIAL_CAUSES));
    let entries = vec![entry(3, 1, WEB, Decision::Granted, "allowed")];
    store.append_access_log(account, entries).await.unwrap();
    let after = recent(&world, WEB, later(HOUR_MS)).await;
    let counts = (after.granted, after.denied, after.is_partial);
    assert_eq!(counts, (1, most - 1, true));
    let late = recent(&world, WEB, later(3 * HOUR_MS)).await;
    assert_eq!((late.granted, late.denied, late.is_partial), (1, 0, false));
}

pub(crate) async fn members_of_groups_are_counted(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (staff, guests) = (world.group("Staff").await, world.group("Guests").await);
    let nobody = world.group("Nobody").await;
    let (ada, bob) = (world.actor("Ada").await, world.actor("Bob").await);
    for (group, actor) in [(staff.id, ada.id), (staff.id, bob.id), (guests.id, bob.id)] {
        world.create(membership(group, actor)).await;
    }
    let counts = async |groups: &[GroupId]| {
        let counts = world.store.member_counts(world.account, groups);
        counts.await.unwrap()
    };
    let all = counts(&[staff.id, guests.id, nobody.id]).await;
    assert_eq!(all, BTreeMap::from([(staff.id, 2), (guests.id, 1)]));
    assert_eq!(counts(&[guests.id]).await, BTreeMap::from([(guests.id, 1)]));
    assert!(counts(&[]).await.is_empty());
    let many = vec![staff.id; MAX_BATCH + 1];
    let refused = world.store.member_counts(world.account, &many).await;
    assert!(matches!(refused, Err(StoreError::TooMany { .. })));
}
