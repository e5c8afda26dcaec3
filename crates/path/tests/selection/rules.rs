//! The rules one by one, at one end and without a network.

use crate::world::{ms, relay_id};
use culvert_base::{BootTime, PresharedKey};
use culvert_path::{
    Guard, KEEP_OPEN_EVERY, LEAVE_AFTER, RelayPath, SILENCE, SelectedPath, Selection,
    SelectionOutput,
};
use culvert_relay_core::Message;
use culvert_relay_core::probe::{AuthenticProbe, PairEnd, PairProbes};
use std::net::SocketAddr;

const START: BootTime = BootTime::from_nanos(1_000_000_000_000);

fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn direct() -> SocketAddr {
    at("192.0.2.1:51820")
}

fn other() -> SocketAddr {
    at("192.0.2.2:51820")
}

fn relay(number: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, 9], 3479 + number))
}

fn by_udp(number: usize, address: SocketAddr) -> RelayPath {
    RelayPath {
        relay: relay_id(number),
        address,
        by_tls: false,
    }
}

/// Through the TLS stream to a relay.
fn by_tls(number: usize) -> RelayPath {
    RelayPath {
        relay: relay_id(number),
        address: SocketAddr::from(([127, 0, 0, 1], 50_000 + number as u16)),
        by_tls: true,
    }
}

/// A client's end, and the gateway's probes.
struct Client {
    selection: Selection,
    gateway: PairProbes,
    now: BootTime,
}

impl Client {
    /// By the first of two relays.
    fn new() -> Self {
        let key = PresharedKey::from_bytes([1; 32]);
        let probes = |end| PairProbes::new(&key, end).unwrap();
        let client = probes(PairEnd::Client);
        let mut selection = Selection::new(client, PairEnd::Client, Guard::default(), 1);
        let relays = [0, 1].map(|number| by_udp(number, relay(number as u16)));
        selection.set_relays(&relays, &relays, START);
        selection.set_candidates(&[direct(), other()], START);
        selection.handle_endpoint(relay(0), START);
        let mut client = Self {
            selection,
            gateway: probes(PairEnd::Gateway),
            now: START,
        };
        client.probed();
        client
    }

    fn pass(&mut self, span: std::time::Duration) {
        let end = self.now.saturating_add(span);
        while let Some(due) = self.selection.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.selection.handle_timeout(self.now);
        }
        self.now = end;
    }

    fn outputs(&mut self) -> Vec<SelectionOutput> {
        std::iter::from_fn(|| self.selection.poll_output()).collect()
    }

    /// The addresses that are probed, and their nonces.
    fn probed(&mut self) -> Vec<(SocketAddr, [u8; 8])> {
        let outputs = self.outputs().into_iter();
        let probes = outputs.filter_map(|output| match output {
            SelectionOutput::Send { datagram, to } => {
                let message = Message::parse(&datagram)?;
                match self.gateway.open(&message)? {
                    AuthenticProbe::Question { nonce } => Some((to, nonce)),
                    AuthenticProbe::Answer { .. } => None,
                }
            }
            _ => None,
        });
        probes.collect()
    }

    fn answer(&mut self, nonce: [u8; 8], source: SocketAddr) {
        let answer = self.gateway.answer(nonce);
        let message = Message::parse(&answer).unwrap();
        assert!(self.selection.handle_message(&message, source, self.now));
    }

    /// The gateway answers the last probe that went to `to`.
    fn answer_at(&mut self, to: SocketAddr) -> Vec<SelectionOutput> {
        let probed = self.probed();
        let (_, nonce) = *probed.iter().rfind(|(address, _)| *address == to).unwrap();
        self.answer(nonce, to);
        self.outputs()
    }

    fn used(&self) -> SocketAddr {
        self.selection.path().unwrap().address
    }
}

/// By a direct path that was proven, with all that was asked answered.
fn settled() -> Client {
    let mut client = Client::new();
    client.pass(ms(200));
    let outputs = client.answer_at(direct());
    assert!(outputs.contains(&SelectionOutput::Use(direct())));
    client
}

#[test]
fn a_direct_path_is_used_as_soon_as_the_answer_comes_from_where_the_probe_went() {
    let mut client = Client::new();
    client.pass(ms(200));
    let probed = client.probed();
    let (_, nonce) = *probed.iter().rfind(|(to, _)| *to == direct()).unwrap();
    client.answer(nonce, other());
    assert_eq!(client.outputs(), []);
    client.pass(ms(35));
    client.answer(nonce, direct());
    let outputs = client.outputs();
    assert_eq!(
        outputs,
        [SelectionOutput::Use(direct()), SelectionOutput::Changed]
    );
    let path = client.selection.path();
    let expected = SelectedPath {
        address: direct(),
        relay: None,
        by_tls: false,
        round_trip: Some(ms(35)),
    };
    assert_eq!(path, Some(expected));
    // Once is enough.
    client.answer(nonce, direct());
    assert_eq!(client.outputs(), []);
}

