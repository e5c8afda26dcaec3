//! A path that takes only smaller packets than the tunnel was made for.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use culvert_lab::{
    Family, LinkShape, Namespace, RoutedTunnel, Transfer, Tunnel, WireGuardEnd, wait_until,
};

use crate::support::{SOON, culvert_plan, passes_traffic};

/// Less than the 1420 + 60 bytes of a full packet over IPv4, and still room for 1280 inside.
const NARROW_MTU_BYTES: u32 = 1400;

/// Enough for many runs of full packets.
const BULK_BYTES: u64 = 1 << 20;

/// The port on which files are received.
const FILE_PORT: u16 = 9001;

/// The tunnel's own datagrams are of `outer`.
fn routed(outer: Family) -> RoutedTunnel {
    RoutedTunnel::build(&culvert_plan(), outer).unwrap()
}

/// Carries a file in both directions by both families inside.
fn passes_files(tunnel: &Tunnel) {
    let (left, right) = (&tunnel.left.namespace, &tunnel.right.namespace);
    for inner in [Family::V4, Family::V6] {
        let target = SocketAddr::new(tunnel.right_address(inner), FILE_PORT);
        Transfer::run(left, right, target, BULK_BYTES).unwrap();
        let target = SocketAddr::new(tunnel.left_address(inner), FILE_PORT);
        Transfer::run(right, left, target, BULK_BYTES).unwrap();
    }
}

/// The MTU of the path to its only peer, where the end knows it to be narrow.
fn path_mtu(end: &WireGuardEnd) -> Option<u64> {
    let status = end.culvert_json().unwrap();
    status["peers"][0]["path_mtu_bytes"].as_u64()
}

/// Between a change of the host's network and the look at what it changed, with time to spare.
const A_CHANGE_IS_SEEN: Duration = Duration::from_millis(200);

/// The payload of a `ping` whose packet fills the tunnel's 1,420 bytes.
const FULL_PING_BYTES: u16 = 1420 - 28;

/// A search tells lengths apart that are so far from each other.
const STEP_BYTES: u64 = 16;

#[test]
fn a_path_that_loses_large_packets_in_silence_is_measured_by_both_ends() {
    for outer in [Family::V4, Family::V6] {
        let routed = routed(outer);
        for mtu_bytes in [1440, 1400, 1372, 1320, 1280] {
            routed.narrow_in_silence(mtu_bytes).unwrap();
            passes_files(&routed.tunnel);
            let fits = u64::from(mtu_bytes);
            let tunnel = &routed.tunnel;
            for (end, other) in [
                (&tunnel.left, tunnel.right_address(Family::V4)),
                (&tunnel.right, tunnel.left_address(Family::V4)),
            ] {
                // TCP may send no full packets here: an end that knows the path tells the other (RFC 6691).
                let full = format!("ping -M dont -q -c 1 -W 0.2 -s {FULL_PING_BYTES} {other}");
                let mut found = None;
                wait_until("the path to be measured", SOON, || {
                    end.namespace.outcome(&full).unwrap();
                    found = path_mtu(end);
                    found.is_some_and(|found| found <= fits && found + STEP_BYTES > fits)
                })
                .unwrap_or_else(|error| panic!("{outer:?} {mtu_bytes}: {found:?}: {error}"));
            }
        }
    }
}

#[test]
fn connections_that_begin_on_a_narrow_path_send_segments_that_it_takes() {
    let routed = routed(Family::V4);
    routed.narrow_in_silence(1280).unwrap();
    passes_files(&routed.tunnel);
    let ends = [&routed.tunnel.left, &routed.tunnel.right];
    for end in ends {
        wait_until("the path to be measured", SOON, || path_mtu(end).is_some()).unwrap();
        end.namespace
            .shell(
                "nft -f - <<'RULES'
                 table inet parts {
                     chain inside {
                         type filter hook prerouting priority -450
                         meta iiftype != ether exthdr frag exists counter
                     }
                 }
RULES",
            )
            .unwrap();
    }
    passes_files(&routed.tunnel);
    for end in ends {
        let counted = end
            .namespace
            .run("nft list chain inet parts inside")
            .unwrap();
        assert!(counted.contains("packets 0 "), "{counted}");
    }
}

