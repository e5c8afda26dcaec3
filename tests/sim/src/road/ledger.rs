//! The packets that were sent, and the rules for those that arrive.

use std::collections::{BTreeMap, BTreeSet};

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// From the client to the resource.
    There,
    /// From the resource to the client.
    Back,
}

/// The reference model: a multiset of what was sent, with the rules in a few lines.
#[derive(Debug)]
pub struct Ledger {
    flows: BTreeMap<(Way, u32), Flow>,
    /// The network keeps the order of datagrams, so that packets of a flow arrive in theirs.
    pub keeps_order: bool,
    /// Breaches of the rules.
    pub faults: Vec<String>,
    /// Packets that arrived with a congestion mark.
    pub marked: u64,
}

#[derive(Debug, Default)]
struct Flow {
    sent: u64,
    /// Packets below this number may arrive.
    allowed_until: u64,
    arrived: BTreeSet<u64>,
    last: Option<u64>,
}

impl Ledger {
    /// Nothing was sent yet, over a network that keeps the order.
    pub(crate) const fn new() -> Self {
        Self {
            flows: BTreeMap::new(),
            keeps_order: true,
            faults: Vec::new(),
            marked: 0,
        }
    }

    /// A packet of a flow is sent. Returns its number.
    pub(crate) fn send(&mut self, way: Way, flow: u32, is_allowed: bool) -> u64 {
        let flow = self.flows.entry((way, flow)).or_default();
        flow.sent += 1;
        if is_allowed {
            flow.allowed_until = flow.sent;
        }
        flow.sent - 1
    }

    /// Nothing is allowed any more. Answers that have passed the gate may be under way.
    pub(crate) fn revoke(&mut self) {
        for ((way, _), flow) in &mut self.flows {
            if *way == Way::There {
                flow.allowed_until = 0;
            }
        }
    }

    /// A packet has arrived.
    pub(crate) fn arrive(&mut self, way: Way, flow: u32, number: u64) {
        let Some(known) = self.flows.get_mut(&(way, flow)) else {
            self.faults
                .push(format!("{way:?} {flow}: nobody sent that"));
            return;
        };
        if number >= known.sent {
            self.faults
                .push(format!("{way:?} {flow}: {number} was never sent"));
        }
        if number >= known.allowed_until {
            self.faults
                .push(format!("{way:?} {flow}: policy does not allow it"));
        }
        if !known.arrived.insert(number) {
            self.faults
                .push(format!("{way:?} {flow}: {number} arrived twice"));
        }
        if self.keeps_order && known.last.is_some_and(|last| last > number) {
            let last = known.last;
            self.faults
                .push(format!("{way:?} {flow}: {number} arrived after {last:?}"));
        }
        known.last = Some(number);
    }

    /// Packets of a direction that were sent.
    #[must_use]
    pub fn sent(&self, way: Way) -> u64 {
        self.of(way).map(|flow| flow.sent).sum()
    }

    /// Packets of a direction that have arrived.
    #[must_use]
    pub fn arrived(&self, way: Way) -> u64 {
        self.of(way).map(|flow| flow.arrived.len() as u64).sum()
    }

    /// Packets of a direction that policy allows and that have not arrived.
    #[must_use]
    pub fn missing(&self, way: Way) -> u64 {
        let missing = |flow: &Flow| flow.allowed_until - flow.arrived.len() as u64;
        self.of(way)
            .filter(|flow| flow.allowed_until > 0)
            .map(missing)
            .sum()
    }

    fn of(&self, way: Way) -> impl Iterator<Item = &Flow> {
        let flows = self.flows.iter();
        flows
            .filter(move |((its, _), _)| *its == way)
            .map(|(_, flow)| flow)
    }
}
