//! A database that does not answer freezes what is, and becomes no message.

use crate::portal::{DEADLINE, Portal, client_bearer};
use culvert_wire::CLIENT_SESSION_PATH;
use culvert_wire::messages::{ToClient, ToGateway};
use tokio_tungstenite::tungstenite::http::StatusCode;
use tokio_tungstenite::tungstenite::http::header::RETRY_AFTER;

#[tokio::test]
async fn a_database_that_is_gone_ends_nobodys_session_and_opens_nothing() {
    let portal = Portal::start().await;
    let mut client = portal.client("laptop").await;
    let mut gateway = portal.gateway("gateway").await;
    assert!(matches!(client.hear().await, ToClient::Welcome { .. }));
    assert!(matches!(gateway.hear().await, ToGateway::Welcome { .. }));
    assert!(portal.sessions.obstacles().is_empty());
    portal.store.close().await;
    let noticed = async {
        while portal.sessions.obstacles().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, noticed).await.unwrap();
    assert!(client.next_is_unsupported().await, "nothing else was said");
    assert!(gateway.next_is_unsupported().await, "nothing else was said");
    // Nobody new comes in, and is told to come back.
    let token = client_bearer().expose();
    let refused = portal
        .try_dial::<ToClient>(CLIENT_SESSION_PATH, Some(&token))
        .await;
    let refused = refused.map(|_| ()).unwrap_err();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key(RETRY_AFTER));
    portal.sessions.stop().await;
}

#[tokio::test]
async fn a_portal_that_stops_lets_nobody_in() {
    let portal = Portal::start().await;
    let mut client = portal.client("laptop").await;
    assert!(matches!(client.hear().await, ToClient::Welcome { .. }));
    portal.sessions.stop().await;
    assert!(matches!(
        client.hear().await,
        ToClient::Refused {
            retry_after_s: Some(1..),
            ..
        }
    ));
    let token = client_bearer().expose();
    let status = portal.refusal(CLIENT_SESSION_PATH, Some(&token)).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(!portal.sessions.obstacles().is_empty());
    assert!(portal.sessions.status().await.is_none());
    // A second stop is none.
    portal.sessions.stop().await;
}
