//! Relays and probes: registrations, answers, and what the portal hears of them.

use super::play::{Play, candidates, claims, key, preshared_key};
use culvert_ids::{ClientId, RelayId};
use culvert_relay_core::Message;
use culvert_relay_core::mac::Mac;
use culvert_relay_core::message::{Challenge, Registered};
use culvert_relay_core::probe::{AuthenticProbe, PairEnd, PairProbes};
use culvert_wire::messages::{
    FromGateway, GatewayFeature, RelayAccess, RelayPlace, RelayReach, RelayTls, ToGateway,
};
use culvert_wire::token::CertificatePin;
use culvert_wire::{PresharedKey, Timestamp};
use std::net::SocketAddr;

const PORT: u16 = 3481;

fn relay_at() -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 7], PORT))
}

fn mapped() -> SocketAddr {
    "198.51.100.7:40001".parse().unwrap()
}

fn client_at() -> SocketAddr {
    "192.0.2.99:4000".parse().unwrap()
}

fn relay() -> RelayAccess {
    RelayAccess {
        place: RelayPlace {
            relay: RelayId::from_bytes([7; 16]),
            name: "fra-1".to_owned(),
            addresses: vec![SocketAddr::from(([203, 0, 113, 7], 3478))],
            tls: None,
        },
        port: PORT,
        token: "v4.local.abc".to_owned(),
        key: PresharedKey::from_bytes([7; 32]),
        expires: Timestamp::from_unix_ms(4_000_000_000_000),
    }
}

impl Play {
    fn hear_datagram(&mut self, source: SocketAddr, datagram: &[u8]) {
        let now = self.now();
        self.gateway.handle_path_message(source, datagram, now);
        self.execute();
    }

    fn answer_as_relay(&mut self) {
        while let Some(place) = self.sent.iter().position(|(to, _)| *to == relay_at()) {
            let (_, datagram) = self.sent.remove(place);
            match Message::parse(&datagram) {
                Some(Message::Ask(ask)) => {
                    let challenge = Challenge {
                        transaction: ask.transaction,
                        cookie: Mac::from_bytes([1; 16]),
                        mapped: mapped(),
                    };
                    self.hear_datagram(relay_at(), &challenge.encode());
                }
                Some(Message::Register(register)) => {
                    let answer = Registered::new(register.transaction, 3_600, &[7; 32]);
                    self.hear_datagram(relay_at(), &answer.encode());
                }
                _ => {}
            }
        }
    }
}

/// A gateway that is registered at its relay.
fn registered() -> Play {
    let mut play = Play::open();
    play.hear(ToGateway::RelaysSet {
        relays: vec![relay()],
    });
    play.now_ms += 5;
    play.answer_as_relay();
    play
}

fn client_probes(number: u8) -> PairProbes {
    let secret = preshared_key(&claims(1, number, 1));
    PairProbes::new(&secret, PairEnd::Client).unwrap()
}

/// The questions that were sent to an address.
fn questions(play: &mut Play, by: &PairProbes, to: SocketAddr) -> usize {
    let sent = std::mem::take(&mut play.sent);
    let questions = sent.iter().filter(|(at, datagram)| {
        let message = Message::parse(datagram);
        let opened = message.and_then(|message| by.open(&message));
        *at == to && matches!(opened, Some(AuthenticProbe::Question { .. }))
    });
    questions.count()
}

#[test]
fn the_gateway_says_that_it_uses_relays_and_registers_where_the_portal_says() {
    let mut play = Play::begin();
    play.connect();
    let hello = play.said.iter().find_map(|message| match message {
        FromGateway::Hello { features, .. } => Some(features.clone()),
        _ => None,
    });
    assert!(hello.unwrap().contains(&GatewayFeature::Relays));
    let play = registered();
    let mut expected = vec![mapped()];
    expected.extend(candidates());
    let told = play.said.contains(&FromGateway::CandidatesChanged {
        candidates: expected.clone(),
    });
    assert!(told, "{:?}", play.said);
    let reached = FromGateway::RelaysReached {
        relays: vec![RelayReach {
            relay: RelayId::from_bytes([7; 16]),
            round_trip_us: 0,
            registered: true,
            tls: false,
        }],
    };
    assert!(play.said.contains(&reached), "{:?}", play.said);
    let view = play
        .gateway
        .view(play.now(), culvert_base::UnixTime::from_millis(0));
    assert_eq!(view.candidates, expected);
    assert!(view.relays[0].registered);
    assert_eq!(view.relays[0].name, "fra-1");
    assert_eq!(play.gateway.relay_at(relay_at()).as_deref(), Some("fra-1"));
    assert_eq!(play.gateway.relay_at(client_at()), None);
}

#[test]
fn the_address_that_relays_see_is_told_with_the_next_session_too() {
    let mut play = registered();
    play.disconnect();
    play.said.clear();
    play.reconnect(&[]);
    let hello = play.said.iter().find_map(|message| match message {
        FromGateway::Hello { candidates, .. } => Some(candidates.clone()),
        _ => None,
    });
    assert!(hello.unwrap().contains(&mapped()));
    let is_reached = |it: &&FromGateway| matches!(it, FromGateway::RelaysReached { .. });
    assert!(
        play.said.iter().any(|it| is_reached(&it)),
        "{:?}",
        play.said
    );
}

