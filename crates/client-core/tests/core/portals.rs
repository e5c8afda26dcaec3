//! The addresses of the portal.

use crate::play::Play;
use culvert_wire::messages::{ClientFeature, FromClient, PortalSet, ToClient};

fn told(url: &str) -> PortalSet {
    PortalSet {
        urls: vec![url.to_owned()],
        pins: Vec::new(),
        authorities: true,
    }
}

#[test]
fn the_addresses_that_the_portal_tells_are_to_be_kept() {
    let mut play = Play::new();
    play.client.handle_timeout(play.now());
    play.poll();
    play.connect();
    let [FromClient::Hello { features, .. }] = &play.said[..] else {
        panic!("{:?}", play.said);
    };
    assert!(features.contains(&ClientFeature::Portals));
    play.welcome(Vec::new(), Vec::new());
    assert_eq!(play.portals, [], "an older portal tells nothing");
    let portals = told("https://new.example");
    play.hear(ToClient::PortalsSet {
        portals: portals.clone(),
    });
    assert_eq!(play.portals, [portals]);
    assert_eq!(play.disconnects, 0);
}
