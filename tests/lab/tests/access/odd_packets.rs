//! Packets that few programs send: fragments out of order, protocols without ports, UDP that is silent for minutes.

use crate::common::{Bed, ECHO_PORT, SOON, WEB_PORT, access};
use anyhow::Result;
use culvert_lab::product::{Client, PRIVATE_V4, PRIVATE_V6};
use culvert_lab::{Family, Namespace, wait_until};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketType, bind, ipproto, recv, sendto, socket,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZero;
use std::os::fd::OwnedFd;

/// A number for experiments (RFC 3692), which neither the kernel nor the gateway knows.
const EXPERIMENT: u8 = 253;
const UDP: u8 = 17;
/// Bytes of a datagram that is cut in the middle.
const DATAGRAM_LEN: u16 = 1200;
const CUT: u16 = 600;
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
fn fragment(from: Ipv4Addr, to: Ipv4Addr, part: &[u8], offset: u16, has_more: bool) -> Vec<u8> {
    let mut packet = vec![0x45, 0];
    let len = 20 + u16::try_from(part.len()).unwrap();
    packet.extend(len.to_be_bytes());
    packet.extend([0x12, 0x34]);
    packet.extend(((offset / 8) | (u16::from(has_more) << 13)).to_be_bytes());
    packet.extend([64, UDP, 0, 0]);
    packet.extend(from.octets());
    packet.extend(to.octets());
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
    for packet in [
        fragment(own, echo, later, CUT, false),
        fragment(own, echo, first, 0, true),
    ] {
        let to = SocketAddr::new(echo.into(), 0);
        sendto(&socket, &packet, SendFlags::empty(), &to).unwrap();
    }
    let mut answer = [0; 100];
    let (len, from) = receiver.recv_from(&mut answer).unwrap();
    assert_eq!(from, SocketAddr::new(echo.into(), ECHO_PORT));
    assert!(len > 0 && answer[..len].iter().all(|&byte| byte == 7));
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

/// Sends a packet of the experiment from a client to the private machine, whose raw socket counts what comes.
fn sends(client: &Client) {
    let number = Protocol::from_raw(NonZero::new(EXPERIMENT.into()).unwrap());
    let socket = raw(&client.namespace, number).unwrap();
    let to = SocketAddr::new(ANY_V4.parse().unwrap(), 0);
    let _may_be_refused = sendto(&socket, b"an experiment", SendFlags::empty(), &to);
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

    let number = Protocol::from_raw(NonZero::new(EXPERIMENT.into()).unwrap());
    let server = raw(&product.private, number).unwrap();
    bind(&server, &SocketAddr::new(ANY_V4.parse().unwrap(), 0)).unwrap();
    let first = raw(&product.client.namespace, number).unwrap();
    let mut buffer = [0_u8; 100];
    wait_until("a packet of the first client to arrive", SOON, || {
        sends(&product.client);
        recv(&server, &mut buffer, RecvFlags::DONTWAIT).is_ok()
    })
    .unwrap();
    let gateway = SocketAddr::new(product.gateways[0].private_address(Family::V4), 0);
    wait_until("the answer to arrive", SOON, || {
        sendto(&server, b"an answer", SendFlags::empty(), &gateway).unwrap();
        recv(&first, &mut buffer, RecvFlags::DONTWAIT).is_ok()
    })
    .unwrap();
    wait_until("the second client to hear that it is refused", SOON, || {
        sends(&other);
        refused_by_gateway(&other) > 0
    })
    .unwrap();
    assert_eq!(refused_by_gateway(&product.client), 0);
    let status = product.gateways[0].status().unwrap();
    let drops = status["drops"].as_array().unwrap();
    assert!(drops.iter().any(|drop| drop["reason"] == "address_taken"));
}
