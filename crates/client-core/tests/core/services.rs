//! Resources with one target and other ports: a first packet asks for the one that has its port.

use super::names::{A, ask, granting};
use super::play::{
    Granting, Play, gateway_id, grant_id, prefix, reason, resource, resource_id, to,
};
use culvert_client_core::{MAX_SAME_TARGET, MIN_DENIAL_MS, PacketFacts, PacketRefusal};
use culvert_ids::ResourceId;
use culvert_policy::Service;
use culvert_wire::messages::{FromClient, ReasonCode, ToClient};
use culvert_wire::model::{Filter, PortRange, Resource};

const HOST: &str = "10.1.1.1";

fn ports(first: u16, last: u16) -> Vec<PortRange> {
    vec![PortRange { first, last }]
}

/// One port of TCP at an address or network.
fn tcp(number: u8, target: &str, port: u16) -> Resource {
    let mut one = resource(number, target);
    let ports = ports(port, port);
    one.filters = vec![Filter::Tcp { ports }].into();
    one
}

fn with_filters(number: u8, target: &str, filters: Vec<Filter>) -> Resource {
    let mut one = resource(number, target);
    one.filters = filters.into();
    one
}

/// A client with a grant for the first resource that has been out of use for long.
fn idle_with(first: Resource, address: &str) -> Play {
    let mut play = Play::open(&[]);
    play.hear(ToClient::ResourceSet { resource: first });
    play.gain(address, 1, Granting::through(1, 1));
    play.report_alive(1, 100);
    play.pass(60_000);
    play.report_alive(1, 100);
    assert!(play.said.is_empty());
    play
}

/// The requests that the client made, which are taken.
fn requests(play: &mut Play) -> Vec<(u64, ResourceId)> {
    let said = std::mem::take(&mut play.said).into_iter();
    let requests = said.filter_map(|message| match message {
        FromClient::RequestAccess {
            request, resource, ..
        } => Some((request, resource)),
        _ => None,
    });
    requests.collect()
}

#[test]
fn a_port_that_is_added_to_an_address_in_use_works_with_its_first_packet() {
    for address in [HOST, "fd00:1::1"] {
        let mut play = idle_with(tcp(1, address, 80), address);
        play.hear(ToClient::ResourceSet {
            resource: tcp(2, address, 6007),
        });
        assert!(
            !play.send(7, to(address, 6007)),
            "it takes no other's grant"
        );
        let (request, asked, ..) = play.take_request();
        assert_eq!(asked, resource_id(2));
        assert!(play.send(8, to(address, 80)), "the granted one goes on");
        play.grant(request, 2, Granting::through(1, 2));
        assert_eq!(play.resumed, [7]);
        assert!(play.send(9, to(address, 6007)));
        assert!(play.services.is_empty(), "nothing is left to look at");
    }
}

#[test]
fn every_protocol_and_port_asks_for_the_resource_that_has_it() {
    let mut play = idle_with(tcp(1, HOST, 80), HOST);
    let udp = Filter::Udp {
        ports: ports(1000, 2000),
    };
    for resource in [
        with_filters(2, HOST, vec![udp]),
        with_filters(3, HOST, vec![Filter::Icmp]),
    ] {
        play.hear(ToClient::ResourceSet { resource });
    }
    let facts = |service| PacketFacts {
        service: Some(service),
        ..to(HOST, 0)
    };
    for (number, service) in [(2, Service::Udp(1500)), (3, Service::Icmp)] {
        assert!(!play.send(number, facts(service)));
        let asked = requests(&mut play);
        let of_it = asked.iter().find(|(_, id)| *id == resource_id(2));
        if service != Service::Icmp {
            assert!(of_it.is_some(), "{asked:?}");
        }
        for (request, id) in asked {
            let number = if id == resource_id(2) { 2 } else { 3 };
            play.grant(request, number, Granting::through(1, number));
        }
        if play.services.is_empty() {
            break;
        }
    }
    assert!(play.send(9, facts(Service::Icmp)));
    assert!(play.send(9, facts(Service::Udp(2000))));
    assert!(play.send(9, facts(Service::Udp(2001))), "of no resource");
}

#[test]
fn a_network_that_gains_a_resource_asks_for_it_from_all_of_its_addresses() {
    let mut play = idle_with(tcp(1, "10.1.0.0/16", 80), "10.1.7.7");
    play.hear(ToClient::ResourceSet {
        resource: tcp(2, "10.1.0.0/16", 22),
    });
    play.hear(ToClient::ResourceSet {
        resource: tcp(3, "10.1.2.0/24", 443),
    });
    assert!(!play.send(1, to("10.1.9.9", 22)));
    let (request, asked, ..) = play.take_request();
    assert_eq!(asked, resource_id(2));
    play.grant(request, 2, Granting::through(1, 2));
    assert!(play.send(2, to("10.1.200.1", 22)));
    // The narrower one has its own ports.
    assert!(!play.send(3, to("10.1.2.1", 443)));
    assert_eq!(play.take_request().1, resource_id(3));
}

