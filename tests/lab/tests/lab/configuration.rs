//! The ordinary `wg` tool configures Culvert, at any time.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use culvert_lab::{
    Family, Implementation, Namespace, Tunnel, TunnelPlan, WireGuardEnd, wait_until,
};

use crate::support::{PacketCounter, SOON, culvert_plan, culvert_tunnel, passes_traffic, request};

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
    passes_traffic(&tunnel).unwrap();
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
        passes_traffic(&tunnel).unwrap();
    }
}

#[test]
fn a_listen_port_that_is_taken_is_refused_and_nothing_changes() {
    let tunnel = culvert_tunnel().unwrap();
    let taken = tunnel
        .left
        .namespace
        .inside(|| Ok(UdpSocket::bind("0.0.0.0:40405")?))
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
fn a_listen_port_that_is_taken_is_refused_while_the_link_is_down_too() {
    let (namespace, end) = started();
    let _taken = taken_port(&namespace, 40406);
    let error = end.set("listen-port 40406").unwrap_err().to_string();
    assert!(error.contains("Address already in use"), "{error}");
    end.set("listen-port 40407").unwrap();
}

#[test]
fn a_port_that_is_taken_when_the_link_comes_up_is_told_and_can_be_asked_for_again() {
    let (namespace, end) = started();
    end.set("listen-port 40408").unwrap();
    let taken = taken_port(&namespace, 40408);
    let link = |state: &str| namespace.run(&format!("ip link set {} {state}", end.interface));
    link("up").unwrap();
    wait_until("the reason to be told", SOON, || {
        let status = end.culvert_json().unwrap();
        let why = status["down_because"].as_str().unwrap_or_default();
        status["is_up"] == false && why.contains("40408")
    })
    .unwrap();
    let error = end.set("listen-port 40408").unwrap_err().to_string();
    assert!(error.contains("Address already in use"), "{error}");
    link("down").unwrap();
    wait_until("the reason to be over", SOON, || {
        end.culvert_json().unwrap()["down_because"].is_null()
    })
    .unwrap();
    link("up").unwrap();
    drop(taken);
    end.set("listen-port 40408").unwrap();
    let status = end.culvert_json().unwrap();
    assert_eq!(status["is_up"], true);
    assert!(status["down_because"].is_null());
}

/// An end whose link is down and that knows nobody, in a namespace of its own.
fn started() -> (Namespace, WireGuardEnd) {
    let namespace = Namespace::new().unwrap();
    let end = WireGuardEnd::start(&Implementation::culvert(), &namespace).unwrap();
    (namespace, end)
}

fn taken_port(namespace: &Namespace, port: u16) -> UdpSocket {
    let bind = || Ok(UdpSocket::bind(("0.0.0.0", port))?);
    namespace.inside(bind).unwrap()
}

/// Public keys as the configuration socket writes them.
const ONE: &str = "aa00000000000000000000000000000000000000000000000000000000000000";
const OTHER: &str = "bb00000000000000000000000000000000000000000000000000000000000000";

/// Has the configuration socket set what `lines` say, which it takes.
fn accepts(end: &WireGuardEnd, lines: &str) {
    let answer = request(end, &format!("set=1\n{lines}\n\n"));
    assert_eq!(answer, "errno=0\n\n", "{lines}");
}

#[test]
fn where_peers_are_replaced_nothing_stays_of_those_that_were_there() {
    let (_namespace, end) = started();
    let set = |lines: &str| accepts(&end, lines);
    set(&format!(
        "public_key={ONE}\npersistent_keepalive_interval=7\nendpoint=192.0.2.1:9\n\
         allowed_ip=10.1.0.0/16\npublic_key={OTHER}"
    ));
    set(&format!(
        "replace_peers=true\npublic_key={ONE}\nallowed_ip=10.2.0.0/16\npublic_key={ONE}\n\
         allowed_ip=10.3.0.0/16\npublic_key={OTHER}\nupdate_only=true\nallowed_ip=10.4.0.0/16"
    ));
    let there = request(&end, "get=1\n\n");
    for line in [ONE, "allowed_ip=10.2.0.0/16", "allowed_ip=10.3.0.0/16"] {
        assert!(there.contains(line), "{line} is missing: {there}");
    }
    for line in [OTHER, "=7\n", "192.0.2.1", "10.1.0.0", "10.4.0.0"] {
        assert!(!there.contains(line), "{line} is still there: {there}");
    }
}

#[test]
fn a_range_belongs_to_the_peer_that_was_given_it_last() {
    let (_namespace, end) = started();
    let set = |lines: &str| accepts(&end, lines);
    let ranges_of = |key: &str| -> Vec<String> {
        let all = request(&end, "get=1\n\n");
        let own = all
            .split("public_key=")
            .find(|section| section.starts_with(key));
        let lines = own.unwrap_or_default().lines();
        lines
            .filter(|line| line.starts_with("allowed_ip"))
            .map(str::to_owned)
            .collect()
    };
    let (shared, own) = ("allowed_ip=10.1.0.0/16", "allowed_ip=10.2.0.0/16");
    set(&format!(
        "public_key={ONE}\n{shared}\n{own}\npublic_key={OTHER}\n{shared}"
    ));
    assert_eq!(ranges_of(ONE), [own]);
    assert_eq!(ranges_of(OTHER), [shared]);
    // The one that had it before takes nothing along.
    set(&format!("public_key={ONE}\nremove=true"));
    assert_eq!(ranges_of(OTHER), [shared]);
    set(&format!(
        "public_key={OTHER}\nallowed_ip=-10.1.0.0/16\n{own}"
    ));
    assert_eq!(ranges_of(OTHER), [own]);
    set(&format!(
        "public_key={OTHER}\nreplace_allowed_ips=true\n{shared}"
    ));
    assert_eq!(ranges_of(OTHER), [shared]);
}

#[test]
fn handshake_messages_count_as_received_and_sent() {
    const INITIATION_BYTES: u64 = 148;
    const RESPONSE_BYTES: u64 = 92;
    const KEEPALIVE_BYTES: u64 = 32;
    let tunnel = culvert_plan().build().unwrap();
    let peer = &tunnel.right.keys.public_key;
    tunnel
        .left
        .set(&format!("peer {peer} persistent-keepalive 3600"))
        .unwrap();
    let bytes = |end: &WireGuardEnd| -> Vec<u64> {
        let shown = end.show("transfer").unwrap();
        let numbers = shown.split_whitespace().skip(1);
        numbers.map(|number| number.parse().unwrap()).collect()
    };
    // Several initiations may leave until the other end is ready for one.
    wait_until("the handshake", SOON, || {
        bytes(&tunnel.left)[0] == RESPONSE_BYTES
            && bytes(&tunnel.right) == [INITIATION_BYTES + KEEPALIVE_BYTES, RESPONSE_BYTES]
    })
    .unwrap();
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
