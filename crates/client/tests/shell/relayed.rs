//! A gateway that is reached through a relay, and directly as soon as that works.

use crate::gateway::{BEHIND, Gateway, gateway_id};
use crate::portal::FakePortal;
use crate::relay::RunningRelay;
use crate::scene::Scene;
use crate::tunnel::{begin, request};
use culvert_client::status::Status;
use culvert_ids::ClientId;
use culvert_lab::Family;
use culvert_wire::messages::{FromClient, PathKind, ToClient};

fn path_is(path: &'static str) -> impl Fn(&Status) -> bool {
    move |status| {
        let gateway = status.gateways.first();
        gateway.is_some_and(|gateway| gateway.path == path)
    }
}

/// Drops what goes to the gateway and comes from it directly.
fn cut(scene: &Scene) {
    let port = crate::gateway::port(1);
    for line in [
        "nft add table inet cut".to_owned(),
        "nft add chain inet cut in { type filter hook input priority 0 ; }".to_owned(),
        "nft add chain inet cut out { type filter hook output priority 0 ; }".to_owned(),
        format!("nft add rule inet cut in iifname != lo udp dport {port} drop"),
        format!("nft add rule inet cut out oifname != lo udp sport {port} drop"),
    ] {
        scene.gateway.run(&line).unwrap();
    }
}

#[test]
fn the_first_packet_goes_through_the_relay_and_a_direct_path_takes_over_until_it_is_cut() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, mut session, key) = begin(&portal, &[(1, "10.77.0.0/24")]).await;
        let gateway = Gateway::start(&scene.gateway, 1, key);
        let at = scene.link.subnet.host(Family::V4, 2);
        let relay = RunningRelay::start(&scene.gateway, at);
        let _attended = relay.attend(&gateway, gateway.public_key());

        // Nobody knows an address of the gateway.
        let ping = format!("ping -c 1 -W 10 {BEHIND}");
        let granted = async {
            let (number, asked, _) = request(&mut session).await;
            let mut grant = gateway.grant(number, asked, 1, Vec::new(), &[]);
            if let ToClient::AccessGranted { relays, .. } = &mut grant {
                let own = ClientId::from_bytes([9; 16]);
                relays.push(relay.access(Some(own), key));
            }
            session.say(grant).await;
        };
        let (first, ()) = tokio::join!(scene.command(&ping), granted);
        assert!(first.status.success(), "{first:?}");
        let status = client.until(path_is("relayed")).await;
        assert_eq!(status.gateways[0].relay_name.as_deref(), Some("fra-1"));

        session
            .say(ToClient::GatewayMoved {
                gateway: gateway_id(1),
                candidates: scene.candidates(1),
            })
            .await;
        let status = client.until(path_is("direct")).await;
        let direct = scene.candidates(1)[1];
        assert_eq!(status.gateways[0].endpoint, Some(direct));
        assert!(status.gateways[0].round_trip_us.is_some());
        until_told(&mut session, PathKind::Direct).await;

        // Packets that are sent meanwhile show that the path is dead.
        let pings = format!("ping -i 0.2 -c 40 -W 2 {BEHIND}");
        let cut_off = async {
            cut(scene);
            client.until(path_is("relayed")).await;
        };
        let (pings, ()) = tokio::join!(scene.command(&pings), cut_off);
        assert!(pings.status.success(), "{pings:?}");
        let again = scene.command(&ping).await;
        assert!(again.status.success(), "{again:?}");

        scene.gateway.run("nft delete table inet cut").unwrap();
        client.until(path_is("direct")).await;
        let last = scene.command(&ping).await;
        assert!(last.status.success(), "{last:?}");
        client.stop().await;
        drop(relay);
        gateway.kill();
    });
}

async fn until_told(session: &mut crate::portal::Session, kind: PathKind) {
    loop {
        if let FromClient::PathChanged { path, .. } = session.hear().await
            && path == kind
        {
            return;
        }
    }
}
