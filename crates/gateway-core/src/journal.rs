//! The log and the counters. The log of access has a line for what begins and ends, each at most once a minute.

use super::counters::Counters;
use super::log::tidy;
use super::log_limit::LogLimit;
use culvert_base::{BootTime, LogLevel, LogLine, LogQueue};
use culvert_control::RepeatedEvents;
use culvert_ids::{ClientId, GrantId, ResourceId};
use culvert_policy::DomainName;
use culvert_wire::messages::GrantLabels;
use std::fmt::Display;
use std::net::IpAddr;

/// A change of a client's access to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AccessEvent {
    Granted,
    Renewed,
    Refused,
    Revoked,
}

/// The log and the counters.
#[derive(Default)]
pub(super) struct Journal {
    pub(super) log: LogQueue,
    pub(super) counters: Counters,
    /// Lines about names that lead out of the networks of their resource.
    outside: LogLimit,
    /// Lines about names that gave way to others of their client.
    evicted: LogLimit,
    /// Lines about names whose address is another one.
    moved: LogLimit,
    /// Lines about the access of a client to a resource.
    events: RepeatedEvents<(AccessEvent, ClientId, ResourceId)>,
}

impl Journal {
    /// Logs what happens to the access of a client to a resource.
    pub(super) fn log_access(
        &mut self,
        event: AccessEvent,
        (client_id, resource_id): (ClientId, ResourceId),
        labels: &GrantLabels,
        grant: GrantId,
        now: BootTime,
    ) {
        let key = (event, client_id, resource_id);
        let Some(repeated) = self.events.count(key, now) else {
            return;
        };
        let client = labels.client.as_deref().map(tidy);
        let resource = labels.resource.as_deref().map(tidy);
        let said = match event {
            AccessEvent::Granted => "access granted",
            AccessEvent::Renewed => "access renewed",
            AccessEvent::Refused => "access refused",
            AccessEvent::Revoked => "access revoked",
        };
        let level = match event {
            AccessEvent::Renewed => LogLevel::Debug,
            AccessEvent::Granted | AccessEvent::Refused | AccessEvent::Revoked => LogLevel::Info,
        };
        let mut line = LogLine::new(level, said);
        if let Some(client) = client {
            line = line.with_text("client", &client);
        }
        line = line.with("client_id", client_id);
        if let Some(resource) = resource {
            line = line.with_text("resource", &resource);
        }
        line = line
            .with("resource_id", resource_id)
            .with("grant", grant)
            .with("repeated", repeated);
        self.log.push(line);
    }

    /// Counts and logs that a name leads out of the ranges of a resource.
    pub(super) fn note_outside(
        &mut self,
        name: &DomainName,
        address: IpAddr,
        resource: ResourceId,
        now: BootTime,
    ) {
        self.counters.names_outside += 1;
        if let Some(left_out) = self.outside.take(now) {
            let line = LogLine::warn(
                "a name leads out of the networks that its resource allows, and is not followed: if it \
                 is right, add its network to `within` of the resource",
            );
            let line = line.with("name", name).with("address", address);
            self.log
                .push(line.with("resource", resource).with("left_out", left_out));
        }
    }

    /// Logs that a name has another address than before, or none.
    pub(super) fn note_move<A: Copy + PartialEq + Display>(
        &mut self,
        name: &DomainName,
        from: Option<&A>,
        to: Option<&A>,
        now: BootTime,
    ) {
        if let Some(line) = move_line(name, from, to, &mut self.moved, now) {
            self.log.push(line);
        }
    }

    /// Counts and logs that names of a client gave way to others; a client may have `limit` of them.
    pub(super) fn note_eviction(
        &mut self,
        client: ClientId,
        names: usize,
        limit: usize,
        now: BootTime,
    ) {
        self.counters.names_evicted += names as u64;
        if let Some(left_out) = self.evicted.take(now) {
            let line = LogLine::warn(format!(
                "a client uses almost as many names as one may ({limit}): those without connections gave way, \
                 the oldest first; it asks again for what it needs"
            ));
            let line = line.with("client", client).with("names", names);
            self.log.push(line.with("left_out", left_out));
        }
    }
}

/// Tells where a name leads after it led elsewhere before.
fn move_line<A: Copy + PartialEq + Display>(
    name: &DomainName,
    from: Option<&A>,
    to: Option<&A>,
    limit: &mut LogLimit,
    now: BootTime,
) -> Option<LogLine> {
    let from = from.filter(|from| Some(*from) != to)?;
    let left_out = limit.take(now)?;
    let line = match to {
        Some(to) => LogLine::info("a name has another address")
            .with("name", name)
            .with("from", from)
            .with("to", to),
        None => LogLine::info("a name has lost its address")
            .with("name", name)
            .with("from", from),
    };
    Some(line.with("left_out", left_out))
}
