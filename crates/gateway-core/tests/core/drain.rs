//! Draining: asked for at the machine, or by the portal.

use crate::play::{Play, claims};
use culvert_wire::messages::{FromGateway, ToGateway};

#[test]
fn draining_is_told_and_takes_nothing_from_those_that_are_there() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.said.clear();
    play.gateway.handle_drain(true);
    play.gateway.handle_drain(true);
    play.execute();
    assert_eq!(play.said, [FromGateway::Draining { on: true }]);
    assert!(play.gateway.is_draining());
    play.assert_reaches(5, "10.0.9.1:53");
    // It takes a client that the portal sends nevertheless: there is no other gateway then.
    play.said.clear();
    play.grant(&claims(2, 5, 8));
    play.assert_accepted(2);
    play.gateway.handle_drain(false);
    play.execute();
    assert_eq!(play.said, [FromGateway::Draining { on: false }]);
}

#[test]
fn a_new_connection_says_that_it_drains() {
    let mut play = Play::open();
    play.gateway.handle_drain(true);
    play.disconnect();
    play.said.clear();
    play.reconnect(&[]);
    let hello = play.said.first();
    assert!(matches!(
        hello,
        Some(FromGateway::Hello { draining: true, .. })
    ));
    assert_eq!(play.said.len(), 1, "hello says it");
}

#[test]
fn what_the_portal_wants_is_no_wish_of_the_gateways_own() {
    let mut play = Play::open();
    play.hear(ToGateway::Drain { on: true });
    assert!(play.gateway.is_draining() && !play.gateway.is_draining_by_itself());
    assert_eq!(play.said, []);
    // An administrator ended it while the gateway was away: it has ended.
    play.disconnect();
    play.reconnect(&[]);
    let hello = play.said.first();
    assert!(matches!(
        hello,
        Some(FromGateway::Hello {
            draining: false,
            ..
        })
    ));
    assert!(!play.gateway.is_draining());
    // And the other way round: one does not end what the other wants.
    play.gateway.handle_drain(true);
    play.hear(ToGateway::Drain { on: true });
    play.hear(ToGateway::Drain { on: false });
    assert!(play.gateway.is_draining());
}
