//! Client and gateway that are started anew by a service manager which keeps their descriptors.

use crate::common::{Bed, SOON, WEB_PORT, access, host};
use culvert_lab::product::{PRIVATE_NET, PRIVATE_V4, Product};
use culvert_lab::{Namespace, ServiceManager, wait_until};
use std::net::TcpListener;

/// The tunnel's interfaces.
const CLIENT_INTERFACE: &str = "culvert0";
const GATEWAY_INTERFACE: &str = "culvert-gw0";

/// The UDP port of gateways.
const GATEWAY_PORT: u16 = 51820;

/// True if it keeps an interface and both sockets of both families.
fn is_whole(manager: &ServiceManager) -> bool {
    let fd_store = manager.fd_store();
    let has = |name: &str| fd_store.iter().any(|it| it == name);
    ["tun.0", "udp4.0", "udp4.1", "udp6.0", "udp6.1"]
        .into_iter()
        .all(has)
}

/// A product whose client and gateway are started by service managers.
fn managed(client: &str, gateway: &str) -> Product {
    let mut product = Product::networks(1).unwrap();
    product.client.manager = Some(ServiceManager::listen().unwrap());
    product.client.arguments = client.to_owned();
    product.gateways[0].manager = Some(ServiceManager::listen().unwrap());
    product.gateways[0].arguments = gateway.to_owned();
    product
}

/// The interface as the kernel knows it: one that was made anew has another number.
fn index(namespace: &Namespace, interface: &str) -> String {
    let link = namespace.run(&format!("ip -o link show {interface}"));
    let link = link.unwrap();
    link.split(':').next().unwrap().to_owned()
}

/// The UDP ports on which every address is listened at.
fn ports(namespace: &Namespace) -> Vec<String> {
    let sockets = namespace.run("ss -Huln").unwrap();
    let locals = sockets
        .lines()
        .filter_map(|line| line.split_whitespace().nth(3));
    let mut ports: Vec<_> = locals
        .filter(|local| local.starts_with("0.0.0.0:") || local.starts_with("[::]:"))
        .map(str::to_owned)
        .collect();
    ports.sort();
    ports.dedup();
    ports
}

/// Packets for the private network that were seen on the client's router, outside of the tunnel.
struct Outside<'a>(&'a Namespace);

impl<'a> Outside<'a> {
    fn watch(router: &'a Namespace) -> Self {
        let rules = format!(
            "nft 'add table inet seen; add chain inet seen in {{ type filter hook prerouting priority -300; }}; \
             add rule inet seen in ip daddr {PRIVATE_NET} counter'"
        );
        router.shell(&rules).unwrap();
        Self(router)
    }

    fn packets(&self) -> u64 {
        let rules = self.0.run("nft list chain inet seen in").unwrap();
        let (_, count) = rules.split_once("counter packets ").unwrap();
        count.split(' ').next().unwrap().parse().unwrap()
    }
}

#[test]
fn a_client_that_is_started_anew_keeps_interface_port_and_connections_and_lets_nothing_past() {
    let mut product = managed("", "");
    let before = host(&product.client.namespace);
    product.begin(&access()).unwrap();
    let mut bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let router = bed.product.nat.clone();
    let outside = Outside::watch(&router);
    let namespace = bed.product.client.namespace.clone();
    let state = || {
        (
            index(&namespace, CLIENT_INTERFACE),
            ports(&namespace),
            host(&namespace),
        )
    };
    let manager = |bed: &Bed| is_whole(bed.product.client.manager.as_ref().unwrap());
    wait_until("the descriptors to be kept", SOON, || manager(&bed)).unwrap();
    let set_up = state();
    // It sends all the while, whether the tunnel can carry it or not.
    let stream = bed.numbered_stream().unwrap();
    let download = bed.download().unwrap();

    bed.product.client.restart().unwrap();
    assert_eq!(state(), set_up, "after a restart");
    download.goes_on(SOON).unwrap();
    stream.goes_on(SOON).unwrap();

    // A crash is told to nobody.
    bed.product.client.kill().unwrap();
    bed.product.client.start().unwrap();
    assert_eq!(state(), set_up, "after a crash");
    download.goes_on(SOON).unwrap();
    stream.goes_on(SOON).unwrap();
    let log = bed.product.client.output();
    assert!(log.contains("the interface is taken over"), "{log}");
    assert!(manager(&bed));
    assert_eq!(outside.packets(), 0);

    bed.product.client.stop().unwrap();
    assert_eq!(host(&namespace), before);
    assert_eq!(ports(&namespace), Vec::<String>::new());
    // That is how it would have looked.
    let _unanswered = namespace.outcome(&format!("ping -c 1 -W 1 {PRIVATE_V4}"));
    assert!(outside.packets() > 0);
}

