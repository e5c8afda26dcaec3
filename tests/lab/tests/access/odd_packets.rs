//! Packets that few programs send: fragments out of order, protocols without ports, UDP that is silent for minutes.

use crate::common::{Bed, ECHO_PORT, SOON, WEB_PORT, access};
use anyhow::Result;
use culvert_lab::product::{Client, Echo, PRIVATE_V4, PRIVATE_V6};
use culvert_lab::{Family, Namespace, wait_until};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketType, bind, ipproto, recv, sendto, socket,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZero;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

/// Protocols without ports: IP in IP, EGP, GRE, ESP, AH, OSPF, PIM, VRRP, L2TP, and numbers for experiments (RFC 3692), which
/// neither the kernel nor the gateway knows.
const PORTLESS: [u8; 11] = [4, 8, 47, 50, 51, 89, 103, 112, 115, 253, 254];
const UDP: u8 = 17;
/// Bytes of a datagram that is cut in the middle.
const DATAGRAM_LEN: u16 = 1200;
const CUT: u16 = 600;
/// Parts of one that is cut in three.
const PARTS: [(u16, u16); 3] = [(0, 400), (400, 400), (800, 400)];
/// The orders in which they may arrive. In the first, nothing is out of order.
const ORDERS: [&[usize]; 8] = [
    &[0, 1, 2],
    &[0, 2, 1],
    &[1, 0, 2],
    &[1, 2, 0],
    &[2, 0, 1],
    &[2, 1, 0],
    // With a part that comes twice, before the first one and after it.
    &[2, 2, 1, 0],
    &[1, 0, 1, 2],
];
/// Nobody listens there.
const SILENT_PORT: u16 = 4242;
/// An address of the private machine beside that of its servers.
const ANY_V4: &str = "10.50.0.11";

/// The usual access, and all of both private addresses for all protocols.
fn any_access() -> String {
    let mut toml = access();
    for (name, address) in [("any v4", ANY_V4), ("any v6", PRIVATE_V6)] {
        toml += &format!(
            "\n[[resource]]\nname = \"{name}\"\nsite = \"lab\"\nkind = \"address\"\naddress = \"{address}\"\n\
             filters = [{{ protocol = \"any\" }}]\n\
             \n[[policy]]\nname = \"policy {name}\"\ngroup = \"staff\"\nresource = \"{name}\"\n"
        );
    }
    toml
}

/// A socket that sends whole IPv4 packets, or one that speaks a protocol of IPv4.
fn raw(namespace: &Namespace, protocol: Protocol) -> Result<OwnedFd> {
    let (family, kind) = (AddressFamily::INET, SocketType::RAW);
    namespace.inside(|| Ok(socket(family, kind, Some(protocol))?))
}

/// A fragment of a UDP datagram without a checksum.
fn fragment(ends: [Ipv4Addr; 2], id: u16, part: &[u8], offset: u16, has_more: bool) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    let len = 20 + u16::try_from(part.len()).unwrap();
    packet.extend(len.to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(((offset / 8) | (u16::from(has_more) << 13)).to_be_bytes());
    packet.extend([64, UDP, 0, 0]);
    packet.extend(ends.map(|end| end.octets()).concat());
    packet.extend(part);
    packet
}

fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => panic!("{address} is none of IPv4"),
    }
}

