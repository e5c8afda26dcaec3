//! Datagrams between real sockets: runs, ECN, source addresses, fragments, backpressure. Needs root: every test makes
//! namespaces of its own.

mod support;

use std::net::{IpAddr, SocketAddr};

use culvert_base::datagrams::{MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_base::{Destination, Family, LocalAddress};
use culvert_udp::{ReceiveBatch, SendError, Socket, source_still_valid};
use rustix::event::{PollFd, PollFlags, Timespec};
use support::Namespace;

/// Longer than any of these tests waits on a machine that works.
const TIMEOUT: Timespec = Timespec {
    tv_sec: 10,
    tv_nsec: 0,
};

/// One run as it was received.
#[derive(Debug, PartialEq, Eq)]
struct Run {
    bytes: Vec<u8>,
    stride: usize,
    source: SocketAddr,
    local: Option<LocalAddress>,
    class: u8,
}

/// Two namespaces joined by a veth pair: 10.7.0.1 and fd07::1 here, 10.7.0.2 and fd07::2 there, interface index 7 at both.
struct Pair {
    here: Namespace,
    there: Namespace,
}

impl Pair {
    fn new() -> Self {
        let [here, there] = [Namespace::new(), Namespace::new()];
        there.run(|| {
            let thread = rustix::thread::gettid().as_raw_nonzero();
            here.ip(&format!(
                "link add link0 index 7 type veth peer name link0 index 7 netns {thread}"
            ));
        });
        for (namespace, host) in [(&here, 1), (&there, 2)] {
            namespace.ip(&format!("address add 10.7.0.{host}/24 dev link0"));
            namespace.ip(&format!("address add fd07::{host}/64 dev link0 nodad"));
            namespace.ip("link set link0 up");
        }
        Self { here, there }
    }

    fn sockets(&self, family: Family) -> (Socket, Socket) {
        (bind(&self.here, family), bind(&self.there, family))
    }
}

fn bind(namespace: &Namespace, family: Family) -> Socket {
    namespace
        .run(|| Socket::bind(family, 0, 0))
        .expect("a free port")
}

fn to(ip: &str, socket: &Socket) -> Destination {
    Destination {
        address: SocketAddr::new(address(ip), socket.local_port()),
        source: None,
    }
}

fn from(ip: &str, interface: u32) -> Option<LocalAddress> {
    Some(LocalAddress {
        ip: address(ip),
        interface,
    })
}

fn address(ip: &str) -> IpAddr {
    ip.parse().expect("a literal address")
}

/// Waits until at least one run is there, and takes what is.
fn receive(socket: &Socket) -> Vec<Run> {
    let mut batch = ReceiveBatch::new(8);
    rustix::event::poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&TIMEOUT)).expect("polled");
    assert_ne!(
        socket.receive_batch(&mut batch).expect("received"),
        0,
        "nothing came"
    );
    batch
        .iter_mut()
        .map(|run| {
            assert!(!run.truncated);
            let (bytes, stride, source) = (run.bytes.to_vec(), run.stride, run.source);
            Run {
                bytes,
                stride,
                source,
                local: run.local,
                class: run.class,
            }
        })
        .collect()
}

/// Waits until `bytes` have come.
fn receive_all(socket: &Socket, bytes: usize) -> Vec<Run> {
    let mut runs = Vec::new();
    while runs.iter().map(|run: &Run| run.bytes.len()).sum::<usize>() < bytes {
        runs.extend(receive(socket));
    }
    runs
}

fn content(bytes: usize) -> Vec<u8> {
    (0..bytes as u32)
        .map(|number| (number.wrapping_mul(0x9e37_79b1) >> 24) as u8)
        .collect()
}

#[test]
fn a_run_arrives_as_one_with_its_stride_class_source_and_local_address() {
    let pair = Pair::new();
    for (family, here, there) in [
        (Family::V4, "10.7.0.1", "10.7.0.2"),
        (Family::V6, "fd07::1", "fd07::2"),
    ] {
        let (sender, receiver) = pair.sockets(family);
        for (count, last, class) in [(44, 1452, 0), (44, 700, 0x89), (2, 1, 0x2a), (10, 1452, 3)] {
            let bytes = content((count - 1) * 1452 + last);
            sender
                .send(&bytes, 1452, &to(there, &receiver), class)
                .expect("sent");
            let source = SocketAddr::new(address(here), sender.local_port());
            let expected = Run {
                bytes,
                stride: 1452,
                source,
                local: from(there, 7),
                class,
            };
            assert_eq!(receive(&receiver), [expected]);
        }
    }
}

