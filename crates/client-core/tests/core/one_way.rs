//! Data that nothing answers: the client's rule about silence, against the timers of a gateway.

use super::play::{Granting, Play, START_UNIX_MS, candidate, key};
use culvert_base::{BootTime, UnixTime};
use culvert_client_core::PeerReport;
use culvert_session::{
    Activity, Clock, Handshaker, Output, PROMPT_KEEPALIVE_TIMEOUT, PeerId, PrivateKey, Tai64n,
};
use std::sync::Arc;

/// From one datagram to the next: voice, or a log over UDP.
const EVERY_MS: u64 = 20;

/// Half of a round trip to the gateway.
const LATENCY_MS: u64 = 100;

/// The tunnel between the client and its gateway: handshakes and timers as shipped.
struct Tunnel {
    gateway: Handshaker,
    client_at_gateway: PeerId,
    /// The marks of either end's workers.
    marks: [Arc<Activity>; 2],
    /// Times at which keepalives of the gateway arrive.
    under_way: Vec<u64>,
}

impl Tunnel {
    /// A tunnel whose handshake is complete.
    fn new(now_ms: u64) -> Self {
        let clock = clock(now_ms);
        let keys = [1, 2].map(|number| PrivateKey::from_bytes([number; 32]));
        let public = keys.each_ref().map(PrivateKey::public_key);
        let [client_key, gateway_key] = keys;
        let mut client = end(1, client_key, clock);
        let mut gateway = end(2, gateway_key, clock);
        gateway.set_keepalive_timeout(PROMPT_KEEPALIVE_TIMEOUT);
        let gateway_at_client = client.add_peer(public[1]).unwrap();
        let client_at_gateway = gateway.add_peer(public[0]).unwrap();
        client.handle_wanted(gateway_at_client, clock);
        hand_over(&mut client, &mut gateway, clock);
        hand_over(&mut gateway, &mut client, clock);
        let keys: Vec<_> = gateway.receiving(client_at_gateway).collect();
        for keys in keys.iter().filter(|keys| keys.confirm(clock.now)) {
            gateway.handle_confirmed(client_at_gateway, keys.local_index(), clock);
        }
        let marks = [
            client.activity(gateway_at_client).unwrap(),
            gateway.activity(client_at_gateway).unwrap(),
        ];
        while gateway.poll_output().is_some() {}
        Self {
            gateway,
            client_at_gateway,
            marks,
            under_way: Vec::new(),
        }
    }

    /// The client sends, and the gateway gets it unless it is dead. The keepalive bears the latency of both ways.
    fn send(&mut self, now_ms: u64, is_alive: bool) {
        let [client, gateway] = &self.marks;
        client.data_sent(time(now_ms));
        if !is_alive {
            return;
        }
        gateway.data_received(time(now_ms));
        self.gateway.handle_timeout(clock(now_ms));
        while let Some(output) = self.gateway.poll_output() {
            let peer = self.client_at_gateway;
            assert_eq!(output, Output::SendKeepalive { peer });
            gateway.keepalive_sent(time(now_ms));
            self.under_way.push(now_ms + 2 * LATENCY_MS);
        }
    }

    /// The report of the client's data plane about its peer.
    fn report(&mut self, now_ms: u64) -> PeerReport {
        let client = &self.marks[0];
        let arrived = |at_ms: &mut u64| *at_ms <= now_ms;
        for at_ms in self.under_way.extract_if(.., arrived) {
            client.keepalive_received(time(at_ms));
        }
        PeerReport {
            key: key(1),
            endpoint: Some(candidate(1)),
            handshake: Some(UnixTime::from_millis(START_UNIX_MS)),
            received: client.last_received(),
            unanswered: client.unanswered_since(),
            rx_bytes: 0,
            tx_bytes: now_ms,
            measured_mtu_bytes: None,
            heard_elsewhere: None,
        }
    }
}

fn time(now_ms: u64) -> BootTime {
    BootTime::from_nanos(now_ms * 1_000_000)
}

fn clock(now_ms: u64) -> Clock {
    Clock {
        now: time(now_ms),
        wall: Tai64n::from_unix(1_800_000_000 + now_ms / 1_000, 0),
    }
}

fn end(number: u8, key: PrivateKey, clock: Clock) -> Handshaker {
    let mut end = Handshaker::new([number; 32]);
    end.set_private_key(Some(key), clock);
    end.set_up(true, clock);
    end
}

fn hand_over(from: &mut Handshaker, to: &mut Handshaker, clock: Clock) {
    while let Some(output) = from.poll_output() {
        if let Output::Send { datagram, .. } = output {
            to.handle_datagram(&datagram, candidate(7), false, clock)
                .unwrap();
        }
    }
}

/// One-way data for `span_ms`; returns whether the client still has its gateway.
fn flow(play: &mut Play, tunnel: &mut Tunnel, span_ms: u64, is_alive: bool) -> bool {
    let end_ms = play.now_ms + span_ms;
    while play.now_ms < end_ms && play.peers.contains_key(&key(1)) {
        play.pass(EVERY_MS);
        tunnel.send(play.now_ms, is_alive);
        let report = tunnel.report(play.now_ms);
        if play.client.poll_report(play.now()) <= Some(play.now()) {
            play.report(report);
        }
    }
    play.peers.contains_key(&key(1))
}

fn scene() -> (Play, Tunnel) {
    let mut play = Play::open(&[(1, "10.0.0.0/8")]);
    play.gain("10.0.0.1", 1, Granting::through(1, 1));
    play.report_alive(1, 10);
    play.begun.clear();
    let tunnel = Tunnel::new(play.now_ms);
    (play, tunnel)
}

#[test]
fn one_way_data_to_a_gateway_that_lives_begins_no_handshake() {
    let (mut play, mut tunnel) = scene();
    assert!(flow(&mut play, &mut tunnel, 100_000, true));
    assert_eq!(play.begun, []);
}

#[test]
fn one_way_data_to_a_gateway_that_dies_goes_to_another_within_five_seconds() {
    let (mut play, mut tunnel) = scene();
    assert!(flow(&mut play, &mut tunnel, 10_000, true));
    let died_ms = play.now_ms;
    assert!(!flow(&mut play, &mut tunnel, 10_000, false));
    let took_ms = play.now_ms - died_ms;
    assert!(took_ms <= 5_000, "{took_ms} ms");
    assert_eq!(play.begun.first(), Some(&key(1)), "it was asked first");
    let (request, ..) = play.take_request();
    play.grant(request, 1, Granting::through(2, 2));
    assert!(play.way_to("10.0.0.1").is_some());
}
