//! Sums of the access log.

use super::Fixture;
use super::world::{World, later};
use culvert_ids::{ActorId, ClientId, GatewayId, PolicyId, ResourceId};
use culvert_store::{AccessEntry, AccessTotals, Decision, DenialCause, MAX_BATCH, MAX_USE_ROWS};

const VERIFIED: &str = "the client is not verified";
const POLICY: PolicyId = PolicyId::from_bytes([9; 16]);
const LATE: &str = "it is late";

const fn client(number: u8) -> ClientId {
    ClientId::from_bytes([number; 16])
}

const fn resource(number: u8) -> ResourceId {
    ResourceId::from_bytes([100 + number; 16])
}

const fn actor(number: u8) -> ActorId {
    ActorId::from_bytes([200 + number; 16])
}

/// The actor has the number of the client, apart from client 9, whose owner is not known.
fn entry(at_ms: u64, client_number: u8, resource_number: u8, denied: Option<&str>) -> AccessEntry {
    AccessEntry {
        at: later(at_ms),
        client: client(client_number),
        actor: (client_number != 9).then_some(actor(client_number)),
        resource: resource(resource_number),
        gateway: denied.is_none().then_some(GatewayId::from_bytes([7; 16])),
        policy: denied.is_none().then_some(POLICY),
        grant: None,
        decision: match denied {
            Some(_) => Decision::Denied,
            None => Decision::Granted,
        },
        reason: denied.unwrap_or("granted").to_owned(),
    }
}

pub(crate) async fn the_newest_entries_are_summed_by_cause_resource_and_person(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let ended = AccessEntry {
        decision: Decision::Ended,
        ..entry(70, 1, 1, None)
    };
    let entries = vec![
        entry(0, 1, 1, Some("too early")),
        entry(10, 1, 1, None),
        entry(20, 1, 2, None),
        entry(30, 2, 2, None),
        entry(35, 9, 2, None),
        entry(40, 1, 3, Some(VERIFIED)),
        entry(50, 2, 3, Some(VERIFIED)),
        entry(60, 2, 4, Some(LATE)),
        entry(65, 1, 5, Some(VERIFIED)),
        ended,
    ];
    store.append_access_log(account, entries).await.unwrap();
    let totals = async || store.access_totals(account, later(10)).await.unwrap();

    let cause = |reason: &str, count, clients, last_ms, last_client, of| DenialCause {
        reason: reason.to_owned(),
        resource: resource(of),
        count,
        clients,
        last_client: client(last_client),
        last: later(last_ms),
    };
    let all = AccessTotals {
        is_partial: false,
        granted: 4,
        denied: 4,
        causes: vec![
            cause(VERIFIED, 2, 2, 50, 2, 3),
            cause(VERIFIED, 1, 1, 65, 1, 5),
            cause(LATE, 1, 1, 60, 2, 4),
        ],
        resources: vec![(resource(2), 3), (resource(1), 1)],
        actors: vec![(actor(1), 2), (actor(2), 1)],
        policies: vec![(POLICY, 4)],
    };
    assert_eq!(totals().await, all);

    // Older entries than the newest are not read.
    let batches = u64::from(MAX_USE_ROWS) / MAX_BATCH as u64 + 1;
    for _ in 0..batches {
        let batch = vec![entry(80, 3, 6, None); MAX_BATCH];
        store.append_access_log(account, batch).await.unwrap();
    }
    let newest = totals().await;
    assert!(newest.is_partial);
    assert_eq!(
        (newest.granted, newest.denied),
        (u64::from(MAX_USE_ROWS), 0)
    );
    assert_eq!(newest.actors, [(actor(3), u64::from(MAX_USE_ROWS))]);
}
