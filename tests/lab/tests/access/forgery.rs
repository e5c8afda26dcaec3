//! A client that forges: a good key and pre-shared key, and packets that no client would send.

use crate::common::{Bed, OTHER_PORT, SOON, WEB_PORT, access};
use crate::kept_grants::kept_secret;
use anyhow::{Context, Result};
use culvert_lab::product::{PRIVATE_OTHER_V4, PRIVATE_V4, PRIVATE_V6, Product};
use culvert_lab::{
    Family, Implementation, KeyPair, Link, LinkShape, Namespace, Subnet, WireGuardEnd, wait_until,
};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The network of the machine that has the client's keys, beside the client's own.
const ATTACKER_NET: Subnet = Subnet(15);

/// The number of times that each packet is sent: a counter that is off by one is noticed.
const REPEATS: u64 = 3;

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const ROUTING_HEADER: u8 = 43;

/// Of the reasons that are tried the last one in which the gateway says its counts.
const FRAGMENT: &str = "gate fragment";

/// A machine with the keys of the client, which does not run any more.
pub(crate) struct Forger {
    pub(crate) namespace: Namespace,
    _end: WireGuardEnd,
    own_v4: Ipv4Addr,
    own_v6: Ipv6Addr,
}

impl Forger {
    /// Takes the place of the client, whose access to the web server goes on.
    pub(crate) fn take_over(product: &mut Product) -> Result<Self> {
        let status = product.client.status()?;
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let own_v4 = text(&status["ipv4"]).context("no address")?.parse()?;
        let own_v6 = text(&status["ipv6"]).context("no address")?.parse()?;
        let gateway = &status["gateways"][0];
        // The client may have come by either family; the attacker's network leads out by IPv4 alone.
        let endpoint: SocketAddr = text(&gateway["endpoint"]).context("no gateway")?.parse()?;
        let outside = product.gateways[0].public_address(Family::V4);
        let endpoint = SocketAddr::new(outside, endpoint.port());
        let gateway_key = text(&gateway["public_key"]).context("no gateway")?;
        let cipher = text(&gateway["cipher"]).context("no cipher")?;
        product.client.kill()?;

        let namespace = Namespace::new()?;
        Link::new(&product.nat, &namespace, ATTACKER_NET, LinkShape::default())?;
        let router = ATTACKER_NET.host(Family::V4, 1);
        namespace.run(&format!("ip route add default via {router}"))?;
        let implementation = Implementation::culvert_with(&format!("--cipher {cipher}"));
        let mut end = WireGuardEnd::start(&implementation, &namespace)?;
        end.keys = KeyPair {
            private_key: std::fs::read_to_string(product.client.state_dir().join("private.key"))?,
            public_key: text(&status["public_key"]).context("no key")?,
        };
        end.configure(
            51820,
            &[format!("{own_v4}/32"), format!("{own_v6}/128")],
            1420,
        )?;
        // Without the multicast ranges: what the host says of itself there is no forgery.
        let networks = "0.0.0.0/1,128.0.0.0/2,fc00::/7";
        let psk = preshared_key(product)?;
        end.set_peer(&gateway_key, Some(endpoint), networks, Some(&psk))?;
        let interface = end.interface.clone();
        for network in [
            "10.50.0.0/24",
            "10.200.30.0/24",
            "100.64.0.0/10",
            "169.254.0.0/16",
            "fc00::/7",
        ] {
            namespace.run(&format!("ip route add {network} dev {interface}"))?;
        }
        Ok(Self {
            namespace,
            _end: end,
            own_v4,
            own_v6,
        })
    }

    /// Sends a packet as it is, past the host's own rules about addresses.
    fn send(&self, packet: &[u8]) -> Result<()> {
        let (family, to) = if packet[0] >> 4 == 4 {
            let to: [u8; 4] = packet[16..20].try_into()?;
            (AddressFamily::INET, IpAddr::from(to))
        } else {
            let to: [u8; 16] = packet[24..40].try_into()?;
            (AddressFamily::INET6, IpAddr::from(to))
        };
        let socket = self
            .namespace
            .inside(|| Ok(socket(family, SocketType::RAW, Some(ipproto::RAW))?))?;
        let to = SocketAddr::new(to, 0);
        let sent = sendto(&socket, packet, SendFlags::empty(), &to);
        sent.with_context(|| format!("cannot send to {to}"))?;
        Ok(())
    }
}

