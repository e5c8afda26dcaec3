//! Messages that come together: many grants, and what the portal says behind them.

use crate::play::{Play, claims, filters, found, grant_id, name_claims, resource_id, wanted};
use culvert_gateway_core::Output;
use culvert_ids::{ClientId, GrantId};
use culvert_policy::gate::DropReason;
use culvert_wire::messages::{FromGateway, PortalSet, ReasonCode, ToGateway};
use culvert_wire::{GrantClaims, PublicKey};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Grants that come into force in one turn.
const TURN: usize = 128;

/// A grant of client `number`, another one for each number.
fn of_many(number: u16) -> GrantClaims {
    let [high, low] = number.to_be_bytes();
    let mut id = [0xEE; 16];
    id[14..].copy_from_slice(&[high, low]);
    let mut key = [0xEE; 32];
    key[..2].copy_from_slice(&[high, low]);
    GrantClaims {
        grant: GrantId::from_bytes(id),
        client: ClientId::from_bytes(id),
        client_key: PublicKey::from_bytes(key),
        client_ipv4: Ipv4Addr::new(100, 65, high, low),
        client_ipv6: Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0, 0, 0, 2, number),
        ..claims(1, 1, 9)
    }
}

fn accepted(play: &mut Play) -> Vec<GrantId> {
    play.take_accepted().into_iter().map(|(id, _)| id).collect()
}

fn offers(play: &Play, numbers: std::ops::Range<u16>) -> Vec<ToGateway> {
    let messages = numbers.map(|number| play.grant_message(&of_many(number), None, &[]));
    messages.collect()
}

/// Carries out what waits, and counts the changes of the data plane.
fn changes(play: &mut Play) -> usize {
    let mut changes = 0;
    let mut accepted_before = false;
    while let Some(output) = play.gateway.poll_output() {
        match output {
            Output::Engine { peers, table } => {
                assert!(
                    !accepted_before,
                    "a grant is in force before its acceptance"
                );
                assert!(!peers.is_empty());
                play.table = table;
                changes += 1;
            }
            Output::ToPortal(message) => {
                accepted_before |= matches!(message, FromGateway::GrantAccepted { .. });
                play.said.push(message);
            }
            _ => {}
        }
    }
    changes
}

#[test]
fn grants_that_come_together_are_one_change_of_the_data_plane() {
    let mut play = Play::open();
    let messages = offers(&play, 0..100);
    play.tell_together(messages);
    assert_eq!(changes(&mut play), 1);
    let expected: Vec<GrantId> = (0..100).map(|number| of_many(number).grant).collect();
    assert_eq!(accepted(&mut play), expected, "in their order");
    assert_eq!(play.table.client_count(), 100);
}

#[test]
fn of_many_grants_some_come_into_force_in_each_turn() {
    let mut play = Play::open();
    let messages = offers(&play, 0..300);
    play.tell_together(messages);
    for (left, count) in [(172, TURN), (44, TURN), (0, 44)] {
        assert_eq!(play.gateway.waiting_grants(), left);
        assert_eq!(changes(&mut play), 1);
        assert_eq!(accepted(&mut play).len(), count);
        if left > 0 {
            let due = play.gateway.poll_timeout();
            assert!(
                due.is_some_and(|due| due <= play.now()),
                "the next turn is due"
            );
            play.gateway.handle_timeout(play.now());
        }
    }
    assert_eq!(play.gateway.grants().count(), 300);
    assert!(
        play.gateway
            .poll_timeout()
            .is_some_and(|due| due > play.now())
    );
}

#[test]
fn a_revocation_is_not_behind_the_grants_that_came_before_it() {
    let mut play = Play::open();
    play.grant(&claims(1, 5, 9));
    play.assert_accepted(1);
    let mut messages = offers(&play, 0..200);
    messages.push(ToGateway::Revoke { grant: grant_id(1) });
    let last = of_many(199).grant;
    messages.push(ToGateway::Revoke { grant: last });
    play.tell_together(messages);
    play.execute();
    assert_eq!(play.send(5, "10.0.9.1:53"), Err(DropReason::NoGrant));
    assert_eq!(accepted(&mut play).len(), TURN);
    play.pass(1_000);
    let rest = accepted(&mut play);
    assert_eq!(rest.len(), 200 - TURN - 1);
    assert!(!rest.contains(&last), "it was taken back before its turn");
    assert_eq!(play.gateway.grants().count(), 199);
}

