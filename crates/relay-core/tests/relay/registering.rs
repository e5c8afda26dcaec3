//! Registrations: who counts, and who does not.

use crate::world::{
    GATEWAY, PORT, PORTAL_KEY, RELAY, Sent, World, answer, client, client_at, data, gateway_at,
    initiation, registration, settings, signed, token, token_by,
};
use culvert_base::PresharedKey;
use culvert_ids::{GatewayId, RelayId};
use culvert_relay_core::cookie::SECRET_LIFETIME;
use culvert_relay_core::message::{Ask, Message, RefusalReason};
use culvert_relay_core::relay::{DropReason, REFUSALS_PER_S, Run, SILENT_FOR};
use culvert_relay_core::{CLOCK_SKEW, MAX_KEYS, TOKEN_LIFETIME_MOST};
use culvert_wire::Timestamp;
use culvert_wire::messages::RelayClaims;
use proptest::prelude::*;
use std::time::Duration;

const TEN_MINUTES: Duration = Duration::from_secs(600);
const SECOND: Duration = Duration::from_secs(1);

fn of_client(world: &World) -> RelayClaims {
    world.claims(Some(client(1)))
}

#[test]
fn a_gateway_and_its_client_register() {
    let world = World::populated([1]);
    assert_eq!((world.relay.gateways(), world.relay.clients()), (1, 1));
    let assigned: Vec<_> = world.relay.assigned().collect();
    assert_eq!(assigned.len(), 1);
    assert_eq!((assigned[0].port, assigned[0].gateway), (PORT, GATEWAY));
}

#[test]
fn nothing_is_stored_before_a_cookie_came_back() {
    let mut world = World::new();
    for number in 0..=255 {
        let source = client_at(number);
        world.cookie(source);
        let claims = of_client(&world);
        let transaction = world.transaction();
        let other = world.cookie(gateway_at());
        let refused = world.one(source, &registration(transaction, other, &claims));
        assert_eq!(answer(&refused), Err(RefusalReason::Cookie));
    }
    assert_eq!((world.relay.gateways(), world.relay.clients()), (0, 0));
    assert_eq!(world.relay.assigned().count(), 0);
}

#[test]
fn a_cookie_counts_at_its_port_and_for_four_minutes_at_most() {
    let mut world = World::new();
    let claims = of_client(&world);
    let cookie = world.cookie(client_at(1));
    let transaction = world.transaction();
    let datagram = registration(transaction, cookie, &claims);
    let at_other = world.receive_at(1, client_at(1), &datagram, datagram.len());
    assert_eq!(answer(&at_other), Err(RefusalReason::Cookie));
    world.pass(2 * SECRET_LIFETIME);
    let late = world.one(client_at(1), &datagram);
    assert_eq!(answer(&late), Err(RefusalReason::Cookie));
}

#[test]
fn a_forged_registration_is_refused() {
    let mut world = World::new();
    let claims = of_client(&world);
    let cookie = world.cookie(client_at(1));
    let transaction = world.transaction();
    // A token of somebody else's key, and a proof by another key than the token names.
    let forged = token_by(&[7; 32], &claims);
    let by_other = signed(transaction, cookie, &forged, claims.key.as_bytes());
    let stolen = signed(transaction, cookie, &token(&claims), &[8; 32]);
    for datagram in [by_other, stolen] {
        let refused = world.one(client_at(1), &datagram);
        assert_eq!(answer(&refused), Err(RefusalReason::Token));
    }
    assert_eq!(world.relay.clients(), 0);
    let counters = world.relay.counters();
    assert_eq!(counters.refused_for(RefusalReason::Token), 2);
}

#[test]
fn a_truncated_registration_registers_nobody() {
    let mut world = World::new();
    let claims = of_client(&world);
    let cookie = world.cookie(client_at(1));
    let transaction = world.transaction();
    let datagram = registration(transaction, cookie, &claims);
    for len in 0..datagram.len() {
        world.one(client_at(1), &datagram[..len]);
        assert_eq!(world.relay.clients(), 0, "{len} bytes");
    }
}

