//! Relays and direct paths: registrations, probes, and what the portal hears of them.

use super::play::{Granting, Play, candidate, gateway_id, key, resource, to};
use culvert_base::UnixTime;
use culvert_client_core::PeerReport;
use culvert_ids::RelayId;
use culvert_path::Nat64Prefix;
use culvert_relay_core::Message;
use culvert_relay_core::mac::Mac;
use culvert_relay_core::message::{Challenge, Registered};
use culvert_relay_core::probe::{AuthenticProbe, PairEnd, PairProbes};
use culvert_wire::messages::{
    ClientFeature, FromClient, NatMapping, PathKind, RelayAccess, RelayPlace, RelayReach, RelayTls,
    ToClient,
};
use culvert_wire::token::CertificatePin;
use culvert_wire::{PresharedKey, Timestamp};
use std::net::SocketAddr;

const MAIN_PORT: u16 = 3478;
const GATEWAY_PORT: u16 = 3481;

fn relay_id(number: u8) -> RelayId {
    RelayId::from_bytes([number; 16])
}

fn relay_at(number: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, number], port))
}

/// The address of this client behind its NAT.
fn mapped() -> SocketAddr {
    "198.51.100.7:40001".parse().unwrap()
}

fn place(number: u8) -> RelayPlace {
    RelayPlace {
        relay: relay_id(number),
        name: format!("relay {number}"),
        addresses: vec![relay_at(number, MAIN_PORT)],
        tls: None,
    }
}

fn access(number: u8) -> RelayAccess {
    RelayAccess {
        place: place(number),
        port: GATEWAY_PORT,
        token: "v4.local.abc".to_owned(),
        key: PresharedKey::from_bytes([number; 32]),
        expires: Timestamp::from_unix_ms(4_000_000_000_000),
    }
}

fn through(gateway: u8, relays: &[u8]) -> Granting {
    Granting {
        relays: relays.iter().map(|number| access(*number)).collect(),
        is_hidden: true,
        ..Granting::through(gateway, 1)
    }
}

/// Asks for access to the resource, with a packet that waits, and is granted it.
fn gain(play: &mut Play, granting: Granting) {
    play.packet(1, to("10.0.0.1", 443));
    let (request, ..) = play.take_request();
    play.grant(request, 1, granting);
}

impl Play {
    fn hear_datagram(&mut self, source: SocketAddr, datagram: &[u8]) {
        let now = self.now();
        self.client.handle_path_message(source, datagram, now);
        self.poll();
    }

    /// Answers every question that was sent to a relay, as it would.
    fn answer_as_relays(&mut self) {
        while let Some(place) = self
            .sent
            .iter()
            .position(|(to, _)| to.ip().to_string().starts_with("203."))
        {
            let (at, datagram) = self.sent.remove(place);
            let [_, _, _, number] = match at.ip() {
                std::net::IpAddr::V4(v4) => v4.octets(),
                std::net::IpAddr::V6(_) => unreachable!("relays have IPv4 here"),
            };
            match Message::parse(&datagram) {
                Some(Message::Ask(ask)) => {
                    let challenge = Challenge {
                        transaction: ask.transaction,
                        cookie: Mac::from_bytes([1; 16]),
                        mapped: mapped(),
                    };
                    self.hear_datagram(at, &challenge.encode());
                }
                Some(Message::Register(register)) => {
                    assert_eq!(at.port(), GATEWAY_PORT);
                    assert_eq!(register.token, "v4.local.abc");
                    let key = [number; 32];
                    let registered = Registered::new(register.transaction, 3_600, &key);
                    self.hear_datagram(at, &registered.encode());
                }
                // A probe by the relay: the gateway's business.
                _ => {}
            }
        }
    }

    /// The data plane has a session with the gateway, by `endpoint`.
    fn report_from(&mut self, endpoint: SocketAddr) {
        let report = PeerReport {
            key: key(1),
            endpoint: Some(endpoint),
            heard_elsewhere: None,
            handshake: Some(UnixTime::from_millis(self.unix_ms())),
            received: Some(self.now()),
            unanswered: None,
            rx_bytes: self.now_ms,
            tx_bytes: self.now_ms,
            measured_mtu_bytes: None,
        };
        self.report(report);
    }
}

