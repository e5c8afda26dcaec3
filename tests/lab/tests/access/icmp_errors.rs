//! ICMP errors of routers and hosts behind a gateway, which programs at the client need; and those that
//! the gateway writes itself.

use crate::common::{Bed, ECHO_PORT, OTHER_PORT, SOON, WEB_PORT, access};
use crate::kept_grants::kept_secret;
use culvert_lab::product::{PRIVATE_OTHER_V4, PRIVATE_V4, PRIVATE_V6, Product, Server};
use culvert_lab::{
    Family, Implementation, KeyPair, Link, LinkShape, Namespace, Subnet, Transfer, WireGuardEnd,
    wait_until,
};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sendto, socket};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The network behind the router behind the gateway.
const FAR_NET: Subnet = Subnet(40);
/// The network between gateway and router.
const ROUTER_NET: Subnet = Subnet(30);
/// The host of [`FAR_NET`] that is not there.
const OFF: u8 = 77;

/// The narrowest link that the test has, below the tunnel's 1420.
const NARROW_MTU: u32 = 1300;

/// The time that a router needs to find out that a host is off (three questions, a second each), and the
/// client to hear of it. TCP alone takes more than a minute.
const OFF_LIMIT: Duration = Duration::from_secs(8);

/// "Fails at once": the round trip through the tunnel, on a machine where others compile.
const AT_ONCE: Duration = Duration::from_secs(3);

/// The usual access, and all of the far network; the router is in no resource.
fn far_access() -> String {
    let mut toml = access();
    let ranges = [Family::V4, Family::V6].map(|family| FAR_NET.network(family));
    for (number, range) in ranges.iter().enumerate() {
        toml += &resource(&format!("far {number}"), "cidr", range, "any");
    }
    toml
}

/// A resource of one filter that the client may use.
fn resource(name: &str, kind: &str, address: &str, filter: &str) -> String {
    let (protocol, port) = filter.split_once(':').unwrap_or((filter, ""));
    let ports = match port {
        "" => String::new(),
        port => format!(", ports = [{port}]"),
    };
    format!(
        "\n[[resource]]\nname = \"{name}\"\nsite = \"lab\"\nkind = \"{kind}\"\naddress = \"{address}\"\n\
         filters = [{{ protocol = \"{protocol}\"{ports} }}]\n\
         \n[[policy]]\nname = \"policy {name}\"\ngroup = \"staff\"\nresource = \"{name}\"\n"
    )
}

/// A product with a network behind a router behind its gateway. The router's link into it is narrow.
fn with_far_network() -> (Bed, Namespace) {
    let product = Product::start(1, &far_access()).unwrap();
    let bed = Bed::around(product).unwrap();
    let router = &bed.product.private;
    let far = Namespace::new().unwrap();
    let link = Link::new(router, &far, FAR_NET, LinkShape::default()).unwrap();
    let interface = &link.interface;
    router
        .run(&format!("ip link set {interface} mtu {NARROW_MTU}"))
        .unwrap();
    for setting in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        router.run(&format!("sysctl -q -w {setting}=1")).unwrap();
    }
    for family in [Family::V4, Family::V6] {
        let (network, via) = (FAR_NET.network(family), ROUTER_NET.host(family, 1));
        let gateway = &bed.product.gateways[0].namespace;
        gateway
            .run(&format!("ip route add {network} via {via}"))
            .unwrap();
        let back = FAR_NET.host(family, 1);
        far.run(&format!("ip route add default via {back}"))
            .unwrap();
    }
    (bed, far)
}

/// Bytes of the client's drops for this reason.
fn drops(bed: &Bed, reason: &str) -> u64 {
    let status = bed.product.client.status().unwrap();
    let drops = status["drops"].as_array().unwrap().clone();
    let found = drops.iter().find(|drop| drop["reason"] == reason);
    found.map_or(0, |drop| drop["count"].as_u64().unwrap())
}

