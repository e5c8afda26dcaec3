//! A gateway whose key somebody else has: plain WireGuard, and the whole kernel behind it.

use crate::gateway::{BEHIND, Gateway};
use crate::portal::{CLIENT, FakePortal};
use crate::scene::{Running, Scene};
use crate::tunnel::{begin, request};
use culvert_client::status::Status;
use culvert_lab::{Family, Namespace};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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

#[test]
fn a_neighbour_reaches_the_tunnels_address_by_no_other_interface() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, gateway, mut stream) = connected(scene, &portal).await;
        let listener = TcpListener::bind("0.0.0.0:2222").await.unwrap();
        let own = CLIENT.ipv4;
        // The neighbour leads the tunnel's address to the client by the network between them.
        let outer: IpAddr = scene.link.subnet.host(Family::V4, 1);
        let neighbour = Namespace::clone(&scene.gateway);
        let reaches = async |address: Ipv4Addr| opens(&neighbour, (address, 2222).into()).await;
        let IpAddr::V4(outer) = outer else {
            panic!("{outer}")
        };
        assert!(reaches(outer).await, "the listener is there");
        neighbour
            .run(&format!("ip route replace {own}/32 via {outer}"))
            .unwrap();
        let guarded = async {
            loop {
                let table = scene.printed("nft list tables").await;
                if table.contains("culvert_addresses_culvert0") {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(crate::portal::DEADLINE, guarded)
            .await
            .unwrap();
        assert!(
            !reaches(own).await,
            "the tunnel's address is reached from outside"
        );
        neighbour
            .run(&format!("ip route replace {own}/32 dev gw1"))
            .unwrap();
        is_echoed(&mut stream, b"the tunnel goes on").await;
        let listing = scene
            .printed("nft list table inet culvert_addresses_culvert0")
            .await;
        assert!(
            listing.contains("ip daddr 100.64.0.9 counter packets"),
            "{listing}"
        );
        assert!(
            !listing.contains("ip daddr 100.64.0.9 counter packets 0"),
            "{listing}"
        );
        drop(listener);
        client.stop().await;
        let tables = scene.printed("nft list tables").await;
        assert!(!tables.contains("culvert"), "{tables}");
        gateway.kill();
    });
}