fn gateway_probes() -> PairProbes {
    PairProbes::new(&PresharedKey::from_bytes([1; 32]), PairEnd::Gateway).unwrap()
}

/// A client whose first packet waits for a gateway that is reached through a relay alone.
fn granted() -> Play {
    let mut play = Play::new();
    play.places = vec![place(7)];
    play.client.handle_timeout(play.now());
    play.poll();
    play.connect();
    play.welcome(vec![resource(1, "10.0.0.0/8")], Vec::new());
    play.answer_as_relays();
    play.said.clear();
    gain(&mut play, through(1, &[7]));
    play
}

/// The same with a session through the relay.
fn relayed() -> Play {
    let mut play = granted();
    play.answer_as_relays();
    play.said.clear();
    play.report_from(relay_at(7, GATEWAY_PORT));
    play
}

#[test]
fn the_client_says_that_it_uses_relays() {
    let mut play = Play::new();
    play.client.handle_timeout(play.now());
    play.poll();
    play.connect();
    let said = play.said.iter().find_map(|message| match message {
        FromClient::Hello { features, .. } => Some(features.clone()),
        _ => None,
    });
    assert!(said.unwrap().contains(&ClientFeature::Relays));
}

#[test]
fn a_client_learns_its_own_address_from_the_relays_of_the_account_and_tells_it() {
    let mut play = Play::new();
    play.places = vec![place(7), place(8)];
    play.client.handle_timeout(play.now());
    play.poll();
    play.connect();
    play.welcome(Vec::new(), Vec::new());
    let asked: Vec<SocketAddr> = play.sent.iter().map(|(to, _)| *to).collect();
    assert_eq!(asked, [relay_at(7, MAIN_PORT), relay_at(8, MAIN_PORT)]);
    play.said.clear();
    play.now_ms += 12;
    play.answer_as_relays();
    assert!(play.said.contains(&FromClient::CandidatesChanged {
        candidates: vec![mapped()]
    }));
    let reach = |number| RelayReach {
        relay: relay_id(number),
        round_trip_us: 12_000,
        registered: false,
        tls: false,
    };
    let reached = FromClient::RelaysReached {
        relays: vec![reach(7), reach(8)],
    };
    assert!(play.said.contains(&reached), "{:?}", play.said);
    // Its interfaces come after.
    play.said.clear();
    let own: SocketAddr = "10.1.2.3:51820".parse().unwrap();
    play.client.handle_own_addresses(vec![own], play.now());
    play.poll();
    assert_eq!(
        play.said,
        [FromClient::CandidatesChanged {
            candidates: vec![mapped(), own]
        }]
    );
}

#[test]
fn a_portal_without_relays_hears_nothing_of_them() {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    let own = vec!["10.1.2.3:51820".parse().unwrap()];
    play.client.handle_own_addresses(own, play.now());
    play.poll();
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 100);
    play.pass(60_000);
    assert_eq!(play.sent, []);
    let is_of_paths = |message: &&FromClient| {
        matches!(
            message,
            FromClient::CandidatesChanged { .. }
                | FromClient::RelaysReached { .. }
                | FromClient::PathChanged { .. }
        )
    };
    assert_eq!(play.said.iter().find(is_of_paths), None);
}

