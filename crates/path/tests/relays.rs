//! The relays of an end: registrations, the survey, and what both say of the end itself.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_base::{BootTime, PresharedKey};
use culvert_ids::RelayId;
use culvert_path::{
    PLACES_MAX, RELAYS_PER_OWNER, RelayGrant, RelayPlace, Relays, RelaysOutput, SURVEY_EVERY,
};
use culvert_relay_core::Message;
use culvert_relay_core::mac::Mac;
use culvert_relay_core::message::{Challenge, Registered};
use culvert_relay_core::registration::Permission;
use std::net::SocketAddr;
use std::time::Duration;

const MAIN_PORT: u16 = 3478;
const GATEWAY_PORT: u16 = 3479;

fn relay_id(number: u8) -> RelayId {
    RelayId::from_bytes([number; 16])
}

fn at(number: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, number], port))
}

fn mapped(number: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 7], 40_000 + number))
}

fn place(number: u8) -> RelayPlace {
    RelayPlace {
        relay: relay_id(number),
        addresses: vec![at(number, MAIN_PORT)],
    }
}

fn grant(number: u8) -> RelayGrant {
    RelayGrant {
        relay: relay_id(number),
        addresses: vec![at(number, GATEWAY_PORT)],
        permission: Permission {
            token: "v4.local.abc".to_owned(),
            key: PresharedKey::from_bytes([number; 32]),
        },
    }
}

/// An end, and a clock.
struct End {
    relays: Relays<char>,
    now: BootTime,
    registering: Vec<(char, SocketAddr)>,
}

impl End {
    fn new() -> Self {
        Self {
            relays: Relays::new([1; 32]),
            now: BootTime::from_millis(1_000_000),
            registering: Vec::new(),
        }
    }

    /// The datagrams that the end sends, and their destinations.
    fn sent(&mut self) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut sent = Vec::new();
        while let Some(output) = self.relays.poll_output() {
            match output {
                RelaysOutput::Send { datagram, to } => sent.push((to, datagram)),
                RelaysOutput::Registering { owner, address } => {
                    self.registering.push((owner, address));
                }
                RelaysOutput::Refused { .. } | RelaysOutput::Changed => {}
            }
        }
        sent
    }

    fn destinations(&mut self) -> Vec<SocketAddr> {
        self.sent().into_iter().map(|(to, _)| to).collect()
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now.saturating_add(span);
        self.relays.handle_timeout(self.now);
    }

    /// Answers everything that was sent, each relay after its own time.
    fn answer(&mut self, delay: impl Fn(SocketAddr) -> Duration) {
        let sent = self.sent().into_iter();
        let mut waiting: Vec<_> = sent
            .map(|(to, datagram)| (self.now, to, datagram))
            .collect();
        while let Some((began, to, datagram)) = waiting.pop() {
            let later = began.saturating_add(delay(to));
            self.now = self.now.max(later);
            let answer = answer_to(to, &datagram, mapped(0));
            assert!(self.relays.handle_datagram(to, &answer, later));
            let sent = self.sent().into_iter();
            waiting.extend(sent.map(|(to, datagram)| (later, to, datagram)));
        }
    }
}

fn answer_to(to: SocketAddr, datagram: &[u8], mapped: SocketAddr) -> Vec<u8> {
    let number = match to.ip() {
        std::net::IpAddr::V4(v4) => v4.octets()[3],
        std::net::IpAddr::V6(_) => 0,
    };
    match Message::parse(datagram).unwrap() {
        Message::Ask(ask) => {
            let challenge = Challenge {
                transaction: ask.transaction,
                cookie: Mac::from_bytes([1; 16]),
                mapped,
            };
            challenge.encode().to_vec()
        }
        Message::Register(register) => {
            let registered = Registered::new(register.transaction, 3_600, &[number; 32]);
            registered.encode().to_vec()
        }
        other => panic!("no question for a relay: {other:?}"),
    }
}

