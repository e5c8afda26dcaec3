//! A run in which whatever can happen happens, by its seed.

use super::catalog::{Destination, HOME, Machine, client_token, membership, policy, resource};
use super::net::Weather;
use super::rows;
use super::rules::window;
use super::tally::Tally;
use super::world::{Layout, World};
use crate::random::Random;
use culvert_policy::Service;
use culvert_store::Token;
use culvert_wire::messages::{FromClient, WantedName};
use culvert_wire::model::{
    Condition, Filter, WrittenExpires, WrittenPublicAddresses, WrittenVerified,
};
use culvert_wire::{Cipher, Timestamp, encode};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const ACTORS: u16 = 3;
const GROUPS: u16 = 3;
const POLICIES: u16 = 9;

const HOUR_MS: u64 = 3_600_000;

/// More than it takes until everything works again, and until the longest grant has ended twice.
const PEACE_MS: u64 = 720_000;

/// The longest pause between two steps of a day, in milliseconds: some hundred steps an hour.
const MAX_PAUSE_MS: u64 = 60_000;

/// The places of the resources: number, site, address.
const RESOURCES: [(u16, u16, &str); 9] = [
    (1, 1, "10.1.0.0/16"),
    (2, 1, "10.1.2.0/24"),
    (3, 1, "10.1.2.3"),
    (4, 1, "10.1.2.3"),
    (5, 1, "*.corp.example"),
    (6, 1, "db.corp.example"),
    (7, 2, "10.0.0.0/8"),
    (8, 2, "fd00:9::/32"),
    (9, 2, "**.lab.example"),
];

const DESTINATIONS: [Destination; 11] = [
    v4(10, 1, 2, 3),
    v4(10, 1, 2, 4),
    v4(10, 1, 9, 9),
    v4(10, 2, 0, 7),
    Destination::Address(IpAddr::V6(Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 7))),
    Destination::Name4("web.corp.example"),
    Destination::Name4("db.corp.example"),
    Destination::Name6("db.corp.example"),
    Destination::Name4("ghost.corp.example"),
    Destination::Name4("x.lab.example"),
    Destination::Name6("y.z.lab.example"),
];

const SERVICES: [Service; 4] = [
    Service::Tcp(80),
    Service::Tcp(443),
    Service::Udp(53),
    Service::Icmp,
];

const fn v4(a: u8, b: u8, c: u8, d: u8) -> Destination {
    Destination::Address(IpAddr::V4(Ipv4Addr::new(a, b, c, d)))
}

/// A few minutes in which administrators make changes, machines die and move, networks break and
/// forgers try. Then peace, in which everything allowed must work. Then the end of all grants.
/// Returns what was counted.
///
/// # Panics
/// If something is not as it must be.
pub fn run_history(seed: u64, is_traced: bool) -> Tally {
    let mut history = History::new(seed, is_traced);
    let steps = 20 + history.random.below(80);
    for _ in 0..steps {
        history.step();
        let pause_ms = match history.random.below(10) {
            0 => 0,
            1..=6 => history.random.below(2_000),
            _ => history.random.below(10_000),
        };
        history.world.run_ms(pause_ms);
        history.world.check_bounds();
    }
    history.world.check_recovery();
    history.world.check_bounds();
    history.world.check_end();
    history.world.tally().clone()
}

/// A day of such hours. After each hour of disturbance comes peace, in which everything allowed works. Then
/// nothing of it is left: portal, clients and gateways hold as much as at the beginning. Returns what was
/// counted.
///
/// # Panics
/// If something is not as it must be.
pub fn run_day(seed: u64, is_traced: bool) -> Tally {
    let mut history = History::new(seed, is_traced);
    for hour in 1..=24 {
        while history.world.now_ms() < hour * HOUR_MS - PEACE_MS {
            history.step();
            let pause_ms = history.random.below(MAX_PAUSE_MS);
            history.world.run_ms(pause_ms);
            history.world.check_bounds();
        }
        history.world.check_recovery();
        history.world.check_bounds();
        history.world.check_end();
        history.renew();
    }
    history.world.tally().clone()
}

struct History {
    world: World,
    random: Random,
    clients: usize,
    gateways: usize,
}