#[test]
fn a_datagram_whose_later_fragment_overtakes_the_first_one_arrives() {
    let bed = Bed::new(1).unwrap();
    let client = &bed.product.client;
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    let own = v4(client.address().unwrap());
    let echo: Ipv4Addr = PRIVATE_V4.parse().unwrap();
    let receiver = client
        .namespace
        .inside(|| Ok(UdpSocket::bind((own, 0))?))
        .unwrap();
    receiver.set_read_timeout(Some(SOON)).unwrap();
    let mut datagram = Vec::new();
    for word in [
        receiver.local_addr().unwrap().port(),
        ECHO_PORT,
        DATAGRAM_LEN,
        0,
    ] {
        datagram.extend(word.to_be_bytes());
    }
    datagram.resize(usize::from(DATAGRAM_LEN), 7);
    let (first, later) = datagram.split_at(usize::from(CUT));
    let socket = raw(&client.namespace, ipproto::RAW).unwrap();
    let ends = [own, echo];
    let send = |packet: &[u8]| {
        let to = SocketAddr::new(echo.into(), 0);
        sendto(&socket, packet, SendFlags::empty(), &to).unwrap();
    };
    let comes_back = |order: &dyn std::fmt::Debug| {
        let mut answer = [0; 100];
        let answered = receiver.recv_from(&mut answer);
        let (len, from) = answered.unwrap_or_else(|error| panic!("{order:?}: {error}"));
        assert_eq!(from, SocketAddr::new(echo.into(), ECHO_PORT));
        assert!(len > 0 && answer[..len].iter().all(|&byte| byte == 7));
    };
    send(&fragment(ends, 0x1234, later, CUT, false));
    send(&fragment(ends, 0x1234, first, 0, true));
    comes_back(&"two parts");
    // As close to each other as they leave, and five milliseconds apart.
    let mut id = 0x2000;
    for pause in [Duration::ZERO, Duration::from_millis(5)] {
        for order in ORDERS {
            id += 1;
            for part in order {
                let (offset, len) = PARTS[*part];
                let bytes = &datagram[usize::from(offset)..usize::from(offset + len)];
                let has_more = offset + len < DATAGRAM_LEN;
                send(&fragment(ends, id, bytes, offset, has_more));
                thread::sleep(pause);
            }
            comes_back(&order);
        }
    }
    // Ten datagrams of which all later parts come before all first ones.
    for has_more in [false, true] {
        for number in 0..10 {
            let (part, offset) = if has_more { (first, 0) } else { (later, CUT) };
            send(&fragment(ends, 0x3000 + number, part, offset, has_more));
        }
    }
    for number in 0..10 {
        comes_back(&number);
    }
    let status = bed.product.gateways[0].status().unwrap();
    let drops = status["drops"].as_array().unwrap();
    let of_fragments = drops.iter().find(|drop| drop["reason"] == "fragment");
    assert_eq!(of_fragments, None);
}

/// Seconds that the gateway's kernel goes on remembering UDP flows to this port.
fn remembered(gateway: &Namespace, port: u16) -> Vec<u64> {
    let table = gateway.shell("cat /proc/net/nf_conntrack").unwrap();
    let to_port = format!("dport={port} ");
    let flows = table.lines().filter(|line| line.contains(&to_port));
    let udp = flows.filter_map(|line| line.split_once(" udp "));
    // The protocol's number and the seconds.
    udp.filter_map(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok())
        .collect()
}

#[test]
fn the_gateways_kernel_remembers_udp_flows_for_five_minutes_answered_or_not() {
    let bed = Bed::with_access(1, &any_access()).unwrap();
    let client = &bed.product.client.namespace;
    let gateway = &bed.product.gateways[0];
    let numbered = bed.numbered_stream().unwrap();
    wait_until("an answered flow", SOON, || {
        let flows = remembered(&gateway.namespace, ECHO_PORT);
        !flows.is_empty() && flows.iter().all(|&seconds| (280..=300).contains(&seconds))
    })
    .unwrap();
    drop(numbered);
    // Servers that are asked several times, as they are by DNS, QUIC, IPsec and telephones, in both families.
    let other_v4 = ANY_V4.parse().unwrap();
    let other_v6 = PRIVATE_V6.parse().unwrap();
    for (address, port) in [
        (other_v4, 53),
        (other_v4, 443),
        (other_v4, 4500),
        (other_v4, 5060),
        (other_v6, 53),
        (other_v6, 443),
        (other_v6, 3478),
    ] {
        let _echo = Echo::start(&bed.product.private, address, port).unwrap();
        let any: IpAddr = match address {
            IpAddr::V4(_) => [0; 4].into(),
            IpAddr::V6(_) => [0_u16; 8].into(),
        };
        let asks = client.inside(|| Ok(UdpSocket::bind((any, 0))?)).unwrap();
        asks.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        let mut answers = 0;
        wait_until("several answers", SOON, || {
            let _may_be_refused = asks.send_to(b"and now?", (address, port));
            answers += usize::from(asks.recv(&mut [0; 100]).is_ok());
            answers >= 4
        })
        .unwrap();
        let flows = remembered(&gateway.namespace, port);
        let is_whole = |seconds: &u64| (280..=300).contains(seconds);
        assert!(
            !flows.is_empty() && flows.iter().all(is_whole),
            "{address} {port}: {flows:?}"
        );
    }
    // Nobody answers, which the kernel remembers for 30 seconds otherwise.
    let silent = client.inside(|| Ok(UdpSocket::bind("[::]:0")?)).unwrap();
    let to: SocketAddr = format!("[{PRIVATE_V6}]:{SILENT_PORT}").parse().unwrap();
    wait_until("a flow without an answer", SOON, || {
        let _may_be_refused = silent.send_to(b"anybody there?", to);
        let flows = remembered(&gateway.namespace, SILENT_PORT);
        !flows.is_empty() && flows.iter().all(|&seconds| (280..=300).contains(&seconds))
    })
    .unwrap();
    let problems = gateway.status().unwrap()["problems"].to_string();
    assert!(!problems.contains("UDP flows"), "{problems}");
}

