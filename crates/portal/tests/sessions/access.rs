//! From hello to access, and back.

use crate::portal::{
    DEADLINE, GROUP, MEMBERSHIP, Machine, POLICY, Portal, RESOURCE, a_resource, hello_gateway, now,
    random,
};
use culvert_ids::{GrantId, PolicyId, ResourceId};
use culvert_store::{AccessFilter, Decision, Mutation, PageLimit, Policy, Stamp};
use culvert_wire::GATEWAY_SESSION_PATH;
use culvert_wire::messages::{FromClient, FromGateway, ReasonCode, ToClient, ToGateway};

pub(crate) fn ask(request: u64) -> FromClient {
    FromClient::RequestAccess {
        request,
        resource: RESOURCE,
        names: Vec::new(),
        avoid: Vec::new(),
    }
}

/// Gets a client access through a gateway, both of which have heard `welcome`.
async fn grant(client: &mut Machine<ToClient>, gateway: &mut Machine<ToGateway>) -> GrantId {
    client.say(&ask(1)).await;
    let ToGateway::Grant { token, .. } = gateway.hear().await else {
        panic!("a grant");
    };
    let grant = id_in(&token);
    let names = Vec::new();
    gateway
        .say(&FromGateway::GrantAccepted { grant, names })
        .await;
    match client.hear().await {
        ToClient::AccessGranted {
            request: 1,
            grant: told,
            ..
        } => assert_eq!(told, grant),
        other => panic!("{other:?}"),
    }
    grant
}

/// The grant of a token, whose signature other tests look at.
pub(crate) fn id_in(token: &str) -> GrantId {
    use pasetors::{Public, token::UntrustedToken, version4::V4};
    let token = UntrustedToken::<Public, V4>::try_from(token).unwrap();
    let claims: culvert_wire::GrantClaims =
        serde_json::from_slice(token.untrusted_payload()).unwrap();
    claims.grant
}

async fn welcome(portal: &Portal) -> (Machine<ToClient>, Machine<ToGateway>) {
    let mut gateway = portal.gateway("gateway").await;
    let mut client = portal.client("laptop").await;
    assert!(matches!(gateway.hear().await, ToGateway::Welcome { .. }));
    match client.hear().await {
        ToClient::Welcome { resources, .. } => assert_eq!(resources[0].id, RESOURCE),
        other => panic!("{other:?}"),
    }
    (client, gateway)
}

#[tokio::test]
async fn a_change_in_the_database_reaches_gateway_and_client() {
    let portal = Portal::start().await;
    let (mut client, mut gateway) = welcome(&portal).await;
    let id = grant(&mut client, &mut gateway).await;
    portal.delete(MEMBERSHIP).await;
    assert_eq!(gateway.hear().await, ToGateway::Revoke { grant: id });
    match client.hear().await {
        ToClient::AccessRevoked { grant, reason } => {
            assert_eq!((grant, reason.code), (id, ReasonCode::NoAccess));
        }
        other => panic!("{other:?}"),
    }
    let resource = RESOURCE;
    assert_eq!(client.hear().await, ToClient::ResourceRemoved { resource });
    client.say(&ask(2)).await;
    assert!(matches!(
        client.hear().await,
        ToClient::AccessDenied { request: 2, .. }
    ));
    portal.sessions.stop().await;
    let filter = AccessFilter::default();
    let log = portal
        .store
        .access_log(crate::portal::ACCOUNT, &filter, None, PageLimit::MAX)
        .await
        .unwrap();
    let decisions: Vec<_> = log.items.iter().map(|entry| entry.entry.decision).collect();
    assert_eq!(
        decisions,
        [Decision::Denied, Decision::Revoked, Decision::Granted]
    );
}

