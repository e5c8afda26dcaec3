//! Identity providers, and whom they know.

use super::Fixture;
use super::world::*;
use culvert_ids::ActorId;
use culvert_store::{
    Denial, Identity, ListFilter, MAX_SUBJECT_LEN, Mutation, PageLimit, Provider, Role,
    SecretBytes, StoreError, StoreExt, Token, TokenScope, TokenUses,
};

fn secret(text: &str) -> SecretBytes {
    SecretBytes::new(text.as_bytes().to_vec())
}

pub(crate) async fn a_provider_s_secret_lies_apart_until_it_goes(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let made = provider("Example");
    // A caller who makes a row can't claim that there is a secret.
    let claimed = Provider {
        secret_set: Some(NOW),
        ..made.clone()
    };
    world.create(claimed).await;
    let row: Provider = store.get_as(account, made.id).await.unwrap();
    assert_eq!(row.secret_set, None);
    let found = async || store.provider_secret(account, made.id).await.unwrap();
    assert_eq!(found().await, None);

    let set = |text: &str| Mutation::SetProviderSecret {
        provider: made.id,
        secret: secret(text),
    };
    let changes = world
        .write(vec![set("first"), set("second")])
        .await
        .unwrap();
    assert_eq!(changes.len(), 2, "it is in the change log");
    let said = format!("{changes:?}");
    assert!(
        !said.contains("first") && !said.contains("second"),
        "but not itself"
    );
    assert_eq!(found().await, Some(secret("second")));
    let row: Provider = store.get_as(account, made.id).await.unwrap();
    assert_eq!(row.secret_set, Some(NOW));

    let forged = Provider {
        secret_set: Some(later(1)),
        ..row.clone()
    };
    let error = world.update(forged).await.unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Invalid {
                field: "secret_set",
                ..
            }
        ),
        "{error}"
    );
    let other = World::beside(store).await;
    let foreign = store.provider_secret(other.account, made.id).await.unwrap();
    assert_eq!(foreign, None, "nothing crosses an account");

    let public = Provider {
        secret_set: None,
        ..row
    };
    world.update(public).await.unwrap();
    assert_eq!(found().await, None);
    world.write(vec![set("third")]).await.unwrap();
    world.delete(made.id, false).await.unwrap();
    assert_eq!(found().await, None);
}

/// The write is permitted by a role, before somebody is made an owner or linked.
pub(crate) async fn what_is_an_owner_s_is_changed_by_owners_alone_whatever_came_before_the_write(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let (admin, owner) = (world.actor("Admin").await, world.actor("Olga").await);
    let made = provider("Example");
    world.create(made.clone()).await;
    let author_of = async |actor: ActorId, role| {
        let scope = TokenScope::Api { actor, role };
        let key = world.token(scope, TokenUses::Many).await;
        world.authenticate(&key, NOW).await.unwrap().author()
    };
    let admins = author_of(admin.id, Role::Admin).await;
    let other = world.actor("Other").await;
    let owners = author_of(other.id, Role::Owner).await;
    let write = async |author, mutations: Vec<Mutation>| match store
        .write(account, author, NOW, mutations)
        .await
    {
        Ok(_) => None,
        Err(StoreError::Denied(denial)) => Some(denial),
        Err(error) => panic!("{error}"),
    };
    let row = async || store.get_as::<Provider>(account, made.id).await.unwrap();
    let renamed = async |name: &str| {
        let name = name.to_owned();
        vec![update(Provider {
            name,
            ..row().await
        })]
    };
    let set_secret = || {
        let secret = secret("another");
        let provider = made.id;
        vec![Mutation::SetProviderSecret { provider, secret }]
    };
    let known = identity(made.id, "1", owner.id);
    let link = || vec![Mutation::Create(known.clone().into())];
    assert_eq!(write(admins, renamed("before").await).await, None);
    assert_eq!(write(admins, link()).await, None, "she is no owner yet");
    assert_eq!(write(admins, set_secret()).await, None);

    let sign_in_as = |role| Mutation::SetPassword {
        actor: owner.id,
        role: Some(role),
        verifier: secret("verifier"),
        expected_version: None,
    };
    let denied = Some(Denial::OwnersOnly);
    assert_eq!(write(admins, vec![sign_in_as(Role::Owner)]).await, denied);
    let by_token = TokenScope::Api {
        actor: owner.id,
        role: Role::Owner,
    };
    for as_owner in ["by signing in", "by a token"] {
        let key = match as_owner {
            "by a token" => {
                world.write(vec![sign_in_as(Role::Admin)]).await.unwrap();
                Some(world.token(by_token, TokenUses::Many).await)
            }
            _ => {
                world.write(vec![sign_in_as(Role::Owner)]).await.unwrap();
                None
            }
        };
        for mutations in [
            renamed("after").await,
            set_secret(),
            vec![delete(known.id, false)],
            vec![delete(known.id, false), delete(made.id, false)],
            vec![sign_in_as(Role::Admin)],
            vec![Mutation::Create(identity(made.id, "2", owner.id).into())],
            vec![delete(owner.id, true)],
        ] {
            let said = format!("{as_owner}: {mutations:?}");
            assert_eq!(write(admins, mutations).await, denied, "{said}");
        }
        assert_eq!(write(owners, renamed(as_owner).await).await, None);
        let Some(key) = key else { continue };
        let row: Token = store.get_as(account, key.id).await.unwrap();
        let revoked = Some(NOW);
        world.update(Token { revoked, ..row }).await.unwrap();
        assert_eq!(
            write(admins, renamed("no owner any more").await).await,
            None
        );
    }
    world.write(vec![sign_in_as(Role::Owner)]).await.unwrap();
    assert_eq!(write(admins, set_secret()).await, denied);
    world.delete(known.id, false).await.unwrap();
    assert_eq!(write(admins, set_secret()).await, None, "it knows nobody");
}

