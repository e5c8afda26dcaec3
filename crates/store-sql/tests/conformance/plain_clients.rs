//! Plain WireGuard devices.

use super::Fixture;
use super::world::*;
use culvert_ids::{ActorId, ClientId, GatewayId};
use culvert_store::{
    Account, Author, Client, Denial, MAX_PLAIN_CLIENT_GATEWAYS, MAX_PLAIN_CLIENTS_PER_ACTOR,
    NewPlainClient, Operation, PlainClientRekey, StoreError, StoreExt,
};
use culvert_wire::PublicKey;

struct Office {
    world: World,
    actor: ActorId,
    gateway: GatewayId,
    gateways: Vec<GatewayId>,
    name_shares: bool,
}

/// An actor, and a gateway with the key of 9s.
async fn office(factory: impl AsyncFn() -> Fixture) -> Office {
    let world = World::new(factory().await).await;
    let actor = world.actor("ada").await.id;
    let site = world.site("office").await.id;
    let key = world.gateway_key(site).await;
    let gateway = world.enrol_gateway(&key, "gw", 9).await.unwrap().id;
    Office {
        world,
        actor,
        gateway,
        gateways: vec![gateway],
        name_shares: false,
    }
}

impl Office {
    async fn add(&self, name: &str, key: [u8; 32]) -> Result<Client, StoreError> {
        let new = NewPlainClient {
            id: ClientId::from_bytes(bytes()),
            actor: self.actor,
            gateways: self.gateways.clone(),
            name_shares: self.name_shares,
            name: name.to_owned(),
            public_key: PublicKey::from_bytes(key),
        };
        let World { store, account, .. } = &self.world;
        store
            .add_plain_client(*account, Author::PORTAL, new, NOW)
            .await
    }

    async fn rekey(
        &self,
        id: ClientId,
        key: [u8; 32],
        expected_version: Option<u64>,
    ) -> Result<Client, StoreError> {
        let rekey = PlainClientRekey {
            id,
            expected_version,
            public_key: PublicKey::from_bytes(key),
            gateways: self.gateways.clone(),
            name_shares: self.name_shares,
        };
        let World { store, account, .. } = &self.world;
        let changed = store.rekey_plain_client(*account, Author::PORTAL, rekey, NOW);
        changed.await
    }
}

pub(crate) async fn a_plain_device_has_a_key_addresses_and_a_gateway_of_its_own(
    factory: impl AsyncFn() -> Fixture,
) {
    let office = office(factory).await;
    let world = &office.world;
    let before = world.store.snapshot(world.account).await.unwrap().seq;
    let added = office.add("phone", [1; 32]).await.unwrap();
    assert_eq!(
        (added.actor, &added.gateways),
        (office.actor, &office.gateways)
    );
    let found: Client = world.store.get_as(world.account, added.id).await.unwrap();
    assert_eq!(found, added);
    let other = office.add("tablet", [2; 32]).await.unwrap();
    assert_ne!((added.ipv4, added.ipv6), (other.ipv4, other.ipv6));
    let changes = world
        .store
        .changes_after(world.account, before, 9)
        .await
        .unwrap();
    let operations: Vec<_> = changes.iter().map(|it| (it.operation, it.id)).collect();
    let created = |id: ClientId| (Operation::Create, id.into());
    assert_eq!(operations, [created(added.id), created(other.id)]);
    // The change log has all of it.
    assert_eq!(changes[0].after, Some(added.clone().into()));
    // Its gateway stays as long as it does.
    let used = world.delete(office.gateway, false).await.unwrap_err();
    assert!(
        matches!(used, StoreError::InUse { total: 2, .. }),
        "{used:?}"
    );
    world.delete(other.id, false).await.unwrap();
    world.delete(added.id, false).await.unwrap();
    world.delete(office.gateway, false).await.unwrap();
}

