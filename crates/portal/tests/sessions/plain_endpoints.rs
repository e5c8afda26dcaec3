//! A gateway tells where a plain WireGuard device is: access, the row of the device and explanations follow.

use crate::access::id_in;
use crate::portal::{
    ACCOUNT, ACTOR, DEADLINE, GROUP, Machine, POLICY, Portal, RESOURCE, gateway_bearer,
    hello_gateway, now,
};
use culvert_ids::{ClientId, GatewayId};
use culvert_store::{Author, Client, Mutation, NewPlainClient, Policy, Stamp, StoreExt};
use culvert_wire::messages::{DeviceEndpoint, FromGateway, GatewayFeature, ToGateway};
use culvert_wire::model::{Condition, WrittenPublicAddresses};
use culvert_wire::{GATEWAY_SESSION_PATH, PublicKey};
use std::net::IpAddr;
use tokio::time::timeout;

const DEVICE: ClientId = ClientId::from_bytes([21; 16]);
const KEY: PublicKey = PublicKey::from_bytes([9; 32]);
const HOME: &str = "198.51.100.7";
const ROAD: &str = "203.0.113.9";

async fn gateway(portal: &Portal) -> (Machine<ToGateway>, GatewayId) {
    let mut said = hello_gateway("gateway");
    if let FromGateway::Hello { features, .. } = &mut said {
        features.push(GatewayFeature::DeviceEndpoints);
    }
    let mut gateway: Machine<ToGateway> =
        portal.dial(GATEWAY_SESSION_PATH, &gateway_bearer()).await;
    gateway.say(&said).await;
    let ToGateway::Welcome { gateway: id, .. } = gateway.hear().await else {
        panic!("welcome");
    };
    (gateway, id)
}

fn at(address: &str) -> FromGateway {
    FromGateway::DeviceEndpoints {
        devices: vec![DeviceEndpoint {
            client: DEVICE,
            client_key: KEY,
            address: Some(address.parse().unwrap()),
            handshake: now(),
        }],
        more: false,
    }
}

async fn only_from_home(portal: &Portal) {
    let conditions = vec![Condition::PublicAddress(WrittenPublicAddresses {
        cidrs: vec!["198.51.100.0/24".to_owned()],
    })];
    let policy = Policy {
        id: POLICY,
        name: "builders may".to_owned(),
        group: GROUP,
        resource: RESOURCE,
        disabled: false,
        conditions,
        stamp: Stamp::default(),
    };
    portal
        .write(vec![Mutation::Update {
            entity: policy.into(),
            expected_version: None,
        }])
        .await;
}

async fn accept(gateway: &mut Machine<ToGateway>) {
    let ToGateway::Grant { token, .. } = gateway.hear().await else {
        panic!("a grant");
    };
    let (grant, names) = (id_in(&token), Vec::new());
    gateway
        .say(&FromGateway::GrantAccepted { grant, names })
        .await;
}

/// Waits until the row of the device says where it was last seen.
async fn recorded(portal: &Portal, address: &str) {
    let address: IpAddr = address.parse().unwrap();
    let seen = async {
        loop {
            let row: Client = portal.store.get_as(ACCOUNT, DEVICE).await.unwrap();
            if row.seen.is_some_and(|seen| seen.address == Some(address)) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(DEADLINE, seen).await.unwrap();
}

#[tokio::test]
async fn access_the_row_and_explanations_follow_a_device() {
    let portal = Portal::start().await;
    only_from_home(&portal).await;
    let (mut line, id) = gateway(&portal).await;
    let ToGateway::DevicesAdmitted { devices, more, .. } = line.hear().await else {
        panic!("the list");
    };
    assert!(devices.is_empty() && !more);
    let new = NewPlainClient {
        id: DEVICE,
        actor: ACTOR,
        gateways: vec![id],
        name: "phone".to_owned(),
        public_key: KEY,
        name_shares: true,
    };
    let added = portal
        .store
        .add_plain_client(ACCOUNT, Author::PORTAL, new, now());
    added.await.unwrap();
    let ToGateway::DeviceAdmitted { device } = line.hear().await else {
        panic!("the device is admitted");
    };
    assert_eq!((device.client, device.client_key), (DEVICE, KEY));
    line.say(&at(HOME)).await;
    accept(&mut line).await;
    recorded(&portal, HOME).await;
    let explained = portal.sessions.explain(DEVICE, RESOURCE).await.unwrap();
    let judged = explained.judged.unwrap();
    assert_eq!(judged.address, Some(HOME.parse().unwrap()));
    assert_eq!(judged.gateway, Some(id));

    line.say(&at(ROAD)).await;
    assert!(matches!(line.hear().await, ToGateway::Revoke { .. }));
    recorded(&portal, ROAD).await;
    let endpoints = portal.sessions.device_endpoints(DEVICE).await.unwrap();
    assert_eq!(endpoints.len(), 1);
    assert_eq!(endpoints[0].address, Some(ROAD.parse().unwrap()));
    assert!(endpoints[0].counts);
    let explained = portal.sessions.explain(DEVICE, RESOURCE).await.unwrap();
    assert!(!explained.is_allow());

    // A portal that starts anew does not give by what it remembers, and the device has its access back once it is heard.
    let portal = portal.restart().await;
    let (mut line, _) = gateway(&portal).await;
    let ToGateway::DevicesAdmitted { devices, .. } = line.hear().await else {
        panic!("the list");
    };
    assert_eq!(devices.len(), 1);
    line.say(&at(HOME)).await;
    accept(&mut line).await;
    portal.sessions.stop().await;
}
