//! A gateway whose key somebody else has: plain WireGuard, and the whole kernel behind it.

use crate::gateway::{BEHIND, Gateway};
use crate::portal::{CLIENT, FakePortal};
use crate::scene::{Running, Scene};
use crate::tunnel::{begin, request};
use culvert_client::status::Status;
use culvert_lab::{Family, Namespace};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::spawn_blocking;

/// Another address of the range that the gateway has.
const OTHER_ADDRESS: &str = "10.77.0.2";

/// The time for which a connection is tried: two SYNs.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs a command at the gateway, and returns what it says.
async fn at_gateway(gateway: &Namespace, line: String) -> (bool, String) {
    let namespace = gateway.clone();
    let output = spawn_blocking(move || namespace.outcome(&line)).await;
    let output = output.unwrap().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.success(), text)
}

/// True if a connection to the client opens from the gateway's machine within the time that one takes there.
async fn opens(gateway: &Namespace, to: SocketAddr) -> bool {
    let namespace = gateway.clone();
    let opened = spawn_blocking(move || {
        let connect = || Ok(std::net::TcpStream::connect_timeout(&to, SILENCE_TIMEOUT).is_ok());
        namespace.inside(connect)
    });
    opened.await.unwrap().unwrap()
}

/// The number of packets that the client's gate has dropped for a reason.
fn dropped(status: &Status, reason: &str) -> u64 {
    let mut drops = status.drops.iter();
    let found = drops.find(|drop| drop.stage == "gate" && drop.reason == reason);
    found.map_or(0, |drop| drop.count)
}

/// A server behind the gateway that sends back what it hears, and a connection of the client to it.
async fn connect(scene: &Scene) -> TcpStream {
    let listener = scene.gateway.inside(|| {
        let listener = std::net::TcpListener::bind("0.0.0.0:7007")?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let listener = TcpListener::from_std(listener.unwrap()).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.unwrap();
    });
    TcpStream::connect((BEHIND, 7007)).await.unwrap()
}

async fn is_echoed(stream: &mut TcpStream, text: &[u8]) {
    stream.write_all(text).await.unwrap();
    let mut heard = vec![0; text.len()];
    stream.read_exact(&mut heard).await.unwrap();
    assert_eq!(heard, text);
}

/// A client with access to the range of a gateway.
async fn connected(scene: &Scene, portal: &FakePortal) -> (Running, Gateway, TcpStream) {
    let (client, mut session, key) = begin(portal, &[(1, "10.77.0.0/24")]).await;
    let gateway = Gateway::start(&scene.gateway, 1, key);
    let granted = async {
        let (number, asked, _) = request(&mut session).await;
        let grant = gateway.grant(number, asked, 1, scene.candidates(1), &[]);
        session.say(grant).await;
        session
    };
    let (stream, session) = tokio::join!(connect(scene), granted);
    // The session stays open as long as the test.
    Box::leak(Box::new(session));
    (client, gateway, stream)
}

#[test]
fn a_gateway_opens_nothing_at_the_client_while_the_clients_own_connections_go_on() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, gateway, mut stream) = connected(scene, &portal).await;
        is_echoed(&mut stream, b"before").await;
        let listener = TcpListener::bind("0.0.0.0:2222").await.unwrap();
        let datagrams = UdpSocket::bind("0.0.0.0:2223").await.unwrap();
        let own = CLIENT.ipv4;
        scene
            .gateway
            .run(&format!("ip address replace {OTHER_ADDRESS}/32 dev lo"))
            .unwrap();
        for source in [BEHIND, OTHER_ADDRESS] {
            let way = format!("ip route replace {own}/32 dev gw1 src {source}");
            scene.gateway.run(&way).unwrap();
            assert!(!opens(&scene.gateway, (own, 2222).into()).await);
            let ping = format!("ping -c 1 -W 1 -I {source} {own}");
            let (is_answered, said) = at_gateway(&scene.gateway, ping).await;
            assert!(!is_answered, "{said}");
            let from: IpAddr = source.parse().unwrap();
            let sent = scene.gateway.inside(|| {
                let socket = std::net::UdpSocket::bind((from, 0))?;
                Ok(socket.send_to(b"hello", (own, 2223))?)
            });
            assert_eq!(sent.unwrap(), 5);
        }
        let status = client
            .until(|status| {
                dropped(status, "not_opened") >= 4 && dropped(status, "not_a_flow") >= 2
            })
            .await;
        // Nothing else was dropped there.
        let gate = status.drops.iter().filter(|drop| drop.stage == "gate");
        assert_eq!(gate.count(), 2, "{:?}", status.drops);
        is_echoed(&mut stream, b"after").await;
        let flows = status.counters.iter().find(|it| it.name == "flows");
        assert!(
            flows.is_some_and(|flows| flows.count >= 1),
            "{:?}",
            status.counters
        );
        for has_come in [
            listener.into_std().unwrap().accept().is_ok(),
            datagrams.try_recv(&mut [0; 64]).is_ok(),
        ] {
            assert!(!has_come);
        }
        client.stop().await;
        gateway.kill();
    });
}