#[test]
fn an_answer_that_is_older_than_three_seconds_proves_nothing() {
    let mut client = Client::new();
    client.pass(ms(200));
    let probed = client.probed();
    let (_, nonce) = *probed.iter().rfind(|(to, _)| *to == direct()).unwrap();
    client.pass(ms(3_000));
    client.answer(nonce, direct());
    assert_eq!(client.used(), relay(0));
}

#[test]
fn silence_probes_the_path_and_the_relays_and_a_path_that_answers_stays() {
    let mut client = settled();
    client.pass(ms(5_000));
    client.outputs();
    client.selection.handle_unanswered(Some(client.now));
    client.pass(SILENCE - ms(1));
    assert_eq!(client.probed(), []);
    client.pass(ms(1));
    let probed = client.probed();
    let to: Vec<SocketAddr> = probed.iter().map(|(to, _)| *to).collect();
    assert_eq!(to, [direct(), relay(0), relay(1)]);
    for (to, nonce) in probed {
        client.answer(nonce, to);
    }
    client.pass(LEAVE_AFTER);
    assert_eq!(client.used(), direct());
}

#[test]
fn a_silent_path_is_left_for_the_best_that_answers() {
    for (answering, expected) in [
        (vec![relay(0), relay(1)], relay(0)),
        (vec![relay(1)], relay(1)),
        (vec![], direct()),
    ] {
        let mut client = settled();
        client.pass(ms(5_000));
        client.outputs();
        let since = client.now;
        client.selection.handle_unanswered(Some(since));
        client.pass(SILENCE);
        for (to, nonce) in client.probed() {
            client.pass(ms(10));
            if answering.contains(&to) {
                client.answer(nonce, to);
            }
        }
        let left = LEAVE_AFTER - client.now.saturating_since(since);
        client.pass(left - ms(1));
        assert_eq!(client.used(), direct(), "it has until then");
        client.pass(ms(1));
        assert_eq!(client.used(), expected);
    }
}

#[test]
fn another_direct_path_is_found_where_no_relay_answers() {
    let mut client = settled();
    client.pass(ms(5_000));
    client.outputs();
    client.selection.handle_unanswered(Some(client.now));
    client.pass(SILENCE);
    client.outputs();
    client.pass(LEAVE_AFTER - SILENCE);
    let outputs = client.answer_at(other());
    assert!(outputs.contains(&SelectionOutput::Use(other())));
}

#[test]
fn a_relay_that_is_no_more_is_left_at_once_when_another_answers() {
    let mut client = Client::new();
    client.pass(ms(10_000));
    client.outputs();
    let rest = [by_udp(1, relay(1))];
    client.selection.set_relays(&rest, &rest, client.now);
    client.pass(ms(20));
    client.answer_at(relay(1));
    client.pass(LEAVE_AFTER - SILENCE);
    assert_eq!(client.used(), relay(1));
}

#[test]
fn a_probe_from_an_unknown_address_is_answered_and_probed_back() {
    let mut client = settled();
    let source = at("198.51.100.7:9");
    let question = client.gateway.question([9; 8]);
    let message = Message::parse(&question).unwrap();
    assert!(
        client
            .selection
            .handle_message(&message, source, client.now)
    );
    let outputs = client.outputs();
    let to: Vec<SocketAddr> = outputs
        .iter()
        .filter_map(|output| match output {
            SelectionOutput::Send { to, .. } => Some(*to),
            _ => None,
        })
        .collect();
    assert_eq!(to, [source, source]);
}

#[test]
fn records_from_elsewhere_make_the_peer_followed_or_reminded() {
    // The peer has moved: only its new address answers.
    let mut client = settled();
    client.pass(ms(5_000));
    client.outputs();
    let moved = at("198.51.100.7:9");
    client.selection.handle_heard_from(moved, client.now);
    client.pass(ms(20));
    client.answer_at(moved);
    client.pass(LEAVE_AFTER - SILENCE);
    assert_eq!(client.used(), moved);
    // The peer has not heard where this end is: a record tells it.
    let mut client = settled();
    client.pass(ms(5_000));
    client.outputs();
    client.selection.handle_heard_from(relay(0), client.now);
    client.pass(ms(20));
    let outputs = client.answer_at(direct());
    assert_eq!(outputs, [SelectionOutput::Use(direct())]);
}

