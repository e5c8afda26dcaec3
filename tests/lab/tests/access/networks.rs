//! Networks that have one family, that hand out routes, whose links come and go, and that a tunnel for
//! everything leaves or does not leave.

use crate::common::{Bed, SOON, WEB_PORT, access};
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_V4, Product, Server};
use culvert_lab::{Family, Namespace, wait_until};
use std::time::Duration;

/// "link flaps under traffic (≤ 2 s)"
const AFTER_A_FLAP: Duration = Duration::from_secs(2);

/// The time for which a link is down: as long as it takes to move a cable to another socket.
const DOWN: Duration = Duration::from_millis(500);

/// The address of the client's machine and of its router, on the network between them.
const CLIENT_V4: &str = "10.200.14.2";
const ROUTER_V4: &str = "10.200.14.1";
const CLIENT_LINK: &str = "veth14";

/// A machine on the internet, in nobody's private network: the portal's.
const PUBLIC_V4: &str = "10.200.10.2";
const PUBLIC_V6: &str = "fd00:200:a::2";

/// The lines that a resource for the whole Internet adds to the usual access. The lab's Internet
/// has private addresses, so ranges of it are named as well: they are no local network of the
/// client's.
pub(crate) fn everything(more: &[&str]) -> String {
    let mut toml = access();
    for (number, range) in ["0.0.0.0/0", "::/0"].iter().chain(more).enumerate() {
        toml += &format!(
            "\n[[resource]]\nname = \"internet {number}\"\nsite = \"lab\"\nkind = \"cidr\"\n\
             address = \"{range}\"\nfilters = [{{ protocol = \"any\" }}]\n\
             \n[[policy]]\nname = \"all {number}\"\ngroup = \"staff\"\nresource = \"internet {number}\"\n"
        );
    }
    toml
}

/// The address at which a server saw the client.
fn seen_as(client: &Namespace, url: &str) -> Option<String> {
    let outcome = client.outcome(&format!("curl -gfsS -m 4 {url}")).ok()?;
    let said = String::from_utf8_lossy(&outcome.stdout).into_owned();
    let from = said.strip_prefix("you come from ")?;
    Some(from.split_whitespace().next()?.to_owned())
}

/// A bed whose machines have one family between them.
fn with_one_family(family: Family) -> Bed {
    let mut product = Product::networks(1).unwrap();
    keep_one_family(&mut product, family);
    product.begin(&access()).unwrap();
    Bed::around(product).unwrap()
}

/// Takes the other family away from between the machines.
pub(crate) fn keep_one_family(product: &mut Product, family: Family) {
    let other = match family {
        Family::V4 => "-6",
        Family::V6 => "-4",
    };
    product.portal.family = family;
    for (namespace, link) in [
        (&product.client.namespace, CLIENT_LINK.to_owned()),
        (
            &product.gateways[0].namespace,
            product.gateways[0].public_interface(),
        ),
    ] {
        namespace
            .run(&format!("ip {other} address flush dev {link} scope global"))
            .unwrap();
    }
}

/// The gateway's datagrams come by `family`, and resources of both families are reached by that.
fn passes_both(bed: &Bed, family: Family) {
    let client = &bed.product.client;
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    for inner in ["-4", "-6"] {
        let line = format!("curl {inner} -fsS -m 8 http://{PRIVATE_NAME}/");
        let answer = client.run_with_dns(&line).unwrap();
        assert!(answer.starts_with("you come from"), "{answer}");
    }
    // A handshake of a moment may be on its way to another address.
    wait_until("the gateway at an address of this family", SOON, || {
        let status = client.status().unwrap();
        let endpoint = status["gateways"][0]["endpoint"].as_str().unwrap();
        endpoint.starts_with('[') == (family == Family::V6)
    })
    .unwrap();
}

#[test]
fn where_there_is_ipv6_alone_resources_of_both_families_are_reached() {
    passes_both(&with_one_family(Family::V6), Family::V6);
}

#[test]
fn where_there_is_ipv4_alone_resources_of_both_families_are_reached() {
    passes_both(&with_one_family(Family::V4), Family::V4);
}

