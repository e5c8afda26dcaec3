//! A path that takes only smaller packets than the tunnel was made for.

use std::net::SocketAddr;

use culvert_lab::{Family, Link, LinkShape, Namespace, Subnet, Transfer, Tunnel, wait_until};

use crate::support::{SOON, carries, culvert_plan};

/// Less than the 1420 + 60 bytes of a full packet over IPv4, and still room for 1280 inside.
const NARROW_MTU_BYTES: u32 = 1400;

/// Enough for many runs of full packets.
const BULK_BYTES: u64 = 1 << 20;

/// Where files are received.
const FILE_PORT: u16 = 9001;

/// Left and right with a router between them; `far` is the link beyond the router.
struct Routed {
    tunnel: Tunnel,
    far: Link,
}

fn routed() -> Routed {
    let [left, router, right] = [(); 3].map(|()| Namespace::new().unwrap());
    let near = Link::new(&left, &router, Subnet(1), LinkShape::default()).unwrap();
    let far = Link::new(&router, &right, Subnet(2), LinkShape::default()).unwrap();
    router.run("sysctl -qw net.ipv4.ip_forward=1").unwrap();
    let (to_right, to_left) = (Subnet(2).network(Family::V4), Subnet(1).network(Family::V4));
    let (via_left, via_right) = (Subnet(1).host(Family::V4, 2), Subnet(2).host(Family::V4, 1));
    left.run(&format!("ip route add {to_right} via {via_left}"))
        .unwrap();
    right
        .run(&format!("ip route add {to_left} via {via_right}"))
        .unwrap();
    // The port of the right end follows that of the left one.
    let endpoint = SocketAddr::new(Subnet(2).host(Family::V4, 2), 51821);
    let tunnel = culvert_plan()
        .build_between(&left, &right, near, endpoint)
        .unwrap();
    assert_eq!(tunnel.right_port(), endpoint.port());
    tunnel.wait_until_up().unwrap();
    Routed { tunnel, far }
}

#[test]
fn a_path_that_shrinks_tells_the_inside_and_traffic_goes_on() {
    let Routed { tunnel, far } = routed();
    carries(&tunnel).unwrap();
    far.shape(LinkShape {
        mtu_bytes: Some(NARROW_MTU_BYTES),
        ..LinkShape::default()
    })
    .unwrap();
    carries(&tunnel).unwrap();

    for (family, headers_bytes, flag) in [(Family::V4, 28, "-4"), (Family::V6, 48, "-6")] {
        let address = tunnel.right_address(family);
        let ping = |inner_bytes: u32| {
            let payload_bytes = inner_bytes - headers_bytes;
            let line = format!("ping {flag} -M do -c 1 -W 0.5 -s {payload_bytes} {address}");
            tunnel.left.namespace.outcome(&line).unwrap()
        };
        // 1420 bytes cannot pass, and whoever sent them learns what can.
        wait_until("packet too big to arrive inside", SOON, || {
            // One large packet leaves in fragments, unseen; a run of them meets the limit.
            let target = SocketAddr::new(address, FILE_PORT);
            let (left, right) = (&tunnel.left.namespace, &tunnel.right.namespace);
            Transfer::run(left, right, target, BULK_BYTES).unwrap();
            let output = ping(1420);
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text).to_lowercase();
            text.contains("mtu=13") || text.contains("mtu: 13") || text.contains("mtu 13")
        })
        .unwrap();
        assert!(ping(1300).status.success(), "{family:?}: 1300 bytes fit");
    }
}
