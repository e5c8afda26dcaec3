//! Relays, portals and ends whose clocks differ.

use crate::clocks::build_library;
use crate::common::SOON;
use culvert_lab::nat::NatKind;
use culvert_lab::product::{BehindNats, Client};
use culvert_lab::wait_until;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

const TEN_MINUTES_S: i64 = 600;

/// Longer than the relay keeps an end that has left without a word (60 s), and a refused end waits (30 s).
const FORGOTTEN: Duration = Duration::from_secs(150);

/// A machine whose clock is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Machine {
    Portal,
    Relay,
    Gateway,
    Client,
}

/// A machine's log, where a relay does not take its token.
const REFUSES: &str = "a relay refuses";

/// A gateway and two clients that are joined by a relay alone, and the library that shifts clocks.
struct Scene {
    nats: BehindNats,
    library: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let (gateway, client) = (NatKind::PortDependent, NatKind::Symmetric);
        let nats = BehindNats::new(1, &[gateway], &[client, client]).unwrap();
        let library = nats.private_file("clock.so", "").unwrap();
        build_library(&library);
        Self { nats, library }
    }

    /// The variables of a program whose clock is shifted for ever.
    fn shifted(&self, shift_s: i64) -> String {
        let library = self.library.display();
        format!("LD_PRELOAD={library} CLOCK_SHIFT_S={shift_s}")
    }

    /// Kills a program, and starts it with another clock.
    fn restart(&mut self, machine: Machine, shift_s: i64) {
        let variables = self.shifted(shift_s);
        match machine {
            Machine::Portal => {
                self.nats.portal.kill().unwrap();
                self.nats.portal.wrapper = format!("env {variables}");
                self.nats.portal.start().unwrap();
            }
            Machine::Relay => {
                let relay = &mut self.nats.relays[0];
                relay.kill().unwrap();
                relay.wrapper = format!("env {variables}");
                relay.start().unwrap();
            }
            Machine::Gateway => {
                let gateway = &mut self.nats.gateways[0];
                gateway.kill().unwrap();
                gateway.machine = format!("export {variables}");
                gateway.start().unwrap();
            }
            Machine::Client => {
                let client = &mut self.nats.clients[0];
                client.kill().unwrap();
                client.machine = format!("export {variables}");
                client.start().unwrap();
            }
        }
    }

    fn problems(&self, machine: Machine) -> String {
        let status = match machine {
            Machine::Portal => return String::new(),
            Machine::Relay => self.nats.relays[0].status(),
            Machine::Gateway => self.nats.gateways[0].status(),
            Machine::Client => self.nats.clients[0].status(),
        };
        status.unwrap_or_default()["problems"].to_string()
    }

    /// Waits until the client gets an answer through the relay, where both ends are registered.
    fn is_relayed(&self, client: usize, when: &str) {
        wait_until("an answer through the relay", FORGOTTEN, || {
            self.nats.reaches(client, 0) && self.nats.path(client, 0) == "relayed"
        })
        .unwrap_or_else(|error| {
            let (client, gateway) = (&self.nats.clients[client], &self.nats.gateways[0]);
            let relay = &self.nats.relays[0];
            panic!(
                "{when}: {error}\n{}\n{}\n{}",
                client.output(),
                gateway.output(),
                relay.output()
            )
        });
    }

    /// Refusals of the relay that its clients tell of.
    fn refusals(&self) -> usize {
        let outputs = self.nats.clients.iter().map(Client::output);
        outputs.map(|said| said.matches(REFUSES).count()).sum()
    }

    fn has_problem(&self, machine: Machine, problem: &str, when: &str) {
        wait_until("the problem", SOON, || {
            self.problems(machine).contains(problem)
        })
        .unwrap_or_else(|error| panic!("{when}: {error}: {}", self.problems(machine)));
    }
}

#[test]
fn ends_are_registered_at_a_relay_whatever_one_of_the_clocks_shows() {
    let mut scene = Scene::new();
    scene.nats.start().unwrap();
    scene.is_relayed(0, "with clocks that agree");
    let others = [Machine::Relay, Machine::Gateway, Machine::Client];
    for machine in [
        Machine::Relay,
        Machine::Gateway,
        Machine::Client,
        Machine::Portal,
    ] {
        for shift_s in [TEN_MINUTES_S, -TEN_MINUTES_S, 0] {
            let when = format!("{machine:?} {shift_s} s off");
            scene.restart(machine, shift_s);
            scene.is_relayed(0, &when);
            let (own, of_others) = match shift_s {
                0 => continue,
                1.. => ("ahead of the portal's", "behind the portal's"),
                _ => ("behind the portal's", "ahead of the portal's"),
            };
            if machine == Machine::Portal {
                for other in others {
                    scene.has_problem(other, of_others, &when);
                }
            } else {
                scene.has_problem(machine, own, &when);
                scene.has_problem(machine, "timedatectl set-ntp true", &when);
            }
        }
    }
}

#[test]
fn machines_of_a_portal_whose_clock_is_put_forward_read_it_and_the_relay_believes_new_tokens() {
    let mut scene = Scene::new();
    let shift = scene
        .nats
        .private_file("shift", "\0\0\0\0\0\0\0\0")
        .unwrap();
    let library = scene.library.display();
    scene.nats.portal.wrapper = format!(
        "env LD_PRELOAD={library} CLOCK_SHIFT_FILE={}",
        shift.display()
    );
    scene.nats.start().unwrap();
    scene.is_relayed(0, "with clocks that agree");

    let file = OpenOptions::new().write(true).open(&shift).unwrap();
    file.write_all_at(&TEN_MINUTES_S.to_ne_bytes(), 0).unwrap();
    assert_eq!(fs::read(&shift).unwrap(), TEN_MINUTES_S.to_ne_bytes());
    // The portal sends all machines away, and they read its clock when they come back.
    let when = "after the clock was put forward";
    for machine in [Machine::Relay, Machine::Gateway, Machine::Client] {
        scene.has_problem(machine, "behind the portal's", when);
    }
    // Ends that are registered stay. An end that comes back before the relay does has a token that is of the future there,
    // until the relay has read the clock.
    scene.is_relayed(0, when);
    let refusals = scene.refusals();

    // The gateway has a token of ten minutes later, and so has a client that is new at the relay.
    let gateway = &mut scene.nats.gateways[0];
    gateway.kill().unwrap();
    gateway.start().unwrap();
    for client in [0, 1] {
        scene.is_relayed(client, "after the gateway was restarted");
        let status = scene.nats.clients[client].status().unwrap();
        let problems = status["problems"].to_string();
        assert!(!problems.contains("relay-0"), "{problems}");
    }
    let problems = scene.problems(Machine::Gateway);
    assert!(!problems.contains("relay-0"), "{problems}");
    assert_eq!(scene.refusals(), refusals);
    let gateway = scene.nats.gateways[0].output();
    assert!(!gateway.contains(REFUSES), "{gateway}");
}
