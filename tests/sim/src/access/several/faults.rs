//! The things that happen to portals.

use super::super::config::Edit;
use super::super::net::Net;
use super::{Event, LINK_SILENCE_MS, Several};
use culvert_hub::Election;

impl Several {
    pub(crate) fn start(&mut self, node: usize, net: &mut Net) {
        let it = &mut self.nodes[node];
        if it.is_up {
            return;
        }
        net.trace(|| format!("portal {node} starts"));
        it.is_up = true;
        it.life += 1;
        it.election = Election::new();
        (it.report, it.lead, it.follows) = (None, None, None);
        let life = it.life;
        net.is_portal_up = true;
        self.at(net.now_ms, Event::Report { node, life });
    }

    /// Kills a process: the system closes its connections.
    pub(crate) fn kill(&mut self, node: usize, net: &mut Net) {
        net.trace(|| format!("portal {node} is killed"));
        self.nodes[node].portal.kill(false, net);
        let it = &mut self.nodes[node];
        (it.is_up, it.is_paused) = (false, false);
        it.inbox.clear();
        it.unwritten.clear();
        let reached = self.entries.iter().filter(|(_, entry)| **entry == node);
        for wire in reached.map(|(wire, _)| *wire).collect::<Vec<_>>() {
            self.break_way(wire, net);
        }
        self.look(net);
    }

    /// A process stands still, and what comes to it waits.
    pub(crate) fn pause(&mut self, node: usize, net: &mut Net) {
        net.trace(|| format!("portal {node} is paused"));
        self.nodes[node].is_paused = true;
        for (wire, entry) in &self.entries {
            if *entry == node {
                net.break_off(*wire);
            }
        }
    }

    /// It goes on: first with what its machines said meanwhile, before it hears from the database.
    pub(crate) fn resume(&mut self, node: usize, net: &mut Net) {
        net.trace(|| format!("portal {node} goes on"));
        self.nodes[node].is_paused = false;
        self.hub_timeout(node, net);
        self.work_off(node, net);
        self.look(net);
    }

    pub(crate) fn cut_database(&mut self, node: usize, is_cut: bool, net: &mut Net) {
        net.trace(|| format!("portal {node} reaches the database: {}", !is_cut));
        self.nodes[node].reaches_database = !is_cut;
        self.write(node, net);
    }

    /// A portal and the others do not reach each other, or do again.
    pub(crate) fn cut_off(&mut self, node: usize, is_cut: bool, net: &mut Net) {
        net.trace(|| format!("portal {node} reaches the others: {}", !is_cut));
        for other in (0..self.nodes.len()).filter(|other| *other != node) {
            let pair = (node.min(other), node.max(other));
            match is_cut {
                true => {
                    self.cut.entry(pair).or_insert(net.now_ms);
                    self.at(net.now_ms + LINK_SILENCE_MS, Event::Look);
                }
                false => drop(self.cut.remove(&pair)),
            }
            for (wire, (hub, _)) in &self.joined {
                let entry = self.entries.get(wire).copied().unwrap_or(*hub);
                let is_on_it = (entry.min(*hub), entry.max(*hub)) == pair;
                if is_on_it && let Some(wire) = net.wires.get_mut(wire) {
                    // Messages were lost meanwhile: the link ends with the cut at the latest.
                    wire.is_muted = is_cut;
                }
            }
            if !is_cut {
                self.end_link(pair, net);
            }
        }
        self.look(net);
    }

    pub(super) fn end_link(&mut self, pair: (usize, usize), net: &mut Net) {
        let joined = self.joined.iter();
        let on_it = joined.filter(|(wire, (hub, _))| {
            let entry = self.entries.get(wire).copied().unwrap_or(*hub);
            (entry.min(*hub), entry.max(*hub)) == pair
        });
        for wire in on_it.map(|(wire, _)| *wire).collect::<Vec<_>>() {
            self.break_way(wire, net);
        }
    }

    /// Changes the configuration, of which the hub that leads hears.
    pub(crate) fn commit(&mut self, edits: Vec<Edit>, net: &mut Net) {
        let at = culvert_wire::Timestamp::from_unix_ms(net.portal_unix_ms());
        let changes = net.config.commit(edits, at);
        for node in &mut self.nodes {
            if node.portal.hub().is_some() {
                node.portal.follow(&changes, net);
            }
        }
        net.ledger
            .review(&net.config, net.portal_epoch_ms, net.now_ms);
    }
}
