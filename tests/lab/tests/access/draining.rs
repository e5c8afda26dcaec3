//! Gateways that are taken out of service, and put back.

use crate::common::{Bed, SOON, access};
use culvert_lab::product::{Gateway, Product};
use culvert_lab::wait_until;
use std::time::{Duration, Instant};

/// A flow that stands still for less was not taken from its gateway.
const GAP: Duration = Duration::from_secs(5);

/// Has a gateway drained, or no longer, by an administrator, and waits until it has heard of it.
fn drain(bed: &Bed, gateway: usize, on: bool) {
    let gateway = &bed.product.gateways[gateway];
    let command = if on { "drain" } else { "undrain" };
    let line = format!("gateway {command} {}", gateway.name);
    bed.product.portal.admin(&line).unwrap();
    wait_until("the gateway to know", SOON, || is_draining(gateway) == on).unwrap();
}

fn is_draining(gateway: &Gateway) -> bool {
    gateway.status().unwrap()["draining"] == true
}

fn client_count(gateway: &Gateway) -> u64 {
    let status = gateway.status().unwrap();
    status["client_count"].as_u64().unwrap()
}

#[test]
fn a_draining_gateway_gets_no_new_clients_however_idle_it_is_until_that_is_ended() {
    let mut bed = Bed::new(2).unwrap();
    let crowd = bed.product.crowd(4).unwrap();
    let [download, ..] = [(); 4].map(|()| bed.download().unwrap());
    let busy = bed.serving();
    let idle = 1 - busy;
    drain(&bed, idle, true);
    bed.comes_to_be_busy(busy).unwrap();
    for client in &crowd[..2] {
        assert_eq!(bed.way_of(client, SOON), Some(busy));
    }
    assert_eq!(client_count(&bed.product.gateways[idle]), 0);
    drain(&bed, idle, false);
    bed.comes_to_be_busy(busy).unwrap();
    assert_eq!(bed.way_of(&crowd[2], SOON), Some(idle));

    // The same said by the gateway's own administrator, of the one with the download.
    let process_id = bed.product.gateways[busy].process().unwrap().id();
    let signal = || culvert_lab::run(&format!("kill -USR1 {process_id}")).unwrap();
    let gateway = &bed.product.gateways[busy];
    signal();
    wait_until("it to drain", SOON, || is_draining(gateway)).unwrap();
    assert_eq!(gateway.status().unwrap()["draining_by_itself"], true);
    assert_eq!(bed.way_of(&crowd[3], SOON), Some(idle));
    download.goes_on(GAP).unwrap();
    signal();
    wait_until("it to drain no longer", SOON, || !is_draining(gateway)).unwrap();
    download.goes_on(GAP).unwrap();
}

/// A bed in which grants last so many seconds, at least a minute.
fn bed_with_grants_of(lifetime_s: u64, gateways: u8) -> Bed {
    let mut product = Product::networks(gateways).unwrap();
    product.declare(&access()).unwrap();
    let lifetime = format!("account set --grant-lifetime {lifetime_s}s");
    product.portal.admin(&lifetime).unwrap();
    product.enrol().unwrap();
    Bed::around(product).unwrap()
}

/// Waits until the client uses a gateway, and asks nothing of it.
fn wait_until_used(bed: &Bed, gateway: usize, limit_s: u64) {
    let limit = Duration::from_secs(limit_s);
    wait_until("the client to use it", limit, || {
        bed.serves_now() == Some(gateway)
    })
    .unwrap();
}

#[test]
fn the_gateway_after_a_draining_one_is_used_as_soon_as_the_old_flows_have_ended() {
    const LIFETIME_S: u64 = 100;
    let bed = bed_with_grants_of(LIFETIME_S, 2);
    let download = bed.download().unwrap();
    let drained = bed.serving();
    let other = 1 - drained;
    drain(&bed, drained, true);
    // Two thirds of the life of the first grant, and a twelfth at most.
    let renewed = Duration::from_secs(LIFETIME_S * 3 / 4) + SOON;
    wait_until("a grant of the other one", renewed, || {
        client_count(&bed.product.gateways[other]) == 1
    })
    .unwrap();
    assert_eq!(bed.serving(), drained, "a flow goes through it");
    download.goes_on(GAP).unwrap();
    let gap = download.longest_gap();
    assert!(gap < GAP, "nothing for {gap:?}");
    download.end().unwrap();
    // Ten seconds of quiet; the old grant has twenty-five to live.
    wait_until_used(&bed, other, 20);
    let old = client_count(&bed.product.gateways[drained]);
    assert_eq!(old, 1, "the old grant was not at its end");
    let client = &bed.product.client;
    assert_eq!(bed.way_of(client, SOON), Some(other));
}

