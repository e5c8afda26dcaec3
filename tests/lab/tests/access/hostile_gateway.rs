//! A gateway that was taken over sends what it likes, and nothing of it comes to the client's host.

use crate::common::{Bed, ECHO_PORT, SOON, WEB_PORT, access, further_access};
use crate::hostile_kinds::{Ends, Kind, kinds, of_other_gateway};
use crate::hostile_peer::HostilePeer;
use anyhow::{Context, Result};
use culvert_lab::product::{Client, PRIVATE_OTHER_V4, PRIVATE_V4, PRIVATE_V6, Product};
use culvert_lab::wait_until;
use etherparse::{PacketBuilder, TcpHeader};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

/// The number of times that each packet is sent: a counter that is off by one is noticed.
const REPEATS: u64 = 3;

/// "a hostile gateway's 40 kinds of packet are each dropped with their reason"
const LEAST_KINDS: usize = 40;

/// The sequence number with which the hostile gateway begins the one connection that it answers.
const SEQUENCE: u32 = 1_000;

/// The packets inside of records that the client has dropped, by stage and reason. Its handshakes go on meanwhile, and one
/// that is answered twice drops the second answer.
fn drops(client: &Client) -> BTreeMap<String, u64> {
    let status = client.status().unwrap();
    let drops = status["drops"].as_array().unwrap();
    let word = |it: &serde_json::Value| it.as_str().unwrap().to_owned();
    let named = |it: &serde_json::Value| format!("{} {}", word(&it["stage"]), word(&it["reason"]));
    let of_records = drops.iter().filter(|it| it["stage"] != "handshake");
    let counts = of_records.map(|it| (named(it), it["count"].as_u64().unwrap()));
    counts.collect()
}

/// The packets that came out of the tunnel's interface into the client's host, or were broken when they did.
fn came_in(client: &Client) -> u64 {
    let folder = "/sys/class/net/culvert0/statistics";
    let files = format!("cat {folder}/rx_packets {folder}/rx_errors {folder}/rx_dropped");
    let counts = client.namespace.shell(&files).unwrap();
    counts.lines().map(|it| it.parse::<u64>().unwrap()).sum()
}

/// The aims of an attacker: servers of the client's host, at all of its addresses.
struct Listeners {
    tcp: TcpListener,
    udp: UdpSocket,
}

impl Listeners {
    fn start(client: &Client) -> Result<Self> {
        let any = ("::", 0);
        let (tcp, udp) = client
            .namespace
            .inside(|| Ok((TcpListener::bind(any)?, UdpSocket::bind(any)?)))?;
        tcp.set_nonblocking(true)?;
        udp.set_nonblocking(true)?;
        Ok(Self { tcp, udp })
    }

    /// The number of connections and datagrams since the last call.
    fn heard(&self) -> usize {
        let is_silent = |error: &std::io::Error| error.kind() == ErrorKind::WouldBlock;
        let connections = std::iter::from_fn(|| match self.tcp.accept() {
            Err(error) if is_silent(&error) => None,
            _ => Some(()),
        });
        let datagrams = std::iter::from_fn(|| match self.udp.recv(&mut [0; 100]) {
            Err(error) if is_silent(&error) => None,
            _ => Some(()),
        });
        connections.count() + datagrams.count()
    }
}

/// Flows that the client's host has begun itself, and that the hostile gateway answers.
struct OwnFlows {
    connection: TcpStream,
    datagrams: UdpSocket,
    /// The gateway's packets of both, which do come in.
    answers: [Vec<u8>; 2],
}

/// A segment of the web server to a port of the client.
fn segment(own: Ipv4Addr, to: u16, head: TcpHeader, payload: &[u8]) -> Vec<u8> {
    let web: Ipv4Addr = PRIVATE_V4.parse().unwrap();
    let header = TcpHeader {
        source_port: WEB_PORT,
        destination_port: to,
        window_size: 4_096,
        ack: true,
        ..head
    };
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(web.octets(), own.octets(), 64).tcp_header(header);
    builder.write(&mut packet, payload).unwrap();
    packet
}

