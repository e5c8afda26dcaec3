//! From rows of the logs to what the API shows and sinks get. Each field is named: a row may gain what nobody is to see.

use culvert_store as store;
use culvert_wire::api;

const fn operation(operation: store::Operation) -> api::Operation {
    match operation {
        store::Operation::Create => api::Operation::Create,
        store::Operation::Update => api::Operation::Update,
        store::Operation::Delete => api::Operation::Delete,
    }
}

/// An entry of the change log.
#[must_use]
pub fn change(row: store::Change) -> api::ChangeLogEntry {
    // Rows hold nothing that JSON can't say, and neither secrets nor digests.
    let json =
        |entity: Option<store::Entity>| entity.and_then(|entity| serde_json::to_value(entity).ok());
    api::ChangeLogEntry {
        seq: row.seq.0,
        at: row.at,
        actor: row.author.actor,
        token: row.author.token,
        entity: row.id.kind().as_str().to_owned(),
        entity_id: row.id.to_string(),
        operation: operation(row.operation),
        before: json(row.before),
        after: json(row.after),
    }
}

/// An entry of the access log.
#[must_use]
pub fn access(row: store::LoggedAccess) -> api::AccessLogEntry {
    let entry = row.entry;
    api::AccessLogEntry {
        seq: row.seq.0,
        at: entry.at,
        client: entry.client,
        actor: entry.actor,
        resource: entry.resource,
        gateway: entry.gateway,
        policy: entry.policy,
        grant: entry.grant,
        decision: match entry.decision {
            store::Decision::Granted => api::AccessDecision::Granted,
            store::Decision::Denied => api::AccessDecision::Denied,
            store::Decision::Revoked => api::AccessDecision::Revoked,
            store::Decision::Ended => api::AccessDecision::Ended,
        },
        reason: entry.reason,
    }
}

/// An entry of the flow log.
#[must_use]
pub fn flow(row: store::LoggedFlow) -> api::FlowLogEntry {
    let entry = row.entry;
    api::FlowLogEntry {
        seq: row.seq.0,
        at: entry.at,
        started: entry.started,
        client: entry.client,
        actor: entry.actor,
        resource: entry.resource,
        gateway: row.gateway,
        grant: entry.grant,
        protocol: api::FlowLogEntry::protocol_name(entry.protocol),
        address: entry.address,
        port: Some(entry.port).filter(|port| *port > 0),
        inbound: entry.inbound,
        application: entry.application,
        path: entry.path,
        relay: entry.relay,
        sent_bytes: entry.sent_bytes,
        sent_packets: entry.sent_packets,
        received_bytes: entry.received_bytes,
        received_packets: entry.received_packets,
        end: entry.end,
    }
}
