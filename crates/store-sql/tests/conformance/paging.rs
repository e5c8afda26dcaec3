//! Lists.

use super::Fixture;
use super::world::*;
use culvert_ids::ActorId;
use culvert_store::{
    Account, ActorKind, Client, EntityId, EntityKind, Group, Kind, ListFilter, MAX_BATCH, MAX_PAGE,
    Mutation, Order, OrderBy, Page, PageLimit, Part, Policy, Position, Resource, StoreError,
    StoreExt, TokenScope, TokenUses,
};
use culvert_wire::model::{Target, TargetKind};

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

pub(crate) async fn policies_of_the_groups_of_an_actor_are_listed(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let site = world.site("Berlin").await.id;
    let (web, mail) = (
        world.resource(site, "Web").await,
        world.resource(site, "mail").await,
    );
    let (staff, guests) = (world.group("Staff").await, world.group("Guests").await);
    let (ada, bob) = (world.actor("Ada").await, world.actor("Bob").await);
    world.create(membership(staff.id, ada.id)).await;
    world.create(membership(guests.id, ada.id)).await;
    world.create(membership(guests.id, bob.id)).await;
    world.policy(staff.id, web.id, "One").await;
    world.policy(guests.id, mail.id, "Two").await;
    world.policy(guests.id, web.id, "Three").await;
    let of = |actor| ListFilter {
        of_actor: Some(actor),
        ..ListFilter::default()
    };
    let by_resource = ordered(OrderBy::Holder, false, 0);
    let (mut names, total) = look::<Policy>(&world, &of(ada.id), by_resource, 9).await;
    assert_eq!((names.remove(0).as_str(), total), ("Two", 3));
    let (names, total) = look::<Policy>(&world, &of(bob.id), by_resource, 1).await;
    assert_eq!((names, total), (vec!["Two".to_owned()], 2));
    let nobody = ActorId::from_bytes([9; 16]);
    let (names, total) = look::<Policy>(&world, &of(nobody), by_resource, 9).await;
    assert_eq!((names.len(), total), (0, 0));
    let (kind, of_ada) = (EntityKind::Resource, of(ada.id));
    let (position, limit) = (Position::default(), PageLimit::MAX);
    let refused = world
        .store
        .list_ordered(world.account, kind, &of_ada, position, limit);
    assert!(matches!(
        refused.await,
        Err(StoreError::Invalid {
            field: "of_actor",
            ..
        })
    ));
}

/// Names of the rows that are found, and the number of all.
async fn look<T: Kind>(
    world: &World,
    filter: &ListFilter,
    position: Position,
    rows: u64,
) -> (Vec<String>, u64) {
    let limit = PageLimit::new(rows);
    let found = world
        .store
        .list_ordered(world.account, T::KIND, filter, position, limit)
        .await
        .unwrap();
    let names = found.items.iter().filter_map(culvert_store::Entity::name);
    (names.map(str::to_owned).collect(), found.total)
}

fn texts(text: &str) -> ListFilter {
    ListFilter {
        text: Some(text.to_owned()),
        ..ListFilter::default()
    }
}

fn ordered(by: OrderBy, is_descending: bool, skipped: u64) -> Position {
    let order = Order { by, is_descending };
    Position { order, skipped }
}