#[test]
fn a_change_of_the_hosts_network_that_leaves_the_path_alone_keeps_its_length() {
    let routed = routed(Family::V4);
    routed.narrow_in_silence(1280).unwrap();
    passes_files(&routed.tunnel);
    let left = &routed.tunnel.left;
    let before = path_mtu(left).expect("the path is narrow");
    for number in 0..10 {
        let namespace = &left.namespace;
        namespace
            .shell(&format!(
                "ip link add other{number} type veth peer name far{number}
                 ip link set other{number} up
                 ip address add 198.51.100.{number}/32 dev other{number}"
            ))
            .unwrap();
        thread::sleep(A_CHANGE_IS_SEEN);
        assert_eq!(path_mtu(left), Some(before));
    }
    passes_files(&routed.tunnel);
    assert_eq!(path_mtu(left), Some(before));
}

#[test]
fn a_path_that_is_wide_enough_is_measured_with_two_packets() {
    let routed = routed(Family::V4);
    passes_files(&routed.tunnel);
    assert_eq!(path_mtu(&routed.tunnel.left), None);
}

#[test]
fn a_path_that_shrinks_tells_the_inside_and_traffic_goes_on() {
    let RoutedTunnel {
        router: _router,
        tunnel,
        far,
    } = routed(Family::V4);
    passes_traffic(&tunnel).unwrap();
    far.shape(LinkShape {
        mtu_bytes: Some(NARROW_MTU_BYTES),
        ..LinkShape::default()
    })
    .unwrap();
    passes_traffic(&tunnel).unwrap();

    for (family, headers_bytes, flag) in [(Family::V4, 28, "-4"), (Family::V6, 48, "-6")] {
        let address = tunnel.right_address(family);
        let ping = |inner_bytes: u32| {
            let payload_bytes = inner_bytes - headers_bytes;
            let line = format!("ping {flag} -M do -c 1 -W 0.5 -s {payload_bytes} {address}");
            tunnel.left.namespace.outcome(&line).unwrap()
        };
        let (left, right) = (&tunnel.left.namespace, &tunnel.right.namespace);
        let transfer = || {
            let target = SocketAddr::new(address, FILE_PORT);
            Transfer::run(left, right, target, BULK_BYTES).unwrap();
        };
        // 1420 bytes cannot pass, and whoever sent them learns what can.
        let mut told = None;
        wait_until("packet too big to arrive inside", SOON, || {
            // One large packet leaves in fragments, unseen; a run of them meets the limit.
            let payload_bytes = 1420 - headers_bytes;
            let burst =
                format!("ping {flag} -M dont -q -l 20 -c 20 -W 0.5 -s {payload_bytes} {address}");
            left.outcome(&burst).unwrap();
            let output = ping(1420);
            let text = [output.stdout, output.stderr].concat();
            told = told_mtu(&String::from_utf8_lossy(&text).to_lowercase());
            told.is_some()
        })
        .unwrap();
        let told = told.unwrap();
        assert!((1300..1400).contains(&told), "{family:?}: {told}");

        // Packets that fit the reported MTU leave whole, and many together as before.
        let before = fragments(left);
        let sent = sent_in_calls(&tunnel.left);
        assert!(ping(told).status.success(), "{family:?}: {told} bytes fit");
        transfer();
        assert_eq!(
            fragments(left),
            before,
            "{family:?}: {told} bytes in fragments"
        );
        let (packets, calls) = sent_in_calls(&tunnel.left);
        let (packets, calls) = (packets - sent.0, calls - sent.1);
        assert!(
            packets > 2 * calls,
            "{family:?}: {packets} packets in {calls} sends"
        );
    }
}

/// The MTU that `ping` says it was told, such as `mtu = 1328` or `mtu: 1328`.
fn told_mtu(text: &str) -> Option<u32> {
    let behind = text.split("mtu").nth(1)?;
    let number = behind.trim_start_matches([' ', '=', ':']);
    let digits: String = number.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// IPv4 fragments that a host has made.
fn fragments(namespace: &Namespace) -> u64 {
    let counters = namespace.run("cat /proc/net/snmp").unwrap();
    let mut lines = counters.lines().filter(|line| line.starts_with("Ip:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let (_, created) = pairs.find(|(name, _)| *name == "FragCreates").unwrap();
    created.parse().unwrap()
}

/// Records that an end has sealed, and the calls that sent them.
fn sent_in_calls(end: &WireGuardEnd) -> (u64, u64) {
    let status = end.culvert_json().unwrap();
    let worker = &status["workers"][0];
    let number = |value: &serde_json::Value| value.as_u64().unwrap();
    (
        number(&worker["sealed"]["packets"]),
        number(&worker["udp_sends"]),
    )
}
