//! Changes of the configuration.

use super::Fixture;
use super::world::*;
use culvert_ids::{ActorId, GroupId, SiteId};
use culvert_store::{
    ActorKind, Author, Entity, EntityId, EntityKind, ListFilter, MAX_MUTATIONS, MAX_NAME_CHARS,
    Mutation, Operation, PageLimit, Resource, Stamp, Store, StoreError, StoreExt, Token,
    TokenScope, TokenUses,
};
use culvert_wire::model::{
    Condition, Filter, PortRange, TimeWindow, Weekday, WrittenExpires, WrittenTimes,
    WrittenVerified,
};

pub(crate) async fn a_row_is_read_as_it_was_written(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (actor, group, site) = (actor("Ada"), group("Engineers"), site("Berlin"));
    let mut resource = resource(site.id, "Databases");
    resource.filters = vec![
        Filter::Tcp {
            ports: vec![PortRange {
                first: 5432,
                last: 5433,
            }],
        },
        Filter::Any,
    ];
    let mut policy = policy(group.id, resource.id, "Engineers → databases");
    policy.disabled = true;
    policy.conditions = vec![
        Condition::Verified(WrittenVerified {}),
        Condition::Expires(WrittenExpires { at: later(HOUR_MS) }),
        Condition::Time(WrittenTimes {
            zone: "Europe/Berlin".to_owned(),
            windows: vec![TimeWindow {
                days: vec![Weekday::Monday],
                from: "09:00".to_owned(),
                until: "24:00".to_owned(),
            }],
        }),
    ];
    let membership = membership(group.id, actor.id);
    let rows: Vec<Entity> = vec![
        actor.into(),
        group.into(),
        site.into(),
        resource.into(),
        policy.into(),
        membership.into(),
    ];
    let mutations = rows.iter().cloned().map(Mutation::Create).collect();
    let changes = world.write(mutations).await.unwrap();
    for (mut row, change) in rows.into_iter().zip(changes) {
        let id = row.id();
        set_stamp(
            &mut row,
            Stamp {
                version: 1,
                created: NOW,
                updated: NOW,
            },
        );
        let read = world.store.get(world.account, id).await.unwrap();
        assert_eq!(read, row);
        assert_eq!((change.before, change.after), (None, Some(row)));
    }
}

fn set_stamp(row: &mut Entity, stamp: Stamp) {
    match row {
        Entity::Actor(row) => row.stamp = stamp,
        Entity::Group(row) => row.stamp = stamp,
        Entity::Site(row) => row.stamp = stamp,
        Entity::Resource(row) => row.stamp = stamp,
        Entity::Policy(row) => row.stamp = stamp,
        Entity::Membership(row) => row.stamp = stamp,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn a_write_does_all_or_nothing(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let before = world.store.snapshot(world.account).await.unwrap();
    let missing = GroupId::from_bytes(bytes());
    let error = world
        .write(vec![
            Mutation::Create(group("Engineers").into()),
            delete(missing, false),
        ])
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::NotFound(id) if id == missing.into()));
    let after = world.store.snapshot(world.account).await.unwrap();
    assert_eq!(after, before);
}

pub(crate) async fn an_update_of_another_version_conflicts(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let mut group = world.group("Engineers").await;
    group.name = "Builders".to_owned();
    world.update(group.clone()).await.unwrap();
    group.name = "Makers".to_owned();
    for mutation in [
        Mutation::Update {
            entity: group.clone().into(),
            expected_version: Some(1),
        },
        Mutation::Delete {
            id: group.id.into(),
            expected_version: Some(3),
            cascade: false,
        },
    ] {
        let error = world.write(vec![mutation]).await.unwrap_err();
        let id = EntityId::from(group.id);
        assert!(
            matches!(error, StoreError::VersionConflict { id: of, current: 2 } if of == id),
            "{error:?}"
        );
    }
    let mutation = Mutation::Update {
        entity: group.clone().into(),
        expected_version: Some(2),
    };
    world.write(vec![mutation]).await.unwrap();
    let group: culvert_store::Group = world.store.get_as(world.account, group.id).await.unwrap();
    assert_eq!((group.name.as_str(), group.stamp.version), ("Makers", 3));
}

pub(crate) async fn an_update_that_changes_nothing_is_not_recorded(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let group = world.group("Engineers").await;
    let changes = world.update(group.clone()).await.unwrap();
    assert_eq!(changes, []);
    let row = world
        .store
        .get(world.account, group.id.into())
        .await
        .unwrap();
    assert_eq!(row.stamp().version, 1);
}