impl History {
    fn new(seed: u64, is_traced: bool) -> Self {
        let mut random = Random::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(1));
        let clients = 2 + small(&mut random, 3);
        let gateways = 2 + small(&mut random, 3);
        let layout = Layout {
            clients: (0..clients).map(|it| 1 + number(it) % ACTORS).collect(),
            gateways: (0..gateways).map(|it| [1, 1, 2, 2][it % 4]).collect(),
            grant_lifetime_s: random.pick(&[60, 90, 300]),
            skew_ms: random.pick(&[0, 5_000, 600_000]),
        };
        let mut world = World::new(seed, layout);
        if is_traced {
            world.trace();
        }
        let mut history = Self {
            world,
            random,
            clients,
            gateways,
        };
        history.configure();
        if seed % 4 == 3 {
            let account = history.world.config().requiring_verified_gateways(true);
            history.world.commit(vec![rows::set(account)]);
        }
        history.world.start_all();
        for _ in 0..2 * clients {
            history.add_application();
        }
        history
    }

    fn configure(&mut self) {
        let mut edits = vec![rows::gateway_token_row(1), rows::gateway_token_row(2)];
        for of in 1..=ACTORS {
            edits.push(rows::actor_row(of, false));
            edits.push(rows::client_token_row(of));
            edits.push(rows::membership_row(of, of));
        }
        for (id, at, address) in RESOURCES {
            edits.push(rows::resource_row(id, at, address, self.filters()));
        }
        for id in 1..=POLICIES {
            let to = 1 + self.below(GROUPS);
            edits.push(rows::policy_row(id, to, id, Vec::new()));
        }
        self.world.commit(edits);
        self.world.set_name("web.corp.example", &["172.16.1.1"]);
        self.world
            .set_name("db.corp.example", &["172.16.1.1", "fd00:8::2"]);
        self.world.set_name("x.lab.example", &["172.16.2.1"]);
        self.world.set_name("y.z.lab.example", &["fd00:8::3"]);
    }

    /// Lets machines in again that were shut out, and begins applications.
    fn renew(&mut self) {
        let config = self.world.config();
        let clients = (0..self.clients).filter_map(|number| config.client_of(number));
        let clients = clients.filter(|row| row.revoked.is_some());
        let gateways = (0..self.gateways).filter_map(|number| config.gateway_of(number));
        let gateways = gateways.filter(|row| row.revoked.is_some());
        let mut edits: Vec<_> = clients.map(|row| rows::remove(row.id)).collect();
        edits.extend(gateways.map(|row| rows::remove(row.id)));
        self.world.commit(edits);
        self.configure();
        self.world.start_all();
        for _ in 0..2 * self.clients {
            self.add_application();
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..40 => self.administer(),
            40..62 => self.disturb_machine(),
            62..80 => self.disturb_network(),
            80..90 => self.add_application(),
            _ => self.forge(),
        }
    }

    fn add_application(&mut self) {
        let client = small(&mut self.random, self.clients as u64);
        let destination = self.random.pick(&DESTINATIONS);
        let service = self.random.pick(&SERVICES);
        let every_ms = self.random.pick(&[250, 500, 1_000]);
        self.world
            .add_application(client, destination, service, every_ms);
    }

    fn administer(&mut self) {
        let (of, to) = (1 + self.below(ACTORS), 1 + self.below(GROUPS));
        let (id, on) = (1 + self.below(POLICIES), 1 + self.below(9));
        let edit = match self.random.below(22) {
            0..=4 => rows::policy_row(id, to, on, self.conditions()),
            5 => rows::disabled_policy_row(id, to, on),
            6 | 7 => rows::remove(policy(id)),
            8 | 9 => rows::membership_row(of, to),
            10 => rows::remove(membership(of, to)),
            11..=13 => {
                let (number, at, address) = RESOURCES[usize::from(on) - 1];
                rows::resource_row(number, at, address, self.filters())
            }
            14 => return self.remove_resource(on),
            15 => {
                let is_disabled = self.random.chance(400);
                rows::actor_row(of, is_disabled)
            }
            16 => return self.limit_token(of),
            17 | 18 => return self.look_at_client(),
            _ => return self.look_at_gateway(),
        };
        self.world.commit(vec![edit]);
    }

    /// With the policies that refer to it; or it moves, or comes back.
    fn remove_resource(&mut self, on: u16) {
        let (number, at, address) = RESOURCES[usize::from(on) - 1];
        if self.random.chance(500) {
            let moved = self.random.pick(&[(at, "10.1.2.4"), (3 - at, address)]);
            let edit = rows::resource_row(number, moved.0, moved.1, self.filters());
            return self.world.commit(vec![edit]);
        }
        let policies = (1..=POLICIES).filter(|id| {
            let row: Option<culvert_store::Policy> = self.world.config().row(policy(*id));
            row.is_some_and(|row| row.resource == resource(on))
        });
        let mut edits: Vec<_> = policies.map(|id| rows::remove(policy(id))).collect();
        edits.push(rows::remove(resource(on)));
        self.world.commit(edits);
    }

    fn limit_token(&mut self, of: u16) {
        let Some(mut token): Option<Token> = self.world.config().row(client_token(of)) else {
            return;
        };
        let unix_ms = self.world.portal_unix_ms() + self.random.below(60_000);
        let is_limited = self.random.chance(600);
        token.expires = is_limited.then(|| Timestamp::from_unix_ms(unix_ms));
        self.world.commit(vec![rows::set(token)]);
    }

    fn look_at_client(&mut self) {
        let number = small(&mut self.random, self.clients as u64);
        let Some(mut row) = self.world.config().client_of(number).cloned() else {
            return;
        };
        let at = Timestamp::from_unix_ms(self.world.portal_unix_ms());
        let edit = match self.random.below(8) {
            0..=3 => {
                row.verified = Some(at);
                rows::set(row)
            }
            4 => {
                row.verified = None;
                rows::set(row)
            }
            5 => {
                row.revoked = Some(at);
                rows::set(row)
            }
            _ => rows::remove(row.id),
        };
        self.world.commit(vec![edit]);
    }

    fn look_at_gateway(&mut self) {
        let number = small(&mut self.random, self.gateways as u64);
        let Some(mut row) = self.world.config().gateway_of(number).cloned() else {
            return;
        };
        let at = Timestamp::from_unix_ms(self.world.portal_unix_ms());
        if self.world.config().requires_verified_gateways() && self.random.chance(600) {
            row.verified = self.random.chance(700).then_some(at);
            return self.world.commit(vec![rows::set(row)]);
        }
        let edit = match self.random.below(8) {
            0..=2 => {
                row.draining = true;
                rows::set(row)
            }
            3..=5 => {
                row.draining = false;
                rows::set(row)
            }
            6 => {
                row.revoked = Some(at);
                rows::set(row)
            }
            _ => rows::remove(row.id),
        };
        self.world.commit(vec![edit]);
    }

    fn disturb_machine(&mut self) {
        let machine = self.machine();
        let with_host = self.random.chance(300);
        match self.random.below(16) {
            0..=2 => self.world.kill(machine, with_host),
            3..=6 => self.world.start_all(),
            7 => {
                self.world.kill(machine, with_host);
                self.world.start(machine);
            }
            8 => {
                let noticed_ms = self.random.below(5_000);
                self.world.move_machine(machine, noticed_ms);
            }
            9 => match self.random.below(3) {
                0 => self.world.reinstall(machine),
                1 => self
                    .world
                    .lose_persisted(small(&mut self.random, self.gateways as u64)),
                _ => {
                    let client = small(&mut self.random, self.clients as u64);
                    let slow = vec![Cipher::ChaCha20Poly1305];
                    let fast = vec![Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];
                    let is_fast = self.random.chance(500);
                    self.world
                        .set_ciphers(client, if is_fast { fast } else { slow });
                }
            },
            10 => self.world.kill_portal(with_host),
            11 => self.world.stop_portal(),
            12 => self.world.start_portal(),
            13 => self.world.mislead(machine),
            14 => {
                self.world.repeat(machine);
            }
            _ => {
                let gateway = small(&mut self.random, self.gateways as u64);
                let on = self.random.chance(500);
                self.world.drain_gateway(gateway, on);
            }
        }
    }

    fn disturb_network(&mut self) {
        let machine = self.machine();
        match self.random.below(12) {
            0..=2 => self.world.cut_control(machine),
            3..=5 => self.world.heal_control(machine),
            6 => {
                let client = small(&mut self.random, self.clients as u64);
                let gateway = small(&mut self.random, self.gateways as u64);
                self.world.cut_data(client, gateway);
            }
            7 => self.world.heal_all(),
            8 => self.world.drop_connection(machine),
            9 => {
                let weather = Weather {
                    control_ms: 1..1 + self.random.below(150),
                    data_ms: 1..1 + self.random.below(200),
                    loss_per_mille: u32::try_from(self.random.below(200)).unwrap_or(0),
                    copies_per_mille: u32::try_from(self.random.below(200)).unwrap_or(0),
                };
                self.world.set_weather(weather);
            }
            10 => self.change_names(),
            _ => {
                let is_silent = self.random.chance(300);
                self.world.silence_names(is_silent);
            }
        }
    }

    fn change_names(&mut self) {
        const WEB: [&[&str]; 3] = [&["172.16.1.1"], &["172.16.1.9", "fd00:8::9"], &[]];
        const LAB: [&[&str]; 3] = [&["172.16.2.1"], &["172.16.2.2"], &["127.0.0.1"]];
        let web = self.random.pick(&WEB);
        let lab = self.random.pick(&LAB);
        self.world.set_name("web.corp.example", web);
        self.world.set_name("x.lab.example", lab);
    }

    fn forge(&mut self) {
        let client = small(&mut self.random, self.clients as u64);
        let other = small(&mut self.random, self.clients as u64);
        if self.random.chance(600) {
            let own = self.world.tunnel_address(client);
            let foreign = self.world.tunnel_address(other);
            let made_up = IpAddr::V4(Ipv4Addr::new(10, 1, 2, 3));
            let source = self.random.pick(&[own, foreign, Some(made_up)]);
            let name = Ipv4Addr::new(100, 96, 0, 1 + u8::try_from(self.below(4)).unwrap_or(0));
            let targets = [
                Ipv4Addr::new(10, 1, 2, 3),
                Ipv4Addr::new(10, 2, 0, 7),
                Ipv4Addr::new(127, 0, 0, 1),
                name,
            ];
            let to = IpAddr::V4(self.random.pick(&targets));
            let service = self.random.pick(&SERVICES);
            self.world
                .forge_packet(client, source.unwrap_or(made_up), to, service);
            let gateway = small(&mut self.random, self.gateways as u64);
            return self.world.intrude(gateway, client);
        }
        let text = self.lie(other);
        self.world.lie(client, text);
    }

    /// A message by which a client would try to get another client's access.
    fn lie(&mut self, victim: usize) -> String {
        let on = resource(1 + self.below(9));
        let grants = self.world.config().grants();
        let row = self.world.config().client_of(victim).map(|row| row.id);
        let foreign = grants.values().find(|grant| Some(grant.client) == row);
        match self.random.below(5) {
            0..=2 => {
                let name = |name: &str, host: u8| WantedName {
                    name: name.to_owned(),
                    ipv4: Ipv4Addr::new(100, 96, 0, host),
                    ipv6: Ipv6Addr::new(0xfd00, 0x2021, 0x1111, 0x8000, 0, 0, 0, host.into()),
                };
                let names = match self.random.below(3) {
                    0 => vec![name("db.corp.example", 1)],
                    1 => vec![name("evil.example", 1), name("web.corp.example", 1)],
                    _ => Vec::new(),
                };
                encode(&FromClient::RequestAccess {
                    request: (1 << 50) + self.random.below(1 << 20),
                    resource: on,
                    names,
                    avoid: Vec::new(),
                })
            }
            3 if let Some(foreign) = foreign => {
                encode(&FromClient::ReleaseAccess { grant: foreign.id })
            }
            _ => r#"{"type":"give_me_everything","resource":"res_1"}"#.to_owned(),
        }
    }

    fn conditions(&mut self) -> Vec<Condition> {
        let minute = self.world.now_ms() / 60_000;
        match self.random.below(8) {
            0 => vec![Condition::Verified(WrittenVerified {})],
            1 => vec![Condition::PublicAddress(WrittenPublicAddresses {
                cidrs: vec![HOME.to_owned()],
            })],
            2 => {
                let at = self.world.portal_unix_ms() + self.random.below(90_000);
                let at = Timestamp::from_unix_ms(at);
                vec![Condition::Expires(WrittenExpires { at })]
            }
            3 => {
                let from = minute.saturating_sub(1) + self.random.below(3);
                vec![window(from, from + 1 + self.random.below(3))]
            }
            _ => Vec::new(),
        }
    }

    fn filters(&mut self) -> Vec<Filter> {
        match self.random.below(6) {
            0 => vec![rows::tcp(&[80])],
            1 => vec![rows::tcp(&[443]), Filter::Icmp],
            2 if self.random.chance(300) => Vec::new(),
            _ => vec![Filter::Any],
        }
    }

    fn machine(&mut self) -> Machine {
        let number = small(&mut self.random, (self.clients + self.gateways) as u64);
        match number.checked_sub(self.clients) {
            Some(gateway) => Machine::Gateway(gateway),
            None => Machine::Client(number),
        }
    }

    fn below(&mut self, bound: u16) -> u16 {
        u16::try_from(self.random.below(bound.into())).unwrap_or(0)
    }
}

fn small(random: &mut Random, bound: u64) -> usize {
    usize::try_from(random.below(bound)).unwrap_or(0)
}

fn number(of: usize) -> u16 {
    u16::try_from(of).unwrap_or(u16::MAX)
}
