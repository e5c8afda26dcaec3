//! Conditions that begin and cease to hold while somebody uses the access.

use crate::common::{Bed, SECOND, SOON, WEB_PORT, access_with};
use culvert_lab::product::PRIVATE_V4;
use culvert_lab::wait_until;
use std::time::{Duration, Instant};

/// "A 'no' stands for up to ten seconds before the portal is asked again, or until the portal says that
/// something has changed." The portal says so here, so the limit is only for a machine that is busy
/// compiling.
const AFTER_A_CHANGE: Duration = Duration::from_secs(5);

/// "gives up a peer that has been silent for 12 s. Reconnecting waits 1 s and a random time of up to
/// 1 s"; the rest is for a machine that compiles.
const SESSION_OF_ANOTHER: Duration = Duration::from_secs(12 + 2 + 6);

/// The router of the client, as the portal sees it, and where it moves to.
const ROUTER: &str = "10.200.13.2";
const ROUTER_MOVED: &str = "10.200.13.3";

/// Waits until the client is let in, and says how long that took.
fn let_in(bed: &Bed) -> Duration {
    let since = Instant::now();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    since.elapsed()
}

/// The exit status of `culvert admin explain`.
fn explained(bed: &Bed) -> Option<i32> {
    let explain = "explain --client laptop --resource web";
    let outcome = bed.product.portal.admin_outcome(explain).unwrap();
    outcome.status.code()
}

#[test]
fn access_begins_when_a_client_is_verified_and_ends_within_a_second_when_it_no_longer_is() {
    let bed = Bed::with_access(1, &access_with("verified = true")).unwrap();
    let portal = &bed.product.portal;
    for _ in 0..2 {
        assert!(!bed.reaches(PRIVATE_V4, WEB_PORT), "nobody has verified it");
        assert_eq!(explained(&bed), Some(5));
        portal.admin("client verify laptop").unwrap();
        let took = let_in(&bed);
        assert!(took <= AFTER_A_CHANGE, "it took {took:?}");
        assert_eq!(explained(&bed), Some(0));

        let download = bed.download().unwrap();
        portal.admin("client unverify laptop").unwrap();
        // The change was committed before the command ended.
        let cut = download.cut_after(Instant::now()).unwrap();
        assert!(cut <= SECOND, "bytes came for another {cut:?}");
    }
}

#[test]
fn a_client_that_comes_with_another_key_is_verified_no_longer() {
    let mut bed = Bed::with_access(1, &access_with("verified = true")).unwrap();
    let verify = "client verify laptop";
    bed.product.portal.admin(verify).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    bed.product.client.stop().unwrap();
    let key = bed.product.client.state_dir().join("private.key");
    std::fs::remove_file(key).unwrap();
    bed.product.client.start().unwrap();
    assert!(!bed.reaches(PRIVATE_V4, WEB_PORT), "somebody has its id");
    assert_eq!(explained(&bed), Some(5));
    bed.product.portal.admin(verify).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
}

#[test]
fn from_address_is_the_address_of_the_clients_router_and_not_its_own() {
    let from = |address: &str| access_with(&format!("from_address = [\"{address}\"]"));
    // The client's own network, before its router translates it.
    let bed = Bed::with_access(1, &from("10.200.14.0/24")).unwrap();
    assert!(
        !bed.reaches(PRIVATE_V4, WEB_PORT),
        "the portal sees its router"
    );
    assert_eq!(explained(&bed), Some(5));
    let portal = &bed.product.portal;
    portal.apply(&from(ROUTER)).unwrap();
    let took = let_in(&bed);
    assert!(took <= AFTER_A_CHANGE, "it took {took:?}");

    let download = bed.download().unwrap();
    portal.apply(&from(ROUTER_MOVED)).unwrap();
    let cut = download.cut_after(Instant::now()).unwrap();
    assert!(cut <= SECOND, "bytes came for another {cut:?}");
    assert_eq!(explained(&bed), Some(5));
    portal.apply(&from("10.200.13.0/30")).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
}

#[test]
fn a_client_whose_router_moves_loses_and_gains_what_depends_on_its_address() {
    let from = |address: &str| access_with(&format!("from_address = [\"{address}\"]"));
    let bed = Bed::with_access(1, &from(ROUTER)).unwrap();
    let move_router = |from: &str, to: &str| {
        let script = format!(
            "ip address del {from}/24 dev veth13 && ip address add {to}/24 dev veth13 && \
             ip route replace default via 10.200.13.1"
        );
        bed.product.nat.shell(&script).unwrap();
    };
    let download = bed.download().unwrap();
    move_router(ROUTER, ROUTER_MOVED);
    let moved = Instant::now();
    let cut = download.cut_after(moved).unwrap();
    assert!(cut <= SESSION_OF_ANOTHER, "bytes came for {cut:?}");
    wait_until("the portal to see the new address", SOON, || {
        explained(&bed) == Some(5)
    })
    .unwrap();
    assert!(!bed.reaches(PRIVATE_V4, WEB_PORT), "it is elsewhere");

    move_router(ROUTER_MOVED, ROUTER);
    wait_until("access from there", SESSION_OF_ANOTHER, || {
        bed.reaches(PRIVATE_V4, WEB_PORT)
    })
    .unwrap();
}
