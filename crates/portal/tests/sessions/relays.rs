//! Relays over the control channel: from hello to tokens for both ends.

use crate::access::{ask, id_in};
use crate::portal::{
    ACCOUNT, Machine, Portal, RELAY_TOKEN, bearer, client_bearer, gateway_bearer, hello_client,
    hello_gateway,
};
use culvert_store::{Relay, StoreExt};
use culvert_wire::messages::{
    ClientFeature, FromClient, FromGateway, FromRelay, GatewayFeature, ReasonCode, RelayClaims,
    ToClient, ToGateway, ToRelay,
};
use culvert_wire::token::TokenKind;
use culvert_wire::{
    CLIENT_SESSION_PATH, GATEWAY_SESSION_PATH, PROTOCOL, PresharedKey, RELAY_SESSION_PATH,
};
use tokio_tungstenite::tungstenite::http::StatusCode;

fn hello(addresses: usize) -> FromRelay {
    FromRelay::Hello {
        protocols: vec![PROTOCOL],
        version: "0.1.0".to_owned(),
        machine: "machine of relay".to_owned(),
        name: "relay".to_owned(),
        addresses: vec!["192.0.2.9:3478".parse().unwrap(); addresses],
        first_port: 3_479,
        ports: 64,
        tls: None,
        draining: false,
        assigned: Vec::new(),
    }
}

async fn dial(portal: &Portal) -> Machine<ToRelay> {
    let bearer = bearer(TokenKind::Relay, RELAY_TOKEN);
    portal.dial(RELAY_SESSION_PATH, &bearer).await
}

/// A relay that was welcomed, and its key.
async fn relay(portal: &Portal) -> (Machine<ToRelay>, PresharedKey) {
    let mut relay = dial(portal).await;
    relay.say(&hello(1)).await;
    match relay.hear().await {
        ToRelay::Welcome { key, .. } => (relay, key),
        other => panic!("{other:?}"),
    }
}

fn open(key: &PresharedKey, token: &str) -> RelayClaims {
    use pasetors::keys::SymmetricKey;
    use pasetors::version4::{LocalToken, V4};
    use pasetors::{Local, token::UntrustedToken};
    let key = SymmetricKey::<V4>::from(key.as_bytes()).unwrap();
    let token = UntrustedToken::<Local, V4>::try_from(token).unwrap();
    let token = LocalToken::decrypt(&key, &token, None, None).unwrap();
    serde_json::from_str(token.payload()).unwrap()
}

#[tokio::test]
async fn a_relay_reads_the_tokens_that_both_ends_get_and_hears_of_the_end_of_access() {
    let portal = Portal::start().await;
    let (mut relay, key) = relay(&portal).await;
    let mut said = hello_gateway("gateway");
    if let FromGateway::Hello { features, .. } = &mut said {
        features.push(GatewayFeature::Relays);
    }
    let mut gateway: Machine<ToGateway> =
        portal.dial(GATEWAY_SESSION_PATH, &gateway_bearer()).await;
    gateway.say(&said).await;
    assert!(matches!(gateway.hear().await, ToGateway::Welcome { .. }));
    let ToGateway::RelaysSet { relays } = gateway.hear().await else {
        panic!("relays");
    };
    let own = open(&key, &relays[0].token);
    assert_eq!((own.client, own.port), (None, relays[0].port));

    let mut said = hello_client("laptop");
    if let FromClient::Hello { features, .. } = &mut said {
        features.push(ClientFeature::Relays);
    }
    let mut client: Machine<ToClient> = portal.dial(CLIENT_SESSION_PATH, &client_bearer()).await;
    client.say(&said).await;
    let id = match client.hear().await {
        ToClient::Welcome { relays, client, .. } => {
            assert_eq!(relays[0].name, "relay");
            client
        }
        other => panic!("{other:?}"),
    };
    let candidates = vec!["198.51.100.7:51820".parse().unwrap()];
    let told = FromClient::CandidatesChanged {
        candidates: candidates.clone(),
    };
    client.say(&told).await;
    client.say(&ask(1)).await;
    match gateway.hear().await {
        ToGateway::ClientCandidates {
            client,
            candidates: told,
            ..
        } => assert_eq!((client, told), (id, candidates)),
        other => panic!("{other:?}"),
    }
    let ToGateway::Grant { token, .. } = gateway.hear().await else {
        panic!("a grant");
    };
    let accepted = FromGateway::GrantAccepted {
        grant: id_in(&token),
        names: Vec::new(),
    };
    gateway.say(&accepted).await;
    let ToClient::AccessGranted { relays, .. } = client.hear().await else {
        panic!("access");
    };
    let claims = open(&key, &relays[0].token);
    assert_eq!((claims.client, claims.port), (Some(id), own.port));
    assert_eq!(claims.gateway, own.gateway);

    portal.delete(crate::portal::POLICY).await;
    match relay.hear().await {
        ToRelay::Withdraw {
            gateway,
            client,
            until,
        } => {
            assert_eq!((gateway, client), (own.gateway, Some(id)));
            assert!(until >= claims.iat);
        }
        other => panic!("{other:?}"),
    }
    portal.sessions.stop().await;
}

#[tokio::test]
async fn a_relay_enrols_is_seen_and_is_cut_off_when_it_is_revoked() {
    let portal = Portal::start().await;
    let (mut relay, _) = relay(&portal).await;
    let views = portal.sessions.relays().await.unwrap();
    assert_eq!(views.len(), 1);
    let mut row: Relay = portal.store.get_as(ACCOUNT, views[0].relay).await.unwrap();
    assert_eq!(row.seen.as_ref().unwrap().software, "0.1.0");
    row.revoked = Some(crate::portal::now());
    portal
        .write(vec![culvert_store::Mutation::Update {
            entity: row.into(),
            expected_version: None,
        }])
        .await;
    match relay.hear().await {
        ToRelay::Refused {
            reason,
            retry_after_s: None,
        } => assert_eq!(reason.code, ReasonCode::Revoked),
        other => panic!("{other:?}"),
    }
    let mut again = dial(&portal).await;
    again.say(&hello(1)).await;
    match again.hear().await {
        ToRelay::Refused { reason, .. } => assert_eq!(reason.code, ReasonCode::Revoked),
        other => panic!("{other:?}"),
    }
    portal.sessions.stop().await;
}

#[tokio::test]
async fn a_relay_without_addresses_and_a_token_of_another_kind_are_refused() {
    let portal = Portal::start().await;
    for addresses in [0, 9] {
        let mut relay = dial(&portal).await;
        relay.say(&hello(addresses)).await;
        match relay.hear().await {
            ToRelay::Refused {
                reason,
                retry_after_s: None,
            } => assert!(reason.text.contains("1 to 8 addresses"), "{}", reason.text),
            other => panic!("{other:?}"),
        }
    }
    let gateway = gateway_bearer().expose();
    let refused = portal.refusal(RELAY_SESSION_PATH, Some(&gateway)).await;
    assert_eq!(refused, StatusCode::UNAUTHORIZED);
    let relay = bearer(TokenKind::Relay, RELAY_TOKEN).expose();
    let refused = portal.refusal(GATEWAY_SESSION_PATH, Some(&relay)).await;
    assert_eq!(refused, StatusCode::UNAUTHORIZED);
    portal.sessions.stop().await;
}
