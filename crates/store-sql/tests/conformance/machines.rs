//! Machines that enrol.

use super::Fixture;
use super::world::*;
use culvert_ids::ClientId;
use culvert_store::{
    ADDRESS_REST_MS, Account, Author, Client, Denial, Gateway, MachineId, Principal, Seq,
    StoreError, StoreExt, Token, TokenScope, TokenUses,
};
use culvert_wire::Timestamp;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

fn denied(result: &Result<Client, StoreError>, expected: Denial) {
    assert!(
        matches!(result, Err(StoreError::Denied(denial)) if *denial == expected),
        "{expected:?}: {result:?}"
    );
}

pub(crate) async fn a_machine_gets_addresses_and_keeps_them(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (ada, site) = (world.actor("Ada").await, world.site("Berlin").await);
    let key = world.client_key(ada.id).await;
    let gateway_key = world.gateway_key(site.id).await;
    let mut addresses = BTreeSet::new();
    for number in 0..20 {
        let client = world.enrol(&key, &format!("m{number}"), number).await;
        let client = client.unwrap();
        assert_eq!((client.actor, client.stamp.version), (ada.id, 1));
        assert_eq!(client.seen, Some(seen(NOW)));
        let gateway = world
            .enrol_gateway(&gateway_key, &format!("m{number}"), 100 + number)
            .await
            .unwrap();
        assert_eq!((gateway.site, gateway.draining), (site.id, false));
        for address in [client.ipv4, gateway.ipv4] {
            assert!(u32::from(address) >> 21 == 0x6440_0000 >> 21, "{address}");
            addresses.insert(IpAddr::from(address));
        }
        for address in [client.ipv6, gateway.ipv6] {
            let prefix = 0xfd00_2021_1111_u128 << 80;
            assert_eq!(u128::from(address) >> 21, prefix >> 21, "{address}");
            addresses.insert(IpAddr::from(address));
        }
        let change = world
            .store
            .changes_after(world.account, Seq(0), 1_000)
            .await
            .unwrap()
            .pop()
            .unwrap();
        assert_eq!(change.id, gateway.id.into());
        assert_eq!(change.author.token, Some(gateway_key.token));
        // Again, it is the same: nothing has changed.
        let again = world.enrol(&key, &format!("m{number}"), number).await;
        assert_eq!(again.unwrap(), client);
    }
    assert_eq!(addresses.len(), 80);
    // An address says nothing of who came before.
    let v4 = addresses.iter().filter_map(|address| match address {
        IpAddr::V4(address) => Some(u32::from(*address)),
        IpAddr::V6(_) => None,
    });
    let v4: Vec<u32> = v4.collect();
    let beside = v4.windows(2).filter(|pair| pair[1] - pair[0] == 1).count();
    assert!(beside < v4.len() / 2, "{addresses:?}");
    // The same text under another actor is another machine.
    let bob = world.actor("Bob").await;
    let key = world.client_key(bob.id).await;
    let client = world.enrol(&key, "m0", 200).await.unwrap();
    assert!(!addresses.contains(&client.ipv4.into()));
}

pub(crate) async fn a_deceptive_name_is_replaced_at_enrolment_and_refused_elsewhere(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    let mut client = world
        .enrol(&key, "lap\u{202e}t\nop\u{200b}", 1)
        .await
        .unwrap();
    assert_eq!(client.name, "lap\u{fffd}t\u{fffd}op\u{fffd}'s name");
    for name in ["a\u{202e}b", "a\u{200b}b", "Cafe\u{301}"] {
        client.name = name.to_owned();
        let error = world.update(client.clone()).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Invalid { field: "name", .. }),
            "{error}"
        );
    }
}

pub(crate) async fn a_new_key_is_recorded_and_ends_verification(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    let mut client = world.enrol(&key, "laptop", 1).await.unwrap();
    client.verified = Some(NOW);
    world.update(client.clone()).await.unwrap();
    let rekeyed = world.enrol(&key, "laptop", 2).await.unwrap();
    assert_eq!(rekeyed.id, client.id);
    assert_eq!((rekeyed.ipv4, rekeyed.ipv6), (client.ipv4, client.ipv6));
    assert_eq!(rekeyed.verified, None);
    assert_eq!(rekeyed.stamp.version, 3);
    let changes = world.store.changes_after(world.account, Seq(0), 100).await;
    let change = changes.unwrap().pop().unwrap();
    assert_eq!(change.id, client.id.into());
    assert_eq!(change.author, key.author());
    assert_eq!(change.author.actor, Some(ada.id));
}

