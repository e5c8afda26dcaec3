//! Second factors of people who sign in with a password.

use super::Fixture;
use super::world::*;
use culvert_ids::ActorId;
use culvert_store::{
    Actor, Denial, FactorChange, MAX_RECOVERY_CODES, Mutation, Role, SecretBytes, SignIn,
    StoreError, StoreExt,
};
use culvert_wire::token::SecretDigest;

const SECRET: &[u8] = b"a secret that nobody reads";

pub(super) async fn person(world: &World) -> ActorId {
    let ada = world.actor("Ada").await;
    let set = Mutation::SetPassword {
        actor: ada.id,
        role: Some(Role::Admin),
        verifier: SecretBytes::new(b"verifier".to_vec()),
        expected_version: None,
    };
    world.write(vec![set]).await.unwrap();
    ada.id
}

pub(super) fn use_step(step: u64) -> FactorChange {
    let secret = SecretBytes::new(SECRET.to_vec());
    FactorChange::UseStep { secret, step }
}

fn code(number: usize) -> SecretDigest {
    SecretDigest::from_bytes([u8::try_from(number).unwrap(); 32])
}

pub(super) fn codes(count: usize) -> Vec<SecretDigest> {
    (0..count).map(code).collect()
}

pub(super) fn set(step: u64) -> FactorChange {
    FactorChange::Set {
        secret: SecretBytes::new(SECRET.to_vec()),
        step,
        codes: codes(MAX_RECOVERY_CODES),
    }
}

pub(super) fn change(actor: ActorId, change: FactorChange) -> Vec<Mutation> {
    vec![Mutation::ChangeFactor { actor, change }]
}

pub(super) async fn sign_in(world: &World, actor: ActorId) -> Option<SignIn> {
    let row: Actor = world.store.get_as(world.account, actor).await.unwrap();
    row.sign_in
}

async fn secret(world: &World, actor: ActorId) -> Option<Vec<u8>> {
    let found = world.store.totp_secret(world.account, actor).await.unwrap();
    found.map(|secret| secret.expose().to_vec())
}

pub(super) async fn denial(world: &World, mutations: Vec<Mutation>) -> Option<Denial> {
    match world.write(mutations).await {
        Err(StoreError::Denied(denial)) => Some(denial),
        Ok(_) => None,
        Err(error) => panic!("{error}"),
    }
}

pub(crate) async fn a_second_factor_stays_with_the_password_and_goes_with_it(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let nobody = world.actor("Bob").await;
    for wanted in [
        set(1),
        FactorChange::NewCodes(codes(1)),
        FactorChange::RemoveApp,
    ] {
        let error = world.write(change(nobody.id, wanted)).await.unwrap_err();
        assert!(
            matches!(error, StoreError::NotFound(_)),
            "it is second to nothing"
        );
    }
    let ada = person(&world).await;
    assert_eq!(secret(&world, ada).await, None);
    let without = change(ada, FactorChange::NewCodes(codes(1)));
    assert!(
        world.write(without).await.is_err(),
        "codes alone are no factor"
    );

    let changes = world.write(change(ada, set(1))).await.unwrap();
    assert_eq!(changes.len(), 1, "it is in the change log");
    let text = format!("{changes:?}{}", serde_json::to_string(&changes).unwrap());
    assert!(!text.contains("nobody reads"), "but not the secret: {text}");
    assert_eq!(secret(&world, ada).await.as_deref(), Some(SECRET));
    let row = sign_in(&world, ada).await.unwrap();
    assert_eq!((row.second_factor, row.recovery_codes), (Some(NOW), 10));
    assert!(!format!("{:?}", set(1)).contains("nobody reads"));

    // It comes by its own way alone.
    let mut forged: Actor = world.store.get_as(world.account, ada).await.unwrap();
    forged.sign_in.as_mut().unwrap().second_factor = None;
    let error = world.update(forged).await.unwrap_err();
    assert!(matches!(
        error,
        StoreError::Invalid {
            field: "sign_in",
            ..
        }
    ));

    let again = Mutation::SetPassword {
        actor: ada,
        role: Some(Role::Admin),
        verifier: SecretBytes::new(b"another".to_vec()),
        expected_version: None,
    };
    world.write(vec![again.clone()]).await.unwrap();
    assert!(sign_in(&world, ada).await.unwrap().second_factor.is_some());
    assert!(secret(&world, ada).await.is_some());

    let row: Actor = world.store.get_as(world.account, ada).await.unwrap();
    let sign_in_ended = Actor {
        sign_in: None,
        ..row
    };
    world.update(sign_in_ended).await.unwrap();
    assert_eq!(secret(&world, ada).await, None);
    world.write(vec![again]).await.unwrap();
    assert_eq!(sign_in(&world, ada).await.unwrap().second_factor, None);
    let use_code = change(ada, FactorChange::UseCode(code(0)));
    assert_eq!(denial(&world, use_code).await, Some(Denial::WrongSecret));

    world.write(change(ada, set(1))).await.unwrap();
    world
        .write(change(ada, FactorChange::RemoveApp))
        .await
        .unwrap();
    let row = sign_in(&world, ada).await.unwrap();
    assert_eq!((row.second_factor, row.recovery_codes), (None, 0));
    assert_eq!(secret(&world, ada).await, None);
}

