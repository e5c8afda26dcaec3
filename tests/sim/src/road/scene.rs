//! A client, a gateway with its gate, and a resource behind it that answers each UDP packet.

use super::frame::{self, Contents, Ends};
use super::ledger::{Ledger, Way};
use super::machine::{Machine, Setup};
use super::shell::{Arrived, Leaving};
use crate::network::Conditions;
use crate::random::Random;
use culvert_base::BootTime;
use culvert_base::datagrams::PRIORITY_CLASS;
use culvert_datapath::Inside;
use culvert_packet::ecn::Ecn;
use culvert_policy::gate::{ClientGrants, GateTable, Grant, PeerKey, Reach};
use culvert_policy::{Filter, Filters, Ports};
use culvert_session::PrivateKey;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

const CLIENT: Ipv4Addr = Ipv4Addr::new(100, 64, 0, 1);
const RESOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// The port that the grant allows, of UDP and TCP.
const ALLOWED_PORT: u16 = 443;

/// One that it does not.
const FORBIDDEN_PORT: u16 = 444;

/// The simulation looks at its machines at this interval.
const TICK: Duration = Duration::from_millis(1);

/// Payloads of UDP packets.
const LENGTHS: [usize; 4] = [12, 100, 700, 1_380];

/// The contents of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// UDP packets with priority or of any length, which the resource answers.
    Udp,
    /// TCP superframes of one to 45 segments, which the resource takes.
    Tcp,
}

/// A flow of the client.
#[derive(Clone, Copy, Debug)]
pub struct Traffic {
    /// Its contents.
    pub kind: Kind,
    /// Frames in each millisecond, of a thousand.
    pub frames_per_s: u32,
    /// True if the grant allows it.
    pub is_allowed: bool,
    /// True if its sender understands congestion marks.
    pub has_ecn: bool,
}

/// The whole of it.
pub struct Scene {
    /// The packets that were sent and have arrived.
    pub ledger: Ledger,
    /// Datagrams with data that the network has lost, and copies that it made.
    pub lost: u64,
    /// See [`Self::lost`].
    pub copied: u64,
    /// Bytes that the client's link takes in a millisecond.
    pub link_bytes_per_ms: usize,
    /// Frames that the client's queue has refused.
    pub refused_by_queue: u64,
    clock: Rc<Cell<BootTime>>,
    random: Random,
    conditions: Conditions,
    is_cut: bool,
    is_revoked: bool,
    client: Machine,
    gateway: Machine,
    under_way: BTreeMap<(BootTime, u64), (SocketAddr, Leaving)>,
    sent: u64,
    traffic: Vec<Traffic>,
    opened: Vec<bool>,
    openings_arrived: u64,
    /// Answers of the resource, whose queue they find full.
    answers: VecDeque<(u32, u64, usize)>,
}

impl Scene {
    /// A client whose first packet begins the first handshake.
    #[must_use]
    pub fn new(seed: u64, traffic: Vec<Traffic>) -> Self {
        let mut random = Random::new(seed);
        let clock = Rc::new(Cell::new(BootTime::from_nanos(1_000_000_000_000)));
        let keys = [(); 2].map(|()| PrivateKey::from_bytes(random.bytes()));
        let addresses: [SocketAddr; 2] = [
            ([192, 0, 2, 1], 51_820).into(),
            ([198, 51, 100, 1], 51_820).into(),
        ];
        let publics = [keys[0].public_key(), keys[1].public_key()];
        let [client_key, gateway_key] = keys;
        let client = Setup {
            address: addresses[0],
            private_key: client_key,
            peer_key: publics[1],
            peer_endpoint: Some(addresses[1]),
            range: (Ipv4Addr::new(10, 0, 0, 0).into(), 24),
            inside: Some(Inside {
                v4: CLIENT,
                v6: Ipv6Addr::LOCALHOST,
            }),
            gate: None,
            seed: random.bytes(),
        };
        let gateway = Setup {
            address: addresses[1],
            private_key: gateway_key,
            peer_key: publics[0],
            peer_endpoint: None,
            range: (CLIENT.into(), 32),
            inside: None,
            gate: Some(granted()),
            seed: random.bytes(),
        };
        Self {
            ledger: Ledger::new(),
            lost: 0,
            copied: 0,
            link_bytes_per_ms: usize::MAX,
            refused_by_queue: 0,
            client: Machine::new(client, Rc::clone(&clock)),
            gateway: Machine::new(gateway, Rc::clone(&clock)),
            clock,
            random,
            conditions: Conditions::perfect(Duration::from_millis(5)),
            is_cut: false,
            is_revoked: false,
            under_way: BTreeMap::new(),
            sent: 0,
            opened: vec![false; traffic.len()],
            openings_arrived: 0,
            traffic,
            answers: VecDeque::new(),
        }
    }

