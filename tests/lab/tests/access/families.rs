//! IPv6 beside IPv4: announced and dead, and alone with a NAT64.

use crate::common::SOON;
use crate::netcheck::netcheck_of;
use culvert_lab::nat::NatKind;
use culvert_lab::product::BehindNats;
use culvert_lab::{nat64, wait_until};
use std::time::{Duration, Instant};

#[test]
fn a_client_with_ipv6_alone_reaches_portal_relay_and_gateways_by_the_nat64() {
    let gateways = [NatKind::None, NatKind::PortDependent];
    let mut scene = BehindNats::new(1, &gateways, &[]).unwrap();
    let _nat64 = scene.add_client_with_ipv6_alone().unwrap();
    scene.start().unwrap();
    for gateway in 0..gateways.len() {
        let number = u8::try_from(gateway).unwrap();
        wait_until("an answer", SOON, || scene.reaches(0, number))
            .unwrap_or_else(|error| panic!("{error}\n{}", scene.clients[0].output()));
        let is_direct = || scene.path(0, gateway) == "direct";
        wait_until("a direct path", SOON, is_direct)
            .unwrap_or_else(|error| panic!("{error}\n{}", scene.clients[0].output()));
        let status = scene.gateway_status(0, gateway);
        let endpoint = status["endpoint"].as_str().unwrap();
        assert!(endpoint.starts_with("[fd64::"), "{status}");
    }
    let (code, report) = netcheck_of(&scene.clients[0], "");
    assert_eq!(report["network"]["nat64"], nat64::PREFIX, "{report:#}");
    assert_eq!(report["network"]["ipv4"]["state"], "absent", "{report:#}");
    assert_eq!(report["network"]["ipv6"]["state"], "works", "{report:#}");
    assert_eq!(report["relays"][0]["udp"], "answers", "{report:#}");
    assert_eq!(code, 0, "{report:#}");
}

/// The clients' routers do not forward IPv6, and are the default route of both families. Datagrams of IPv6 are gone
/// without a word. The second client has no IPv6 at all.
#[test]
fn ipv6_that_is_announced_and_drops_everything_is_passed_over() {
    let home = NatKind::PortDependent;
    let mut scene = BehindNats::new(1, &[home], &[home, home]).unwrap();
    scene.clients[1]
        .namespace
        .run("ip -6 route flush default")
        .unwrap();
    scene.start().unwrap();
    // The gateway has addresses of both families, of which the first client tries both.
    let took = [0, 1].map(|client| {
        let begun = Instant::now();
        wait_until("an answer", SOON, || scene.reaches(client, 0)).unwrap();
        begun.elapsed()
    });
    let [dead, absent] = took.map(|took: Duration| took.as_millis());
    println!("first answer after {dead} ms with dead IPv6, {absent} ms without IPv6");
    let status = scene.gateway_status(0, 0);
    let endpoint = status["endpoint"].as_str().unwrap();
    assert!(endpoint.starts_with("10."), "{status}");
    let candidates = status["candidates"].as_array().unwrap().iter();
    let mut candidates = candidates.filter_map(|it| it.as_str());
    assert!(candidates.any(|it| it.starts_with('[')), "{status}");
    // The relay has an IPv6 address that nothing leads to.
    let (_, report) = netcheck_of(&scene.clients[0], "--relay [fd00:200:3c::2]:3478");
    assert_eq!(report["network"]["ipv6"]["state"], "dead", "{report:#}");
    assert_eq!(report["network"]["ipv4"]["state"], "works", "{report:#}");
}