pub(crate) async fn a_new_key_of_a_gateway_is_recorded_with_its_token_and_ends_verification(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let site = world.site("Berlin").await;
    let key = world.gateway_key(site.id).await;
    let other = world.gateway_key(site.id).await;
    let mut gateway = world.enrol_gateway(&key, "gw", 1).await.unwrap();
    assert_eq!(
        (gateway.verified, gateway.enrolled_with),
        (None, Some(key.token))
    );
    gateway.verified = Some(NOW);
    world.update(gateway.clone()).await.unwrap();
    // With the key that was verified it stays so, whatever token it comes with.
    let again = world.enrol_gateway(&other, "gw", 1).await.unwrap();
    assert_eq!(
        (again.verified, again.enrolled_with),
        (Some(NOW), Some(key.token))
    );
    let rekeyed = world.enrol_gateway(&other, "gw", 2).await.unwrap();
    assert_eq!((rekeyed.id, rekeyed.ipv4), (gateway.id, gateway.ipv4));
    assert_eq!(
        (rekeyed.verified, rekeyed.enrolled_with),
        (None, Some(other.token))
    );
    assert_eq!(rekeyed.stamp.version, 3);
    let found: Gateway = world.store.get_as(world.account, gateway.id).await.unwrap();
    assert_eq!(found, rekeyed);
    let changes = world.store.changes_after(world.account, Seq(0), 100).await;
    let change = changes.unwrap().pop().unwrap();
    assert_eq!(change.id, gateway.id.into());
    assert_eq!(change.author, other.author());
}

pub(crate) async fn ghsa_69x3_a_revoked_machine_is_not_let_in_under_any_name(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (ada, bob) = (world.actor("Ada").await, world.actor("Bob").await);
    let key = world.client_key(ada.id).await;
    let mut client = world.enrol(&key, "laptop", 1).await.unwrap();
    client.revoked = Some(NOW);
    world.update(client.clone()).await.unwrap();
    denied(
        &world.enrol(&key, "laptop", 1).await,
        Denial::MachineRevoked,
    );
    denied(
        &world.enrol(&key, "laptop", 2).await,
        Denial::MachineRevoked,
    );
    denied(&world.enrol(&key, "other", 1).await, Denial::MachineRevoked);
    let of_bob = world.client_key(bob.id).await;
    denied(&world.enrol(&of_bob, "x", 1).await, Denial::MachineRevoked);
    // Its name is free for another.
    let other = world.enrol(&key, "laptop's", 3).await.unwrap();
    let mut renamed = other;
    renamed.name.clone_from(&client.name);
    world.update(renamed).await.unwrap();
    // After its deletion the machine may enrol again.
    world.delete(client.id, false).await.unwrap();
    world.enrol(&key, "laptop", 1).await.unwrap();
}

pub(crate) async fn a_token_revoked_since_it_was_accepted_enrols_nothing(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let mut ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    let other = world.client_key(ada.id).await;
    let mut token: Token = world.store.get_as(world.account, key.token).await.unwrap();
    token.revoked = Some(NOW);
    world.update(token).await.unwrap();
    denied(&world.enrol(&key, "laptop", 1).await, Denial::Revoked);
    ada.disabled = true;
    world.update(ada).await.unwrap();
    denied(
        &world.enrol(&other, "laptop", 1).await,
        Denial::ActorDisabled(world.account),
    );
    world.delete(other.token, false).await.unwrap();
    denied(
        &world.enrol(&other, "laptop", 1).await,
        Denial::UnknownToken,
    );
}

