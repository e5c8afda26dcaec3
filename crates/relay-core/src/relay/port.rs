//! The packet road: a batch from one source, cut where its receiver changes.

use super::batch::{Decisions, Run, SubRun};
use super::claims::Slot;
use super::counters::{Counters, DropReason};
use super::ends::Ends;
use super::record::{Number, Record};
use crate::budget::SharedBudget;
use crate::token::Issue;
use culvert_base::datagrams::{MAX_GSO_BYTES, MAX_SEGMENTS};
use culvert_base::{BootTime, TokenBucket, TokenRate};
use culvert_ids::GatewayId;
use std::ops::Range;

/// Searches for the client of a gateway's initiation, at one port.
pub const SEARCHES_PER_S: u32 = 100;

const SEARCHES: TokenRate = TokenRate::per_second(SEARCHES_PER_S, SEARCHES_PER_S);

/// A gateway port.
pub(super) struct Port {
    pub(super) number: u16,
    /// The gateway to which the port belongs, and the latest issue of a token for it.
    pub(super) owner: Option<(GatewayId, Issue)>,
    pub(super) ends: Ends,
    pub(super) searches: TokenBucket<BootTime>,
}

/// A sub-run that grows while records for the same receiver follow.
#[derive(Clone, Copy)]
struct Growing {
    start: usize,
    end: usize,
    records: usize,
    to: Slot,
}

/// One batch on its way through a port.
pub(super) struct Forwarding<'a> {
    pub(super) port: &'a mut Port,
    pub(super) run: &'a Run<'a>,
    /// The place of the first record that is judged.
    pub(super) begin: usize,
    pub(super) from: Slot,
    pub(super) now: BootTime,
    pub(super) total: &'a SharedBudget,
    pub(super) counters: &'a mut Counters,
    pub(super) out: &'a mut Decisions,
    /// The places of records for the relay itself.
    pub(super) control: &'a mut Vec<Range<usize>>,
}

/// The way of one record.
enum Way {
    To(Slot),
    Dropped(DropReason),
    /// For the relay itself.
    Control,
}

impl Forwarding<'_> {
    /// Decides the way of each record.
    pub(super) fn forward(mut self) {
        let from_gateway = self.port.ends.gateway() == Some(self.from);
        let run = self.run;
        let mut growing: Option<Growing> = None;
        let mut known: Option<(Number, Slot)> = None;
        let mut start = self.begin;
        for record in run.bytes[start..].chunks(run.stride.max(1)) {
            let end = start + record.len();
            let way = if from_gateway {
                self.way_from_gateway(record, &mut known)
            } else {
                self.way_from_client(record)
            };
            match way {
                Way::To(to) => match &mut growing {
                    Some(growing) if growing.takes(to, end) => growing.extend(end),
                    _ => {
                        self.send(growing.replace(Growing::new(start, end, to)));
                    }
                },
                Way::Dropped(reason) => {
                    self.send(growing.take());
                    self.counters.drop_one(reason);
                }
                Way::Control => {
                    self.send(growing.take());
                    self.control.push(start..end);
                }
            }
            start = end;
        }
        self.send(growing);
    }

    /// A client reaches the gateway alone.
    fn way_from_client(&mut self, record: &[u8]) -> Way {
        let ends = &mut self.port.ends;
        let claimed = match Record::of(record) {
            Record::Malformed => return Way::Dropped(DropReason::Malformed),
            Record::Control => return Way::Control,
            Record::Other { .. } => Ok(()),
            Record::Initiation { sender } | Record::Response { sender, .. } => {
                ends.claim_index(self.from, sender)
            }
            Record::Probe { sender, .. } => ends.claim_tag(self.from, sender),
        };
        match (claimed, ends.gateway()) {
            (Err(_), _) => Way::Dropped(DropReason::IndexTaken),
            (Ok(()), None) => Way::Dropped(DropReason::NoGateway),
            (Ok(()), Some(gateway)) => Way::To(gateway),
        }
    }

    /// The gateway reaches the client that owns the receiver's number. `known` is that of the record before, so that
    /// a batch for one client takes one look into the table.
    fn way_from_gateway(&mut self, record: &[u8], known: &mut Option<(Number, Slot)>) -> Way {
        let ends = &self.port.ends;
        let found = match Record::of(record) {
            Record::Malformed => return Way::Dropped(DropReason::Malformed),
            Record::Control => return Way::Control,
            Record::Initiation { .. } => return self.addressed(record),
            Record::Probe { receiver, .. } => ends.tags.owner(receiver),
            Record::Other { receiver } | Record::Response { receiver, .. } => match *known {
                Some((number, slot)) if number == receiver => Some(slot),
                _ => {
                    let owner = ends.indices.owner(receiver);
                    *known = owner.map(|slot| (receiver, slot));
                    owner
                }
            },
        };
        found.map_or(Way::Dropped(DropReason::UnknownReceiver), Way::To)
    }

    fn addressed(&mut self, initiation: &[u8]) -> Way {
        if self.port.searches.take(SEARCHES, self.now).is_err() {
            return Way::Dropped(DropReason::SearchLimit);
        }
        let found = self.port.ends.addressed(initiation);
        found.map_or(Way::Dropped(DropReason::NoSuchClient), Way::To)
    }

    /// Sends a sub-run, if its sender and the relay have the bytes for it.
    fn send(&mut self, growing: Option<Growing>) {
        let Some(Growing {
            start,
            end,
            records,
            to,
        }) = growing
        else {
            return;
        };
        let (bytes, records) = (end - start, records as u64);
        let Some(to) = self.port.ends.get(to).map(|end| end.at) else {
            return;
        };
        let Some(sender) = self.port.ends.get_mut(self.from) else {
            return;
        };
        if !sender.sent.take(bytes, sender.rate_bytes_per_s, self.now) {
            self.counters.drop_many(DropReason::EndRate, records);
            return;
        }
        if !self.total.take(bytes, self.now) {
            self.counters.drop_many(DropReason::TotalRate, records);
            return;
        }
        self.counters.records += records;
        self.counters.bytes += bytes as u64;
        self.counters.batches += 1;
        self.out.sends.push(SubRun { start, end, to });
    }
}

impl Growing {
    const fn new(start: usize, end: usize, to: Slot) -> Self {
        Self {
            start,
            end,
            records: 1,
            to,
        }
    }

    /// True if a record up to `end` for `to` fits behind the others in one send.
    const fn takes(&self, to: Slot, end: usize) -> bool {
        self.to == to && self.records < MAX_SEGMENTS && end - self.start <= MAX_GSO_BYTES
    }

    const fn extend(&mut self, end: usize) {
        self.end = end;
        self.records += 1;
    }
}