#[test]
fn a_client_is_probed_where_it_may_be_when_its_first_grant_comes() {
    let mut play = registered();
    play.sent.clear();
    play.hear(ToGateway::ClientCandidates {
        client: ClientId::from_bytes([3; 16]),
        client_key: key(3),
        candidates: vec![client_at()],
    });
    assert_eq!(play.sent, [], "its secret comes with the grant");
    play.grant(&claims(1, 3, 1));
    play.assert_accepted(1);
    play.time();
    let probes = client_probes(3);
    assert_eq!(questions(&mut play, &probes, client_at()), 1);
    // Three more, and then it is the client's turn.
    play.pass(100_000);
    assert_eq!(questions(&mut play, &probes, client_at()), 3);
}

#[test]
fn a_client_is_answered_and_its_probes_through_the_relay_bring_a_round() {
    let mut play = registered();
    play.hear(ToGateway::ClientCandidates {
        client: ClientId::from_bytes([3; 16]),
        client_key: key(3),
        candidates: vec![client_at()],
    });
    play.grant(&claims(1, 3, 1));
    play.pass(100_000);
    play.sent.clear();
    let probes = client_probes(3);
    play.hear_datagram(relay_at(), &probes.question([5; 8]));
    let answered = play.sent.iter().any(|(to, datagram)| {
        let message = Message::parse(datagram);
        let opened = message.and_then(|message| probes.open(&message));
        *to == relay_at() && opened == Some(AuthenticProbe::Answer { nonce: [5; 8] })
    });
    assert!(answered);
    assert_eq!(questions(&mut play, &probes, client_at()), 1);
    // Of another pair.
    play.hear_datagram(relay_at(), &client_probes(4).question([5; 8]));
    assert_eq!(play.sent, []);
}

#[test]
fn a_client_without_a_grant_is_answered_no_more() {
    let mut play = registered();
    play.grant(&claims(1, 3, 1));
    play.sent.clear();
    play.hear_datagram(client_at(), &client_probes(3).question([5; 8]));
    assert!(!play.sent.is_empty());
    play.revoke(1);
    play.sent.clear();
    play.hear_datagram(client_at(), &client_probes(3).question([6; 8]));
    assert_eq!(play.sent, []);
}

fn bridge() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 50_000))
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
                let answer = Registered::new(register.transaction, 3_600, &[7; 32]);
                play.hear_datagram(bridge(), &answer.encode());
            }
            _ => {}
        }
    }
}

fn relay_with_tls() -> RelayAccess {
    let mut relay = relay();
    relay.place.tls = Some(RelayTls {
        port: 443,
        pin: CertificatePin::of(b"a certificate"),
    });
    relay
}

#[test]
fn a_relay_that_is_silent_by_udp_is_reached_by_tls() {
    let mut play = Play::open();
    play.hear(ToGateway::RelaysSet {
        relays: vec![relay_with_tls()],
    });
    play.pass(3_000);
    let id = RelayId::from_bytes([7; 16]);
    assert_eq!(play.streams, [(id, true)]);
    play.sent.clear();
    let now = play.now();
    play.gateway.handle_tls_opened(id, bridge(), now);
    play.execute();
    answer_in_stream(&mut play);
    let is_told = |message: &FromGateway| match message {
        FromGateway::RelaysReached { relays } => relays[0].tls && relays[0].registered,
        _ => false,
    };
    assert!(play.said.iter().any(is_told), "{:?}", play.said);
    let unix = culvert_base::UnixTime::from_millis(0);
    let view = play.gateway.view(play.now(), unix);
    assert_eq!(view.relays.len(), 1);
    assert!(view.relays[0].by_tls && view.relays[0].registered);
    assert_eq!(view.candidates, candidates(), "no address of loopback");
    assert_eq!(play.gateway.relay_at(bridge()).as_deref(), Some("fra-1"));

    let now = play.now();
    let why = "the proxy broke off".to_owned();
    play.gateway.handle_tls_ended(id, why, now);
    play.execute();
    assert_eq!(
        play.gateway.path_problems(),
        [
            "relay fra-1 gives no answer by UDP, and is not reached by TLS either: the proxy broke off"
        ]
    );
}

#[test]
fn a_silent_client_makes_the_gateway_ask_its_relays_and_open_a_stream_if_they_are_silent_too() {
    let mut play = Play::open();
    play.hear(ToGateway::RelaysSet {
        relays: vec![relay_with_tls()],
    });
    play.answer_as_relay();
    assert!(!play.gateway.watches_for_silence(), "there is no client");
    play.grant(&claims(1, 3, 1));
    play.assert_accepted(1);
    assert!(play.gateway.watches_for_silence());
    play.sent.clear();
    let now = play.now();
    play.gateway.handle_silent_client(now);
    play.execute();
    let asked = play.sent.iter().filter(|(to, _)| *to == relay_at());
    assert_eq!(asked.count(), 1);
    play.pass(2_000);
    let id = RelayId::from_bytes([7; 16]);
    assert_eq!(play.streams, [(id, true)]);
    let now = play.now();
    play.gateway.handle_tls_opened(id, bridge(), now);
    play.execute();
    answer_in_stream(&mut play);
    assert_eq!(
        play.moved,
        [(relay_at(), bridge())],
        "its clients are there now"
    );
}
