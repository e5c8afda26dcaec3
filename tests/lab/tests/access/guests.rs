//! Containers and virtual machines of the client's machine, on a bridge of their own.

use crate::common::{Bed, SOON, WEB_PORT, access};
use crate::networks::everything;
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_V4, Product, RecordKind, Server, ask_at};
use culvert_lab::{Namespace, wait_until};
use std::net::SocketAddr;

/// The client's machine on the network to its router, which is its uplink.
const MACHINE_V4: &str = "10.200.14.2";
const UPLINK: &str = "veth14";

/// A network of guests on the client's machine: the name of the bridge, its length, and the addresses of both.
struct Shape {
    bridge: &'static str,
    len: u8,
    machine: &'static str,
    guest: &'static str,
}

/// The container of an engine whose network was made by hand.
const GUEST: Shape = shape("guests", 24, "172.30.0.1", "172.30.0.2");

/// As Docker, its own networks, Podman, libvirt, LXC and Kubernetes have them.
const SHAPES: [Shape; 7] = [
    GUEST,
    shape("docker0", 16, "172.17.0.1", "172.17.0.2"),
    shape("br-4f2c9a", 20, "192.168.48.1", "192.168.48.9"),
    shape("podman0", 16, "10.88.0.1", "10.88.0.5"),
    shape("virbr0", 24, "192.168.122.1", "192.168.122.77"),
    shape("lxcbr0", 24, "10.0.3.1", "10.0.3.101"),
    shape("cni0", 29, "10.42.0.1", "10.42.0.6"),
];

const fn shape(bridge: &'static str, len: u8, machine: &'static str, guest: &'static str) -> Shape {
    Shape {
        bridge,
        len,
        machine,
        guest,
    }
}

/// The port of the container's server, and the one at which the machine publishes it.
const PUBLISHED_PORT: u16 = 8080;
/// The port of a server of the machine itself.
const OWN_PORT: u16 = 8081;

/// Somebody on the internet.
const STRANGER_V4: &str = "198.51.100.7";

/// The exit status of `curl` after a refusal, as opposed to silence.
const CONNECT_FAILED: i32 = 7;

/// A container of the client's machine, as engines make them: a bridge, a pair, forwarding.
fn guest_of(machine: &Namespace, shape: &Shape) -> Namespace {
    let guest = Namespace::new().unwrap();
    let name = guest.name();
    let Shape {
        bridge,
        len,
        machine: router,
        guest: own,
    } = shape;
    machine
        .shell(&format!(
            "ip link add {bridge} type bridge
             ip link add p{bridge} type veth peer name eth0 netns {name}
             ip link set p{bridge} master {bridge} up
             ip link set {bridge} up
             ip address add {router}/{len} dev {bridge}
             sysctl -qw net.ipv4.ip_forward=1"
        ))
        .unwrap();
    guest
        .shell(&format!(
            "ip address add {own}/{len} dev eth0
             ip link set eth0 up
             ip route add default via {router}"
        ))
        .unwrap();
    guest
}

/// The line to run of the first problem that names `address`.
fn line_that_helps(bed: &Bed, address: &str) -> String {
    let client = &bed.product.client;
    let mut line = None;
    wait_until("a problem with a line that helps", SOON, || {
        let status = client.status().unwrap();
        let problems = status["problems"].as_array().unwrap();
        let mut texts = problems.iter().filter_map(serde_json::Value::as_str);
        let named = texts.find(|text| text.contains(address));
        line = named.and_then(|text| text.split('`').nth(1).map(str::to_owned));
        line.is_some()
    })
    .unwrap();
    line.unwrap()
}

fn fetches(from: &Namespace, options: &str, url: &str) -> bool {
    let line = format!("curl -gfsS -m 4 {options} {url}");
    from.outcome(&line).unwrap().status.success()
}