pub(crate) async fn a_token_of_another_kind_enrols_nothing(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (ada, site) = (world.actor("Ada").await, world.site("Berlin").await);
    let scope = TokenScope::Api {
        actor: ada.id,
        role: OWNER,
    };
    let api = world.token(scope, TokenUses::Many).await;
    let api = world.authenticate(&api, NOW).await.unwrap();
    let gateway = world.gateway_key(site.id).await;
    let client = world.client_key(ada.id).await;
    denied(&world.enrol(&api, "laptop", 1).await, Denial::WrongKind);
    denied(&world.enrol(&gateway, "laptop", 1).await, Denial::WrongKind);
    let enrolled = world.enrol_gateway(&client, "gw", 1).await;
    let wrong = StoreError::Denied(Denial::WrongKind);
    assert_eq!(enrolled.unwrap_err().to_string(), wrong.to_string());
    // The kind that the caller claims for the principal counts for nothing.
    let forged = Principal {
        holder: client.holder,
        ..gateway
    };
    denied(&world.enrol(&forged, "laptop", 1).await, Denial::WrongKind);
}

pub(crate) async fn a_key_of_another_machine_is_refused(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (ada, site) = (world.actor("Ada").await, world.site("Berlin").await);
    let (key, gateway_key) = (
        world.client_key(ada.id).await,
        world.gateway_key(site.id).await,
    );
    let client = world.enrol(&key, "laptop", 1).await.unwrap();
    let gateway = world.enrol_gateway(&gateway_key, "gw", 2).await.unwrap();
    world.enrol(&key, "phone", 3).await.unwrap();
    for (machine, public_key, by) in [
        ("other", 1, client.id.into()),
        ("phone", 1, client.id.into()),
        ("other", 2, gateway.id.into()),
    ] {
        let error = world.enrol(&key, machine, public_key).await.unwrap_err();
        assert!(matches!(error, StoreError::KeyTaken { by: of } if of == by));
    }
    let error = world.enrol_gateway(&gateway_key, "gw2", 1).await;
    assert!(matches!(error, Err(StoreError::KeyTaken { .. })));
}

pub(crate) async fn machines_of_one_name_get_numbers(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    let mut names = Vec::new();
    for number in 0..3 {
        let id = ClientId::from_bytes(bytes());
        let mut machine = enrolment(id, &format!("machine {number}"), number);
        machine.name = if number == 1 { "WEB" } else { "web" }.to_owned();
        let client = world
            .store
            .enrol_client(world.account, &key, machine, NOW)
            .await;
        names.push(client.unwrap().name);
    }
    assert_eq!(names, ["web", "WEB-2", "web-3"]);
    // The name that an administrator gave stays.
    let mut renamed: Client = world.enrol(&key, "machine 0", 0).await.unwrap();
    renamed.name = "Front".to_owned();
    world.update(renamed).await.unwrap();
    let again = world.enrol(&key, "machine 0", 0).await.unwrap();
    assert_eq!(again.name, "Front");
    // An empty name is refused.
    let id = ClientId::from_bytes(bytes());
    let mut machine = enrolment(id, "machine 9", 9);
    machine.name = String::new();
    let client = world.store.enrol_client(world.account, &key, machine, NOW);
    assert!(matches!(client.await, Err(StoreError::Invalid { .. })));
}

pub(crate) async fn a_machine_that_comes_again_as_it_was_writes_nothing(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    let first = world.enrol(&key, "laptop", 1).await.unwrap();
    let later = Timestamp::from_unix_ms(NOW.unix_ms() + 60_000);
    let again = async || {
        let id = ClientId::from_bytes(bytes());
        let mut machine = enrolment(id, "laptop", 1);
        machine.seen = seen(later);
        let enrolled = world
            .store
            .enrol_client(world.account, &key, machine, later);
        enrolled.await.unwrap()
    };
    let changes = async || {
        world
            .store
            .changes_after(world.account, Seq(0), 1_000)
            .await
    };
    let before = changes().await.unwrap().len();
    assert_eq!(again().await, first);
    let found: Client = world.store.get_as(world.account, first.id).await.unwrap();
    assert_eq!(found, first);
    assert_eq!(changes().await.unwrap().len(), before);
    // With addresses of other ranges it is not as it was.
    with_small_ranges(&world).await;
    let moved = again().await;
    assert_ne!(moved.ipv4, first.ipv4);
    assert_eq!(moved.seen, Some(seen(later)));
}

