//! Tokens.

use super::Fixture;
use super::world::*;
use culvert_ids::TokenId;
use culvert_store::{
    ActorKind, Author, Denial, Holder, Mutation, Seq, StoreError, StoreExt, Token, TokenScope,
    TokenUses,
};
use culvert_wire::token::{Secret, TokenKind};
use std::sync::Arc;

pub(crate) async fn a_token_stands_for_its_holder(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (ada, site) = (world.actor("Ada").await, world.site("Berlin").await);
    let actor = ada.id;
    let role = OWNER;
    let actor_kind = ActorKind::User;
    let holders = [
        (TokenScope::Setup, TokenUses::One, Holder::Setup),
        (
            TokenScope::Api { actor, role },
            TokenUses::Many,
            Holder::Api {
                actor,
                actor_kind,
                role,
            },
        ),
        (
            TokenScope::Client { actor },
            TokenUses::Many,
            Holder::Client { actor, actor_kind },
        ),
        (
            TokenScope::Gateway { site: site.id },
            TokenUses::One,
            Holder::Gateway { site: site.id },
        ),
        (TokenScope::Relay, TokenUses::Many, Holder::Relay),
    ];
    for (scope, uses, holder) in holders {
        let key = world.token(scope, uses).await;
        let principal = world.authenticate(&key, NOW).await.unwrap();
        assert_eq!(principal.holder, holder);
        assert_eq!(principal.account, world.account);
        assert_eq!(principal.token, key.id);
    }
    for (scope, uses) in [
        (TokenScope::Setup, TokenUses::Many),
        (TokenScope::Api { actor, role }, TokenUses::One),
    ] {
        let (mutation, _) = token(scope, uses);
        let error = world.write(vec![mutation]).await.unwrap_err();
        assert!(matches!(error, StoreError::Invalid { field: "uses", .. }));
    }
}

pub(crate) async fn every_cause_denies_with_one_text(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let (mut ada, mut bob) = (world.actor("Ada").await, world.actor("Bob").await);
    let scope = TokenScope::Client { actor: ada.id };
    let key = world.token(scope, TokenUses::Many).await;
    let (expiring, revoked) = (
        world.token(scope, TokenUses::Many).await,
        world.token(scope, TokenUses::Many).await,
    );
    let mut row: Token = world
        .store
        .get_as(world.account, expiring.id)
        .await
        .unwrap();
    row.expires = Some(later(1_000));
    world.update(row).await.unwrap();
    let mut row: Token = world.store.get_as(world.account, revoked.id).await.unwrap();
    row.revoked = Some(NOW);
    world.update(row).await.unwrap();
    let scope = TokenScope::Client { actor: bob.id };
    let of_disabled = world.token(scope, TokenUses::Many).await;
    bob.disabled = true;
    world.update(bob).await.unwrap();
    let used = world.token(TokenScope::Setup, TokenUses::One).await;
    let consumed = world
        .store
        .consume_one_time(used.id, &used.digest, used.kind, NOW, Vec::new())
        .await;
    assert_eq!(consumed.unwrap().len(), 1);

    // The last instant at which it is accepted, and the first at which it is not.
    world.authenticate(&expiring, later(999)).await.unwrap();
    let unknown = Key {
        id: TokenId::from_bytes(bytes()),
        ..key.clone()
    };
    let guessed = Key {
        digest: Secret::new([0; 32]).digest(),
        ..key.clone()
    };
    let another_kind = Key {
        kind: TokenKind::Api,
        ..key.clone()
    };
    let cases = [
        (&unknown, NOW, Denial::UnknownToken),
        (&guessed, NOW, Denial::WrongSecret),
        (&another_kind, NOW, Denial::WrongKind),
        (&expiring, later(1_000), Denial::Expired),
        (&revoked, NOW, Denial::Revoked),
        (&of_disabled, NOW, Denial::ActorDisabled(world.account)),
        (&used, NOW, Denial::Used),
    ];
    let mut texts = std::collections::BTreeSet::new();
    let mut causes = std::collections::BTreeSet::new();
    for (key, now, expected) in cases {
        let error = world.authenticate(key, now).await.unwrap_err();
        let StoreError::Denied(denial) = error else {
            panic!("{expected:?}: {error:?}");
        };
        assert_eq!(denial, expected);
        texts.insert(error.to_string());
        causes.insert(denial.cause());
    }
    assert_eq!((texts.len(), causes.len()), (1, cases.len()));
    // The portal tells a client that its owner is disabled, and nobody else: another kind comes first.
    let in_disguise = Key {
        kind: TokenKind::Api,
        ..of_disabled
    };
    let error = world.authenticate(&in_disguise, NOW).await.unwrap_err();
    assert!(matches!(error, StoreError::Denied(Denial::WrongKind)));
    // An actor who is disabled afterwards is refused from then on.
    world.authenticate(&key, NOW).await.unwrap();
    ada.disabled = true;
    world.update(ada).await.unwrap();
    assert!(world.authenticate(&key, NOW).await.is_err());
}

