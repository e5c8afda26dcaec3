//! People who sign in.

use super::Fixture;
use super::world::*;
use culvert_ids::ActorId;
use culvert_store::{
    Actor, Author, ChangeFilter, Denial, Holder, MAX_SECRET_LEN, Mutation, Owner, OwnerBy,
    PageLimit, Role, SESSION_IDLE_MS, SecretBytes, StoreError, StoreExt, Token, TokenScope,
    TokenUses,
};
use culvert_wire::Timestamp;

fn verifier(text: &str) -> SecretBytes {
    SecretBytes::new(text.as_bytes().to_vec())
}

fn set_password(actor: ActorId, role: Role, text: &str) -> Mutation {
    Mutation::SetPassword {
        actor,
        role: Some(role),
        verifier: verifier(text),
        expected_version: None,
    }
}

async fn found(world: &World, name: &str) -> Option<(ActorId, SecretBytes)> {
    world.store.password(world.account, name).await.unwrap()
}

pub(crate) async fn a_password_is_found_under_its_name_until_it_ends(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    assert_eq!(found(&world, "Ada").await, None);
    let set = set_password(ada.id, Role::Auditor, "first");
    let changes = world.write(vec![set]).await.unwrap();
    assert_eq!(changes.len(), 1, "it is in the change log");
    assert!(!format!("{changes:?}").contains("first"), "but not itself");
    assert_eq!(
        found(&world, "ADA").await,
        Some((ada.id, verifier("first")))
    );
    assert_eq!(found(&world, "bob").await, None);

    let longest = "x".repeat(MAX_SECRET_LEN);
    let set = set_password(ada.id, Role::Auditor, &longest);
    world.write(vec![set]).await.unwrap();
    let set = set_password(ada.id, Role::Auditor, &format!("{longest}x"));
    let error = world.write(vec![set]).await.unwrap_err();
    assert!(matches!(error, StoreError::TooMany { .. }), "{error}");

    let again = set_password(ada.id, Role::Admin, "second");
    world.write(vec![again]).await.unwrap();
    assert_eq!(
        found(&world, "ada").await,
        Some((ada.id, verifier("second")))
    );
    let row: Actor = world.store.get_as(world.account, ada.id).await.unwrap();
    assert_eq!(row.sign_in.unwrap().role, Role::Admin);

    // It comes by its own way alone.
    let mut forged = row.clone();
    forged.sign_in.as_mut().unwrap().password_set = Some(later(1));
    let error = world.update(forged).await.unwrap_err();
    assert!(matches!(
        error,
        StoreError::Invalid {
            field: "sign_in",
            ..
        }
    ));
    let stale = Mutation::SetPassword {
        actor: ada.id,
        role: Some(Role::Admin),
        verifier: verifier("third"),
        expected_version: Some(1),
    };
    let error = world.write(vec![stale]).await.unwrap_err();
    assert!(matches!(error, StoreError::VersionConflict { .. }));

    let other = World::beside(&world.store).await;
    assert_eq!(
        found(&other, "ada").await,
        None,
        "nothing crosses an account"
    );

    let mut disabled = row.clone();
    disabled.disabled = true;
    world.update(disabled).await.unwrap();
    assert_eq!(found(&world, "ada").await, None);
    world.update(row.clone()).await.unwrap();
    assert!(found(&world, "ada").await.is_some());
    let ended = Actor {
        sign_in: None,
        ..row
    };
    world.update(ended).await.unwrap();
    assert_eq!(found(&world, "ada").await, None);
    let set = set_password(ada.id, Role::Admin, "fourth");
    world.write(vec![set]).await.unwrap();
    world.delete(ada.id, true).await.unwrap();
    assert_eq!(found(&world, "ada").await, None);
}

pub(crate) async fn a_session_ends_unused_and_with_the_password(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    world.owner_who_stays().await;
    let ada = world.actor("Ada").await;
    let set = set_password(ada.id, Role::Auditor, "first");
    world.write(vec![set]).await.unwrap();
    let scope = TokenScope::Session { actor: ada.id };
    let session = world.token(scope, TokenUses::Many).await;
    let denied = async |at| match world.authenticate(&session, at).await {
        Err(StoreError::Denied(denial)) => Some(denial),
        Ok(_) => None,
        Err(error) => panic!("{error}"),
    };

    let principal = world.authenticate(&session, NOW).await.unwrap();
    let Holder::Session { actor, role, .. } = principal.holder else {
        panic!("{principal:?}");
    };
    assert_eq!((actor, role), (ada.id, Role::Auditor));
    // The role of the session is the present role of the person.
    let set = set_password(ada.id, Role::Owner, "second");
    world.write(vec![set]).await.unwrap();
    let principal = world.authenticate(&session, NOW).await.unwrap();
    assert!(matches!(
        principal.holder,
        Holder::Session {
            role: Role::Owner,
            ..
        }
    ));

    // The last instant of one that nobody uses, and the first without it.
    assert_eq!(denied(later(SESSION_IDLE_MS - 1)).await, None);
    assert_eq!(denied(later(SESSION_IDLE_MS)).await, Some(Denial::Expired));
    let used = vec![(session.id, later(1_000))];
    world.store.touch_tokens(world.account, used).await.unwrap();
    assert_eq!(denied(later(SESSION_IDLE_MS)).await, None);

    let row: Actor = world.store.get_as(world.account, ada.id).await.unwrap();
    let ended = Actor {
        sign_in: None,
        ..row
    };
    world.update(ended).await.unwrap();
    assert_eq!(denied(NOW).await, Some(Denial::Revoked));
}