pub(crate) async fn a_step_is_used_once_and_never_goes_back(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = person(&world).await;
    let use_step = |step| change(ada, use_step(step));
    assert_eq!(denial(&world, use_step(1)).await, Some(Denial::WrongSecret));
    world.write(change(ada, set(5))).await.unwrap();
    for (step, expected) in [
        (5, Some(Denial::Used)),
        (4, Some(Denial::Used)),
        (6, None),
        (6, Some(Denial::Used)),
        (8, None),
        (7, Some(Denial::Used)),
    ] {
        assert_eq!(denial(&world, use_step(step)).await, expected, "{step}");
    }
    let changes = world.write(use_step(9)).await.unwrap();
    assert_eq!(changes, [], "it is no configuration");
    let uses = (0..8).map(|_| denial(&world, use_step(10)));
    let mut accepted = 0;
    for used in uses {
        accepted += usize::from(used.await.is_none());
    }
    assert_eq!(accepted, 1);
}

pub(crate) async fn a_recovery_code_is_used_once_by_any_number_of_callers(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = person(&world).await;
    world.write(change(ada, set(1))).await.unwrap();
    let use_code = |number| change(ada, FactorChange::UseCode(code(number)));
    let (one, other) = tokio::join!(denial(&world, use_code(3)), denial(&world, use_code(3)));
    let mut both = [one, other];
    both.sort_by_key(Option::is_some);
    assert_eq!(both, [None, Some(Denial::WrongSecret)]);
    assert_eq!(sign_in(&world, ada).await.unwrap().recovery_codes, 9);
    assert_eq!(
        denial(&world, use_code(99)).await,
        Some(Denial::WrongSecret)
    );

    // A write that fails has used nothing up.
    let mut failing = use_code(4);
    failing.extend(change(ada, use_step(0)));
    assert_eq!(denial(&world, failing).await, Some(Denial::Used));
    assert_eq!(denial(&world, use_code(4)).await, None);

    let new = FactorChange::NewCodes(vec![code(77)]);
    world.write(change(ada, new)).await.unwrap();
    assert_eq!(sign_in(&world, ada).await.unwrap().recovery_codes, 1);
    assert_eq!(denial(&world, use_code(5)).await, Some(Denial::WrongSecret));
    assert_eq!(denial(&world, use_code(77)).await, None);

    let many = FactorChange::NewCodes(codes(MAX_RECOVERY_CODES + 1));
    let error = world.write(change(ada, many)).await.unwrap_err();
    assert!(matches!(error, StoreError::TooMany { .. }), "{error}");
}

pub(crate) async fn a_factor_is_of_one_person_in_one_account(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = person(&world).await;
    world.write(change(ada, set(1))).await.unwrap();
    let other = World::beside(&world.store).await;
    assert_eq!(
        secret(&other, ada).await,
        None,
        "nothing crosses an account"
    );
    for wanted in [
        set(9),
        FactorChange::NewCodes(codes(1)),
        FactorChange::RemoveApp,
        use_step(9),
        FactorChange::UseCode(code(0)),
    ] {
        let error = other.write(change(ada, wanted)).await.unwrap_err();
        assert!(matches!(error, StoreError::NotFound(_)), "{error}");
    }
    assert_eq!(secret(&world, ada).await.as_deref(), Some(SECRET));
    assert_eq!(sign_in(&world, ada).await.unwrap().recovery_codes, 10);
}