/// The secret of client and gateway, from where the gateway keeps it.
fn preshared_key(product: &Product) -> Result<String> {
    let stored = || kept_secret(&product.gateways[0]);
    // The gateway writes it down once it has granted.
    wait_until("the gateway to keep its grant", SOON, || stored().is_some())?;
    stored().context("the gateway keeps no grant")
}

/// The gateway's counts of dropped packets, by stage and reason.
fn drops(product: &Product) -> BTreeMap<String, u64> {
    let said = product.gateways[0].output();
    let counts = said.lines().filter_map(|line| {
        let (_, what) = line.split_once("what=\"")?;
        let (what, rest) = what.split_once('"')?;
        let (_, count) = rest.split_once("count=")?;
        Some((what.to_owned(), count.trim().parse().ok()?))
    });
    // The last one counts.
    counts.collect()
}

/// The counts when the client has gone and nothing is forged yet but one fragment. The gateway says
/// that reason last, so its other counts are as new.
fn counts_before(product: &Product, forger: &Forger) -> BTreeMap<String, u64> {
    forger.send(&later_fragment(forger)).unwrap();
    let counted = || drops(product).contains_key(FRAGMENT);
    wait_until("the fragment to be counted", SOON, counted).unwrap();
    drops(product)
}

/// IPv4 packets that have come into the private network.
fn arrived(product: &Product) -> u64 {
    let listed = product.private.run("nft list chain inet watch arrived");
    let listed = listed.unwrap();
    let mut words = listed
        .split_whitespace()
        .skip_while(|&word| word != "packets");
    words.nth(1).unwrap().parse().unwrap()
}

fn ipv4(source: Ipv4Addr, to: Ipv4Addr, protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let header_words = u8::try_from(5 + options.len() / 4).unwrap();
    let mut packet = vec![0x40 | header_words, 0];
    packet.extend(
        u16::try_from(20 + options.len() + payload.len())
            .unwrap()
            .to_be_bytes(),
    );
    // No fragment; the kernel writes the checksum.
    packet.extend([0x12, 0x34, 0, 0, 64, protocol, 0, 0]);
    packet.extend(source.octets());
    packet.extend(to.octets());
    packet.extend(options);
    packet.extend(payload);
    packet
}

fn ipv6(source: Ipv6Addr, to: Ipv6Addr, next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(u16::try_from(payload.len()).unwrap().to_be_bytes());
    packet.extend([next_header, 64]);
    packet.extend(source.octets());
    packet.extend(to.octets());
    packet.extend(payload);
    packet
}

/// A SYN of TCP, or as many bytes of another protocol that has its ports there as well.
fn segment(port: u16) -> Vec<u8> {
    let mut header = vec![0x9c, 0x40];
    header.extend(port.to_be_bytes());
    header.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    header
}

fn datagram(port: u16) -> Vec<u8> {
    let mut header = vec![0x9c, 0x40];
    header.extend(port.to_be_bytes());
    header.extend([0, 8, 0, 0]);
    header
}

/// A message of ICMP with identifier 7 and a right checksum.
fn icmp(kind: u8) -> Vec<u8> {
    let sum = !(u16::from_be_bytes([kind, 0]) + 7);
    let [high, low] = sum.to_be_bytes();
    vec![kind, 0, high, low, 0, 7, 0, 0]
}

/// A fragment of a datagram whose first one nobody has seen.
fn later_fragment(forger: &Forger) -> Vec<u8> {
    let web = PRIVATE_V4.parse().unwrap();
    let mut packet = ipv4(forger.own_v4, web, UDP, &[], &[0; 16]);
    packet[6..8].copy_from_slice(&[0, 10]);
    packet
}