pub(crate) async fn a_machine_s_name_of_the_form_of_an_id_gets_a_number(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    let id = ClientId::from_bytes(bytes());
    let mut machine = enrolment(id, "machine", 1);
    machine.name = ada.id.to_string();
    let client = world
        .store
        .enrol_client(world.account, &key, machine, NOW)
        .await;
    assert_eq!(client.unwrap().name, format!("{}-2", ada.id));
}

/// Six addresses for machines of each family.
async fn with_small_ranges(world: &World) {
    let mut account: Account = world
        .store
        .get_as(world.account, world.account)
        .await
        .unwrap();
    account.settings.ranges.machines_ipv4 = "10.9.0.0/29".to_owned();
    account.settings.ranges.machines_ipv6 = "fd09::/125".to_owned();
    world.update(account).await.unwrap();
}

async fn enrol_at(
    world: &World,
    key: &Principal,
    number: u8,
    at: u64,
) -> Result<Client, StoreError> {
    let id = ClientId::from_bytes(bytes());
    let machine = enrolment(id, &format!("machine {number}"), number);
    world
        .store
        .enrol_client(world.account, key, machine, later(at))
        .await
}

pub(crate) async fn an_address_rests_for_a_day(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    with_small_ranges(&world).await;
    let ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    let mut clients = Vec::new();
    for number in 0..6 {
        clients.push(enrol_at(&world, &key, number, 0).await.unwrap());
    }
    let used: BTreeSet<_> = clients.iter().map(|client| client.ipv4).collect();
    assert_eq!(used.len(), 6);
    // One is revoked, one deleted: both addresses rest.
    let mut revoked = clients[0].clone();
    revoked.revoked = Some(NOW);
    world.update(revoked).await.unwrap();
    world.delete(clients[1].id, false).await.unwrap();
    for at in [0, ADDRESS_REST_MS - 1] {
        let full = enrol_at(&world, &key, 6, at).await;
        assert!(matches!(full, Err(StoreError::NoAddress { .. })), "{at}");
    }
    let mut fresh = BTreeSet::new();
    for number in 6..8 {
        let client = enrol_at(&world, &key, number, ADDRESS_REST_MS)
            .await
            .unwrap();
        fresh.insert((client.ipv4, client.ipv6.segments()[7]));
    }
    let freed = clients[..2].iter();
    let freed_ipv4: BTreeSet<_> = freed.clone().map(|client| client.ipv4).collect();
    let taken: BTreeSet<_> = fresh.iter().map(|(ipv4, _)| *ipv4).collect();
    assert_eq!(taken, freed_ipv4);
    let freed_ipv6: BTreeSet<_> = freed.map(|client| client.ipv6.segments()[7]).collect();
    let taken: BTreeSet<_> = fresh.iter().map(|(_, ipv6)| *ipv6).collect();
    assert_eq!(taken, freed_ipv6);
    // The revoked machine's row goes, and takes no address with it that another has by now.
    world.delete(clients[0].id, false).await.unwrap();
    let full = enrol_at(&world, &key, 9, 3 * ADDRESS_REST_MS).await;
    assert!(matches!(full, Err(StoreError::NoAddress { .. })));
}

pub(crate) async fn an_address_of_a_deleted_gateway_rests_as_well(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    with_small_ranges(&world).await;
    let ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    let site = world.site("Berlin").await;
    let gateway_key = world.gateway_key(site.id).await;
    let gateway = world.enrol_gateway(&gateway_key, "gw", 0).await.unwrap();
    for number in 1..6 {
        enrol_at(&world, &key, number, 0).await.unwrap();
    }
    world.delete(gateway.id, false).await.unwrap();
    let full = enrol_at(&world, &key, 6, ADDRESS_REST_MS - 1).await;
    assert!(matches!(full, Err(StoreError::NoAddress { .. })));
    let client = enrol_at(&world, &key, 6, ADDRESS_REST_MS).await.unwrap();
    assert_eq!(client.ipv4, gateway.ipv4);
}

