//! Relays that enrol, the rule of an account about paths, and the relays of a site.

use super::Fixture;
use super::world::*;
use culvert_ids::RelayId;
use culvert_store::{
    Account, Denial, EntityKind, ListFilter, MAX_SITE_RELAYS, MachineId, Mutation, PageLimit, Part,
    PathRule, Principal, Relay, SeenMachine, Seq, Site, StoreError, StoreExt, Token, TokenScope,
    TokenUses,
};

const ADDRESS: &str = "192.0.2.9:3478";

async fn key(world: &World, uses: TokenUses) -> Principal {
    let key = world.token(TokenScope::Relay, uses).await;
    world.authenticate(&key, NOW).await.unwrap()
}

async fn enrol(
    world: &World,
    principal: &Principal,
    machine: &str,
    addresses: &[&str],
) -> Result<Relay, StoreError> {
    let machine = relay_enrolment(machine, addresses);
    let enrolled = world
        .store
        .enrol_relay(world.account, principal, machine, NOW);
    enrolled.await
}

async fn last(world: &World) -> Seq {
    world.store.snapshot(world.account).await.unwrap().seq
}

pub(crate) async fn a_relay_that_comes_again_is_the_same_and_writes_nothing(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let key = key(&world, TokenUses::Many).await;
    let first = enrol(&world, &key, "m1", &[ADDRESS]).await.unwrap();
    assert_eq!((&*first.name, first.draining), ("relay", false));
    assert_eq!(first.seen, Some(seen(NOW)));
    let before = last(&world).await;
    let again = enrol(&world, &key, "m1", &[ADDRESS]).await.unwrap();
    assert_eq!((again, last(&world).await), (first.clone(), before));
    // Other addresses are a change, by the token.
    let moved = enrol(&world, &key, "m1", &["[2001:db8::9]:3478"])
        .await
        .unwrap();
    assert_eq!((moved.id, moved.stamp.version), (first.id, 2));
    assert_eq!(moved.addresses, ["[2001:db8::9]:3478".parse().unwrap()]);
    let change = world.store.changes_after(world.account, before, 9).await;
    let change = change.unwrap().pop().unwrap();
    assert_eq!(
        (change.id, change.author.token),
        (first.id.into(), Some(key.token))
    );
    // Another machine of the name gets a number.
    let other = enrol(&world, &key, "m2", &[ADDRESS]).await.unwrap();
    assert_eq!(other.name, "relay-2");
    let all = world.store.snapshot(world.account).await.unwrap().relays;
    assert_eq!(all.len(), 2);
    let many = vec![ADDRESS; 9];
    let refused = enrol(&world, &key, "m3", &many).await;
    assert!(
        matches!(
            refused,
            Err(StoreError::Invalid {
                field: "addresses",
                ..
            })
        ),
        "{refused:?}"
    );
}

pub(crate) async fn a_one_time_token_of_a_relay_belongs_to_the_relay_that_used_it(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let key = key(&world, TokenUses::One).await;
    let relay = enrol(&world, &key, "m1", &[ADDRESS]).await.unwrap();
    enrol(&world, &key, "m1", &[ADDRESS]).await.unwrap();
    let token: Token = world.store.get_as(world.account, key.token).await.unwrap();
    assert_eq!(
        token.used.unwrap().machine,
        Some(MachineId::Relay(relay.id))
    );
    let other = enrol(&world, &key, "m2", &[ADDRESS]).await;
    assert!(
        matches!(other, Err(StoreError::Denied(Denial::Used))),
        "{other:?}"
    );
}

pub(crate) async fn a_revoked_relay_stays_away_and_no_other_token_enrols_one(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let key = key(&world, TokenUses::Many).await;
    let mut relay = enrol(&world, &key, "m1", &[ADDRESS]).await.unwrap();
    relay.revoked = Some(NOW);
    world.write(vec![update(relay.clone())]).await.unwrap();
    let again = enrol(&world, &key, "m1", &[ADDRESS]).await;
    assert!(
        matches!(again, Err(StoreError::Denied(Denial::MachineRevoked))),
        "{again:?}"
    );
    relay.revoked = None;
    let back = world.write(vec![update(relay.clone())]).await;
    assert!(
        matches!(
            back,
            Err(StoreError::Invalid {
                field: "revoked",
                ..
            })
        ),
        "{back:?}"
    );
    let site = world.site("Berlin").await;
    let gateway_key = world.gateway_key(site.id).await;
    let wrong = enrol(&world, &gateway_key, "m2", &[ADDRESS]).await;
    assert!(
        matches!(wrong, Err(StoreError::Denied(Denial::WrongKind))),
        "{wrong:?}"
    );
    let made = world.write(vec![Mutation::Create(relay.into())]).await;
    assert!(
        matches!(made, Err(StoreError::Invalid { field: "id", .. })),
        "{made:?}"
    );
}

