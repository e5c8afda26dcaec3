//! An end that registers, over a network that loses, moves and lies.

use crate::world::{RELAY, World, client, gateway_at, registration, token};
use culvert_base::{BootTime, PresharedKey};
use culvert_relay_core::Registration;
use culvert_relay_core::message::{
    KIND_REFRESH, KIND_REGISTER, Message, RefusalReason, Refused, Unknown,
};
use culvert_relay_core::registration::{
    ANSWER, ASK_AGAIN_MOST, ATTEMPTS, Output, Permission, REFRESH_EVERY, REFUSED_FOR,
};
use culvert_relay_core::relay::SILENT_FOR;
use culvert_wire::messages::RelayClaims;
use proptest::prelude::*;
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
/// The time from the end to the relay, and back.
const ONE_WAY: Duration = Duration::from_millis(10);

fn relay_at() -> SocketAddr {
    "203.0.113.1:3479".parse().unwrap()
}

/// The address that the end's NAT gives it.
fn mapped(port: u16) -> SocketAddr {
    SocketAddr::from(([198, 51, 100, 1], port))
}

struct Net {
    world: World,
    end: Registration,
    claims: RelayClaims,
    /// The address of the end from outside.
    nat: SocketAddr,
    /// Kinds that the network loses on their way to the relay.
    lost: Vec<u8>,
    is_relay_dead: bool,
    outputs: Vec<Output>,
    /// Datagrams of each kind that the end sent.
    sent: [u32; 16],
}

fn permission(claims: &RelayClaims) -> Permission {
    Permission {
        token: token(claims),
        key: claims.key.clone(),
    }
}

impl Net {
    fn new() -> Self {
        let mut world = World::new();
        world.register(gateway_at(), &world.claims(None)).unwrap();
        let claims = world.claims(Some(client(1)));
        let now = world.now.boot;
        let end = Registration::new(&[relay_at()], permission(&claims), [3; 32], now);
        Self {
            world,
            end,
            claims,
            nat: mapped(1_000),
            lost: Vec::new(),
            is_relay_dead: false,
            outputs: Vec::new(),
            sent: [0; 16],
        }
    }

    fn registered() -> Self {
        let mut net = Self::new();
        net.run(SECOND);
        assert_eq!(net.end.relay(), Some(relay_at()));
        net.outputs.clear();
        net
    }

    fn now(&self) -> BootTime {
        self.world.now.boot
    }

    /// Lets time pass, from timer to timer.
    fn run(&mut self, span: Duration) {
        let end = self.now().saturating_add(span);
        loop {
            self.carry();
            let next = self.end.poll_timeout().max(self.now());
            if next > end {
                break;
            }
            self.world.pass(next.saturating_since(self.now()));
            self.end.handle_timeout(self.now());
        }
        self.world.pass(end.saturating_since(self.now()));
    }

    /// Carries what the end sends to the relay, and the answers back.
    fn carry(&mut self) {
        while let Some(output) = self.end.poll_output() {
            let Output::Send { to, datagram } = output else {
                self.outputs.push(output);
                continue;
            };
            assert_eq!(to, relay_at());
            let bytes = datagram.as_bytes();
            let kind = bytes[3];
            self.sent[usize::from(kind)] += 1;
            if self.is_relay_dead || self.lost.contains(&kind) {
                continue;
            }
            self.world.pass(ONE_WAY);
            let answers = self.world.one(self.nat, bytes);
            self.world.pass(ONE_WAY);
            let now = self.now();
            for answer in answers {
                self.end.handle_datagram(relay_at(), &answer.bytes, now);
            }
        }
    }

    fn sent(&self, kind: u8) -> u32 {
        self.sent[usize::from(kind)]
    }
}

#[test]
fn an_end_learns_its_address_and_registers() {
    let mut net = Net::new();
    net.run(SECOND);
    let round_trip = 2 * ONE_WAY;
    let relay = relay_at();
    let address = net.nat;
    assert_eq!(
        net.outputs,
        [
            Output::Mapped { by: relay, address },
            Output::Registered { relay, round_trip },
        ]
    );
    assert_eq!(net.world.relay.clients(), 1);
}

#[test]
fn an_end_stays_registered_by_signs_of_life() {
    let mut net = Net::registered();
    net.run(10 * SILENT_FOR);
    assert_eq!(net.world.relay.clients(), 1);
    let alive = Output::Alive {
        round_trip: 2 * ONE_WAY,
    };
    assert!(
        net.outputs.iter().all(|output| *output == alive),
        "{:?}",
        net.outputs
    );
    assert_eq!(net.sent(KIND_REGISTER), 1);
}

