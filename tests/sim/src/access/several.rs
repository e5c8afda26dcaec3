//! Several portals on one database: the shipped election and hub of each, and what runs around them.
//!
//! The database is a model of the two statements that matter: a report renews or takes the lease, and grants are written
//! in the epoch of the leader alone. The reference model is the history of its leaders. Every decision of a hub is compared
//! with it.

mod election;
mod faults;
mod machines;

use super::net::{Frame, Net};
use super::portal::{GrantWrite, Portal};
use super::wire_id::WireId;
use crate::random::Random;
use culvert_base::BootTime;
use culvert_hub::{Election, SessionId, Term};
use culvert_store::{Claim, LEASE_MS, Leader, Leading, REPORT_EVERY_MS};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// The longest wait for the answer to a report.
const REPORT_TIMEOUT_MS: u64 = LEASE_MS;

/// The longest wait of a machine that has said hello for a portal that leads.
const LEADER_WAIT_MS: u64 = 6_000;

/// The silence after which a portal gives up the link to another one.
const LINK_SILENCE_MS: u64 = 12_000;

/// The delay of a message to the database, or from there.
const DATABASE_MS: std::ops::Range<u64> = 1..30;

/// The clock of the database is ahead of all others by so much, in milliseconds.
const DATABASE_AHEAD_MS: u64 = 3_600_000;

/// The counters of what happened to portals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leads {
    /// Changes of the leader.
    pub epochs: u64,
    /// Decisions of hubs, each of which was compared with the history of leaders.
    pub decisions: u64,
    /// Events that a hub did not decide on, since its lease did not hold.
    pub held: u64,
    /// Writes of grants that the database refused, since another portal led by then.
    pub fenced: u64,
    /// Writes of grants that it took.
    pub written: u64,
}

/// The lease, as the database has it.
#[derive(Debug, Default)]
struct Database {
    epoch: u64,
    portal: Option<usize>,
    until_ms: u64,
}

/// A portal's process.
struct Node {
    portal: Portal,
    is_up: bool,
    is_paused: bool,
    reaches_database: bool,
    /// Its clock, which counts from another moment than all others.
    boot_ahead_ms: u64,
    /// Events of a process before it was killed are nobody's.
    life: u32,
    election: Election,
    /// The number of the report whose answer it waits for.
    report: Option<u64>,
    /// The epoch in which it leads, or led last, and the time for which its hub may decide.
    lead: Option<(u64, Term)>,
    follows: Option<Leader>,
    inbox: VecDeque<Arrival>,
    /// Writes of grants that have not reached the database, with the epoch of their hub.
    unwritten: Vec<(u64, GrantWrite)>,
}

/// Something that has arrived at a process.
enum Arrival {
    /// For the portal that the machine has reached.
    Frame(WireId, Frame, IpAddr),
    /// For the hub.
    Hub(WireId, Frame, IpAddr),
    Answer(Claim, Leading, BootTime),
}

/// A machine that has said hello, at a portal that knows of no leader.
struct Waiting {
    hello: Frame,
    from: IpAddr,
    until_ms: u64,
}

#[derive(Clone, Copy)]
enum Event {
    Report {
        node: usize,
        life: u32,
    },
    AtDatabase {
        node: usize,
        life: u32,
        report: u64,
        claim: Claim,
        began: BootTime,
    },
    Answer {
        node: usize,
        life: u32,
        report: u64,
        claim: Claim,
        leading: Leading,
        began: BootTime,
    },
    Unanswered {
        node: usize,
        life: u32,
        report: u64,
    },
    Interrupt {
        node: usize,
        life: u32,
        session: SessionId,
    },
    Look,
}

/// The portals, the database, and the links between them.
pub(crate) struct Several {
    nodes: Vec<Node>,
    database: Database,
    /// The reference model: the portal of each epoch.
    history: BTreeMap<u64, usize>,
    /// Pairs of portals that do not reach each other, and since when.
    cut: BTreeMap<(usize, usize), u64>,
    /// The portal that each connection has reached.
    entries: BTreeMap<WireId, usize>,
    /// Machines that have said hello, and wait for a leader until then.
    waiting: BTreeMap<WireId, Waiting>,
    /// Sessions of a hub that the portal of their machines carries.
    joined: BTreeMap<WireId, (usize, u64)>,
    queue: BTreeMap<(u64, u64), Event>,
    queued: u64,
    random: Random,
    leads: Leads,
}