#[test]
fn the_greatest_runs_are_taken() {
    let pair = Pair::new();
    let (sender, receiver) = pair.sockets(Family::V4);
    for (bytes, stride) in [(MAX_GSO_BYTES, 1472), (MAX_SEGMENTS * 100, 100)] {
        sender
            .send(&content(bytes), stride, &to("10.7.0.2", &receiver), 0)
            .expect("sent");
        let received: Vec<u8> = receive_all(&receiver, bytes)
            .into_iter()
            .flat_map(|run| run.bytes)
            .collect();
        assert!(received == content(bytes));
    }
}

#[test]
fn single_and_empty_datagrams_arrive_one_by_one() {
    let pair = Pair::new();
    let (sender, receiver) = pair.sockets(Family::V4);
    for length in [0, 1, 32, 1472] {
        sender
            .send(&content(length), 1472, &to("10.7.0.2", &receiver), 0)
            .expect("sent");
        let runs = receive(&receiver);
        assert_eq!(
            (runs.len(), runs[0].bytes.len(), runs[0].stride),
            (1, length, length.max(1))
        );
    }
}

#[test]
fn a_batch_is_never_overfilled_and_keeps_the_order() {
    let namespace = Namespace::new();
    let [sender, receiver] = [Family::V4, Family::V4].map(|family| bind(&namespace, family));
    for length in 1..=20 {
        sender
            .send(&content(length), length, &to("127.0.0.1", &receiver), 0)
            .expect("sent");
    }
    let mut batch = ReceiveBatch::new(4);
    let mut lengths = Vec::new();
    while lengths.len() < 20 {
        rustix::event::poll(&mut [PollFd::new(&receiver, PollFlags::IN)], Some(&TIMEOUT))
            .expect("polled");
        let runs = receiver.receive_batch(&mut batch).expect("received");
        assert!((1..=4).contains(&runs) && batch.len() == runs);
        assert_eq!(
            batch.get_mut(runs - 1).map(|run| run.bytes.len()),
            Some(lengths.len() + runs)
        );
        assert!(batch.get_mut(runs).is_none());
        lengths.extend(batch.iter_mut().map(|run| run.bytes.len()));
    }
    assert_eq!(lengths, (1..=20).collect::<Vec<_>>());
    assert_eq!(
        receiver.receive_batch(&mut batch).expect("nothing waits"),
        0
    );
    assert!(batch.is_empty() && batch.get_mut(0).is_none());
}

#[test]
fn datagrams_leave_from_the_source_asked_for() {
    let pair = Pair::new();
    pair.here.ip("address add 10.7.0.91/24 dev link0");
    pair.here.ip("address add fd07::91/64 dev link0 nodad");
    pair.here.ip("address add fe80::91/64 dev link0 nodad");
    for (family, there, sources) in [
        (Family::V4, "10.7.0.2", vec!["10.7.0.91"]),
        (Family::V6, "fd07::2", vec!["fd07::91", "fe80::91"]),
    ] {
        let (sender, receiver) = pair.sockets(family);
        for source in sources {
            let destination = Destination {
                source: from(source, 7),
                ..to(there, &receiver)
            };
            sender
                .send(&content(3000), 1000, &destination, 2)
                .expect("sent");
            let runs = receive(&receiver);
            assert_eq!(
                (runs[0].source.ip(), runs[0].stride, runs[0].class),
                (address(source), 1000, 2)
            );
        }
    }
}

