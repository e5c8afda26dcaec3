//! Names whose addresses are few, none, or others than before.

use crate::common::{Bed, SOON, WEB_PORT, access};
use culvert_lab::product::{
    Download, Names, PRIVATE_NAME, PRIVATE_OTHER_V4, PRIVATE_V4, PRIVATE_V6, RecordKind,
};
use culvert_lab::{Family, Namespace, wait_until};
use std::net::IpAddr;
use std::thread;
use std::time::Instant;

/// Response codes (RFC 1035, §4.1.1).
const NO_ERROR: u8 = 0;
const SERVER_FAILURE: u8 = 2;
const NO_SUCH_NAME: u8 = 3;

/// The usual access, to every name below `corp.example`.
fn bed() -> Bed {
    Bed::with_access(1, &access().replace(PRIVATE_NAME, "*.corp.example")).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// What the web server says of a connection to a name, if it answers.
fn fetch(bed: &Bed, name: &str, family: &str) -> Option<String> {
    let line = format!("curl {family} -fsS -m 8 http://{name}/");
    bed.product.client.run_with_dns(&line).ok()
}

#[test]
fn a_name_that_does_not_exist_behind_the_gateway_does_not_exist_for_the_client() {
    let bed = bed();
    for kind in [RecordKind::A, RecordKind::Aaaa] {
        let answer = bed.product.client.ask("nothing.corp.example", kind);
        let answer = answer.unwrap();
        assert_eq!((answer.code, answer.addresses), (NO_SUCH_NAME, vec![]));
    }
    assert_eq!(fetch(&bed, "nothing.corp.example", ""), None);
}

#[test]
fn a_name_with_ipv6_alone_has_no_ipv4_address_and_is_reached() {
    let bed = bed();
    let names = &bed.product.names;
    names.set("six.corp.example", &[address(PRIVATE_V6)]);
    let client = &bed.product.client;
    let answer = client.ask("six.corp.example", RecordKind::A).unwrap();
    assert_eq!((answer.code, answer.addresses), (NO_ERROR, vec![]));
    let answer = client.ask("six.corp.example", RecordKind::Aaaa).unwrap();
    assert_eq!(answer.code, NO_ERROR);
    assert_eq!(answer.addresses.len(), 1);
    assert_ne!(
        answer.addresses,
        [address(PRIVATE_V6)],
        "another stands for it"
    );
    // A program that knows both families takes the one there is.
    let said = fetch(&bed, "six.corp.example", "").unwrap();
    assert!(said.trim_end().ends_with(PRIVATE_V6), "{said}");
    assert_eq!(fetch(&bed, "six.corp.example", "-4"), None);
}

#[test]
fn a_silent_name_does_not_hold_up_one_that_is_asked_for_beside_it() {
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let mut times = Vec::new();
    for number in 0..8 {
        let good = format!("good{number}.corp.example");
        let silent = format!("silent{number}.corp.example");
        names.set(&good, &[address(PRIVATE_V4)]);
        names.set_silent(&silent);
        thread::scope(|scope| {
            let silence = scope.spawn(|| client.ask(&silent, RecordKind::A));
            wait_until("the silent name to be asked for", SOON, || {
                !names.asked(&silent).is_empty()
            })
            .unwrap();
            let begun = Instant::now();
            let answer = client.ask(&good, RecordKind::A).unwrap();
            times.push(begun.elapsed().as_millis());
            assert_eq!((answer.code, answer.addresses.len()), (NO_ERROR, 1));
            assert!(!silence.is_finished(), "it was waited for");
            assert_eq!(silence.join().unwrap().unwrap().code, SERVER_FAILURE);
        });
    }
    println!("a name beside a silent one takes {times:?} ms");
}

#[test]
fn a_name_that_moves_leads_new_flows_to_the_new_address_and_keeps_the_old_ones() {
    const NAME: &str = "moves.corp.example";
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    names.set(NAME, &[address(PRIVATE_V4)]);
    let said = fetch(&bed, NAME, "-4").unwrap();
    assert!(said.trim_end().ends_with(PRIVATE_V4), "{said}");
    let stands_for_it = client.ask(NAME, RecordKind::A).unwrap().addresses[0];
    let download = Download::start(&client.namespace, stands_for_it, WEB_PORT).unwrap();
    names.set(NAME, &[address(PRIVATE_OTHER_V4)]);
    wait_until("new connections to follow the name", SOON, || {
        fetch(&bed, NAME, "-4").is_some_and(|said| said.trim_end().ends_with(PRIVATE_OTHER_V4))
    })
    .unwrap();
    let now = client.ask(NAME, RecordKind::A).unwrap().addresses;
    assert_eq!(now, [stands_for_it], "for the client it is where it was");
    download.goes_on(crate::common::SECOND).unwrap();
}

#[test]
fn a_family_that_the_gateway_can_not_carry_is_not_handed_out() {
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    let gateway = &bed.product.gateways[0].namespace;
    let both = [address(PRIVATE_V4), address(PRIVATE_V6)];
    names.set("before.corp.example", &both);
    let answer = client.ask("before.corp.example", RecordKind::Aaaa).unwrap();
    assert_eq!(answer.addresses.len(), 1);
    // As where a machine has no IPv6 beyond its own network.
    gateway
        .run("sysctl -qw net.ipv6.conf.all.forwarding=0")
        .unwrap();
    names.set("after.corp.example", &both);
    let answer = client.ask("after.corp.example", RecordKind::Aaaa).unwrap();
    assert_eq!((answer.code, answer.addresses), (NO_ERROR, vec![]));
    let said = fetch(&bed, "after.corp.example", "").unwrap();
    assert!(said.trim_end().ends_with(PRIVATE_V4), "{said}");
    assert_eq!(fetch(&bed, "after.corp.example", "-6"), None);
}

#[test]
fn a_connection_to_a_name_that_loses_its_addresses_goes_on() {
    const NAME: &str = "comes-and-goes.corp.example";
    let bed = bed();
    let (names, client) = (&bed.product.names, &bed.product.client);
    names.set(NAME, &[address(PRIVATE_V4)]);
    fetch(&bed, NAME, "-4").unwrap();
    let stands_for_it = client.ask(NAME, RecordKind::A).unwrap().addresses[0];
    let download = Download::start(&client.namespace, stands_for_it, WEB_PORT).unwrap();
    names.set(NAME, &[]);
    let is_refused = || {
        let drops = &bed.product.gateways[0].status().unwrap().to_string();
        let line = format!("curl -s -o /dev/null -m 1 http://{stands_for_it}/");
        client.run(&line).is_err() && drops.contains("no_address")
    };
    wait_until("new connections to be refused", SOON, is_refused).unwrap();
    download.goes_on(crate::common::SECOND).unwrap();
    names.set(NAME, &[address(PRIVATE_OTHER_V4)]);
    wait_until("new connections to be led again", SOON, || {
        fetch(&bed, NAME, "-4").is_some_and(|said| said.trim_end().ends_with(PRIVATE_OTHER_V4))
    })
    .unwrap();
    download.goes_on(crate::common::SECOND).unwrap();
}

/// The interface by which a namespace reaches an address, and its number.
fn interface_to(namespace: &Namespace, address: IpAddr) -> (String, u32) {
    let route = namespace
        .run(&format!("ip -o route get {address}"))
        .unwrap();
    let mut words = route.split_whitespace();
    let name = words.find(|word| *word == "dev").and_then(|_| words.next());
    let name = name.unwrap().to_owned();
    let link = namespace
        .run(&format!("ip -o link show dev {name}"))
        .unwrap();
    let (number, _) = link.split_once(':').unwrap();
    (name, number.parse().unwrap())
}

#[test]
fn a_gateway_asks_a_dns_server_with_a_link_local_address_on_its_interface() {
    let bed = bed();
    let (gateway, private) = (&bed.product.gateways[0], &bed.product.private);
    let (own, _) = interface_to(&gateway.namespace, PRIVATE_V4.parse().unwrap());
    let (theirs, number) = interface_to(private, gateway.private_address(Family::V4));
    private
        .run(&format!("ip address add fe80::53/64 dev {theirs} nodad"))
        .unwrap();
    let linked = Names::start_on_link(private, "fe80::53".parse().unwrap(), number).unwrap();
    // A file that is mounted there is written in place.
    let configuration = gateway.token_file().with_file_name("resolv.conf");
    for (name, text) in [
        ("alone.corp.example", format!("nameserver fe80::53%{own}\n")),
        (
            "beside.corp.example",
            format!("nameserver fe80::53%{own}\nnameserver 192.0.2.1\n"),
        ),
    ] {
        linked.set(name, &[address(PRIVATE_V4)]);
        std::fs::write(&configuration, text).unwrap();
        wait_until("the name to be found", SOON, || {
            fetch(&bed, name, "-4").is_some_and(|said| said.trim_end().ends_with(PRIVATE_V4))
        })
        .unwrap();
    }
    std::fs::write(&configuration, "nameserver fe80::53%gone0\n").unwrap();
    wait_until("the problem to be told", SOON, || {
        let _unknown = bed.product.client.ask("other.corp.example", RecordKind::A);
        let status = gateway.status().unwrap().to_string();
        status.contains("fe80::53%gone0")
    })
    .unwrap();
}