#[test]
fn lost_datagrams_are_sent_again() {
    let mut net = Net::new();
    net.lost = vec![1];
    net.run(3 * SECOND);
    assert_eq!(net.end.relay(), None);
    net.lost = vec![KIND_REGISTER];
    net.run(6 * SECOND);
    assert_eq!(net.end.relay(), None);
    net.lost.clear();
    net.run(ASK_AGAIN_MOST);
    assert_eq!(net.end.relay(), Some(relay_at()));
}

#[test]
fn an_end_asks_a_relay_that_is_dead_less_and_less() {
    let mut net = Net::new();
    net.is_relay_dead = true;
    net.run(Duration::from_secs(600));
    assert!((40..60).contains(&net.sent[1]), "{}", net.sent[1]);
}

#[test]
fn a_relay_that_dies_is_given_up_within_two_seconds_of_a_check() {
    let mut net = Net::registered();
    net.is_relay_dead = true;
    let now = net.now();
    net.end.check(now);
    net.run(ANSWER * ATTEMPTS - Duration::from_millis(1));
    assert_eq!(net.outputs, []);
    net.run(Duration::from_millis(1));
    assert_eq!(net.outputs, [Output::Lost]);
    assert_eq!(net.sent(KIND_REFRESH), ATTEMPTS);
    // It comes back.
    net.is_relay_dead = false;
    net.run(ASK_AGAIN_MOST);
    assert_eq!(net.end.relay(), Some(relay_at()));
}

#[test]
fn a_check_of_a_relay_that_lives_tells_its_round_trip() {
    let mut net = Net::registered();
    let now = net.now();
    net.end.check(now);
    net.run(Duration::ZERO);
    let round_trip = 2 * ONE_WAY;
    assert_eq!(net.outputs, [Output::Alive { round_trip }]);
}

#[test]
fn silence_counts_from_the_first_question_and_no_challenge_ends_it() {
    let mut net = Net::new();
    net.lost = vec![KIND_REGISTER];
    let begun = net.now();
    net.run(2 * SECOND);
    assert!(net.sent(KIND_REGISTER) > 0, "it was challenged");
    assert_eq!(net.end.unanswered_since(), Some(begun));
    net.lost.clear();
    net.run(4 * SECOND);
    assert_eq!(net.end.unanswered_since(), None);
    net.is_relay_dead = true;
    let asked = net.now();
    net.end.check(asked);
    net.run(SECOND);
    assert_eq!(net.end.unanswered_since(), Some(asked));
    net.is_relay_dead = false;
    net.run(SECOND);
    assert_eq!(net.end.unanswered_since(), None);
}

/// By a TLS stream, while UDP is blocked.
#[test]
fn an_end_that_has_registered_elsewhere_takes_over_once_its_questions_are_answered() {
    let mut net = Net::registered();
    net.is_relay_dead = true;
    let (now, registered) = (net.now(), net.sent(KIND_REGISTER));
    net.end.handle_superseded(now);
    net.run(10 * SECOND);
    assert_eq!(net.outputs, [Output::Lost]);
    assert_eq!(net.end.relay(), None);
    assert_eq!(net.sent(KIND_REGISTER), registered);
    net.is_relay_dead = false;
    net.run(ASK_AGAIN_MOST);
    assert_eq!(net.end.relay(), Some(relay_at()));
}

#[test]
fn an_end_whose_nat_moved_it_registers_again() {
    let mut net = Net::registered();
    net.nat = mapped(2_000);
    net.run(REFRESH_EVERY + 2 * SECOND);
    let address = net.nat;
    let by = relay_at();
    assert!(
        net.outputs.contains(&Output::Mapped { by, address }),
        "{:?}",
        net.outputs
    );
    assert!(!net.outputs.contains(&Output::Lost));
    let forwarded = net.world.one(net.nat, &crate::world::data(1, 64));
    assert_eq!(forwarded[0].to, gateway_at());
}

#[test]
fn an_end_registers_again_at_a_relay_that_started_anew() {
    let mut net = Net::registered();
    let now = net.world.now;
    net.world = World::new();
    net.world.now = now;
    net.run(REFRESH_EVERY + 2 * SECOND);
    assert_eq!(net.world.relay.clients(), 1);
}

#[test]
fn strangers_make_an_end_register_once_a_second_at_most() {
    let mut net = Net::registered();
    let unknown = Unknown::to(&[4; 64]).unwrap().encode();
    for _ in 0..1_000 {
        let now = net.now();
        net.end.handle_datagram(relay_at(), &unknown, now);
        net.run(Duration::from_millis(1));
    }
    assert!(net.sent[1] <= 1 + 21, "{}", net.sent[1]);
    // From another address it is nothing for this registration.
    let now = net.now();
    assert!(!net.end.handle_datagram(mapped(9), &unknown, now));
}

