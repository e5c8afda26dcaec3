//! Networks that block UDP: relays by TLS instead, also through a proxy, and UDP again once it passes.

use crate::common::SOON;
use culvert_lab::nat::NatKind;
use culvert_lab::product::{BehindNats, CAPTIVE_TCP_PORT, Download, HttpProxy};
use culvert_lab::{Process, peer_program, wait_until};
use std::time::{Duration, Instant};

/// A stream that is not needed any more is closed after 30 s.
const CLOSED: Duration = Duration::from_secs(50);

fn is_by_tls(scene: &BehindNats, at_client: bool) -> bool {
    match at_client {
        true => scene.is_client_by_tls(0, 0),
        false => scene.is_gateway_by_tls(0),
    }
}

/// Streams of TLS from the client or the gateway to the relay.
fn streams(scene: &BehindNats, at_client: bool) -> usize {
    let namespace = match at_client {
        true => &scene.clients[0].namespace,
        false => &scene.gateways[0].namespace,
    };
    let port = scene.relays[0].tls_port;
    let line = format!("ss -Htn state established dport = :{port}");
    namespace.run(&line).unwrap().lines().count()
}

fn goes_on(scene: &BehindNats, download: &Download) {
    download.goes_on(SOON).unwrap_or_else(|error| {
        let (client, gateway) = (&scene.clients[0], &scene.gateways[0]);
        panic!("{error}\n{}\n{}", client.output(), gateway.output())
    });
}

#[test]
fn a_connection_outlives_udp_that_is_blocked_and_goes_by_udp_again_when_it_is_back() {
    for at_client in [true, false] {
        let home = NatKind::PortDependent;
        let mut scene = BehindNats::new(1, &[home], &[home]).unwrap();
        scene.start().unwrap();
        wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
        let path = || scene.path(0, 0);
        wait_until("a direct path", SOON, || path() == "direct").unwrap();
        let download = scene.download(0, 0).unwrap();
        let routers = match at_client {
            true => &scene.client_routers[0],
            false => &scene.gateway_routers[0],
        };
        routers.block_udp().unwrap();
        let blocked = Instant::now();
        wait_until("TLS", SOON, || is_by_tls(&scene, at_client)).unwrap_or_else(|error| {
            panic!(
                "{error}\n{}\n{}",
                scene.clients[0].output(),
                scene.gateways[0].output()
            )
        });
        println!(
            "by TLS {:.1} s after UDP was blocked",
            blocked.elapsed().as_secs_f32()
        );
        goes_on(&scene, &download);
        assert!(!is_by_tls(&scene, !at_client));
        assert_eq!(streams(&scene, at_client), 1);
        println!("at most {:?} without a byte", download.longest_gap());
        if at_client {
            let text = scene.clients[0].tell("status").unwrap();
            let text = String::from_utf8(text.stdout).unwrap();
            assert!(text.contains("through relay relay-0 by TLS"), "{text}");
            assert!(text.contains(": UDP gets no answer"), "{text}");
            let log = scene.clients[0].output();
            assert!(
                log.contains("through a relay by TLS: UDP gets no answer"),
                "{log}"
            );
        }

        routers.lift_restrictions().unwrap();
        let lifted = Instant::now();
        wait_until("UDP", SOON, || !is_by_tls(&scene, at_client)).unwrap();
        println!(
            "by UDP {:.1} s after it was back",
            lifted.elapsed().as_secs_f32()
        );
        goes_on(&scene, &download);
        wait_until("the end of the stream", CLOSED, || {
            streams(&scene, at_client) == 0
        })
        .unwrap();
        goes_on(&scene, &download);
    }
}

/// A client whose network passes nothing but a proxy that wants credentials, and a gateway in another one, or also in such
/// a network.
fn behind_a_proxy(gateway_too: bool) -> (BehindNats, HttpProxy) {
    let home = NatKind::PortDependent;
    let mut scene = BehindNats::new(1, &[home], &[home]).unwrap();
    let (proxy, address) = scene.proxy().unwrap();
    let file = scene
        .private_file("proxy-credentials", HttpProxy::credentials())
        .unwrap();
    let arguments = format!(
        "--proxy {} --proxy-credentials-file {}",
        proxy.url(),
        file.display()
    );
    scene.client_routers[0].allow_only(address).unwrap();
    if gateway_too {
        scene.gateway_routers[0].allow_only(address).unwrap();
        scene.gateways[0].arguments.clone_from(&arguments);
    }
    scene.clients[0].arguments = arguments;
    scene.start().unwrap();
    (scene, proxy)
}

