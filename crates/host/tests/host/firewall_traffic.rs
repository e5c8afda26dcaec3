//! The kernel's treatment of packets under the gateway's firewall.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use culvert_host::{
    Firewall, GatewayRules, HostAccess, SourceAddress, TableState, forward_conflicts,
};
use culvert_lab::{Link, LinkShape, Namespace, Process, Subnet, wait_until};

use crate::support::{inside, namespace, nft, run};

#[test]
fn masquerading_needs_no_route_back_and_keeping_the_source_does() {
    let network = Network::new();
    network.install(SourceAddress::Masquerade, HostAccess::Deny);
    assert!(network.client_reaches(SERVER_V4) && network.client_reaches(SERVER_V6));
    network.install(SourceAddress::Keep, HostAccess::Deny);
    assert!(network.client_is_cut_off(SERVER_V4) && network.client_is_cut_off(SERVER_V6));
    network.add_route_back();
    assert!(network.client_reaches(SERVER_V4) && network.client_reaches(SERVER_V6));
}

#[test]
fn counting_packets_is_no_change_of_the_table() {
    let network = Network::new();
    let firewall = network.install(SourceAddress::Masquerade, HostAccess::Deny);
    assert!(
        network.client_is_cut_off(GATEWAY_OUTSIDE_V4),
        "a counter counts this"
    );
    let state = inside(&network.gateway, async || Ok(firewall.check().await?));
    assert_eq!(state, TableState::Intact);
}

#[test]
fn nobody_behind_the_gateway_reaches_a_client_first() {
    let network = Network::new();
    network.add_route_back();
    for client in [CLIENT_V4, CLIENT_V6] {
        assert!(
            reaches(&network.server, client),
            "without the firewall it does"
        );
    }
    network.install(SourceAddress::Keep, HostAccess::Deny);
    for client in [CLIENT_V4, CLIENT_V6] {
        assert!(cut_off(&network.server, client), "{client}");
    }
    assert!(network.client_reaches(SERVER_V4), "answers are let through");
}

#[test]
fn of_the_gateway_itself_a_client_reaches_no_more_than_a_ping_of_its_tunnel_address() {
    let network = Network::new();
    network.install(SourceAddress::Masquerade, HostAccess::Deny);
    for own in [GATEWAY_INSIDE_V4, GATEWAY_INSIDE_V6] {
        assert!(network.client_reaches(own), "{own}");
        assert!(!network.client_connects(own, NOTHING_COMES), "{own}");
    }
    for outside in [GATEWAY_OUTSIDE_V4, GATEWAY_OUTSIDE_V6] {
        assert!(network.client_is_cut_off(outside), "{outside}");
        assert!(
            !network.client_connects(outside, NOTHING_COMES),
            "{outside}"
        );
    }
}

#[test]
fn a_gateway_whose_host_is_a_resource_lets_clients_reach_it() {
    let network = Network::new();
    network.install(SourceAddress::Masquerade, HostAccess::Allow);
    for outside in [GATEWAY_OUTSIDE_V4, GATEWAY_OUTSIDE_V6] {
        assert!(network.client_reaches(outside), "{outside}");
        assert!(network.client_connects(outside, DEADLINE), "{outside}");
    }
}

/// As containers publish ports: the kernel forwards packets for an address of the host.
#[test]
fn a_port_that_the_gateway_publishes_for_others_is_closed_to_clients_as_the_gateway_is() {
    let network = Network::new();
    let _published = listener(&network.server);
    inside(&network.gateway, async || {
        nft("add table ip published")?;
        nft("add chain ip published prerouting { type nat hook prerouting priority dstnat ; }")?;
        nft(&format!(
            "add rule ip published prerouting ip daddr {GATEWAY_OUTSIDE_V4} tcp dport {PORT} dnat to \
             {SERVER_V4}"
        ))
    });
    let allowing = network.install(SourceAddress::Masquerade, HostAccess::Allow);
    assert!(network.client_connects(GATEWAY_OUTSIDE_V4, DEADLINE));
    drop(allowing);
    network.install(SourceAddress::Masquerade, HostAccess::Deny);
    assert!(!network.client_connects(GATEWAY_OUTSIDE_V4, NOTHING_COMES));
    assert!(network.client_connects(SERVER_V4, DEADLINE));
}