/// A raw socket of a protocol.
fn speaks(namespace: &Namespace, protocol: u8) -> OwnedFd {
    raw(
        namespace,
        Protocol::from_raw(NonZero::new(protocol.into()).unwrap()),
    )
    .unwrap()
}

/// The payload of a packet, long enough for the header of any of the protocols.
const PAYLOAD: [u8; 40] = [0; 40];

/// Sends a packet of a protocol from a client to the private machine, whose raw socket counts what comes.
fn sends(client: &Client, protocol: u8) {
    let socket = speaks(&client.namespace, protocol);
    let to = SocketAddr::new(ANY_V4.parse().unwrap(), 0);
    let _may_be_refused = sendto(&socket, &PAYLOAD, SendFlags::empty(), &to);
}

fn refused_by_gateway(client: &Client) -> u64 {
    let counters = client.status().unwrap()["counters"].clone();
    let counters = counters.as_array().unwrap();
    let found = counters
        .iter()
        .find(|it| it["name"] == "packets_refused_by_gateway");
    found.unwrap()["count"].as_u64().unwrap()
}

#[test]
fn a_protocol_without_ports_is_answered_to_one_client_and_refused_to_the_next() {
    let bed = Bed::with_access(1, &any_access()).unwrap();
    let product = &bed.product;
    let mut other = product.other_client().unwrap();
    other.name = "other".to_owned();
    product
        .portal
        .token("client --actor laptop", &other.token_file())
        .unwrap();
    other.start().unwrap();

    let gateway = SocketAddr::new(product.gateways[0].private_address(Family::V4), 0);
    let mut buffer = [0_u8; 100];
    for protocol in PORTLESS {
        let server = speaks(&product.private, protocol);
        bind(&server, &SocketAddr::new(ANY_V4.parse().unwrap(), 0)).unwrap();
        let first = speaks(&product.client.namespace, protocol);
        wait_until("a packet of the first client to arrive", SOON, || {
            sends(&product.client, protocol);
            recv(&server, &mut buffer, RecvFlags::DONTWAIT).is_ok()
        })
        .unwrap_or_else(|error| panic!("{protocol}: {error}"));
        wait_until("the answer to arrive", SOON, || {
            sendto(&server, &PAYLOAD, SendFlags::empty(), &gateway).unwrap();
            recv(&first, &mut buffer, RecvFlags::DONTWAIT).is_ok()
        })
        .unwrap_or_else(|error| panic!("{protocol}: {error}"));
        let before = refused_by_gateway(&other);
        wait_until("the second client to hear that it is refused", SOON, || {
            sends(&other, protocol);
            refused_by_gateway(&other) > before
        })
        .unwrap_or_else(|error| panic!("{protocol}: {error}"));
    }
    assert_eq!(refused_by_gateway(&product.client), 0);
    let status = product.gateways[0].status().unwrap();
    let drops = status["drops"].as_array().unwrap();
    assert!(drops.iter().any(|drop| drop["reason"] == "address_taken"));
}
