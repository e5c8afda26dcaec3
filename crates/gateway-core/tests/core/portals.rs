//! The addresses of the portal.

use crate::play::Play;
use culvert_wire::messages::{PortalSet, ToGateway};

#[test]
fn the_addresses_that_the_portal_tells_are_to_be_kept() {
    let mut play = Play::open();
    assert_eq!(play.portals, [], "an older portal tells nothing");
    let portals = PortalSet {
        urls: vec!["https://new.example".to_owned()],
        pins: Vec::new(),
        authorities: true,
    };
    play.hear(ToGateway::PortalsSet {
        portals: portals.clone(),
    });
    assert_eq!(play.portals, [portals]);
    assert_eq!(play.disconnects, 0);
}