#[test]
fn a_port_range_that_is_widened_needs_no_other_grant() {
    let mut play = idle_with(tcp(1, HOST, 80), HOST);
    let wide = Filter::Tcp {
        ports: ports(80, 8080),
    };
    play.hear(ToClient::ResourceSet {
        resource: with_filters(1, HOST, vec![wide]),
    });
    assert!(play.send(1, to(HOST, 8080)));
    assert!(play.said.is_empty());
}

#[test]
fn a_resource_beyond_those_that_are_asked_for_together_is_asked_for_by_its_own_packet() {
    let mut play = Play::open(&[]);
    let count = u8::try_from(MAX_SAME_TARGET).unwrap() + 2;
    for number in 1..=count {
        play.hear(ToClient::ResourceSet {
            resource: tcp(number, HOST, number.into()),
        });
    }
    play.packet(1, to(HOST, 1));
    for (request, id) in requests(&mut play) {
        let number = (1..=count).find(|number| resource_id(*number) == id);
        play.grant(
            request,
            number.unwrap(),
            Granting::through(1, number.unwrap()),
        );
    }
    assert!(!play.send(2, to(HOST, count.into())));
    let (request, asked, ..) = play.take_request();
    assert_eq!(asked, resource_id(count));
    play.grant(request, count, Granting::through(1, count));
    assert!(play.send(3, to(HOST, count.into())));
}

#[test]
fn a_port_whose_resource_is_denied_is_refused_at_once_and_asked_for_again_after_the_no() {
    let mut play = idle_with(tcp(1, HOST, 80), HOST);
    play.hear(ToClient::ResourceSet {
        resource: tcp(2, HOST, 22),
    });
    play.send(1, to(HOST, 22));
    let (request, ..) = play.take_request();
    play.deny(request, 2, ReasonCode::ConditionNotMet);
    for number in 2..100 {
        assert!(!play.send(number, to(HOST, 22)));
    }
    assert_eq!(play.refused.len(), 99);
    assert_eq!(play.refused[98], (99, PacketRefusal::Prohibited));
    assert!(play.said.is_empty(), "the portal hears of it once");
    play.pass(MIN_DENIAL_MS);
    play.send(100, to(HOST, 22));
    assert_eq!(play.take_request().1, resource_id(2));
}

#[test]
fn a_port_whose_grant_is_revoked_no_longer_takes_another_grants_route() {
    let mut play = idle_with(tcp(1, HOST, 80), HOST);
    play.hear(ToClient::ResourceSet {
        resource: tcp(2, HOST, 22),
    });
    play.send(1, to(HOST, 22));
    let (request, ..) = play.take_request();
    play.grant(request, 2, Granting::through(1, 2));
    play.hear(ToClient::AccessRevoked {
        grant: grant_id(2),
        reason: reason(ReasonCode::PolicyChanged),
    });
    assert!(!play.send(2, to(HOST, 22)));
    assert_eq!(play.refused, [(2, PacketRefusal::Prohibited)]);
    play.hear(ToClient::ResourceRemoved {
        resource: resource_id(2),
    });
    assert!(play.services.is_empty());
    assert!(play.send(3, to(HOST, 80)));
}

#[test]
fn packets_of_a_grant_through_another_gateway_than_the_routes_go_round_in_no_circle() {
    let mut play = idle_with(tcp(1, HOST, 80), HOST);
    play.hear(ToClient::ResourceSet {
        resource: tcp(2, HOST, 22),
    });
    play.send(1, to(HOST, 22));
    let (request, ..) = play.take_request();
    play.grant(request, 2, Granting::through(2, 2));
    assert_eq!(play.way_to(HOST), Some(gateway_id(1)));
    assert!(play.resumed.is_empty(), "the route is the other gateway's");
    assert!(!play.send(2, to(HOST, 22)));
    let refused = [
        (1, PacketRefusal::Unreachable),
        (2, PacketRefusal::Unreachable),
    ];
    assert_eq!(play.refused, refused);
    assert_eq!(play.services.keys().next(), Some(&prefix("10.1.1.1/32")));
}

#[test]
fn a_port_that_is_added_to_a_name_in_use_asks_with_the_name() {
    const NAME: &str = "db.corp.example";
    let mut play = Play::open(&[]);
    play.hear(ToClient::ResourceSet {
        resource: tcp(1, "*.corp.example", 80),
    });
    ask(&mut play, NAME, A);
    let (request, _, names, _) = play.take_request();
    play.grant(request, 1, granting(1, 1, &[NAME]));
    let address = names[0].ipv4.to_string();
    assert!(play.send(1, to(&address, 80)));
    play.pass(60_000);
    play.hear(ToClient::ResourceSet {
        resource: tcp(2, "*.corp.example", 6007),
    });
    assert!(!play.send(2, to(&address, 6007)));
    let (request, asked, wanted, _) = play.take_request();
    assert_eq!((asked, &wanted), (resource_id(2), &names));
    play.grant(request, 2, granting(1, 2, &[NAME]));
    assert_eq!(play.resumed, [2]);
    for address in [&address, &names[0].ipv6.to_string()] {
        assert!(play.send(3, to(address, 6007)), "{address}");
    }
}