impl OwnFlows {
    fn begin(client: &Client, own: Ipv4Addr, peer: &mut HostilePeer) -> Result<Self> {
        let web: Ipv4Addr = PRIVATE_V4.parse()?;
        let datagrams = client.namespace.inside(|| {
            let socket = UdpSocket::bind((own, 0))?;
            socket.connect((web, ECHO_PORT))?;
            socket.send(b"is anybody there?")?;
            Ok(socket)
        })?;
        datagrams.set_read_timeout(Some(SOON))?;
        let answer = crate::packets::udp(
            (PRIVATE_V4, ECHO_PORT),
            (&own.to_string(), datagrams.local_addr()?.port()),
        );
        let (connection, data) = std::thread::scope(|scope| {
            let to = SocketAddr::from((web, WEB_PORT));
            let connect = move || Ok(TcpStream::connect_timeout(&to, SOON)?);
            let connecting = scope.spawn(move || client.namespace.inside(connect));
            let is_syn = |packet: &[u8]| packet.len() >= 40 && packet[9] == 6 && packet[33] == 2;
            let syn = peer.wait_for(is_syn)?;
            let port = u16::from_be_bytes([syn[20], syn[21]]);
            let theirs = u32::from_be_bytes(syn[24..28].try_into()?).wrapping_add(1);
            let head = |sequence_number, syn| TcpHeader {
                sequence_number,
                acknowledgment_number: theirs,
                syn,
                ..TcpHeader::default()
            };
            peer.send(&segment(own, port, head(SEQUENCE, true), b""))?;
            let connected = connecting.join().ok().context("a panic")??;
            let data = segment(own, port, head(SEQUENCE + 1, false), b"here");
            Ok::<_, anyhow::Error>((connected, data))
        })?;
        connection.set_read_timeout(Some(SOON))?;
        Ok(Self {
            connection,
            datagrams,
            answers: [data, answer],
        })
    }

    /// True if the answers of both come in.
    fn are_answered(&mut self, peer: &mut HostilePeer) -> Result<()> {
        for answer in &self.answers {
            peer.send(answer)?;
        }
        let mut said = [0; 4];
        self.connection.read_exact(&mut said)?;
        assert_eq!(&said, b"here");
        self.datagrams.recv(&mut [0; 100])?;
        Ok(())
    }
}

/// The ends of all packets.
fn ends(bed: &Bed, listeners: &Listeners, own: &OwnFlows) -> Ends {
    let client = &bed.product.client;
    let status = client.status().unwrap();
    let field = |name: &str| status[name].as_str().unwrap().to_owned();
    let route = client.namespace.run("ip -4 route show default").unwrap();
    let words: Vec<_> = route.split_whitespace().collect();
    let (router, interface) = (words[2], words[4]);
    let listed = format!("ip -4 -o address show dev {interface}");
    let listed = client.namespace.run(&listed).unwrap();
    let address = listed.split_whitespace().nth(3).unwrap();
    Ends {
        own_v4: field("ipv4"),
        own_v6: field("ipv6"),
        lan: address.split('/').next().unwrap().to_owned(),
        router: router.to_owned(),
        portal: bed.product.portal.address().ip().to_string(),
        web: PRIVATE_V4,
        web_v6: PRIVATE_V6,
        other: PRIVATE_OTHER_V4,
        tcp_port: own.connection.local_addr().unwrap().port(),
        udp_port: own.datagrams.local_addr().unwrap().port(),
        tcp_listener: listeners.tcp.local_addr().unwrap().port(),
        udp_listener: listeners.udp.local_addr().unwrap().port(),
    }
}

/// Sends a kind of packet, and says what else has happened than that each one was dropped with its reason.
fn fault(
    client: &Client,
    listeners: &Listeners,
    peer: &mut HostilePeer,
    kind: &Kind,
) -> Option<String> {
    let (drops_before, came_before) = (drops(client), came_in(client));
    for _ in 0..REPEATS {
        peer.send(&kind.packet).unwrap();
    }
    let new_drops = || {
        let counts = drops(client).into_iter();
        let new = counts.map(|(what, count)| {
            let old = drops_before.get(&what).copied().unwrap_or(0);
            (what, count - old)
        });
        new.filter(|(_, count)| *count > 0)
            .collect::<BTreeMap<_, _>>()
    };
    // Fragments wait for their first one for a while.
    let _in_vain = wait_until("the client's counts", SOON, || {
        let _answer = peer.receive();
        new_drops().values().sum::<u64>() + came_in(client) - came_before >= REPEATS
    });
    let (new_drops, came) = (new_drops(), came_in(client) - came_before);
    let heard = listeners.heard();
    let expected = BTreeMap::from([(kind.reason.to_owned(), REPEATS)]);
    (new_drops != expected || came != 0 || heard != 0).then(|| {
        let (name, reason) = (kind.name, kind.reason);
        format!("{name} ({reason}): {came} came in, {heard} heard, dropped {new_drops:?}")
    })
}

