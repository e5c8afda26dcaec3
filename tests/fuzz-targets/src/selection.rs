//! Histories of one end's choice between paths: datagrams, reports of the data plane, and time, in any order.

use crate::input::Input;
use culvert_base::{BootTime, PresharedKey};
use culvert_ids::RelayId;
use culvert_path::{
    ANSWERS_PER_SECOND, CANDIDATES_MAX, Guard, RelayPath, Selection, SelectionOutput,
};
use culvert_relay_core::Message;
use culvert_relay_core::probe::{AuthenticProbe, PairEnd, PairProbes};
use std::net::SocketAddr;
use std::time::Duration;

/// The relay that is reached by TLS, and the loopback address that stands for it.
const BY_TLS: u8 = 3;

fn bridge() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 8))
}

const START: BootTime = BootTime::from_millis(1_000_000);

/// An answer that takes longer says nothing of the path today.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Datagrams that one event may send: a round to all candidates and relays, an answer, and a probe of the asker.
const SENDS_PER_EVENT: usize = 3 * CANDIDATES_MAX;

/// Relays 0 to 3, then direct addresses, the end of a TLS stream, and one that cannot be an address of a peer.
fn address(number: u8) -> SocketAddr {
    match number % 16 {
        14 => bridge(),
        relay @ 0..4 => SocketAddr::from(([203, 0, 113, relay], 3_479)),
        15 => SocketAddr::from(([127, 0, 0, 1], 9)),
        direct => SocketAddr::from(([198, 51, 100, direct], 51_820)),
    }
}

/// A relay by UDP; the last one by TLS, at a loopback address.
fn relay_path(number: u8) -> RelayPath {
    let by_tls = number == BY_TLS;
    RelayPath {
        relay: RelayId::from_bytes([number; 16]),
        address: address(if by_tls { 14 } else { number }),
        by_tls,
    }
}

/// A probe that left, and whether its answer has come back from where it went.
struct Probe {
    nonce: [u8; 8],
    to: SocketAddr,
    at: BootTime,
    is_answered: bool,
}

/// One end under test, and the other end's keys.
struct World {
    end: PairEnd,
    selection: Selection,
    peer: PairProbes,
    probes: Vec<Probe>,
    now: BootTime,
    /// The data plane sends there.
    endpoint: Option<SocketAddr>,
    /// Answers in the second that began then.
    answers: (BootTime, u32),
}

impl World {
    fn new(end: PairEnd) -> Self {
        let other = match end {
            PairEnd::Client => PairEnd::Gateway,
            PairEnd::Gateway => PairEnd::Client,
        };
        let key = PresharedKey::from_bytes([1; 32]);
        let probes = |end| PairProbes::new(&key, end).expect("the pair has a key");
        Self {
            end,
            selection: Selection::new(probes(end), end, Guard::default(), 1),
            peer: probes(other),
            probes: Vec::new(),
            now: START,
            endpoint: None,
            answers: (START, 0),
        }
    }

    fn act(&mut self, input: &mut Input<'_>) {
        let (action, which) = (input.u8(), input.u8());
        let (now, at) = (self.now, address(which));
        match action % 10 {
            0 => {
                let numbers = input.take(usize::from(which % 40));
                let addresses: Vec<_> = numbers.iter().map(|number| address(*number)).collect();
                let _ = self.selection.set_candidates(&addresses, now);
            }
            1 => {
                let among = |bits: u8| {
                    let of = (0..4).filter(move |number| bits & 1 << number != 0);
                    of.map(relay_path)
                };
                let known: Vec<_> = among(which).collect();
                let usable: Vec<_> = among(which & which >> 4).collect();
                self.selection.set_relays(&known, &usable, now);
            }
            2 => {
                let datagram = self.peer.question([which; 8]);
                self.deliver(&datagram, address(input.u8()));
            }
            3 => self.answer(usize::from(which), input.u8()),
            4 => {
                let datagram = input.take(usize::from(which));
                self.deliver(datagram, address(which));
            }
            5 => {
                self.endpoint = Some(at);
                self.selection.handle_endpoint(at, now);
            }
            6 => self.selection.handle_heard_from(at, now),
            7 => {
                let since = (which > 0).then(|| before(now, u64::from(which) * 10));
                self.selection.handle_unanswered(since);
                self.selection.handle_traffic(now);
            }
            8 => self.selection.handle_network_changed(now),
            _ => self.pass(Duration::from_millis(u64::from(which) * 20)),
        }
    }

    /// The peer answers one of the probes, from where it went or from somewhere else.
    fn answer(&mut self, which: usize, from: u8) {
        let Some(last) = self.probes.len().checked_sub(1) else {
            return;
        };
        let probe = &mut self.probes[last - which % (last + 1)];
        let source = match from {
            0..128 => probe.to,
            other => address(other),
        };
        let is_late = self.now.saturating_since(probe.at) > ANSWER_WITHIN;
        probe.is_answered |= source == probe.to && !is_late;
        let datagram = self.peer.answer(probe.nonce);
        self.deliver(&datagram, source);
    }