pub(crate) async fn a_write_by_a_token_that_no_longer_stands_changes_nothing(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let scope = TokenScope::Api {
        actor: ada.id,
        role: Role::Admin,
    };
    let key = world.token(scope, TokenUses::Many).await;
    let author = Author {
        actor: Some(ada.id),
        token: Some(key.id),
        role: None,
    };
    let write = async |author: Author, name: &str| {
        let create = vec![Mutation::Create(group(name).into())];
        let written = world.store.write(world.account, author, NOW, create).await;
        written.map(|changes| changes.len())
    };
    assert_eq!(write(author, "while it stands").await.unwrap(), 1);

    let nobodys = Author {
        actor: None,
        ..author
    };
    assert!(matches!(
        write(nobodys, "as nobody").await.unwrap_err(),
        StoreError::Denied(Denial::WrongKind)
    ));
    let disabled = Actor {
        disabled: true,
        ..world.store.get_as(world.account, ada.id).await.unwrap()
    };
    world.update(disabled).await.unwrap();
    assert!(matches!(
        write(author, "as a disabled actor").await.unwrap_err(),
        StoreError::Denied(Denial::ActorDisabled(_))
    ));
    let enabled = Actor {
        disabled: false,
        ..world.store.get_as(world.account, ada.id).await.unwrap()
    };
    world.update(enabled).await.unwrap();
    let mut token: Token = world.store.get_as(world.account, key.id).await.unwrap();
    token.revoked = Some(NOW);
    world.update(token).await.unwrap();
    assert!(matches!(
        write(author, "with a revoked token").await.unwrap_err(),
        StoreError::Denied(Denial::Revoked)
    ));
    let snapshot = world.store.snapshot(world.account).await.unwrap();
    assert_eq!(snapshot.groups.len(), 1);
}

pub(crate) async fn a_password_without_a_role_leaves_the_role_and_begins_no_sign_in(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let change = || Mutation::SetPassword {
        actor: ada.id,
        role: None,
        verifier: verifier("another"),
        expected_version: None,
    };
    assert!(matches!(
        world.write(vec![change()]).await.unwrap_err(),
        StoreError::Denied(Denial::Revoked)
    ));
    let set = set_password(ada.id, Role::Auditor, "first");
    world.write(vec![set]).await.unwrap();
    world.write(vec![change()]).await.unwrap();
    let ada: Actor = world.store.get_as(world.account, ada.id).await.unwrap();
    assert_eq!(ada.sign_in.unwrap().role, Role::Auditor);
}

pub(crate) async fn a_person_s_token_may_do_no_more_than_the_person(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    world.owner_who_stays().await;
    let ada = world.actor("Ada").await;
    let scope = TokenScope::Api {
        actor: ada.id,
        role: Role::Admin,
    };
    let key = world.token(scope, TokenUses::Many).await;
    let role = async || {
        let current_principal = world
            .store
            .current_principal(world.account, key.id, NOW)
            .await;
        current_principal.map(|principal| principal.holder.role().unwrap())
    };
    assert_eq!(role().await.unwrap(), Role::Admin, "nobody signs in");
    for (person, token) in [
        (Role::Owner, Role::Admin),
        (Role::Auditor, Role::Auditor),
        (Role::Admin, Role::Admin),
    ] {
        let set = set_password(ada.id, person, "any");
        world.write(vec![set]).await.unwrap();
        assert_eq!(role().await.unwrap(), token, "of {person:?}");
    }
    let ended = Actor {
        sign_in: None,
        ..world.store.get_as(world.account, ada.id).await.unwrap()
    };
    world.update(ended).await.unwrap();
    assert!(matches!(
        role().await.unwrap_err(),
        StoreError::Denied(Denial::Revoked)
    ));
}

pub(crate) async fn who_no_longer_signs_in_keeps_no_token_for_the_api_and_all_others(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (ada, bob) = (world.actor("Ada").await, world.actor("Bob").await);
    for actor in [ada.id, bob.id] {
        let set = set_password(actor, Role::Admin, "any");
        world.write(vec![set]).await.unwrap();
    }
    let api = |actor| TokenScope::Api {
        actor,
        role: Role::Admin,
    };
    let row = async |key: &Key| -> Token {
        let row = world.store.get_as(world.account, key.id).await;
        row.unwrap()
    };
    let live = world.token(api(ada.id), TokenUses::Many).await;
    let ended = world.token(api(ada.id), TokenUses::Many).await;
    let foreign = world.token(api(bob.id), TokenUses::Many).await;
    let scope = TokenScope::Client { actor: ada.id };
    let of_client = world.token(scope, TokenUses::Many).await;
    let before = Timestamp::from_unix_ms(NOW.unix_ms() - HOUR_MS);
    let revoked = Token {
        revoked: Some(before),
        ..row(&ended).await
    };
    world.update(revoked).await.unwrap();
    let others = [&ended, &foreign, &of_client];
    let mut stored = Vec::new();
    for key in others {
        stored.push(row(key).await);
    }
    let ended = Actor {
        sign_in: None,
        ..world.store.get_as(world.account, ada.id).await.unwrap()
    };
    world.update(ended).await.unwrap();
    assert_eq!(row(&live).await.revoked, Some(NOW));
    for (key, stored) in others.into_iter().zip(stored) {
        assert_eq!(row(key).await, stored);
    }
}