#[test]
fn an_upload_through_a_link_behind_the_gateway_that_is_narrower_than_the_tunnel_ends() {
    let (bed, far) = with_far_network();
    let client = &bed.product.client.namespace;
    for family in [Family::V4, Family::V6] {
        let target = SocketAddr::new(FAR_NET.host(family, 2), 5000);
        Transfer::run(client, &far, target, 3_000_000).unwrap();
    }
    assert_eq!(drops(&bed, "source_not_allowed"), 0);
}

#[test]
fn a_host_behind_the_gateway_that_is_off_is_known_to_be_as_soon_as_its_router_says_so() {
    let (bed, _far) = with_far_network();
    let client = &bed.product.client.namespace;
    for family in [Family::V4, Family::V6] {
        let target = SocketAddr::new(FAR_NET.host(family, OFF), 80);
        let began = Instant::now();
        let error = client
            .inside(|| Ok(std::net::TcpStream::connect_timeout(&target, SOON)))
            .unwrap()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::HostUnreachable, "{error}");
        assert!(began.elapsed() < OFF_LIMIT, "{:?}", began.elapsed());
    }
}

/// The answers of a router behind the gateway to packets that it does not forward. The flag is true if Linux reports
/// the error to a connected UDP socket, as it does for errors that it takes as permanent.
const REJECTIONS: [(&str, &str, bool); 8] = [
    ("ip", "icmp type net-unreachable", false),
    ("ip", "icmp type host-unreachable", false),
    ("ip", "icmp type prot-unreachable", true),
    ("ip", "icmp type port-unreachable", true),
    ("ip", "icmp type net-prohibited", true),
    ("ip", "icmp type admin-prohibited", true),
    ("ip6", "icmpv6 type no-route", false),
    ("ip6", "icmpv6 type admin-prohibited", true),
];

#[test]
fn whatever_a_router_behind_the_gateway_answers_is_heard_at_once_by_tcp_and_udp() {
    let (bed, _far) = with_far_network();
    let client = &bed.product.client.namespace;
    let router = &bed.product.private;
    // Linux tells each destination of few errors a second.
    for limit in ["net.ipv4.icmp_ratelimit", "net.ipv6.icmp.ratelimit"] {
        router.run(&format!("sysctl -qw {limit}=0")).unwrap();
    }
    for (family, rejection, is_told) in REJECTIONS {
        let address = match family {
            "ip" => FAR_NET.host(Family::V4, 2),
            _ => FAR_NET.host(Family::V6, 2),
        };
        wait_until("an answer through the tunnel", SOON, || {
            let ping = format!("ping -n -c 1 -W 1 {address}");
            client.outcome(&ping).unwrap().status.success()
        })
        .unwrap();
        router
            .shell(&format!(
                "nft 'add table inet closed; add chain inet closed on {{ type filter hook forward priority 0; }}; \
                 add rule inet closed on meta l4proto {{ tcp, udp }} th dport 6000 reject with {rejection}'"
            ))
            .unwrap();
        let target = SocketAddr::new(address, 6000);
        let began = Instant::now();
        let error = client
            .inside(|| Ok(std::net::TcpStream::connect_timeout(&target, SOON)))
            .unwrap()
            .unwrap_err();
        assert_ne!(error.kind(), ErrorKind::TimedOut, "{rejection}");
        assert!(
            began.elapsed() < AT_ONCE,
            "{rejection}: {:?}",
            began.elapsed()
        );
        if is_told {
            let began = Instant::now();
            let error = refused_datagram(client, target);
            assert_ne!(error, ErrorKind::WouldBlock, "{rejection}");
            assert!(
                began.elapsed() < AT_ONCE,
                "{rejection}: {:?}",
                began.elapsed()
            );
        }
        router.run("nft delete table inet closed").unwrap();
    }
    assert_eq!(drops(&bed, "source_not_allowed"), 0);
}

