//! An owner stays, and what is an owner's is changed by owners alone. Both are decided in the write.

use super::Fixture;
use super::world::*;
use culvert_ids::ActorId;
use culvert_store::{
    Actor, Author, Denial, ListFilter, Membership, Mutation, PageLimit, Part, Role, SecretBytes,
    Store, StoreError, StoreExt, Token, TokenScope, TokenUses,
};
use culvert_wire::token::Secret;
use std::sync::Arc;

pub(crate) fn owner_by_password(actor: ActorId) -> Mutation {
    sign_in_as(actor, Role::Owner)
}

fn sign_in_as(actor: ActorId, role: Role) -> Mutation {
    Mutation::SetPassword {
        actor,
        role: Some(role),
        verifier: SecretBytes::new(b"verifier".to_vec()),
        expected_version: None,
    }
}

fn owner_token(actor: ActorId) -> (Mutation, Key) {
    let role = Role::Owner;
    token(TokenScope::Api { actor, role }, TokenUses::Many)
}

async fn actor_of(world: &World, id: ActorId) -> Actor {
    world.store.get_as(world.account, id).await.unwrap()
}

async fn token_of(world: &World, key: &Key) -> Token {
    world.store.get_as(world.account, key.id).await.unwrap()
}

/// An account whose only way in for an owner is Ada's password. A disabled owner, a token that is bounded by its person and
/// one that has expired are no ways in.
async fn ada_s(store: &Arc<dyn Store>) -> (World, ActorId) {
    let world = World::beside(store).await;
    let [ada, bob, eve] = ["Ada", "Bob", "Eve"].map(actor);
    let (bounded, _) = owner_token(eve.id);
    let (expired, key) = owner_token(bob.id);
    let id = ada.id;
    let sign_ins = [
        owner_by_password(ada.id),
        owner_by_password(bob.id),
        sign_in_as(eve.id, Role::Admin),
    ];
    let bob_s = bob.id;
    let made = [ada, bob, eve].map(|row| Mutation::Create(row.into()));
    let mutations = made.into_iter().chain(sign_ins);
    let mutations = mutations.chain([bounded, expired]).collect();
    world.write(mutations).await.unwrap();
    let row = token_of(&world, &key).await;
    let expires = Some(NOW);
    world.update(Token { expires, ..row }).await.unwrap();
    let row = actor_of(&world, bob_s).await;
    let disabled = true;
    world.update(Actor { disabled, ..row }).await.unwrap();
    (world, id)
}

