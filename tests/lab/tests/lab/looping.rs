//! An interface that is the default route, and firewalls of other programs that change the mark by which its datagrams are
//! kept out of it.

use std::net::{IpAddr, SocketAddr};

use culvert_lab::{
    Family, Implementation, Link, LinkShape, MARKING_RULES, Namespace, Subnet, WireGuardEnd,
    count_sent, sent, set_marks, wait_until,
};

use crate::support::SOON;

const PORT: u16 = 51820;
const MARK: &str = "0x1234";
const INNER: Subnet = Subnet(100);

/// The far end's address, which is behind a router.
fn far_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => "192.0.2.1".parse().unwrap(),
        Family::V6 => "2001:db8::1".parse().unwrap(),
    }
}

/// An end that is the default route of its host, as wg-quick makes it, and the other one.
struct Ends {
    left: WireGuardEnd,
    right: WireGuardEnd,
    _link: Link,
}

impl Ends {
    fn new(family: Family) -> Self {
        let (left, right) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let link = Link::new(&left, &right, Subnet(1), LinkShape::default()).unwrap();
        let version = match family {
            Family::V4 => "-4",
            Family::V6 => "-6",
        };
        let far = far_address(family);
        let router = link.subnet.host(family, 2);
        right.run(&format!("ip address add {far} dev lo")).unwrap();
        left.run(&format!("ip route add default via {router}"))
            .unwrap();
        let culvert = Implementation::culvert();
        let (near_end, far_end) = (
            WireGuardEnd::start(&culvert, &left).unwrap(),
            WireGuardEnd::start(&culvert, &right).unwrap(),
        );
        let address = |host| [format!("{}/24", INNER.host(Family::V4, host))];
        near_end.configure(PORT, &address(1), 1420).unwrap();
        far_end.configure(PORT + 1, &address(2), 1420).unwrap();
        let peer = (&far_end.keys.public_key, &near_end.keys.public_key);
        near_end.set(&format!("fwmark {MARK}")).unwrap();
        near_end
            .set_peer(
                peer.0,
                Some(SocketAddr::new(far, PORT + 1)),
                "0.0.0.0/0,::/0",
                None,
            )
            .unwrap();
        far_end
            .set_peer(peer.1, None, "10.200.100.1/32", None)
            .unwrap();
        let interface = &near_end.interface;
        for line in [
            format!("ip {version} route add default dev {interface} table {PORT}"),
            format!("ip {version} rule add not fwmark {MARK} table {PORT}"),
            format!("ip {version} rule add table main suppress_prefixlength 0"),
        ] {
            left.run(&line).unwrap();
        }
        Self {
            left: near_end,
            right: far_end,
            _link: link,
        }
    }

    fn answers(&self) -> bool {
        let ping = format!("ping -c 1 -W 0.5 {}", INNER.host(Family::V4, 2));
        self.left.namespace.run(&ping).is_ok()
    }
}

#[test]
fn under_twenty_firewalls_that_set_marks_an_interface_that_is_the_default_route_carries_and_does_not_loop()
 {
    for family in [Family::V4, Family::V6] {
        let ends = Ends::new(family);
        let (left, interface) = (&ends.left.namespace, &ends.left.interface);
        wait_until("an answer", SOON, || ends.answers()).unwrap();
        // Before the sockets are bound, as many packets come back as were sent, and no more.
        count_sent(left, interface, "meta l4proto udp").unwrap();
        set_marks(left, "mangle", "meta mark set 0x1").unwrap();
        wait_until("an answer in spite of the mark", SOON, || ends.answers()).unwrap();
        assert!(sent(left).unwrap() < 100, "{}", sent(left).unwrap());
        count_sent(left, interface, "meta l4proto udp").unwrap();
        for (priority, rule) in MARKING_RULES {
            set_marks(left, priority, rule).unwrap();
            assert!(ends.answers(), "{family:?} {priority} {rule}");
            assert_eq!(sent(left).unwrap(), 0, "{family:?} {priority} {rule}");
        }
        let status = ends.left.culvert_json().unwrap();
        let problem = status["loop_problem"].as_str().unwrap();
        assert!(problem.contains("changes their mark 0x1234"), "{problem}");
        assert!(problem.contains("bound to the interface"), "{problem}");
    }
}

#[test]
fn sockets_that_are_bound_follow_the_route_to_the_peer_to_another_interface() {
    let ends = Ends::new(Family::V4);
    let left = &ends.left.namespace;
    wait_until("an answer", SOON, || ends.answers()).unwrap();
    set_marks(left, "mangle", "meta mark set 0x1").unwrap();
    wait_until("an answer in spite of the mark", SOON, || ends.answers()).unwrap();
    let other = Link::new(left, &ends.right.namespace, Subnet(2), LinkShape::default()).unwrap();
    let router = other.subnet.host(Family::V4, 2);
    left.run(&format!("ip route replace default via {router}"))
        .unwrap();
    // Packets of the other link are refused, so that answers come by the new one.
    left.run("ip link set veth1 down").unwrap();
    wait_until("an answer by the other link", SOON, || ends.answers()).unwrap();
}
