//! The bytes of resources over grants and gateways.

use super::play::{Granting, Play, gateway_id, grant_id, reason, resource, resource_id};
use culvert_base::{Prefix, Traffic, TrafficSlot};
use culvert_wire::messages::{ReasonCode, ToClient};

/// The place where the data plane counts a range.
fn place(play: &Play, range: &str) -> Option<TrafficSlot> {
    let range: Prefix = range.parse().unwrap();
    let mut peers = play.peers.values();
    peers.find_map(|peer| peer.counted.get(&range).copied())
}

/// Sent and received bytes of the resource at this place of the list.
fn told(play: &Play, number: usize) -> Option<(u64, u64)> {
    let view = play.client.view(play.now(), play.unix());
    let resource = &view.resources[number];
    Some((resource.sent_bytes?, resource.received_bytes?))
}

/// The data plane tells the sums at its places.
fn report(play: &mut Play, sums: &[(u64, u64)]) {
    let sums: Vec<_> = sums
        .iter()
        .map(|(sent_bytes, received_bytes)| Traffic {
            sent_bytes: *sent_bytes,
            received_bytes: *received_bytes,
        })
        .collect();
    assert_eq!(play.client.counted_places(), sums.len());
    play.client.handle_traffic(&sums);
    play.report_alive(1, 10);
}

#[test]
fn two_resources_through_one_gateway_have_sums_of_their_own() {
    let mut play = Play::open(&[(1, "10.0.0.0/8"), (2, "172.16.0.0/12"), (3, "192.0.2.0/24")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.gain("172.16.0.1", 2, Granting::through(1, 2));
    assert_ne!(place(&play, "10.0.0.0/8"), place(&play, "172.16.0.0/12"));
    report(&mut play, &[(1, 2), (30, 40)]);
    assert_eq!(told(&play, 0), Some((1, 2)));
    assert_eq!(told(&play, 1), Some((30, 40)));
    assert_eq!(told(&play, 2), None, "it was never granted");
}

#[test]
fn sums_go_on_through_another_gateway() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    let before = place(&play, "10.0.0.0/8");
    report(&mut play, &[(5, 7)]);
    play.hear(ToClient::GatewayLost {
        gateway: gateway_id(1),
    });
    let (request, ..) = play.take_request();
    play.grant(request, 1, Granting::through(2, 2));
    assert_eq!(place(&play, "10.0.0.0/8"), before);
    assert_eq!(told(&play, 0), Some((5, 7)));
}

#[test]
fn a_resource_keeps_its_sums_while_access_is_taken_back() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    report(&mut play, &[(5, 7)]);
    play.hear(ToClient::AccessRevoked {
        grant: grant_id(1),
        reason: reason(ReasonCode::PolicyChanged),
    });
    assert_eq!(place(&play, "10.0.0.0/8"), None);
    assert_eq!(told(&play, 0), Some((5, 7)));
}

#[test]
fn a_resource_that_was_gone_begins_anew() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    report(&mut play, &[(5, 7)]);
    play.hear(ToClient::ResourceRemoved {
        resource: resource_id(1),
    });
    play.hear(ToClient::ResourceSet {
        resource: resource(1, "10.0.0.0/8"),
    });
    assert_eq!(told(&play, 0), None);
}