/// Every forgery, and what it is dropped for.
fn forgeries(forger: &Forger) -> Vec<(&'static str, Vec<u8>)> {
    const FORGED: &str = "inner source_not_allowed";
    let own = forger.own_v4;
    let next = Ipv4Addr::from(u32::from(own) ^ 1);
    let next_v6 = Ipv6Addr::from(u128::from(forger.own_v6) ^ 1);
    let v4 = |text: &str| text.parse::<Ipv4Addr>().unwrap();
    let (web, other) = (v4(PRIVATE_V4), v4(PRIVATE_OTHER_V4));
    let web_v6: Ipv6Addr = PRIVATE_V6.parse().unwrap();
    let syn = segment(WEB_PORT);
    let tcp = |source, to| ipv4(source, to, TCP, &[], &syn);
    // Loose source route by way of the other machine, then the end of options.
    let way = [[131, 7, 4].as_slice(), &other.octets(), &[0]].concat();
    // Type 0, one segment left, one address.
    let way_v6 = [
        &[TCP, 2, 0, 1, 0, 0, 0, 0],
        web_v6.octets().as_slice(),
        &syn,
    ]
    .concat();
    vec![
        // Source addresses of others: a neighbour, the Internet, the resource, a name, a machine of the
        // gateway's network.
        (FORGED, tcp(next, web)),
        (FORGED, tcp(v4("198.51.100.7"), web)),
        (FORGED, tcp(web, web)),
        (FORGED, tcp(v4("100.96.0.1"), web)),
        (FORGED, tcp(v4("10.200.30.1"), web)),
        (FORGED, ipv6(next_v6, web_v6, TCP, &syn)),
        // Resources of others, clients, names, and what is no resource.
        ("gate no_grant", tcp(own, other)),
        ("gate no_grant", tcp(own, next)),
        ("gate no_grant", tcp(own, v4("100.96.0.1"))),
        ("gate no_grant", tcp(own, v4("10.200.30.2"))),
        ("gate no_grant", ipv6(forger.own_v6, web_v6, TCP, &syn)),
        // The own resource, by other ports and protocols.
        ("gate port", ipv4(own, web, TCP, &[], &segment(OTHER_PORT))),
        ("gate port", ipv4(own, web, UDP, &[], &datagram(WEB_PORT))),
        ("gate protocol", ipv4(own, web, SCTP, &[], &syn)),
        // Answers that nobody waits for, and messages that clients have no business with.
        ("gate not_a_flow", ipv4(own, web, ICMP, &[], &icmp(0))),
        ("gate icmp_type", ipv4(own, web, ICMP, &[], &icmp(5))),
        (FRAGMENT, later_fragment(forger)),
        ("gate malformed", ipv4(own, web, UDP, &[], &[0; 4])),
        // Ways of their own.
        ("gate source_routed", ipv4(own, web, TCP, &way, &syn)),
        (
            "gate source_routed",
            ipv6(forger.own_v6, web_v6, ROUTING_HEADER, &way_v6),
        ),
        ("gate not_forwarded", tcp(own, v4("169.254.169.254"))),
    ]
}

#[test]
fn what_a_client_forges_is_dropped_and_counted_for_what_it_is() {
    let mut product = Product::networks(1).unwrap();
    product.gateways[0].arguments = "--log-level debug".to_owned();
    product.begin(&access()).unwrap();
    let mut bed = Bed::around(product).unwrap();
    assert!(bed.reaches(PRIVATE_V4, WEB_PORT));
    let forger = Forger::take_over(&mut bed.product).unwrap();
    let curl = format!("curl -fsS -m 4 http://{PRIVATE_V4}:{WEB_PORT}/");
    forger.namespace.run(&curl).expect("its key is good");

    let product = &bed.product;
    let watch = "nft 'add table inet watch; add chain inet watch arrived { type filter hook \
                 prerouting priority raw; }; add rule inet watch arrived meta nfproto ipv4 counter'";
    product.private.shell(watch).unwrap();
    let before = counts_before(product, &forger);
    let mut expected = BTreeMap::<String, u64>::new();
    for (reason, packet) in forgeries(&forger) {
        for _ in 0..REPEATS {
            forger.send(&packet).unwrap();
        }
        *expected.entry(reason.to_owned()).or_default() += REPEATS;
    }
    let counted = || -> BTreeMap<String, u64> {
        let now = drops(product).into_iter();
        let new = now.map(|(what, count)| {
            let old = before.get(&what).copied().unwrap_or(0);
            (what, count - old)
        });
        new.filter(|(_, count)| *count > 0).collect()
    };
    // The gateway says it every five seconds.
    let _in_vain = wait_until("the gateway's counts", SOON, || {
        counted().values().sum::<u64>() >= expected.values().sum()
    });
    assert_eq!(counted(), expected);
    assert_eq!(arrived(product), 0, "none of them came through");
    forger.namespace.run(&curl).expect("its own access stays");
    assert!(arrived(product) > 0, "what comes through is seen");
}
