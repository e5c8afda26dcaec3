//! Sessions begin by a proof that still holds, and keep when it was given.

use super::Fixture;
use super::factors::{change, person, set, use_step};
use super::world::*;
use culvert_ids::{ActorId, TokenId};
use culvert_store::{
    Actor, Author, Denial, FactorChange, Identity, Mutation, NewPasskey, Proof, Provider, Role,
    SecretBytes, StoreError, StoreExt, Token, TokenScope, TokenUses,
};
use culvert_wire::Timestamp;

fn by_password(actor: ActorId, verifier: &str) -> Mutation {
    let by = Proof::Password(SecretBytes::new(verifier.as_bytes().to_vec()));
    Mutation::Prove { actor, by }
}

fn by_identity_at(identity: &Identity, at: Option<Timestamp>) -> Mutation {
    Mutation::Prove {
        actor: identity.actor,
        by: Proof::Identity {
            id: identity.id,
            at,
        },
    }
}

fn by_identity(identity: &Identity) -> Mutation {
    by_identity_at(identity, Some(NOW))
}

fn earlier(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(NOW.unix_ms() - ms)
}

/// Begins a session after what is shown, or says why not.
async fn begin(world: &World, actor: ActorId, shown: Vec<Mutation>) -> Result<Key, Denial> {
    let (create, key) = token(TokenScope::Session { actor }, TokenUses::Many);
    let author = Author {
        actor: Some(actor),
        token: Some(key.id),
        role: None,
    };
    let mutations = shown.into_iter().chain([create]).collect();
    match world
        .store
        .write(world.account, author, NOW, mutations)
        .await
    {
        Ok(changes) => {
            let row: Token = world.store.get_as(world.account, key.id).await.unwrap();
            let logged = changes.last().unwrap().after.clone();
            assert_eq!(logged, Some(row.into()), "the log has the row");
            Ok(key)
        }
        Err(StoreError::Denied(denial)) => Err(denial),
        Err(error) => panic!("{error}"),
    }
}

async fn denial(world: &World, actor: ActorId, shown: Vec<Mutation>) -> Option<Denial> {
    begin(world, actor, shown).await.err()
}

async fn proven(world: &World, session: TokenId) -> Option<Timestamp> {
    let row: Token = world.store.get_as(world.account, session).await.unwrap();
    row.proven
}

pub(crate) async fn a_session_begins_by_the_password_of_now_alone(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = person(&world).await;
    let bob = world.actor("Bob").await.id;
    let proof = || vec![by_password(ada, "verifier")];
    assert_eq!(
        denial(&world, ada, Vec::new()).await,
        Some(Denial::Unproven)
    );
    assert_eq!(denial(&world, ada, proof()).await, None);
    // A proof of one person begins no session of another.
    assert_eq!(denial(&world, bob, proof()).await, Some(Denial::Revoked));

    let change = Mutation::SetPassword {
        actor: ada,
        role: None,
        verifier: SecretBytes::new(b"another".to_vec()),
        expected_version: None,
    };
    world.write(vec![change]).await.unwrap();
    assert_eq!(
        denial(&world, ada, proof()).await,
        Some(Denial::WrongSecret)
    );
    let proof = || vec![by_password(ada, "another")];
    assert_eq!(denial(&world, ada, proof()).await, None);

    let row: Actor = world.store.get_as(world.account, ada).await.unwrap();
    let disabled = Actor {
        disabled: true,
        ..row.clone()
    };
    world.update(disabled).await.unwrap();
    assert_eq!(
        denial(&world, ada, proof()).await,
        Some(Denial::ActorDisabled(world.account))
    );
    world.update(row.clone()).await.unwrap();
    let ended = Actor {
        sign_in: None,
        ..row
    };
    world.update(ended).await.unwrap();
    assert_eq!(
        denial(&world, ada, proof()).await,
        Some(Denial::WrongSecret)
    );
    world.delete(ada, true).await.unwrap();
    assert_eq!(
        denial(&world, ada, proof()).await,
        Some(Denial::WrongSecret)
    );
}

pub(crate) async fn a_session_begins_by_the_factors_of_now_alone(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let ada = person(&world).await;
    let password = || by_password(ada, "verifier");
    let with = |more: FactorChange| {
        let mut shown = vec![password()];
        shown.extend(change(ada, more));
        shown
    };
    world.write(change(ada, set(1))).await.unwrap();
    // The password was enough when it was given.
    assert_eq!(
        denial(&world, ada, vec![password()]).await,
        Some(Denial::Unproven)
    );
    let code_alone = change(ada, use_step(2));
    assert_eq!(
        denial(&world, ada, code_alone).await,
        Some(Denial::Unproven)
    );
    assert_eq!(denial(&world, ada, with(use_step(2))).await, None);
    // Another app, and codes of the one before.
    let other = FactorChange::Set {
        secret: SecretBytes::new(b"another secret".to_vec()),
        step: 1,
        codes: Vec::new(),
    };
    world.write(change(ada, other)).await.unwrap();
    assert_eq!(
        denial(&world, ada, with(use_step(3))).await,
        Some(Denial::WrongSecret)
    );

    let add = FactorChange::AddPasskey {
        passkey: NewPasskey {
            credential: b"key".to_vec(),
            public_key: b"a key".to_vec(),
            uses: 0,
            name: "Phone".to_owned(),
        },
        codes: Vec::new(),
    };
    world.write(change(ada, add)).await.unwrap();
    let by_passkey = || {
        let credential = b"key".to_vec();
        change(
            ada,
            FactorChange::UsePasskey {
                credential,
                uses: 0,
            },
        )
    };
    assert_eq!(denial(&world, ada, by_passkey()).await, None);
    let remove = FactorChange::RemovePasskey(b"key".to_vec());
    world.write(change(ada, remove)).await.unwrap();
    assert_eq!(denial(&world, ada, by_passkey()).await, Some(Denial::Used));
}

