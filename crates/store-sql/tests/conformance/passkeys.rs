//! Passkeys of people who sign in.

use super::Fixture;
use super::factors::{change, codes, denial, person, set, sign_in};
use super::world::*;
use culvert_ids::ActorId;
use culvert_store::{
    Denial, FactorChange, MAX_CREDENTIAL_LEN, MAX_PASSKEYS, MAX_PUBLIC_KEY_LEN, NewPasskey,
    Passkey, StoreError,
};

fn passkey(credential: &[u8], uses: u32) -> NewPasskey {
    NewPasskey {
        credential: credential.to_vec(),
        public_key: b"a key".to_vec(),
        uses,
        name: "Phone".to_owned(),
    }
}

fn add(credential: &[u8], uses: u32) -> FactorChange {
    FactorChange::AddPasskey {
        passkey: passkey(credential, uses),
        codes: codes(3),
    }
}

fn used(credential: &[u8], uses: u32) -> FactorChange {
    FactorChange::UsePasskey {
        credential: credential.to_vec(),
        uses,
    }
}

async fn stored(world: &World, actor: ActorId) -> Vec<Passkey> {
    world.store.passkeys(world.account, actor).await.unwrap()
}

async fn counts(world: &World, actor: ActorId) -> (u32, u32) {
    let sign_in = sign_in(world, actor).await.unwrap();
    (sign_in.passkeys, sign_in.recovery_codes)
}

pub(crate) async fn a_passkey_is_of_one_person_and_goes_with_the_password(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let nobody = world.actor("Bob").await;
    let error = world
        .write(change(nobody.id, add(b"1", 0)))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error}");
    let ada = person(&world).await;
    world.write(change(ada, add(b"1", 0))).await.unwrap();
    assert_eq!(
        counts(&world, ada).await,
        (1, 3),
        "codes come with the first factor"
    );
    let found = world.store.passkey(world.account, b"1").await.unwrap();
    let found = found.unwrap();
    assert_eq!(
        (found.actor, found.public_key.as_slice()),
        (ada, &b"a key"[..])
    );
    assert_eq!(found.last_used, None);
    let again = change(ada, add(b"1", 0));
    assert_eq!(denial(&world, again).await, Some(Denial::Used));
    let other = world.store.passkey(world.account, b"2").await.unwrap();
    assert_eq!(other, None);
    let rename = FactorChange::RenamePasskey {
        credential: b"1".to_vec(),
        name: "Laptop".to_owned(),
    };
    world.write(change(ada, rename)).await.unwrap();
    assert_eq!(stored(&world, ada).await[0].name, "Laptop");
    world
        .write(change(ada, FactorChange::RemoveAll))
        .await
        .unwrap();
    assert_eq!(
        (counts(&world, ada).await, stored(&world, ada).await),
        ((0, 0), vec![])
    );
}

pub(crate) async fn recovery_codes_go_with_the_last_factor(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = person(&world).await;
    world.write(change(ada, set(1))).await.unwrap();
    let with_app = counts(&world, ada).await;
    world.write(change(ada, add(b"1", 0))).await.unwrap();
    assert_eq!(
        counts(&world, ada).await,
        (1, with_app.1),
        "those that there were"
    );
    world
        .write(change(ada, FactorChange::RemoveApp))
        .await
        .unwrap();
    assert_eq!(counts(&world, ada).await, (1, with_app.1));
    let remove = FactorChange::RemovePasskey(b"1".to_vec());
    world.write(change(ada, remove.clone())).await.unwrap();
    assert_eq!(counts(&world, ada).await, (0, 0));
    let error = world.write(change(ada, remove)).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error}");
}

pub(crate) async fn a_passkey_that_has_not_counted_on_is_denied(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = person(&world).await;
    world.write(change(ada, add(b"counts", 5))).await.unwrap();
    world.write(change(ada, add(b"does not", 0))).await.unwrap();
    for uses in [0, 4, 5] {
        let wanted = change(ada, used(b"counts", uses));
        assert_eq!(denial(&world, wanted).await, Some(Denial::Used), "{uses}");
    }
    world.write(change(ada, used(b"counts", 6))).await.unwrap();
    for _ in 0..2 {
        world
            .write(change(ada, used(b"does not", 0)))
            .await
            .unwrap();
    }
    let last_used: Vec<_> = stored(&world, ada)
        .await
        .iter()
        .map(|key| key.last_used)
        .collect();
    assert_eq!(last_used, [Some(NOW), Some(NOW)]);
}

pub(crate) async fn the_parts_of_a_passkey_are_bounded(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = person(&world).await;
    for (credential, public_key, is_good) in [
        (MAX_CREDENTIAL_LEN, MAX_PUBLIC_KEY_LEN, true),
        (MAX_CREDENTIAL_LEN + 1, 1, false),
        (1, MAX_PUBLIC_KEY_LEN + 1, false),
        (1, 2 * MAX_PUBLIC_KEY_LEN, false),
    ] {
        let add = FactorChange::AddPasskey {
            passkey: NewPasskey {
                public_key: vec![1; public_key],
                ..passkey(&vec![1; credential], 0)
            },
            codes: codes(3),
        };
        let written = world.write(change(ada, add)).await;
        let what = format!("{credential} and {public_key} bytes: {written:?}");
        match is_good {
            true => assert!(written.is_ok(), "{what}"),
            false => assert!(matches!(written, Err(StoreError::TooMany { .. })), "{what}"),
        }
    }
    assert_eq!(stored(&world, ada).await.len(), 1);
}

pub(crate) async fn passkeys_are_bounded(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = person(&world).await;
    for number in 0..MAX_PASSKEYS {
        let credential = [u8::try_from(number).unwrap()];
        world.write(change(ada, add(&credential, 0))).await.unwrap();
    }
    for credential in [vec![99], vec![0; MAX_CREDENTIAL_LEN + 1]] {
        let error = world
            .write(change(ada, add(&credential, 0)))
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::TooMany { .. }), "{error}");
    }
}
