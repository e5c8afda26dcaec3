//! Resources on the gateway's own machine, which serves nobody there.

use super::play::{Play, claims, found, grant_id, name_claims, target, wanted};
use culvert_policy::gate::DropReason;
use culvert_wire::messages::ReasonCode;
use std::net::IpAddr;

const DB: &str = "db.corp.example";
const WIKI: &str = "wiki.corp.example";

/// A gateway whose machine has these addresses.
fn at(addresses: &[&str]) -> Play {
    let mut play = Play::open();
    play.moves_to(addresses);
    play
}

impl Play {
    fn moves_to(&mut self, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse::<IpAddr>().unwrap());
        self.gateway
            .handle_host_addresses(addresses.collect(), self.now());
        self.execute();
    }
}

#[test]
fn a_resource_on_the_gateways_machine_is_refused_with_the_option_that_serves_it() {
    for address in ["10.50.0.1", "10.50.0.1/32", "fd50::1", "fd50::1/128"] {
        let mut play = at(&["10.50.0.1", "fd50::1"]);
        let mut own = claims(1, 5, 9);
        own.target = target(address).into();
        play.grant(&own);
        play.assert_refused(1, ReasonCode::HostAddress, "--host-access");
        play.assert_reaches_nothing();
        let problems = play.gateway.host_problems(play.now());
        assert!(
            problems[0].contains("\"web\" is on this machine"),
            "{problems:?}"
        );
        play.pass(600_000);
        assert!(play.gateway.host_problems(play.now()).is_empty());
    }
}

#[test]
fn a_gateway_that_may_be_reached_itself_serves_a_resource_there() {
    let mut play = at(&[]);
    let mut own = claims(1, 5, 9);
    own.target = target("10.50.0.1").into();
    play.grant(&own);
    play.assert_accepted(1);
    play.assert_reaches(5, "10.50.0.1:80");
}

#[test]
fn of_a_network_around_the_gateway_only_its_own_address_is_closed() {
    let mut play = at(&["10.0.9.1"]);
    play.grant(&claims(1, 5, 9));
    play.assert_accepted(1);
    play.assert_reaches(5, "10.0.9.2:80");
    assert_eq!(play.send(5, "10.0.9.1:80"), Err(DropReason::HostAddress));
    play.moves_to(&["10.0.9.2"]);
    play.assert_reaches(5, "10.0.9.1:80");
    assert_eq!(play.send(5, "10.0.9.2:80"), Err(DropReason::HostAddress));
}

#[test]
fn a_name_that_leads_to_the_gateways_machine_is_refused_unless_another_name_does_not() {
    let mut play = at(&["10.50.0.1"]);
    let by_name = name_claims(1, 5, 9, "*.corp.example");
    play.grant_with(&by_name, None, &[wanted(DB, 1)]);
    play.resolved(DB, found(&["10.50.0.1"]));
    play.assert_refused(1, ReasonCode::HostAddress, "10.50.0.1");

    let by_name = name_claims(2, 5, 9, "*.corp.example");
    play.grant_with(&by_name, None, &[wanted(DB, 1), wanted(WIKI, 2)]);
    play.resolved(WIKI, found(&["10.50.0.2"]));
    let accepted: Vec<_> = play.take_accepted().into_iter().map(|(id, _)| id).collect();
    assert_eq!(accepted, [grant_id(2)]);
    assert_eq!(play.send(5, "100.96.0.1:80"), Err(DropReason::HostAddress));
    assert!(play.send(5, "100.96.0.2:80").is_ok());
}