#[test]
fn the_first_packet_goes_through_the_relay_as_soon_as_the_registration_has_left() {
    let mut play = granted();
    let at = relay_at(7, GATEWAY_PORT);
    let peer = &play.peers[&key(1)];
    assert_eq!(peer.candidates, [at], "a gateway without an address");
    assert_eq!(play.begun, [key(1)]);
    assert_eq!(play.resumed, [1]);
    assert_eq!(play.repeated, []);
    play.answer_as_relays();
    assert_eq!(
        play.repeated,
        [at],
        "after the registration, without its answer"
    );

    play.said.clear();
    play.report_from(at);
    assert!(play.said.contains(&FromClient::PathChanged {
        gateway: gateway_id(1),
        path: PathKind::Relayed,
        relay: Some(relay_id(7)),
        round_trip_us: None,
    }));
    let view = play.client.view(play.now(), play.unix());
    assert_eq!(view.gateways[0].path, "relayed");
    assert_eq!(view.gateways[0].relay_name.as_deref(), Some("relay 7"));
}

#[test]
fn a_direct_path_is_used_once_it_is_proven_and_the_portal_hears_of_it() {
    let mut play = relayed();
    play.said.clear();
    play.sent.clear();
    let direct = candidate(1);
    play.hear(ToClient::GatewayMoved {
        gateway: gateway_id(1),
        candidates: vec![direct],
    });
    play.step();
    let gateway = gateway_probes();
    let nonce = play.sent.iter().find_map(|(to, datagram)| {
        let message = Message::parse(datagram)?;
        match gateway.open(&message)? {
            AuthenticProbe::Question { nonce } if *to == direct => Some(nonce),
            _ => None,
        }
    });
    play.now_ms += 9;
    play.hear_datagram(direct, &gateway.answer(nonce.unwrap()));
    assert_eq!(play.used, [(key(1), Some(direct))]);
    let changed = play
        .said
        .iter()
        .find(|it| matches!(it, FromClient::PathChanged { .. }));
    let expected = FromClient::PathChanged {
        gateway: gateway_id(1),
        path: PathKind::Direct,
        relay: None,
        round_trip_us: Some(9_000),
    };
    assert_eq!(changed, Some(&expected));
    play.report_from(direct);
    let view = play.client.view(play.now(), play.unix());
    assert_eq!(view.gateways[0].path, "direct");
    assert_eq!(view.gateways[0].round_trip_us, Some(9_000));
}

#[test]
fn a_probe_of_the_gateway_is_answered_and_one_of_a_stranger_is_not() {
    let mut play = relayed();
    play.sent.clear();
    let source: SocketAddr = "192.0.2.99:7".parse().unwrap();
    play.hear_datagram(source, &gateway_probes().question([5; 8]));
    assert!(!play.sent.is_empty());
    assert!(play.sent.iter().all(|(to, _)| *to == source));
    play.sent.clear();
    let other = PairProbes::new(&PresharedKey::from_bytes([2; 32]), PairEnd::Gateway).unwrap();
    play.hear_datagram(source, &other.question([5; 8]));
    play.hear_datagram(source, b"CVR");
    play.hear_datagram(source, &[0; 64]);
    assert_eq!(play.sent, []);
}

#[test]
fn a_gateway_that_loses_its_relays_is_reached_as_before() {
    let mut play = relayed();
    play.used.clear();
    play.hear(ToClient::RelaysSet {
        gateway: gateway_id(1),
        relays: Vec::new(),
    });
    assert_eq!(play.used, [(key(1), None)]);
    play.sent.clear();
    play.pass(100_000);
    let to_relay = |(to, _): &&(SocketAddr, Vec<u8>)| to.port() == GATEWAY_PORT;
    assert_eq!(play.sent.iter().find(to_relay), None);
}

#[test]
fn relays_that_are_set_anew_are_registered_at_and_the_portal_hears_of_it() {
    let mut play = relayed();
    play.said.clear();
    play.hear(ToClient::RelaysSet {
        gateway: gateway_id(1),
        relays: vec![access(7), access(8)],
    });
    play.answer_as_relays();
    let registered = play.said.iter().any(|message| match message {
        FromClient::RelaysReached { relays } => {
            relays.iter().filter(|relay| relay.registered).count() == 2
        }
        _ => false,
    });
    assert!(registered, "{:?}", play.said);
    let peer = &play.peers[&key(1)];
    assert!(peer.candidates.contains(&relay_at(8, GATEWAY_PORT)));
}