pub(crate) async fn an_issuer_stays_what_it_is(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let made = provider("Example");
    world.create(made.clone()).await;
    let moved = Provider {
        issuer: "https://evil.example".to_owned(),
        ..made.clone()
    };
    let error = world.update(moved).await.unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::Invalid {
                field: "issuer",
                ..
            }
        ),
        "{error}"
    );
    let ada = world.actor("Ada").await;
    let bob = world.actor("Bob").await;
    let known = identity(made.id, "1", ada.id);
    world.create(known.clone()).await;
    for (field, forged) in [
        ("subject", identity(made.id, "2", ada.id)),
        ("actor", identity(made.id, "1", bob.id)),
    ] {
        let forged = Identity {
            id: known.id,
            ..forged
        };
        let error = world.update(forged).await.unwrap_err();
        let StoreError::Invalid { field: found, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(found, field);
    }
}

pub(crate) async fn a_subject_is_one_person_at_one_provider(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let (one, two) = (provider("One"), provider("Two"));
    world.create(one.clone()).await;
    world.create(two.clone()).await;
    let (ada, bob) = (world.actor("Ada").await, world.actor("Bob").await);
    let known = identity(one.id, "Ab", ada.id);
    world.create(known.clone()).await;
    let found = async |provider, subject: &str| {
        let found = store.identity(account, provider, subject).await.unwrap();
        found.map(|identity| identity.actor)
    };
    assert_eq!(found(one.id, "Ab").await, Some(ada.id));
    // As it is written, and at this provider alone.
    assert_eq!(found(one.id, "AB").await, None);
    assert_eq!(found(two.id, "Ab").await, None);
    let again = Mutation::Create(identity(one.id, "Ab", bob.id).into());
    let error = world.write(vec![again]).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Exists(id) if id == known.id.into()),
        "{error}"
    );
    for wrong in [String::new(), "x".repeat(MAX_SUBJECT_LEN + 1)] {
        let wrong = Mutation::Create(identity(one.id, &wrong, bob.id).into());
        let error = world.write(vec![wrong]).await.unwrap_err();
        assert!(
            matches!(
                error,
                StoreError::Invalid {
                    field: "subject",
                    ..
                }
            ),
            "{error}"
        );
    }
    world.create(identity(two.id, "Ab", bob.id)).await;
    assert_eq!(found(two.id, "Ab").await, Some(bob.id));
    let longest = "x".repeat(MAX_SUBJECT_LEN);
    world.create(identity(two.id, &longest, bob.id)).await;
    assert_eq!(found(two.id, &longest).await, Some(bob.id));
    let other = World::beside(store).await;
    let foreign = store.identity(other.account, one.id, "Ab").await.unwrap();
    assert_eq!(foreign, None, "nothing crosses an account");
}

pub(crate) async fn identities_go_with_their_actor_and_their_provider(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (one, two) = (provider("One"), provider("Two"));
    world.create(one.clone()).await;
    world.create(two.clone()).await;
    let (ada, bob) = (world.actor("Ada").await, world.actor("Bob").await);
    world.create(identity(one.id, "1", ada.id)).await;
    world.create(identity(two.id, "1", ada.id)).await;
    world.create(identity(two.id, "2", bob.id)).await;
    let left = async || {
        let filter = ListFilter::default();
        let all = world
            .store
            .list_as::<Identity>(world.account, &filter, None, PageLimit::MAX);
        all.await.unwrap().items.len()
    };
    world.delete(one.id, false).await.unwrap();
    assert_eq!(left().await, 2);
    world.delete(ada.id, false).await.unwrap();
    assert_eq!(left().await, 1);
}