#[test]
fn nothing_that_a_hostile_gateway_sends_reaches_the_clients_host_and_each_kind_has_its_reason() {
    let bed = Bed::with_access(1, &further_access()).unwrap();
    let client = &bed.product.client;
    for address in [PRIVATE_V4, PRIVATE_V6] {
        bed.comes_to_reach(address, WEB_PORT).unwrap();
    }
    let IpAddr::V4(own) = client.address().unwrap() else {
        panic!("the client's first address is of IPv4");
    };
    let listeners = Listeners::start(client).unwrap();
    let mut peer = HostilePeer::take_over(&bed.product, 0, PRIVATE_V4).unwrap();
    let mut flows = OwnFlows::begin(client, own, &mut peer).unwrap();
    let ends = ends(&bed, &listeners, &flows);

    let kinds = kinds(&ends);
    assert!(kinds.len() >= LEAST_KINDS);
    let names: BTreeSet<_> = kinds.iter().map(|it| it.name).collect();
    let packets: BTreeSet<_> = kinds.iter().map(|it| &it.packet).collect();
    let different = [names.len(), packets.len()];
    assert_eq!(different, [kinds.len(); 2], "each is a kind of its own");
    let before_all = came_in(client);
    let faults: Vec<String> = kinds
        .iter()
        .filter_map(|kind| fault(client, &listeners, &mut peer, kind))
        .collect();
    assert!(
        faults.is_empty(),
        "{} of {} kinds:\n{}",
        faults.len(),
        kinds.len(),
        faults.join("\n")
    );
    assert_eq!(came_in(client), before_all);
    flows.are_answered(&mut peer).unwrap();
    assert!(came_in(client) > before_all, "what comes in is counted");
}

/// The site of the second gateway, with the second address.
const DEPOT: &str = "depot";

/// A client that reaches each of two addresses through the gateway of a site of its own.
fn with_two_sites() -> Result<Bed> {
    let access = format!(
        r#"{}
[[site]]
name = "{DEPOT}"

[[resource]]
name = "depot web"
site = "{DEPOT}"
kind = "address"
address = "{PRIVATE_OTHER_V4}"
filters = [{{ protocol = "tcp", ports = [{WEB_PORT}] }}, {{ protocol = "udp", ports = [{ECHO_PORT}] }}, {{ protocol = "icmp" }}]

[[policy]]
name = "staff-depot"
group = "staff"
resource = "depot web"
"#,
        access()
    );
    let mut product = Product::networks(2)?;
    product.declare(&access)?;
    for (gateway, site) in product.gateways.iter_mut().zip(["lab", DEPOT]) {
        let token = gateway.token_file();
        product
            .portal
            .token(&format!("gateway --site {site}"), &token)?;
        gateway.start()?;
    }
    let token = product.client.token_file();
    product.portal.token("client --actor laptop", &token)?;
    product.client.start()?;
    Bed::around(product)
}

/// A socket of the client that has sent a datagram there.
fn asks(client: &Client, address: &str) -> Result<UdpSocket> {
    let to: IpAddr = address.parse()?;
    let socket = client.namespace.inside(|| {
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        socket.connect((to, ECHO_PORT))?;
        socket.send(b"is anybody there?")?;
        Ok(socket)
    })?;
    socket.set_read_timeout(Some(SOON))?;
    Ok(socket)
}

#[test]
fn nothing_that_a_hostile_gateway_says_of_flows_through_another_sites_gateway_comes_in() {
    let bed = with_two_sites().unwrap();
    let client = &bed.product.client;
    for address in [PRIVATE_V4, PRIVATE_OTHER_V4] {
        bed.comes_to_reach(address, WEB_PORT).unwrap();
    }
    let own = client.address().unwrap().to_string();
    let listeners = Listeners::start(client).unwrap();
    let mut peer = HostilePeer::take_over(&bed.product, 1, PRIVATE_OTHER_V4).unwrap();
    let [through_other, through_it] = [PRIVATE_V4, PRIVATE_OTHER_V4].map(|address| {
        let socket = asks(client, address).unwrap();
        let port = socket.local_addr().unwrap().port();
        (socket, port)
    });
    through_other.0.recv(&mut [0; 100]).unwrap();

    let about = [
        (PRIVATE_V4, through_other.1),
        (PRIVATE_OTHER_V4, through_it.1),
    ];
    let [foreign, its_own] = about.map(|(server, port)| {
        of_other_gateway((own.as_str(), port), (server, ECHO_PORT), PRIVATE_OTHER_V4)
    });
    let faults: Vec<String> = foreign
        .iter()
        .filter_map(|kind| fault(client, &listeners, &mut peer, kind))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // The connection goes on: an error that came in would be the result of the next call.
    through_other.0.send(b"are you still there?").unwrap();
    through_other.0.recv(&mut [0; 100]).unwrap();
    // The same of flows through this gateway come in.
    let before = came_in(client);
    for kind in &its_own {
        peer.send(&kind.packet).unwrap();
    }
    let refused = through_it.0.recv(&mut [0; 100]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    wait_until("all of them to come in", SOON, || {
        came_in(client) >= before + its_own.len() as u64
    })
    .unwrap();
}