#[test]
fn each_router_on_the_way_behind_the_gateway_tells_its_address_when_a_packets_time_is_up() {
    let (bed, _far) = with_far_network();
    let client = &bed.product.client.namespace;
    for family in [Family::V4, Family::V6] {
        let target = FAR_NET.host(family, 2);
        let router = ROUTER_NET.host(family, 1);
        let ping = |ttl| {
            let outcome = client.outcome(&format!("ping -n -c 1 -W 5 -t {ttl} {target}"));
            String::from_utf8_lossy(&outcome.unwrap().stdout).into_owned()
        };
        wait_until("an answer through the tunnel", SOON, || {
            ping(64).contains(" 1 received")
        })
        .unwrap();
        let said = ping(2);
        assert!(said.contains(&format!("From {router} ")), "{said}");
    }
    assert_eq!(drops(&bed, "source_not_allowed"), 0);
}

/// A UDP socket of the client that is connected there, and the first error that it hears of a datagram.
fn refused_datagram(client: &Namespace, to: SocketAddr) -> ErrorKind {
    let from: IpAddr = match to {
        SocketAddr::V4(_) => [0; 4].into(),
        SocketAddr::V6(_) => [0_u16; 8].into(),
    };
    let socket = client.inside(|| Ok(UdpSocket::bind((from, 0))?)).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(SOON)).unwrap();
    socket.send(b"anybody there?").unwrap();
    let mut buffer = [0; 64];
    socket.recv(&mut buffer).unwrap_err().kind()
}

#[test]
fn a_port_that_the_filters_forbid_is_refused_at_once_though_another_one_is_in_use() {
    let v6 = resource("web of IPv6", "address", PRIVATE_V6, "tcp:80");
    let bed = Bed::with_access(1, &(access() + &v6)).unwrap();
    let client = &bed.product.client.namespace;
    for address in [PRIVATE_V4, PRIVATE_V6] {
        bed.comes_to_reach(address, WEB_PORT).unwrap();
        let target = SocketAddr::new(address.parse().unwrap(), OTHER_PORT);
        for _ in 0..2 {
            let began = Instant::now();
            let error = client
                .inside(|| Ok(std::net::TcpStream::connect_timeout(&target, SOON)))
                .unwrap()
                .unwrap_err();
            let refused = [ErrorKind::HostUnreachable, ErrorKind::PermissionDenied];
            assert!(refused.contains(&error.kind()), "{error}");
            assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        }
        let began = Instant::now();
        let datagram = SocketAddr::new(address.parse().unwrap(), ECHO_PORT + 1);
        let error = refused_datagram(client, datagram);
        let refused = [ErrorKind::HostUnreachable, ErrorKind::PermissionDenied];
        assert!(refused.contains(&error), "{error}");
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
        assert!(bed.reaches(address, WEB_PORT), "what is allowed goes on");
    }
}

#[test]
fn a_port_that_is_added_to_an_address_in_use_is_reached_with_the_first_connection() {
    let bed = Bed::new(1).unwrap();
    bed.comes_to_reach(PRIVATE_V4, WEB_PORT).unwrap();
    // The same address by another port, its network, and again; and an address of a network by a port of its own.
    let additions = [
        ("address", PRIVATE_V4, PRIVATE_V4, OTHER_PORT),
        ("address", PRIVATE_V4, PRIVATE_V4, 8_081),
        ("cidr", "10.50.0.8/29", PRIVATE_OTHER_V4, WEB_PORT),
        ("cidr", "10.50.0.8/29", PRIVATE_OTHER_V4, 8_082),
        ("address", PRIVATE_OTHER_V4, PRIVATE_OTHER_V4, 8_083),
        ("cidr", "fd50::/64", PRIVATE_V6, WEB_PORT),
        ("cidr", "fd50::/64", PRIVATE_V6, 8_084),
        ("cidr", "fd50::10/127", PRIVATE_V6, 8_085),
        ("address", PRIVATE_V6, PRIVATE_V6, OTHER_PORT),
    ];
    let mut servers = Vec::new();
    let mut toml = access();
    for (number, (kind, address, host, port)) in additions.into_iter().enumerate() {
        if ![WEB_PORT, OTHER_PORT].contains(&port) {
            let at = host.parse().unwrap();
            servers.push(Server::start(&bed.product.private, at, port).unwrap());
        }
        let name = format!("added {number}");
        toml += &resource(&name, kind, address, &format!("tcp:{port}"));
        bed.product.portal.apply(&toml).unwrap();
        wait_until("the client to know the resource", SOON, || {
            let resources = bed.product.client.status().unwrap()["resources"].clone();
            let resources = resources.as_array().unwrap().clone();
            resources.iter().any(|resource| resource["name"] == name)
        })
        .unwrap();
        assert!(
            bed.reaches(host, port),
            "{kind} {address} {port}: {}",
            bed.product.client.status_text().unwrap()
        );
    }
}