pub(crate) async fn names_are_unique_whatever_their_case(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let first = world.group("Ärzte").await;
    let second = world.group("Bäcker").await;
    let taken = |error: &StoreError| {
        matches!(error, StoreError::NameTaken { kind: EntityKind::Group, by, .. }
            if *by == first.id.into())
    };
    let create = Mutation::Create(group("äRZTE").into());
    let error = world.write(vec![create]).await.unwrap_err();
    assert!(taken(&error), "{error:?}");
    let mut renamed = second.clone();
    renamed.name = "ÄRZTE".to_owned();
    let error = world.update(renamed).await.unwrap_err();
    assert!(taken(&error), "{error:?}");
    // Its own name in other letters, another kind's name, and another account's are free.
    let mut renamed = first.clone();
    renamed.name = "ÄRZTE".to_owned();
    world.update(renamed).await.unwrap();
    world.site("ärzte").await;
    World::beside(&world.store).await.group("Ärzte").await;
}

/// Small letters of one character with a capital of several: the lower case of the capital is in no normal form.
pub(crate) async fn names_are_unique_where_a_capital_has_more_characters(
    factory: impl AsyncFn() -> Fixture,
) {
    for (one, other) in [
        ("\u{1f0}", "J\u{30c}"),
        ("\u{1e96}", "H\u{331}"),
        ("\u{1e97}", "T\u{308}"),
        ("\u{1e98}", "W\u{30a}"),
        ("\u{1e99}", "Y\u{30a}"),
        ("\u{390}", "\u{3aa}\u{301}"),
        ("\u{3b0}", "\u{3ab}\u{301}"),
        ("\u{1f0}\u{e9}", "J\u{30c}\u{c9}"),
    ] {
        for (one, other) in [(one, other), (other, one)] {
            let world = World::new(factory().await).await;
            let first = world.group(one).await;
            let second = Mutation::Create(group(other).into());
            let error = world.write(vec![second]).await.unwrap_err();
            assert!(
                matches!(&error, StoreError::NameTaken { by, .. } if *by == first.id.into()),
                "{one} {other}: {error:?}"
            );
            for filter in [
                ListFilter {
                    name: Some(other.to_owned()),
                    ..ListFilter::default()
                },
                ListFilter {
                    name_contains: Some(other.to_owned()),
                    ..ListFilter::default()
                },
            ] {
                let list = world.store.list(
                    world.account,
                    EntityKind::Group,
                    &filter,
                    None,
                    PageLimit::MAX,
                );
                let found = list.await.unwrap().items;
                let found: Vec<_> = found.iter().map(Entity::id).collect();
                assert_eq!(found, [first.id.into()], "{one} {other}");
            }
        }
    }
}

pub(crate) async fn names_that_are_no_names_are_refused(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    for name in [
        String::new(),
        " ".to_owned(),
        " a".to_owned(),
        "a\n".to_owned(),
        "a\0b".to_owned(),
        "a".repeat(MAX_NAME_CHARS + 1),
    ] {
        let create = Mutation::Create(group(&name).into());
        let error = world.write(vec![create]).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Invalid { field: "name", .. }),
            "{name:?}: {error:?}"
        );
    }
    world.group(&"ü".repeat(MAX_NAME_CHARS)).await;
}

pub(crate) async fn an_actor_is_in_a_group_once(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (actor, group) = (world.actor("Ada").await, world.group("Engineers").await);
    let first = membership(group.id, actor.id);
    world.create(first.clone()).await;
    let again = Mutation::Create(membership(group.id, actor.id).into());
    let error = world.write(vec![again]).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists(id) if id == first.id.into()));
}

pub(crate) async fn what_a_row_refers_to_must_exist(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let group = world.group("Engineers").await;
    let site = world.site("Berlin").await;
    let mut moved = world.resource(site.id, "Databases").await;
    let nobody = ActorId::from_bytes(bytes());
    let nowhere = self::site("Nowhere").id;
    moved.site = nowhere;
    let (token, _) = token(TokenScope::Client { actor: nobody }, TokenUses::Many);
    for (mutation, missing) in [
        (
            Mutation::Create(membership(group.id, nobody).into()),
            EntityId::from(nobody),
        ),
        (
            Mutation::Create(resource(nowhere, "Elsewhere").into()),
            nowhere.into(),
        ),
        (update(moved), nowhere.into()),
        (token, nobody.into()),
    ] {
        let error = world.write(vec![mutation]).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(id) if id == missing));
    }
}

