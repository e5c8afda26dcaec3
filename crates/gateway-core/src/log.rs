//! The log of access: a line for what begins and ends, by names, each at most once a minute.

use super::Gateway;
use culvert_base::{BootTime, LogLevel, LogLine};
use culvert_ids::{ClientId, GrantId, ResourceId};
use culvert_wire::messages::GrantLabels;

/// A change of a client's access to a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AccessEvent {
    Granted,
    Renewed,
    Refused,
    Revoked,
}

impl Gateway {
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
        let Some(repeated) = self.log_events.count(key, now) else {
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
}

/// A name as it comes to a terminal and a log.
pub(super) fn tidy(name: &str) -> String {
    const MAX_CHARS: usize = 100;
    let plain = name.chars().filter(|letter| !letter.is_control());
    plain.take(MAX_CHARS).collect()
}