/// Sends a datagram. True if its sender hears within a moment that it does not get there.
async fn is_refused(to: &str) -> bool {
    let socket = UdpSocket::bind("0.0.0.0:0").await.unwrap();
    socket.connect((to, 9)).await.unwrap();
    socket.send(b"is anybody there?").await.unwrap();
    let heard = tokio::time::timeout(SILENCE_TIMEOUT, socket.recv(&mut [0; 64])).await;
    heard.is_ok_and(|heard| heard.is_err())
}

/// Makes the kernel behind the gateways reject datagrams to these hosts, as a router before them would.
fn reject(scene: &Scene, hosts: [&str; 2]) {
    let run = |line: &str| scene.gateway.run(line).unwrap();
    // Linux tells a host of few errors a second, and of fewer still where a route prohibits the destination.
    run(
        "sysctl -qw net.ipv4.icmp_ratelimit=0 net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 \
         net.ipv4.conf.gw1.rp_filter=0 net.ipv4.conf.gw2.rp_filter=0",
    );
    for host in hosts {
        let interface = &scene.link.interface;
        run(&format!("ip route replace {host}/32 dev {interface}"));
    }
    run("nft add table ip closed");
    run("nft add chain ip closed on { type filter hook forward priority 0 ; }");
    let [first, second] = hosts;
    run(&format!(
        "nft add rule ip closed on ip daddr {{ {first}, {second} }} reject with icmp type admin-prohibited"
    ));
}

#[test]
fn a_gateway_tells_the_client_nothing_of_flows_through_another() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, mut session, key) =
            begin(&portal, &[(1, "10.77.0.0/24"), (2, "10.78.0.0/24")]).await;
        let gateways = [1, 2].map(|number| Gateway::start(&scene.gateway, number, key));
        let [of_first, of_second] = ["10.77.0.66", "10.78.0.66"];
        reject(scene, [of_first, of_second]);
        // The kernel tells of it by the gateway that has the way back, and in the name of this address.
        let tell_through = |number: u8, source: &str| {
            let own = CLIENT.ipv4;
            let way = format!("ip route replace {own}/32 dev gw{number} src {source}");
            scene.gateway.run(&way).unwrap()
        };
        let (own_of_second, nobodys) = ("10.78.0.1", "10.79.0.1");
        for address in [own_of_second, nobodys] {
            let add = format!("ip address replace {address}/32 dev lo");
            scene.gateway.run(&add).unwrap();
        }
        for (number, host, source) in [(1, of_first, BEHIND), (2, of_second, own_of_second)] {
            tell_through(number, source);
            let granted = async {
                let (asked, resource, _) = request(&mut session).await;
                let gateway = &gateways[usize::from(number) - 1];
                let candidates = scene.candidates(number);
                let grant = gateway.grant(asked, resource, number, candidates, &[]);
                session.say(grant).await;
            };
            let (_maybe_too_early, ()) = tokio::join!(is_refused(host), granted);
            assert!(is_refused(host).await, "{host}: by its own gateway");
        }
        let drops = |status: &Status| {
            let [mut of_gate, mut by_source] = [0, 0];
            for drop in &status.drops {
                match (drop.stage.as_str(), drop.reason.as_str()) {
                    ("gate", "other_gateway") => of_gate = drop.count,
                    ("inner", "source_not_allowed") => by_source = drop.count,
                    ("gate" | "inner", _) => panic!("{drop:?}"),
                    _ => {}
                }
            }
            [of_gate, by_source]
        };
        for (source, expected) in [(own_of_second, [1, 0]), (nobodys, [1, 1])] {
            tell_through(2, source);
            assert!(!is_refused(of_first).await, "by the other gateway");
            client.until(|status| drops(status) == expected).await;
        }
        for source in [BEHIND, nobodys] {
            tell_through(1, source);
            assert!(is_refused(of_first).await, "by its own gateway again");
        }
        client.stop().await;
        for gateway in gateways {
            gateway.kill();
        }
    });
}