#[test]
fn a_direct_path_is_kept_open_while_it_is_in_use() {
    let mut client = settled();
    client.selection.handle_traffic(client.now);
    client.outputs();
    client.pass(KEEP_OPEN_EVERY - ms(1));
    assert_eq!(client.probed(), []);
    let mut times = 0;
    loop {
        client.pass(ms(1));
        let probed = client.probed();
        let Some((to, nonce)) = probed.first().copied() else {
            break;
        };
        assert_eq!((to, probed.len()), (direct(), 1));
        client.answer(nonce, to);
        client.pass(KEEP_OPEN_EVERY - ms(1));
        assert_eq!(client.probed(), []);
        times += 1;
    }
    // Three minutes after the last packet nobody needs it.
    assert_eq!(times, 9);
    client.pass(ms(3_600_000));
    assert_eq!(client.probed(), []);
}

/// Some firewalls pass what they do not know, and not WireGuard.
#[test]
fn a_path_that_answers_probes_and_not_records_is_not_taken_again_for_a_while() {
    let mut client = settled();
    client.pass(ms(5_000));
    client.selection.handle_unanswered(Some(client.now));
    client.pass(LEAVE_AFTER);
    // A handshake found the relay.
    client.selection.handle_endpoint(relay(0), client.now);
    client.selection.handle_unanswered(None);
    client.outputs();
    client.pass(ms(1_000));
    client.answer_at(direct());
    assert_eq!(client.used(), relay(0));
    client.pass(ms(150_000));
    client.outputs();
    client.selection.handle_network_changed(client.now);
    client.pass(ms(10));
    client.answer_at(direct());
    assert_eq!(client.used(), direct());
}

#[test]
fn the_path_moves_with_the_registration_at_the_relay_in_use() {
    let mut client = Client::new();
    client.pass(ms(10_000));
    client.outputs();
    let (udp, tls) = (by_udp(0, relay(0)), by_tls(0));
    client.selection.set_relays(&[udp, tls], &[tls], client.now);
    assert_eq!(client.used(), tls.address);
    let path = client.selection.path().unwrap();
    assert_eq!((path.relay, path.by_tls), (Some(relay_id(0)), true));
    client.selection.set_relays(&[udp, tls], &[udp], client.now);
    assert_eq!(client.used(), relay(0));
    assert!(!client.selection.path().unwrap().by_tls);
}

#[test]
fn a_path_through_tls_is_not_taken_while_one_by_udp_lives_and_gives_way_to_it() {
    let mut client = Client::new();
    client.pass(ms(10_000));
    client.outputs();
    // The other relay is reached by TLS only.
    let relays = [by_udp(0, relay(0)), by_tls(1)];
    client.selection.set_relays(&relays, &relays, client.now);
    client.pass(ms(1));
    client.answer_at(by_tls(1).address);
    assert_eq!(client.selection.path().unwrap().address, relay(0));
    // It is the only one that is left, and then the first comes back.
    client
        .selection
        .set_relays(&relays[1..], &relays[1..], client.now);
    client.pass(ms(20));
    client.answer_at(by_tls(1).address);
    client.pass(LEAVE_AFTER - SILENCE);
    assert_eq!(client.used(), by_tls(1).address);
    client.selection.set_relays(&relays, &relays, client.now);
    client.pass(ms(1));
    let outputs = client.answer_at(relay(0));
    assert!(outputs.contains(&SelectionOutput::Use(relay(0))));
}

#[test]
fn a_loopback_address_is_a_path_while_it_stands_for_a_relay_and_only_then() {
    let mut client = Client::new();
    let (tls, stranger) = (by_tls(0), at("127.0.0.1:50007"));
    client.selection.set_relays(&[tls], &[tls], client.now);
    let refused = client
        .selection
        .set_candidates(&[stranger, tls.address], client.now);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].0, stranger);
    let is_direct = |client: &Client| {
        let candidates = client.selection.candidates().iter();
        let mut loopback = candidates.filter(|it| it.address.ip().is_loopback());
        loopback.any(|it| it.kind.relay().is_none())
    };
    assert!(!is_direct(&client));
    client.selection.set_relays(&[], &[], client.now);
    let refused = client.selection.set_candidates(&[tls.address], client.now);
    assert_eq!(refused.len(), 1);
    assert_eq!(client.selection.candidates(), []);
}

#[test]
fn a_suspected_path_makes_the_end_ask_its_relays() {
    let mut client = Client::new();
    client.pass(ms(10_000));
    client.outputs();
    client.selection.handle_unanswered(Some(client.now));
    client.pass(SILENCE);
    assert!(client.outputs().contains(&SelectionOutput::CheckRelays));
}
