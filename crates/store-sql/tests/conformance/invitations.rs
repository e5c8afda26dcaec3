//! Links by which people set a password.

use super::Fixture;
use super::world::*;
use culvert_ids::ActorId;
use culvert_store::{
    Actor, Author, Change, Denial, ListFilter, Mutation, PageLimit, Part, Role, SecretBytes,
    SignIn, StoreError, StoreExt, Token, TokenScope, TokenUses,
};
use culvert_wire::Timestamp;
use culvert_wire::token::{Secret, SecretDigest};
use std::sync::Arc;

const WEEK_MS: u64 = 7 * 24 * 60 * 60 * 1_000;

fn link(byte: u8) -> SecretDigest {
    Secret::new([byte; 32]).digest()
}

fn invite(actor: ActorId, role: Option<Role>, digest: SecretDigest) -> Mutation {
    Mutation::Invite {
        actor,
        role,
        digest,
        ends: later(WEEK_MS),
        expected_version: None,
    }
}

fn use_link(actor: ActorId, digest: SecretDigest, verifier: &str) -> Mutation {
    Mutation::UseInvitation {
        actor,
        digest,
        verifier: SecretBytes::new(verifier.as_bytes().to_vec()),
    }
}

async fn row(world: &World, actor: ActorId) -> Actor {
    world.store.get_as(world.account, actor).await.unwrap()
}

async fn sign_in(world: &World, actor: ActorId) -> Option<SignIn> {
    row(world, actor).await.sign_in
}

/// The reason for which the link is not good; none if it is.
async fn denied(
    world: &World,
    actor: ActorId,
    digest: SecretDigest,
    at: Timestamp,
) -> Option<Denial> {
    match world.store.invited(world.account, actor, &digest, at).await {
        Ok(found) => {
            assert_eq!(found.id, actor);
            None
        }
        Err(StoreError::Denied(denial)) => Some(denial),
        Err(error) => panic!("{error}"),
    }
}

async fn refused(world: &World, mutation: Mutation) -> Option<Denial> {
    match world.write(vec![mutation]).await {
        Ok(_) => None,
        Err(StoreError::Denied(denial)) => Some(denial),
        Err(error) => panic!("{error}"),
    }
}

async fn password(world: &World, name: &str) -> Option<SecretBytes> {
    let found = world.store.password(world.account, name).await.unwrap();
    found.map(|(_, verifier)| verifier)
}

/// People who have a link and no password yet.
async fn waiting(world: &World) -> Vec<ActorId> {
    let filter = ListFilter {
        parts: vec![Part::InvitedActors],
        ..ListFilter::default()
    };
    let list = world
        .store
        .list_as::<Actor>(world.account, &filter, None, PageLimit::MAX);
    let rows = list.await.unwrap().items;
    rows.into_iter().map(|row| row.id).collect()
}

pub(crate) async fn a_link_is_of_one_person_and_sets_one_password(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let [ada, bob] = [world.actor("Ada").await.id, world.actor("Bob").await.id];
    let unknown = Some(Denial::UnknownToken);
    assert_eq!(denied(&world, ada, link(1), NOW).await, unknown);

    let changes = world
        .write(vec![invite(ada, Some(Role::Auditor), link(1))])
        .await
        .unwrap();
    let [Change { id, .. }] = changes.as_slice() else {
        panic!("{changes:?}");
    };
    assert_eq!(*id, ada.into(), "the change log has the person");
    let invited = sign_in(&world, ada).await.unwrap();
    assert_eq!(invited.role, Role::Auditor);
    assert_eq!(invited.invitation_ends, Some(later(WEEK_MS)));
    assert_eq!(invited.password_set, None);

    assert_eq!(waiting(&world).await, [ada]);
    assert_eq!(denied(&world, ada, link(1), NOW).await, None);
    let wrong = Some(Denial::WrongSecret);
    assert_eq!(denied(&world, ada, link(2), NOW).await, wrong);
    assert_eq!(denied(&world, bob, link(1), NOW).await, unknown);
    let other = World::beside(&world.store).await;
    let in_other = other.store.invited(other.account, ada, &link(1), NOW).await;
    assert!(in_other.is_err(), "nothing crosses an account");

    // Another link, at the same role: the first is void.
    world.write(vec![invite(ada, None, link(3))]).await.unwrap();
    assert_eq!(denied(&world, ada, link(1), NOW).await, wrong);
    assert_eq!(sign_in(&world, ada).await.unwrap().role, Role::Auditor);

    let first = use_link(ada, link(1), "of the first");
    assert_eq!(refused(&world, first).await, wrong);
    let used = use_link(ada, link(3), "chosen");
    assert_eq!(refused(&world, used.clone()).await, None);
    let chosen = SecretBytes::new(b"chosen".to_vec());
    assert_eq!(password(&world, "ada").await, Some(chosen));
    let after = sign_in(&world, ada).await.unwrap();
    assert_eq!(after.invitation_ends, None);
    assert_eq!(waiting(&world).await, []);
    assert_eq!(after.password_set, Some(NOW));
    assert_eq!(after.role, Role::Auditor);
    assert_eq!(refused(&world, used).await, unknown);
    assert_eq!(denied(&world, ada, link(3), NOW).await, unknown);

    // Without a role, a person who does not sign in becomes a user.
    world.write(vec![invite(bob, None, link(4))]).await.unwrap();
    assert_eq!(sign_in(&world, bob).await.unwrap().role, Role::User);
    let stale = Mutation::Invite {
        actor: bob,
        role: None,
        digest: link(5),
        ends: later(WEEK_MS),
        expected_version: Some(1),
    };
    let error = world.write(vec![stale]).await.unwrap_err();
    assert!(matches!(error, StoreError::VersionConflict { .. }));
    assert_eq!(denied(&world, bob, link(4), NOW).await, None);
}