#[test]
fn filters_that_change_while_a_grant_waits_are_those_that_it_has() {
    let mut play = Play::open();
    let mut messages = offers(&play, 0..TURN as u16);
    messages.push(play.grant_message(&claims(1, 5, 9), None, &[]));
    messages.push(play.grant_message(&claims(2, 5, 8), None, &[]));
    messages.push(ToGateway::FiltersChanged {
        resource: resource_id(9),
        inbound: Vec::new().into(),
        filters: filters(r#"[{"protocol":"udp","ports":[53]}]"#),
    });
    play.tell_together(messages);
    assert_eq!(play.gateway.waiting_grants(), 2);
    play.execute();
    play.pass(0);
    play.assert_reaches(5, "10.0.9.1:53");
    assert_eq!(play.send(5, "10.0.9.1:54"), Err(DropReason::Port));
    play.assert_reaches(5, "10.0.8.1:54");
}

#[test]
fn a_grant_whose_answer_others_wait_for_is_answered_at_its_turn() {
    let mut play = Play::open();
    let mut messages = offers(&play, 0..TURN as u16);
    let names = [wanted("a.example", 1), wanted("b.example", 2)];
    let by_name = name_claims(1, 5, 9, "*.example");
    messages.push(play.grant_message(&by_name, None, &names));
    messages.push(ToGateway::AnswerNow { grant: grant_id(1) });
    play.tell_together(messages);
    play.execute();
    accepted(&mut play);
    play.pass(0);
    play.assert_accepted(1);
    // Without that word it waits for the DNS.
    play.grant_with(
        &name_claims(2, 5, 8, "*.other.example"),
        None,
        &[wanted("a.other.example", 3)],
    );
    assert_eq!(accepted(&mut play), []);
    play.resolved("a.other.example", found(&["10.0.0.9"]));
    play.assert_accepted(2);
}

#[test]
fn a_grant_that_is_offered_again_while_it_waits_is_answered_once() {
    let mut play = Play::open();
    let mut messages = offers(&play, 0..TURN as u16);
    messages.extend(offers(&play, 500..501));
    messages.extend(offers(&play, 500..501));
    play.tell_together(messages);
    assert_eq!(play.gateway.waiting_grants(), 1);
    play.execute();
    play.pass(0);
    assert_eq!(accepted(&mut play).len(), TURN + 1);
}

#[test]
fn a_renewal_beside_the_grant_that_it_replaces_leaves_one_of_them() {
    let mut play = Play::open();
    let messages = [
        play.grant_message(&claims(1, 5, 9), None, &[]),
        ToGateway::PortalsSet {
            portals: PortalSet {
                urls: vec!["https://portal.example".to_owned()],
                ..PortalSet::default()
            },
        },
        play.grant_message(&claims(2, 5, 9), Some(grant_id(1)), &[]),
    ];
    play.tell_together(messages);
    play.execute();
    play.assert_accepted(2);
    play.assert_refused(1, ReasonCode::BadGrant, "taken its place");
    assert_eq!(play.gateway.grants().collect::<Vec<_>>(), [grant_id(2)]);
}

#[test]
fn other_messages_between_grants_do_not_make_an_acceptance_early() {
    let mut play = Play::open();
    let urls = vec!["https://portal.example".to_owned()];
    let portals = PortalSet {
        urls,
        ..PortalSet::default()
    };
    let mut messages = offers(&play, 0..1);
    // Nothing of it can be handled later than the rest: the first grant is put in force while the last one is read.
    messages.push(ToGateway::PortalsSet { portals });
    messages.extend(offers(&play, 1..2));
    play.tell_together(messages);
    assert_eq!(changes(&mut play), 1);
    assert_eq!(accepted(&mut play).len(), 2);
}

#[test]
fn grants_that_wait_end_with_their_session() {
    let mut play = Play::open();
    let messages = offers(&play, 0..140);
    play.tell_together(messages);
    play.execute();
    assert_eq!(play.gateway.waiting_grants(), 140 - TURN);
    play.disconnect();
    assert_eq!(play.gateway.waiting_grants(), 0);
    assert_eq!(play.gateway.grants().count(), TURN, "those in force stay");
}