pub(crate) async fn what_is_in_use_is_not_deleted(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let site = world.site("Berlin").await;
    let resource = world.resource(site.id, "Databases").await;
    let scope = TokenScope::Gateway { site: site.id };
    let token = world.token(scope, TokenUses::Many).await;
    let error = world.delete(site.id, false).await.unwrap_err();
    let StoreError::InUse { row, by, total } = error else {
        panic!("{error:?}");
    };
    assert_eq!((row.id, total), (site.id.into(), 2));
    assert_eq!(row.name, "Berlin");
    let ids: Vec<_> = by.iter().map(|row| row.id).collect();
    assert_eq!(ids, [EntityId::from(resource.id), token.id.into()]);
    assert_eq!(by[0].name, resource.name);
    assert_eq!(by[1].name, token.id.to_string());

    let actor = world.actor("Ada").await;
    let scope = TokenScope::Client { actor: actor.id };
    world.token(scope, TokenUses::Many).await;
    let error = world.delete(actor.id, false).await.unwrap_err();
    assert!(matches!(error, StoreError::InUse { total: 1, .. }));

    let error = world.delete(world.account, true).await.unwrap_err();
    assert!(matches!(error, StoreError::Invalid { .. }));
}

pub(crate) async fn a_cascade_takes_all_that_refers_along(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (ada, engineers) = (world.actor("Ada").await, world.group("Engineers").await);
    let site = world.site("Berlin").await;
    let resource = world.resource(site.id, "Databases").await;
    let policy = world.policy(engineers.id, resource.id, "Engineers").await;
    let membership = membership(engineers.id, ada.id);
    world.create(membership.clone()).await;
    let gateway = world.gateway_key(site.id).await;
    let gateway_row = world.enrol_gateway(&gateway, "gw", 1).await.unwrap();
    let client = world.client_key(ada.id).await;
    let client_row = world.enrol(&client, "laptop", 2).await.unwrap();

    // A group's memberships and policies go without being asked for, each recorded.
    let changes = world.delete(engineers.id, false).await.unwrap();
    let gone: Vec<EntityId> = changes.iter().map(|change| change.id).collect();
    assert_eq!(gone.last(), Some(&engineers.id.into()));
    assert_eq!(
        sorted(&gone),
        sorted(&[policy.id.into(), membership.id.into(), engineers.id.into(),])
    );
    for change in &changes {
        assert_eq!(change.operation, Operation::Delete);
        assert!(change.before.is_some() && change.after.is_none());
    }
    // A site's with all that lies there; the resource takes its policies along.
    let staff = world.group("Staff").await;
    let policy = world.policy(staff.id, resource.id, "Staff").await;
    let changes = world.delete(site.id, true).await.unwrap();
    let gone: Vec<EntityId> = changes.iter().map(|change| change.id).collect();
    let at = |id: EntityId| gone.iter().position(|gone| *gone == id).unwrap();
    assert!(at(policy.id.into()) < at(resource.id.into()));
    assert_eq!(
        sorted(&gone),
        sorted(&[
            resource.id.into(),
            policy.id.into(),
            gateway_row.id.into(),
            gateway.token.into(),
            site.id.into(),
        ])
    );
    // An actor's with its clients and tokens.
    let changes = world.delete(ada.id, true).await.unwrap();
    let gone: Vec<EntityId> = changes.iter().map(|change| change.id).collect();
    assert_eq!(
        sorted(&gone),
        sorted(&[client_row.id.into(), client.token.into(), ada.id.into(),])
    );
    let error = world.store.get(world.account, ada.id.into()).await;
    assert!(matches!(error, Err(StoreError::NotFound(_))));
}

fn sorted(ids: &[EntityId]) -> Vec<EntityId> {
    let mut ids = ids.to_vec();
    ids.sort();
    ids
}

pub(crate) async fn what_the_store_alone_writes_can_not_be_updated(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (ada, bob) = (world.actor("Ada").await, world.actor("Bob").await);
    let key = world.client_key(ada.id).await;
    let client = world.enrol(&key, "laptop", 1).await.unwrap();
    let mut token: Token = world.store.get_as(world.account, key.token).await.unwrap();
    token.scope = TokenScope::Client { actor: bob.id };
    let mut moved = client.clone();
    moved.actor = bob.id;
    let mut keyed = client.clone();
    keyed.public_key = culvert_wire::PublicKey::from_bytes([9; 32]);
    let mut addressed = client.clone();
    addressed.ipv4 = [10, 0, 0, 1].into();
    let staff = world.group("Staff").await;
    let pair = membership(staff.id, ada.id);
    world.create(pair.clone()).await;
    let mut repaired = pair;
    repaired.actor = bob.id;
    for entity in [
        Entity::from(token),
        moved.into(),
        keyed.into(),
        addressed.into(),
        repaired.into(),
    ] {
        let error = world.update(entity.clone()).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Invalid { .. }),
            "{entity:?}: {error:?}"
        );
    }
    // A revocation is final.
    let mut revoked = client.clone();
    revoked.revoked = Some(NOW);
    world.update(revoked.clone()).await.unwrap();
    revoked.revoked = None;
    let error = world.update(revoked).await.unwrap_err();
    assert!(matches!(
        error,
        StoreError::Invalid {
            field: "revoked",
            ..
        }
    ));
    // Accounts, tokens and machines do not come into being by a bare mutation.
    let mut other = client;
    other.id = culvert_ids::ClientId::from_bytes(bytes());
    let account = account(account_id());
    for entity in [Entity::from(other), account.into()] {
        let create = Mutation::Create(entity);
        let error = world.write(vec![create]).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }));
    }
}

