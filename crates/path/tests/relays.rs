//! The relays of an end: registrations, the survey, and what both say of the end itself.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use culvert_base::{BootTime, PresharedKey};
use culvert_ids::RelayId;
use culvert_path::{
    PLACES_MAX, RELAYS_PER_OWNER, RelayGrant, RelayPath, RelayPlace, RelayTrouble, Relays,
    RelaysOutput, SURVEY_EVERY, TLS_AFTER, TLS_LEFT_OPEN, TLS_SILENT, TLS_STREAMS_MAX, TlsPlace,
};
use culvert_relay_core::Message;
use culvert_relay_core::mac::Mac;
use culvert_relay_core::message::{Challenge, Registered};
use culvert_relay_core::registration::Permission;
use culvert_wire::token::CertificatePin;
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
        tls: None,
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
    /// Orders about streams: true opens one.
    streams: Vec<(char, RelayId, bool)>,
    failures: Vec<String>,
}

impl End {
    fn new() -> Self {
        Self {
            relays: Relays::new([1; 32]),
            now: BootTime::from_millis(1_000_000),
            registering: Vec::new(),
            streams: Vec::new(),
            failures: Vec::new(),
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
                RelaysOutput::OpenTls {
                    owner,
                    relay,
                    place,
                } => {
                    assert_eq!(place.gateway_port, GATEWAY_PORT);
                    self.streams.push((owner, relay, true));
                }
                RelaysOutput::CloseTls { owner, relay } => {
                    self.streams.push((owner, relay, false));
                }
                RelaysOutput::TlsFailed { why, .. } => self.failures.push(why),
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

    /// Lets time pass, and loses all that is sent.
    fn pass_in_silence(&mut self, span: Duration) {
        let end = self.now.saturating_add(span);
        while let Some(due) = self.relays.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.relays.handle_timeout(self.now);
            self.sent();
        }
        self.now = end;
    }

    fn take_streams(&mut self) -> Vec<(char, RelayId, bool)> {
        self.sent();
        std::mem::take(&mut self.streams)
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
fn a_relay_that_answers_no_more_is_not_reached_and_says_no_more_where_this_end_is() {
    let mut end = End::new();
    end.relays.set_places(vec![place(1), place(2)], end.now);
    end.answer(|_| Duration::from_millis(5));
    assert_eq!(end.relays.reached().len(), 2);
    end.pass_in_silence(SURVEY_EVERY - Duration::from_millis(10));
    end.pass(Duration::from_millis(10));
    let of_second = |sent: Vec<(SocketAddr, Vec<u8>)>| {
        let mut sent = sent.into_iter();
        sent.find(|(to, _)| *to == at(2, MAIN_PORT)).unwrap()
    };
    let (to, datagram) = of_second(end.sent());
    let answer = answer_to(to, &datagram, mapped(0));
    assert!(end.relays.handle_datagram(to, &answer, end.now));
    assert_eq!(end.relays.reached().len(), 2, "the other one has time");
    end.pass_in_silence(Duration::from_secs(10));
    let reached = end.relays.reached();
    assert_eq!(reached.len(), 1);
    assert_eq!(reached[0].relay, relay_id(2));
    let by: Vec<_> = end.relays.seen().iter().map(|seen| seen.by).collect();
    assert_eq!(by, [at(2, MAIN_PORT)]);
}

#[test]
fn a_relay_whose_registration_is_lost_is_not_reached() {
    let mut end = End::new();
    end.relays.set_places(vec![place(1)], end.now);
    end.relays.set('a', vec![grant(1)], end.now);
    end.answer(|_| Duration::from_millis(5));
    assert!(end.relays.reached()[0].is_registered);
    end.pass_in_silence(Duration::from_secs(120));
    assert_eq!(end.relays.usable('a'), []);
    assert_eq!(end.relays.reached(), [], "the survey was before that");
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
    let expected = [2, 1].map(|number| RelayPath {
        relay: relay_id(number),
        address: at(number, GATEWAY_PORT),
        by_tls: false,
    });
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

fn by_udp(number: u8, address: SocketAddr) -> RelayPath {
    RelayPath {
        relay: relay_id(number),
        address,
        by_tls: false,
    }
}

fn bridge() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 50_000))
}

fn with_tls(number: u8) -> RelayGrant {
    RelayGrant {
        tls: Some(TlsPlace {
            addresses: vec![at(number, 443)],
            pin: CertificatePin::of(&[number]),
            gateway_port: GATEWAY_PORT,
        }),
        ..grant(number)
    }
}

/// An end that is registered through a stream, since UDP is blocked.
fn by_tls() -> End {
    let mut end = End::new();
    end.relays.set('a', vec![with_tls(1)], end.now);
    end.pass_in_silence(TLS_AFTER);
    assert_eq!(end.take_streams(), [('a', relay_id(1), true)]);
    end.relays
        .handle_tls_opened('a', relay_id(1), bridge(), end.now);
    end.answer_bridge();
    end
}

impl End {
    /// Answers what is sent through the stream, and nothing else.
    fn answer_bridge(&mut self) {
        loop {
            let sent = self.sent().into_iter();
            let sent: Vec<_> = sent.filter(|(to, _)| *to == bridge()).collect();
            if sent.is_empty() {
                return;
            }
            for (to, datagram) in sent {
                // The relay sees a loopback address of its own.
                let seen = SocketAddr::from(([127, 0, 0, 1], 60_000));
                let number = [1; 32];
                let answer = match Message::parse(&datagram).unwrap() {
                    Message::Register(register) => {
                        let it = Registered::new(register.transaction, 3_600, &number);
                        it.encode().to_vec()
                    }
                    _ => answer_to(to, &datagram, seen),
                };
                assert!(self.relays.handle_datagram(to, &answer, self.now));
            }
        }
    }

