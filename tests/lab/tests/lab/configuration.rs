//! The ordinary `wg` tool configures Culvert, at any time.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use culvert_lab::{Family, Implementation, Tunnel, TunnelPlan, WireGuardEnd, wait_until};

use crate::support::{PacketCounter, SOON, carries, culvert_plan, culvert_tunnel};

#[test]
fn wg_shows_what_wg_has_set() {
    let tunnel = TunnelPlan {
        preshared_key: true,
        ..culvert_plan()
    }
    .build()
    .unwrap();
    let left = &tunnel.left;
    let peer = &tunnel.right.keys.public_key;
    left.set(&format!(
        "fwmark 0x1234 peer {peer} persistent-keepalive 25"
    ))
    .unwrap();
    tunnel.wait_until_up().unwrap();

    let shown = |property: &str| left.show(property).unwrap().trim().to_owned();
    assert_eq!(shown("public-key"), left.keys.public_key);
    assert_eq!(shown("private-key"), left.keys.private_key);
    assert_eq!(shown("listen-port"), tunnel.left_port().to_string());
    assert_eq!(shown("fwmark"), "0x1234");
    assert_eq!(shown("peers"), *peer);
    assert_eq!(shown("persistent-keepalive"), format!("{peer}\t25"));
    assert_eq!(
        shown("allowed-ips"),
        format!("{peer}\t10.200.100.2/32 fd00:200:64::2/128")
    );
    assert_eq!(
        shown("endpoints"),
        format!("{peer}\t10.200.1.2:{}", tunnel.right_port())
    );
    assert!(!shown("preshared-keys").contains("(none)"));
    assert!(left.latest_handshake_s(peer).unwrap() > 0);
}

#[test]
fn allowed_ips_decide_what_passes_in_both_directions() {
    let tunnel = culvert_tunnel().unwrap();
    let peer = &tunnel.right.keys.public_key;
    let ping = format!("ping -c 1 -W 0.5 {}", tunnel.right_address(Family::V4));

    // Outwards: nobody holds the address, so nobody gets the packet.
    tunnel
        .left
        .set(&format!("peer {peer} allowed-ips 10.200.100.99/32"))
        .unwrap();
    assert!(tunnel.left.namespace.run(&ping).is_err());
    assert!(tunnel.left.culvert_drops("route", "no_peer").unwrap() > 0);

    // Inwards: the request goes out, but its answer comes from an address the peer has no right to.
    tunnel
        .left
        .set(&format!("peer {peer} allowed-ips 10.200.100.0/24"))
        .unwrap();
    let peer_of_right = &tunnel.left.keys.public_key;
    tunnel
        .right
        .set(&format!(
            "peer {peer_of_right} allowed-ips 10.200.100.77/32"
        ))
        .unwrap();
    assert!(tunnel.left.namespace.run(&ping).is_err());
    assert!(
        tunnel
            .right
            .culvert_drops("inner", "source_not_allowed")
            .unwrap()
            > 0
    );

    tunnel
        .right
        .set(&format!("peer {peer_of_right} allowed-ips 10.200.100.1/32"))
        .unwrap();
    tunnel.wait_until_up().unwrap();
}

#[test]
fn a_peer_that_is_removed_gets_nothing_any_more() {
    let tunnel = culvert_tunnel().unwrap();
    let peer = &tunnel.right.keys.public_key;
    tunnel.left.set(&format!("peer {peer} remove")).unwrap();
    assert_eq!(tunnel.left.show("peers").unwrap(), "");
    let ping = format!("ping -c 1 -W 0.5 {}", tunnel.right_address(Family::V4));
    assert!(tunnel.left.namespace.run(&ping).is_err());
}

/// A configuration file of the left end, removed when dropped.
struct ConfigFile(PathBuf);

impl ConfigFile {
    fn new(tunnel: &Tunnel, peers: &str) -> Self {
        let path = std::env::temp_dir().join(format!("{}.conf", tunnel.left.interface));
        let key = &tunnel.left.keys.private_key;
        let port = tunnel.left_port();
        let text = format!("[Interface]\nPrivateKey = {key}\nListenPort = {port}\n{peers}");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Self(path)
    }
}

impl Drop for ConfigFile {
    fn drop(&mut self) {
        let _removed = fs::remove_file(&self.0);
    }
}