#[test]
fn a_client_that_goes_down_keeps_nothing_for_later() {
    let mut product = managed("", "");
    let before = host(&product.client.namespace);
    product.client.takes_commands = true;
    product.declare(&access()).unwrap();
    let token = product.gateways[0].token_file();
    product.portal.token("gateway --site lab", &token).unwrap();
    product.gateways[0].start().unwrap();
    let token = product.client.token_file();
    product
        .portal
        .token("client --actor laptop", &token)
        .unwrap();
    product.client.launch().unwrap();
    let mut bed = Bed::around(product).unwrap();
    let sign_in = format!(
        "sign-in --token-file {}",
        bed.product.client.token_file().display()
    );
    let signed_in = || {
        bed.product
            .client
            .tell(&sign_in)
            .is_ok_and(|it| it.status.success())
    };
    wait_until("the client to go up", SOON, signed_in).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    for _ in 0..2 {
        bed.product.client.restart().unwrap();
        bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
        let down = bed.product.client.tell("down").unwrap();
        assert!(down.status.success(), "{down:?}");
        let is_as_before = || {
            let fd_store = bed.product.client.manager.as_ref().unwrap().fd_store();
            fd_store.is_empty() && host(&bed.product.client.namespace) == before
        };
        wait_until("nothing to be left", SOON, is_as_before).unwrap();
        let up = bed.product.client.tell("up").unwrap();
        assert!(up.status.success(), "{up:?}");
    }
}

#[test]
fn what_a_service_manager_hands_over_and_is_not_the_clients_is_closed_and_made_anew() {
    let mut product = managed("", "");
    let manager = product.client.manager.as_ref().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    manager.put("tun.0", &null).unwrap();
    manager.put("udp4.0", &tcp).unwrap();
    // One is missing.
    manager.put("udp6.2", &tcp).unwrap();
    manager.put("stored", &null).unwrap();
    manager.put("tun.00", &null).unwrap();
    product.begin(&access()).unwrap();
    let bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let log = bed.product.client.output();
    for said in [
        "the interface is made anew: the descriptors that were kept are not the queues of culvert0",
        "sockets are opened anew: the descriptors that were kept are not its IPv4 sockets",
        "the service manager kept only some of the descriptors",
        "kept a descriptor that is none of this program's; it is closed name=\"stored\"",
        "kept a descriptor that is none of this program's; it is closed name=\"tun.00\"",
    ] {
        assert!(log.contains(said), "{said}: {log}");
    }
    let manager = bed.product.client.manager.as_ref().unwrap();
    let is_clean = || {
        let fd_store = manager.fd_store();
        let strange = ["stored", "tun.00", "udp6.2"];
        is_whole(manager)
            && !strange
                .iter()
                .any(|name| fd_store.iter().any(|it| it == name))
    };
    wait_until("the store to be put right", SOON, is_clean).unwrap();
}

#[test]
fn a_gateway_that_is_started_anew_keeps_interface_port_and_guard_and_goes_on_for_its_clients() {
    let mut product = managed("", "--workers 2");
    let before = host(&product.gateways[0].namespace);
    product.begin(&access()).unwrap();
    let mut bed = Bed::around(product).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let namespace = bed.product.gateways[0].namespace.clone();
    let state = || {
        (
            index(&namespace, GATEWAY_INTERFACE),
            ports(&namespace),
            host(&namespace),
        )
    };
    let manager = |bed: &Bed| is_whole(bed.product.gateways[0].manager.as_ref().unwrap());
    wait_until("the descriptors to be kept", SOON, || manager(&bed)).unwrap();
    let set_up = state();
    let expected = [
        format!("0.0.0.0:{GATEWAY_PORT}"),
        format!("[::]:{GATEWAY_PORT}"),
    ];
    assert_eq!(set_up.1, expected);
    let stream = bed.numbered_stream().unwrap();

    bed.product.gateways[0].restart().unwrap();
    let stands = || state() == set_up;
    wait_until("the host to be as it was", SOON, stands).unwrap();
    stream.goes_on(SOON).unwrap();

    bed.product.gateways[0].kill().unwrap();
    bed.product.gateways[0].start().unwrap();
    wait_until("the host to be as it was", SOON, stands).unwrap();
    stream.goes_on(SOON).unwrap();

    // With other workers it needs other queues and sockets: the port stays.
    "--workers 1".clone_into(&mut bed.product.gateways[0].arguments);
    bed.product.gateways[0].restart().unwrap();
    let log = bed.product.gateways[0].output();
    assert!(log.contains("the interface is made anew"), "{log}");
    wait_until("the port", SOON, || ports(&namespace) == expected).unwrap();
    stream.goes_on(SOON).unwrap();

    bed.product.gateways[0].stop().unwrap();
    assert_eq!(host(&namespace), before);
    assert_eq!(ports(&namespace), Vec::<String>::new());
}
