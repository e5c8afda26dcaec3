//! Other networks for the inside of the tunnel.

use crate::portal::{ACCOUNT, Portal};
use culvert_store::{Account, Mutation, StoreExt};
use culvert_wire::messages::{Interface, ToClient, ToGateway};

fn is_in_new_networks(interface: Interface) -> bool {
    let ipv4 = interface.ipv4.octets();
    ipv4[..2] == [10, 20] && ipv4[2] < 128 && interface.ipv6.segments()[0] == 0xfd12
}

#[tokio::test]
async fn all_machines_are_told_to_come_back_and_get_addresses_of_the_new_networks() {
    let portal = Portal::start().await;
    let mut gateway = portal.gateway("gateway").await;
    let mut client = portal.client("laptop").await;
    assert!(matches!(gateway.hear().await, ToGateway::Welcome { .. }));
    let ToClient::Welcome { client: id, .. } = client.hear().await else {
        panic!("welcome");
    };

    let mut account: Account = portal.store.get_as(ACCOUNT, ACCOUNT).await.unwrap();
    let ranges = &mut account.settings.ranges;
    ranges.machines_ipv4 = "10.20.0.0/17".to_owned();
    ranges.names_ipv4 = "10.20.128.0/17".to_owned();
    ranges.machines_ipv6 = "fd12:3456::/107".to_owned();
    ranges.names_ipv6 = "fd12:3456::8000:0:0:0/107".to_owned();
    let new = ranges.clone();
    let update = Mutation::Update {
        entity: account.into(),
        expected_version: None,
    };
    portal.write(vec![update]).await;
    match (client.hear().await, gateway.hear().await) {
        (
            ToClient::Refused {
                retry_after_s: Some(_),
                ..
            },
            ToGateway::Refused {
                retry_after_s: Some(_),
                ..
            },
        ) => {}
        other => panic!("{other:?}"),
    }

    let mut gateway = portal.gateway("gateway").await;
    match gateway.hear().await {
        ToGateway::Welcome {
            interface, ranges, ..
        } => assert!(is_in_new_networks(interface) && ranges == new),
        other => panic!("{other:?}"),
    }
    let mut client = portal.client("laptop").await;
    match client.hear().await {
        ToClient::Welcome {
            client,
            interface,
            ranges,
            ..
        } => assert!(client == id && is_in_new_networks(interface) && ranges == new),
        other => panic!("{other:?}"),
    }
}
