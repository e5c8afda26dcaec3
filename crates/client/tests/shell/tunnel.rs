//! Packets and names through a real tunnel.

use crate::gateway::{BEHIND, Gateway, gateway_id};
use crate::portal::{CLIENT, FakePortal, Session, resource};
use crate::scene::{Running, Scene};
use culvert_client::Upstream;
use culvert_client::status::AccessState;
use culvert_ids::{GrantId, ResourceId};
use culvert_lab::Family;
use culvert_wire::PublicKey;
use culvert_wire::messages::{FromClient, Reason, ReasonCode, ToClient, WantedName};
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};

/// A client of this portal that is ready, its session, and its key.
pub(crate) async fn begin(
    portal: &FakePortal,
    resources: &[(u8, &str)],
) -> (Running, Session, PublicKey) {
    let mut client = Running::start(portal, |_| {});
    let (mut session, hello) = portal.accept(1).await;
    let FromClient::Hello {
        public_key,
        name,
        os,
        ..
    } = hello
    else {
        panic!("{hello:?}");
    };
    assert_eq!(name, "laptop");
    assert_eq!(os.map(|os| os.family).as_deref(), Some("linux"));
    let resources = resources
        .iter()
        .map(|(number, text)| resource(*number, text));
    session.welcome(resources.collect(), Vec::new()).await;
    client.ready().await;
    (client, session, public_key)
}

pub(crate) async fn request(session: &mut Session) -> (u64, ResourceId, Vec<WantedName>) {
    loop {
        if let FromClient::RequestAccess {
            request,
            resource,
            names,
            ..
        } = session.hear().await
        {
            return (request, resource, names);
        }
    }
}

/// Denies the next access that is asked for.
pub(crate) async fn deny(session: &mut Session) {
    let (request, resource, _) = request(session).await;
    let reason = Reason {
        code: ReasonCode::NoAccess,
        text: "no policy allows it".to_owned(),
    };
    session
        .say(ToClient::AccessDenied {
            request,
            resource,
            reason,
        })
        .await;
}

fn query(name: &str) -> Vec<u8> {
    let mut bytes = vec![0x12, 0x34, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.') {
        bytes.push(u8::try_from(label.len()).unwrap());
        bytes.extend(label.as_bytes());
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

#[test]
fn the_first_packet_asks_for_access_and_arrives() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, mut session, key) = begin(&portal, &[(1, "10.77.0.0/24")]).await;
        let gateway = Gateway::start(&scene.gateway, 1, key);
        let ping = format!("ping -c 1 -W 10 {BEHIND}");
        let granted = async {
            let (number, asked, _) = request(&mut session).await;
            let grant = gateway.grant(number, asked, 1, scene.candidates(1), &[]);
            session.say(grant).await;
        };
        let (answered, ()) = tokio::join!(scene.command(&ping), granted);
        assert!(answered.status.success(), "{answered:?}");
        let mut status = client.until(|_| true).await;
        assert!(status.gateways[0].handshake_age_ms.is_some(), "{status:?}");
        // A status is of this moment, not of the last report of the data plane.
        for _ in 0..5 {
            let before = status.gateways[0].rx_bytes;
            assert!(scene.command(&ping).await.status.success());
            status = client.until(|_| true).await;
            assert!(status.gateways[0].rx_bytes > before, "{status:?}");
        }
        assert_eq!(status.resources[0].state, AccessState::Granted);
        assert_eq!(
            status.gateways[0].endpoint,
            scene.candidates(1).get(1).copied()
        );
        // Taken back, the next packet hears so at once.
        session
            .say(ToClient::AccessRevoked {
                grant: GrantId::from_bytes([1; 16]),
                reason: Reason {
                    code: ReasonCode::PolicyChanged,
                    text: "a policy was removed".to_owned(),
                },
            })
            .await;
        client.until(|status| status.gateways.is_empty()).await;
        let refused = scene.printed(&format!("ping -c 1 -W 10 {BEHIND}")).await;
        assert!(refused.contains("Packet filtered"), "{refused}");
        client.stop().await;
        let left = scene.printed("ip rule").await + &scene.printed("ip link").await;
        assert!(
            !left.contains("17238") && !left.contains("culvert0"),
            "{left}"
        );
    });
}

