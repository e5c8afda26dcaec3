//! Requests that wait for their body while their caller is shut out.

use crate::support::{Running, make_actor, make_token, tls_stream};
use culvert_ids::{ActorId, TokenId};
use culvert_store::{
    Actor, ActorKind, Author, ChangeFilter, Entity, Mutation, PageLimit, Role, SecretBytes, SignIn,
    StoreExt, Token, TokenScope,
};
use serde_json::{Value, json};
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// The action against a caller while its request waits.
#[derive(Clone, Copy, Debug)]
enum ShutOut {
    /// Nothing: the same request passes then, so that the others are refused for what was done.
    Nothing,
    Revoke,
    Disable,
    Delete,
    /// The person signs in as less.
    Demote,
    /// The person no longer signs in.
    EndSignIn,
}

/// A request of which all but the last byte is with the portal.
struct Armed {
    stream: TlsStream<TcpStream>,
    last: [u8; 1],
}

impl Armed {
    /// Sends all but the last byte, once the portal has looked at who asks and waits for the body: it
    /// says `100 Continue` when its handler begins to read, and not before.
    async fn new(running: &Running, bearer: &str, path: &str, body: &Value) -> Self {
        let address = running.portal.address();
        let mut stream = tls_stream(Ipv4Addr::LOCALHOST, address, &running.portal).await;
        let body = body.to_string().into_bytes();
        let (last, first) = body.split_last().unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {bearer}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\
             connection: close\r\n\r\n",
            body.len(),
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut interim = [0; 25];
        stream.read_exact(&mut interim).await.unwrap();
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream.write_all(first).await.unwrap();
        Self {
            stream,
            last: [*last],
        }
    }

    /// Sends the rest; the status of the answer.
    async fn release(mut self) -> u16 {
        self.stream.write_all(&self.last).await.unwrap();
        let mut answer = Vec::new();
        // A peer that closes without a TLS goodbye has still answered.
        let _ = self.stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1);
        status
            .and_then(|status| status.parse().ok())
            .unwrap_or_else(|| panic!("no answer: {answer:?}"))
    }
}

async fn shut_out(running: &Running, how: ShutOut, actor: ActorId, token: TokenId) {
    let (store, account) = (&running.store, running.account());
    let row: Token = store.get_as(account, token).await.unwrap();
    let owner: Actor = store.get_as(account, actor).await.unwrap();
    let now = crate::support::now();
    let (entity, version): (Entity, u64) = match how {
        ShutOut::Nothing => return,
        ShutOut::Revoke => {
            let version = row.stamp.version;
            let revoked = Some(now);
            (Token { revoked, ..row }.into(), version)
        }
        ShutOut::Disable => {
            let version = owner.stamp.version;
            let disabled = true;
            (Actor { disabled, ..owner }.into(), version)
        }
        ShutOut::Demote | ShutOut::EndSignIn => {
            let version = owner.stamp.version;
            let demoted = owner.sign_in.map(|was| SignIn {
                role: Role::Auditor,
                ..was
            });
            let sign_in = demoted.filter(|_| matches!(how, ShutOut::Demote));
            (Actor { sign_in, ..owner }.into(), version)
        }
        ShutOut::Delete => {
            let delete = vec![Mutation::Delete {
                id: actor.into(),
                expected_version: None,
                cascade: true,
            }];
            let deleted = store.write(account, Author::PORTAL, now, delete).await;
            deleted.unwrap();
            return;
        }
    };
    let update = vec![Mutation::Update {
        entity,
        expected_version: Some(version),
    }];
    let updated = store.write(account, Author::PORTAL, now, update).await;
    updated.unwrap();
}

pub(crate) async fn sign_in_as_owner(running: &Running, actor: ActorId) {
    let set = vec![Mutation::SetPassword {
        actor,
        role: Some(Role::Owner),
        verifier: SecretBytes::new(b"verifier".to_vec()),
        expected_version: None,
    }];
    let (store, now) = (&running.store, crate::support::now());
    let set = store
        .write(running.account(), Author::PORTAL, now, set)
        .await;
    set.unwrap();
}

#[tokio::test]
async fn a_request_that_waited_for_its_body_changes_nothing_once_its_caller_is_shut_out() {
    let running = Running::start().await;
    let (store, account) = (&running.store, running.account());
    let minted_for = make_actor(store.as_ref(), account, ActorKind::Admin).await;
    let ways = [
        ShutOut::Nothing,
        ShutOut::Revoke,
        ShutOut::Disable,
        ShutOut::Delete,
        ShutOut::Demote,
        ShutOut::EndSignIn,
    ];
    for (turn, how) in ways.into_iter().enumerate() {
        let bodies = [
            (
                "/api/v1/actors",
                json!({"name": format!("actor {turn}"), "kind": "service_account"}),
            ),
            (
                "/api/v1/tokens",
                json!({"name": format!("token {turn}"), "kind": "api", "role": "admin",
                       "actor": minted_for.to_string()}),
            ),
            ("/api/v1/groups", json!({"name": format!("group {turn}")})),
            ("/api/v1/sites", json!({"name": format!("site {turn}")})),
        ];
        for (path, body) in bodies {
            let actor = make_actor(store.as_ref(), account, ActorKind::Admin).await;
            sign_in_as_owner(&running, actor).await;
            let role = Role::Owner;
            let scope = TokenScope::Api { actor, role };
            let (token, bearer) = make_token(store.as_ref(), account, scope).await;
            let armed = Armed::new(&running, &bearer, path, &body).await;
            shut_out(&running, how, actor, token).await;
            let status = armed.release().await;
            let filter = ChangeFilter::default();
            let limit = PageLimit::new(200);
            let log = store.change_log(account, &filter, None, limit).await;
            let log = log.unwrap();
            let made = log.items.iter().any(|change| {
                let author = change.author;
                author.token == Some(token) && author.actor == Some(actor)
            });
            match how {
                ShutOut::Nothing => assert!(status == 201 && made, "{path}: {status}"),
                ShutOut::Demote => assert!(status == 403 && !made, "{path}, {how:?}: {status}"),
                _ => assert!(status == 401 && !made, "{path}, {how:?}: {status}"),
            }
        }
    }
}
