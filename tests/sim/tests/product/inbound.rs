//! Resources begin at clients what they may by the rules, whatever changes and whatever fails: no more within a second, and no
//! less once everything is whole again.

use crate::scene::{EVERYBODY, Scene};
use crate::seeds;
use culvert_policy::Service;
use culvert_sim::Random;
use culvert_sim::access::{Machine, Tally, World, policy, rows};
use culvert_wire::model::{Filter, PortRange};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A service is closed within this time, in milliseconds (`docs/access.md`, "Gateway").
const CUT_MS: u64 = 1_000;

/// A service is open within this time, in milliseconds: a client asks again after a minute and a half at the latest, and a
/// gateway that came back waits for its clients.
const OPEN_MS: u64 = 100_000;

const CHANGES: usize = 8;

const CLIENTS: usize = 2;

/// A wide resource, and narrower ones inside of it.
const RANGES: [&str; 4] = ["10.1.0.0/16", "10.1.9.0/24", "10.1.9.7", "10.2.0.0/24"];

/// An address that each of the ranges decides for, and one of none.
const ADDRESSES: [[u8; 4]; 5] = [
    [10, 1, 2, 3],
    [10, 1, 9, 3],
    [10, 1, 9, 7],
    [10, 2, 0, 3],
    [10, 3, 0, 3],
];

const SERVICES: [Service; 4] = [
    Service::Tcp(22),
    Service::Tcp(23),
    Service::Udp(161),
    Service::Icmp,
];

/// A run, and what the network of the gateways has tried in it.
struct Run {
    world: World,
    random: Random,
    /// A source port that was not used yet.
    port: u16,
    opened: usize,
    closed: usize,
}

/// The services that a resource may use.
fn inbound(random: &mut Random) -> Vec<Filter> {
    let ports = |first: u16, last: u16| vec![PortRange { first, last }];
    match random.below(6) {
        0 | 1 => Vec::new(),
        2 => vec![Filter::Any],
        3 => vec![
            Filter::Tcp {
                ports: ports(22, 22),
            },
            Filter::Icmp,
        ],
        4 => vec![Filter::Tcp {
            ports: ports(20, 30),
        }],
        _ => vec![Filter::Udp {
            ports: ports(161, 161),
        }],
    }
}

impl Run {
    fn begin(seed: u64, is_traced: bool) -> Self {
        let mut run = Self {
            world: Scene::new(CLIENTS as u16, 2).bare(seed, is_traced),
            random: Random::new(seed),
            port: 20_000,
            opened: 0,
            closed: 0,
        };
        for number in 1..=RANGES.len() as u16 {
            run.set_resource(number);
            run.set_policy(number, seed % 7 != u64::from(number));
        }
        run
    }

    fn set_resource(&mut self, number: u16) {
        let range = RANGES[usize::from(number) - 1];
        let filters = match self.random.chance(500) {
            true => vec![Filter::Any],
            // A resource may open something and be used by nobody.
            false => Vec::new(),
        };
        let inbound = inbound(&mut self.random);
        let row = rows::opening_resource_row(number, 1, range, filters, inbound);
        self.world.commit(vec![row]);
    }

    fn set_policy(&mut self, number: u16, on: bool) {
        let edit = match on {
            true => rows::policy_row(number, EVERYBODY, number, Vec::new()),
            false => rows::remove(policy(number)),
        };
        self.world.commit(vec![edit]);
    }

    /// Something changes, or somebody fails and comes back.
    fn change(&mut self) {
        let number = 1 + self.random.below(RANGES.len() as u64) as u16;
        let gateway = Machine::Gateway(self.random.below(2) as usize);
        let client = Machine::Client(self.random.below(CLIENTS as u64) as usize);
        let with_host = self.random.chance(300);
        match self.random.below(9) {
            0..=2 => self.set_resource(number),
            3 => self.set_policy(number, true),
            4 => self.set_policy(number, false),
            5 => {
                let on = self.random.chance(500);
                self.world.commit(vec![rows::actor_row(1, on)]);
            }
            6 => {
                self.world.kill(gateway, with_host);
                self.world.run_ms(self.random.below(3_000));
            }
            7 => {
                self.world.kill(client, with_host);
                self.world.run_ms(self.random.below(3_000));
            }
            _ => {
                self.world.kill_portal(with_host);
                self.world.start_portal();
            }
        }
    }

    /// Compares what begins with the rules. With `is_settled`, all that may begin does.
    fn compare(&mut self, is_settled: bool) {
        for client in 0..CLIENTS {
            for address in ADDRESSES {
                let from = IpAddr::V4(Ipv4Addr::from(address));
                for service in SERVICES {
                    self.port += 1;
                    let begins = self.world.begins(client, (from, self.port), service);
                    let may = self.world.may_begin(client, from, service);
                    let what = format!("{service:?} of client {client}, from {from}");
                    assert!(may || !begins, "{what} is open");
                    assert!(begins || !may || !is_settled, "{what} is closed");
                    self.opened += usize::from(begins);
                    self.closed += usize::from(!begins);
                }
            }
        }
    }
}

#[test]
fn resources_begin_what_the_rules_let_them_and_nothing_else() {
    let (opened, closed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let one = |seed: u64, is_traced: bool| -> Tally {
        let mut run = Run::begin(seed, is_traced);
        for _ in 0..CHANGES {
            run.change();
            run.world.run_ms(CUT_MS);
            run.compare(false);
            run.world.start_all();
            run.world.run_ms(OPEN_MS);
            run.compare(true);
        }
        opened.fetch_add(run.opened, Ordering::Relaxed);
        closed.fetch_add(run.closed, Ordering::Relaxed);
        run.world.tally().clone()
    };
    let (_, runs) = seeds::run(60, one);
    let runs = usize::try_from(runs).unwrap();
    let [opened, closed] = [opened, closed].map(AtomicUsize::into_inner);
    assert!(opened > 10 * runs, "{opened} in {runs} runs");
    assert!(closed > 10 * runs, "{closed} in {runs} runs");
}
