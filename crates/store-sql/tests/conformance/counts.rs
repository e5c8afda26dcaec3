//! Numbers of rows, by what they refer to and by what they run.

use super::Fixture;
use super::world::World;
use culvert_store::{EntityId, EntityKind, ListFilter, MAX_BATCH, Part, StoreError, StoreExt};
use std::collections::BTreeMap;

pub(crate) async fn rows_are_counted_by_what_they_refer_to_and_by_their_software(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (near, far) = (world.site("Near").await, world.site("Far").await);
    let empty = world.site("Empty").await;
    let mut gateways = Vec::new();
    for (number, site) in [(1, &near), (2, &near), (3, &far)] {
        let principal = world.gateway_key(site.id).await;
        let machine = format!("machine {number}");
        let enrolled = world.enrol_gateway(&principal, &machine, number).await;
        gateways.push(enrolled.unwrap());
    }
    let to: [EntityId; 3] = [near.id.into(), far.id.into(), empty.id.into()];
    let counts = async |filter: ListFilter| {
        let counts = world
            .store
            .reference_counts(world.account, EntityKind::Gateway, &filter, &to);
        counts.await.unwrap()
    };
    let all = BTreeMap::from([(to[0], 2), (to[1], 1)]);
    assert_eq!(counts(ListFilter::default()).await, all);
    let some = ListFilter {
        ids: Some(vec![gateways[0].id.into(), gateways[2].id.into()]),
        parts: vec![Part::LiveGateways],
        ..ListFilter::default()
    };
    let one_each = BTreeMap::from([(to[0], 1), (to[1], 1)]);
    assert_eq!(counts(some).await, one_each);
    let none = ListFilter {
        ids: Some(Vec::new()),
        ..ListFilter::default()
    };
    assert!(counts(none).await.is_empty());

    let software = |kind| world.store.software_counts(world.account, kind);
    let ran = software(EntityKind::Gateway).await.unwrap();
    assert_eq!(ran, BTreeMap::from([("culvert 0.1.0".to_owned(), 3)]));
    assert!(software(EntityKind::Client).await.unwrap().is_empty());
    let of = |version: &str| ListFilter {
        software: Some(vec![version.to_owned()]),
        ..ListFilter::default()
    };
    for (version, count) in [("culvert 0.1.0", 3), ("culvert 0.1", 0)] {
        let filter = of(version);
        let listed = world.store.list_as::<culvert_store::Gateway>(
            world.account,
            &filter,
            None,
            culvert_store::PageLimit::MAX,
        );
        assert_eq!(listed.await.unwrap().items.len(), count, "{version}");
    }

    let store = &world.store;
    let refused = store.software_counts(world.account, EntityKind::Site);
    assert!(matches!(refused.await, Err(StoreError::Invalid { .. })));
    let filter = ListFilter::default();
    let wrong = store.reference_counts(world.account, EntityKind::Policy, &filter, &to);
    assert!(matches!(wrong.await, Err(StoreError::Invalid { .. })));
    let many = vec![to[0]; MAX_BATCH + 1];
    let many = store.reference_counts(world.account, EntityKind::Gateway, &filter, &many);
    assert!(matches!(many.await, Err(StoreError::TooMany { .. })));
}