pub(crate) async fn a_session_begins_by_an_identity_while_its_provider_lets_people_in(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (ada, bob) = (person(&world).await, world.actor("Bob").await.id);
    let made = provider("Example");
    world.create(made.clone()).await;
    let known = identity(made.id, "1", ada);
    world.create(known.clone()).await;
    let proof = || vec![by_identity(&known)];
    assert_eq!(denial(&world, ada, proof()).await, None);
    let foreign = Mutation::Prove {
        actor: bob,
        by: Proof::Identity {
            id: known.id,
            at: Some(NOW),
        },
    };
    assert_eq!(
        denial(&world, bob, vec![foreign]).await,
        Some(Denial::Revoked)
    );

    // The person may have been proven there long before, or nobody knows when.
    for (at, stored) in [
        (Some(NOW), Some(NOW)),
        (Some(earlier(1)), Some(earlier(1))),
        (Some(later(60_000)), Some(NOW)),
        (None, None),
    ] {
        let session = begin(&world, ada, vec![by_identity_at(&known, at)]).await;
        let session = session.unwrap();
        assert_eq!(proven(&world, session.id).await, stored, "{at:?}");
        let author = world.authenticate(&session, NOW).await.unwrap().author();
        let renew = Mutation::RenewProof {
            session: session.id,
        };
        let unknown = vec![by_identity_at(&known, None), renew.clone()];
        let renewed = world.store.write(world.account, author, NOW, unknown).await;
        assert!(matches!(renewed, Err(StoreError::Denied(Denial::Unproven))));
        let known_at = vec![by_identity_at(&known, Some(NOW)), renew];
        let renewed = world
            .store
            .write(world.account, author, NOW, known_at)
            .await;
        renewed.unwrap();
        assert_eq!(proven(&world, session.id).await, Some(NOW));
    }

    let row: Provider = world.store.get_as(world.account, made.id).await.unwrap();
    let disabled = Provider {
        disabled: true,
        ..row.clone()
    };
    world.update(disabled).await.unwrap();
    assert_eq!(denial(&world, ada, proof()).await, Some(Denial::Revoked));
    world.update(row).await.unwrap();
    world.delete(known.id, false).await.unwrap();
    assert_eq!(denial(&world, ada, proof()).await, Some(Denial::Revoked));
}

pub(crate) async fn a_session_that_has_ended_makes_no_other(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = person(&world).await;
    let shown = vec![by_password(ada, "verifier")];
    let session = begin(&world, ada, shown).await.unwrap();
    let author = world.authenticate(&session, NOW).await.unwrap().author();
    let another = async || {
        let (create, _) = token(TokenScope::Session { actor: ada }, TokenUses::Many);
        world
            .store
            .write(world.account, author, NOW, vec![create])
            .await
    };
    another().await.unwrap();
    let row: Token = world.store.get_as(world.account, session.id).await.unwrap();
    let ended = Token {
        revoked: Some(NOW),
        ..row
    };
    world.update(ended).await.unwrap();
    let refused = another().await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Denied(Denial::Revoked)),
        "{refused:?}"
    );
}

pub(crate) async fn a_session_keeps_when_its_person_was_last_proven(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    let (store, account) = (&world.store, world.account);
    let ada = person(&world).await;
    let password = || by_password(ada, "verifier");
    let session = begin(&world, ada, vec![password()]).await.unwrap();
    assert_eq!(proven(&world, session.id).await, Some(NOW));

    let author = world.authenticate(&session, NOW).await.unwrap().author();
    let renew = |shown: Vec<Mutation>| {
        let session = session.id;
        shown
            .into_iter()
            .chain([Mutation::RenewProof { session }])
            .collect::<Vec<_>>()
    };
    let unproven = store
        .write(account, author, later(1), renew(Vec::new()))
        .await;
    assert!(matches!(
        unproven,
        Err(StoreError::Denied(Denial::Unproven))
    ));
    assert_eq!(proven(&world, session.id).await, Some(NOW));
    let written = store
        .write(account, author, later(2), renew(vec![password()]))
        .await;
    assert_eq!(written.unwrap(), [], "it is no configuration");
    assert_eq!(proven(&world, session.id).await, Some(later(2)));

    // A session that takes the place of another has been proven when that one was.
    let (create, other) = token(TokenScope::Session { actor: ada }, TokenUses::Many);
    store
        .write(account, author, later(9), vec![create])
        .await
        .unwrap();
    assert_eq!(proven(&world, other.id).await, Some(later(2)));
    let bob = world.actor("Bob").await.id;
    let (create, _) = token(TokenScope::Session { actor: bob }, TokenUses::Many);
    let foreign = store.write(account, author, later(9), vec![create]).await;
    assert!(matches!(
        foreign,
        Err(StoreError::Denied(Denial::WrongKind))
    ));
    // A token for the API makes no session.
    let scope = TokenScope::Api {
        actor: ada,
        role: Role::Admin,
    };
    let api = world.token(scope, TokenUses::Many).await;
    let author = world.authenticate(&api, NOW).await.unwrap().author();
    let (create, _) = token(TokenScope::Session { actor: ada }, TokenUses::Many);
    let by_token = store.write(account, author, NOW, vec![create]).await;
    assert!(matches!(
        by_token,
        Err(StoreError::Denied(Denial::WrongKind))
    ));

    let row: Token = store.get_as(account, session.id).await.unwrap();
    let forged = Token {
        proven: Some(later(99)),
        ..row
    };
    world.update(forged).await.unwrap();
    assert_eq!(proven(&world, session.id).await, Some(later(2)));
}
