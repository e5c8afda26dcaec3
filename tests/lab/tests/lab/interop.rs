//! Other implementations as real peers, in both roles.

use std::time::Duration;

use culvert_lab::{Family, Implementation, Tunnel, TunnelPlan, wait_until};

use crate::support::{FAMILIES, SOON, passes_traffic};

/// Each peer once as the end that starts the handshake and once as the one that answers.
fn pairs() -> [(Implementation, Implementation); 4] {
    [
        (Implementation::culvert(), Implementation::WireguardGo),
        (Implementation::WireguardGo, Implementation::culvert()),
        (Implementation::culvert(), Implementation::Boringtun),
        (Implementation::Boringtun, Implementation::culvert()),
    ]
}

fn up(plan: &TunnelPlan) -> Tunnel {
    let tunnel = plan.build().unwrap();
    tunnel.wait_until_up().unwrap();
    tunnel
}

#[test]
fn wireguard_go_and_boringtun_exchange_files_with_culvert_in_both_roles() {
    for (left, right) in pairs() {
        for outer in FAMILIES {
            let tunnel = up(&TunnelPlan {
                outer,
                ..TunnelPlan::between(&left, &right)
            });
            passes_traffic(&tunnel).unwrap();
        }
    }
}

#[test]
fn a_preshared_key_joins_culvert_with_other_implementations() {
    for (left, right) in pairs() {
        let plan = TunnelPlan {
            preshared_key: true,
            ..TunnelPlan::between(&left, &right)
        };
        passes_traffic(&up(&plan)).unwrap();
    }
}

#[test]
fn another_preshared_key_on_one_side_ends_the_tunnel_at_the_next_handshake() {
    for (left, right) in pairs() {
        let tunnel = up(&TunnelPlan {
            preshared_key: true,
            ..TunnelPlan::between(&left, &right)
        });
        let other_key = culvert_lab::run("wg genpsk").unwrap();
        let left_peer = &tunnel.right.keys.public_key;
        let addresses = format!("{}/32", tunnel.right_address(Family::V4));
        // Removing the peer forgets the session; adding it again needs a handshake.
        let endpoint = (tunnel.link.subnet.host(Family::V4, 2), tunnel.right_port()).into();
        tunnel
            .left
            .set(&format!("peer {left_peer} remove"))
            .unwrap();
        tunnel
            .left
            .set_peer(
                left_peer,
                Some(endpoint),
                &addresses,
                Some(other_key.trim()),
            )
            .unwrap();
        let ping = format!("ping -c 3 -i 0.2 -W 1 {}", tunnel.right_address(Family::V4));
        assert!(
            tunnel.left.namespace.run(&ping).is_err(),
            "{left:?} to {right:?}"
        );
        assert_eq!(tunnel.left.latest_handshake_s(left_peer).unwrap(), 0);
    }
}

#[test]
fn an_end_that_restarts_is_welcome_again() {
    for (left, right) in pairs() {
        let mut tunnel = up(&TunnelPlan::between(&left, &right));
        // WireGuard paper, §5.1: the TAI64N stamp of an initiation must be greater than the last
        // one. Some implementations blur the stamp to about 17 ms, others do not; a restart takes
        // longer.
        tunnel.left.restart().unwrap();
        tunnel.configure_left().unwrap();
        tunnel.wait_until_up().unwrap();

        // The restarted right end has no endpoint for the left one and no session: it learns both
        // when the left end notices and starts over.
        tunnel.right.restart().unwrap();
        tunnel.configure_right().unwrap();
        let ping = format!("ping -c 1 -W 0.5 {}", tunnel.right_address(Family::V4));
        // KEEPALIVE_TIMEOUT + REKEY_TIMEOUT, 15 s, pass before the left end starts over (§6.2).
        wait_until(
            "the tunnel after a restart",
            Duration::from_secs(15) + SOON,
            || tunnel.left.namespace.run(&ping).is_ok(),
        )
        .unwrap();
        passes_traffic(&tunnel).unwrap();
    }
}