#[test]
fn a_container_of_the_machine_may_ask_the_client_for_names_and_a_neighbour_may_not() {
    let bed = Bed::around(Product::start(1, &access()).unwrap()).unwrap();
    let client = &bed.product.client;
    let stub = SocketAddr::new(client.address().unwrap(), 53);
    let own = client.ask(PRIVATE_NAME, RecordKind::A).unwrap();
    assert!(!own.addresses.is_empty());
    // Networks of guests are looked for now and then: all are there before anybody asks.
    let guests = SHAPES.map(|shape| (shape.bridge, guest_of(&client.namespace, &shape)));
    for (bridge, guest) in guests {
        let mut answer = None;
        wait_until("an answer for the container", SOON, || {
            answer = ask_at(&guest, stub, PRIVATE_NAME, RecordKind::A).ok();
            answer.is_some()
        })
        .unwrap_or_else(|error| panic!("{bridge}: {error}"));
        assert_eq!(answer.unwrap().addresses, own.addresses, "{bridge}");
    }

    let neighbour = &bed.product.nat;
    let route = format!("ip route add {}/32 via {MACHINE_V4}", stub.ip());
    neighbour.run(&route).unwrap();
    // Its packets get to the machine, where the tunnel's address is for the tunnel alone, and port 53 for guests.
    neighbour
        .run(&format!("ping -c 1 -W 4 {MACHINE_V4}"))
        .unwrap();
    neighbour
        .run(&format!("ping -c 1 -W 1 {}", stub.ip()))
        .unwrap_err();
    ask_at(neighbour, stub, PRIVATE_NAME, RecordKind::A).unwrap_err();
}

#[test]
fn what_a_container_sends_with_its_own_address_is_refused_at_once_and_named_with_the_line_that_helps()
 {
    let bed = Bed::around(Product::start(1, &access()).unwrap()).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let machine = &bed.product.client.namespace;
    let url = format!("http://{PRIVATE_V4}:{WEB_PORT}/");
    let guests = SHAPES.map(|shape| (guest_of(machine, &shape), shape));
    for (guest, shape) in &guests {
        let outcome = guest.outcome(&format!("curl -gfsS -m 20 {url}"));
        let code = outcome.unwrap().status.code();
        assert_eq!(code, Some(CONNECT_FAILED), "{}", shape.bridge);
        let line = line_that_helps(&bed, shape.guest);
        println!("{line}");
    }
    // The line of any of them helps all.
    let (_, last) = &guests[SHAPES.len() - 1];
    let line = line_that_helps(&bed, last.guest);
    machine.shell(&line).unwrap();
    for (guest, shape) in &guests {
        assert!(fetches(guest, "", &url), "{}: {line}", shape.bridge);
    }
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
}

#[test]
fn answers_of_published_ports_beside_a_tunnel_that_takes_everything_are_named_with_the_line_that_helps()
 {
    let bed = Bed::around(Product::start(1, &everything(&[])).unwrap()).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let machine = &bed.product.client.namespace;
    let guest = guest_of(machine, &GUEST);
    let guest_v4 = GUEST.guest;
    let _published = Server::start(&guest, guest_v4.parse().unwrap(), PUBLISHED_PORT).unwrap();
    let _own = Server::start(machine, MACHINE_V4.parse().unwrap(), OWN_PORT).unwrap();
    machine
        .shell(&format!(
            "nft 'table ip engine {{
                 chain published {{
                     type nat hook prerouting priority dstnat;
                     iifname {UPLINK} tcp dport {PUBLISHED_PORT} dnat to {guest_v4}
                 }}
                 chain translated {{
                     type nat hook postrouting priority srcnat;
                     ip saddr 172.30.0.0/24 oifname != guests masquerade
                 }}
             }}'"
        ))
        .unwrap();
    let router = &bed.product.nat;
    router
        .run(&format!("ip address add {STRANGER_V4}/32 dev lo"))
        .unwrap();
    let as_stranger = format!("--interface {STRANGER_V4}");
    let ports = [PUBLISHED_PORT, OWN_PORT];
    let serves = |port: u16| {
        let url = format!("http://{MACHINE_V4}:{port}/");
        fetches(router, &as_stranger, &url)
    };
    assert_eq!(ports.map(serves), [false, false]);
    let line = line_that_helps(&bed, MACHINE_V4);
    machine.shell(&line).unwrap();
    assert_eq!(ports.map(serves), [true, true], "{line}");
    // Connections that the machine and its containers begin go into the tunnel as before.
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    let url = format!("http://{PRIVATE_V4}:{WEB_PORT}/");
    assert!(fetches(&guest, "", &url));
}