    /// Changes how datagrams are treated from here on.
    pub fn set_conditions(&mut self, conditions: Conditions) {
        self.ledger.keeps_order &= conditions.delay.is_empty();
        self.conditions = conditions;
    }

    /// Cuts the network, or mends it.
    pub fn set_cut(&mut self, is_cut: bool) {
        self.is_cut = is_cut;
    }

    /// Takes the grant away: from here on nothing is allowed.
    pub fn revoke(&mut self) {
        self.gateway.set_gate(GateTable::new());
        self.ledger.revoke();
        self.is_revoked = true;
    }

    /// Lets traffic come for so long.
    pub fn run(&mut self, span: Duration) {
        let until = self.clock.get().saturating_add(span);
        while self.clock.get() < until {
            self.send_traffic();
            self.tick();
        }
    }

    /// Lets what is under way arrive. Nothing new is sent.
    pub fn run_until_idle(&mut self) {
        for _ in 0..10_000 {
            self.tick();
        }
    }

    /// Packets of a direction that have neither arrived nor are accounted for, by what the two machines have counted.
    /// Negative where more is counted than there was.
    #[must_use]
    pub fn unaccounted(&self) -> i64 {
        let there = self.ledger.sent(Way::There) + self.ledger.sent(Way::Back);
        let arrived = self.ledger.arrived(Way::There) + self.ledger.arrived(Way::Back);
        let drops = self.dropped().values().sum::<u64>();
        let waiting = self.client.shell().waiting() + self.gateway.shell().waiting();
        let gone = arrived
            + self.openings_arrived
            + drops
            + self.lost
            + self.refused_by_queue
            + waiting as u64;
        let openings = self.opened.iter().filter(|is_opened| **is_opened).count();
        let all = there + self.copied + openings as u64;
        i64::try_from(all).unwrap_or(i64::MAX) - i64::try_from(gone).unwrap_or(i64::MAX)
    }

    /// Frames that the gateway has written to its host.
    #[must_use]
    pub fn frames_of_gateway(&self) -> u64 {
        self.gateway.counters.tun_frames_sent.read()
    }