#[test]
fn a_token_for_another_relay_or_port_is_refused() {
    let mut world = World::new();
    let mut other_relay = of_client(&world);
    other_relay.relay = RelayId::from_bytes([77; 16]);
    let mut other_port = of_client(&world);
    other_port.port = PORT + 1;
    for claims in [other_relay, other_port] {
        let refused = world.register(client_at(1), &claims);
        assert_eq!(refused, Err(RefusalReason::OtherRelay));
    }
}

#[test]
fn clocks_may_differ_by_a_minute() {
    let mut world = World::new();
    let mut claims = of_client(&world);
    claims.iat = Timestamp::from(world.now.unix.saturating_add(CLOCK_SKEW));
    assert!(world.register(client_at(1), &claims).is_ok());
    let later = world.now.unix.saturating_add(CLOCK_SKEW + SECOND);
    claims.iat = Timestamp::from(later);
    let refused = world.register(client_at(1), &claims);
    assert_eq!(refused, Err(RefusalReason::Expired));
}

#[test]
fn an_expired_token_is_refused_and_ends_its_registration() {
    let mut world = World::new();
    let mut claims = of_client(&world);
    claims.exp = Timestamp::from(world.now.unix.saturating_add(10 * SECOND));
    world.register(client_at(1), &claims).unwrap();
    world.pass(9 * SECOND);
    assert_eq!(world.relay.clients(), 1);
    world.pass(SECOND);
    assert_eq!(world.relay.clients(), 0);
    let refused = world.register(client_at(1), &claims);
    assert_eq!(refused, Err(RefusalReason::Expired));
}

#[test]
fn a_token_counts_two_hours_whatever_it_says() {
    let mut world = World::new();
    let mut claims = of_client(&world);
    let much_later = world.now.unix.saturating_add(10 * TOKEN_LIFETIME_MOST);
    claims.exp = Timestamp::from(much_later);
    world.pass(TOKEN_LIFETIME_MOST);
    let refused = world.register(client_at(1), &claims);
    assert_eq!(refused, Err(RefusalReason::Expired));
}

#[test]
fn a_machine_that_moved_registers_again_with_the_same_token() {
    let mut world = World::populated([1]);
    let claims = of_client(&world);
    world.register(client_at(9), &claims).unwrap();
    assert_eq!(world.relay.clients(), 1);
    let old = world.one(client_at(1), &data(1, 64));
    assert!(matches!(
        Message::parse(&old[0].bytes),
        Some(Message::Unknown(_))
    ));
    let forwarded = world.one(client_at(9), &data(1, 64));
    assert_eq!(forwarded[0].to, gateway_at());
}

#[test]
fn records_behind_a_registration_in_the_same_batch_are_forwarded() {
    let mut world = World::new();
    world.register(gateway_at(), &world.claims(None)).unwrap();
    let claims = of_client(&world);
    let cookie = world.cookie(client_at(1));
    let transaction = world.transaction();
    let registration = registration(transaction, cookie, &claims);
    // GRO makes one batch of both: the last datagram of a batch may be shorter.
    let first = initiation(5);
    assert!(first.len() <= registration.len());
    let batch = [&registration[..], &first[..]].concat();
    let sent = world.receive(client_at(1), &batch, registration.len());
    let forwarded: Vec<_> = sent.iter().filter(|sent| sent.to == gateway_at()).collect();
    assert_eq!(forwarded.len(), 1, "{sent:?}");
    assert_eq!(forwarded[0].bytes, first);
    let answers: Vec<_> = sent
        .into_iter()
        .filter(|sent| sent.to == client_at(1))
        .collect();
    assert_eq!(answer(&answers), Ok(()));
}