#[test]
fn the_tunnel_address_is_deaf_to_the_network_behind_the_gateway() {
    let network = Network::new();
    network.add_route_back();
    assert!(
        reaches(&network.server, GATEWAY_INSIDE_V4),
        "without the firewall it is not"
    );
    network.install(SourceAddress::Masquerade, HostAccess::Deny);
    assert!(cut_off(&network.server, GATEWAY_INSIDE_V4));
    assert!(cut_off(&network.server, GATEWAY_INSIDE_V6));
    assert!(reaches(&network.server, GATEWAY_OUTSIDE_V4));
}

#[test]
fn a_source_outside_the_client_ranges_is_dropped() {
    let network = Network::new();
    run(&network.client, "ip address add 10.9.9.9/32 dev veth1");
    run(&network.gateway, "ip route add 10.9.9.9/32 dev veth1");
    let forged = |network: &Network, wait: &str| {
        succeeds(
            &network.client,
            &format!("ping -c 1 {wait} -I 10.9.9.9 {SERVER_V4}"),
        )
    };
    network.add_route_back();
    run(&network.server, "ip route add 10.9.9.9/32 via 10.200.2.1");
    assert!(forged(&network, "-w 10"), "without the firewall it passes");
    network.install(SourceAddress::Keep, HostAccess::Deny);
    assert!(!forged(&network, "-W 1"));
}

/// Metadata services of clouds, and ways to write them as IPv6 addresses that a translator or a tunnel of
/// the network would undo.
const METADATA_SERVICES: [&str; 22] = [
    "169.254.169.254",
    "169.254.0.23",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:c1::a9fe:a9fe",
    "fd00:42::42",
    "fd00:a9fe:a9fe::1",
    "fd00:100::100:200",
    "::ffff:0:a9fe:a9fe",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::6464:64c8",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1:a9fe:a9:fe00::",
    "64:ff9b:1:3:a9:fea9:fe00:0",
    "2002:a9fe:a9fe::1",
    "2001:0:a9fe:a9fe::1",
    "2001:0:102:304::5601:5601",
    "fd00:7::200:5efe:a9fe:a9fe",
];

#[test]
fn no_spelling_of_a_metadata_service_is_reached_from_the_tunnel() {
    let network = Network::new();
    network.add_route_back();
    // Others of the same shapes are resources like any other.
    let others = [
        "100.100.100.201",
        "fd20:ce::253",
        "64:ff9b::a00:1",
        "64:ff9b:1::a00:1",
        "2002:a00:1::1",
        "2001:0:102:304::f5ff:fffe",
        "fd00:7::200:5efe:a00:1",
    ];
    for address in METADATA_SERVICES.iter().chain(&others) {
        let of_host = if address.contains(':') { "128" } else { "32" };
        run(
            &network.server,
            &format!("ip address add {address}/{of_host} dev veth2 nodad"),
        );
        run(
            &network.gateway,
            &format!("ip route add {address}/{of_host} dev veth2"),
        );
        assert!(
            network.client_reaches(address),
            "without the firewall {address} is reached"
        );
    }
    network.install(SourceAddress::Masquerade, HostAccess::Deny);
    for address in METADATA_SERVICES {
        assert!(network.client_is_cut_off(address), "{address}");
    }
    for address in others {
        assert!(network.client_reaches(address), "{address}");
    }
}

