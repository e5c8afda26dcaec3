//! Packets that wait for a key.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use culvert_lab::Family;

use crate::support::{SOON, culvert_plan, culvert_tunnel};

/// The port on which datagrams are received.
const PORT: u16 = 9002;

/// More than one turn of a worker carries (64), fewer than may wait at one (128): a few are for what the kernel
/// itself may want to send.
const WAITING: u8 = 100;

/// All that waited leaves at once. The end that waited repeats its own initiation after 5 s (WireGuard
/// paper, §6.4), and what was forgotten leaves with whatever happens next: this must be over before.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);

#[test]
fn whatever_waited_for_a_handshake_arrives_in_order() {
    let tunnel = culvert_plan().build().unwrap();
    let (left, right) = (&tunnel.left, &tunnel.right);
    // An end that does not know the other does not answer.
    let stranger = &left.keys.public_key;
    right.set(&format!("peer {stranger} remove")).unwrap();

    let target = SocketAddr::new(tunnel.right_address(Family::V4), PORT);
    let receiver = right
        .namespace
        .inside(|| Ok(UdpSocket::bind(target)?))
        .unwrap();
    let sender = left
        .namespace
        .inside(|| Ok(UdpSocket::bind("0.0.0.0:0")?))
        .unwrap();
    for number in 0..WAITING {
        sender.send_to(&[number], target).unwrap();
    }
    // It starts the handshake itself, and confirms it with a packet that asks for no answer: nothing
    // but the key makes the other end send.
    let endpoint = SocketAddr::new(tunnel.link.subnet.host(Family::V4, 1), tunnel.left_port());
    let allowed_ips = format!("{}/32", tunnel.left_address(Family::V4));
    right
        .set_peer(stranger, Some(endpoint), &allowed_ips, None)
        .unwrap();
    right
        .set(&format!("peer {stranger} persistent-keepalive 25"))
        .unwrap();

    let mut arrived = Vec::new();
    let mut buffer = [0; 16];
    receiver.set_read_timeout(Some(SOON)).unwrap();
    while arrived.len() < usize::from(WAITING) && receiver.recv(&mut buffer).is_ok() {
        arrived.push(buffer[0]);
        receiver.set_read_timeout(Some(LEAVES_WITHIN)).unwrap();
    }
    assert_eq!(arrived, (0..WAITING).collect::<Vec<_>>());
    assert_eq!(left.culvert_drops("stage", "full").unwrap(), 0);
}

#[test]
fn the_first_answer_to_a_peer_that_has_restarted_arrives() {
    let mut tunnel = culvert_tunnel().unwrap();
    // It waits for a whole handshake.
    let ping = format!("ping -c 1 -W 10 {}", tunnel.right_address(Family::V4));
    for restart in 0..10 {
        tunnel.left.restart().unwrap();
        tunnel.configure_left().unwrap();
        let answered = tunnel.left.namespace.run(&ping);
        let lost = tunnel.left.culvert_drops("open", "unknown_index").unwrap();
        assert_eq!(lost, 0, "restart {restart}: it went under the old key");
        answered.unwrap();
    }
}
