//! Machines at the portals, and their way to the hub.

use super::super::catalog::Machine;
use super::super::net::{Event as NetEvent, Frame, Net, Side};
use super::super::wire_id::WireId;
use super::{Arrival, Event, LEADER_WAIT_MS, LINK_SILENCE_MS, Node, Several, Waiting};
use culvert_hub::{SessionId, Term};
use culvert_store::REPORT_EVERY_MS;
use std::net::IpAddr;

impl Several {
    /// An attempt has come to one of the portals that answer.
    pub(crate) fn knock(&mut self, machine: Machine, life: u32, net: &mut Net) {
        let answers = |node: &Node| node.is_up && !node.is_paused && node.reaches_database;
        let up: Vec<_> = (0..self.nodes.len())
            .filter(|node| answers(&self.nodes[*node]))
            .collect();
        if up.is_empty() || net.cut_control.contains(&machine) {
            let is_unauthorized = false;
            let failed = NetEvent::Failed {
                machine,
                life,
                is_unauthorized,
            };
            return net.after(40, failed);
        }
        let entry = up[self.random.below(up.len() as u64) as usize];
        let wire = net.open(machine, life);
        if let Some(wire) = net.wires.get_mut(&wire) {
            // No hub has it yet.
            wire.portal = usize::MAX;
        }
        self.entries.insert(wire, entry);
    }

    /// A frame of a machine.
    pub(crate) fn hear(&mut self, wire: WireId, frame: Frame, from: IpAddr, net: &mut Net) {
        let Some(entry) = self.entries.get(&wire).copied() else {
            return net.close(wire, Side::Portal);
        };
        if self.nodes[entry].is_paused {
            let arrival = Arrival::Frame(wire, frame, from);
            return self.nodes[entry].inbox.push_back(arrival);
        }
        if let Some((hub, _)) = self.joined.get(&wire).copied() {
            let pair = (entry.min(hub), entry.max(hub));
            let is_cut = self.cut.contains_key(&pair);
            match frame {
                // A portal that is cut off hears of the end by the silence of the link.
                Frame::Closed if is_cut => self.end(wire, net),
                _ if is_cut => {}
                frame => self.at_hub(hub, wire, frame, from, net),
            }
            return;
        }
        match frame {
            Frame::Closed => self.end(wire, net),
            hello @ Frame::Text(_) => match self.access(entry) {
                Some(hub) => self.join(hub, wire, hello, from, net),
                None => {
                    let until_ms = net.now_ms + LEADER_WAIT_MS;
                    let waiting = Waiting {
                        hello,
                        from,
                        until_ms,
                    };
                    self.waiting.insert(wire, waiting);
                    self.at(until_ms, Event::Look);
                }
            },
        }
    }

    /// The portal that a machine of this one is brought to; none while there is none.
    pub(super) fn access(&self, entry: usize) -> Option<usize> {
        let node = &self.nodes[entry];
        if matches!(node.lead, Some((_, term)) if term != Term::Over) {
            return Some(entry);
        }
        let leader = node.follows?;
        let hub = usize::from(leader.portal.as_bytes()[0]);
        let other = &self.nodes[hub];
        let leads = matches!(other.lead, Some((epoch, term)) if epoch == leader.epoch && term != Term::Over);
        let pair = (entry.min(hub), entry.max(hub));
        (leads && other.is_up && !other.is_paused && !self.cut.contains_key(&pair)).then_some(hub)
    }

    pub(super) fn join(
        &mut self,
        hub: usize,
        wire: WireId,
        hello: Frame,
        from: IpAddr,
        net: &mut Net,
    ) {
        let Some((epoch, _)) = self.nodes[hub].lead else {
            return;
        };
        if let Some(wire) = net.wires.get_mut(&wire) {
            wire.portal = hub;
        }
        self.joined.insert(wire, (hub, epoch));
        self.at_hub(hub, wire, hello, from, net);
    }

    /// A message for a hub, which decides only while its lease holds.
    pub(super) fn at_hub(
        &mut self,
        hub: usize,
        wire: WireId,
        frame: Frame,
        from: IpAddr,
        net: &mut Net,
    ) {
        let node = &mut self.nodes[hub];
        if node.is_paused || !self.may_decide(hub, net) {
            self.leads.held += 1;
            let arrival = Arrival::Hub(wire, frame, from);
            return self.nodes[hub].inbox.push_back(arrival);
        }
        self.note_decision(hub, net);
        let is_closed = matches!(frame, Frame::Closed);
        self.nodes[hub].portal.hear(wire, frame, from, net);
        if is_closed {
            self.forget(wire);
        }
        self.write(hub, net);
    }