#[test]
fn clients_do_not_reach_each_other() {
    let network = Network::new();
    network.add_route_back();
    // Two clients behind the tunnel, whose packets for each other go to the gateway first.
    run(&network.client, "sysctl -q -w net.ipv4.ip_forward=1");
    run(
        &network.client,
        "ip route add default via 10.200.1.2 table 77",
    );
    let [(one, _one_link), (_other, _other_link)] =
        [(3, "10.200.1.3"), (4, "10.200.1.4")].map(|(number, address)| {
            let host = namespace();
            let link = Link::new(&network.client, &host, Subnet(number), LinkShape::default())
                .expect("a link is made");
            run(&host, &format!("ip address add {address}/32 dev lo"));
            run(
                &host,
                &format!("ip route add default via 10.200.{number}.1 src {address}"),
            );
            run(
                &network.client,
                &format!("ip route add {address}/32 via 10.200.{number}.2"),
            );
            run(
                &network.client,
                &format!("ip rule add iif veth{number} lookup 77 pref 100"),
            );
            run(
                &network.gateway,
                &format!("ip route add {address}/32 via 10.200.1.1"),
            );
            (host, link)
        });
    assert!(reaches(&one, "10.200.1.4"), "without the firewall they do");
    network.install(SourceAddress::Masquerade, HostAccess::Deny);
    assert!(cut_off(&one, "10.200.1.4"));
}

#[test]
fn a_server_learns_what_fits_through_the_tunnel() {
    let network = Network::new();
    network.install(SourceAddress::Masquerade, HostAccess::Deny);
    // The client does not know that the tunnel carries less than its own link.
    run(&network.gateway, "ip link set veth1 mtu 1300");
    let _listener = listener(&network.server);
    let connection = network
        .client
        .inside(|| Ok(TcpStream::connect((SERVER_V4, PORT))?));
    let _connection = connection.expect("the server listens");
    // 1300 less the headers of IPv4 and TCP, and less its time stamps.
    let sockets = run(&network.client, &format!("ss -Htin dst {SERVER_V4}"));
    assert!(sockets.contains(" mss:1248 "), "{sockets}");
}

#[test]
fn a_chain_of_others_that_drops_is_reported_with_a_fix_that_works() {
    let network = Network::new();
    network.install(SourceAddress::Masquerade, HostAccess::Deny);
    let fix = inside(&network.gateway, async || {
        let tunnel = "veth1".parse()?;
        assert_eq!(forward_conflicts(&tunnel).await?, []);
        nft("add table inet site")?;
        nft("add chain inet site routed { type filter hook forward priority 0 ; policy drop ; }")?;
        let conflicts = forward_conflicts(&tunnel).await?;
        assert_eq!(conflicts.len(), 1, "{conflicts:?}");
        assert_eq!(
            (&*conflicts[0].table, &*conflicts[0].chain),
            ("site", "routed")
        );
        Ok(conflicts[0].fix.clone())
    });
    assert!(network.client_is_cut_off(SERVER_V4));
    network.gateway.shell(&fix).expect("the fix runs");
    assert!(network.client_reaches(SERVER_V4));
}

/// Long enough for a program to start on a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
/// As long as one may wait for what does not come.
const NOTHING_COMES: Duration = Duration::from_millis(500);
const PORT: u16 = 5201;

const CLIENT_V4: &str = "10.200.1.1";
const CLIENT_V6: &str = "fd00:200:1::1";
const GATEWAY_INSIDE_V4: &str = "10.200.1.2";
const GATEWAY_INSIDE_V6: &str = "fd00:200:1::2";
const GATEWAY_OUTSIDE_V4: &str = "10.200.2.1";
const GATEWAY_OUTSIDE_V6: &str = "fd00:200:2::1";
const SERVER_V4: &str = "10.200.2.2";
const SERVER_V6: &str = "fd00:200:2::2";

/// A client, a gateway and a server in a row, with a link in the place of the tunnel: to the firewall
/// every interface is alike. The gateway forwards; the server knows no way to the client.
struct Network {
    client: Namespace,
    gateway: Namespace,
    server: Namespace,
    _links: [Link; 2],
    _listener: Process,
}