impl Several {
    pub(crate) fn new(count: usize, seed: u64, actors: &[u16], sites: &[u16]) -> Self {
        let node = |number: usize| Node {
            portal: Portal::of_several(number, actors.to_vec(), sites.to_vec()),
            is_up: false,
            is_paused: false,
            reaches_database: true,
            boot_ahead_ms: 1_000 + 3_600_000 * number as u64,
            life: 0,
            election: Election::new(),
            report: None,
            lead: None,
            follows: None,
            inbox: VecDeque::new(),
            unwritten: Vec::new(),
        };
        Self {
            nodes: (0..count).map(node).collect(),
            database: Database::default(),
            history: BTreeMap::new(),
            cut: BTreeMap::new(),
            entries: BTreeMap::new(),
            waiting: BTreeMap::new(),
            joined: BTreeMap::new(),
            queue: BTreeMap::new(),
            queued: 0,
            random: Random::new(seed ^ 0x5e_7e_4a_11),
            leads: Leads::default(),
        }
    }

    pub(crate) const fn leads(&self) -> Leads {
        self.leads
    }

    /// The portal whose lease the database has.
    pub(crate) fn leader(&self, net: &Net) -> Option<usize> {
        let database = &self.database;
        database
            .portal
            .filter(|_| database.until_ms >= net.now_ms + DATABASE_AHEAD_MS)
    }

    pub(crate) fn count(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn is_up(&self, node: usize) -> bool {
        self.nodes[node].is_up
    }

    pub(crate) fn next_ms(&self, net: &Net) -> Option<u64> {
        let timeouts = (0..self.nodes.len()).filter_map(|node| self.wake_ms(node, net));
        let queued = self.queue.first_key_value().map(|((at_ms, _), _)| *at_ms);
        timeouts.chain(queued).min()
    }

    /// The time at which a hub is to decide on something, if it may.
    fn wake_ms(&self, node: usize, net: &Net) -> Option<u64> {
        let it = &self.nodes[node];
        (!it.is_paused && self.may_decide(node, net)).then(|| it.portal.wake_ms(net))?
    }

    /// Everything that is due.
    pub(crate) fn turn(&mut self, net: &mut Net) {
        while let Some(first) = self.queue.first_entry()
            && first.key().0 <= net.now_ms
        {
            let event = first.remove();
            self.handle(event, net);
        }
        for node in 0..self.nodes.len() {
            if self
                .wake_ms(node, net)
                .is_some_and(|at_ms| at_ms <= net.now_ms)
            {
                self.hub_timeout(node, net);
            }
        }
    }

    /// The timer of a hub has gone off.
    fn hub_timeout(&mut self, node: usize, net: &mut Net) {
        if !self.may_decide(node, net) {
            self.leads.held += 1;
            return;
        }
        if self.nodes[node].portal.hub().is_some() {
            self.note_decision(node, net);
            self.nodes[node].portal.handle_timeout(net);
            self.write(node, net);
        }
    }

    fn at(&mut self, at_ms: u64, event: Event) {
        self.queued += 1;
        self.queue.insert((at_ms, self.queued), event);
    }

    fn handle(&mut self, event: Event, net: &mut Net) {
        match event {
            Event::Look => self.look(net),
            Event::Interrupt {
                node,
                life,
                session,
            } => self.interrupt(node, life, session, net),
            Event::Report { node, life } => self.report(node, life, net),
            Event::AtDatabase {
                node,
                life,
                report,
                claim,
                began,
            } => {
                let leading = self.claim(node, claim, net);
                if self.nodes[node].reaches_database {
                    let at_ms = net.now_ms + net.draw_ms(&DATABASE_MS);
                    let answer = Event::Answer {
                        node,
                        life,
                        report,
                        claim,
                        leading,
                        began,
                    };
                    self.at(at_ms, answer);
                }
            }
            Event::Answer {
                node,
                life,
                report,
                claim,
                leading,
                began,
            } => {
                let it = &mut self.nodes[node];
                if it.life != life || !it.is_up || it.report != Some(report) {
                    return;
                }
                it.report = None;
                self.at(net.now_ms + REPORT_EVERY_MS, Event::Report { node, life });
                let it = &mut self.nodes[node];
                match it.is_paused {
                    true => it.inbox.push_back(Arrival::Answer(claim, leading, began)),
                    false => self.answered(node, (claim, leading, began), net),
                }
            }
            Event::Unanswered { node, life, report } => {
                let it = &mut self.nodes[node];
                if it.life == life && it.is_up && it.report == Some(report) {
                    it.report = None;
                    self.at(net.now_ms, Event::Report { node, life });
                }
            }
        }
    }
}

impl Node {
    fn boot(&self, net: &Net) -> BootTime {
        BootTime::from_millis(self.boot_ahead_ms + net.now_ms)
    }
}
