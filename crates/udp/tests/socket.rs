//! Opening sockets: ports, sharing, marks, and what is told when it fails. Needs root: every test makes a namespace.

mod support;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use culvert_base::Family;
use culvert_base::datagrams::PRIORITY_CLASS;
use culvert_udp::{Group, ReceiveBatch, Socket, UdpError};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use rustix::thread::CapabilitySet;
use support::Namespace;

const PORT: u16 = 51820;

fn bind(namespace: &Namespace, family: Family) -> Socket {
    namespace
        .run(|| Socket::bind(family, PORT, 0))
        .expect("a free port")
}

/// Of as many workers.
fn group_of(workers: usize, has_priority: bool) -> Group {
    Group {
        workers: NonZeroUsize::new(workers).expect("at least one"),
        has_priority,
    }
}

fn group(namespace: &Namespace, family: Family, workers: usize) -> Result<Vec<Socket>, UdpError> {
    namespace.run(|| Socket::bind_group(family, PORT, group_of(workers, false), 0))
}

#[test]
fn both_families_share_a_port_and_any_port_is_told() {
    let namespace = Namespace::new();
    let four = namespace
        .run(|| Socket::bind(Family::V4, 0, 0))
        .expect("a free port");
    assert_ne!(four.local_port(), 0);
    let six = namespace
        .run(|| Socket::bind(Family::V6, four.local_port(), 0))
        .expect("IPv6 alone");
    assert_eq!(six.local_port(), four.local_port());
    assert_eq!((four.family(), six.family()), (Family::V4, Family::V6));
    assert!(four.features().segmentation && four.features().receive_offload);
}

#[test]
fn a_taken_port_is_told_with_its_remedy() {
    let namespace = Namespace::new();
    for family in [Family::V4, Family::V6] {
        let _first = bind(&namespace, family);
        for result in [
            namespace.run(|| Socket::bind(family, PORT, 0)).map(|_| ()),
            group(&namespace, family, 2).map(|_| ()),
        ] {
            let error = result.expect_err("the port is taken");
            assert!(
                matches!(error, UdpError::PortTaken { port: PORT }),
                "{error}"
            );
            assert!(error.to_string().starts_with("UDP port 51820 is taken: "));
        }
    }
}

#[test]
fn a_port_that_others_share_is_not_joined_and_ours_is_not_shared_by_accident() {
    let namespace = Namespace::new();
    let others = foreign_sharing(&namespace).expect("the port is free");
    assert!(matches!(
        namespace.run(|| Socket::bind(Family::V4, PORT, 0)),
        Err(UdpError::PortTaken { .. })
    ));
    assert!(matches!(
        group(&namespace, Family::V4, 3),
        Err(UdpError::PortTaken { .. })
    ));
    drop(others);

    // In a fresh namespace: a child of another test, between its fork and its exec, may still hold the closed socket.
    let namespace = Namespace::new();
    let _alone = bind(&namespace, Family::V4);
    foreign_sharing(&namespace).expect_err("a single socket is never shared");
}

#[test]
fn a_group_keeps_each_peer_on_one_socket_uses_all_and_gives_a_stranger_nothing() {
    let namespace = Namespace::new();
    for (family, loopback) in [(Family::V4, "127.0.0.1"), (Family::V6, "::1")] {
        let sockets = group(&namespace, family, 3).expect("a free port");
        let stranger = (family == Family::V4)
            .then(|| foreign_sharing(&namespace).expect("the kernel allows it"));
        let mut batch = ReceiveBatch::new(4);
        let mut peers_of = [0; 3];
        for _ in 0..60 {
            let peer = namespace.run(|| UdpSocket::bind((loopback, 0)).expect("a free port"));
            for _ in 0..3 {
                peer.send_to(b"hello", (loopback, PORT)).expect("sent");
            }
            let mut received = [0; 3];
            while received.iter().sum::<usize>() < 3 {
                wait_for_any(&sockets);
                for (count, socket) in received.iter_mut().zip(&sockets) {
                    *count += receive_datagrams(socket, &mut batch);
                }
            }
            let chosen = received
                .iter()
                .position(|count| *count == 3)
                .expect("all of a peer's on one socket");
            peers_of[chosen] += 1;
        }
        assert!(peers_of.iter().all(|peers| *peers > 5), "{peers_of:?}");
        if let Some(stranger) = stranger {
            stranger.set_nonblocking(true).expect("set");
            stranger.recv(&mut [0; 9]).expect_err("it receives nothing");
        }
    }
}