impl Network {
    fn new() -> Self {
        let (client, gateway, server) = (namespace(), namespace(), namespace());
        let link = |left, right, number| {
            Link::new(left, right, Subnet(number), LinkShape::default()).expect("a link is made")
        };
        let links = [link(&client, &gateway, 1), link(&gateway, &server, 2)];
        run(
            &client,
            &format!("ip route add default via {GATEWAY_INSIDE_V4}"),
        );
        run(
            &client,
            &format!("ip -6 route add default via {GATEWAY_INSIDE_V6}"),
        );
        for name in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
            run(&gateway, &format!("sysctl -q -w {name}=1"));
        }
        // A tunnel knows no neighbours to ask for; this link does, and the firewall lets nobody ask.
        for (at, of, address) in [
            (&client, &gateway, GATEWAY_INSIDE_V6),
            (&gateway, &client, CLIENT_V6),
        ] {
            let script = "cat /sys/class/net/veth1/address";
            let mac = of.shell(script).expect("the command succeeds");
            let mac = mac.trim();
            run(
                at,
                &format!("ip neighbour replace {address} lladdr {mac} dev veth1 nud permanent"),
            );
        }
        let listener = listener(&gateway);
        Self {
            client,
            gateway,
            server,
            _links: links,
            _listener: listener,
        }
    }

    /// Installs the firewall on the gateway, its inner link being the tunnel.
    fn install(&self, source: SourceAddress, host_access: HostAccess) -> Firewall {
        inside(&self.gateway, async || {
            Ok(Firewall::install(GatewayRules {
                interface: "veth1".parse()?,
                addresses: vec![GATEWAY_INSIDE_V4.parse()?, GATEWAY_INSIDE_V6.parse()?],
                client_ranges: vec!["10.200.1.0/24".parse()?, "fd00:200:1::/64".parse()?],
                source,
                dns_port: 20_053,
                inbound: Vec::new(),
                plain_dns_port: 53,
                host_access,
            })
            .await?)
        })
    }

    fn add_route_back(&self) {
        run(
            &self.server,
            &format!("ip route add default via {GATEWAY_OUTSIDE_V4}"),
        );
        run(
            &self.server,
            &format!("ip -6 route add default via {GATEWAY_OUTSIDE_V6}"),
        );
    }

    fn client_reaches(&self, address: &str) -> bool {
        reaches(&self.client, address)
    }

    fn client_is_cut_off(&self, address: &str) -> bool {
        cut_off(&self.client, address)
    }

    /// True if a TCP connection to the gateway's listener is made within `timeout`.
    fn client_connects(&self, address: &str, timeout: Duration) -> bool {
        let address = SocketAddr::new(address.parse().expect("an address"), PORT);
        let connected = self
            .client
            .inside(|| Ok(TcpStream::connect_timeout(&address, timeout).is_ok()));
        connected.expect("the namespace can be entered")
    }
}

/// A program that listens for TCP connections on [`PORT`].
fn listener(namespace: &Namespace) -> Process {
    let process = namespace
        .spawn(&format!("iperf3 --server --port {PORT}"))
        .expect("it starts");
    wait_until("the listener", DEADLINE, || {
        run(namespace, &format!("ss -Hltn sport = :{PORT}")).contains("LISTEN")
    })
    .expect("it listens");
    process
}

/// True if a ping is answered; an answer comes at once, so waiting long costs nothing.
fn reaches(from: &Namespace, address: &str) -> bool {
    // With a deadline it asks once a second until the first answer: a busy kernel may not know a new neighbour at once.
    succeeds(from, &format!("ping -c 1 -w 10 {address}"))
}

/// True if a ping is not answered, for as long as one may wait for nothing.
fn cut_off(from: &Namespace, address: &str) -> bool {
    !succeeds(from, &format!("ping -c 1 -W 0.5 {address}"))
}

fn succeeds(namespace: &Namespace, line: &str) -> bool {
    let output = namespace.outcome(line).expect("the command starts");
    output.status.success()
}
