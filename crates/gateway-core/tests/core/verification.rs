//! A gateway that waits for verification by an administrator.

use crate::play::{Play, claims, options};
use culvert_gateway_core::NotReady;
use culvert_wire::messages::ToGateway;

#[test]
fn a_gateway_that_waits_for_verification_says_so_with_its_fingerprint_and_is_not_ready() {
    let mut play = Play::open();
    assert_eq!(play.gateway.readiness(), Ok(()));
    play.hear(ToGateway::Verification { awaited: true });
    assert!(play.gateway.awaits_verification());
    assert_eq!(play.gateway.readiness(), Err(NotReady::Unverified));
    let summary = play.gateway.summary();
    let fingerprint = options().public_key.fingerprint();
    assert!(
        summary.contains("waits for verification") && summary.contains(&fingerprint),
        "{summary}"
    );
    play.hear(ToGateway::Verification { awaited: false });
    assert_eq!(play.gateway.readiness(), Ok(()));
    assert!(!play.gateway.summary().contains("waits"));
}

#[test]
fn a_gateway_that_is_to_wait_drops_every_grant_that_it_holds() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.assert_reaches(5, "10.0.9.1:53");
    play.hear(ToGateway::Verification { awaited: true });
    assert_eq!(play.gateway.grants().count(), 0);
    play.assert_reaches_nothing();
}
