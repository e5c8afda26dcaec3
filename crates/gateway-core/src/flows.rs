//! Flows that have ended, on their way into the portal's log (docs/logs.md).
//!
//! One report is under way at a time and is kept until the portal has it in its database; over
//! another connection it is sent again, by the same number.

use super::clients::Clients;
use culvert_base::BootTime;
use culvert_control::ControlSession;
use culvert_policy::gate::{End, FlowRecord, SiteDns};
use culvert_wire::Timestamp;
use culvert_wire::messages::{EndedFlow, FlowEnd, FlowReport, MAX_FLOWS_PER_REPORT};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// Flows that wait for the portal: at 270 that end a second, a minute without it. At 200 bytes each,
/// 3 MB. Flows that do not fit are lost, and counted in the next report.
pub const MAX_WAITING_FLOWS: usize = 1 << 14;

/// A report that was not confirmed is sent once more after this time. A portal whose database was full
/// for a while has it by then, or has lost it.
const RESEND: Duration = Duration::from_secs(30);

/// Ended flows that wait for a report, and the report under way.
#[derive(Debug)]
pub(super) struct Flows {
    run: u64,
    /// The portal's last word on whether it wants to know.
    is_wanted: bool,
    /// True if it said so in this session.
    may_tell: bool,
    waiting: VecDeque<EndedFlow>,
    lost: u64,
    batch: u64,
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct UnderWay {
    report: FlowReport,
    /// The time at which it is sent again.
    again: BootTime,
}

impl Flows {
    /// `random` tells this run from others.
    pub(super) const fn new(random: u64) -> Self {
        Self {
            // The portal's database has signed numbers.
            run: random >> 1,
            is_wanted: false,
            may_tell: false,
            waiting: VecDeque::new(),
            lost: 0,
            batch: 0,
            under_way: None,
        }
    }

    /// A session has begun, or has ended: what it wants is yet to be said.
    pub(super) const fn forget_session(&mut self) {
        self.may_tell = false;
    }

    /// The time at which the unconfirmed report is sent again.
    pub(super) fn next_timeout(&self) -> Option<BootTime> {
        let under_way = self.under_way.as_ref().filter(|_| self.may_tell);
        under_way.map(|under_way| under_way.again)
    }

    /// True if all that ended is in the portal's log, or nobody wants it.
    pub(super) fn is_told(&self) -> bool {
        !self.may_tell || (self.waiting.is_empty() && self.under_way.is_none())
    }

    pub(super) fn want(&mut self, is_wanted: bool) {
        self.is_wanted = is_wanted;
        self.may_tell = is_wanted;
        if is_wanted {
            // A report that the last session did not confirm is sent at once.
            if let Some(under_way) = &mut self.under_way {
                under_way.again = BootTime::ZERO;
            }
        } else {
            self.waiting.clear();
            self.lost = 0;
            self.under_way = None;
        }
    }

    /// Flows that have ended, and how many more did, as long as the portal wants to know.
    pub(super) fn handle_ended(
        &mut self,
        records: Vec<FlowRecord>,
        lost: u64,
        site_dns: Option<SocketAddr>,
        ended: impl Fn(&FlowRecord) -> Option<EndedFlow>,
    ) {
        if !self.is_wanted {
            return;
        }
        self.lost += lost;
        // Questions about names are none to a resource. Those of plain devices count as of a resource that they have a grant for.
        let is_question = |record: &FlowRecord| {
            let to = SocketAddr::new(record.remote, record.remote_port);
            Some(to) == site_dns || record.grant == SiteDns::NO_GRANT
        };
        for record in records.into_iter().filter(|record| !is_question(record)) {
            match ended(&record) {
                Some(flow) => self.push(flow),
                None => self.lost += 1,
            }
        }
    }

    fn push(&mut self, flow: EndedFlow) {
        if self.waiting.len() < MAX_WAITING_FLOWS {
            self.waiting.push_back(flow);
        } else {
            self.lost += 1;
        }
    }

    /// The report that is to be sent now.
    pub(super) fn next_report(&mut self, now: BootTime) -> Option<FlowReport> {
        if !self.may_tell {
            return None;
        }
        if self.under_way.is_none() && (!self.waiting.is_empty() || self.lost > 0) {
            self.batch += 1;
            let len = self.waiting.len().min(MAX_FLOWS_PER_REPORT);
            let report = FlowReport {
                run: self.run,
                batch: self.batch,
                lost: std::mem::take(&mut self.lost),
                flows: self.waiting.drain(..len).collect(),
            };
            let again = BootTime::ZERO;
            self.under_way = Some(UnderWay { report, again });
        }
        let under_way = self.under_way.as_mut()?;
        if under_way.again > now {
            return None;
        }
        under_way.again = now.saturating_add(RESEND);
        Some(under_way.report.clone())
    }

    pub(super) fn taken(&mut self, run: u64, batch: u64) {
        let is_it = |under_way: &mut UnderWay| {
            (under_way.report.run, under_way.report.batch) == (run, batch)
        };
        self.under_way.take_if(is_it);
    }
}

/// None where nobody knows any more whose it was, or what time it is.
pub(super) fn ended_flow(
    record: &FlowRecord,
    clients: &Clients,
    session: &ControlSession,
    now: BootTime,
) -> Option<EndedFlow> {
    let unix = session.portal_time(now)?;
    let at = |at: BootTime| Timestamp::from(unix.saturating_sub(now.saturating_since(at)));
    Some(EndedFlow {
        client: clients.of_gate_key(record.peer)?,
        resource: record.resource,
        grant: record.grant,
        protocol: record.protocol.0,
        address: record.remote,
        port: match record.is_inbound {
            true if record.has_ports() => record.client_port,
            _ => record.remote_port,
        },
        inbound: record.is_inbound,
        started: at(record.started),
        ended: at(record.last),
        sent_bytes: record.to_remote.bytes,
        sent_packets: record.to_remote.packets,
        received_bytes: record.to_client.bytes,
        received_packets: record.to_client.packets,
        end: match record.ended {
            Some(End::Closed) => FlowEnd::Closed,
            Some(End::Idle) => FlowEnd::Idle,
            Some(End::Denied(_)) => FlowEnd::Policy,
            Some(End::Replaced) => FlowEnd::Replaced,
            Some(End::Evicted) => FlowEnd::Evicted,
            None => FlowEnd::Stopped,
        },
    })
}