#[test]
fn a_refused_end_waits_and_tries_another_permission_at_once() {
    let mut net = Net::new();
    net.world.relay.set_draining(true);
    net.run(SECOND);
    let refused = Output::Refused(RefusalReason::Draining);
    assert_eq!(net.outputs.last(), Some(&refused));
    let registrations = net.sent(KIND_REGISTER);
    net.run(REFUSED_FOR / 2);
    assert_eq!(net.sent(KIND_REGISTER), registrations);
    net.world.relay.set_draining(false);
    net.run(REFUSED_FOR);
    assert_eq!(net.end.relay(), Some(relay_at()));

    let now = net.world.now.unix;
    net.world
        .relay
        .withdraw(net.claims.gateway, net.claims.client, net.claims.iat, now);
    net.run(REFRESH_EVERY + 2 * SECOND);
    let outdated = Output::Refused(RefusalReason::Outdated);
    assert!(net.outputs.contains(&outdated), "{:?}", net.outputs);
    let renewed = net.world.claims(Some(client(1)));
    let now = net.now();
    net.end.set_permission(permission(&renewed), now);
    net.run(SECOND);
    assert_eq!(net.world.relay.clients(), 1);
}

#[test]
fn a_renewed_token_keeps_an_end_registered_past_the_first() {
    let mut net = Net::registered();
    for _ in 0..6 {
        net.run(Duration::from_secs(1_800));
        let renewed = net.world.claims(Some(client(1)));
        let now = net.now();
        net.end.set_permission(permission(&renewed), now);
    }
    net.run(SECOND);
    assert!(!net.outputs.contains(&Output::Lost));
    assert_eq!(net.world.relay.clients(), 1);
}

#[test]
fn without_another_token_the_registration_ends_with_the_token() {
    let mut net = Net::registered();
    net.run(Duration::from_secs(3_600));
    assert!(net.outputs.contains(&Output::Lost));
    assert_eq!(
        net.outputs.last(),
        Some(&Output::Refused(RefusalReason::Expired))
    );
}

#[test]
fn forged_answers_change_nothing() {
    let mut net = Net::new();
    net.lost = vec![KIND_REGISTER];
    net.run(Duration::from_millis(300));
    // A registration is on its way; its transaction is known to nobody else.
    let mut other = World::new();
    let transaction = other.transaction();
    let forged = Refused {
        transaction,
        reason: RefusalReason::Token,
    };
    let now = net.now();
    assert!(!net.end.handle_datagram(relay_at(), &forged.encode(), now));
    let by_stranger = culvert_relay_core::message::Registered::new(transaction, 600, &[0; 32]);
    assert!(
        !net.end
            .handle_datagram(relay_at(), &by_stranger.encode(), now)
    );
    net.lost.clear();
    net.run(6 * SECOND);
    assert_eq!(net.end.relay(), Some(relay_at()));
}

#[test]
fn a_network_that_sends_everything_back_registers_nobody() {
    let mut net = Net::new();
    net.is_relay_dead = true;
    for _ in 0..100 {
        let mut echoes = Vec::new();
        while let Some(output) = net.end.poll_output() {
            if let Output::Send { datagram, .. } = output {
                echoes.push(datagram);
            }
        }
        let now = net.now();
        for echo in echoes {
            assert!(!net.end.handle_datagram(relay_at(), echo.as_bytes(), now));
        }
        net.run(SECOND);
    }
    assert_eq!(net.end.relay(), None);
}

#[test]
fn the_token_is_opaque_on_the_wire() {
    let mut world = World::new();
    let claims = world.claims(Some(client(1)));
    let cookie = world.cookie(mapped(1));
    let transaction = world.transaction();
    let datagram = registration(transaction, cookie, &claims);
    let Some(Message::Register(register)) = Message::parse(&datagram) else {
        panic!("it is a registration");
    };
    assert!(register.token.starts_with("v4.local."));
    let relay = RELAY.to_string();
    assert!(!String::from_utf8_lossy(&datagram).contains(&relay));
    assert!(!register.is_by(PresharedKey::NONE.as_bytes()));
}

proptest! {
    #[test]
    fn whatever_a_liar_answers_changes_nothing(
        kind in 0_u8..12,
        len in proptest::sample::select(vec![12, 21, 28, 36, 38, 64, 200]),
        bytes in proptest::collection::vec(any::<u8>(), 200),
    ) {
        let mut net = Net::new();
        net.is_relay_dead = true;
        net.run(SECOND);
        let mut datagram = bytes;
        datagram[..4].copy_from_slice(&[b'C', b'V', b'R', kind]);
        datagram.truncate(len);
        let now = net.now();
        prop_assert!(!net.end.handle_datagram(relay_at(), &datagram, now));
        net.run(SECOND);
        prop_assert_eq!(&net.outputs, &[]);
    }
}