#[test]
fn routes_that_the_local_network_hands_out_lead_no_flow_to_a_resource_elsewhere() {
    let bed = Bed::new(1).unwrap();
    let download = bed.download().unwrap();
    let client = &bed.product.client.namespace;
    // The router pretends to be the resource, and has the client's machine believe so (CVE-2024-3661).
    let nat = &bed.product.nat;
    nat.run(&format!("ip address add {PRIVATE_V4}/32 dev lo"))
        .unwrap();
    let _impostor = Server::start(nat, PRIVATE_V4.parse().unwrap(), WEB_PORT).unwrap();
    client
        .run(&format!("ip route add {PRIVATE_V4}/32 via {ROUTER_V4}"))
        .unwrap();
    let gateway = bed.product.gateways[0].private_address(Family::V4);
    let url = format!("http://{PRIVATE_V4}:{WEB_PORT}/");
    for _ in 0..3 {
        assert_eq!(seen_as(client, &url), Some(gateway.to_string()));
    }
    download.goes_on(Duration::from_secs(5)).unwrap();
}

#[test]
fn a_link_that_comes_and_goes_under_load_keeps_flows_waiting_for_two_seconds_at_most() {
    let bed = Bed::new(1).unwrap();
    let client = &bed.product.client.namespace;
    let stream = bed.numbered_stream().unwrap();
    let download = bed.download().unwrap();
    for _ in 0..3 {
        // A network manager restores the addresses and routes that the kernel deletes with the
        // link.
        client
            .shell(&format!(
                "ip link set {CLIENT_LINK} down; sleep {}; ip link set {CLIENT_LINK} up; \
                 ip route replace default via {ROUTER_V4}",
                DOWN.as_secs_f32()
            ))
            .unwrap();
        stream.goes_on(DOWN + AFTER_A_FLAP).unwrap();
        std::thread::sleep(Duration::from_millis(300));
    }
    let gap = stream.longest_gap();
    assert!(gap <= DOWN + AFTER_A_FLAP, "{gap:?} without an answer");
    let bytes = download.bytes();
    wait_until("the download to go on", SOON, || download.bytes() > bytes).unwrap();
}

#[test]
fn a_resource_for_everything_takes_the_internet_and_leaves_the_local_network() {
    let mut product = Product::networks(1).unwrap();
    product.begin(&everything(&["10.200.10.0/24"])).unwrap();
    let bed = Bed::around(product).unwrap();
    let client = &bed.product.client.namespace;
    let here = |address: &str, namespace: &Namespace| {
        Server::start(namespace, address.parse().unwrap(), WEB_PORT).unwrap()
    };
    let portal = &bed.product.portal.namespace;
    let _far = [here(PUBLIC_V4, portal), here(PUBLIC_V6, portal)];
    let _near = here(ROUTER_V4, &bed.product.nat);
    let gateway = &bed.product.gateways[0];
    for (url, family) in [
        (format!("http://{PUBLIC_V4}/"), Family::V4),
        (format!("http://[{PUBLIC_V6}]/"), Family::V6),
    ] {
        let through = Some(gateway.public_address(family).to_string());
        wait_until("the Internet through the gateway", SOON, || {
            seen_as(client, &url) == through
        })
        .unwrap();
    }
    let router = format!("http://{ROUTER_V4}/");
    assert_eq!(seen_as(client, &router).as_deref(), Some(CLIENT_V4));
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT), "resources beside it");
}

#[test]
fn a_resource_for_the_local_network_takes_that_as_well() {
    let mut product = Product::networks(1).unwrap();
    product.begin(&everything(&["10.200.14.0/24"])).unwrap();
    let bed = Bed::around(product).unwrap();
    let client = &bed.product.client;
    let _near = Server::start(&bed.product.nat, ROUTER_V4.parse().unwrap(), WEB_PORT).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    // Behind the gateway there is no such network.
    let router = format!("http://{ROUTER_V4}/");
    assert_eq!(seen_as(&client.namespace, &router), None);
    let status = client.status_text().unwrap();
    assert!(
        status.contains("holds this machine's own network"),
        "{status}"
    );
}

#[test]
fn a_strict_reverse_path_filter_beside_a_tunnel_for_everything_is_named_with_the_fix() {
    let mut product = Product::networks(1).unwrap();
    let strict = format!("net.ipv4.conf.{CLIENT_LINK}.rp_filter");
    let client = product.client.namespace.clone();
    client.run(&format!("sysctl -q -w {strict}=1")).unwrap();
    product.portal.family = Family::V6;
    product.begin(&everything(&[])).unwrap();
    let bed = Bed::around(product).unwrap();
    wait_until("the problem", SOON, || {
        let status = bed.product.client.status_text().unwrap();
        status.contains(&format!(
            "sysctl -w net/ipv4/conf/{CLIENT_LINK}/rp_filter=2"
        ))
    })
    .unwrap();
    client.run(&format!("sysctl -q -w {strict}=2")).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
}
