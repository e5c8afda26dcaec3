//! Gateways that go away, and a client that moves.

use crate::common::{Bed, WEB_PORT};
use culvert_lab::product::{PRIVATE_NAME, PRIVATE_V4};
use culvert_lab::wait_until;
use std::time::{Duration, Instant};

#[test]
fn a_killed_gateway_is_taken_over_within_five_seconds() {
    let mut bed = Bed::new(2).unwrap();
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    let killed = bed.serving();
    bed.product.gateways[killed].kill().unwrap();
    let at = Instant::now();
    // New connections: those that the killed gateway masqueraded can't go on through another.
    while !bed.reaches(PRIVATE_V4, WEB_PORT) {
        assert!(at.elapsed() < Duration::from_secs(30), "nobody took over");
    }
    let taken = at.elapsed();
    assert!(taken <= Duration::from_secs(5), "it took {taken:?}");
    assert_ne!(bed.serving(), killed);
}

#[test]
fn a_client_that_changes_its_address_under_load_goes_on_within_two_seconds() {
    let bed = Bed::new(1).unwrap();
    let download = bed.download().unwrap();
    // A handshake that has just been made is not made again at once.
    std::thread::sleep(Duration::from_secs(3));
    move_client(&bed);
    download.goes_on(Duration::from_secs(5)).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let gap = download.longest_gap();
    assert!(gap <= Duration::from_secs(2), "nothing came for {gap:?}");
}

/// The connection to the portal goes with the address: it is not waited for.
#[test]
fn a_client_that_has_changed_its_address_gets_new_access_within_five_seconds() {
    let bed = Bed::new(1).unwrap();
    move_client(&bed);
    wait_until("access by name", Duration::from_secs(5), || {
        let line = format!("curl -fsS -m 1 http://{PRIVATE_NAME}/");
        bed.product.client.run_with_dns(&line).is_ok()
    })
    .unwrap();
}

/// Another address, and the way out by it: the router translates it to another port.
fn move_client(bed: &Bed) {
    let client = &bed.product.client.namespace;
    client
        .shell(
            "ip address del 10.200.14.2/24 dev veth14 && \
             ip address add 10.200.14.77/24 dev veth14 && \
             ip route replace default via 10.200.14.1",
        )
        .unwrap();
}
