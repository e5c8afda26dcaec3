//! Lists.

use super::Fixture;
use super::world::*;
use culvert_store::{
    Account, ActorKind, EntityId, EntityKind, Group, ListFilter, MAX_BATCH, MAX_PAGE, Mutation,
    Page, PageLimit, Part, StoreError, StoreExt, TokenScope, TokenUses,
};

pub(crate) async fn pages_neither_repeat_nor_lose_rows_under_inserts(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let groups: Vec<Group> = (0..450).map(|at| group(&format!("Group {at}"))).collect();
    let mutations = groups
        .iter()
        .cloned()
        .map(|row| Mutation::Create(row.into()));
    world.write(mutations.collect()).await.unwrap();
    let mut read = Vec::new();
    let mut after: Option<EntityId> = None;
    let limit = PageLimit::new(1_000_000);
    loop {
        let page = world
            .store
            .list(
                world.account,
                EntityKind::Group,
                &ListFilter::default(),
                after,
                limit,
            )
            .await
            .unwrap();
        assert!(page.items.len() <= usize::from(MAX_PAGE));
        read.extend(page.items.iter().map(culvert_store::Entity::id));
        // Rows that come and go meanwhile do not shift the others.
        world.group(&format!("Later {}", read.len())).await;
        world.delete(page.items[0].id(), false).await.unwrap();
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let known: Vec<EntityId> = groups.iter().map(|group| group.id.into()).collect();
    assert_eq!(read[..450], known);
    // Rows added behind the cursor are read as well, each once.
    assert_eq!(read.len(), 452);
    let once: std::collections::BTreeSet<_> = read.iter().collect();
    assert_eq!(once.len(), read.len());
}

pub(crate) async fn filters_narrow_a_list(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (ada, bob) = (world.actor("Ada Lovelace").await, world.actor("Bob").await);
    let (staff, guests) = (world.group("Staff").await, world.group("Gäste").await);
    let (berlin, paris) = (world.site("Berlin").await, world.site("Paris").await);
    let database = world.resource(berlin.id, "Database").await;
    let web = world.resource(paris.id, "Web").await;
    let allow = world.policy(staff.id, database.id, "One").await;
    world.policy(guests.id, web.id, "Two").await;
    let pair = membership(staff.id, ada.id);
    world.create(pair.clone()).await;
    world.create(membership(staff.id, bob.id)).await;
    world.create(membership(guests.id, ada.id)).await;
    let scope = TokenScope::Client { actor: bob.id };
    let token = world.token(scope, TokenUses::Many).await;

    let ids = async |kind, filter: ListFilter| -> Vec<EntityId> {
        let page: Page<_, _> = world
            .store
            .list(world.account, kind, &filter, None, PageLimit::MAX)
            .await
            .unwrap();
        page.items.iter().map(culvert_store::Entity::id).collect()
    };
    let named = |name: &str| ListFilter {
        name: Some(name.to_owned()),
        ..ListFilter::default()
    };
    let containing = |part: &str| ListFilter {
        name_contains: Some(part.to_owned()),
        ..ListFilter::default()
    };
    let to = |ids: &[EntityId]| ListFilter {
        refers_to: ids.to_vec(),
        ..ListFilter::default()
    };
    use EntityKind as K;
    assert_eq!(ids(K::Group, named("GÄSTE")).await, [guests.id.into()]);
    assert_eq!(ids(K::Group, named("Gäst")).await, []);
    assert_eq!(ids(K::Actor, containing("LOVE")).await, [ada.id.into()]);
    assert_eq!(ids(K::Actor, containing("%")).await, []);
    let of_berlin = to(&[berlin.id.into()]);
    assert_eq!(ids(K::Resource, of_berlin).await, [database.id.into()]);
    let of_staff = to(&[staff.id.into()]);
    assert_eq!(ids(K::Policy, of_staff).await, [allow.id.into()]);
    let of_web = to(&[web.id.into(), staff.id.into()]);
    assert_eq!(ids(K::Policy, of_web).await, []);
    let both = to(&[staff.id.into(), ada.id.into()]);
    assert_eq!(ids(K::Membership, both).await, [pair.id.into()]);
    assert_eq!(ids(K::Membership, to(&[ada.id.into()])).await.len(), 2);
    assert_eq!(ids(K::Token, to(&[bob.id.into()])).await, [token.id.into()]);
    assert_eq!(ids(K::Client, to(&[bob.id.into()])).await, []);
    assert_eq!(ids(K::Gateway, to(&[paris.id.into()])).await, []);
    // Of their own type.
    let page = world
        .store
        .list_as::<Group>(world.account, &named("staff"), None, PageLimit::MAX)
        .await
        .unwrap();
    assert_eq!(page.items[0].name, "Staff");
}

pub(crate) async fn parts_of_a_kind_have_lists_of_their_own(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let person = world.actor("Ada").await;
    let mut machine = actor("Backup");
    machine.kind = ActorKind::ServiceAccount;
    world.create(machine.clone()).await;
    let (actor, site) = (person.id, world.site("Berlin").await);
    let made = world
        .token(TokenScope::Client { actor }, TokenUses::Many)
        .await;
    let session = world
        .token(TokenScope::Session { actor }, TokenUses::Many)
        .await;
    world.token(TokenScope::Setup, TokenUses::One).await;
    let principal = world.gateway_key(site.id).await;
    let new = world.enrol_gateway(&principal, "new", 1).await.unwrap();
    let mut verified = world
        .enrol_gateway(&principal, "verified", 2)
        .await
        .unwrap();
    verified.verified = Some(NOW);
    let mut revoked = world.enrol_gateway(&principal, "revoked", 3).await.unwrap();
    revoked.revoked = Some(NOW);
    let updates = [update(verified), update(revoked)];
    world.write(updates.into()).await.unwrap();

    let ids = async |part: Part| -> Vec<EntityId> {
        let filter = ListFilter {
            part: Some(part),
            ..ListFilter::default()
        };
        let list = world
            .store
            .list(world.account, part.kind(), &filter, None, PageLimit::MAX);
        let page = list.await.unwrap();
        page.items.iter().map(culvert_store::Entity::id).collect()
    };
    assert_eq!(ids(Part::ServiceAccounts).await, [machine.id.into()]);
    assert_eq!(ids(Part::Sessions).await, [session.id.into()]);
    let made_tokens = ids(Part::MadeTokens).await;
    assert!(made_tokens.contains(&made.id.into()));
    // The gateways' token is the other one.
    assert_eq!(made_tokens.len(), 2);
    assert_eq!(ids(Part::UnverifiedGateways).await, [new.id.into()]);
}

pub(crate) async fn names_of_all_kinds_are_found_at_once(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (ada, staff) = (world.actor("Ada").await, world.group("Staff").await);
    let pair = membership(staff.id, ada.id);
    world.create(pair.clone()).await;
    let site = world.site("Berlin").await;
    let missing = group("Missing").id;
    let ids = [
        ada.id.into(),
        staff.id.into(),
        pair.id.into(),
        site.id.into(),
        missing.into(),
        world.account.into(),
    ];
    let names = world.store.names(world.account, &ids).await.unwrap();
    let account: Account = world
        .store
        .get_as(world.account, world.account)
        .await
        .unwrap();
    let expected = [
        (ada.id.into(), "Ada".to_owned()),
        (staff.id.into(), "Staff".to_owned()),
        (site.id.into(), "Berlin".to_owned()),
        (world.account.into(), account.name),
    ];
    assert_eq!(names, expected.into());
    let none = world.store.names(world.account, &[]).await.unwrap();
    assert!(none.is_empty());
    let many = vec![ada.id.into(); MAX_BATCH + 1];
    let names = world.store.names(world.account, &many).await;
    assert!(matches!(names, Err(StoreError::TooMany { .. })));
}

pub(crate) async fn a_filter_that_does_not_go_with_the_kind_is_refused(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let group = world.group("Staff").await;
    let to_group = ListFilter {
        refers_to: vec![group.id.into()],
        ..ListFilter::default()
    };
    let named = ListFilter {
        name: Some("Staff".to_owned()),
        ..ListFilter::default()
    };
    let part = ListFilter {
        part: Some(Part::Sessions),
        ..ListFilter::default()
    };
    for (kind, filter) in [
        (EntityKind::Actor, part),
        (EntityKind::Site, to_group),
        (EntityKind::Membership, named),
    ] {
        let list = world
            .store
            .list(world.account, kind, &filter, None, PageLimit::MAX);
        assert!(matches!(list.await, Err(StoreError::Invalid { .. })));
    }
    // An empty answer would read as "no such policies".
    let missing = ListFilter {
        refers_to: vec![self::group("Missing").id.into()],
        ..ListFilter::default()
    };
    let list = world.store.list(
        world.account,
        EntityKind::Policy,
        &missing,
        None,
        PageLimit::MAX,
    );
    assert!(matches!(list.await, Err(StoreError::NotFound(_))));
}