/// The type "destination unreachable" of both families.
const UNREACHABLE: [u8; 2] = [3, 1];

/// The number of times that each packet is sent: a counter that is wrong by one is wrong.
const REPEATS: u64 = 3;

/// A machine with the keys of the gateway, which does not run any more; nor does the portal, so that the client goes on
/// with its grants.
struct Impostor {
    end: WireGuardEnd,
}

impl Impostor {
    fn take_over(product: &mut Product) -> Self {
        let client = product.client.status().unwrap();
        let gateway = &product.gateways[0];
        let secret = || kept_secret(gateway);
        wait_until("the gateway to keep its grants", SOON, || {
            secret().is_some()
        })
        .unwrap();
        let secret = secret().unwrap();
        let cipher = client["gateways"][0]["cipher"].as_str().unwrap();
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let private_key = std::fs::read_to_string(gateway.state_dir().join("private.key"));
        let namespace = gateway.namespace.clone();
        let implementation = Implementation::culvert_with(&format!("--cipher {cipher}"));
        let mut end = WireGuardEnd::start(&implementation, &namespace).unwrap();
        end.keys = KeyPair {
            private_key: private_key.unwrap(),
            public_key: text(&client["gateways"][0]["public_key"]),
        };
        product.portal.kill().unwrap();
        product.gateways[0].kill().unwrap();
        end.configure(51820, &[], 1420).unwrap();
        let own = [text(&client["ipv4"]), text(&client["ipv6"])];
        let key = text(&client["public_key"]);
        end.set_peer(&key, None, &own.join(","), Some(&secret))
            .unwrap();
        for address in own {
            let interface = &end.interface;
            // The routes that a killed gateway leaves behind refuse such packets.
            let family = if address.contains(':') { "-6" } else { "-4" };
            namespace
                .shell(&format!(
                    "ip route replace {address} dev {interface}; \
                     ip {family} rule add pref 1 to {address} lookup main"
                ))
                .unwrap();
        }
        // The host would drop errors without checksums about a connection that it knows.
        let untracked = "nft 'add table inet forge; add chain inet forge out { type filter hook output priority raw; }; \
                         add rule inet forge out notrack'";
        namespace.shell(untracked).unwrap();
        Self { end }
    }

    /// Sends a packet as it is, past the host's own rules about addresses.
    fn send(&self, packet: &[u8]) {
        let to: IpAddr = match packet[0] >> 4 {
            4 => <[u8; 4]>::try_from(&packet[16..20]).unwrap().into(),
            _ => <[u8; 16]>::try_from(&packet[24..40]).unwrap().into(),
        };
        let family = match to {
            IpAddr::V4(_) => AddressFamily::INET,
            IpAddr::V6(_) => AddressFamily::INET6,
        };
        let socket = self
            .end
            .namespace
            .inside(|| Ok(socket(family, SocketType::RAW, Some(ipproto::RAW))?));
        let to = SocketAddr::new(to, 0);
        sendto(socket.unwrap(), packet, SendFlags::empty(), &to).unwrap();
    }
}

/// An IP packet without checksums.
fn packet(from: IpAddr, to: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap();
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut packet = vec![0x45, 0];
            packet.extend((len + 20).to_be_bytes());
            packet.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
            packet.extend([from.octets(), to.octets()].concat());
            [&packet[..], payload].concat()
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut packet = vec![0x60, 0, 0, 0];
            packet.extend(len.to_be_bytes());
            packet.extend([protocol, 64]);
            packet.extend([from.octets(), to.octets()].concat());
            [&packet[..], payload].concat()
        }
        _ => panic!("{from} and {to} are of two families"),
    }
}