pub(crate) async fn a_link_ends_with_what_it_was_made_for(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await.id;
    let invited = async |byte| {
        world
            .write(vec![invite(ada, Some(Role::User), link(byte))])
            .await
            .unwrap();
        row(&world, ada).await
    };
    invited(1).await;
    assert_eq!(denied(&world, ada, link(1), later(WEEK_MS - 1)).await, None);
    let ended = denied(&world, ada, link(1), later(WEEK_MS)).await;
    assert_eq!(ended, Some(Denial::Expired));

    // Of a disabled person it is not accepted meanwhile.
    let before = row(&world, ada).await;
    let disabled = Actor {
        disabled: true,
        ..before.clone()
    };
    world.update(disabled).await.unwrap();
    let of_disabled = denied(&world, ada, link(1), NOW).await;
    assert!(matches!(of_disabled, Some(Denial::ActorDisabled(_))));
    world.update(before).await.unwrap();
    assert_eq!(denied(&world, ada, link(1), NOW).await, None);

    let unknown = Some(Denial::UnknownToken);
    let with = |row: Actor, change: fn(&mut SignIn)| {
        let mut sign_in = row.sign_in;
        sign_in.as_mut().map(change);
        Actor { sign_in, ..row }
    };
    // Withdrawn.
    let row_of = invited(2).await;
    let withdrawn = with(row_of, |sign_in| sign_in.invitation_ends = None);
    world.update(withdrawn).await.unwrap();
    assert_eq!(denied(&world, ada, link(2), NOW).await, unknown);
    // It does not come into being, and does not get longer, by a change of the row.
    let row_of = invited(3).await;
    let longer = with(row_of, |sign_in| {
        sign_in.invitation_ends = Some(later(2 * WEEK_MS));
    });
    let error = world.update(longer).await.unwrap_err();
    assert!(matches!(
        error,
        StoreError::Invalid {
            field: "sign_in",
            ..
        }
    ));
    // Another role: who made the link might not invite for it.
    let promoted = with(row(&world, ada).await, |sign_in| sign_in.role = Role::Owner);
    world.update(promoted).await.unwrap();
    assert_eq!(denied(&world, ada, link(3), NOW).await, unknown);
    assert_eq!(sign_in(&world, ada).await.unwrap().invitation_ends, None);
    // Another password.
    invited(4).await;
    let set = Mutation::SetPassword {
        actor: ada,
        role: None,
        verifier: SecretBytes::new(b"another".to_vec()),
        expected_version: None,
    };
    world.write(vec![set]).await.unwrap();
    assert_eq!(denied(&world, ada, link(4), NOW).await, unknown);
    // No sign-in any more, even if it begins again.
    let row_of = invited(5).await;
    let no_more = Actor {
        sign_in: None,
        ..row_of
    };
    world.update(no_more).await.unwrap();
    assert_eq!(denied(&world, ada, link(5), NOW).await, unknown);
    invited(6).await;
    assert_eq!(
        denied(&world, ada, link(5), NOW).await,
        Some(Denial::WrongSecret)
    );
    world.delete(ada, true).await.unwrap();
    assert_eq!(denied(&world, ada, link(6), NOW).await, unknown);
}