pub(crate) async fn a_key_that_exists_or_cannot_be_one_is_refused(
    factory: impl AsyncFn() -> Fixture,
) {
    let office = office(factory).await;
    let world = &office.world;
    let client_key = world.client_key(office.actor).await;
    let laptop = world.enrol(&client_key, "laptop", 5).await.unwrap();
    let phone = office.add("phone", [1; 32]).await.unwrap();
    for (key, by) in [
        ([5; 32], laptop.id.into()),
        ([9; 32], office.gateway.into()),
        ([1; 32], phone.id.into()),
    ] {
        let taken = office.add("another", key).await.unwrap_err();
        assert!(
            matches!(taken, StoreError::KeyTaken { by: it } if it == by),
            "{taken:?}"
        );
    }
    let mut one = [0; 32];
    one[0] = 1;
    for key in [[0; 32], one] {
        for refused in [
            office.add("another", key).await.unwrap_err(),
            office.rekey(phone.id, key, None).await.unwrap_err(),
        ] {
            let is_invalid = matches!(
                refused,
                StoreError::Invalid {
                    field: "public_key",
                    ..
                }
            );
            assert!(is_invalid, "{refused:?}");
        }
    }
    // Nor does a key come back that was revoked, or enrol elsewhere while a device has it.
    let revoked = Client {
        revoked: Some(NOW),
        ..phone.clone()
    };
    world.update(revoked).await.unwrap();
    office.add("another", [1; 32]).await.unwrap_err();
    office.rekey(phone.id, [7; 32], None).await.unwrap_err();
    office.add("tablet", [2; 32]).await.unwrap();
    let taken = world.enrol(&client_key, "desktop", 2).await.unwrap_err();
    assert!(matches!(taken, StoreError::KeyTaken { .. }), "{taken:?}");
}

pub(crate) async fn another_key_is_recorded_and_ends_verification(
    factory: impl AsyncFn() -> Fixture,
) {
    let office = office(factory).await;
    let phone = office.add("phone", [1; 32]).await.unwrap();
    let verified = Client {
        verified: Some(NOW),
        ..phone.clone()
    };
    office.world.update(verified).await.unwrap();
    let stale = office.rekey(phone.id, [2; 32], Some(1)).await.unwrap_err();
    assert!(
        matches!(stale, StoreError::VersionConflict { current: 2, .. }),
        "{stale:?}"
    );
    let same = office.rekey(phone.id, [1; 32], Some(2)).await.unwrap();
    assert_eq!((same.stamp.version, same.verified), (2, Some(NOW)));
    let changed = office.rekey(phone.id, [2; 32], Some(2)).await.unwrap();
    assert_eq!(
        (changed.public_key, changed.verified),
        (PublicKey::from_bytes([2; 32]), None)
    );
    assert_eq!((changed.ipv4, changed.stamp.version), (phone.ipv4, 3));
    // A file with shares of the ranges for names is another one as well.
    assert!(!changed.name_shares);
    let office = Office {
        name_shares: true,
        ..office
    };
    let shared = office.rekey(phone.id, [2; 32], Some(3)).await.unwrap();
    let world = &office.world;
    let found: Client = world.store.get_as(world.account, phone.id).await.unwrap();
    assert_eq!((found.name_shares, found.stamp.version), (true, 4));
    assert_eq!(found, shared);
}

pub(crate) async fn a_device_is_no_machine_that_enrols_and_moves_into_new_ranges(
    factory: impl AsyncFn() -> Fixture,
) {
    let office = office(factory).await;
    let world = &office.world;
    let phone = office.add("phone", [1; 32]).await.unwrap();
    // The text is known to whoever sees the id.
    let client_key = world.client_key(office.actor).await;
    for key in [1, 3] {
        let denied = world
            .enrol(&client_key, &phone.machine, key)
            .await
            .unwrap_err();
        assert!(
            matches!(denied, StoreError::Denied(Denial::WrongKind)),
            "{denied:?}"
        );
    }
    let laptop = world.enrol(&client_key, "laptop", 5).await.unwrap();
    office.rekey(laptop.id, [6; 32], None).await.unwrap_err();
    let mut account: Account = world
        .store
        .get_as(world.account, world.account)
        .await
        .unwrap();
    account.settings.ranges.machines_ipv4 = "10.20.0.0/17".to_owned();
    account.settings.own_devices = true;
    world.update(account.clone()).await.unwrap();
    let found: Account = world
        .store
        .get_as(world.account, world.account)
        .await
        .unwrap();
    assert!(found.settings.own_devices);
    let moved = office.rekey(phone.id, [1; 32], None).await.unwrap();
    assert_eq!(
        (moved.ipv4.octets()[..2].to_vec(), moved.ipv6),
        (vec![10, 20], phone.ipv6)
    );
}

