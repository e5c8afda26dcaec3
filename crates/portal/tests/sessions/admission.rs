//! Admission of machines to sessions.

use crate::portal::{
    ACCOUNT, ACTOR, CLIENT_TOKEN, Machine, Portal, SITE, bearer, client_bearer, gateway_bearer,
    hello_client, hello_gateway, now,
};
use culvert_ids::{AccountId, ActorId, TokenId};
use culvert_store::{
    Account, AccountSettings, Actor, Author, Client, Mutation, Role, Seen, Stamp, StoreExt, Token,
    TokenScope, TokenUses,
};
use culvert_wire::messages::{FromClient, MAX_CLIENT_MESSAGE_LEN, ReasonCode, ToClient, ToGateway};
use culvert_wire::token::{Bearer, Secret, TokenKind};
use culvert_wire::{
    CLIENT_SESSION_PATH, GATEWAY_SESSION_PATH, MAX_MESSAGE_LEN, Message as Kinds, PORTAL_LINK_PATH,
    PortalKey,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::http::StatusCode;

/// Half of the time after which the portal writes down all machines that are connected.
const SOON: Duration = Duration::from_secs(30);

async fn refused(machine: &mut Machine<ToClient>) -> ReasonCode {
    let code = match machine.hear().await {
        ToClient::Refused { reason, .. } => reason.code,
        other => panic!("{other:?}"),
    };
    assert!(machine.try_hear().await.is_none(), "the session is over");
    code
}

#[tokio::test]
async fn ghsa_4h58_without_a_good_token_of_the_kind_there_is_no_session() {
    let portal = Portal::start().await;
    let path = CLIENT_SESSION_PATH;
    assert_eq!(portal.refusal(path, None).await, StatusCode::UNAUTHORIZED);
    let unknown = bearer(TokenKind::Client, TokenId::from_bytes([99; 16]));
    let wrong = Bearer {
        secret: Secret::new([1; 32]),
        ..client_bearer()
    };
    // A token that says of itself to be of another kind.
    let disguised = Bearer {
        kind: TokenKind::Client,
        ..gateway_bearer()
    };
    for bearer in [unknown, wrong, disguised, gateway_bearer()] {
        let text = bearer.expose();
        let status = portal.refusal(path, Some(&text)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }
    for garbage in ["", "cv_client_", "cv_client_0.0", "🦀", &"x".repeat(5000)] {
        let status = portal.refusal(path, Some(garbage)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{garbage}");
    }
    let text = client_bearer().expose();
    let status = portal.refusal(GATEWAY_SESSION_PATH, Some(&text)).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn nobody_brings_sessions_of_machines_without_the_key_of_a_portal_that_runs() {
    let portal = Portal::start().await;
    let unknown = PortalKey {
        portal: portal.sessions.portal(),
        secret: Secret::new([1; 32]),
    };
    let (client, unknown) = (client_bearer().expose(), unknown.expose());
    for text in [
        None,
        Some(""),
        Some("cv_portal_"),
        Some(&**client),
        Some(&**unknown),
    ] {
        let status = portal.refusal(PORTAL_LINK_PATH, text).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{text:?}");
    }
}

#[tokio::test]
async fn a_revoked_token_ends_the_session_and_begins_no_other() {
    let portal = Portal::start().await;
    let mut client = portal.client("laptop").await;
    assert!(matches!(client.hear().await, ToClient::Welcome { .. }));
    let mut token: Token = portal.store.get_as(ACCOUNT, CLIENT_TOKEN).await.unwrap();
    token.revoked = Some(now());
    portal
        .write(vec![Mutation::Update {
            entity: token.into(),
            expected_version: None,
        }])
        .await;
    assert_eq!(refused(&mut client).await, ReasonCode::Revoked);
    let text = client_bearer().expose();
    let status = portal.refusal(CLIENT_SESSION_PATH, Some(&text)).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
}

/// Disables or enables the actor of the clients.
async fn set_disabled(portal: &Portal, disabled: bool) {
    let mut actor: Actor = portal.store.get_as(ACCOUNT, ACTOR).await.unwrap();
    actor.disabled = disabled;
    let update = Mutation::Update {
        entity: actor.into(),
        expected_version: None,
    };
    portal.write(vec![update]).await;
}

/// The client is told that its owner is disabled, and when to come back; then the session ends.
async fn is_to_come_back(machine: &mut Machine<ToClient>) {
    let said = machine.hear().await;
    let ToClient::Refused {
        reason,
        retry_after_s,
    } = said
    else {
        panic!("{said:?}");
    };
    assert_eq!(reason.code, ReasonCode::OwnerDisabled);
    assert_eq!(reason.text, "the owner of this client is disabled");
    assert!(retry_after_s.is_some_and(|wait_s| (1..=10).contains(&wait_s)));
    assert!(machine.try_hear().await.is_none(), "the session is over");
}

#[tokio::test]
async fn a_client_of_a_disabled_owner_is_to_come_back_and_is_the_same_client_then() {
    let portal = Portal::start().await;
    let mut client = portal.client("laptop").await;
    let ToClient::Welcome {
        client: id,
        interface,
        ..
    } = client.hear().await
    else {
        panic!();
    };
    set_disabled(&portal, true).await;
    is_to_come_back(&mut client).await;
    // With a hello and without, known to the portal and new to it.
    for machine in ["laptop", "tower"] {
        let mut client = portal.client(machine).await;
        is_to_come_back(&mut client).await;
    }
    let mut silent = portal.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
    is_to_come_back(&mut silent).await;
    let snapshot = portal.store.snapshot(ACCOUNT).await.unwrap();
    assert_eq!(snapshot.clients.len(), 1, "nobody enrols meanwhile");

    set_disabled(&portal, false).await;
    let mut client = portal.client("laptop").await;
    match client.hear().await {
        ToClient::Welcome {
            client,
            interface: again,
            ..
        } => assert_eq!((client, again), (id, interface)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_who_has_the_secret_of_a_client_s_token_hears_that_the_owner_is_disabled() {
    let portal = Portal::start().await;
    set_disabled(&portal, true).await;
    let wrong = Bearer {
        secret: Secret::new([1; 32]),
        ..client_bearer()
    };
    let path = CLIENT_SESSION_PATH;
    let status = portal.refusal(path, Some(&wrong.expose())).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    // A revocation is final.
    let mut token: Token = portal.store.get_as(ACCOUNT, CLIENT_TOKEN).await.unwrap();
    token.revoked = Some(now());
    portal
        .write(vec![Mutation::Update {
            entity: token.into(),
            expected_version: None,
        }])
        .await;
    let status = portal.refusal(path, Some(&client_bearer().expose())).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    // Gateways are nobody's.
    let mut gateway = portal.gateway("gateway").await;
    assert!(matches!(gateway.hear().await, ToGateway::Welcome { .. }));
}

#[tokio::test]
async fn of_disabled_owners_only_this_account_s_client_tokens_are_told() {
    let portal = Portal::start().await;
    set_disabled(&portal, true).await;
    let of_api = bearer(TokenKind::Client, TokenId::from_bytes([21; 16]));
    let (actor, role) = (ACTOR, Role::Auditor);
    let scope = TokenScope::Api { actor, role };
    let token = token_of(&of_api, scope, TokenUses::Many);
    portal.write(vec![token]).await;

    let account = Account {
        id: AccountId::from_bytes([0xad; 16]),
        name: "another".to_owned(),
        settings: AccountSettings::default(),
        stamp: Stamp::default(),
    };
    let (store, author) = (&portal.store, Author::PORTAL);
    let account = store.create_account(account, author, now()).await.unwrap();
    let id = ActorId::from_bytes([22; 16]);
    let actor: Actor = store.get_as(ACCOUNT, ACTOR).await.unwrap();
    let of_another_account = bearer(TokenKind::Client, TokenId::from_bytes([23; 16]));
    let scope = TokenScope::Client { actor: id };
    let mutations = vec![
        Mutation::Create(Actor { id, ..actor }.into()),
        token_of(&of_another_account, scope, TokenUses::Many),
    ];
    let written = store.write(account.id, author, now(), mutations).await;
    written.unwrap();

    for bearer in [of_api, of_another_account] {
        let text = bearer.expose();
        let status = portal.refusal(CLIENT_SESSION_PATH, Some(&text)).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{}", bearer.id);
    }
}

#[tokio::test]
async fn what_is_not_a_websocket_is_told_so() {
    let portal = Portal::start().await;
    let text = client_bearer().expose();
    let mut stream = TcpStream::connect(portal.address).await.unwrap();
    let request = format!(
        "GET {CLIENT_SESSION_PATH} HTTP/1.1\r\nHost: portal\r\nConnection: close\r\n\
         Authorization: Bearer {}\r\n\r\n",
        *text
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn a_machine_whose_hello_does_not_come_may_come_again() {
    let portal = Portal::start().await;
    let mut machine = portal
        .dial::<ToClient>(CLIENT_SESSION_PATH, &client_bearer())
        .await;
    let refused = machine.hear().await;
    let ToClient::Refused {
        reason,
        retry_after_s,
    } = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(reason.code, ReasonCode::TryLater, "{reason:?}");
    assert!(retry_after_s.is_some());
}

#[tokio::test]
async fn the_first_message_is_hello() {
    let portal = Portal::start().await;
    let ask = FromClient::ReleaseAccess {
        grant: culvert_ids::GrantId::from_bytes([1; 16]),
    };
    let mut texts = vec![culvert_wire::encode(&ask)];
    texts.extend(
        [
            "",
            "{}",
            "[]",
            r#"{"type":"poem"}"#,
            r#"{"type":"hello"}"#,
            "🦀",
        ]
        .map(str::to_owned),
    );
    for text in texts {
        let mut machine = portal.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
        machine.send(Message::text(text.clone())).await;
        assert_eq!(refused(&mut machine).await, ReasonCode::Protocol, "{text}");
    }
    let mut machine = portal.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
    machine.send(Message::binary(vec![1, 2, 3])).await;
    assert_eq!(refused(&mut machine).await, ReasonCode::Protocol);
}

#[tokio::test]
async fn a_version_that_the_portal_does_not_speak_is_refused() {
    let portal = Portal::start().await;
    let mut machine = portal.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
    let mut hello = hello_client("laptop");
    if let FromClient::Hello { protocols, .. } = &mut hello {
        *protocols = vec![2, 3];
    }
    machine.say(&hello).await;
    assert_eq!(refused(&mut machine).await, ReasonCode::Protocol);
}

#[tokio::test]
async fn unknown_fields_are_ignored_and_an_unknown_kind_is_answered() {
    let portal = Portal::start().await;
    let mut machine: Machine<ToClient> = portal.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
    let hello = culvert_wire::encode(&hello_client("laptop"));
    let hello = hello.replacen('{', r#"{"mood":"good","#, 1);
    machine.send(Message::text(hello)).await;
    assert!(matches!(machine.hear().await, ToClient::Welcome { .. }));
    machine.send(Message::text(r#"{"type":"poem"}"#)).await;
    let kind = "poem".to_owned();
    assert_eq!(machine.hear().await, ToClient::Unsupported { kind });
    assert!(machine.next_is_unsupported().await, "the session goes on");
}

#[tokio::test]
async fn a_malformed_or_endless_message_ends_the_session() {
    let portal = Portal::start().await;
    let texts = [
        r#"{"type":"release_access"}"#.to_owned(),
        "no JSON".to_owned(),
        format!(r#"{{"type":"{}"}}"#, "x".repeat(MAX_MESSAGE_LEN)),
    ];
    for (number, text) in texts.into_iter().enumerate() {
        let mut client = portal.client(&format!("laptop {number}")).await;
        assert!(matches!(client.hear().await, ToClient::Welcome { .. }));
        client.send(Message::text(text)).await;
        assert!(client.try_hear().await.is_none());
    }
}

#[tokio::test]
async fn a_client_can_not_say_as_much_at_once_as_a_gateway() {
    let portal = Portal::start().await;
    let lines = "x".repeat(MAX_CLIENT_MESSAGE_LEN);
    let poem = format!(r#"{{"type":"poem","lines":"{lines}"}}"#);
    let mut client = portal.client("laptop").await;
    assert!(matches!(client.hear().await, ToClient::Welcome { .. }));
    client.send(Message::text(poem.as_str())).await;
    assert!(client.try_hear().await.is_none());
    let mut gateway = portal.gateway("gw").await;
    assert!(matches!(gateway.hear().await, ToGateway::Welcome { .. }));
    gateway.send(Message::text(poem.as_str())).await;
    let kind = "poem".to_owned();
    assert_eq!(gateway.hear().await, ToGateway::Unsupported { kind });
}

#[tokio::test]
async fn a_later_version_of_a_machine_is_let_in() {
    let portal = Portal::start().await;
    let mut machine: Machine<ToClient> = portal.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
    let hello = culvert_wire::encode(&hello_client("laptop"));
    let hello = hello.replacen(r#""ciphers":["#, r#""ciphers":["aegis",{"new":1},"#, 1);
    assert!(hello.contains("aegis"), "{hello}");
    machine.send(Message::text(hello)).await;
    assert!(matches!(machine.hear().await, ToClient::Welcome { .. }));
}

/// Such a session writes nothing when it begins, so the next batch must say it.
#[tokio::test]
async fn the_version_of_a_machine_that_comes_again_is_known_at_once() {
    let portal = Portal::start().await;
    let mut first = portal.client("laptop").await;
    let ToClient::Welcome { client: id, .. } = first.hear().await else {
        panic!();
    };
    let seen_when = async |is_it: &dyn Fn(&Seen) -> bool| {
        let found = async {
            loop {
                let row: Client = portal.store.get_as(ACCOUNT, id).await.unwrap();
                if row.seen.as_ref().is_some_and(is_it) {
                    return;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(SOON, found).await.expect("it is written soon");
    };
    sleep(Duration::from_millis(5)).await;
    let left_from = now();
    drop(first);
    seen_when(&|seen| seen.at >= left_from).await;
    let mut second: Machine<ToClient> = portal.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
    let hello = culvert_wire::encode(&hello_client("laptop")).replacen("0.1.0", "0.2.0", 1);
    second.send(Message::text(hello)).await;
    assert!(matches!(second.hear().await, ToClient::Welcome { .. }));
    // It stays: the end of a session is noted too.
    let stays = async {
        loop {
            second.hear().await;
        }
    };
    tokio::select! {
        () = stays => {}
        () = seen_when(&|seen| seen.software.contains("0.2.0")) => {}
    }
}

#[tokio::test]
async fn a_second_session_of_a_machine_replaces_the_first() {
    let portal = Portal::start().await;
    let mut first = portal.client("laptop").await;
    let ToClient::Welcome { client, .. } = first.hear().await else {
        panic!();
    };
    let mut second = portal.client("laptop").await;
    match second.hear().await {
        ToClient::Welcome { client: again, .. } => assert_eq!(again, client),
        other => panic!("{other:?}"),
    }
    assert_eq!(refused(&mut first).await, ReasonCode::Replaced);
    assert!(second.next_is_unsupported().await);
}

#[tokio::test]
async fn a_machine_that_begins_sessions_all_the_time_is_told_to_wait() {
    let portal = Portal::start().await;
    let mut waits = 0;
    for _ in 0..20 {
        let mut machine = portal.client("laptop").await;
        match machine.hear().await {
            ToClient::Welcome { .. } => {}
            ToClient::Refused {
                reason,
                retry_after_s: Some(wait_s),
            } => {
                assert_eq!(reason.code, ReasonCode::TryLater);
                assert!(wait_s >= 1);
                waits += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(waits > 0);
    // Others are not.
    let mut other = portal.client("tower").await;
    assert!(matches!(other.hear().await, ToClient::Welcome { .. }));
}

#[tokio::test]
async fn ghsa_mrpr_two_machines_can_not_have_one_key() {
    let portal = Portal::start().await;
    let mut first = portal.client("laptop").await;
    assert!(matches!(first.hear().await, ToClient::Welcome { .. }));
    let mut hello = hello_client("laptop");
    if let FromClient::Hello { machine, .. } = &mut hello {
        *machine = "thief".to_owned();
    }
    let mut second = portal.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
    second.say(&hello).await;
    assert_eq!(refused(&mut second).await, ReasonCode::Protocol);
}

#[tokio::test]
async fn a_gateway_is_welcomed_with_the_key_that_signs_grants() {
    let portal = Portal::start().await;
    let mut gateway = portal.gateway("gateway").await;
    match gateway.hear().await {
        ToGateway::Welcome { grant_keys, .. } => assert_eq!(grant_keys.len(), 1),
        other => panic!("{other:?}"),
    }
    // The same after a new start.
    let portal = portal.restart().await;
    let mut gateway = portal.gateway("gateway").await;
    assert!(matches!(gateway.hear().await, ToGateway::Welcome { .. }));
}

/// The token of a bearer.
fn token_of(bearer: &Bearer, scope: TokenScope, uses: TokenUses) -> Mutation {
    let token = Token {
        id: bearer.id,
        scope,
        name: "another".to_owned(),
        uses,
        expires: None,
        revoked: None,
        used: None,
        last_used: None,
        proven: None,
        stamp: Stamp::default(),
    };
    let digest = bearer.secret.digest();
    Mutation::CreateToken { token, digest }
}

/// A token that lets one machine in, and no second one.
async fn one_time(portal: &Portal, kind: TokenKind, scope: TokenScope) -> Bearer {
    let bearer = bearer(kind, TokenId::from_bytes([20; 16]));
    let token = token_of(&bearer, scope, TokenUses::One);
    portal.write(vec![token]).await;
    bearer
}

/// The reason of a refusal, and the time after which to come back.
type Refused = (ReasonCode, Option<u32>);

/// Machines that all have passed the check of their token before any of them says hello.
const CONTENDERS: usize = 8;

/// TS-2025-007: a one-time key that several used at the same moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ts_2025_007_of_clients_with_one_one_time_token_at_the_same_moment_one_is_let_in() {
    let portal = Portal::start().await;
    let scope = TokenScope::Client { actor: ACTOR };
    let bearer = one_time(&portal, TokenKind::Client, scope).await;
    let refusals = contend(
        &portal,
        CLIENT_SESSION_PATH,
        &bearer,
        hello_client,
        |said| match said {
            ToClient::Welcome { .. } => None,
            ToClient::Refused {
                reason,
                retry_after_s,
            } => Some((reason.code, retry_after_s)),
            other => panic!("{other:?}"),
        },
    );
    one_is_let_in(&refusals.await);
    let snapshot = portal.store.snapshot(ACCOUNT).await.unwrap();
    assert_eq!(snapshot.clients.len(), 1);
}

/// The same at the other door.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ts_2025_007_of_gateways_with_one_one_time_token_at_the_same_moment_one_is_let_in() {
    let portal = Portal::start().await;
    let scope = TokenScope::Gateway { site: SITE };
    let bearer = one_time(&portal, TokenKind::Gateway, scope).await;
    let refusals = contend(
        &portal,
        GATEWAY_SESSION_PATH,
        &bearer,
        hello_gateway,
        |said| match said {
            ToGateway::Welcome { .. } => None,
            ToGateway::Refused {
                reason,
                retry_after_s,
            } => Some((reason.code, retry_after_s)),
            other => panic!("{other:?}"),
        },
    );
    one_is_let_in(&refusals.await);
    let snapshot = portal.store.snapshot(ACCOUNT).await.unwrap();
    assert_eq!(snapshot.gateways.len(), 1);
}

/// Has all say hello at once. Returns how each was refused, if it was.
async fn contend<M, H>(
    portal: &Portal,
    path: &str,
    bearer: &Bearer,
    hello: fn(&str) -> H,
    refusal: fn(M) -> Option<Refused>,
) -> Vec<Option<Refused>>
where
    M: Kinds + Send + 'static,
    H: Kinds + Send + Sync + 'static,
{
    let start = Arc::new(Barrier::new(CONTENDERS));
    let mut contenders = JoinSet::new();
    for number in 0..CONTENDERS {
        let mut line: Machine<M> = portal.dial(path, bearer).await;
        let start = Arc::clone(&start);
        contenders.spawn(async move {
            start.wait().await;
            line.say(&hello(&format!("machine {number}"))).await;
            refusal(line.hear().await)
        });
    }
    contenders.join_all().await
}

/// Everybody else is told that the token is none, and not to come back.
fn one_is_let_in(refusals: &[Option<Refused>]) {
    let welcomed = refusals.iter().filter(|refusal| refusal.is_none()).count();
    assert_eq!(welcomed, 1, "{refusals:?}");
    let mut refused = refusals.iter().flatten();
    assert!(
        refused.all(|refusal| *refusal == (ReasonCode::BadToken, None)),
        "{refusals:?}"
    );
}
