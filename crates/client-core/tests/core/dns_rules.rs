//! The account's rules about names: where questions go, and what the system is told.

use crate::play::{Play, options, resource, resource_id};
use culvert_base::UnixTime;
use culvert_client_core::{Client, Domains};
use culvert_dns::Transport;
use culvert_wire::messages::{ClientFeature, FromClient, ToClient};
use culvert_wire::model::{Dns, DnsDomain};
use std::net::SocketAddr;

const UPSTREAM: &str = "192.0.2.53:53";

fn dns(search: &[&str], zones: &[(&str, &[&str])]) -> Dns {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let domains = zones.iter().map(|(name, servers)| DnsDomain {
        name: (*name).to_owned(),
        servers: texts(servers),
    });
    Dns {
        search: texts(search),
        domains: domains.collect(),
    }
}

/// A question of type A for a name.
fn question(name: &str) -> Vec<u8> {
    let mut bytes = vec![0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// The server that is asked for a name, if there is one.
fn asked_of(play: &mut Play, name: &str) -> Option<String> {
    play.upstreams.clear();
    let from: SocketAddr = "127.0.0.1:4000".parse().unwrap();
    play.client
        .handle_dns_query(&question(name), Transport::Udp, from, play.now());
    play.poll();
    play.upstreams.first().map(ToString::to_string)
}

fn within(domains: &[&str]) -> Domains {
    Domains::Within(domains.iter().map(|it| it.parse().unwrap()).collect())
}

#[test]
fn a_client_says_that_it_follows_rules_about_names() {
    let mut play = Play::new();
    play.client.handle_timeout(play.now());
    play.poll();
    play.connect();
    let [FromClient::Hello { features, .. }] = &play.said[..] else {
        panic!("{:?}", play.said);
    };
    assert!(features.contains(&ClientFeature::Dns));
}

#[test]
fn names_in_a_zone_are_asked_of_its_servers_until_the_portal_takes_it_away() {
    let mut play = Play::open(&[(1, "db.office.example")]);
    assert_eq!(
        asked_of(&mut play, "wiki.office.example").unwrap(),
        UPSTREAM
    );
    let rules = dns(&["office.example"], &[("office.example", &["10.0.0.53"])]);
    play.hear(ToClient::DnsSet { dns: rules });
    let server = "10.0.0.53:53";
    assert_eq!(asked_of(&mut play, "wiki.office.example").unwrap(), server);
    assert_eq!(asked_of(&mut play, "www.example.org").unwrap(), UPSTREAM);
    assert_eq!(asked_of(&mut play, "db.office.example"), None, "a resource");
    assert_eq!(play.domains.last(), Some(&within(&["office.example"])));
    assert_eq!(play.search, ["office.example"]);
    let view = play.client.view(play.now(), UnixTime::EPOCH);
    assert_eq!(view.search, ["office.example"]);
    assert_eq!(view.zones[0].name, "office.example");
    assert_eq!(view.zones[0].servers.len(), 1);

    play.hear(ToClient::DnsSet {
        dns: Dns::default(),
    });
    assert_eq!(
        asked_of(&mut play, "wiki.office.example").unwrap(),
        UPSTREAM
    );
    assert_eq!(play.domains.last(), Some(&within(&["db.office.example"])));
    assert!(play.search.is_empty());
}

#[test]
fn rules_that_changed_while_the_portal_was_away_come_with_its_welcome() {
    let mut play = Play::open(&[]);
    play.dns = dns(&["a.example"], &[(".", &["10.0.0.53"])]);
    play.reconnect(vec![resource(1, "db.corp.example")], Vec::new());
    assert_eq!(
        asked_of(&mut play, "www.example.org").unwrap(),
        "10.0.0.53:53"
    );
    assert_eq!(play.domains.last(), Some(&Domains::All));
    // They stand while it is away again, and an older portal says nothing of them.
    play.disconnect();
    assert_eq!(
        asked_of(&mut play, "www.example.org").unwrap(),
        "10.0.0.53:53"
    );
    play.dns = Dns::default();
    play.reconnect(Vec::new(), Vec::new());
    assert_eq!(asked_of(&mut play, "www.example.org").unwrap(), UPSTREAM);
    assert_eq!(play.search, [""; 0]);
}

#[test]
fn the_portals_name_is_never_asked_of_servers_that_the_portal_names() {
    let mut play = Play::open(&[]);
    let rules = dns(
        &[],
        &[(".", &["10.0.0.53"]), ("corp.example", &["10.0.0.54"])],
    );
    play.hear(ToClient::DnsSet { dns: rules });
    assert_eq!(
        asked_of(&mut play, "portal.corp.example").unwrap(),
        UPSTREAM
    );
    assert_eq!(
        asked_of(&mut play, "x.corp.example").unwrap(),
        "10.0.0.54:53"
    );
}

#[test]
fn what_is_not_understood_is_asked_of_nobody_else() {
    let mut play = Play::open(&[]);
    let rules = dns(
        &["a b", "corp.example", "-"],
        &[
            ("office.example", &["tls://dns.office.example"]),
            ("lab.example", &["127.0.0.53", "10.0.0.53"]),
            ("*.example", &["10.0.0.54"]),
        ],
    );
    play.hear(ToClient::DnsSet { dns: rules });
    assert_eq!(play.search, ["corp.example"]);
    assert_eq!(asked_of(&mut play, "x.office.example"), None);
    assert_eq!(
        asked_of(&mut play, "x.lab.example").unwrap(),
        "10.0.0.53:53"
    );
    assert_eq!(asked_of(&mut play, "x.example").unwrap(), UPSTREAM);
    assert_eq!(play.client.counters().protocol_errors, 0);
}

#[test]
fn whoever_wants_every_name_asked_here_has_it_so_without_any_rule() {
    let mut play = Play::new();
    let mut all = options();
    all.asks_all = true;
    play.client = Client::new(all, [1; 32], play.now());
    play.client.handle_timeout(play.now());
    play.poll();
    play.connect();
    play.welcome(vec![resource(1, "db.corp.example")], Vec::new());
    assert_eq!(play.domains, [Domains::All]);
    play.hear(ToClient::ResourceRemoved {
        resource: resource_id(1),
    });
    assert_eq!(play.domains, [Domains::All], "nothing to tell anew");
    assert_eq!(asked_of(&mut play, "www.example.org").unwrap(), UPSTREAM);
}