/// An ICMP message of a type that quotes a UDP packet.
fn icmp(kind: [u8; 2], router: IpAddr, to: IpAddr, quoted: (IpAddr, IpAddr)) -> Vec<u8> {
    let ports = [0x9c, 0x40, 0, 80, 0, 8, 0, 0];
    let quoted = packet(quoted.0, quoted.1, 17, &ports);
    let (protocol, kind) = match to {
        IpAddr::V4(_) => (1, kind[0]),
        IpAddr::V6(_) => (58, kind[1]),
    };
    let message = [[kind, 0, 0, 0, 0, 0, 0, 0].as_slice(), &quoted].concat();
    packet(router, to, protocol, &message)
}

#[test]
fn errors_that_a_gateway_forges_pass_where_they_are_about_the_clients_own_packets_to_it_alone() {
    let v6 = resource("web of IPv6", "address", PRIVATE_V6, "tcp:80");
    let mut bed = Bed::with_access(1, &(access() + &v6)).unwrap();
    let targets = [PRIVATE_V4, PRIVATE_V6];
    for address in targets {
        bed.comes_to_reach(address, WEB_PORT).unwrap();
    }
    let status = bed.product.client.status().unwrap();
    let own = ["ipv4", "ipv6"].map(|key| status[key].as_str().unwrap().parse::<IpAddr>().unwrap());
    let impostor = Impostor::take_over(&mut bed.product);
    let client = bed.product.client.namespace.clone();
    let watch = "nft 'add table inet watch; add chain inet watch arrived { type filter hook prerouting \
                 priority raw; }; add rule inet watch arrived iifname culvert0 meta l4proto { icmp, icmpv6 } counter'";
    client.shell(watch).unwrap();
    let arrived = || {
        let listed = client.run("nft list chain inet watch arrived").unwrap();
        let mut words = listed
            .split_whitespace()
            .skip_while(|&word| word != "packets");
        words.nth(1).unwrap().parse::<u64>().unwrap()
    };
    let (mut forged, mut good) = (0, 0);
    for (number, own) in own.into_iter().enumerate() {
        let router: IpAddr = ["10.77.0.1", "fd77::1"][number].parse().unwrap();
        let other: IpAddr = ["198.51.100.9", "2001:db8::9"][number].parse().unwrap();
        let neighbour: IpAddr = ["100.64.200.200", "fd00:2021:1111::c8c8"][number]
            .parse()
            .unwrap();
        let web: IpAddr = targets[number].parse().unwrap();
        let error = |kind, quoted| icmp(kind, router, own, quoted);
        let passes = error(UNREACHABLE, (own, web));
        wait_until("an error about an own packet to pass", SOON, || {
            // The packet that the error is about.
            let sent = client.inside(|| {
                let socket = UdpSocket::bind((own, 40_000))?;
                Ok(socket.send_to(b"", (web, 80))?)
            });
            sent.unwrap();
            impostor.send(&passes);
            if arrived() == good {
                // The client shakes hands with whom it has heard nothing of since it sent something.
                let _unanswered = client.outcome(&format!("ping -c 1 -W 1 {PRIVATE_V4}"));
            }
            arrived() > good
        })
        .unwrap();
        good = arrived();
        let before = drops(&bed, "source_not_allowed");
        let forgeries = [
            error(UNREACHABLE, (neighbour, web)),
            error(UNREACHABLE, (own, other)),
            error(UNREACHABLE, (web, own)),
            // A redirect, and an echo.
            error([5, 137], (own, web)),
            error([8, 128], (own, web)),
        ];
        for forgery in &forgeries {
            for _ in 0..REPEATS {
                impostor.send(forgery);
                forged += 1;
            }
        }
        wait_until("the forgeries to be dropped", SOON, || {
            drops(&bed, "source_not_allowed") - before >= REPEATS * forgeries.len() as u64
        })
        .unwrap();
    }
    assert_eq!(arrived(), good, "of {forged} forgeries none arrived");
}