pub(crate) async fn relays_are_listed_by_their_state_and_counted_by_their_software(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let key = key(&world, TokenUses::Many).await;
    let live = enrol(&world, &key, "m1", &[ADDRESS]).await.unwrap();
    let mut revoked = enrol(&world, &key, "m2", &[ADDRESS]).await.unwrap();
    revoked.revoked = Some(NOW);
    world.write(vec![update(revoked.clone())]).await.unwrap();
    for (part, expected) in [
        (Part::LiveRelays, live.id),
        (Part::RevokedRelays, revoked.id),
    ] {
        let filter = ListFilter {
            parts: vec![part],
            ..ListFilter::default()
        };
        let list = world
            .store
            .list_as::<Relay>(world.account, &filter, None, PageLimit::MAX);
        let found = list.await.unwrap().items;
        let ids: Vec<_> = found.iter().map(|relay| relay.id).collect();
        assert_eq!(ids, [expected]);
    }
    let mut report = seen(later(5));
    report.software = "9.9.9".to_owned();
    let machine = SeenMachine {
        id: MachineId::Relay(live.id),
        seen: report.clone(),
    };
    let noted = world.store.record_seen(world.account, vec![machine]).await;
    assert_eq!(noted.unwrap(), 1);
    let read: Relay = world.store.get_as(world.account, live.id).await.unwrap();
    assert_eq!(read.seen, Some(report));
    let counts = world
        .store
        .software_counts(world.account, EntityKind::Relay);
    let counts: Vec<_> = counts.await.unwrap().into_iter().collect();
    assert_eq!(counts, [("9.9.9".to_owned(), 1)]);
    world.write(vec![delete(live.id, false)]).await.unwrap();
    assert!(
        world
            .store
            .get(world.account, live.id.into())
            .await
            .is_err()
    );
}

pub(crate) async fn the_rule_about_paths_and_the_relays_of_a_site_are_kept(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let read = async || -> Account {
        let account = world.store.get_as(world.account, world.account).await;
        account.unwrap()
    };
    let mut account = read().await;
    assert_eq!(account.settings.paths, PathRule::Any);
    for rule in [PathRule::Relayed, PathRule::Direct, PathRule::Any] {
        account.settings.paths = rule;
        world.write(vec![update(account.clone())]).await.unwrap();
        assert_eq!(read().await.settings.paths, rule);
    }
    let mut site = world.site("Berlin").await;
    assert_eq!(site.relays, None);
    for relays in [
        Some(vec![
            RelayId::from_bytes(bytes()),
            RelayId::from_bytes(bytes()),
        ]),
        Some(Vec::new()),
        None,
    ] {
        site.relays = relays.clone();
        world.write(vec![update(site.clone())]).await.unwrap();
        let read: Site = world.store.get_as(world.account, site.id).await.unwrap();
        assert_eq!(read.relays, relays);
    }
    site.relays = Some(vec![RelayId::from_bytes(bytes()); MAX_SITE_RELAYS + 1]);
    let refused = world.write(vec![update(site)]).await;
    assert!(
        matches!(
            refused,
            Err(StoreError::Invalid {
                field: "relays",
                ..
            })
        ),
        "{refused:?}"
    );
}

pub(crate) async fn a_relay_that_a_site_names_is_not_deleted(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let key = key(&world, TokenUses::Many).await;
    let named = enrol(&world, &key, "m1", &[ADDRESS]).await.unwrap();
    let other = enrol(&world, &key, "m2", &[ADDRESS]).await.unwrap();
    let mut site = world.site("Berlin").await;
    site.relays = Some(vec![named.id]);
    world.write(vec![update(site.clone())]).await.unwrap();
    for cascade in [false, true] {
        let refused = world.write(vec![delete(named.id, cascade)]).await;
        let Err(StoreError::InUse { by, total: 1, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((by[0].id, &*by[0].name), (site.id.into(), "Berlin"));
    }
    world.write(vec![delete(other.id, false)]).await.unwrap();
    site.relays = Some(Vec::new());
    world.write(vec![update(site)]).await.unwrap();
    world.write(vec![delete(named.id, false)]).await.unwrap();
}
