//! The troubles with relays that people are told.

use culvert_base::{BootTime, PresharedKey};
use culvert_ids::RelayId;
use culvert_path::{RelayGrant, Relays, RelaysOutput};
use culvert_relay_core::Message;
use culvert_relay_core::mac::Mac;
use culvert_relay_core::message::{Challenge, RefusalReason, Refused, Registered};
use culvert_relay_core::registration::{Permission, REFUSED_FOR};
use std::net::SocketAddr;

const KEY: [u8; 32] = [3; 32];

fn relay() -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 1], 3_479))
}

fn grant(token: &str) -> RelayGrant {
    RelayGrant {
        relay: RelayId::from_bytes([1; 16]),
        addresses: vec![relay()],
        tls: None,
        permission: Permission {
            token: token.to_owned(),
            key: PresharedKey::from_bytes(KEY),
        },
    }
}

/// Answers all that the end sends: a registration with a refusal for this reason, or without one.
fn answer(relays: &mut Relays<char>, reason: Option<RefusalReason>, now: BootTime) {
    while let Some(output) = relays.poll_output() {
        let RelaysOutput::Send { datagram, to } = output else {
            continue;
        };
        let answer = match Message::parse(&datagram) {
            Some(Message::Ask(ask)) => Challenge {
                transaction: ask.transaction,
                cookie: Mac::from_bytes([1; 16]),
                mapped: to,
            }
            .encode()
            .to_vec(),
            Some(Message::Register(register)) => {
                let transaction = register.transaction;
                match reason {
                    Some(reason) => Refused {
                        transaction,
                        reason,
                    }
                    .encode()
                    .to_vec(),
                    None => Registered::new(transaction, 3_600, &KEY).encode().to_vec(),
                }
            }
            other => panic!("nothing for a relay: {other:?}"),
        };
        assert!(relays.handle_datagram(to, &answer, now));
    }
}

#[test]
fn a_relay_that_refuses_is_a_trouble_with_its_fix_until_it_registers_the_end() {
    let mut relays = Relays::new([1; 32]);
    let mut now = BootTime::from_millis(1_000_000);
    relays.set('a', vec![grant("v4.local.abc")], now);
    assert_eq!(relays.troubles().count(), 0);
    answer(&mut relays, Some(RefusalReason::Expired), now);
    let problem = |relays: &Relays<char>| {
        let mut problems = relays
            .troubles()
            .map(|(_, trouble)| trouble.problem("fra-1"));
        problems.next().flatten()
    };
    let told = problem(&relays).unwrap();
    let begin = "relay fra-1 refuses this machine: the token has expired, or its issue lies in the future; ";
    assert!(told.starts_with(begin), "{told}");
    assert!(told.contains("timedatectl set-ntp true"), "{told}");

    // It asks again by itself.
    now = now.saturating_add(REFUSED_FOR);
    relays.handle_timeout(now);
    answer(&mut relays, Some(RefusalReason::Expired), now);
    assert_eq!(problem(&relays), Some(told));
    now = now.saturating_add(REFUSED_FOR);
    relays.handle_timeout(now);
    answer(&mut relays, None, now);
    assert_eq!(problem(&relays), None);

    // The refusal of an earlier token says nothing about the next one.
    relays.set('b', vec![grant("v4.local.abc")], now);
    answer(&mut relays, Some(RefusalReason::Full), now);
    assert!(problem(&relays).is_some_and(|told| told.ends_with("; add a relay")));
    relays.set('b', vec![grant("v4.local.def")], now);
    assert_eq!(problem(&relays), None);
}

#[test]
fn a_refusal_that_passes_by_itself_is_no_problem() {
    let mut relays = Relays::new([1; 32]);
    let now = BootTime::from_millis(1_000_000);
    relays.set('a', vec![grant("v4.local.abc")], now);
    answer(&mut relays, Some(RefusalReason::Draining), now);
    let (_, trouble) = relays.troubles().next().unwrap();
    assert_eq!(trouble.problem("fra-1"), None);
}