#[test]
fn priority_datagrams_come_to_the_priority_socket_of_the_worker_that_has_the_rest() {
    let namespace = Namespace::new();
    for (workers, family, loopback) in [
        (1, Family::V4, "127.0.0.1"),
        (1, Family::V6, "::1"),
        (3, Family::V4, "127.0.0.1"),
        (3, Family::V6, "::1"),
    ] {
        let group = group_of(workers, true);
        let sockets = namespace
            .run(|| Socket::bind_group(family, PORT, group, 0))
            .expect("a free port");
        assert_eq!(sockets.len(), 2 * workers);
        let mut batch = ReceiveBatch::new(1);
        let mut used = vec![0_u64; workers];
        for _ in 0..20 * workers {
            let peer = namespace.run(|| UdpSocket::bind((loopback, 0)).expect("a free port"));
            // Its own traffic class with every ECN codepoint, and others beside it.
            let came_to =
                [0, 0x03, PRIORITY_CLASS, PRIORITY_CLASS | 0x03, 0xb8, 0x80].map(|class| {
                    match family {
                        Family::V4 => sockopt::set_ip_tos(&peer, class).expect("set"),
                        Family::V6 => sockopt::set_ipv6_tclass(&peer, class.into()).expect("set"),
                    }
                    peer.send_to(b"hello", (loopback, PORT)).expect("sent");
                    wait_for_any(&sockets);
                    let mut counts = sockets
                        .iter()
                        .map(|socket| receive_datagrams(socket, &mut batch));
                    counts.position(|count| count == 1).expect("it came")
                });
            let worker = came_to[0];
            let priority = workers + worker;
            assert!(worker < workers, "{came_to:?}");
            assert_eq!(
                came_to,
                [worker, worker, priority, priority, worker, worker],
                "{family:?}"
            );
            used[worker] += 1;
            // Two of the six were its own; nothing else counts.
            assert_eq!(sockets[worker].arrivals(), None);
            assert_eq!(sockets[priority].arrivals(), Some(2 * used[worker]));
        }
        assert!(used.iter().all(|peers| *peers > 0), "{used:?}");
    }
}

#[test]
fn without_the_right_to_load_programs_there_are_no_priority_sockets_and_the_port_is_free() {
    const ALLOWED_TO_ALL: &str = "0";
    let setting = std::fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled");
    if setting.is_ok_and(|setting| setting.trim() == ALLOWED_TO_ALL) {
        return;
    }
    let namespace = Namespace::new();
    namespace.run(|| {
        without(CapabilitySet::BPF | CapabilitySet::SYS_ADMIN);
        let refused = Socket::bind_group(Family::V4, PORT, group_of(1, true), 0);
        let error = refused.expect_err("it needs CAP_BPF");
        assert!(matches!(error, UdpError::Sorting { .. }), "{error:?}");
        assert!(error.to_string().ends_with("needs CAP_BPF"), "{error}");
        // A process that another test starts at this moment has copies of the sockets until it executes its program.
        let deadline = Instant::now() + Duration::from_secs(10);
        let sockets = loop {
            match Socket::bind_group(Family::V4, PORT, group_of(2, false), 0) {
                Err(UdpError::PortTaken { .. }) if Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(10));
                }
                sockets => break sockets,
            }
        };
        assert_eq!(sockets.expect("a classic program").len(), 2);
    });
}

#[test]
fn a_mark_chooses_the_route() {
    let namespace = Namespace::new();
    two_links(&namespace);
    namespace.ip("rule add fwmark 7 table 100");
    namespace.ip("route add 192.0.2.0/24 dev left");
    namespace.ip("route add 192.0.2.0/24 dev right table 100");
    let to: SocketAddr = "192.0.2.1:9".parse().expect("a literal address");
    let mtu = |mark| {
        namespace
            .run(|| culvert_udp::path_mtu(to, mark))
            .expect("there is a route")
    };
    assert_eq!((mtu(0), mtu(7)), (1500, 1400));

    let socket = namespace
        .run(|| Socket::bind(Family::V4, 0, 7))
        .expect("bound");
    let source = |socket: &Socket| {
        rustix::net::connect(socket, &to).expect("there is a route");
        SocketAddr::try_from(rustix::net::getsockname(socket).expect("a name"))
            .expect("an address")
            .ip()
    };
    assert_eq!(source(&socket), Ipv4Addr::new(10, 2, 0, 1));
    let socket = namespace
        .run(|| Socket::bind(Family::V4, 0, 0))
        .expect("bound");
    namespace.run(|| socket.set_mark(7)).expect("marked");
    assert_eq!(source(&socket), Ipv4Addr::new(10, 2, 0, 1));
    let socket = namespace
        .run(|| Socket::bind(Family::V4, 0, 7))
        .expect("bound");
    socket.set_mark(0).expect("unmarked");
    assert_eq!(source(&socket), Ipv4Addr::new(10, 1, 0, 1));
}