#[test]
fn the_answer_leaves_from_the_address_that_was_asked() {
    let pair = Pair::new();
    pair.there.ip("address add 10.7.0.92/24 dev link0");
    let (asker, answerer) = pair.sockets(Family::V4);
    asker
        .send(b"question", 8, &to("10.7.0.92", &answerer), 0)
        .expect("sent");
    let question = receive(&answerer).remove(0);
    answerer
        .send(
            b"answer",
            6,
            &Destination {
                address: question.source,
                source: question.local,
            },
            0,
        )
        .expect("sent");
    assert_eq!(
        receive(&asker)[0].source,
        to("10.7.0.92", &answerer).address
    );
}

#[test]
fn a_removed_source_is_told_as_gone_and_not_as_missing_offload() {
    let pair = Pair::new();
    for (family, there, source) in [
        (Family::V4, "10.7.0.2", "10.7.0.91"),
        (Family::V6, "fd07::2", "fd07::91"),
    ] {
        let (sender, receiver) = pair.sockets(family);
        let destination = Destination {
            source: from(source, 7),
            ..to(there, &receiver)
        };
        // Without duplicate address detection an IPv6 address is usable at once.
        let prefix = if family == Family::V4 {
            "24"
        } else {
            "64 nodad"
        };
        let valid = || {
            pair.here
                .run(|| source_still_valid(destination.address, from(source, 7).expect("one"), 0))
        };
        pair.here
            .ip(&format!("address add dev link0 {source}/{prefix}"));
        sender.send(b"x", 1, &destination, 0).expect("sent");
        assert!(valid().expect("looked up"));
        pair.here
            .ip(&format!("address del {source}/{prefix} dev link0"));
        assert!(!valid().expect("looked up"));
        for datagrams in [1, 3] {
            let error = pair
                .here
                .run(|| sender.send(&content(datagrams * 100), 100, &destination, 0));
            assert!(
                matches!(error, Err(SendError::SourceGone)),
                "{family} {datagrams}: {error:?}"
            );
        }
    }
}

#[test]
fn a_source_is_no_longer_valid_when_the_route_leaves_by_another_interface() {
    let namespace = Namespace::new();
    for (name, index, host) in [("left", 71, 1), ("right", 72, 2)] {
        namespace.ip(&format!(
            "link add {name} index {index} type veth peer name {name}-far"
        ));
        namespace.ip(&format!("link set {name}-far up"));
        namespace.ip(&format!("link set {name} up"));
        namespace.ip(&format!("address add 10.{host}.0.1/24 dev {name}"));
        namespace.ip(&format!("address add fd0{host}::1/64 dev {name} nodad"));
    }
    for (family, target, source, network) in [
        ("-4", "192.0.2.1", "10.1.0.1", "192.0.2.0/24"),
        ("-6", "2001:db8::1", "fd01::1", "2001:db8::/64"),
    ] {
        let to = SocketAddr::new(address(target), 9);
        let valid = |interface, mark| {
            let source = from(source, interface).expect("one");
            namespace
                .run(|| source_still_valid(to, source, mark))
                .expect("looked up")
        };
        assert!(!valid(71, 0), "there is no route at all");
        namespace.ip(&format!("{family} route add {network} dev left"));
        assert!(valid(71, 0));
        assert!(
            valid(0, 0),
            "an interface that is not known is not asked for"
        );
        assert!(!valid(72, 0));
        namespace.ip(&format!("{family} route change {network} dev right"));
        assert!(!valid(71, 0), "{family}");
        namespace.ip(&format!("{family} route add {network} dev left table 100"));
        namespace.ip(&format!("{family} rule add fwmark 7 table 100"));
        assert!(valid(71, 7), "marked packets take their own route");
    }
}

#[test]
fn datagrams_above_the_mtu_are_refused_in_a_run_and_fragmented_alone() {
    let pair = Pair::new();
    for (family, there) in [(Family::V4, "10.7.0.2"), (Family::V6, "fd07::2")] {
        let (sender, receiver) = pair.sockets(family);
        let destination = to(there, &receiver);
        let error = pair
            .here
            .run(|| sender.send(&content(6000), 3000, &destination, 0));
        assert!(matches!(error, Err(SendError::TooBig)), "{error:?}");
        sender
            .send(&content(3000), 3000, &destination, 3)
            .expect("sent");
        let runs = receive(&receiver);
        assert_eq!((runs[0].bytes.len(), runs[0].class), (3000, 3));
    }
    let (sender, receiver) = pair.sockets(Family::V4);
    let error = sender.send(&content(65_508), 65_508, &to("10.7.0.2", &receiver), 0);
    assert!(matches!(error, Err(SendError::TooBig)), "{error:?}");
}