#[test]
fn a_survey_asks_one_address_of_each_family_and_repeats_what_is_not_answered() {
    let mut end = End::new();
    let mut second = place(2);
    let v6: SocketAddr = "[2001:db8::2]:3478".parse().unwrap();
    second.addresses.extend([at(3, MAIN_PORT), v6]);
    end.relays.set_places(vec![place(1), second], end.now);
    let sent = end.sent();
    let to: Vec<SocketAddr> = sent.iter().map(|(to, _)| *to).collect();
    assert_eq!(to, [at(1, MAIN_PORT), at(2, MAIN_PORT), v6]);
    end.now = end.now.saturating_add(Duration::from_millis(30));
    let (to, datagram) = &sent[0];
    let answer = answer_to(*to, datagram, mapped(1));
    assert!(end.relays.handle_datagram(*to, &answer, end.now));
    assert_eq!(end.relays.reflexive(), [mapped(1)]);
    let reached = end.relays.reached();
    assert_eq!(reached.len(), 1);
    assert_eq!(reached[0].round_trip, Duration::from_millis(30));
    assert!(!reached[0].is_registered);
    end.sent();

    end.pass(Duration::from_secs(1));
    assert_eq!(end.destinations(), [at(2, MAIN_PORT), v6]);
    end.pass(Duration::from_secs(2));
    assert_eq!(end.destinations(), [at(2, MAIN_PORT), v6]);
    end.pass(Duration::from_secs(60));
    assert_eq!(end.destinations(), []);
    end.pass(SURVEY_EVERY);
    assert_eq!(end.destinations().len(), 3);
}

#[test]
fn an_answer_from_elsewhere_or_to_another_question_says_nothing() {
    let mut end = End::new();
    end.relays.set_places(vec![place(1)], end.now);
    let (to, datagram) = end.sent().remove(0);
    let answer = answer_to(to, &datagram, mapped(1));
    let stranger = at(9, MAIN_PORT);
    assert!(!end.relays.handle_datagram(stranger, &answer, end.now));
    for byte in 4..20 {
        let mut other = answer.clone();
        other[byte] ^= 1;
        assert!(!end.relays.handle_datagram(to, &other, end.now));
    }
    assert_eq!(end.relays.reflexive(), []);
    assert!(end.relays.handle_datagram(to, &answer, end.now));
    // Once.
    assert!(!end.relays.handle_datagram(to, &answer, end.now));
}

#[test]
fn the_nearest_relay_comes_first_and_each_registration_is_told_as_it_leaves() {
    let mut end = End::new();
    end.relays.set('a', vec![grant(1), grant(2)], end.now);
    let known = end.relays.known('a');
    assert_eq!(known.len(), 2);
    assert_eq!(end.relays.usable('a'), []);
    end.answer(|to| match to == at(1, GATEWAY_PORT) {
        true => Duration::from_millis(40),
        false => Duration::from_millis(10),
    });
    let expected = [2, 1].map(|number| (relay_id(number), at(number, GATEWAY_PORT)));
    assert_eq!(end.relays.usable('a'), expected);
    assert_eq!(end.relays.usable('b'), []);
    assert_eq!(end.relays.reflexive(), [mapped(0)]);
    end.registering.sort_unstable();
    let expected = [1, 2].map(|number| ('a', at(number, GATEWAY_PORT)));
    assert_eq!(end.registering, expected);
}

#[test]
fn registrations_end_with_their_owner_and_with_their_grant() {
    let mut end = End::new();
    end.relays.set('a', vec![grant(1), grant(2)], end.now);
    end.relays.set('b', vec![grant(3)], end.now);
    end.answer(|_| Duration::from_millis(5));
    end.relays.set('a', vec![grant(2)], end.now);
    assert_eq!(end.relays.usable('a').len(), 1);
    assert_eq!(end.relays.usable('b').len(), 1);
    end.relays.keep_only(|owner| owner == 'b');
    assert_eq!(end.relays.known('a'), []);
    assert_eq!(end.relays.usable('b').len(), 1);
}

#[test]
fn the_numbers_are_bounded() {
    let mut end = End::new();
    let grants = (1..10).map(grant).collect();
    end.relays.set('a', grants, end.now);
    assert_eq!(end.relays.known('a').len(), RELAYS_PER_OWNER);
    end.sent();
    let places = (1..100).map(place).collect();
    end.relays.set_places(places, end.now);
    assert_eq!(end.destinations().len(), PLACES_MAX);
}

#[test]
fn another_network_begins_everything_again() {
    let mut end = End::new();
    end.relays.set_places(vec![place(1)], end.now);
    end.relays.set('a', vec![grant(2)], end.now);
    end.answer(|_| Duration::from_millis(5));
    end.relays.handle_network_changed(end.now);
    let mut asked = end.destinations();
    asked.sort_unstable();
    assert_eq!(asked, [at(1, MAIN_PORT), at(2, GATEWAY_PORT)]);
}