#[test]
fn of_two_registrations_the_later_issue_wins() {
    let mut world = World::new();
    let early = of_client(&world);
    world.pass(SECOND);
    let late = of_client(&world);
    world.register(client_at(2), &late).unwrap();
    let refused = world.register(client_at(1), &early);
    assert_eq!(refused, Err(RefusalReason::Outdated));
    assert!(world.register(client_at(3), &late).is_ok());
}

#[test]
fn a_registration_that_is_replayed_moves_nobody_back() {
    let mut world = World::new();
    world.register(gateway_at(), &world.claims(None)).unwrap();
    let claims = of_client(&world);
    let cookie = world.cookie(client_at(1));
    let transaction = world.transaction();
    let first = registration(transaction, cookie, &claims);
    assert_eq!(answer(&world.one(client_at(1), &first)), Ok(()));
    world.register(client_at(2), &claims).unwrap();
    let replayed = world.one(client_at(1), &first);
    assert_eq!(answer(&replayed), Err(RefusalReason::Outdated));
    let forwarded = world.one(client_at(2), &data(1, 64));
    assert_eq!(forwarded[0].to, gateway_at());
}

#[test]
fn a_registration_whose_answer_was_lost_is_answered_again() {
    let mut world = World::new();
    let claims = of_client(&world);
    let cookie = world.cookie(client_at(1));
    let transaction = world.transaction();
    let datagram = registration(transaction, cookie, &claims);
    for _ in 0..20 {
        assert_eq!(answer(&world.one(client_at(1), &datagram)), Ok(()));
    }
    assert_eq!(world.relay.clients(), 1);
}

#[test]
fn an_end_registers_sixteen_times_at_once_and_then_every_5_s() {
    let mut world = World::new();
    let claims = of_client(&world);
    for number in 1..=16 {
        assert!(world.register(client_at(number), &claims).is_ok());
    }
    let refused = world.register(client_at(17), &claims);
    assert_eq!(refused, Err(RefusalReason::TooOften));
    world.pass(5 * SECOND);
    assert!(world.register(client_at(17), &claims).is_ok());
}

#[test]
fn a_registration_that_is_replayed_moves_nobody_back_while_its_cookie_counts_however_often_the_end_registers()
 {
    let mut world = World::new();
    let claims = of_client(&world);
    let cookie = world.cookie(client_at(1));
    let transaction = world.transaction();
    let first = registration(transaction, cookie, &claims);
    assert_eq!(answer(&world.one(client_at(1), &first)), Ok(()));
    let mut number = 2;
    // Four minutes, which is the most that a cookie counts, in steps that no rate of registrations fits.
    for _ in 0..240 {
        while world.register(client_at(number), &claims).is_ok() {
            number += 1;
        }
        let replayed = world.one(client_at(1), &first);
        // Once the cookie is void, the sender is asked for another one.
        if let Some(answered) = replayed
            .first()
            .and_then(|sent| Message::parse(&sent.bytes))
            && matches!(answered, Message::Challenge(_))
        {
            break;
        }
        assert!(answer(&replayed).is_err(), "{number} registrations");
        world.pass(SECOND);
    }
    assert!(number > 20, "{number}");
}

#[test]
fn an_end_without_a_sign_of_life_leaves_after_a_minute() {
    let mut world = World::new();
    let claims = of_client(&world);
    let transaction = world.register(client_at(1), &claims).unwrap();
    world.pass(SILENT_FOR - SECOND);
    let alive = world.refresh(client_at(1), &claims, transaction, 1);
    assert!(matches!(
        Message::parse(&alive[0].bytes),
        Some(Message::Refreshed(_))
    ));
    world.pass(SILENT_FOR - SECOND);
    assert_eq!(world.relay.clients(), 1);
    world.pass(SECOND);
    assert_eq!(world.relay.clients(), 0);
    let unknown = world.refresh(client_at(1), &claims, transaction, 2);
    assert!(matches!(
        Message::parse(&unknown[0].bytes),
        Some(Message::Unknown(_))
    ));
}

