//! The session with the portal.

use culvert_base::{BootTime, PresharedKey, UnixTime};
use culvert_ids::{GatewayId, RelayId};
use culvert_relay_core::portal::{Ending, Machine, Output, PortalSession};
use culvert_wire::messages::{FromRelay, RelayLoad, ToRelay};
use culvert_wire::{PROTOCOL, Timestamp, encode};
use std::net::SocketAddr;

const RELAY: RelayId = RelayId::from_bytes([1; 16]);

fn at(millis: u64) -> BootTime {
    BootTime::from_millis(millis)
}

fn key() -> PresharedKey {
    PresharedKey::from_bytes([7; 32])
}

fn addresses(count: u16) -> Vec<SocketAddr> {
    (1..=count)
        .map(|port| SocketAddr::from(([192, 0, 2, 1], port)))
        .collect()
}

/// A session, and the number of the portal's last message.
struct Play {
    core: PortalSession,
    seq: u64,
}

impl Play {
    fn connected() -> Self {
        let machine = Machine {
            machine: "m-1".to_owned(),
            name: "relay".to_owned(),
            version: "1".to_owned(),
            first_port: 3479,
            ports: 64,
        };
        let mut core = PortalSession::new(machine, addresses(1), 5, at(0));
        core.handle_timeout(at(0));
        assert_eq!(core.poll_output(), Some(Output::Connect));
        core.handle_connected(UnixTime::from_millis(1_000_000), Vec::new(), at(1));
        let mut play = Self { core, seq: 0 };
        assert!(matches!(
            play.outputs()[..],
            [Output::ToPortal(FromRelay::Hello { .. })]
        ));
        play
    }

    fn welcomed() -> Self {
        let mut play = Self::connected();
        play.say(&welcome());
        let identity = Output::Identity {
            relay: RELAY,
            key: key(),
        };
        assert_eq!(play.outputs(), [identity, Output::Drain(false)]);
        play
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.core.poll_output()).collect()
    }

    fn say(&mut self, message: &ToRelay) {
        self.seq += 1;
        let text = encode(message);
        let sequenced = format!("{{\"epoch\":3,\"seq\":{},{}", self.seq, &text[1..]);
        self.core.handle_text(&sequenced, at(2));
    }
}

fn welcome() -> ToRelay {
    ToRelay::Welcome {
        protocol: PROTOCOL,
        relay: RELAY,
        key: key(),
        draining: false,
        portals: culvert_wire::messages::PortalSet::default(),
    }
}

#[test]
fn a_welcome_gives_the_relay_its_identity_and_key() {
    let play = Play::welcomed();
    assert_eq!(play.core.relay(), Some(RELAY));
    assert_eq!(play.core.not_ready(), None);
}

#[test]
fn a_message_before_the_welcome_ends_the_session() {
    let mut play = Play::connected();
    play.say(&ToRelay::Drain { on: true });
    assert_eq!(play.outputs(), [Output::Disconnect]);
    assert!(play.core.not_ready().is_some());
    assert!(play.core.poll_timeout().is_some(), "it tries again");
}

#[test]
fn a_missing_message_ends_the_session() {
    let mut play = Play::welcomed();
    play.seq += 1;
    play.say(&ToRelay::Drain { on: true });
    assert_eq!(play.outputs(), [Output::Disconnect]);
}

#[test]
fn a_second_welcome_is_refused() {
    let mut play = Play::welcomed();
    play.say(&welcome());
    assert_eq!(play.outputs(), [Output::Disconnect]);
}

#[test]
fn a_withdrawal_is_passed_on() {
    let mut play = Play::welcomed();
    let gateway = GatewayId::from_bytes([2; 16]);
    let until = Timestamp::from_unix_ms(10);
    play.say(&ToRelay::Withdraw {
        gateway,
        client: None,
        until,
    });
    let withdraw = Output::Withdraw {
        gateway,
        client: None,
        until,
    };
    assert_eq!(play.outputs(), [withdraw]);
}

#[test]
fn a_relay_drains_while_it_or_the_portal_wants_it() {
    let mut play = Play::welcomed();
    play.core.handle_drain(true);
    let draining = Output::ToPortal(FromRelay::Draining { on: true });
    assert_eq!(play.outputs(), [Output::Drain(true), draining]);
    play.say(&ToRelay::Drain { on: true });
    play.core.handle_drain(false);
    assert!(play.core.is_draining(), "the portal wants it still");
    play.outputs();
    play.say(&ToRelay::Drain { on: false });
    assert_eq!(play.outputs(), [Output::Drain(false)]);
}

#[test]
fn addresses_are_told_when_they_change_and_are_eight_at_most() {
    let mut play = Play::welcomed();
    play.core.handle_addresses(addresses(1));
    assert_eq!(play.outputs(), []);
    play.core.handle_addresses(addresses(20));
    let told = FromRelay::AddressesChanged {
        addresses: addresses(8),
    };
    assert_eq!(play.outputs(), [Output::ToPortal(told)]);
}

#[test]
fn a_refusal_for_good_ends_the_relay_and_another_does_not() {
    for (retry_after_s, code, is_end) in [
        (None, "revoked", true),
        (None, "bad_token", true),
        (Some(5), "revoked", false),
    ] {
        let mut play = Play::welcomed();
        let retry = retry_after_s.map_or(String::new(), |s| format!(",\"retry_after_s\":{s}"));
        let text = format!(
            "{{\"epoch\":3,\"seq\":2,\"type\":\"refused\",\"reason\":{{\"code\":\"{code}\",\"text\":\"no\"}}{retry}}}"
        );
        play.core.handle_text(&text, at(3));
        let outputs = play.outputs();
        let ended = outputs
            .iter()
            .any(|output| matches!(output, Output::End(_)));
        assert_eq!(ended, is_end, "{outputs:?}");
        assert_eq!(play.core.has_ended(), is_end);
    }
    let mut play = Play::connected();
    play.core.handle_unauthorized("401".to_owned(), at(3));
    let end = Output::End(Ending::NotEnrolled("401".to_owned()));
    assert_eq!(play.outputs().last(), Some(&end));
}

#[test]
fn the_load_is_told_while_the_session_is_open() {
    let mut play = Play::connected();
    play.core.handle_load(RelayLoad::default());
    assert_eq!(play.outputs(), []);
    let mut play = Play::welcomed();
    play.core.handle_load(RelayLoad::default());
    assert_eq!(play.outputs().len(), 1);
}

#[test]
fn a_portal_that_does_not_answer_is_given_up() {
    let mut play = Play::connected();
    let due = play.core.poll_timeout().unwrap();
    play.core.handle_timeout(due);
    assert_eq!(play.outputs(), [Output::Disconnect]);
}

#[test]
fn a_message_of_a_later_version_is_answered() {
    let mut play = Play::welcomed();
    play.core
        .handle_text("{\"epoch\":3,\"seq\":2,\"type\":\"poem\"}", at(3));
    let kind = "poem".to_owned();
    let unsupported = Output::ToPortal(FromRelay::Unsupported { kind });
    assert_eq!(play.outputs(), [unsupported]);
}
