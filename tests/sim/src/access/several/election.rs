//! Reports of portals, the lease, and what follows from the answers.

use super::super::net::{Net, Side};
use super::{Arrival, DATABASE_AHEAD_MS, DATABASE_MS, Event, REPORT_TIMEOUT_MS, Several};
use culvert_base::BootTime;
use culvert_hub::{Elected, Term};
use culvert_ids::PortalId;
use culvert_store::{Claim, LEASE_MS, Leader, Leading, REPORT_EVERY_MS};
use culvert_wire::token::CertificatePin;

impl Several {
    pub(super) fn report(&mut self, node: usize, life: u32, net: &mut Net) {
        let it = &mut self.nodes[node];
        if it.life != life || !it.is_up {
            return;
        }
        if it.is_paused {
            return self.at(net.now_ms + REPORT_EVERY_MS, Event::Report { node, life });
        }
        let began = it.boot(net);
        let claim = it.election.claim(began);
        self.queued += 1;
        let report = self.queued;
        it.report = Some(report);
        if it.reaches_database {
            let at_ms = net.now_ms + net.draw_ms(&DATABASE_MS);
            self.at(
                at_ms,
                Event::AtDatabase {
                    node,
                    life,
                    report,
                    claim,
                    began,
                },
            );
        }
        let unanswered = Event::Unanswered { node, life, report };
        self.at(net.now_ms + REPORT_TIMEOUT_MS, unanswered);
    }

    /// The transaction of a report.
    pub(super) fn claim(&mut self, node: usize, claim: Claim, net: &Net) -> Leading {
        let now_ms = net.now_ms + DATABASE_AHEAD_MS;
        let database = &mut self.database;
        let is_own = database.portal == Some(node);
        let is_free = database.until_ms < now_ms;
        match claim {
            Claim::Leave if is_own => (database.portal, database.until_ms) = (None, 0),
            Claim::Leave => {}
            Claim::Renew | Claim::Take if is_own => database.until_ms = now_ms + LEASE_MS,
            Claim::Take if is_free => {
                database.portal = Some(node);
                database.epoch += 1;
                database.until_ms = now_ms + LEASE_MS;
                self.history.insert(database.epoch, node);
                self.leads.epochs += 1;
                net.trace(|| format!("portal {node} leads in epoch {}", self.database.epoch));
            }
            Claim::Renew | Claim::Take => {}
        }
        let database = &self.database;
        match database.portal {
            Some(portal) if portal == node && database.until_ms >= now_ms => Leading::This {
                epoch: database.epoch,
            },
            Some(portal) if database.until_ms >= now_ms => Leading::Other(Leader {
                epoch: database.epoch,
                portal: PortalId::from_bytes([portal as u8; 16]),
                address: ([192, 0, 2, 1], 443).into(),
                pin: CertificatePin::of(&[portal as u8]),
            }),
            _ => Leading::Nobody,
        }
    }

    pub(super) fn answered(
        &mut self,
        node: usize,
        (claim, leading, began): (Claim, Leading, BootTime),
        net: &mut Net,
    ) {
        let it = &mut self.nodes[node];
        let last = it.follows;
        match it.election.handle_answer(claim, leading, began) {
            Elected::Renewed { until } => {
                if let Some((_, term)) = &mut it.lead {
                    *term = term.renewed(until);
                }
                self.work_off(node, net);
            }
            Elected::Leads { epoch, until } => {
                self.end_lead(node, net);
                let it = &mut self.nodes[node];
                it.follows = None;
                it.lead = Some((epoch, Term::Until(until)));
                it.portal.start(net);
                self.write(node, net);
            }
            Elected::Follows(leader) => {
                self.end_lead(node, net);
                self.nodes[node].follows = Some(leader);
            }
            Elected::Left => self.end_lead(node, net),
            Elected::Waits => {}
        }
        if let Leading::This { epoch } | Leading::Other(Leader { epoch, .. }) = leading {
            self.tell_last_leader(node, last, epoch, net);
        }
        self.look(net);
    }

    /// A portal that hears of a later epoch tells the leader that it followed, if it is linked to that one.
    pub(super) fn tell_last_leader(
        &mut self,
        node: usize,
        last: Option<Leader>,
        epoch: u64,
        net: &mut Net,
    ) {
        let Some(last) = last.filter(|last| last.epoch < epoch) else {
            return;
        };
        let hub = usize::from(last.portal.as_bytes()[0]);
        let pair = (node.min(hub), node.max(hub));
        let it = &mut self.nodes[hub];
        let is_heard = it.is_up && !it.is_paused && !self.cut.contains_key(&pair);
        if is_heard && it.election.handle_superseded(epoch) {
            self.end_lead(hub, net);
        }
    }

    /// The lease of a portal is over for good: its hub decides nothing more, and its machines come back.
    pub(super) fn end_lead(&mut self, node: usize, net: &mut Net) {
        let it = &mut self.nodes[node];
        let Some((_, term)) = &mut it.lead else {
            return;
        };
        *term = Term::Over;
        it.inbox
            .retain(|arrival| !matches!(arrival, Arrival::Hub(..)));
        it.portal.stop(net);
        net.is_portal_up = true;
        self.write(node, net);
        self.nodes[node].lead = None;
        let joined = self.joined.iter().filter(|(_, (hub, _))| *hub == node);
        for wire in joined.map(|(wire, _)| *wire).collect::<Vec<_>>() {
            net.close(wire, Side::Portal);
            self.forget(wire);
        }
    }

    /// Works off arrivals of the time in which the process stood still, or its lease did not hold.
    pub(super) fn work_off(&mut self, node: usize, net: &mut Net) {
        let arrivals = std::mem::take(&mut self.nodes[node].inbox);
        for arrival in arrivals {
            match arrival {
                Arrival::Frame(wire, frame, from) => self.hear(wire, frame, from, net),
                Arrival::Hub(wire, frame, from) if self.joined.contains_key(&wire) => {
                    self.at_hub(node, wire, frame, from, net);
                }
                Arrival::Hub(..) => {}
                Arrival::Answer(claim, leading, began) => {
                    self.answered(node, (claim, leading, began), net);
                }
            }
        }
    }

    /// Writes of grants reach the database, which takes those of its leader's epoch alone.
    pub(super) fn write(&mut self, node: usize, net: &mut Net) {
        let it = &mut self.nodes[node];
        let epoch = it.lead.map_or(0, |(epoch, _)| epoch);
        let new = it.portal.take_unwritten();
        it.unwritten
            .extend(new.into_iter().map(|write| (epoch, write)));
        if !it.is_up || it.is_paused || !it.reaches_database {
            return;
        }
        for (epoch, write) in std::mem::take(&mut it.unwritten) {
            if self.database.epoch != epoch {
                self.leads.fenced += 1;
                continue;
            }
            self.leads.written += 1;
            let last = self.history.last_key_value().map(|(epoch, _)| *epoch);
            if last != Some(epoch) {
                net.fail(&format!(
                    "grants of epoch {epoch} are written in epoch {last:?}"
                ));
            }
            write.apply(net);
        }
    }
}