    fn deliver(&mut self, datagram: &[u8], source: SocketAddr) {
        if let Some(message) = Message::parse(datagram) {
            self.selection.handle_message(&message, source, self.now);
        }
    }

    /// Lets time pass, with every timer at its time.
    fn pass(&mut self, span: Duration) {
        let end = self.now.saturating_add(span);
        while let Some(due) = self.selection.poll_timeout().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.selection.handle_timeout(self.now);
            self.check();
            let next = self.selection.poll_timeout();
            assert!(
                next.is_none_or(|next| next > self.now),
                "a timer is due again at once"
            );
        }
        self.now = end;
    }

    /// Takes the outputs of an event, and compares them with the rules.
    fn check(&mut self) {
        let mut sends = 0;
        while let Some(output) = self.selection.poll_output() {
            match output {
                SelectionOutput::Send { datagram, to } => {
                    sends += 1;
                    assert!(
                        sends <= SENDS_PER_EVENT,
                        "one event sends {sends} datagrams"
                    );
                    // The data plane's own endpoint is where records go anyway.
                    let is_allowed = self.endpoint == Some(to) || to == bridge();
                    assert!(is_allowed || !to.ip().is_loopback(), "{to} is this host");
                    self.note(&datagram, to);
                }
                SelectionOutput::Use(to) => {
                    assert_eq!(self.end, PairEnd::Client, "the gateway chooses a path");
                    let is_proof = |probe: &Probe| probe.to == to && probe.is_answered;
                    assert!(
                        self.probes.iter().any(is_proof),
                        "{to} is used, and is not proven in both directions"
                    );
                }
                SelectionOutput::CheckRelays | SelectionOutput::Changed => {}
            }
        }
        assert!(self.selection.candidates().len() <= CANDIDATES_MAX);
    }

    /// A datagram left: a probe of this end, or an answer, of which a second has so many.
    fn note(&mut self, datagram: &[u8], to: SocketAddr) {
        let message = Message::parse(datagram).expect("what is sent can be read");
        match self.peer.open(&message).expect("and is for the peer") {
            AuthenticProbe::Question { nonce } => self.probes.push(Probe {
                nonce,
                to,
                at: self.now,
                is_answered: false,
            }),
            AuthenticProbe::Answer { .. } => {
                let (began, count) = &mut self.answers;
                if self.now.saturating_since(*began) >= Duration::from_secs(1) {
                    (*began, *count) = (self.now, 0);
                }
                *count += 1;
                // Those of a whole second may have been saved up before.
                assert!(
                    *count <= 2 * ANSWERS_PER_SECOND,
                    "{count} answers in a second"
                );
            }
        }
    }
}

const fn before(now: BootTime, millis: u64) -> BootTime {
    BootTime::from_nanos(now.as_nanos().saturating_sub(millis * 1_000_000))
}

/// The client uses no path that it has not proven in both directions, and the gateway chooses none. One event sends a
/// bounded number of datagrams, none to this host. No timer is due again at once.
///
/// # Panics
/// If a property does not hold.
pub fn selection(data: &[u8]) {
    let mut input = Input::new(data);
    let end = match input.u8() % 2 {
        0 => PairEnd::Client,
        _ => PairEnd::Gateway,
    };
    let mut world = World::new(end);
    while !input.is_empty() {
        world.act(&mut input);
        world.check();
    }
}

/// Two relays and two addresses, by the first relay; then what leads to each rule.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let begun: &[u8] = &[1, 0x33, 0, 2, 5, 6, 5, 0];
    let second: &[u8] = &[9, 50];
    let ways: [&[u8]; 8] = [
        // The last probe is answered, from where it went and from elsewhere.
        &[3, 0, 0],
        &[3, 0, 134],
        // A direct path is proven, goes silent, and each probe in turn is answered.
        &[3, 1, 0, 7, 60, 9, 20, 3, 0, 0, 3, 1, 0, 3, 2, 0, 9, 50],
        // Probes of the peer, from known and unknown addresses.
        &[2, 1, 0, 2, 2, 5, 2, 3, 9, 3, 0, 0],
        &[6, 7, 9, 20, 3, 0, 0, 9, 50],
        &[8, 0, 3, 0, 0, 3, 1, 0, 9, 50],
        // The relay in use is gone.
        &[1, 0x22, 3, 0, 0, 9, 50],
        // Addresses of this host.
        &[0, 1, 15, 5, 15, 6, 15, 2, 1, 15],
    ];
    let mut seeds = Vec::new();
    for end in 0..2 {
        for way in ways {
            seeds.push([&[end], begun, way, second, way, &[9, 255], way].concat());
        }
    }
    seeds
}
