//! Plain tunnels between namespaces, and the probe of a real interface.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use clap::ValueEnum;
use culvert_io_models::{Ends, Model, Outcome, Plan, probe};
use culvert_lab::{Family, Link, LinkShape, Namespace, Subnet, Transfer};
use culvert_tun::{Device, Options};

const OUTER: Subnet = Subnet(1);
const INNER: Subnet = Subnet(100);
const PORT: u16 = 51840;

/// Some hundred superframes.
const FILE_BYTES: u64 = 8 << 20;

/// One end, on a thread that ends with the process: nothing else ends what waits for packets.
fn start(namespace: &Namespace, model: Model, host: u8) {
    let plan = Plan {
        interface: "plain0".to_owned(),
        port: PORT,
        peer: SocketAddr::new(OUTER.host(Family::V4, 3 - host), PORT),
        mtu: 1420,
    };
    let ends = namespace.inside(|| Ok(Ends::open(&plan, model)?));
    let ends = ends.expect("the interface and the socket are made");
    let ends = Arc::new(ends);
    std::thread::spawn(move || culvert_io_models::run(&ends, model));
    let address = INNER.host(Family::V4, host);
    namespace
        .run(&format!("ip addr add {address}/24 dev plain0"))
        .expect("it takes an address");
    namespace.run("ip link set plain0 up").expect("it comes up");
}

#[test]
fn packets_of_all_sizes_and_files_pass_both_ways_however_a_plain_tunnel_waits() {
    culvert_lab::require().unwrap();
    for model in Model::value_variants() {
        let (left, right) = (Namespace::new().unwrap(), Namespace::new().unwrap());
        let _link = Link::new(&left, &right, OUTER, LinkShape::default()).unwrap();
        start(&left, *model, 1);
        start(&right, *model, 2);
        for (from, at, to) in [(&left, &right, 2), (&right, &left, 1)] {
            let to = INNER.host(Family::V4, to);
            for payload_bytes in [0, 1392] {
                // More packets than any model has buffers for.
                let line = format!("ping -q -f -c 200 -w 10 -s {payload_bytes} -M do {to}");
                let answer = from.run(&line).unwrap_or_else(|error| {
                    panic!("{} with {payload_bytes} bytes: {error:#}", model.name())
                });
                assert!(answer.contains(" 200 received"), "{answer}");
            }
            let to = SocketAddr::new(to, 4000);
            Transfer::run(from, at, to, FILE_BYTES)
                .unwrap_or_else(|error| panic!("{}: {error:#}", model.name()));
        }
    }
}

#[test]
fn the_probe_finds_that_a_tun_descriptor_is_a_file_and_no_socket() {
    culvert_lab::require().unwrap();
    let namespace = Namespace::new().unwrap();
    let (mut device, sender) = namespace
        .inside(|| {
            let device = Device::create(&Options {
                name: "probe0".to_owned(),
                mtu: 1420,
                offload: false,
                steering: None,
                bound: false,
            })?;
            Ok((device, UdpSocket::bind("0.0.0.0:0")?))
        })
        .unwrap();
    let (own, other) = (INNER.host(Family::V4, 1), INNER.host(Family::V4, 2));
    for line in [
        "sysctl -qw net.ipv6.conf.probe0.disable_ipv6=1".to_owned(),
        format!("ip addr add {own}/24 dev probe0"),
        "ip link set probe0 up".to_owned(),
    ] {
        namespace.run(&line).unwrap();
    }
    let queue = device.take_queues().remove(0);
    let feed = || -> io::Result<()> { sender.send_to(b"probe", (other, 9)).map(drop) };
    // The shortest packet that the interface takes for IPv4: its first half byte says so.
    let mut packet = [0; 20];
    packet[0] = 0x45;
    let calls = probe(&queue, &packet, &feed).unwrap();
    let outcome = |name: &str| -> &Outcome {
        let call = calls.iter().find(|call| call.name == name);
        &call
            .unwrap_or_else(|| panic!("{name} was not tried"))
            .outcome
    };
    for name in [
        "read",
        "readv",
        "write",
        "writev",
        "select",
        "poll",
        "io_uring read",
        "io_uring write",
    ] {
        assert_eq!(*outcome(name), Outcome::Works, "{name}");
    }
    for name in ["recv", "recvmsg", "recvmmsg", "send", "sendmsg", "sendmmsg"] {
        let refused = Outcome::Refused("ENOTSOCK".to_owned());
        assert_eq!(*outcome(name), refused, "{name}");
    }
}
