//! Changes of links, addresses and routes are told. Needs root: every test makes a namespace of its own.

mod support;

use culvert_tun::{LinkEvent, LinkWatch};
use support::Namespace;

/// Everything that waits. The kernel queues events before the command that caused them returns.
fn drain(watch: &mut LinkWatch) -> Vec<LinkEvent> {
    std::iter::from_fn(|| watch.next_event().expect("events are read")).collect()
}

#[test]
fn link_changes_are_told_with_the_new_state() {
    let namespace = Namespace::new();
    let mut watch = namespace.run(|| LinkWatch::open().expect("anyone may watch"));
    assert_eq!(drain(&mut watch), []);
    namespace.ip("link add one index 77 mtu 1400 type veth peer name other");
    assert!(drain(&mut watch).contains(&LinkEvent::Link {
        index: 77,
        up: false,
        mtu: 1400
    }));
    namespace.ip("link set one up mtu 1300");
    assert!(drain(&mut watch).contains(&LinkEvent::Link {
        index: 77,
        up: true,
        mtu: 1300
    }));
    namespace.ip("link set one down");
    assert!(drain(&mut watch).contains(&LinkEvent::Link {
        index: 77,
        up: false,
        mtu: 1300
    }));
    namespace.ip("link delete one");
    assert!(drain(&mut watch).contains(&LinkEvent::Removed { index: 77 }));
}

#[test]
fn a_port_that_leaves_its_bridge_is_not_removed() {
    let namespace = Namespace::new();
    namespace.ip("link add bridge0 type bridge");
    namespace.ip("link add port index 77 type veth peer name other");
    namespace.ip("link set port master bridge0");
    let mut watch = namespace.run(|| LinkWatch::open().expect("anyone may watch"));
    namespace.ip("link set port nomaster");
    let events = drain(&mut watch);
    assert!(!events.is_empty());
    assert!(
        !events.contains(&LinkEvent::Removed { index: 77 }),
        "{events:?}"
    );
}

#[test]
fn address_and_route_changes_of_both_families_are_told() {
    let namespace = Namespace::new();
    namespace.ip("link add one type veth peer name other");
    namespace.ip("link set one up");
    namespace.ip("link set other up");
    let mut watch = namespace.run(|| LinkWatch::open().expect("anyone may watch"));
    for change in [
        "address add 10.7.0.1/24 dev one",
        "route add 10.8.0.0/24 dev one",
        "route del 10.8.0.0/24 dev one",
        "address del 10.7.0.1/24 dev one",
        "address add fd07::1/64 dev one nodad",
        "route add fd08::/64 dev one",
        "route del fd08::/64 dev one",
        "address del fd07::1/64 dev one",
        "rule add to 10.8.0.1 lookup 100",
        "rule del to 10.8.0.1 lookup 100",
        "-6 rule add to fd08::1 lookup 100",
        "-6 rule del to fd08::1 lookup 100",
    ] {
        drain(&mut watch);
        namespace.ip(change);
        assert!(
            drain(&mut watch).contains(&LinkEvent::RoutingChanged),
            "{change}"
        );
    }
}

#[test]
fn events_lost_to_a_full_buffer_are_told_as_overflow() {
    let namespace = Namespace::new();
    namespace.ip("link add one type veth peer name other");
    namespace.ip("link set one up");
    namespace.ip("link set other up");
    let mut watch = namespace.run(|| LinkWatch::open().expect("anyone may watch"));
    rustix::net::sockopt::set_socket_recv_buffer_size(&watch, 1).expect("the kernel's least");
    for number in 0..20 {
        namespace.ip(&format!("route add 10.8.{number}.0/24 dev one"));
    }
    let events = drain(&mut watch);
    assert!(events.contains(&LinkEvent::Overflow), "{events:?}");
    namespace.ip("route del 10.8.0.0/24 dev one");
    assert!(
        drain(&mut watch).contains(&LinkEvent::RoutingChanged),
        "it goes on after an overflow"
    );
}