#[test]
fn a_sign_of_life_that_is_forged_or_replayed_is_none() {
    let mut world = World::new();
    let claims = of_client(&world);
    let transaction = world.register(client_at(1), &claims).unwrap();
    assert_eq!(
        world.refresh(client_at(1), &claims, transaction, 5).len(),
        1
    );
    assert_eq!(world.refresh(client_at(1), &claims, transaction, 5), []);
    assert_eq!(world.refresh(client_at(1), &claims, transaction, 4), []);
    let mut other = claims.clone();
    other.key = PresharedKey::from_bytes([3; 32]);
    assert_eq!(world.refresh(client_at(1), &other, transaction, 6), []);
    // Signs of life of the registration before count no more.
    world.register(client_at(1), &claims).unwrap();
    assert_eq!(world.refresh(client_at(1), &claims, transaction, 7), []);
    let counters = world.relay.counters();
    assert_eq!(counters.dropped_for(DropReason::ReplayedRefresh), 2);
    assert_eq!(counters.dropped_for(DropReason::ForgedRefresh), 2);
}

#[test]
fn a_withdrawn_end_leaves_and_its_token_counts_no_more() {
    let mut world = World::populated([1, 2]);
    let claims = of_client(&world);
    let (of_client_1, now) = (Some(client(1)), world.now.unix);
    world.relay.withdraw(GATEWAY, of_client_1, claims.iat, now);
    assert_eq!((world.relay.gateways(), world.relay.clients()), (1, 1));
    let refused = world.register(client_at(1), &claims);
    assert_eq!(refused, Err(RefusalReason::Outdated));
    world.pass(SECOND);
    let later = of_client(&world);
    assert!(world.register(client_at(1), &later).is_ok());
    let now = world.now.unix;
    world.relay.withdraw(GATEWAY, None, later.iat, now);
    assert_eq!((world.relay.gateways(), world.relay.clients()), (0, 0));
}

#[test]
fn a_withdrawal_after_the_portals_clock_was_set_back_concerns_tokens_of_before() {
    let mut world = World::populated([1]);
    let before = of_client(&world);
    // The relay connects to the portal anew, and hears an earlier time.
    world.now.unix = world.now.unix.saturating_sub(Duration::from_secs(600));
    world.pass(SECOND);
    assert_eq!(
        world.relay.clients(),
        1,
        "it stays while nothing is withdrawn"
    );
    let (now, until) = (world.now.unix, Timestamp::from(world.now.unix));
    world.relay.withdraw(GATEWAY, Some(client(1)), until, now);
    assert_eq!((world.relay.gateways(), world.relay.clients()), (1, 0));
    let refused = world.register(client_at(1), &before);
    assert_eq!(refused, Err(RefusalReason::Expired));

    // A token of after the withdrawal counts, also by a clock that is some seconds behind the portal's.
    world.now.unix = world.now.unix.saturating_sub(2 * SECOND);
    let mut later = of_client(&world);
    later.iat = Timestamp::from(world.now.unix.saturating_add(3 * SECOND));
    assert!(world.register(client_at(1), &later).is_ok());
    let now = world.now.unix;
    world.relay.withdraw(GATEWAY, Some(client(1)), until, now);
    assert_eq!(world.relay.clients(), 1);
}

/// The portal comes back with a clock that is ten minutes behind, and with another key of tokens.
fn set_back(world: &mut World) -> [u8; 32] {
    const NEXT_KEY: [u8; 32] = [43; 32];
    world.now.unix = world.now.unix.saturating_sub(TEN_MINUTES);
    let key = PresharedKey::from_bytes(NEXT_KEY);
    world.relay.set_identity(RELAY, &key);
    NEXT_KEY
}

