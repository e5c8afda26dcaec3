//! The bytes of each resource, through a real tunnel.

use crate::gateway::{BEHIND, Gateway};
use crate::portal::FakePortal;
use crate::scene::{Running, Scene};
use crate::tunnel::{begin, request};
use culvert_client::status::Status;

/// Behind the gateway too, and of another resource.
const OTHER: &str = "10.78.0.1";

/// Sent and received bytes of each resource.
fn bytes(status: &Status) -> Vec<Option<(u64, u64)>> {
    let resources = status.resources.iter();
    resources
        .map(|it| Some((it.sent_bytes?, it.received_bytes?)))
        .collect()
}

async fn tells(client: &Running, expected: &[Option<(u64, u64)>]) {
    client.until(|status| bytes(status) == expected).await;
}

#[test]
fn the_socket_tells_the_bytes_of_each_resource_and_none_of_one_that_was_never_granted() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let resources = [
            (1, "10.77.0.0/24"),
            (2, "10.78.0.0/24"),
            (3, "10.79.0.0/24"),
        ];
        let (client, mut session, key) = begin(&portal, &resources).await;
        let gateway = Gateway::start(&scene.gateway, 1, key);
        let add = format!("ip address replace {OTHER}/32 dev lo");
        scene.gateway.run(&add).unwrap();
        tells(&client, &[None, None, None]).await;
        // An echo request has 28 bytes of headers. The first one waits for access, and counts once.
        for (number, destination, options) in
            [(1, BEHIND, "-c 3 -i 0.2 -s 100"), (2, OTHER, "-c 1 -s 500")]
        {
            let ping = format!("ping {options} -W 10 {destination}");
            let granted = async {
                let (asking, asked, _) = request(&mut session).await;
                let grant = gateway.grant(asking, asked, number, scene.candidates(1), &[]);
                session.say(grant).await;
            };
            let (answered, ()) = tokio::join!(scene.command(&ping), granted);
            assert!(answered.status.success(), "{answered:?}");
        }
        tells(&client, &[Some((384, 384)), Some((528, 528)), None]).await;
        client.stop().await;
    });
}
