//! The network between the nodes: time, packets in flight, control connections, and faults.

use super::application::Application;
use super::catalog::Machine;
use super::config::Config;
use super::intent::Intent;
use super::ledger::Ledger;
use super::names::NameServers;
use super::tally::Tally;
use super::trace::brief;
use super::tunnel::Datagram;
use super::wire_id::WireId;
use crate::random::Random;
use culvert_base::BootTime;
use culvert_hub::SessionId;
use culvert_policy::DomainName;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::Range;

/// After how much silence either end of a control connection gives the other one up, and how often
/// each pings, in milliseconds (`docs/access.md`, "The control channel").
const SILENCE_MS: u64 = 12_000;
const PING_MS: u64 = 5_000;

/// When an attempt to connect that gets no answer is repeated by TCP, and when it is given up, in
/// milliseconds after its beginning.
const RETRIES_MS: [u64; 3] = [1_000, 3_000, 7_000];
const ATTEMPT_LIMIT_MS: u64 = 10_000;

/// The time that a cut control connection needs to continue once the cut is over, in milliseconds.
pub(crate) const RECOVERY_MS: u64 = 200;

/// The error of a core about a portal that does not answer `hello`.
pub(crate) const NO_WELCOME: &str = "the portal did not answer hello in time";

/// The first whole millisecond that is not before an instant.
pub(crate) fn ceil_ms(at: BootTime) -> u64 {
    at.as_nanos().div_ceil(1_000_000)
}

/// An end of a control connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Machine,
    Portal,
}

/// A message on a control connection.
#[derive(Clone, Debug)]
pub(crate) enum Frame {
    Text(String),
    Closed,
}

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) machine: Machine,
    /// The life of the machine that has it.
    pub(crate) life: u32,
    pub(crate) session: Option<SessionId>,
    /// The portal of several whose hub has the session, or that the machine has reached.
    pub(crate) portal: usize,
    /// True if the hub's messages do not reach the portal that the machine has reached.
    pub(crate) is_muted: bool,
    /// True if messages reach nobody any more.
    is_broken: bool,
    machine_end: End,
    portal_end: End,
}

#[derive(Debug, Default)]
struct End {
    is_open: bool,
    /// Messages of this end while the link was cut.
    held: Vec<Frame>,
    /// The arrival time of this end's last message.
    last_arrival_ms: u64,
    /// Silence that was noticed before this number was raised does not count.
    serial: u32,
    /// The last that this end said.
    last_text: Option<String>,
}

/// Something that is going to happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A machine tries to reach the portal.
    Attempt {
        machine: Machine,
        life: u32,
        begun_ms: u64,
    },
    /// An attempt arrives.
    Knock { machine: Machine, life: u32 },
    /// An attempt was answered.
    Opened { wire: WireId, portal_unix_ms: u64 },
    /// An attempt has failed; for good where the token is none.
    Failed {
        machine: Machine,
        life: u32,
        is_unauthorized: bool,
    },
    Frame {
        wire: WireId,
        to: Side,
        frame: Frame,
    },
    Silence {
        wire: WireId,
        side: Side,
        serial: u32,
    },
    Datagram {
        from: SocketAddr,
        to: SocketAddr,
        datagram: Datagram,
    },
    Resolved {
        gateway: usize,
        life: u32,
        name: DomainName,
    },
    /// A resource answers.
    Reply {
        gateway: usize,
        life: u32,
        packet: Vec<u8>,
    },
    /// An application is due.
    Application(usize),
    /// A gateway says how busy it is.
    Load { gateway: usize, life: u32 },
    /// A client notices that its network is another.
    Noticed { client: usize, life: u32 },
}

/// The properties of the network; times are in milliseconds.
#[derive(Clone, Debug)]
pub struct Weather {
    /// The delay of a control message.
    pub control_ms: Range<u64>,
    /// The delay of a packet. A range reorders.
    pub data_ms: Range<u64>,
    /// The number of lost packets in a thousand.
    pub loss_per_mille: u32,
    /// The number of packets in a thousand that arrive twice.
    pub copies_per_mille: u32,
}

impl Weather {
    /// Nothing is lost, and nothing takes long.
    pub fn fair() -> Self {
        Self {
            control_ms: 5..40,
            data_ms: 5..40,
            loss_per_mille: 0,
            copies_per_mille: 0,
        }
    }
}