#[test]
fn a_denied_connection_fails_at_once() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, mut session, _) = begin(&portal, &[(1, "10.77.0.0/24")]).await;
        let connect = TcpStream::connect((BEHIND, 80));
        let denied = deny(&mut session);
        let (connected, ()) = tokio::join!(connect, denied);
        let error = connected.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::HostUnreachable, "{error}");
        let status = client
            .until(|status| status.resources[0].state == AccessState::Denied)
            .await;
        let why = status.resources[0].why.as_ref().unwrap();
        assert_eq!(why.text, "no policy allows it");
        let routes = scene.printed(&format!("ip route get {BEHIND}")).await;
        assert!(routes.contains("culvert0"), "{routes}");
        client.stop().await;
    });
}

#[test]
fn names_are_answered_over_udp_and_tcp_and_lead_into_the_tunnel() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, mut session, key) = begin(&portal, &[(1, "*.corp.example")]).await;
        let gateway = Gateway::start(&scene.gateway, 1, key);
        client.until(|status| status.dns.listening.len() == 2).await;
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await.unwrap();
        socket.connect((CLIENT.ipv4, 53)).await.unwrap();
        socket.send(&query("db.corp.example")).await.unwrap();
        let (number, asked, names) = request(&mut session).await;
        assert_eq!(names[0].name, "db.corp.example");
        gateway.stand_for(&names[0]).unwrap();
        session
            .say(gateway.grant(number, asked, 1, scene.candidates(1), &names))
            .await;
        let mut answer = [0; 512];
        let len = socket.recv(&mut answer).await.unwrap();
        assert!(
            answer[..len].ends_with(&names[0].ipv4.octets()),
            "{:?}",
            &answer[..len]
        );
        let mut stream = TcpStream::connect((CLIENT.ipv4, 53)).await.unwrap();
        let asked = query("db.corp.example");
        stream
            .write_u16(u16::try_from(asked.len()).unwrap())
            .await
            .unwrap();
        stream.write_all(&asked).await.unwrap();
        let len = usize::from(stream.read_u16().await.unwrap());
        stream.read_exact(&mut answer[..len]).await.unwrap();
        assert!(answer[..len].ends_with(&names[0].ipv4.octets()));
        let ping = scene
            .command(&format!("ping -c 1 -W 10 {}", names[0].ipv4))
            .await;
        assert!(ping.status.success(), "{ping:?}");
        client.stop().await;
    });
}

#[test]
fn a_portal_that_goes_and_comes_back_costs_no_access() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, mut session, key) = begin(&portal, &[(1, "10.77.0.0/24")]).await;
        let gateway = Gateway::start(&scene.gateway, 1, key);
        let ping = format!("ping -c 1 -W 10 {BEHIND}");
        let granted = async {
            let (number, asked, _) = request(&mut session).await;
            let grant = gateway.grant(number, asked, 1, scene.candidates(1), &[]);
            session.say(grant).await;
        };
        let (first, ()) = tokio::join!(scene.command(&ping), granted);
        assert!(first.status.success(), "{first:?}");
        drop(session);
        client
            .until(|status| status.portal.last_error.is_some())
            .await;
        assert!(scene.command(&ping).await.status.success());
        let (mut session, _) = portal.accept(2).await;
        let resources = vec![resource(1, "10.77.0.0/24")];
        session
            .welcome(resources, vec![GrantId::from_bytes([1; 16])])
            .await;
        client.until(|status| status.portal.sessions == 2).await;
        assert!(scene.command(&ping).await.status.success());
        client.stop().await;
    });
}

#[test]
fn an_interface_that_is_deleted_ends_the_client_and_leaves_resources_unreachable() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, _session, _) = begin(&portal, &[(1, "10.77.0.0/24")]).await;
        scene.client.run("ip link del culvert0").unwrap();
        let ended = client.ended().await;
        assert!(ended.is_err());
        let route = scene.printed(&format!("ip route get {BEHIND}")).await;
        assert!(
            route.contains("unreachable") || route.contains("No route"),
            "{route}"
        );
    });
}

/// The longest time between two answers that `ping -D` printed, and how many there were.
fn longest_gap(printed: &str) -> (Duration, usize) {
    let seconds = printed.lines().filter(|line| line.contains("bytes from"));
    let times: Vec<f64> = seconds
        .filter_map(|line| line.strip_prefix('[')?.split_once(']')?.0.parse().ok())
        .collect();
    let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
    let longest = gaps.fold(0.0, f64::max);
    (Duration::from_secs_f64(longest), times.len())
}