#[test]
fn what_a_draining_gateway_carries_ends_at_the_latest_with_the_grant() {
    const LIFETIME_S: u64 = 60;
    let bed = bed_with_grants_of(LIFETIME_S, 2);
    let stream = bed.numbered_stream().unwrap();
    let download = bed.download().unwrap();
    let drained = bed.serving();
    drain(&bed, drained, true);
    wait_until_used(&bed, 1 - drained, LIFETIME_S + 10);
    // TCP through another masquerade is another connection; a datagram is one of its own.
    download.cut_after(Instant::now()).unwrap();
    stream.goes_on(GAP).unwrap();
    let gap = stream.longest_gap();
    assert!(gap < GAP, "nothing for {gap:?}");
    let client = &bed.product.client;
    assert_eq!(bed.way_of(client, SOON), Some(1 - drained));
    assert_eq!(client_count(&bed.product.gateways[drained]), 0);
}

#[test]
fn a_draining_gateway_that_is_alone_goes_on_with_the_clients_that_it_has() {
    const LIFETIME_S: u64 = 60;
    let bed = bed_with_grants_of(LIFETIME_S, 1);
    let crowd = bed.product.crowd(1).unwrap();
    let stream = bed.numbered_stream().unwrap();
    let download = bed.download().unwrap();
    let first = grant_of(&bed);
    drain(&bed, 0, true);
    let renewed = Duration::from_secs(LIFETIME_S * 3 / 4) + SOON;
    wait_until("another grant", renewed, || grant_of(&bed) != first).unwrap();
    assert_eq!(bed.way_of(&crowd[0], SOON), None, "no new client");
    download.goes_on(GAP).unwrap();
    stream.goes_on(GAP).unwrap();
    let gap = stream.longest_gap().max(download.longest_gap());
    assert!(gap < GAP, "nothing for {gap:?}");
}

#[test]
fn a_gateway_that_is_drained_at_once_has_its_clients_at_another_within_seconds() {
    let bed = Bed::new(2).unwrap();
    let stream = bed.numbered_stream().unwrap();
    stream.goes_on(GAP).unwrap();
    let drained = bed.serving();
    let other = 1 - drained;
    let name = bed.product.gateways[drained].name.clone();
    let began = Instant::now();
    let line = format!("gateway drain {name} --now");
    bed.product.portal.admin(&line).unwrap();
    wait_until_used(&bed, other, 5);
    println!("moved after {} ms", began.elapsed().as_millis());
    stream.goes_on(GAP).unwrap();
    let gap = stream.longest_gap();
    println!("longest gap of datagrams: {} ms", gap.as_millis());
    assert!(gap < Duration::from_secs(1), "nothing for {gap:?}");
    let is_empty = || client_count(&bed.product.gateways[drained]) == 0;
    wait_until("the old one to be empty", Duration::from_secs(10), is_empty).unwrap();
    let list = bed.product.portal.admin("gateway list").unwrap();
    assert!(list.contains("draining, 0 clients left"), "{list}");

    // The other one is the last that takes clients.
    let last = bed.product.gateways[other].name.clone();
    let line = format!("gateway drain {last} --now");
    let refused = bed.product.portal.admin_outcome(&line).unwrap();
    assert!(!refused.status.success());
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(said.contains("no other gateway of the site"), "{said}");
    stream.goes_on(GAP).unwrap();
    let line = format!("gateway drain {last} --now --force");
    bed.product.portal.admin(&line).unwrap();
    wait_until("the last grant's end", Duration::from_secs(15), || {
        !bed.reaches(culvert_lab::product::PRIVATE_V4, crate::common::WEB_PORT)
    })
    .unwrap();
}

/// The grant that the client has for the web server.
fn grant_of(bed: &Bed) -> String {
    let status = bed.product.client.status().unwrap();
    let resources = status["resources"].as_array().unwrap();
    let web = resources.iter().find(|it| it["name"] == "web").unwrap();
    web["grant"].as_str().unwrap().to_owned()
}