#[test]
fn what_needs_a_privilege_is_told_with_its_remedy_or_done_as_far_as_allowed() {
    let namespace = Namespace::new();
    let unprivileged = |port, mark| {
        namespace.run(|| {
            without(
                CapabilitySet::NET_ADMIN | CapabilitySet::NET_RAW | CapabilitySet::NET_BIND_SERVICE,
            );
            let socket = Socket::bind(Family::V4, port, mark)?;
            socket.set_send_buffer(100_000).expect("within the limits");
            socket.set_mark(7).expect_err("not permitted");
            Ok(socket)
        })
    };
    let error = unprivileged(0, 7)
        .map(|_: Socket| ())
        .expect_err("not permitted");
    assert!(matches!(error, UdpError::MarkRefused), "{error}");
    assert!(error.to_string().contains("CAP_NET_ADMIN"));
    let error = unprivileged(53, 0).map(|_| ()).expect_err("not permitted");
    assert!(
        matches!(error, UdpError::PortReserved { port: 53 }),
        "{error}"
    );
    let limited = unprivileged(PORT, 0).expect("needs nothing");
    let size = |socket: &Socket| sockopt::socket_recv_buffer_size(socket).expect("told");
    let full = namespace
        .run(|| Socket::bind(Family::V4, 0, 0))
        .expect("bound");
    assert_eq!(size(&full), 2 * 8 * 1024 * 1024);
    assert!(size(&limited) < size(&full), "limited by rmem_max");
}

#[test]
fn sockets_do_not_block_and_do_not_pass_to_children() {
    let namespace = Namespace::new();
    let socket = bind(&namespace, Family::V4);
    let flags = rustix::fs::fcntl_getfl(socket.as_fd()).expect("told");
    assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
    assert!(
        rustix::io::fcntl_getfd(&socket)
            .expect("told")
            .contains(rustix::io::FdFlags::CLOEXEC)
    );
    assert_eq!(
        socket
            .receive_batch(&mut ReceiveBatch::new(1))
            .expect("nothing waits"),
        0
    );
}

/// Another program's socket on our port that asks to share it.
fn foreign_sharing(namespace: &Namespace) -> rustix::io::Result<UdpSocket> {
    namespace.run(|| {
        let socket = rustix::net::socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        sockopt::set_socket_reuseport(&socket, true)?;
        rustix::net::bind(
            &socket,
            &SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), PORT),
        )?;
        Ok(UdpSocket::from(socket))
    })
}

fn wait_for_any(sockets: &[Socket]) {
    let mut descriptors: Vec<_> = sockets
        .iter()
        .map(|socket| PollFd::new(socket, PollFlags::IN))
        .collect();
    let wait = Timespec {
        tv_sec: 10,
        tv_nsec: 0,
    };
    let ready = rustix::event::poll(&mut descriptors, Some(&wait)).expect("polled");
    assert_ne!(ready, 0, "a datagram went astray");
}

fn receive_datagrams(socket: &Socket, batch: &mut ReceiveBatch) -> usize {
    let runs = socket.receive_batch(batch).expect("received");
    assert_eq!(batch.iter_mut().count(), runs);
    batch
        .iter_mut()
        .map(|run| run.bytes.len() / run.stride)
        .sum()
}

/// Two links that lead nowhere: `left` with 10.1.0.1 and MTU 1500, `right` with 10.2.0.1 and MTU 1400.
fn two_links(namespace: &Namespace) {
    for (name, address, mtu) in [
        ("left", "10.1.0.1/24", 1500),
        ("right", "10.2.0.1/24", 1400),
    ] {
        namespace.ip(&format!(
            "link add {name} mtu {mtu} type veth peer name {name}-far"
        ));
        namespace.ip(&format!("link set {name}-far up"));
        namespace.ip(&format!("link set {name} up"));
        namespace.ip(&format!("address add {address} dev {name}"));
    }
}

