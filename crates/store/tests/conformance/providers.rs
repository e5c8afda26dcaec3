//! Identity providers, and whom they know.

use super::Fixture;
use super::world::*;
use culvert_store::{
    Identity, ListFilter, MAX_SUBJECT_LEN, Mutation, PageLimit, Provider, SecretBytes, StoreError,
    StoreExt,
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
    // Who makes a row can't claim that there is a secret.
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
    let elsewhere = store.provider_secret(other.account, made.id).await.unwrap();
    assert_eq!(elsewhere, None, "nothing crosses an account");

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
    let other = World::beside(store).await;
    let elsewhere = store.identity(other.account, one.id, "Ab").await.unwrap();
    assert_eq!(elsewhere, None, "nothing crosses an account");
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
