//! The addresses and certificates of the portal, which machines keep.

use crate::world::{World, client, gateway};
use culvert_wire::messages::{ClientFeature, GatewayFeature, PortalSet, ToClient, ToGateway};

fn set(url: &str) -> PortalSet {
    PortalSet {
        urls: vec![url.to_owned()],
        pins: Vec::new(),
        authorities: true,
    }
}

/// A world with a client and a gateway, which keep addresses or are too old for that.
fn connected(keep: bool) -> World {
    let mut world = World::simple();
    if keep {
        let features = &mut world.clients.entry(client(1)).or_default().features;
        features.push(ClientFeature::Portals);
        let gateway = world.gateways.get_mut(&gateway(1)).unwrap();
        gateway.features.push(GatewayFeature::Portals);
    }
    world.join_gateway(1);
    world.join_client(1);
    world
}

/// The sets that were told since the last call.
fn told(world: &mut World) -> Vec<PortalSet> {
    let clients = std::mem::take(&mut world.to_clients).into_iter();
    let clients = clients.filter_map(|(_, message)| match message {
        ToClient::Welcome { portals, .. } | ToClient::PortalsSet { portals } => Some(portals),
        _ => None,
    });
    let gateways = std::mem::take(&mut world.to_gateways).into_iter();
    let gateways = gateways.filter_map(|(_, message)| match message {
        ToGateway::Welcome { portals, .. } | ToGateway::PortalsSet { portals } => Some(portals),
        _ => None,
    });
    clients.chain(gateways).collect()
}

#[test]
fn machines_hear_where_the_portal_is_with_their_welcome_and_with_each_change() {
    let mut world = connected(true);
    told(&mut world);
    world.hub.handle_portals(set("https://a.example"));
    world.drain();
    assert_eq!(
        told(&mut world),
        [set("https://a.example"), set("https://a.example")]
    );
    world.hub.handle_portals(set("https://a.example"));
    world.drain();
    assert_eq!(told(&mut world), []);
    world.join_client(1);
    assert_eq!(told(&mut world), [set("https://a.example")]);
}

#[test]
fn machines_that_can_not_keep_it_are_told_nothing_new_and_the_log_says_so() {
    let mut world = connected(false);
    told(&mut world);
    world.hub.handle_portals(set("https://a.example"));
    let line = world.hub.poll_log().unwrap().to_string();
    assert!(line.contains("machines=2"), "{line}");
    world.drain();
    assert_eq!(told(&mut world), []);
}