/// The section of the right end.
fn peer_section(tunnel: &Tunnel) -> String {
    format!(
        "[Peer]\nPublicKey = {}\nEndpoint = {}:{}\nAllowedIPs = 10.200.100.2/32, fd00:200:64::2/128\n",
        tunnel.right.keys.public_key,
        tunnel.link.subnet.host(Family::V4, 2),
        tunnel.right_port()
    )
}

#[test]
fn setconf_replaces_everything_and_syncconf_keeps_the_session() {
    let tunnel = culvert_tunnel().unwrap();
    let left = &tunnel.left;
    let peer = &tunnel.right.keys.public_key;
    let stranger = culvert_lab::KeyPair::generate().unwrap().public_key;
    left.set(&format!("peer {stranger} allowed-ips 10.99.0.0/16"))
        .unwrap();

    let config = ConfigFile::new(&tunnel, &peer_section(&tunnel));
    let apply = |how: &str| {
        let line = format!("wg {how} {} {}", left.interface, config.0.display());
        left.namespace.run(&line).unwrap();
    };
    let handshake = left.latest_handshake_s(peer).unwrap();
    apply("syncconf");
    assert_eq!(
        left.show("peers").unwrap().trim(),
        peer,
        "the stranger is gone"
    );
    assert_eq!(
        left.latest_handshake_s(peer).unwrap(),
        handshake,
        "the session stays"
    );

    left.set(&format!("peer {stranger} allowed-ips 10.99.0.0/16"))
        .unwrap();
    apply("setconf");
    assert_eq!(
        left.show("peers").unwrap().trim(),
        peer,
        "the stranger is gone"
    );
    tunnel.wait_until_up().unwrap();
    carries(&tunnel).unwrap();
}

#[test]
fn the_listen_port_may_change_while_traffic_flows() {
    for left in [Implementation::culvert(), Implementation::WireguardGo] {
        let tunnel = TunnelPlan::between(&left, &Implementation::culvert())
            .build()
            .unwrap();
        tunnel.wait_until_up().unwrap();
        tunnel.right.set("listen-port 40404").unwrap();
        assert_eq!(tunnel.right.show("listen-port").unwrap().trim(), "40404");
        // The right end still knows where the left one is: its next packet tells the new port.
        let address = tunnel.left_address(Family::V4);
        tunnel
            .wait_until_reachable(&tunnel.right.namespace, address)
            .unwrap();
        assert!(tunnel.left.show("endpoints").unwrap().contains(":40404"));
        carries(&tunnel).unwrap();
    }
}

#[test]
fn a_listen_port_that_is_taken_is_refused_and_nothing_changes() {
    let tunnel = culvert_tunnel().unwrap();
    let taken = tunnel
        .left
        .namespace
        .inside(|| Ok(std::net::UdpSocket::bind("0.0.0.0:40405")?))
        .unwrap();
    let error = tunnel
        .left
        .set("listen-port 40405")
        .unwrap_err()
        .to_string();
    assert!(error.contains("Address already in use"), "{error}");
    drop(taken);
    assert_eq!(
        tunnel.left.show("listen-port").unwrap().trim(),
        tunnel.left_port().to_string()
    );
    tunnel.wait_until_up().unwrap();
}

#[test]
fn the_mark_of_outer_packets_may_change_while_traffic_flows() {
    let tunnel = culvert_tunnel().unwrap();
    let rule = format!("udp dport {} meta mark 0x4321", tunnel.right_port());
    let marked = PacketCounter::new(&tunnel.left.namespace, "output", &rule).unwrap();
    tunnel.wait_until_up().unwrap();
    assert_eq!(marked.packets().unwrap(), 0);
    tunnel.left.set("fwmark 0x4321").unwrap();
    tunnel.wait_until_up().unwrap();
    wait_until("marked packets", SOON, || marked.packets().unwrap() > 0).unwrap();
    tunnel.left.set("fwmark 0").unwrap();
    let before = marked.packets().unwrap();
    tunnel.wait_until_up().unwrap();
    assert_eq!(marked.packets().unwrap(), before);
}

#[test]
fn the_configuration_socket_belongs_to_its_owner_alone() {
    let tunnel = culvert_tunnel().unwrap();
    let path = WireGuardEnd::socket_path(&tunnel.left.interface);
    let mode = fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