#[tokio::test]
async fn a_policy_for_an_operating_system_admits_one_client_and_denies_another() {
    let portal = Portal::start().await;
    let mut gateway = portal.gateway("gateway").await;
    assert!(matches!(gateway.hear().await, ToGateway::Welcome { .. }));
    let conditions = r#"[{"kind":"client_os","systems":[{"id":"debian","min_version":"12"}]}]"#;
    let policy = Policy {
        id: POLICY,
        name: "builders may".to_owned(),
        group: GROUP,
        resource: RESOURCE,
        disabled: false,
        conditions: serde_json::from_str(conditions).unwrap(),
        stamp: Stamp::default(),
    };
    let expected_version = None;
    portal
        .write(vec![Mutation::Update {
            entity: policy.into(),
            expected_version,
        }])
        .await;
    let mut old = portal
        .client_running(
            "old",
            Some(r#"{"family":"linux","id":"debian","version":"11"}"#),
        )
        .await;
    let mut silent = portal.client_running("silent", None).await;
    let mut new = portal
        .client_running(
            "new",
            Some(r#"{"family":"linux","id":"debian","version":"12.1"}"#),
        )
        .await;
    for client in [&mut old, &mut silent, &mut new] {
        assert!(matches!(client.hear().await, ToClient::Welcome { .. }));
    }
    grant(&mut new, &mut gateway).await;
    for (client, says) in [
        (&mut old, "not allowed from this operating system"),
        (&mut silent, "does not tell its operating system"),
    ] {
        client.say(&ask(1)).await;
        let ToClient::AccessDenied { reason, .. } = client.hear().await else {
            panic!("a denial");
        };
        assert_eq!(reason.code, ReasonCode::ConditionNotMet);
        assert!(reason.text.contains(says), "{}", reason.text);
    }
    portal.sessions.stop().await;
    let filter = AccessFilter::default();
    let log = portal
        .store
        .access_log(crate::portal::ACCOUNT, &filter, None, PageLimit::MAX)
        .await
        .unwrap();
    let reasons: Vec<_> = log
        .items
        .iter()
        .map(|entry| entry.entry.reason.as_str())
        .collect();
    let says = "the client says that it runs debian 11; the policy asks for debian 12 or later";
    assert!(
        reasons.iter().any(|reason| reason.contains(says)),
        "{reasons:?}"
    );
}

#[tokio::test]
async fn what_is_written_at_once_arrives_in_order() {
    let portal = Portal::start().await;
    let (mut client, _gateway) = welcome(&portal).await;
    let mut mutations = Vec::new();
    let mut ids = Vec::new();
    for number in 1..=100_u8 {
        let id = ResourceId::new(now().unix_time(), [number; 10]);
        ids.push(id);
        let row = a_resource(id, &format!("10.1.{number}.0/24"));
        mutations.push(Mutation::Create(row.into()));
        let policy = Policy {
            id: PolicyId::new(now().unix_time(), [number; 10]),
            name: format!("policy {number}"),
            group: GROUP,
            resource: id,
            disabled: false,
            conditions: Vec::new(),
            stamp: Stamp::default(),
        };
        mutations.push(Mutation::Create(policy.into()));
    }
    portal.write(mutations).await;
    let mut told = Vec::new();
    for _ in &ids {
        match client.hear().await {
            ToClient::ResourceSet { resource } => told.push(resource.id),
            other => panic!("{other:?}"),
        }
    }
    told.sort_unstable();
    ids.sort_unstable();
    assert_eq!(told, ids);
}

#[tokio::test]
async fn a_restart_of_the_portal_keeps_what_was_granted() {
    let portal = Portal::start().await;
    let (mut client, mut gateway) = welcome(&portal).await;
    let id = grant(&mut client, &mut gateway).await;
    let portal = portal.restart().await;
    // Everybody was told to come back, and nobody that a grant has ended.
    for refused in [
        matches!(
            client.hear().await,
            ToClient::Refused {
                retry_after_s: Some(_),
                ..
            }
        ),
        matches!(
            gateway.hear().await,
            ToGateway::Refused {
                retry_after_s: Some(_),
                ..
            }
        ),
    ] {
        assert!(refused);
    }
    assert!(client.try_hear().await.is_none());
    let mut gateway: Machine<ToGateway> = portal
        .dial(GATEWAY_SESSION_PATH, &crate::portal::gateway_bearer())
        .await;
    let mut hello = hello_gateway("gateway");
    if let FromGateway::Hello { grants, .. } = &mut hello {
        *grants = vec![id, GrantId::new(now().unix_time(), random())];
    }
    gateway.say(&hello).await;
    match gateway.hear().await {
        ToGateway::Welcome { grants, .. } => assert_eq!(grants, [id]),
        other => panic!("{other:?}"),
    }
    // Client and resource are younger than a minute: the portal does not know any more whether the
    // grant was signed for what they are now, and signs it anew in its place.
    assert!(matches!(
        gateway.hear().await,
        ToGateway::FiltersChanged { .. }
    ));
    let anew = match gateway.hear().await {
        ToGateway::Grant {
            token, replaces, ..
        } => {
            assert_eq!(replaces, Some(id));
            id_in(&token)
        }
        other => panic!("{other:?}"),
    };
    let names = Vec::new();
    gateway
        .say(&FromGateway::GrantAccepted { grant: anew, names })
        .await;
    assert!(gateway.next_is_unsupported().await);
    // To the client it is the one that it has.
    let mut client = portal.client("laptop").await;
    match client.hear().await {
        ToClient::Welcome { grants, .. } => assert_eq!(grants, [id]),
        other => panic!("{other:?}"),
    }
    // And it is revoked as if nothing had been.
    portal.delete(POLICY).await;
    assert_eq!(gateway.hear().await, ToGateway::Revoke { grant: anew });
    match client.hear().await {
        ToClient::AccessRevoked { grant, .. } => assert_eq!(grant, id),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_gateway_that_disconnects_is_lost_to_its_clients_at_once() {
    let portal = Portal::start().await;
    let (mut client, mut gateway) = welcome(&portal).await;
    grant(&mut client, &mut gateway).await;
    drop(gateway);
    assert!(matches!(client.hear().await, ToClient::GatewayLost { .. }));
}

#[tokio::test]
async fn the_api_sees_who_is_there_and_why_access_is_given() {
    let portal = Portal::start().await;
    let (mut client, mut gateway) = welcome(&portal).await;
    grant(&mut client, &mut gateway).await;
    let status = portal.sessions.status().await.unwrap();
    assert_eq!((status.clients, status.gateways, status.grants), (1, 1, 1));
    let clients = portal.sessions.clients().await.unwrap();
    let id = clients[0].client;
    let explained = portal.sessions.explain(id, RESOURCE).await.unwrap();
    assert!(explained.is_allow());
    // Explanations respect all changes committed before the question.
    portal.delete(POLICY).await;
    let explained = portal.sessions.explain(id, RESOURCE).await.unwrap();
    assert!(!explained.is_allow());
    drop(client);
    let gone = async {
        while portal.sessions.status().await.unwrap().clients > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.unwrap();
    assert_eq!(portal.sessions.obstacles(), Vec::<String>::new());
}