/// Everything that nodes share.
pub(crate) struct Net {
    pub(crate) now_ms: u64,
    pub(crate) random: Random,
    queue: BTreeMap<(u64, u64), Event>,
    queued: u64,
    pub(crate) weather: Weather,
    pub(crate) cut_control: BTreeSet<Machine>,
    /// Clients and gateways that do not reach each other.
    pub(crate) cut_data: BTreeSet<(usize, usize)>,
    pub(crate) wires: BTreeMap<WireId, Wire>,
    next_wire: u64,
    /// The last packet's number in its session, which all sessions share.
    last_counter: u64,
    /// Machines that were told something twice: each breaks off.
    pub(crate) misled: BTreeSet<Machine>,
    pub(crate) is_portal_up: bool,
    /// The portal's Unix time at the beginning of the run.
    pub(crate) portal_epoch_ms: u64,
    pub(crate) config: Config,
    pub(crate) ledger: Ledger,
    pub(crate) names: NameServers,
    pub(crate) tally: Tally,
    /// The intents of applications with their packets, by the numbers of the packets.
    pub(crate) intents: Vec<Intent>,
    pub(crate) is_traced: bool,
}

impl Net {
    pub(crate) fn new(seed: u64, config: Config, portal_epoch_ms: u64) -> Self {
        Self {
            now_ms: 0,
            random: Random::new(seed),
            queue: BTreeMap::new(),
            queued: 0,
            weather: Weather::fair(),
            cut_control: BTreeSet::new(),
            cut_data: BTreeSet::new(),
            wires: BTreeMap::new(),
            next_wire: 0,
            last_counter: 0,
            misled: BTreeSet::new(),
            is_portal_up: false,
            portal_epoch_ms,
            config,
            ledger: Ledger::default(),
            names: NameServers::default(),
            tally: Tally::default(),
            intents: Vec::new(),
            is_traced: false,
        }
    }

    /// Something is not as it must be.
    pub(crate) fn fail(&self, what: &str) -> ! {
        panic!("at {} ms: {what}", self.now_ms)
    }

    /// The intent of a packet.
    pub(crate) fn intent(&self, probe: u64) -> Intent {
        let (id, _) = Application::of_probe(probe);
        match self.intents.get(id) {
            Some(intent) => *intent,
            None => self.fail("a packet that nobody sent"),
        }
    }

    /// The portal's clock.
    pub(crate) fn portal_unix_ms(&self) -> u64 {
        self.portal_epoch_ms + self.now_ms
    }

    /// Shows what happens to whoever replays a seed.
    pub(crate) fn trace(&self, text: impl FnOnce() -> String) {
        if self.is_traced {
            eprintln!("{:>9.3} {}", self.now_ms as f64 / 1_000.0, text());
        }
    }

    pub(crate) fn at(&mut self, at_ms: u64, event: Event) {
        self.queued += 1;
        self.queue
            .insert((at_ms.max(self.now_ms), self.queued), event);
    }