pub(crate) async fn a_list_is_read_in_the_order_that_people_chose_with_the_number_of_all(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (berlin, atlas) = (world.site("Berlin").await, world.site("atlas").await);
    for (site, name) in [
        (berlin.id, "delta"),
        (atlas.id, "Charlie"),
        (berlin.id, "alpha"),
    ] {
        world.resource(site, name).await;
    }
    world.resource(atlas.id, "bravo").await;
    let all = ListFilter::default();
    let read = async |by, descending, skipped, rows| {
        look::<Resource>(&world, &all, ordered(by, descending, skipped), rows).await
    };
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    use OrderBy as By;
    let by_name = read(By::Name, false, 0, 3).await;
    assert_eq!(by_name, (names(&["alpha", "bravo", "Charlie"]), 4));
    let second = read(By::Name, false, 3, 3).await;
    assert_eq!(second, (names(&["delta"]), 4));
    let backwards = read(By::Name, true, 0, 2).await;
    assert_eq!(backwards, (names(&["delta", "Charlie"]), 4));
    let by_site = read(By::Holder, false, 0, 9).await;
    assert_eq!(by_site, (names(&["Charlie", "bravo", "delta", "alpha"]), 4));
    let created = read(By::Created, true, 0, 1).await;
    assert_eq!(created, (names(&["bravo"]), 4));
    assert_eq!(read(By::Created, false, 40, 9).await, (names(&[]), 4));

    // An order that the kind does not have is refused.
    let position = ordered(By::Seen, false, 0);
    let limit = PageLimit::MAX;
    let refused =
        world
            .store
            .list_ordered(world.account, EntityKind::Resource, &all, position, limit);
    assert!(matches!(
        refused.await,
        Err(StoreError::Invalid { field: "sort", .. })
    ));
}

pub(crate) async fn rows_are_found_by_each_text_that_people_know_them_by(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (berlin, ada) = (world.site("Berlin").await, world.actor("Ada").await);
    let staff = world.group("Staff").await;
    let mut database = resource(berlin.id, "Database");
    database.target = Target {
        kind: TargetKind::Dns,
        address: "db.corp.example".to_owned(),
    };
    world.create(database.clone()).await;
    world.policy(staff.id, database.id, "One").await;
    let principal = world.client_key(ada.id).await;
    let laptop = world.enrol(&principal, "Laptop", 1).await.unwrap();
    let position = Position::default();
    let found = async |text: &str| {
        let filter = texts(text);
        let resources = look::<Resource>(&world, &filter, position, 9).await;
        let policies = look::<Policy>(&world, &filter, position, 9).await;
        let clients = look::<Client>(&world, &filter, position, 9).await;
        [resources.1, policies.1, clients.1]
    };
    for (text, wanted) in [
        ("DATA", [1, 1, 0]),
        ("corp.example", [1, 0, 0]),
        ("berlin", [1, 0, 0]),
        ("sTaF", [0, 1, 0]),
        ("ada", [0, 0, 1]),
        ("lap", [0, 0, 1]),
        ("dns", [0, 0, 0]),
        ("%", [0, 0, 0]),
    ] {
        assert_eq!(found(text).await, wanted, "{text}");
    }
    // Addresses in the tunnel, whole or by their first parts.
    let [a, b, c, _] = laptop.ipv4.octets();
    for text in [
        laptop.ipv4.to_string(),
        format!("{a}.{b}.{c}"),
        laptop.ipv6.to_string(),
    ] {
        assert_eq!(found(&text).await, [0, 0, 1], "{text}");
    }
    let other = format!("{a}.{b}.{}", c.wrapping_add(1));
    assert_eq!(found(&other).await, [0, 0, 0], "{other}");
}

pub(crate) async fn states_of_machines_narrow_a_list(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let principal = world.client_key(ada.id).await;
    world.enrol(&principal, "new", 1).await.unwrap();
    let mut verified = world.enrol(&principal, "verified", 2).await.unwrap();
    verified.verified = Some(NOW);
    let mut revoked = world.enrol(&principal, "revoked", 3).await.unwrap();
    revoked.verified = Some(NOW);
    revoked.revoked = Some(NOW);
    world
        .write(vec![update(verified), update(revoked)])
        .await
        .unwrap();
    for (parts, wanted) in [
        (vec![], 3),
        (vec![Part::UnverifiedClients], 1),
        (vec![Part::VerifiedClients], 1),
        (vec![Part::RevokedClients], 1),
        (vec![Part::RevokedClients, Part::VerifiedClients], 0),
    ] {
        let filter = ListFilter {
            parts,
            ..ListFilter::default()
        };
        let found = look::<Client>(&world, &filter, Position::default(), 9).await;
        assert_eq!(found.1, wanted, "{filter:?}");
    }
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
            parts: vec![part],
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
        parts: vec![Part::Sessions],
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