#[test]
fn a_token_that_was_made_after_a_withdrawal_counts_though_the_portals_clock_was_set_back_between() {
    let mut world = World::populated([1]);
    let before = of_client(&world);
    let (of_client_1, now) = (Some(client(1)), world.now.unix);
    world.relay.withdraw(GATEWAY, of_client_1, before.iat, now);
    let key = set_back(&mut world);
    let after = of_client(&world);
    assert!(after.iat < before.iat);
    assert!(world.register_by(&key, client_at(1), &after).is_ok());
    // And those of after the next withdrawal, but not the one of before it.
    let now = world.now.unix;
    world.relay.withdraw(GATEWAY, of_client_1, after.iat, now);
    let refused = world.register_by(&key, client_at(1), &after);
    assert_eq!(refused, Err(RefusalReason::Outdated));
    world.pass(SECOND);
    let last = of_client(&world);
    assert!(world.register_by(&key, client_at(1), &last).is_ok());
}

#[test]
fn a_token_of_an_earlier_key_is_withdrawn_though_it_is_dated_later() {
    let mut world = World::populated([1]);
    let before = of_client(&world);
    set_back(&mut world);
    let (now, until) = (world.now.unix, Timestamp::from(world.now.unix));
    world.relay.withdraw(GATEWAY, Some(client(1)), until, now);
    // By the portal's clock its issue is not in the future any more.
    world.pass(TEN_MINUTES);
    let refused = world.register(client_at(1), &before);
    assert_eq!(refused, Err(RefusalReason::Outdated));
}

#[test]
fn an_end_moves_with_a_token_of_a_later_key_though_it_is_dated_earlier() {
    let mut world = World::populated([1]);
    let key = set_back(&mut world);
    let claims = of_client(&world);
    assert!(world.register_by(&key, client_at(7), &claims).is_ok());
    assert_eq!(world.relay.clients(), 1);
    world.pass(SECOND);
    let mut other = world.claims(None);
    other.gateway = GatewayId::from_bytes([55; 16]);
    // The portal gave the port to another gateway after that.
    assert!(world.register_by(&key, client_at(9), &other).is_ok());
    assert_eq!((world.relay.gateways(), world.relay.clients()), (1, 0));
}

#[test]
fn a_draining_relay_takes_no_new_ends_and_keeps_those_it_has() {
    let mut world = World::populated([1]);
    world.relay.set_draining(true);
    let known = of_client(&world);
    assert!(world.register(client_at(3), &known).is_ok());
    let new = world.claims(Some(client(2)));
    let refused = world.register(client_at(2), &new);
    assert_eq!(refused, Err(RefusalReason::Draining));
    world.relay.set_draining(false);
    assert!(world.register(client_at(2), &new).is_ok());
}

#[test]
fn a_port_takes_as_many_clients_as_its_bound() {
    let mut few = settings();
    few.clients_per_port = 2;
    let mut world = World::with(few);
    for number in [1, 2] {
        let claims = world.claims(Some(client(number)));
        assert!(world.register(client_at(number), &claims).is_ok());
    }
    let claims = world.claims(Some(client(3)));
    assert_eq!(
        world.register(client_at(3), &claims),
        Err(RefusalReason::Full)
    );
    // The gateway has its own place.
    assert!(world.register(gateway_at(), &world.claims(None)).is_ok());
}

#[test]
fn another_gateway_takes_a_port_over_with_later_tokens_alone() {
    let mut world = World::populated([1]);
    let mut other = world.claims(None);
    other.gateway = GatewayId::from_bytes([55; 16]);
    let refused = world.register(client_at(9), &other);
    assert_eq!(refused, Err(RefusalReason::Outdated));
    world.pass(SECOND);
    other.iat = Timestamp::from(world.now.unix);
    assert!(world.register(client_at(9), &other).is_ok());
    assert_eq!((world.relay.gateways(), world.relay.clients()), (1, 0));
    let assigned: Vec<_> = world.relay.assigned().map(|it| it.gateway).collect();
    assert_eq!(assigned, [other.gateway]);
}

