//! What happens when a session grows old.

use std::time::Duration;

use culvert_lab::measure::{IperfServer, PingReport, TcpLoad, start_ping};
use culvert_lab::{Family, Implementation, TunnelPlan};

/// WireGuard paper, §6.1: REKEY_AFTER_TIME is 120 s. Five more let the next session carry packets.
const WATCHED_S: u32 = 125;

/// Often enough that several pings meet each step of a rekeying.
const PING_INTERVAL: Duration = Duration::from_millis(10);

/// Enough to keep both directions busy at every moment, little enough that nothing overflows on a
/// machine that runs other tests as well.
const LOAD_MBIT: u32 = 20;

#[test]
fn a_session_is_rekeyed_under_load_without_a_lost_packet() {
    let culvert = Implementation::culvert();
    let pairs = [
        (culvert.clone(), culvert.clone()),
        (culvert.clone(), Implementation::WireguardGo),
        (Implementation::WireguardGo, culvert.clone()),
        (culvert.clone(), Implementation::Boringtun),
        (Implementation::Boringtun, culvert),
    ];
    // All of them grow old at the same time.
    let running: Vec<_> = pairs
        .iter()
        .map(|(left, right)| {
            let tunnel = TunnelPlan::between(left, right).build().unwrap();
            tunnel.wait_until_up().unwrap();
            let first_handshake = tunnel
                .left
                .latest_handshake_s(&tunnel.right.keys.public_key)
                .unwrap();
            let address = tunnel.right_address(Family::V4);
            let server = IperfServer::start(&tunnel.right.namespace, address).unwrap();
            let load = TcpLoad {
                rate_mbit: Some(LOAD_MBIT),
                ..TcpLoad::forward(WATCHED_S)
            };
            let tcp = server.start_tcp(&tunnel.left.namespace, &load).unwrap();
            let count = WATCHED_S * 1000 / u32::try_from(PING_INTERVAL.as_millis()).unwrap();
            let ping = start_ping(&tunnel.left.namespace, address, PING_INTERVAL, count).unwrap();
            (tunnel, first_handshake, server, load, tcp, ping)
        })
        .collect();

    for (tunnel, first_handshake, server, load, tcp, ping) in running {
        let name = format!(
            "{:?} to {:?}",
            tunnel.left.implementation, tunnel.right.implementation
        );
        let tcp = server.finish_tcp(tcp, &load).unwrap();
        let ping = PingReport::of(ping, Duration::from_secs(60)).unwrap();
        for (end, peer) in [(&tunnel.left, &tunnel.right), (&tunnel.right, &tunnel.left)] {
            let handshake = end.latest_handshake_s(&peer.keys.public_key).unwrap();
            assert!(
                handshake >= first_handshake + 110,
                "{name}: no second handshake"
            );
        }
        assert_eq!(ping.received, ping.sent, "{name}: {ping:?}");
        assert_eq!(tcp.retransmissions, 0, "{name}: {tcp:?}");
    }
}