pub(crate) async fn a_link_that_is_used_ends_the_sessions_of_its_person_alone(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let [ada, bob] = [world.actor("Ada").await.id, world.actor("Bob").await.id];
    for (actor, byte) in [(ada, 1), (bob, 2)] {
        let mutation = invite(actor, Some(Role::User), link(byte));
        world.write(vec![mutation]).await.unwrap();
    }
    let mut sessions = Vec::new();
    for actor in [ada, ada, bob] {
        let scope = TokenScope::Session { actor };
        sessions.push(world.token(scope, TokenUses::Many).await);
    }
    let wrong = use_link(ada, link(3), "guessed");
    assert_eq!(refused(&world, wrong).await, Some(Denial::WrongSecret));
    for session in &sessions {
        world.authenticate(session, NOW).await.unwrap();
    }
    let used = use_link(ada, link(1), "chosen");
    assert_eq!(refused(&world, used).await, None);
    for (session, holds) in sessions.iter().zip([false, false, true]) {
        let found = world.authenticate(session, NOW).await;
        assert_eq!(found.is_ok(), holds, "{found:?}");
    }
}

pub(crate) async fn of_many_who_use_one_link_at_once_one_sets_the_password(
    factory: impl AsyncFn() -> Fixture,
) {
    const CALLERS: usize = 16;
    let world = Arc::new(World::new(factory().await).await);
    let ada = world.actor("Ada").await.id;
    world.write(vec![invite(ada, None, link(1))]).await.unwrap();
    let start = Arc::new(tokio::sync::Barrier::new(CALLERS));
    let callers = (0..CALLERS).map(|caller| {
        let (world, start) = (Arc::clone(&world), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            let verifier = format!("of {caller}");
            let used = refused(&world, use_link(ada, link(1), &verifier)).await;
            used.is_none().then_some(verifier)
        })
    });
    let mut winners = Vec::new();
    for caller in callers.collect::<Vec<_>>() {
        winners.extend(caller.await.unwrap());
    }
    let [winner] = winners.as_slice() else {
        panic!("{winners:?}");
    };
    let verifier = SecretBytes::new(winner.as_bytes().to_vec());
    assert_eq!(password(&world, "ada").await, Some(verifier));
}

pub(crate) async fn an_owner_is_invited_by_owners_alone(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await.id;
    let by = |role| Author {
        role: Some(role),
        ..Author::PORTAL
    };
    let write = async |role, mutation| {
        let written = world
            .store
            .write(world.account, by(role), NOW, vec![mutation])
            .await;
        match written {
            Ok(_) => None,
            Err(StoreError::Denied(denial)) => Some(denial),
            Err(error) => panic!("{error}"),
        }
    };
    let owners_only = Some(Denial::OwnersOnly);
    let as_owner = || invite(ada, Some(Role::Owner), link(1));
    assert_eq!(write(Role::Admin, as_owner()).await, owners_only);
    assert_eq!(
        denied(&world, ada, link(1), NOW).await,
        Some(Denial::UnknownToken)
    );
    assert_eq!(write(Role::Owner, as_owner()).await, None);
    // Nor does an admin make a link for an owner of now.
    let again = invite(ada, None, link(2));
    assert_eq!(write(Role::Admin, again).await, owners_only);
    assert_eq!(denied(&world, ada, link(1), NOW).await, None);
}

pub(crate) async fn a_link_without_a_role_lowers_no_token(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await.id;
    let (actor, role) = (ada, Role::Admin);
    let scope = TokenScope::Api { actor, role };
    let key = world.token(scope, TokenUses::Many).await;
    let refused = world.write(vec![invite(ada, None, link(1))]).await;
    assert!(
        matches!(refused, Err(StoreError::Invalid { field: "role", .. })),
        "{refused:?}"
    );
    assert_eq!(sign_in(&world, ada).await, None);
    let mut token: Token = world.store.get_as(world.account, key.id).await.unwrap();
    token.revoked = Some(NOW);
    world.update(token).await.unwrap();
    world.write(vec![invite(ada, None, link(1))]).await.unwrap();
    // A role that was chosen may lower them.
    let bob = world.actor("Bob").await.id;
    let (actor, role) = (bob, Role::Admin);
    let scope = TokenScope::Api { actor, role };
    world.token(scope, TokenUses::Many).await;
    let chosen = invite(bob, Some(Role::User), link(2));
    world.write(vec![chosen]).await.unwrap();
}
