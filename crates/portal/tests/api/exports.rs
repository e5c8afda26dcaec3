//! Exports that go on while their caller is shut out, and readers who take their time.

use crate::browser::signed_in;
use crate::logs::{TIMEOUT, log_access_for};
use crate::support::{Client, Running, make_actor, make_token, now};
use culvert_ids::{ActorId, TokenId};
use culvert_store::{
    Actor, ActorKind, Author, Entity, Mutation, Role, StoreExt, Token, TokenScope,
};
use http_body_util::BodyExt;
use tokio::time::timeout;

/// More than the kernel buffers for a connection whose reader takes nothing. By default it buffers 4
/// MiB at one end and 6 MiB at the other, and an entry with such a reason has more than 800 bytes.
const ENTRIES: u64 = 20_000;
const REASON_LEN: usize = 400;

const EXPORT: &str = "/api/v1/log/access/export/jsonl";

/// A log with few entries.
const SHORT: &str = "/api/v1/log/changes/export/jsonl";

/// Exports at once.
const PLACES: usize = 16;

async fn portal_with_a_long_log() -> Running {
    let running = Running::start().await;
    log_access_for(&running, ENTRIES, &"ä".repeat(REASON_LEN)).await;
    running
}

/// Someone who may read the log, by a token of their own.
async fn auditor(running: &Running) -> (ActorId, TokenId, Client) {
    let (store, account) = (running.store.as_ref(), running.account());
    let actor = make_actor(store, account, ActorKind::Admin).await;
    let role = Role::Auditor;
    let (token, bearer) = make_token(store, account, TokenScope::Api { actor, role }).await;
    let client = running.client().await.with(&bearer);
    (actor, token, client)
}

#[derive(Clone, Copy, Debug)]
enum ShutOut {
    /// Nothing: the export is whole then.
    Nothing,
    Revoke,
    Disable,
}

async fn shut_out(running: &Running, how: ShutOut, actor: ActorId, token: TokenId) {
    let (store, account) = (&running.store, running.account());
    let entity: Entity = match how {
        ShutOut::Nothing => return,
        ShutOut::Revoke => {
            let row: Token = store.get_as(account, token).await.unwrap();
            let revoked = Some(now());
            Token { revoked, ..row }.into()
        }
        ShutOut::Disable => {
            let row: Actor = store.get_as(account, actor).await.unwrap();
            let disabled = true;
            Actor { disabled, ..row }.into()
        }
    };
    let update = vec![Mutation::Update {
        entity,
        expected_version: None,
    }];
    let updated = store.write(account, Author::PORTAL, now(), update).await;
    updated.unwrap();
}

#[tokio::test]
async fn an_export_ends_when_its_caller_is_shut_out() {
    let running = portal_with_a_long_log().await;
    for how in [ShutOut::Nothing, ShutOut::Revoke, ShutOut::Disable] {
        let (actor, token, mut client) = auditor(&running).await;
        let answer = client.begin("GET", EXPORT, &[], None).await;
        assert_eq!(answer.status(), 200);
        let mut body = answer.into_body();
        let first = body.frame().await.unwrap().unwrap();
        assert!(first.data_ref().is_some_and(|lines| !lines.is_empty()));
        shut_out(&running, how, actor, token).await;
        let rest = timeout(TIMEOUT, body.collect()).await.unwrap();
        match how {
            ShutOut::Nothing => {
                let rest = rest.unwrap().to_bytes();
                let lines = first.data_ref().into_iter().chain([&rest]);
                let lines = lines.flat_map(|part| part.iter());
                let lines = lines.filter(|byte| **byte == b'\n').count() as u64;
                assert_eq!(lines, ENTRIES);
            }
            ShutOut::Revoke | ShutOut::Disable => {
                assert!(rest.is_err(), "{how:?}: it looks like the whole log");
            }
        }
    }
}

#[tokio::test]
async fn slow_readers_leave_exports_to_others_and_an_actor_has_one() {
    let running = portal_with_a_long_log().await;
    let (actor, _, mut slow) = auditor(&running).await;
    let held = slow.begin("GET", EXPORT, &[], None).await;
    assert_eq!(held.status(), 200);
    // Another token of the same actor, and another connection.
    let (store, account) = (running.store.as_ref(), running.account());
    let role = Role::Auditor;
    let (_, bearer) = make_token(store, account, TokenScope::Api { actor, role }).await;
    let mut same = running.client().await.with(&bearer);
    same.get(EXPORT).await.problem(429);
    let mut others = Vec::new();
    for _ in 1..PLACES {
        // None of them reads.
        let (_, _, mut other) = auditor(&running).await;
        let answer = other.begin("GET", EXPORT, &[], None).await;
        assert_eq!(answer.status(), 200);
        others.push((other, answer));
        if others.len() < PLACES - 1 {
            let (_, _, mut reader) = auditor(&running).await;
            let whole = timeout(TIMEOUT, reader.get(SHORT)).await;
            whole
                .expect("those who do not read keep nobody")
                .expect(200);
        }
    }
    // All places are taken; whoever lets go leaves one at once.
    let mut last = signed_in(&running, Role::Auditor).await;
    let page = "/log/access/export/csv";
    assert_eq!(last.get(page).await.status, 429);
    drop((held, slow));
    let freed = async {
        while last.get(page).await.status != 200 {
            tokio::task::yield_now().await;
        }
    };
    timeout(TIMEOUT, freed).await.unwrap();
    drop(others);
}