#[test]
fn a_proxy_with_credentials_is_all_that_a_network_needs_to_permit() {
    let (scene, proxy) = behind_a_proxy(true);
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap_or_else(|error| {
        panic!(
            "{error}\n{}\n{}",
            scene.clients[0].output(),
            scene.gateways[0].output()
        )
    });
    assert!(is_by_tls(&scene, true) && is_by_tls(&scene, false));
    // Two sessions with the portal, and a stream of each to the relay.
    let (connected, refused) = proxy.counts();
    assert!(connected >= 4, "{connected}");
    assert_eq!(refused, 0);
    for log in [scene.clients[0].output(), scene.gateways[0].output()] {
        let secret = HttpProxy::credentials().rsplit_once(':').unwrap().1;
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn a_connection_outlives_a_proxy_that_breaks_off_again_and_again() {
    let (scene, proxy) = behind_a_proxy(false);
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
    let download = scene.download(0, 0).unwrap();
    proxy.allow_for(Duration::from_secs(8));
    let begun = proxy.broken_off();
    let deadline = Duration::from_secs(90);
    // The session with the portal, and the stream: three times.
    wait_until("six ends", deadline, || proxy.broken_off() >= begun + 6).unwrap();
    goes_on(&scene, &download);
    println!("at most {:?} without a byte", download.longest_gap());
}

#[test]
fn clients_of_a_gateway_hear_nothing_of_a_proxy_that_breaks_off_the_gateways_session() {
    let (mut scene, proxy) = behind_a_proxy(true);
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
    let download = scene.download(0, 0).unwrap();
    proxy.allow_for(Duration::from_secs(8));
    let connections = |scene: &BehindNats| {
        let log = scene.gateways[0].output();
        log.matches("INFO connected to the portal").count()
    };
    let before = connections(&scene);
    let deadline = Duration::from_secs(120);
    wait_until("three ends", deadline, || connections(&scene) >= before + 3).unwrap();
    goes_on(&scene, &download);
    println!("at most {:?} without a byte", download.longest_gap());
    let lost = |scene: &BehindNats| {
        let ended = scene.portal.admin("log access --decision ended --json");
        ended.unwrap().matches("the gateway is gone").count()
    };
    // A gateway that needs more than three seconds to connect, as on a machine that is very busy, is given up.
    let times = lost(&scene);
    assert!(times <= 1, "lost {times} times in three");

    // One that ends in order is gone at once.
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
    scene.gateways[0].stop().unwrap();
    wait_until("the end of the gateway", SOON, || lost(&scene) > times).unwrap();
}

/// A server that speaks TLS at the captive network's port, with a certificate of its own.
fn captive_server(scene: &BehindNats, captive: &culvert_lab::product::CaptiveNetwork) -> Process {
    let names = vec!["login.example".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let both = scene
        .private_file("captive.pem", &format!("{certificate}{key}"))
        .unwrap();
    let text = format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 50s\n timeout server 50s\n\
         frontend login\n bind :{CAPTIVE_TCP_PORT} ssl crt {}\n\
         http-request redirect location https://login.example/\n",
        both.display()
    );
    let configuration = scene.private_file("captive.cfg", &text).unwrap();
    let program = peer_program("haproxy").unwrap();
    let line = format!("{} -db -f {}", program.display(), configuration.display());
    let process = captive.router.spawn(&line).unwrap();
    wait_until("HAProxy", SOON, || {
        let line = format!("ss -Hltn sport = :{CAPTIVE_TCP_PORT}");
        captive
            .router
            .run(&line)
            .is_ok_and(|lines| !lines.is_empty())
    })
    .unwrap_or_else(|error| panic!("{error}: {}", process.output()));
    process
}

#[test]
fn a_network_that_answers_everything_itself_is_believed_nothing() {
    let home = NatKind::PortDependent;
    let mut scene = BehindNats::new(1, &[home], &[home]).unwrap();
    scene.start().unwrap();
    wait_until("an answer", SOON, || scene.reaches(0, 0)).unwrap();
    let captive = scene.make_captive(0).unwrap();
    let server = captive_server(&scene, &captive);
    let problems = || {
        let status = scene.clients[0].status().unwrap_or_default();
        status["problems"].to_string()
    };
    let expected = "relay relay-0 gives no answer by UDP, and is not reached by TLS either";
    wait_until("a problem", SOON, || problems().contains(expected))
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", problems(), scene.clients[0].output()));
    assert!(
        problems().contains("another certificate than the portal names"),
        "{}",
        problems()
    );
    assert!(captive.answered() > 0);
    assert!(!scene.reaches(0, 0));
    assert!(!scene.is_client_by_tls(0, 0));
    scene.release(0).unwrap();
    drop((captive, server));
    wait_until("an answer", SOON, || scene.reaches(0, 0))
        .unwrap_or_else(|error| panic!("{error}: {}", scene.clients[0].output()));
    wait_until("no problem", SOON, || !problems().contains(expected)).unwrap();
}