    fn is_by_tls(&self) -> bool {
        let usable = self.relays.usable('a');
        usable.len() == 1 && usable[0].by_tls && usable[0].address == bridge()
    }
}

#[test]
fn a_relay_that_is_silent_by_udp_is_reached_by_tls_and_only_if_it_has_a_port_for_it() {
    let end = by_tls();
    assert!(end.is_by_tls());
    assert_eq!(end.relays.reflexive(), [], "loopback is no address");
    let reached = end.relays.reached();
    assert!(reached[0].by_tls && reached[0].is_registered);
    assert_eq!(end.relays.known('a').len(), 2);

    let mut end = End::new();
    end.relays.set('a', vec![grant(1)], end.now);
    end.pass_in_silence(Duration::from_secs(60));
    assert_eq!(end.take_streams(), []);
}

#[test]
fn no_stream_is_opened_to_a_relay_that_answers_by_udp() {
    let mut end = End::new();
    end.relays.set('a', vec![with_tls(1)], end.now);
    end.answer(|_| Duration::from_millis(5));
    end.pass(Duration::from_secs(10));
    assert_eq!(end.take_streams(), []);
    assert!(!end.relays.usable('a')[0].by_tls);
}

#[test]
fn udp_wins_as_soon_as_it_answers_and_the_stream_is_closed_later() {
    let mut end = by_tls();
    // UDP is asked for ever.
    let mut asked = Vec::new();
    while asked.is_empty() {
        end.now = end.relays.poll_timeout().unwrap().max(end.now);
        end.relays.handle_timeout(end.now);
        let sent = end.sent().into_iter();
        asked = sent.filter(|(to, _)| *to == at(1, GATEWAY_PORT)).collect();
    }
    let (to, datagram) = asked.remove(0);
    let challenge = answer_to(to, &datagram, mapped(0));
    assert!(end.relays.handle_datagram(to, &challenge, end.now));
    assert!(end.is_by_tls(), "a challenge proves nothing");
    end.answer(|_| Duration::from_millis(5));
    assert!(!end.relays.usable('a')[0].by_tls);
    assert_eq!(end.take_streams(), []);
    end.pass(TLS_LEFT_OPEN);
    assert_eq!(end.take_streams(), [('a', relay_id(1), false)]);
    assert_eq!(end.relays.known('a').len(), 1);
}

#[test]
fn a_stream_that_fails_is_opened_again_later_and_later() {
    let mut end = End::new();
    end.relays.set('a', vec![with_tls(1)], end.now);
    let (mut times, begun) = (Vec::new(), end.now);
    for _ in 0..10 {
        while end.streams.is_empty() {
            end.now = end.relays.poll_timeout().unwrap();
            end.relays.handle_timeout(end.now);
            end.sent();
        }
        end.streams.clear();
        times.push(end.now.saturating_since(begun).as_millis());
        let why = "the proxy says no".to_owned();
        end.relays.handle_tls_ended('a', relay_id(1), why, end.now);
        end.sent();
    }
    let waits: Vec<u128> = times.windows(2).map(|two| two[1] - two[0]).collect();
    let (s, most) = (1_000, 60_000);
    let expected = [s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, most, most, most];
    assert_eq!(waits, expected);
    assert_eq!(times[0], TLS_AFTER.as_millis());
    // It is told once.
    assert_eq!(end.failures, ["the proxy says no"]);
    let troubles: Vec<_> = end.relays.troubles().collect();
    let trouble = RelayTrouble::Unreached("the proxy says no");
    assert_eq!(troubles, [(relay_id(1), trouble)]);
}

#[test]
fn a_stream_through_which_nothing_comes_is_closed() {
    let mut end = End::new();
    end.relays.set('a', vec![with_tls(1)], end.now);
    end.pass_in_silence(TLS_AFTER);
    end.take_streams();
    end.relays
        .handle_tls_opened('a', relay_id(1), bridge(), end.now);
    end.pass_in_silence(TLS_SILENT);
    assert_eq!(end.take_streams(), [('a', relay_id(1), false)]);
    assert_eq!(end.relays.usable('a'), []);
    assert_eq!(end.relays.troubles().count(), 1);
}

#[test]
fn a_stream_ends_with_its_owner_and_one_that_opens_too_late_is_closed() {
    let mut end = by_tls();
    end.relays.keep_only(|_| false);
    assert_eq!(end.take_streams(), [('a', relay_id(1), false)]);
    end.relays
        .handle_tls_opened('a', relay_id(1), bridge(), end.now);
    assert_eq!(end.take_streams(), [('a', relay_id(1), false)]);
    end.relays
        .handle_tls_ended('a', relay_id(1), String::new(), end.now);
    assert_eq!(end.take_streams(), []);
}

#[test]
fn the_number_of_streams_is_bounded() {
    let mut end = End::new();
    let owners = ('a'..='z').chain('A'..='Z');
    for owner in owners {
        end.relays.set(owner, vec![with_tls(1)], end.now);
    }
    end.pass_in_silence(TLS_AFTER);
    let opened = end.take_streams().len();
    assert_eq!(opened, TLS_STREAMS_MAX);
}

#[test]
fn a_relay_whose_ipv6_is_dead_is_registered_at_by_ipv4_without_a_wait() {
    let mut end = End::new();
    let (v6, v4) = ("[2001:db8::7]:3479".parse().unwrap(), at(7, GATEWAY_PORT));
    let dual = RelayGrant {
        addresses: vec![v6, v4],
        ..grant(7)
    };
    let begun = end.now;
    end.relays.set('a', vec![dual], begun);
    let asked = end.sent();
    let destinations: Vec<_> = asked.iter().map(|(to, _)| *to).collect();
    assert_eq!(destinations, [v6, v4], "both families at once");
    // Nothing comes from IPv6. IPv4 has its round trip of 20 ms, and then a registration.
    end.now = begun.saturating_add(Duration::from_millis(20));
    let answer = answer_to(v4, &asked[1].1, mapped(1));
    assert!(end.relays.handle_datagram(v4, &answer, end.now));
    let registration = end.sent();
    assert_eq!(end.registering, [('a', v4)]);
    end.now = begun.saturating_add(Duration::from_millis(40));
    let answer = answer_to(v4, &registration[0].1, mapped(1));
    assert!(end.relays.handle_datagram(v4, &answer, end.now));
    assert_eq!(end.relays.usable('a'), [by_udp(7, v4)]);
    // IPv6 answers later: that changes nothing of what is in use.
    let late = answer_to(v6, &asked[0].1, mapped(2));
    end.relays.handle_datagram(v6, &late, end.now);
    assert_eq!(end.relays.usable('a'), [by_udp(7, v4)]);
}