#[test]
fn a_gateway_that_is_killed_is_replaced_within_five_seconds() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, mut session, key) = begin(&portal, &[(1, "10.77.0.0/24")]).await;
        let first = Gateway::start(&scene.gateway, 1, key);
        let ping = format!("ping -D -n -i 0.1 -w 10 {BEHIND}");
        let play = async {
            let (number, asked, _) = request(&mut session).await;
            let grant = first.grant(number, asked, 1, scene.candidates(1), &[]);
            session.say(grant).await;
            client.until_it_hears_much().await;
            first.kill();
            loop {
                let FromClient::RequestAccess {
                    request,
                    resource,
                    avoid,
                    ..
                } = session.hear().await
                else {
                    continue;
                };
                assert_eq!(avoid, [gateway_id(1)]);
                let second = Gateway::start(&scene.gateway, 2, key);
                let grant = second.grant(request, resource, 2, scene.candidates(2), &[]);
                session.say(grant).await;
                return second;
            }
        };
        let (printed, _second) = tokio::join!(scene.printed(&ping), play);
        let (gap, answers) = longest_gap(&printed);
        assert!(
            answers > 30 && gap <= Duration::from_secs(5),
            "{gap:?}, {answers}: {printed}"
        );
        client.stop().await;
    });
}

#[test]
fn a_client_that_changes_its_address_goes_on_within_two_seconds() {
    Scene::new().play(async |scene| {
        let portal = FakePortal::start().await;
        let (client, mut session, key) = begin(&portal, &[(1, "10.77.0.0/24")]).await;
        let gateway = Gateway::start(&scene.gateway, 1, key);
        let ping = format!("ping -D -n -i 0.1 -w 8 {BEHIND}");
        let play = async {
            let (number, asked, _) = request(&mut session).await;
            let grant = gateway.grant(number, asked, 1, scene.candidates(1), &[]);
            session.say(grant).await;
            client.until_it_hears_much().await;
            let (link, old) = (&scene.link, scene.link.subnet.host(Family::V4, 1));
            let new = link.subnet.host(Family::V4, 77);
            for line in [
                format!("ip address del {old}/24 dev {}", link.interface),
                format!("ip address add {new}/24 dev {}", link.interface),
            ] {
                scene.client.run(&line).unwrap();
            }
        };
        let (printed, ()) = tokio::join!(scene.printed(&ping), play);
        let (gap, answers) = longest_gap(&printed);
        assert!(
            answers > 40 && gap <= Duration::from_secs(2),
            "{gap:?}, {answers}: {printed}"
        );
        client.stop().await;
    });
}

#[test]
fn other_names_are_asked_upstream() {
    Scene::new().play(async |_| {
        let portal = FakePortal::start().await;
        let upstream = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = upstream.local_addr().unwrap();
        let mut client = Running::start(&portal, |settings| {
            settings.dns_upstreams = vec![Upstream::in_clear(address)];
            settings.dns_listen = vec![(Ipv4Addr::LOCALHOST, 0).into()];
        });
        let (mut session, _) = portal.accept(1).await;
        session
            .welcome(vec![resource(1, "*.corp.example")], Vec::new())
            .await;
        client.ready().await;
        let status = client.until(|status| status.dns.listening.len() == 3).await;
        let is_local = |listening: &&std::net::SocketAddr| listening.ip().is_loopback();
        let stub = *status.dns.listening.iter().find(is_local).unwrap();
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        socket
            .send_to(&query("www.example.org"), stub)
            .await
            .unwrap();
        let mut buffer = [0; 512];
        let (len, from) = upstream.recv_from(&mut buffer).await.unwrap();
        // An answer without records: the question, marked as answered.
        buffer[2] |= 0x80;
        upstream.send_to(&buffer[..len], from).await.unwrap();
        let len = socket.recv(&mut buffer).await.unwrap();
        assert_eq!(
            (buffer[..2].to_vec(), buffer[2] & 0x80),
            (vec![0x12, 0x34], 0x80)
        );
        assert!(len >= query("www.example.org").len());
        client.stop().await;
    });
}