    /// The packets that both machines have dropped, by reason.
    #[must_use]
    pub fn dropped(&self) -> BTreeMap<&'static str, u64> {
        let mut all = self.client.dropped();
        for (reason, count) in self.gateway.dropped() {
            *all.entry(reason).or_default() += count;
        }
        all
    }

    fn tick(&mut self) {
        let now = self.clock.get().saturating_add(TICK);
        self.clock.set(now);
        while let Some(entry) = self.under_way.first_entry()
            && entry.key().0 <= now
        {
            let (from, leaving) = entry.remove();
            let to = match leaving.to == self.gateway.address {
                true => &mut self.gateway,
                false => &mut self.client,
            };
            to.shell_mut().arrive(Arrived {
                from,
                class: leaving.class,
                bytes: leaving.bytes,
            });
        }
        self.client.handle_timeout();
        self.gateway.handle_timeout();
        self.client.shell().room_bytes.set(self.link_bytes_per_ms);
        self.answer();
        self.client.run();
        self.gateway.run();
        self.leave();
        self.take_inside();
    }

    /// Puts the datagrams of the machines into the network.
    fn leave(&mut self) {
        for is_gateway in [false, true] {
            let machine = match is_gateway {
                true => &mut self.gateway,
                false => &mut self.client,
            };
            let from = machine.address;
            for leaving in machine.leave() {
                // An ICMP error of the gateway itself is none of the packets that are followed.
                let is_error = is_gateway && leaving.class & PRIORITY_CLASS != 0;
                let is_data = is_data(&leaving.bytes) && !is_error;
                if self.is_cut || self.random.chance(self.conditions.loss_per_mille) {
                    self.lost += u64::from(is_data);
                    continue;
                }
                let is_handshake = leaving.bytes.first() != Some(&4);
                let may_double = is_data || is_handshake;
                if may_double && self.random.chance(self.conditions.duplicate_per_mille) {
                    self.copied += u64::from(is_data);
                    let copy = Leaving {
                        to: leaving.to,
                        class: leaving.class,
                        bytes: leaving.bytes.clone(),
                    };
                    self.put(from, copy);
                }
                self.put(from, leaving);
            }
        }
    }

    fn put(&mut self, from: SocketAddr, leaving: Leaving) {
        let delay = self.random.duration(&self.conditions.delay);
        self.sent += 1;
        let at = self.clock.get().saturating_add(delay);
        self.under_way.insert((at, self.sent), (from, leaving));
    }

    /// Programs get what has come out of the tunnel.
    fn take_inside(&mut self) {
        let frames = self.gateway.shell().written.borrow_mut().split_off(0);
        for frame in frames {
            match frame::read(&frame) {
                Some(Contents::Packets {
                    flow,
                    numbers,
                    is_marked,
                }) => {
                    self.ledger.marked += u64::from(is_marked);
                    for number in numbers {
                        self.ledger.arrive(Way::There, flow, number);
                        if self.traffic[flow as usize].kind == Kind::Udp {
                            self.answers.push_back((flow, number, frame.len()));
                        }
                    }
                }
                Some(Contents::Opening) => self.openings_arrived += 1,
                Some(Contents::Icmp) => {}
                None => self.ledger.faults.push("a frame is broken".to_owned()),
            }
        }
        let frames = self.client.shell().written.borrow_mut().split_off(0);
        for frame in frames {
            match frame::read(&frame) {
                Some(Contents::Packets { flow, numbers, .. }) => {
                    for number in numbers {
                        self.ledger.arrive(Way::Back, flow, number);
                    }
                }
                Some(Contents::Opening | Contents::Icmp) => {}
                None => self.ledger.faults.push("a frame is broken".to_owned()),
            }
        }
    }

    /// The resource answers what it has got.
    fn answer(&mut self) {
        while let Some((flow, _, _)) = self.answers.pop_front() {
            let is_allowed = self.traffic[flow as usize].is_allowed;
            let number = self
                .ledger
                .send(Way::Back, flow, is_allowed && !self.is_revoked);
            let ends = ends(flow, is_allowed).reversed();
            let frame = frame::udp(ends, flow, number, 100, Ecn::NotEct);
            if !self.gateway.shell_mut().queue(frame, false, flow as usize) {
                self.refused_by_queue += 1;
            }
        }
    }

    fn send_traffic(&mut self) {
        for flow in 0..self.traffic.len() {
            let traffic = self.traffic[flow];
            let per_tick = traffic.frames_per_s / 1_000;
            let more = self.random.chance(traffic.frames_per_s % 1_000);
            for _ in 0..per_tick + u32::from(more) {
                self.send_frame(flow, traffic);
            }
        }
    }

    fn send_frame(&mut self, flow: usize, traffic: Traffic) {
        let id = u32::try_from(flow).expect("there are few flows");
        let ends = ends(id, traffic.is_allowed);
        let may_pass = traffic.is_allowed && !self.is_revoked;
        let ecn = match traffic.has_ecn {
            true => Ecn::Ect0,
            false => Ecn::NotEct,
        };
        match traffic.kind {
            Kind::Udp => {
                let number = self.ledger.send(Way::There, id, may_pass);
                let len = self.random.pick(&LENGTHS);
                let frame = frame::udp(ends, id, number, len, ecn);
                let is_priority = len == LENGTHS[0] && flow.is_multiple_of(2);
                // Of one flow all go the same way: a flow is not reordered.
                let is_priority = is_priority && traffic.frames_per_s < 10;
                if !self.client.shell_mut().queue(frame, is_priority, flow) {
                    self.refused_by_queue += 1;
                }
            }
            Kind::Tcp => {
                if !self.opened[flow] {
                    self.opened[flow] = true;
                    let opening = frame::syn(ends);
                    let taken = self.client.shell_mut().queue(opening, false, flow);
                    self.refused_by_queue += u64::from(!taken);
                }
                let segments = 1 + self.random.below(45);
                let numbers: Vec<u64> = (0..segments)
                    .map(|_| self.ledger.send(Way::There, id, may_pass))
                    .collect();
                let frame = frame::tcp(ends, id, numbers[0], numbers.len());
                if !self.client.shell_mut().queue(frame, false, flow) {
                    self.refused_by_queue += segments;
                }
            }
        }
    }
}

/// The client's flow with this number.
fn ends(flow: u32, is_allowed: bool) -> Ends {
    Ends {
        source: CLIENT,
        source_port: 40_000 + u16::try_from(flow).expect("there are few flows"),
        destination: RESOURCE,
        destination_port: match is_allowed {
            true => ALLOWED_PORT,
            false => FORBIDDEN_PORT,
        },
    }
}

/// A datagram with a packet in it: a record of data that is longer than an empty one.
fn is_data(bytes: &[u8]) -> bool {
    bytes.first() == Some(&4) && bytes.len() > culvert_session::DATA_OVERHEAD
}

/// The client may reach one port of the resource's network.
fn granted() -> GateTable {
    let port = Ports::one(ALLOWED_PORT);
    let filters = Filters::new([Filter::Udp(port), Filter::Tcp(port)]).expect("two filters");
    let grant = Grant {
        id: "grt_00000000000000000000000001".parse().expect("an id"),
        resource: "res_00000000000000000000000002".parse().expect("an id"),
        reach: Reach::Addresses("10.0.0.0/24".parse().expect("a range")),
        filters,
        inbound: Filters::none(),
        expires: BootTime::MAX,
    };
    let grants = ClientGrants::new(PeerKey(0), vec![CLIENT.into()], vec![grant]);
    let mut table = GateTable::new();
    table
        .set_client(grants.expect("a grant"))
        .expect("one client");
    table
}