/// A change of an actor, and its name.
type Way = (&'static str, fn(&mut Actor));

/// All ways by which an owner's password ends.
pub(crate) async fn the_last_password_of_an_owner_stays_whatever_the_write(
    factory: impl AsyncFn() -> Fixture,
) {
    let fixture = factory().await;
    let ways: [Way; 4] = [
        ("disabled", |row| row.disabled = true),
        ("no sign-in", |row| row.sign_in = None),
        ("no password", |row| {
            row.sign_in.as_mut().unwrap().password_set = None;
        }),
        ("another role", |row| {
            row.sign_in.as_mut().unwrap().role = Role::User;
        }),
    ];
    let (world, ada) = ada_s(&fixture.store).await;
    let mut row = actor_of(&world, ada).await;
    row.name = "Ada L.".to_owned();
    world.update(row).await.unwrap();
    for way in 0..ways.len() + 2 {
        let (world, ada) = ada_s(&fixture.store).await;
        let (how, mutation) = match ways.get(way) {
            Some((how, change)) => {
                let mut row = actor_of(&world, ada).await;
                change(&mut row);
                (*how, update(row))
            }
            None if way == ways.len() => ("a user's password", sign_in_as(ada, Role::User)),
            None => ("deleted", delete(ada, true)),
        };
        let refused = world.write(vec![mutation.clone()]).await;
        assert!(
            matches!(refused, Err(StoreError::LastOwner)),
            "{how}: {refused:?}"
        );
        // With another owner, who comes in the same write, nothing is in the way.
        let other = actor("Another");
        let id = other.id;
        let mutations = vec![
            mutation,
            Mutation::Create(other.into()),
            owner_by_password(id),
        ];
        let written = world.write(mutations).await;
        assert!(written.is_ok(), "{how}: {written:?}");
    }
}

pub(crate) async fn the_last_token_of_an_owner_stays_whatever_the_write(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await.id;
    let (create, key) = owner_token(ada);
    world.write(vec![create]).await.unwrap();
    let row = token_of(&world, &key).await;
    let now = Some(NOW);
    let revoked = update(Token {
        revoked: now,
        ..row.clone()
    });
    let expired = update(Token {
        expires: now,
        ..row.clone()
    });
    let later = update(Token {
        expires: Some(later(1)),
        ..row
    });
    let invite = Mutation::Invite {
        actor: ada,
        role: Some(Role::Admin),
        digest: Secret::new([1; 32]).digest(),
        ends: super::world::later(HOUR_MS),
        expected_version: None,
    };
    for mutation in [
        revoked.clone(),
        expired,
        delete(key.id, false),
        delete(ada, true),
        // A person's token may do no more than the person.
        sign_in_as(ada, Role::Admin),
        invite,
    ] {
        let how = format!("{mutation:?}");
        let refused = world.write(vec![mutation]).await;
        assert!(
            matches!(refused, Err(StoreError::LastOwner)),
            "{how}: {refused:?}"
        );
    }
    world.write(vec![later]).await.unwrap();
    // Nor by a set-up token, which stays unused then.
    let setup = world.token(TokenScope::Setup, TokenUses::One).await;
    let consume = async |mutations| {
        let (id, digest, kind) = (setup.id, &setup.digest, setup.kind);
        world
            .store
            .consume_one_time(id, digest, kind, NOW, mutations)
            .await
    };
    let refused = consume(vec![delete(ada, true)]).await;
    assert!(matches!(refused, Err(StoreError::LastOwner)), "{refused:?}");
    let bob = actor("Bob");
    let made = vec![
        Mutation::Create(bob.clone().into()),
        owner_by_password(bob.id),
        delete(ada, true),
    ];
    consume(made).await.unwrap();
    // Without an owner before, nothing is to stay.
    let other = World::beside(&world.store).await;
    let zoe = other.actor("Zoe").await;
    other.delete(zoe.id, false).await.unwrap();
}

/// Two owners who remove each other, each permitted when it was asked.
pub(crate) async fn of_two_owners_who_remove_each_other_one_stays(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (one, other) = (world.actor("Ada").await.id, world.actor("Bob").await.id);
    world
        .write(vec![owner_by_password(one), owner_by_password(other)])
        .await
        .unwrap();
    let remove = |actor| {
        let (store, account) = (Arc::clone(&world.store), world.account);
        let mutations = vec![delete(actor, true)];
        tokio::spawn(async move { store.write(account, Author::PORTAL, NOW, mutations).await })
    };
    let removed = [remove(one), remove(other)];
    let mut refused = 0;
    for removed in removed {
        match removed.await.unwrap() {
            Ok(_) => {}
            Err(StoreError::LastOwner) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(refused, 1);
    assert_eq!(
        world.store.owners(world.account, NOW).await.unwrap().len(),
        1
    );
}

/// The write is permitted by a role, before somebody is made an owner.
pub(crate) async fn sessions_and_tokens_of_an_owner_are_ended_and_made_by_owners_and_themselves(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let (admin, owner) = (world.actor("Admin").await.id, world.actor("Olga").await.id);
    let author_of = async |actor: ActorId, role| {
        let key = world
            .token(TokenScope::Api { actor, role }, TokenUses::Many)
            .await;
        world.authenticate(&key, NOW).await.unwrap().author()
    };
    let admins = author_of(admin, Role::Admin).await;
    let own = author_of(owner, Role::Admin).await;
    let write = async |author, mutations: Vec<Mutation>| {
        let written = store.write(account, author, NOW, mutations).await;
        match written {
            Ok(_) => None,
            Err(StoreError::Denied(denial)) => Some(denial),
            Err(error) => panic!("{error}"),
        }
    };
    let client = || token(TokenScope::Client { actor: owner }, TokenUses::Many).0;
    let session = TokenScope::Session { actor: owner };
    let ends = |except| {
        let actor = owner;
        vec![Mutation::EndSessions { actor, except }]
    };
    world
        .write(vec![sign_in_as(owner, Role::User)])
        .await
        .unwrap();
    world.token(session, TokenUses::Many).await;
    assert_eq!(write(admins, vec![client()]).await, None, "no owner yet");
    assert_eq!(write(admins, ends(None)).await, None);

    world.write(vec![owner_by_password(owner)]).await.unwrap();
    let of_owner = world.token(session, TokenUses::Many).await;
    let denied = Some(Denial::OwnersOnly);
    assert_eq!(write(admins, vec![client()]).await, denied);
    assert_eq!(write(admins, ends(None)).await, denied);
    assert_eq!(
        write(admins, vec![delete(of_owner.id, false)]).await,
        denied
    );
    // Nothing is ended, and so nothing refused.
    assert_eq!(write(admins, ends(Some(of_owner.id))).await, None);
    // Their own they end, whatever the role of the token in use.
    assert_eq!(write(own, ends(None)).await, None);
    let again = world.token(session, TokenUses::Many).await;
    let by_owner = Author {
        role: Some(Role::Owner),
        ..world.authenticate(&again, NOW).await.unwrap().author()
    };
    assert_eq!(write(by_owner, vec![client()]).await, None);
}

pub(crate) async fn the_sessions_of_the_moment_end_but_for_one(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (ada, bob) = (world.actor("Ada").await.id, world.actor("Bob").await.id);
    let set = |actor| sign_in_as(actor, Role::User);
    world.write(vec![set(ada), set(bob)]).await.unwrap();
    let session = async |actor| {
        let scope = TokenScope::Session { actor };
        world.token(scope, TokenUses::Many).await
    };
    let keys = [session(ada).await, session(ada).await, session(bob).await];
    let client = world
        .token(TokenScope::Client { actor: ada }, TokenUses::Many)
        .await;
    let (actor, except) = (ada, Some(keys[0].id));
    let ended = world
        .write(vec![Mutation::EndSessions { actor, except }])
        .await
        .unwrap();
    let ids: Vec<_> = ended.iter().map(|change| change.id).collect();
    assert_eq!(ids, [keys[1].id.into()]);
    for key in [&keys[0], &keys[2], &client] {
        world.authenticate(key, NOW).await.unwrap();
    }
}

pub(crate) async fn of_two_sessions_that_begin_at_once_each_makes_room(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (ada, bob) = (world.actor("Ada").await.id, world.actor("Bob").await.id);
    let set = |actor| sign_in_as(actor, Role::User);
    world.write(vec![set(ada), set(bob)]).await.unwrap();
    let scope = |actor| TokenScope::Session { actor };
    let client = TokenScope::Client { actor: ada };
    let stays = [
        world.token(scope(bob), TokenUses::Many).await,
        world.token(client, TokenUses::Many).await,
    ];
    let write = |at, mutations| {
        let (store, account) = (Arc::clone(&world.store), world.account);
        tokio::spawn(async move { store.write(account, Author::PORTAL, at, mutations).await })
    };
    let mut old = Vec::new();
    for minute in 0..4 {
        let (create, key) = token(scope(ada), TokenUses::Many);
        write(later(minute), vec![create]).await.unwrap().unwrap();
        old.push(key.id);
    }
    // The newest, and over.
    let (mut over, _) = token(scope(ada), TokenUses::Many);
    if let Mutation::CreateToken { token, .. } = &mut over {
        token.expires = Some(later(10));
    }
    write(later(9), vec![over]).await.unwrap().unwrap();
    let begin = |(create, key): (Mutation, Key)| {
        let (actor, keep) = (ada, 2);
        let room = Mutation::EndOldSessions { actor, keep };
        (write(later(10), vec![room, create]), key.id)
    };
    let begun = [
        begin(token(scope(ada), TokenUses::Many)),
        begin(token(scope(ada), TokenUses::Many)),
    ];
    let mut left = vec![old[3]];
    for (written, id) in begun {
        written.await.unwrap().unwrap();
        left.push(id);
    }
    let filter = ListFilter {
        refers_to: vec![ada.into()],
        parts: vec![Part::Sessions],
        ..ListFilter::default()
    };
    let sessions = world
        .store
        .list_as::<Token>(world.account, &filter, None, PageLimit::MAX);
    let sessions = sessions.await.unwrap().items;
    let ids: Vec<_> = sessions.iter().map(|session| session.id).collect();
    assert_eq!(ids, left);
    for key in &stays {
        world.authenticate(key, later(10)).await.unwrap();
    }
}

pub(crate) async fn who_is_unlinked_keeps_what_people_made(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let (ada, bob) = (world.actor("Ada").await.id, world.actor("Bob").await.id);
    let (staff, other) = (world.group("Staff").await.id, world.group("Other").await.id);
    let made = provider("Example");
    world.create(made.clone()).await;
    let set = |actor| sign_in_as(actor, Role::User);
    world.write(vec![set(ada), set(bob)]).await.unwrap();
    let mut linked = Vec::new();
    for (actor, subject) in [(ada, "1"), (bob, "2")] {
        let (by_provider, by_people) = (membership(staff, actor), membership(other, actor));
        let mut known = identity(made.id, subject, actor);
        // One that went since is passed over.
        known.memberships = vec![by_provider.id, membership(staff, actor).id];
        for row in [by_provider.clone(), by_people.clone()] {
            world.create(row).await;
        }
        world.create(known.clone()).await;
        let scope = TokenScope::Session { actor };
        let session = world.token(scope, TokenUses::Many).await;
        linked.push((known, by_provider, by_people, session));
    }
    let unlink = |id, except| {
        vec![Mutation::Unlink {
            id,
            expected_version: None,
            except,
        }]
    };
    let (known, by_provider, by_people, session) = &linked[0];
    let stale = Mutation::Unlink {
        id: known.id.into(),
        expected_version: Some(7),
        except: None,
    };
    let refused = world.write(vec![stale]).await;
    assert!(matches!(refused, Err(StoreError::VersionConflict { .. })));
    let changes = world
        .write(unlink(known.id.into(), Some(session.id)))
        .await
        .unwrap();
    let ids: Vec<_> = changes.iter().map(|change| change.id).collect();
    assert_eq!(ids, [by_provider.id.into(), known.id.into()]);
    world.authenticate(session, NOW).await.unwrap();
    let stays: Membership = store.get_as(account, by_people.id).await.unwrap();
    assert_eq!(stays.actor, ada);

    let (known, by_provider, by_people, session) = &linked[1];
    let changes = world.write(unlink(made.id.into(), None)).await.unwrap();
    let ids: Vec<_> = changes.iter().map(|change| change.id).collect();
    let gone = [
        by_provider.id.into(),
        session.id.into(),
        known.id.into(),
        made.id.into(),
    ];
    assert_eq!(ids, gone);
    let stays: Membership = store.get_as(account, by_people.id).await.unwrap();
    assert_eq!(stays.actor, bob);
    let refused = world.write(unlink(ada.into(), None)).await;
    assert!(matches!(refused, Err(StoreError::Invalid { .. })));
}

pub(crate) async fn a_write_is_refused_after_a_row_that_it_expects_has_changed(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let mut group = world.group("Staff").await;
    let id = group.id.into();
    let write = async |version, name: &str| {
        let expect = Mutation::Expect { id, version };
        let create = Mutation::Create(self::group(name).into());
        world.write(vec![expect, create]).await
    };
    assert_eq!(write(1, "One").await.unwrap().len(), 1, "it is no change");
    group.name = "Personnel".to_owned();
    world.update(group).await.unwrap();
    let refused = write(1, "Two").await;
    assert!(matches!(refused, Err(StoreError::VersionConflict { id: of, current: 2 }) if of == id));
    write(2, "Two").await.unwrap();
    world.write(vec![delete(id, false)]).await.unwrap();
    let refused = write(2, "Three").await;
    assert!(matches!(refused, Err(StoreError::NotFound(of)) if of == id));
}

pub(crate) async fn of_many_first_starts_at_once_one_makes_the_account(
    factory: impl AsyncFn() -> Fixture,
) {
    let fixture = factory().await;
    let starts = (0..8).map(|_| {
        let store: Arc<dyn Store> = Arc::clone(&fixture.store);
        tokio::spawn(async move {
            let (create, key) = token(TokenScope::Setup, TokenUses::One);
            let account = account(account_id());
            let made = store
                .create_first_account(account, Author::PORTAL, NOW, vec![create])
                .await;
            made.unwrap().map(|account| (account, key))
        })
    });
    let mut made = Vec::new();
    for start in starts.collect::<Vec<_>>() {
        made.extend(start.await.unwrap());
    }
    let [(account, key)] = &*made else {
        panic!("{} accounts were made", made.len());
    };
    let store = &fixture.store;
    let there = store.accounts(None, PageLimit::MAX).await.unwrap();
    assert_eq!(there.items, std::slice::from_ref(account));
    let snapshot = store.snapshot(account.id).await.unwrap();
    let tokens: Vec<_> = snapshot.tokens.iter().map(|token| token.id).collect();
    assert_eq!(tokens, [key.id]);
    let changes = store
        .changes_after(account.id, culvert_store::Seq(0), 10)
        .await
        .unwrap();
    let ids: Vec<_> = changes.iter().map(|change| change.id).collect();
    assert_eq!(ids, [account.id.into(), key.id.into()]);
}