#[test]
fn a_slow_link_pushes_back_and_says_how_much_waits() {
    let pair = Pair::new();
    let (sender, receiver) = pair.sockets(Family::V4);
    let destination = to("10.7.0.2", &receiver);
    sender
        .send(b"first", 5, &destination, 0)
        .expect("the neighbour is resolved");
    receive(&receiver);
    assert_eq!(sender.unsent_bytes().expect("told"), 0);
    pair.here.run(|| {
        let shape = "qdisc replace dev link0 root tbf rate 8kbit burst 3000 limit 1000000";
        let status = std::process::Command::new("tc")
            .args(shape.split(' '))
            .status()
            .expect("iproute2 is installed");
        assert!(status.success());
    });
    sender.set_send_buffer(40_000).expect("set");
    assert!(sender.is_writable().expect("polled"));
    let refused =
        (0..1000).find_map(|_| sender.send(&content(14_000), 1400, &destination, 0).err());
    assert!(
        matches!(refused, Some(SendError::WouldBlock)),
        "{refused:?}"
    );
    assert!(!sender.is_writable().expect("polled"));
    let unsent = sender.unsent_bytes().expect("told");
    assert!((14_000..200_000).contains(&unsent), "{unsent}");
}

#[test]
fn no_route_is_told_as_the_kernel_says_it() {
    let namespace = Namespace::new();
    let socket = bind(&namespace, Family::V4);
    let Err(SendError::Other(error)) = socket.send(b"x", 1, &to("192.0.2.1", &socket), 0) else {
        panic!("there is no route");
    };
    assert_eq!(error.raw_os_error(), Some(libc::ENETUNREACH));
}

#[test]
fn mapped_addresses_mean_ipv4_and_families_do_not_mix() {
    let namespace = Namespace::new();
    let [four, six] = [Family::V4, Family::V6].map(|family| bind(&namespace, family));
    four.send(b"x", 1, &to("::ffff:127.0.0.1", &four), 0)
        .expect("IPv4 in disguise");
    assert_eq!(
        receive(&four)[0].source,
        SocketAddr::new(address("127.0.0.1"), four.local_port())
    );
    for ip in ["::ffff:127.0.0.1", "127.0.0.1"] {
        let Err(SendError::Other(error)) = six.send(b"x", 1, &to(ip, &four), 0) else {
            panic!("{ip} by IPv6")
        };
        assert_eq!(error.raw_os_error(), Some(libc::EAFNOSUPPORT));
    }
    let moved = Destination {
        source: from("::1", 1),
        ..to("127.0.0.1", &four)
    };
    assert!(matches!(
        four.send(b"x", 1, &moved, 0),
        Err(SendError::SourceGone)
    ));
    assert!(
        !namespace
            .run(|| source_still_valid(moved.address, moved.source.expect("one"), 0))
            .expect("looked up")
    );
}

#[test]
fn the_path_mtu_is_the_routes() {
    let pair = Pair::new();
    pair.here.ip("route add 192.0.2.0/24 via 10.7.0.2 mtu 1300");
    pair.here
        .ip("-6 route add 2001:db8::/64 via fd07::2 mtu 1290");
    let mtu = |ip| {
        pair.here
            .run(|| culvert_udp::path_mtu(SocketAddr::new(address(ip), 9), 0))
    };
    let expected = [
        ("10.7.0.2", 1500),
        ("fd07::2", 1500),
        ("192.0.2.1", 1300),
        ("2001:db8::1", 1290),
        ("127.0.0.1", u16::MAX),
    ];
    for (ip, expected) in expected {
        assert_eq!(mtu(ip).expect("there is a route"), expected, "{ip}");
    }
    assert_eq!(
        mtu("198.51.100.1").expect_err("no route").raw_os_error(),
        Some(libc::ENETUNREACH)
    );
}