/// Lesson of the advisory TS-2025-007: a one-time key could be used more than once, because looking
/// at it and using it up were two steps.
pub(crate) async fn ts_2025_007_a_one_time_token_used_by_many_at_once_is_used_once(
    factory: impl AsyncFn() -> Fixture,
) {
    const CALLERS: usize = 32;
    let world = Arc::new(World::new(factory().await).await);
    let key = world.token(TokenScope::Setup, TokenUses::One).await;
    let start = Arc::new(tokio::sync::Barrier::new(CALLERS));
    let callers = (0..CALLERS).map(|caller| {
        let (world, key, start) = (Arc::clone(&world), key.clone(), Arc::clone(&start));
        tokio::spawn(async move {
            start.wait().await;
            let mutations = vec![Mutation::Create(actor(&format!("Owner {caller}")).into())];
            world
                .store
                .consume_one_time(key.id, &key.digest, key.kind, NOW, mutations)
                .await
        })
    });
    let mut winners = 0;
    for caller in callers.collect::<Vec<_>>() {
        match caller.await.unwrap() {
            Ok(changes) => {
                winners += 1;
                // The use of the token and what it was used for, by nobody but the token.
                assert_eq!(changes.len(), 2);
                let author = Author {
                    actor: None,
                    token: Some(key.id),
                    role: None,
                };
                assert!(changes.iter().all(|change| change.author == author));
            }
            Err(StoreError::Denied(Denial::Used)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(winners, 1);
    let snapshot = world.store.snapshot(world.account).await.unwrap();
    assert_eq!(snapshot.actors.len(), 1);
    assert_eq!(snapshot.seq, Seq(4));
    assert_eq!(snapshot.tokens[0].used.unwrap().at, NOW);
}

pub(crate) async fn a_failed_mutation_leaves_the_one_time_token_unused(
    factory: impl AsyncFn() -> Fixture,
) {
    let world = World::new(factory().await).await;
    world.actor("Ada").await;
    let key = world.token(TokenScope::Setup, TokenUses::One).await;
    let consume = async |name: &str| {
        let mutations = vec![Mutation::Create(actor(name).into())];
        world
            .store
            .consume_one_time(key.id, &key.digest, key.kind, NOW, mutations)
            .await
    };
    let taken = consume("ada").await;
    assert!(matches!(taken, Err(StoreError::NameTaken { .. })));
    consume("Owner").await.unwrap();
    let again = consume("Other").await;
    assert!(matches!(again, Err(StoreError::Denied(Denial::Used))));
    // A token of many uses has none to use up.
    let ada = world.actor("Grace").await;
    let scope = TokenScope::Client { actor: ada.id };
    let many = world.token(scope, TokenUses::Many).await;
    let consumed = world
        .store
        .consume_one_time(many.id, &many.digest, many.kind, NOW, Vec::new())
        .await;
    assert!(matches!(consumed, Err(StoreError::Denied(_))));
    // One that a machine could have enrolled with is used up as well, and enrols none after it.
    let one = world.token(scope, TokenUses::One).await;
    let accepted = world.authenticate(&one, NOW).await.unwrap();
    let consume = || {
        let (id, digest, kind) = (one.id, &one.digest, one.kind);
        world
            .store
            .consume_one_time(id, digest, kind, NOW, Vec::new())
    };
    consume().await.unwrap();
    let again = consume().await;
    assert!(matches!(again, Err(StoreError::Denied(Denial::Used))));
    let enrolled = world.enrol(&accepted, "laptop", 1).await;
    assert!(matches!(enrolled, Err(StoreError::Denied(Denial::Used))));
}

pub(crate) async fn last_use_is_no_change(factory: impl AsyncFn() -> Fixture) {
    let world = World::new(factory().await).await;
    let ada = world.actor("Ada").await;
    let scope = TokenScope::Client { actor: ada.id };
    let key = world.token(scope, TokenUses::Many).await;
    let before = world.store.snapshot(world.account).await.unwrap();
    let unknown = TokenId::from_bytes(bytes());
    let touch = async |at| {
        let uses = vec![(key.id, at), (unknown, at)];
        world.store.touch_tokens(world.account, uses).await.unwrap()
    };
    assert_eq!(touch(later(2)).await, 1);
    // An older batch that comes late does not turn the clock back.
    assert_eq!(touch(later(1)).await, 0);
    let token: Token = world.store.get_as(world.account, key.id).await.unwrap();
    assert_eq!((token.last_used, token.stamp.version), (Some(later(2)), 1));
    let after = world.store.snapshot(world.account).await.unwrap();
    assert_eq!(after.seq, before.seq);
    // An update does not undo it.
    let mut renamed = token;
    renamed.name = "Laptop".to_owned();
    renamed.last_used = None;
    world.update(renamed).await.unwrap();
    let token: Token = world.store.get_as(world.account, key.id).await.unwrap();
    assert_eq!(token.last_used, Some(later(2)));
}
