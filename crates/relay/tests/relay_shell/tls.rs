//! TLS streams of a relay that runs.

use crate::end::{End, client};
use crate::forwarding::{record, run};
use crate::scene::Scene;
use culvert_base::Family;
use culvert_link::system_look_up;
use culvert_relay::status::Status;
use culvert_relay_tls::{Bridge, BridgeSettings};
use culvert_udp::Socket;
use culvert_wire::messages::FromRelay;

#[tokio::test(flavor = "multi_thread")]
async fn ends_register_and_exchange_records_by_tls_as_by_udp() {
    let scene = Scene::start().await;
    let FromRelay::Hello { tls: Some(tls), .. } = scene.hello.clone() else {
        panic!("the portal is not told of TLS: {:?}", scene.hello);
    };
    let port = scene.first_port;
    let mut gateway = End::new(scene.at(port), None);
    gateway.register();
    let socket = Socket::bind(Family::V4, 0, 0).unwrap();
    let bridge = Bridge::open(BridgeSettings {
        addresses: vec![scene.at(tls.port)],
        pin: tls.pin,
        gateway_port: port,
        tunnel_port: socket.local_port(),
        proxy: None,
        mark: None,
        look_up: system_look_up,
    });
    let bridge = bridge.await.unwrap();
    let mut end = End::through(socket, bridge.local(), port, Some(client(1)));
    end.register();
    let has = |status: &Status, streams, clients| {
        status.client_count == clients && status.tls.is_some_and(|tls| tls.streams == streams)
    };
    scene.status_where(|status| has(status, 1, 1)).await;

    end.send(&record(1, 9, 148), 148, 0x88);
    let came = gateway.receive(148);
    assert_eq!(came[0].bytes, record(1, 9, 148));
    let batch = run(9, 40);
    for (from, to) in [(0, 1), (1, 0)] {
        let ends = [&mut end, &mut gateway];
        ends[from].send(&batch, 1_420, 0);
        let came = ends[to].receive(batch.len());
        let bytes: Vec<u8> = came.iter().flat_map(|batch| batch.bytes.clone()).collect();
        assert!(bytes == batch, "byte for byte");
    }
    drop(bridge);
    // The end itself leaves after a minute without a sign of life.
    scene.status_where(|status| has(status, 0, 1)).await;
    scene.finish().await;
}