/// True if the rule for such packets has dropped some.
fn has_dropped(listing: &str, packets: &str) -> bool {
    let counted = listing.split_once(&format!("{packets} counter packets "));
    counted.is_some_and(|(_, count)| !count.starts_with("0 "))
}

#[test]
fn a_neighbour_reaches_the_tunnels_address_by_no_other_interface() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, gateway, mut stream) = connected(scene, &portal).await;
        let listener = TcpListener::bind("[::]:2222").await.unwrap();
        let neighbour = Namespace::clone(&scene.gateway);
        let outer = |family| scene.link.subnet.host(family, 1);
        let [outer_v4, outer_v6] = [Family::V4, Family::V6].map(outer);
        let reaches = async |address: IpAddr, port| opens(&neighbour, (address, port).into()).await;
        for outer in [outer_v4, outer_v6] {
            assert!(reaches(outer, 2222).await, "the listener is there");
        }
        let guarded = async {
            loop {
                let tables = scene.printed("nft list tables").await;
                let names = ["inet", "arp"].map(|it| format!("{it} culvert_addresses_culvert0"));
                let answers = TcpStream::connect((CLIENT.ipv4, 53)).await.is_ok();
                if answers && names.iter().all(|name| tables.contains(name)) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(crate::portal::DEADLINE, guarded)
            .await
            .unwrap();
        // The neighbour sends by the network between them: as itself, and in the name of the resource, so that an answer would
        // go into the tunnel. It also sends to the client's resolver, and asks for the hardware address.
        let interface = &scene.link.interface;
        let (own, own_v6) = (IpAddr::from(CLIENT.ipv4), IpAddr::from(CLIENT.ipv6));
        for (own, way, port) in [
            (own, format!("via {outer_v4}"), 2222),
            (own, format!("via {outer_v4} src {BEHIND}"), 2222),
            (own, format!("via {outer_v4}"), 53),
            (own, format!("dev {interface}"), 2222),
            (own_v6, format!("via {outer_v6}"), 2222),
            (own_v6, format!("dev {interface}"), 2222),
        ] {
            let route = format!("ip route replace {own} {way}");
            neighbour.run(&route).unwrap();
            assert!(!reaches(own, port).await, "{route}, port {port}");
        }
        let neighbours = neighbour.run("ip neigh show").unwrap();
        for own in [own, own_v6] {
            let found = format!("{own} dev {interface} lladdr");
            assert!(!neighbours.contains(&found), "{neighbours}");
        }
        neighbour
            .run(&format!("ip route replace {own} dev gw1"))
            .unwrap();
        is_echoed(&mut stream, b"the tunnel goes on").await;
        let listing = scene.printed("nft list ruleset").await;
        for packets in [
            format!("ip daddr {own}"),
            format!("ip6 daddr {own_v6}"),
            format!("arp operation request arp daddr ip {own}"),
        ] {
            assert!(has_dropped(&listing, &packets), "{packets}: {listing}");
        }
        drop(listener);
        client.stop().await;
        let tables = scene.printed("nft list tables").await;
        assert!(!tables.contains("culvert"), "{tables}");
        gateway.kill();
    });
}