pub(crate) async fn plain_devices_are_bounded(factory: impl AsyncFn() -> Fixture) {
    let mut office = office(factory).await;
    for number in 0..MAX_PLAIN_CLIENTS_PER_ACTOR as u8 {
        let name = format!("device {number}");
        office.add(&name, [100 + number; 32]).await.unwrap();
    }
    let refused = office.add("one more", [1; 32]).await.unwrap_err();
    assert!(matches!(refused, StoreError::TooMany { .. }), "{refused:?}");
    office.actor = office.world.actor("bob").await.id;
    office.add("another's", [1; 32]).await.unwrap();
}

pub(crate) async fn a_gateway_stays_while_any_device_has_its_key(
    factory: impl AsyncFn() -> Fixture,
) {
    let mut office = office(factory).await;
    let first = office.gateway;
    let site = office.world.site("depot").await.id;
    let key = office.world.gateway_key(site).await;
    let second = office.world.enrol_gateway(&key, "depot", 8).await;
    let second = second.unwrap().id;
    office.gateways = vec![second, first];
    let phone = office.add("phone", [1; 32]).await.unwrap();
    assert_eq!(phone.gateways, [second, first]);
    for id in [first, second] {
        let used = office.world.delete(id, false).await.unwrap_err();
        let StoreError::InUse { by, total: 1, .. } = used else {
            panic!("{used:?}");
        };
        assert_eq!(by[0].id, phone.id.into());
    }
    // A device with another gateway stays, whatever goes along.
    office.world.delete(first, true).await.unwrap_err();
    office.gateways = vec![second];
    let moved = office.rekey(phone.id, [1; 32], None).await.unwrap();
    assert_eq!((&moved.gateways, moved.stamp.version), (&vec![second], 2));
    office.world.delete(first, false).await.unwrap();
    office.world.delete(second, false).await.unwrap_err();
    office.world.delete(second, true).await.unwrap();
    let World { store, account, .. } = &office.world;
    let gone = store.get_as::<Client>(*account, phone.id).await;
    assert!(matches!(gone, Err(StoreError::NotFound(_))), "{gone:?}");
}

pub(crate) async fn a_device_has_one_gateway_at_least_and_eight_at_most(
    factory: impl AsyncFn() -> Fixture,
) {
    let mut office = office(factory).await;
    let site = office.world.site("depot").await.id;
    let key = office.world.gateway_key(site).await;
    let mut many = vec![office.gateway];
    for number in 0..MAX_PLAIN_CLIENT_GATEWAYS as u8 {
        let name = format!("gw {number}");
        let gateway = office.world.enrol_gateway(&key, &name, 20 + number).await;
        many.push(gateway.unwrap().id);
    }
    let absent = GatewayId::from_bytes([7; 16]);
    let wrong = [
        Vec::new(),
        vec![office.gateway; 2],
        many.clone(),
        vec![absent],
    ];
    let most = many[1..].to_vec();
    office.gateways.clone_from(&most);
    let phone = office.add("phone", [1; 32]).await.unwrap();
    for gateways in wrong {
        let is_absent = gateways.contains(&absent);
        office.gateways = gateways;
        for refused in [
            office.add("another", [2; 32]).await.unwrap_err(),
            office.rekey(phone.id, [1; 32], None).await.unwrap_err(),
        ] {
            match refused {
                StoreError::NotFound(id) => assert!(is_absent && id == absent.into()),
                StoreError::Invalid { field, .. } => assert_eq!(field, "gateways"),
                other => panic!("{other:?}"),
            }
        }
    }
    let found: Client = office
        .world
        .store
        .get_as(office.world.account, phone.id)
        .await
        .unwrap();
    assert_eq!(found.gateways, most);
}