#[test]
fn an_address_that_a_nat_gave_to_another_end_belongs_to_that_one() {
    let mut world = World::populated([1]);
    let claims = world.claims(Some(client(2)));
    world.register(client_at(1), &claims).unwrap();
    assert_eq!(world.relay.clients(), 1);
}

#[test]
fn tokens_of_earlier_keys_count_until_there_are_too_many_keys() {
    let mut world = World::new();
    let claims = of_client(&world);
    for number in 1..MAX_KEYS as u8 {
        world
            .relay
            .set_identity(RELAY, &PresharedKey::from_bytes([number; 32]));
        assert!(world.register(client_at(1), &claims).is_ok());
    }
    // The same key again is no other one.
    world
        .relay
        .set_identity(RELAY, &PresharedKey::from_bytes([1; 32]));
    assert!(world.register(client_at(1), &claims).is_ok());
    world
        .relay
        .set_identity(RELAY, &PresharedKey::from_bytes([99; 32]));
    let refused = world.register(client_at(1), &claims);
    assert_eq!(refused, Err(RefusalReason::Token));
}

#[test]
fn another_identity_ends_all_registrations() {
    let mut world = World::populated([1]);
    let key = PresharedKey::from_bytes(PORTAL_KEY);
    world
        .relay
        .set_identity(RelayId::from_bytes([88; 16]), &key);
    assert_eq!((world.relay.gateways(), world.relay.clients()), (0, 0));
}

#[test]
fn refusals_and_answers_to_strangers_are_a_thousand_a_second() {
    let mut world = World::new();
    let mut told = 0;
    for _ in 0..5_000 {
        told += world.one(client_at(1), &data(1, 64)).len();
    }
    assert_eq!(told, REFUSALS_PER_S as usize);
    let limited = world.relay.counters().dropped_for(DropReason::RefusalLimit);
    assert_eq!(limited, 4_000);
    world.pass(SECOND);
    assert_eq!(world.one(client_at(1), &data(1, 64)).len(), 1);
}

#[test]
fn the_main_port_answers_questions_and_nothing_else() {
    let mut world = World::populated([1]);
    let transaction = world.transaction();
    let ask = Ask { transaction }.encode();
    let at_main = |world: &mut World, bytes: &[u8]| {
        let run = Run {
            source: client_at(1),
            local: None,
            bytes,
            stride: bytes.len(),
        };
        let decisions = world.relay.handle_main_run(3478, &run, world.now);
        assert_eq!(decisions.sends, []);
        decisions.replies.len()
    };
    assert_eq!(at_main(&mut world, &ask), 1);
    assert_eq!(at_main(&mut world, &data(1, 64)), 0);
    let cookie = world.cookie(client_at(1));
    let claims = of_client(&world);
    let register = registration(transaction, cookie, &claims);
    assert_eq!(at_main(&mut world, &register), 0);
}

fn total(sent: &[Sent]) -> usize {
    sent.iter().map(|sent| sent.bytes.len()).sum()
}

proptest! {
    #[test]
    fn an_answer_is_never_longer_than_its_question(
        kind in 0_u8..12,
        len in 0_usize..200,
        is_culvert in any::<bool>(),
        is_known in any::<bool>(),
    ) {
        let mut world = World::populated([1]);
        let head = if is_culvert { [b'C', b'V', b'R', kind] } else { [kind, 0, 0, 0] };
        let mut datagram = vec![0; 4 + len];
        datagram[..4].copy_from_slice(&head);
        let source = client_at(if is_known { 1 } else { 2 });
        let sent = world.one(source, &datagram);
        let back: Vec<Sent> = sent.into_iter().filter(|sent| sent.to == source).collect();
        prop_assert!(total(&back) <= datagram.len());
    }
}