    pub(super) fn may_decide(&self, node: usize, net: &Net) -> bool {
        let it = &self.nodes[node];
        it.is_up && it.lead.is_some_and(|(_, term)| term.holds(it.boot(net)))
    }

    /// Compares a decision with the reference model: no other portal has begun to lead.
    pub(super) fn note_decision(&mut self, node: usize, net: &Net) {
        self.leads.decisions += 1;
        let last = self.history.last_key_value();
        let (epoch, _) = self.nodes[node].lead.unwrap_or((0, Term::Over));
        if last != Some((&epoch, &node)) {
            net.fail(&format!(
                "portal {node} decides in epoch {epoch}, and the last leader is {last:?}"
            ));
        }
    }

    /// The way of a connection to the hub is broken, by no doing of its machine: it comes back by another way.
    pub(super) fn break_way(&mut self, wire: WireId, net: &mut Net) {
        let Some((hub, _)) = self.joined.get(&wire).copied() else {
            return self.end(wire, net);
        };
        match self.nodes[hub].portal.session_of(wire) {
            Some(session) if self.nodes[hub].is_up => {
                net.close(wire, Side::Portal);
                self.forget(wire);
                let life = self.nodes[hub].life;
                self.interrupt(hub, life, session, net);
            }
            _ => self.end(wire, net),
        }
    }

    pub(super) fn interrupt(&mut self, node: usize, life: u32, session: SessionId, net: &mut Net) {
        let it = &self.nodes[node];
        if it.life != life || !it.is_up || it.portal.hub().is_none() {
            return;
        }
        if it.is_paused || !self.may_decide(node, net) {
            let interrupt = Event::Interrupt {
                node,
                life,
                session,
            };
            return self.at(net.now_ms + REPORT_EVERY_MS, interrupt);
        }
        self.note_decision(node, net);
        self.nodes[node].portal.interrupt(session, net);
        self.write(node, net);
    }

    /// A connection is over for the portal that the machine has reached, and for the hub.
    pub(super) fn end(&mut self, wire: WireId, net: &mut Net) {
        net.close(wire, Side::Portal);
        if let Some((hub, _)) = self.joined.get(&wire).copied()
            && self.may_decide(hub, net)
            && !self.nodes[hub].is_paused
        {
            self.note_decision(hub, net);
            self.nodes[hub].portal.lose(wire, net);
            self.write(hub, net);
        }
        self.forget(wire);
    }

    pub(super) fn forget(&mut self, wire: WireId) {
        self.entries.remove(&wire);
        self.waiting.remove(&wire);
        self.joined.remove(&wire);
    }

    /// Ends sessions whose way is broken, and lets machines in that waited for a leader.
    pub(super) fn look(&mut self, net: &mut Net) {
        let joined = self.joined.iter();
        let broken = joined.filter(|(wire, joined)| self.is_broken(**wire, **joined, net));
        for wire in broken.map(|(wire, _)| *wire).collect::<Vec<_>>() {
            self.break_way(wire, net);
        }
        for wire in self.waiting.keys().copied().collect::<Vec<_>>() {
            self.let_in(wire, net);
        }
    }

    /// Lets a machine in that waits for a leader, if there is one.
    fn let_in(&mut self, wire: WireId, net: &mut Net) {
        let entry = self.entries.get(&wire).copied();
        let Some(entry) = entry.filter(|entry| !self.nodes[*entry].is_paused) else {
            return;
        };
        let access = self.access(entry);
        let Some(waiting) = self.waiting.get(&wire) else {
            return;
        };
        let Some(hub) = access else {
            if waiting.until_ms <= net.now_ms {
                self.end(wire, net);
            }
            return;
        };
        if let Some(waiting) = self.waiting.remove(&wire) {
            self.join(hub, wire, waiting.hello, waiting.from, net);
        }
    }

    /// True if the portal of a machine sees that its way to the hub is broken.
    pub(super) fn is_broken(&self, wire: WireId, (hub, epoch): (usize, u64), net: &Net) -> bool {
        let Some(entry) = self.entries.get(&wire).copied() else {
            return true;
        };
        let (near, far) = (&self.nodes[entry], &self.nodes[hub]);
        if near.is_paused || entry == hub {
            return false;
        }
        let pair = (entry.min(hub), entry.max(hub));
        let silent_ms = self
            .cut
            .get(&pair)
            .map_or(0, |since_ms| net.now_ms - since_ms);
        let follows = near.follows.is_some_and(|leader| leader.epoch == epoch);
        !far.is_up || !follows || silent_ms >= LINK_SILENCE_MS
    }
}