pub(crate) async fn a_write_needs_the_role_that_it_was_permitted_by(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    world.owner_who_stays().await;
    let (store, account) = (&world.store, world.account);
    let ada = world.actor("Ada").await;
    let scope = TokenScope::Api {
        actor: ada.id,
        role: Role::Owner,
    };
    let key = world.token(scope, TokenUses::Many).await;
    let permitted = store.current_principal(account, key.id, NOW).await.unwrap();
    let author = permitted.author();
    let write = async |name: &str| {
        let create = vec![Mutation::Create(group(name).into())];
        store.write(account, author, NOW, create).await
    };
    let set_secret = async || {
        let secret = Some(verifier("shown to the sink"));
        let sink = "siem".to_owned();
        let set = vec![Mutation::SetSinkSecret { sink, secret }];
        store.write(account, author, NOW, set).await
    };
    write("as an owner").await.unwrap();
    let log = store
        .change_log(account, &ChangeFilter::default(), None, PageLimit::MAX)
        .await;
    assert_eq!(log.unwrap().items[0].author, author.logged());

    world
        .write(vec![set_password(ada.id, Role::Admin, "any")])
        .await
        .unwrap();
    let refused = [
        write("as an administrator").await.unwrap_err(),
        set_secret().await.unwrap_err(),
    ];
    for error in refused {
        assert!(matches!(error, StoreError::Denied(Denial::LesserRole)));
    }
    assert!(store.sink_secret(account, "siem").await.unwrap().is_none());
    world
        .write(vec![set_password(ada.id, Role::Owner, "any")])
        .await
        .unwrap();
    set_secret().await.unwrap();
    assert!(store.sink_secret(account, "siem").await.unwrap().is_some());
}

pub(crate) async fn owners_are_found_with_all_ways_by_which_they_are(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let (ada, bob, eve) = (
        world.actor("Ada").await.id,
        world.actor("Bob").await.id,
        world.actor("Eve").await.id,
    );
    world
        .write(vec![set_password(ada, Role::Owner, "any")])
        .await
        .unwrap();
    world
        .write(vec![set_password(bob, Role::Admin, "any")])
        .await
        .unwrap();
    let api = |actor, role| TokenScope::Api { actor, role };
    let of_bob = world.token(api(bob, Role::Owner), TokenUses::Many).await;
    let of_eve = world.token(api(eve, Role::Owner), TokenUses::Many).await;
    world.token(api(eve, Role::Admin), TokenUses::Many).await;
    let ended = world.token(api(eve, Role::Owner), TokenUses::Many).await;
    let row = async |key: &Key| -> Token { store.get_as(account, key.id).await.unwrap() };
    let revoked = Token {
        revoked: Some(NOW),
        ..row(&ended).await
    };
    world.update(revoked).await.unwrap();
    let expiring = Token {
        expires: Some(later(1)),
        ..row(&of_bob).await
    };
    world.update(expiring).await.unwrap();
    // Owners of other accounts are none of this one.
    let other = World::beside(store).await;
    let zoe = other.actor("Zoe").await.id;
    other.token(api(zoe, Role::Owner), TokenUses::Many).await;

    let owner = |actor, disabled, by| Owner {
        actor,
        disabled,
        by,
    };
    let by_token = |key: &Key, is_bounded| OwnerBy::Token {
        id: key.id,
        is_bounded,
    };
    let by_password = |has_password| OwnerBy::SignIn { has_password };
    let sorted = |mut owners: Vec<Owner>| {
        owners.sort_by_key(|owner| owner.actor);
        owners
    };
    let found = async |at| sorted(store.owners(account, at).await.unwrap());
    let of_ada = owner(ada, false, by_password(true));
    let of_eve = owner(eve, false, by_token(&of_eve, false));
    let bounded = owner(bob, false, by_token(&of_bob, true));
    assert_eq!(found(NOW).await, sorted(vec![of_ada, bounded, of_eve]));
    assert_eq!(found(later(1)).await, sorted(vec![of_ada, of_eve]));

    // The role stays without the password, and a disabled owner is told as one.
    let mut row: Actor = store.get_as(account, ada).await.unwrap();
    row.disabled = true;
    row.sign_in.as_mut().unwrap().password_set = None;
    world.update(row).await.unwrap();
    let of_ada = owner(ada, true, by_password(false));
    assert_eq!(found(later(1)).await, sorted(vec![of_ada, of_eve]));
}