pub(crate) async fn a_full_range_refuses_and_says_which(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    with_small_ranges(&world).await;
    let ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    for number in 0..6 {
        world
            .enrol(&key, &format!("m{number}"), number)
            .await
            .unwrap();
    }
    let before = world.store.snapshot(world.account).await.unwrap();
    let error = world.enrol(&key, "m6", 6).await.unwrap_err();
    assert!(matches!(&error, StoreError::NoAddress { range } if range == "10.9.0.0/29"));
    assert_eq!(world.store.snapshot(world.account).await.unwrap(), before);
    // Those that have one come in again.
    world.enrol(&key, "m3", 3).await.unwrap();
}

pub(crate) async fn a_machine_outside_of_new_ranges_moves(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let site = world.site("Berlin").await;
    let key = world.gateway_key(site.id).await;
    let before = world.enrol_gateway(&key, "gw", 1).await.unwrap();
    with_small_ranges(&world).await;
    let after = world.enrol_gateway(&key, "gw", 1).await.unwrap();
    assert_eq!((after.id, after.stamp.version), (before.id, 2));
    assert_eq!(after.ipv4.octets()[..3], [10, 9, 0]);
    assert_eq!(after.ipv6.segments()[0], 0xfd09);
    let read: Gateway = world.store.get_as(world.account, after.id).await.unwrap();
    assert_eq!(read, after);
}

pub(crate) async fn a_one_time_token_belongs_to_the_machine_that_used_it(
    factory: impl AsyncFn() -> Fixture,
) {
    const CALLERS: u8 = 8;
    let world = Arc::new(World::new(factory().await).await);
    let ada = world.actor("Ada").await;
    let scope = TokenScope::Client { actor: ada.id };
    let key = world.token(scope, TokenUses::One).await;
    let principal = world.authenticate(&key, NOW).await.unwrap();
    let start = Arc::new(tokio::sync::Barrier::new(usize::from(CALLERS)));
    let callers = (0..CALLERS).map(|number| {
        let (world, start) = (Arc::clone(&world), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            let machine = format!("machine {number}");
            (number, world.enrol(&principal, &machine, number).await)
        })
    });
    let mut winner = None;
    for caller in callers.collect::<Vec<_>>() {
        match caller.await.unwrap() {
            (number, Ok(client)) => assert!(winner.replace((number, client)).is_none()),
            (_, lost) => denied(&lost, Denial::Used),
        }
    }
    let (number, client) = winner.unwrap();
    let token: Token = world.store.get_as(world.account, key.id).await.unwrap();
    let machine = token.used.unwrap().machine;
    assert_eq!(machine, Some(MachineId::Client(client.id)));
    // It goes on connecting that machine with that key, and nothing else.
    let principal = world.authenticate(&key, NOW).await.unwrap();
    let name = format!("machine {number}");
    let again = world.enrol(&principal, &name, number).await.unwrap();
    assert_eq!(again.id, client.id);
    denied(&world.enrol(&principal, &name, 99).await, Denial::Used);
    denied(
        &world.enrol(&principal, "another", number).await,
        Denial::Used,
    );
    let other = world.client_key(ada.id).await;
    let other = world.enrol(&other, "another", 50).await.unwrap();
    denied(
        &world.enrol(&principal, &other.machine, 50).await,
        Denial::Used,
    );
    // Nor does deleting the machine make the token good for a new one.
    let author = Author::PORTAL;
    let delete = vec![delete(client.id, false)];
    let store = &world.store;
    store
        .write(world.account, author, NOW, delete)
        .await
        .unwrap();
    denied(&world.enrol(&principal, &name, number).await, Denial::Used);
}

pub(crate) async fn one_machine_that_enrols_many_times_at_once_is_one_client(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = Arc::new(World::new(factory().await).await);
    let ada = world.actor("Ada").await;
    let key = world.client_key(ada.id).await;
    let callers = (0..16).map(|_| {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.enrol(&key, "laptop", 1).await.unwrap() })
    });
    let mut ids = BTreeSet::new();
    for caller in callers.collect::<Vec<_>>() {
        ids.insert(caller.await.unwrap().id);
    }
    assert_eq!(ids.len(), 1);
    let snapshot = world.store.snapshot(world.account).await.unwrap();
    assert_eq!((snapshot.clients.len(), snapshot.seq), (1, Seq(4)));
}