fn bridge() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 50_000))
}

/// A client whose relay has a TLS port, and gives no answer by UDP.
fn without_udp() -> Play {
    let mut play = granted();
    let mut relay = access(7);
    relay.place.tls = Some(RelayTls {
        port: 443,
        pin: CertificatePin::of(b"a certificate"),
    });
    play.hear(ToClient::RelaysSet {
        gateway: gateway_id(1),
        relays: vec![relay],
    });
    play.pass(3_000);
    play
}

/// Answers questions that were sent into the stream, as the relay would.
fn answer_in_stream(play: &mut Play) {
    while let Some(place) = play.sent.iter().position(|(to, _)| *to == bridge()) {
        let (_, datagram) = play.sent.remove(place);
        match Message::parse(&datagram) {
            Some(Message::Ask(ask)) => {
                let challenge = Challenge {
                    transaction: ask.transaction,
                    cookie: Mac::from_bytes([1; 16]),
                    mapped: SocketAddr::from(([127, 0, 0, 1], 60_000)),
                };
                play.hear_datagram(bridge(), &challenge.encode());
            }
            Some(Message::Register(register)) => {
                let registered = Registered::new(register.transaction, 3_600, &[7; 32]);
                play.hear_datagram(bridge(), &registered.encode());
            }
            _ => {}
        }
    }
}

#[test]
fn a_relay_that_is_silent_by_udp_is_reached_by_tls_and_the_portal_and_the_status_say_so() {
    let mut play = without_udp();
    let stream = (gateway_id(1), relay_id(7));
    assert_eq!(play.streams, [(stream.0, stream.1, true)]);
    play.said.clear();
    let now = play.now();
    play.client
        .handle_tls_opened(stream.0, stream.1, bridge(), now);
    play.poll();
    answer_in_stream(&mut play);
    assert!(play.repeated.contains(&bridge()), "{:?}", play.repeated);
    let reached = play.said.iter().find_map(|message| match message {
        FromClient::RelaysReached { relays } => relays.iter().find(|it| it.relay == relay_id(7)),
        _ => None,
    });
    assert!(reached.is_some_and(|reach| reach.tls && reach.registered));
    play.report_from(bridge());
    let changed = play.said.iter().find_map(|message| match message {
        FromClient::PathChanged { path, relay, .. } => Some((*path, *relay)),
        _ => None,
    });
    assert_eq!(changed, Some((PathKind::RelayedTls, Some(relay_id(7)))));
    let no_loopback = |message: &FromClient| match message {
        FromClient::CandidatesChanged { candidates } => {
            candidates.iter().all(|it| !it.ip().is_loopback())
        }
        _ => true,
    };
    assert!(play.said.iter().all(no_loopback), "{:?}", play.said);
    let view = play.client.view(play.now(), play.unix());
    assert_eq!(view.gateways[0].path, "relayed");
    assert!(view.gateways[0].by_tls);

    play.hear(ToClient::RelaysSet {
        gateway: gateway_id(1),
        relays: Vec::new(),
    });
    assert_eq!(play.streams.last(), Some(&(stream.0, stream.1, false)));
}

