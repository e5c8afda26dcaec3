//! The second cipher suite.

use culvert_lab::{Family, Implementation, Tunnel, TunnelPlan, WireGuardEnd, wait_until};

use crate::support::{SOON, passes_traffic, request};

fn aes() -> Implementation {
    Implementation::culvert_with("--cipher aes256gcm")
}

#[test]
fn ends_that_both_choose_aes_exchange_files() {
    let tunnel = TunnelPlan::between(&aes(), &aes()).build().unwrap();
    tunnel.wait_until_up().unwrap();
    passes_traffic(&tunnel).unwrap();
    let status = tunnel.left.culvert_json().unwrap();
    assert_eq!(status["peers"][0]["cipher"], "aes256gcm");
}

#[test]
fn ends_that_disagree_about_the_cipher_never_complete_a_handshake() {
    let plain = Implementation::culvert();
    for (left, right) in [
        (aes(), plain.clone()),
        (plain, aes()),
        (aes(), Implementation::WireguardGo),
        (Implementation::WireguardGo, aes()),
    ] {
        let tunnel = TunnelPlan::between(&left, &right).build().unwrap();
        let ping = format!("ping -c 3 -i 0.2 -W 1 {}", tunnel.right_address(Family::V4));
        assert!(
            tunnel.left.namespace.run(&ping).is_err(),
            "{left:?} to {right:?}"
        );
        if let Implementation::Culvert { .. } = right {
            // The initiation arrived, and was refused for what it is.
            wait_until("a refused initiation", SOON, || refusals(&tunnel.right) > 0).unwrap();
        }
        for (end, peer) in [(&tunnel.left, &tunnel.right), (&tunnel.right, &tunnel.left)] {
            assert_eq!(end.latest_handshake_s(&peer.keys.public_key).unwrap(), 0);
        }
    }
}

fn refusals(end: &WireGuardEnd) -> u64 {
    ["not_authentic", "wrong_suite"]
        .iter()
        .map(|reason| end.culvert_drops("handshake", reason).unwrap())
        .sum()
}

#[test]
fn the_configuration_socket_chooses_the_cipher_as_well() {
    let plain = Implementation::culvert();
    let tunnel = TunnelPlan::between(&plain, &aes()).build().unwrap();
    let answer = request(&tunnel.left, "set=1\ncipher=aes256gcm\n\n");
    assert_eq!(answer, "errno=0\n\n");
    tunnel.wait_until_up().unwrap();
    passes_a_ping(&tunnel);
}

fn passes_a_ping(tunnel: &Tunnel) {
    let right = tunnel.right_address(Family::V6);
    tunnel
        .wait_until_reachable(&tunnel.left.namespace, right)
        .unwrap();
}
