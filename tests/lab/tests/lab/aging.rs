//! Tests of an old session.

use std::time::{SystemTime, UNIX_EPOCH};

use culvert_lab::measure::{IperfServer, PingReport, TcpLoad};
use culvert_lab::{Family, Implementation, Tunnel, TunnelPlan, WireGuardEnd};

use crate::support::SOON;

/// WireGuard paper, §6.1: REKEY_AFTER_TIME is 120 s, and REKEY_TIMEOUT 5 s for a handshake that has to be repeated;
/// five more for a busy machine.
const REKEYED_AT_AGE_S: u64 = 130;

/// Longer than that, so that a session which is not rekeyed is seen. The session may be younger than the first
/// handshake. If the answer comes before wireguard-go has set its timer, it forgets the answer, and makes another
/// handshake after 5 s. On a busy machine that happens several times in a row.
const WATCHED_S: u32 = 135;

/// A ping each 20 ms: several meet each step of a rekeying.
const PING_INTERVAL_S: f32 = 0.02;

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
        (Implementation::Boringtun, culvert.clone()),
    ];
    // All of them grow old at the same time.
    let running: Vec<_> = pairs
        .iter()
        .map(|(left, right)| {
            let tunnel = TunnelPlan::between(left, right).build().unwrap();
            tunnel.wait_until_up().unwrap();
            let address = tunnel.right_address(Family::V4);
            let server = IperfServer::start(&tunnel.right.namespace, address).unwrap();
            let load = TcpLoad {
                rate_mbit: Some(LOAD_MBIT),
                ..TcpLoad::forward(WATCHED_S)
            };
            let tcp = server.start_tcp(&tunnel.left.namespace, &load).unwrap();
            let line = format!("ping -q -n -i {PING_INTERVAL_S} -w {WATCHED_S} {address}");
            let ping = tunnel.left.namespace.spawn(&line).unwrap();
            (tunnel, server, load, tcp, ping)
        })
        .collect();

    for (tunnel, server, load, tcp, ping) in running {
        let name = format!(
            "{:?} to {:?}",
            tunnel.left.implementation, tunnel.right.implementation
        );
        let tcp = server.finish_tcp(tcp, &load).unwrap();
        let ping = PingReport::of(ping, SOON).unwrap();
        // Boringtun shows the age of its handshake, not its time: a Culvert end is asked.
        let culvert_end = if tunnel.left.implementation == culvert {
            &tunnel.left
        } else {
            &tunnel.right
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let age = now.as_secs() - handshake_s(culvert_end, &tunnel);
        assert!(
            age <= REKEYED_AT_AGE_S,
            "{name}: keys of {age} s are in use; {} {}",
            tunnel.left.process.output(),
            tunnel.right.process.output()
        );
        if name.contains("Boringtun") {
            // Its threads reorder and lose packets at any time; that it goes on is all there is.
            assert!(
                ping.received * 20 >= ping.sent * 19,
                "{name}: {ping:?} {tcp:?}"
            );
            continue;
        }
        // The last one may be under way when time is up.
        assert!(ping.received + 1 >= ping.sent, "{name}: {ping:?}");
        for end in [&tunnel.left, &tunnel.right] {
            if end.implementation == culvert {
                assert_eq!(lost_for_want_of_a_key(end), 0, "{name}: {}", end.interface);
            }
        }
    }
}

/// The time of the end's last handshake with the other one.
fn handshake_s(end: &WireGuardEnd, tunnel: &Tunnel) -> u64 {
    let is_left = end.interface == tunnel.left.interface;
    let peer = if is_left { &tunnel.right } else { &tunnel.left };
    end.latest_handshake_s(&peer.keys.public_key).unwrap()
}

/// Packets and records that were dropped because there was no key for them. (Repeated TCP segments
/// tell less: a busy machine has them without any loss.)
fn lost_for_want_of_a_key(end: &WireGuardEnd) -> u64 {
    [
        ("stage", "full"),
        ("stage", "handshake_failed"),
        ("seal", "key_exhausted"),
        ("open", "unknown_index"),
        ("open", "key_expired"),
        ("open", "not_authentic"),
    ]
    .iter()
    .map(|(stage, reason)| end.culvert_drops(stage, reason).unwrap())
    .sum()
}