    pub(crate) fn after(&mut self, wait_ms: u64, event: Event) {
        self.at(self.now_ms + wait_ms, event);
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((at_ms, _), _)| *at_ms)
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        let first = self.queue.first_entry()?;
        (first.key().0 <= self.now_ms).then(|| first.remove())
    }

    pub(crate) fn draw_ms(&mut self, range: &Range<u64>) -> u64 {
        range.start
            + self
                .random
                .below(range.end.saturating_sub(range.start).max(1))
    }

    /// The next packet's number in its session.
    pub(crate) fn next_counter(&mut self) -> u64 {
        self.last_counter += 1;
        self.last_counter
    }

    /// Sends a packet between a client and a gateway, or loses it, or copies it.
    pub(crate) fn send_datagram(&mut self, from: SocketAddr, to: SocketAddr, datagram: Datagram) {
        let (loss, range) = (self.weather.loss_per_mille, self.weather.data_ms.clone());
        let copies = self.weather.copies_per_mille;
        if copies > 0 && self.random.chance(copies) {
            let delay_ms = self.draw_ms(&range);
            let datagram = datagram.clone();
            self.after(delay_ms, Event::Datagram { from, to, datagram });
        }
        let delay_ms = self.draw_ms(&range);
        if !self.random.chance(loss) {
            self.after(delay_ms, Event::Datagram { from, to, datagram });
        }
    }

    // Control connections.

    /// A machine tries to connect.
    pub(crate) fn attempt(&mut self, machine: Machine, life: u32, begun_ms: u64) {
        let failed = Event::Failed {
            machine,
            life,
            is_unauthorized: false,
        };
        let range = self.weather.control_ms.clone();
        let delay_ms = self.draw_ms(&range);
        if self.cut_control.contains(&machine) {
            let passed_ms = self.now_ms - begun_ms;
            match RETRIES_MS.iter().find(|retry_ms| **retry_ms > passed_ms) {
                Some(retry_ms) => self.at(
                    begun_ms + retry_ms,
                    Event::Attempt {
                        machine,
                        life,
                        begun_ms,
                    },
                ),
                None => self.at(begun_ms + ATTEMPT_LIMIT_MS, failed),
            }
        } else if self.is_portal_up {
            // TCP, TLS, and the request, which arrives at the end of the third time there.
            self.after(5 * delay_ms, Event::Knock { machine, life });
        } else {
            self.after(2 * delay_ms, failed);
        }
    }

    /// The portal lets an attempt in; the machine hears of it.
    pub(crate) fn open(&mut self, machine: Machine, life: u32) -> WireId {
        self.next_wire += 1;
        let wire = WireId(self.next_wire);
        let open = || End {
            is_open: true,
            ..End::default()
        };
        let made = Wire {
            machine,
            life,
            session: None,
            portal: 0,
            is_muted: false,
            is_broken: false,
            machine_end: open(),
            portal_end: open(),
        };
        self.wires.insert(wire, made);
        // `Date` has no parts of a second.
        let portal_unix_ms = self.portal_unix_ms() / 1_000 * 1_000;
        let range = self.weather.control_ms.clone();
        let delay_ms = self.draw_ms(&range);
        let opened = Event::Opened {
            wire,
            portal_unix_ms,
        };
        let arrival_ms = self.now_ms + delay_ms;
        if let Some(wire) = self.wires.get_mut(&wire) {
            wire.portal_end.last_arrival_ms = arrival_ms;
        }
        self.at(arrival_ms, opened);
        wire
    }

    pub(crate) fn is_open(&self, wire: WireId, side: Side) -> bool {
        let wire = self.wires.get(&wire);
        wire.is_some_and(|wire| wire.end(side).is_open)
    }

    /// Sends a frame; in the order of sending they arrive, or wait for the end of a cut.
    pub(crate) fn send(&mut self, id: WireId, from: Side, frame: Frame) {
        let range = self.weather.control_ms.clone();
        let delay_ms = self.draw_ms(&range);
        let now_ms = self.now_ms;
        let Some(wire) = self.wires.get_mut(&id) else {
            return;
        };
        let is_muted = wire.is_muted && from == Side::Portal && matches!(frame, Frame::Text(_));
        if wire.is_broken || is_muted {
            return;
        }
        let is_cut = self.cut_control.contains(&wire.machine);
        let end = wire.end_mut(from);
        if let Frame::Text(text) = &frame {
            end.last_text = Some(text.clone());
        }
        if is_cut {
            end.held.push(frame);
            return;
        }
        end.last_arrival_ms = end.last_arrival_ms.max(now_ms + delay_ms);
        let arrival_ms = end.last_arrival_ms;
        let to = from.other();
        self.at(
            arrival_ms,
            Event::Frame {
                wire: id,
                to,
                frame,
            },
        );
    }

    /// An end says once more what it said last. False where it has said nothing.
    pub(crate) fn repeat(&mut self, machine: Machine, from: Side) -> bool {
        let mut is_repeated = false;
        for id in self.wires_of(machine) {
            let wire = self.wires.get(&id).filter(|wire| wire.end(from).is_open);
            if let Some(text) = wire.and_then(|wire| wire.end(from).last_text.clone()) {
                self.trace(|| format!("{from:?} of {machine:?} repeats: {}", brief(&text)));
                self.send(id, from, Frame::Text(text));
                is_repeated = true;
            }
        }
        is_repeated
    }

    /// One end closes, and the other one hears of it.
    pub(crate) fn close(&mut self, id: WireId, side: Side) {
        let Some(wire) = self.wires.get_mut(&id) else {
            return;
        };
        if std::mem::take(&mut wire.end_mut(side).is_open) {
            self.send(id, side, Frame::Closed);
        }
    }

    /// One end is gone without a word.
    pub(crate) fn vanish(&mut self, id: WireId, side: Side) {
        if let Some(wire) = self.wires.get_mut(&id) {
            wire.end_mut(side).is_open = false;
            wire.end_mut(side).held.clear();
            self.watch_silence(id, side.other());
        }
    }

    /// Messages that either end sends from here on are lost, until both have noticed.
    pub(crate) fn break_off(&mut self, id: WireId) {
        if let Some(wire) = self.wires.get_mut(&id) {
            wire.is_broken = true;
            self.watch_silence(id, Side::Machine);
            self.watch_silence(id, Side::Portal);
        }
    }

    /// Nothing passes between the portal and a machine.
    pub(crate) fn cut(&mut self, machine: Machine) {
        if !self.cut_control.insert(machine) {
            return;
        }
        for id in self.wires_of(machine) {
            self.watch_silence(id, Side::Machine);
            self.watch_silence(id, Side::Portal);
        }
        if let Machine::Gateway(number) = machine {
            self.ledger.link_lost(number, self.now_ms);
        }
    }

    /// Everything passes again; what was held arrives.
    pub(crate) fn heal(&mut self, machine: Machine) {
        if !self.cut_control.remove(&machine) {
            return;
        }
        for id in self.wires_of(machine) {
            self.resume(id);
        }
    }

    fn resume(&mut self, id: WireId) {
        for side in [Side::Machine, Side::Portal] {
            let Some(wire) = self.wires.get_mut(&id) else {
                return;
            };
            if wire.is_broken {
                return;
            }
            let end = wire.end_mut(side);
            end.serial += 1;
            let held = std::mem::take(&mut end.held);
            for frame in held {
                self.send(id, side, frame);
            }
        }
        let Some(wire) = self.wires.get(&id) else {
            return;
        };
        let open = [Side::Machine, Side::Portal].map(|side| wire.end(side).is_open);
        let machine = wire.machine;
        match open {
            // The next ping of the one is answered by a reset.
            [true, false] | [false, true] => {
                let to = if open[0] { Side::Machine } else { Side::Portal };
                let wait_ms = self.random.below(PING_MS);
                let frame = Frame::Closed;
                self.after(
                    wait_ms,
                    Event::Frame {
                        wire: id,
                        to,
                        frame,
                    },
                );
            }
            [true, true] => {
                if let Machine::Gateway(number) = machine
                    && self.ledger.is_session(number, id)
                {
                    self.ledger.link_up(number, id, self.now_ms + RECOVERY_MS);
                }
            }
            [false, false] => {}
        }
    }

    /// From the last ping that was answered on, this end hears nothing.
    fn watch_silence(&mut self, id: WireId, side: Side) {
        let heard_ago_ms = self.random.below(PING_MS);
        let Some(wire) = self.wires.get_mut(&id) else {
            return;
        };
        let end = wire.end_mut(side);
        if !end.is_open {
            return;
        }
        end.serial += 1;
        let serial = end.serial;
        self.after(
            SILENCE_MS - heard_ago_ms,
            Event::Silence {
                wire: id,
                side,
                serial,
            },
        );
    }

    /// True if the silence that was noticed still lasts; the end is closed then.
    pub(crate) fn take_silence(&mut self, id: WireId, side: Side, serial: u32) -> bool {
        let Some(wire) = self.wires.get_mut(&id) else {
            return false;
        };
        let end = wire.end_mut(side);
        let is_silent = end.is_open && end.serial == serial;
        if is_silent {
            self.close(id, side);
        }
        is_silent
    }

    pub(crate) fn wires_of(&self, machine: Machine) -> Vec<WireId> {
        let wires = self.wires.iter();
        wires
            .filter(|(_, wire)| wire.machine == machine)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Forgets connections that nobody has an end of.
    pub(crate) fn tidy(&mut self) {
        self.wires.retain(|_, wire| {
            wire.machine_end.is_open || wire.portal_end.is_open || !wire.is_empty()
        });
    }
}

impl Side {
    const fn other(self) -> Self {
        match self {
            Self::Machine => Self::Portal,
            Self::Portal => Self::Machine,
        }
    }
}

impl Wire {
    const fn end(&self, side: Side) -> &End {
        match side {
            Side::Machine => &self.machine_end,
            Side::Portal => &self.portal_end,
        }
    }

    const fn end_mut(&mut self, side: Side) -> &mut End {
        match side {
            Side::Machine => &mut self.machine_end,
            Side::Portal => &mut self.portal_end,
        }
    }

    const fn is_empty(&self) -> bool {
        self.machine_end.held.is_empty() && self.portal_end.held.is_empty()
    }
}