#[test]
fn a_relay_that_is_not_reached_at_all_is_a_problem_that_the_log_tells_once() {
    let mut play = without_udp();
    let why = "another certificate than the portal names";
    for _ in 0..3 {
        let now = play.now();
        let (gateway, relay) = (gateway_id(1), relay_id(7));
        play.client
            .handle_tls_ended(gateway, relay, why.to_owned(), now);
        play.poll();
        play.pass(10_000);
    }
    let problems = play.client.path_problems();
    assert_eq!(
        problems,
        [format!(
            "relay relay 7 gives no answer by UDP, and is not reached by TLS either: {why}"
        )]
    );
    let lines = std::iter::from_fn(|| play.client.poll_log()).map(|line| line.to_string());
    let lines: Vec<String> = lines.filter(|line| line.contains(why)).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn the_portal_hears_of_the_nat_and_people_of_the_reason_for_a_relayed_path() {
    let play = relayed();
    let status = || play.client.view(play.now(), play.unix());
    let why = status().gateways[0].why.clone().unwrap();
    assert!(why.contains("not told"), "{why}");
    assert_eq!(status().relays[0].name, "relay 7");
    assert!(status().relays[0].registered);

    let mut play = granted();
    play.said.clear();
    play.answer_as_relays();
    play.hear(ToClient::GatewayMoved {
        gateway: gateway_id(1),
        candidates: vec![candidate(1)],
    });
    play.report_from(relay_at(7, GATEWAY_PORT));
    // Main port and gateway port of one address have seen the same.
    let view = play.client.view(play.now(), play.unix());
    assert_eq!(
        view.gateways[0].why.as_deref(),
        Some("no direct path answers")
    );
    let unknown = NatMapping::Unknown;
    let told = FromClient::NatFound { mapping: unknown };
    assert!(!play.said.contains(&told), "it was told before");
}

#[test]
fn the_nat_is_told_once_until_it_is_another_one() {
    let mut play = Play::new();
    play.places = vec![place(7), place(8)];
    play.client.handle_timeout(play.now());
    play.poll();
    play.connect();
    play.welcome(Vec::new(), Vec::new());
    play.answer_as_relays();
    let found = play.said.iter().filter_map(|message| match message {
        FromClient::NatFound { mapping } => Some(*mapping),
        _ => None,
    });
    let found: Vec<NatMapping> = found.collect();
    assert_eq!(
        found,
        [NatMapping::Unknown, NatMapping::EndpointIndependent],
        "after one relay, and after both"
    );
    play.said.clear();
    play.pass(600_000);
    play.answer_as_relays();
    play.pass(100_000);
    let is_nat = |message: &&FromClient| matches!(message, FromClient::NatFound { .. });
    assert_eq!(play.said.iter().find(is_nat), None);
}

#[test]
fn on_a_network_without_ipv4_relays_and_gateways_are_reached_by_the_nat64() {
    let mut play = relayed();
    play.hear(ToClient::GatewayMoved {
        gateway: gateway_id(1),
        candidates: vec![candidate(1)],
    });
    play.sent.clear();
    let prefix = Nat64Prefix::new("2001:db8:64::".parse().unwrap(), 96).unwrap();
    let by_prefix = |address| prefix.reach(address).unwrap();
    play.client.handle_nat64(Some(prefix), play.now());
    play.client.handle_timeout(play.now());
    play.poll();
    let asked: Vec<SocketAddr> = play.sent.iter().map(|(to, _)| *to).collect();
    for at in [
        relay_at(7, MAIN_PORT),
        relay_at(7, GATEWAY_PORT),
        candidate(1),
    ] {
        assert!(asked.contains(&by_prefix(at)), "{at}: {asked:?}");
        // The path in use is probed, as it was reached so far.
        let is_in_use = at == relay_at(7, GATEWAY_PORT);
        assert!(is_in_use || !asked.contains(&at), "{at}: {asked:?}");
    }
    let peer = &play.peers[&key(1)];
    assert!(peer.candidates.contains(&by_prefix(candidate(1))));
    assert!(!peer.candidates.contains(&candidate(1)));
    // A relay or a gateway that comes later is reached the same way.
    play.sent.clear();
    play.hear(ToClient::RelaysSet {
        gateway: gateway_id(1),
        relays: vec![access(7), access(8)],
    });
    let asked: Vec<SocketAddr> = play.sent.iter().map(|(to, _)| *to).collect();
    let new = relay_at(8, GATEWAY_PORT);
    assert!(asked.contains(&by_prefix(new)) && !asked.contains(&new));
    // There is IPv4 again.
    play.client.handle_nat64(None, play.now());
    play.poll();
    let peer = &play.peers[&key(1)];
    assert!(peer.candidates.contains(&candidate(1)));
    assert!(!peer.candidates.contains(&by_prefix(candidate(1))));
}