pub(crate) async fn settings_that_can_not_work_are_refused(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let good: culvert_store::Account = world
        .store
        .get_as(world.account, world.account)
        .await
        .unwrap();
    let mut all = Vec::new();
    for range in [
        "",
        "10.0.0.0",
        "10.0.0.1/8",
        "fd00::/64",
        "100.96.0.0/12",
        "10.0.0.0/30",
    ] {
        let mut account = good.clone();
        account.settings.ranges.machines_ipv4 = range.to_owned();
        all.push(account);
    }
    for lifetime in [0, 59, 86_401] {
        let mut account = good.clone();
        account.settings.grant_lifetime_s = lifetime;
        all.push(account);
    }
    for account in all {
        let settings = format!("{:?}", account.settings);
        let error = world.update(account).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid { .. }), "{settings}");
    }
    let mut account = good;
    account.settings.grant_lifetime_s = 600;
    account.settings.ranges.machines_ipv4 = "10.99.0.0/16".to_owned();
    let changes = world.update(account).await.unwrap();
    assert_eq!(changes.len(), 1);
}

pub(crate) async fn more_mutations_than_the_bound_are_refused(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let group = world.group("Engineers").await;
    let mutations = vec![update(group); MAX_MUTATIONS + 1];
    let error = world.write(mutations).await.unwrap_err();
    assert!(matches!(error, StoreError::TooMany { .. }));
}

pub(crate) async fn an_id_names_one_row(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let mut group = world.group("Engineers").await;
    group.name = "Others".to_owned();
    let create = Mutation::Create(group.into());
    let error = world.write(vec![create]).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists(_)));
    // The id is told first, whatever else is wrong with the row.
    let site = world.site("Site").await;
    let resource = world.resource(site.id, "Resource").await;
    let again = Resource {
        site: SiteId::from_bytes(bytes()),
        ..resource
    };
    let create = Mutation::Create(again.clone().into());
    let error = world.write(vec![create]).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists(id) if id == again.id.into()));
    // A token's id says by itself in which account it is, so no other account may have it.
    let (token, _) = token(TokenScope::Setup, TokenUses::One);
    world.write(vec![token.clone()]).await.unwrap();
    let other = World::beside(&world.store).await;
    let error = other.write(vec![token]).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists(_)));
}

pub(crate) async fn bootstrap_makes_an_account_and_ends_with_an_admin(
    factory: impl AsyncFn() -> Fixture,
) {
    let fixture = factory().await;
    let store: &dyn Store = &*fixture.store;
    store.ping().await.unwrap();
    let limit = PageLimit::MAX;
    assert_eq!(store.accounts(None, limit).await.unwrap().items, []);
    let made = store
        .create_account(account(account_id()), Author::PORTAL, NOW)
        .await
        .unwrap();
    assert_eq!(made.stamp.version, 1);
    let page = store.accounts(None, limit).await.unwrap();
    assert_eq!(page.items, std::slice::from_ref(&made));
    assert!(!store.is_set_up(made.id).await.unwrap());
    let again = store
        .create_account(made.clone(), Author::PORTAL, NOW)
        .await;
    assert!(matches!(again, Err(StoreError::Exists(_))));
    let mut named = account(account_id());
    named.name = made.name.to_uppercase();
    let again = store.create_account(named, Author::PORTAL, NOW).await;
    assert!(matches!(again, Err(StoreError::NameTaken { .. })));
    // A user does not end the set-up, an admin does.
    let mut row = actor("Ada");
    let create = vec![Mutation::Create(row.clone().into())];
    store
        .write(made.id, Author::PORTAL, NOW, create)
        .await
        .unwrap();
    assert!(!store.is_set_up(made.id).await.unwrap());
    row.kind = ActorKind::Admin;
    let update = vec![update(row)];
    store
        .write(made.id, Author::PORTAL, NOW, update)
        .await
        .unwrap();
    assert!(store.is_set_up(made.id).await.unwrap());
}
