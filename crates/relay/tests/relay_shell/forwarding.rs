//! Records between a gateway and its clients.

use crate::end::{End, client};
use crate::scene::Scene;
use culvert_relay_core::registration::Output;
use std::net::{Ipv6Addr, SocketAddr};

/// A WireGuard record of a kind, with the number behind its kind.
pub(crate) fn record(kind: u8, number: u32, len: usize) -> Vec<u8> {
    let mut record = vec![0xee; len];
    record[..4].copy_from_slice(&[kind, 0, 0, 0]);
    record[4..8].copy_from_slice(&number.to_le_bytes());
    record
}

pub(crate) fn run(number: u32, records: usize) -> Vec<u8> {
    (0..records)
        .flat_map(|_| record(4, number, 1_420))
        .collect()
}

/// A gateway and a client at one port, both registered.
fn pair(relay: SocketAddr) -> (End, End) {
    let mut gateway = End::new(relay, None);
    gateway.register();
    let mut end = End::new(relay, Some(client(1)));
    end.register();
    (gateway, end)
}

#[tokio::test(flavor = "multi_thread")]
async fn records_pass_in_both_directions_in_their_batches_with_their_class() {
    let scene = Scene::start().await;
    // The ports of both workers.
    for port in [scene.first_port, scene.first_port + 1] {
        let (mut gateway, mut end) = pair(scene.at(port));
        let initiation = record(1, 7, 148);
        end.send(&initiation, 148, 0x88);
        let came = gateway.receive(148);
        assert_eq!(
            (came[0].bytes.as_slice(), came[0].class),
            (&initiation[..], 0x88)
        );

        let batch = run(9, 40);
        end.send(&batch, 1_420, 0x2a);
        let came = gateway.receive(batch.len());
        let bytes: Vec<u8> = came.iter().flat_map(|batch| batch.bytes.clone()).collect();
        assert!(bytes == batch, "byte for byte");
        assert!(
            came.iter()
                .all(|batch| (batch.stride, batch.class) == (1_420, 0x2a))
        );
        assert!(came.len() < 40, "in batches: {}", came.len());

        let batch = run(7, 40);
        gateway.send(&batch, 1_420, 1);
        let came = end.receive(batch.len());
        let bytes: Vec<u8> = came.iter().flat_map(|batch| batch.bytes.clone()).collect();
        assert!(bytes == batch, "byte for byte");
        assert!(came.iter().all(|batch| batch.class == 1));
    }
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_with_ipv6_reaches_one_with_ipv4() {
    let scene = Scene::start().await;
    let port = scene.first_port;
    let mut gateway = End::new(SocketAddr::from((Ipv6Addr::LOCALHOST, port)), None);
    gateway.register();
    let mut end = End::new(scene.at(port), Some(client(1)));
    end.register();
    let initiation = record(1, 7, 148);
    end.send(&initiation, 148, 0x88);
    assert_eq!(gateway.receive(148)[0].bytes, initiation);
    let batch = run(7, 20);
    gateway.send(&batch, 1_420, 0x2b);
    let came = end.receive(batch.len());
    assert!(came.iter().all(|batch| batch.class == 0x2b), "{came:?}");
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_learns_the_address_that_the_relay_sees() {
    let scene = Scene::start().await;
    let (_, end) = pair(scene.at(scene.first_port));
    let own = SocketAddr::from(([127, 0, 0, 1], end.socket.local_port()));
    let relay = scene.at(scene.first_port);
    let mapped = Output::Mapped {
        by: relay,
        address: own,
    };
    assert!(end.outputs.contains(&mapped), "{:?}", end.outputs);
    scene.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_shows_the_ends_and_counts_what_a_stranger_sends() {
    let scene = Scene::start().await;
    let relay = scene.at(scene.first_port);
    let (gateway, _end) = pair(relay);
    let stranger = End::new(relay, Some(client(2)));
    stranger.send(&run(7, 1), 1_420, 0);
    let status = scene
        .status_where(|status| {
            let mut drops = status.drops.iter();
            status.client_count == 1 && drops.any(|drop| drop.reason == "unknown_sender")
        })
        .await;
    assert_eq!(status.gateway_count, 1);
    assert_eq!(status.gateways[0].port, scene.first_port);
    assert!(status.ready);
    drop(gateway);
    scene.finish().await;
}