/// Takes `capabilities` from this thread.
fn without(capabilities: CapabilitySet) {
    let mut sets = rustix::thread::capabilities(None).expect("capabilities are read");
    sets.effective.remove(capabilities);
    rustix::thread::set_capabilities(None, sets).expect("capabilities are dropped");
}

/// Sockets whose maker has ended, as somebody keeps them who knows nothing of them.
fn stored(namespace: &Namespace, family: Family, count: usize) -> Vec<OwnedFd> {
    let sockets = group(namespace, family, count).expect("a free port");
    let own = sockets.iter();
    own.map(|socket| socket.as_fd().try_clone_to_owned().expect("it is kept"))
        .collect()
}

fn take_over(
    family: Family,
    port: u16,
    count: usize,
    sockets: Vec<OwnedFd>,
) -> Result<Vec<Socket>, UdpError> {
    Socket::take_over_group(family, port, group_of(count, false), 7, sockets)
}

#[test]
fn sockets_that_are_kept_are_taken_over_with_their_port_and_what_waits_in_them() {
    for family in [Family::V4, Family::V6] {
        for count in [1, 3] {
            let namespace = Namespace::new();
            let sockets = stored(&namespace, family, count);
            let sender = namespace.run(|| match family {
                Family::V4 => UdpSocket::bind("127.0.0.1:0"),
                Family::V6 => UdpSocket::bind("[::1]:0"),
            });
            let sender = sender.expect("a free port");
            let to = match family {
                Family::V4 => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
                Family::V6 => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, PORT)),
            };
            sender.send_to(b"kept", to).expect("it is sent");
            for port in [0, PORT] {
                let copies = sockets.iter().map(|it| it.try_clone().expect("a copy"));
                let copies = copies.collect();
                let taken = namespace.run(|| take_over(family, port, count, copies));
                let taken = taken.expect("they are taken over");
                assert_eq!(taken.len(), count);
                for socket in &taken {
                    assert_eq!(socket.local_port(), PORT);
                    assert_eq!(socket.family(), family);
                    assert!(socket.features().segmentation && socket.features().receive_offload);
                    assert_eq!(sockopt::socket_type(socket), Ok(SocketType::DGRAM));
                }
                if port == PORT {
                    assert_eq!(received(&taken), b"kept");
                }
            }
        }
    }
}

/// The one datagram that waits in one of them.
fn received(sockets: &[Socket]) -> Vec<u8> {
    let mut batch = ReceiveBatch::new(1);
    for socket in sockets {
        if matches!(socket.receive_batch(&mut batch), Ok(1))
            && let Some(received) = batch.get_mut(0)
        {
            return received.bytes.to_vec();
        }
    }
    Vec::new()
}

#[test]
fn what_is_not_the_sockets_that_are_wanted_is_refused() {
    type Make = fn(&Namespace) -> Vec<OwnedFd>;
    let cases: [(&str, u16, usize, Make); 9] = [
        ("one of three", PORT, 1, |here| stored(here, Family::V4, 3)),
        ("three for one", PORT, 3, |here| stored(here, Family::V4, 1)),
        ("none", PORT, 1, |_| Vec::new()),
        ("another port", PORT + 1, 1, |here| {
            stored(here, Family::V4, 1)
        }),
        ("one of a group", PORT, 1, |here| {
            stored(here, Family::V4, 2).split_off(1)
        }),
        ("of the other family", PORT, 1, |here| {
            stored(here, Family::V6, 1)
        }),
        ("of another namespace", PORT, 1, |_| {
            stored(&Namespace::new(), Family::V4, 1)
        }),
        ("TCP", PORT, 1, |here| {
            let tcp = here.run(|| std::net::TcpListener::bind("0.0.0.0:51820"));
            vec![tcp.expect("a free port").into()]
        }),
        ("one address alone", PORT, 1, |here| {
            let udp = here.run(|| UdpSocket::bind("127.0.0.1:51820"));
            vec![udp.expect("a free port").into()]
        }),
    ];
    for (case, port, count, make) in cases {
        let namespace = Namespace::new();
        let sockets = make(&namespace);
        let taken = namespace.run(|| take_over(Family::V4, port, count, sockets));
        let error = taken.expect_err(case);
        assert!(
            matches!(error, UdpError::NotItsSockets { .. }),
            "{case}: {error}"
        );
    }
    let null = std::fs::File::open("/dev/null").expect("it is there");
    take_over(Family::V4, PORT, 1, vec![null.into()]).expect_err("a file");
}
