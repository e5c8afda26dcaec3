//! The state of the client, for `culvert status`.

use super::EventLoop;
use crate::core::Counters;
use crate::shell::clock::Now;
use crate::status::{CounterStatus, DnsStatus, SCHEMA_VERSION, Status};
use culvert_wire::Timestamp;

impl<R> EventLoop<R> {
    /// Why packets for resources don't get there.
    pub(super) fn not_ready(&self) -> Option<String> {
        match self.core.is_of_use() {
            false => Some(format!("{}; it holds no grant", self.core.summary())),
            true => self.host.not_set_up(),
        }
    }

    /// Everything that there is to tell.
    pub(super) fn status(&self) -> Status {
        let now = Now::read();
        let view = self.core.view(now.boot_ms, now.unix_ms);
        let mut problems = self.host.problems();
        problems.extend(self.dns_problem.clone());
        let resolver = self.resolver.state.borrow();
        problems.extend(resolver.problem.clone());
        problems.extend(view.portal.clock_problem());
        let counters = counter_list(&view.counters)
            .into_iter()
            .map(|(name, count)| CounterStatus {
                name: name.to_owned(),
                count,
            });
        let not_ready_because = self.not_ready();
        Status {
            schema_version: SCHEMA_VERSION,
            version: self.settings.version.clone(),
            at: Timestamp::from_unix_ms(now.unix_ms),
            running_for_ms: now.boot_ms.saturating_sub(self.began_ms),
            interface: Some(self.settings.interface.to_string()),
            name: self.settings.name.clone(),
            machine: self.machine.clone(),
            client: view.client,
            public_key: self.public_key,
            ipv4: view.interface.map(|interface| interface.ipv4),
            ipv6: view.interface.map(|interface| interface.ipv6),
            portal_url: self.settings.enrolment.portal.url.clone(),
            portal: view.portal,
            ready: not_ready_because.is_none(),
            not_ready_because,
            resources: view.resources,
            unreadable: view.unreadable,
            gateways: view.gateways,
            names: view.names,
            dns: DnsStatus {
                listening: self.listeners.addresses(),
                upstreams: self.core.dns_upstreams().to_vec(),
                control: resolver.status.clone(),
            },
            drops: self.tunnel.drops(),
            counters: counters.collect(),
            problems,
        }
    }
}

fn counter_list(counters: &Counters) -> [(&'static str, u64); 13] {
    let Counters {
        requests,
        granted,
        denied,
        unanswered,
        revoked,
        gateways_lost,
        packets,
        packets_resumed,
        packets_refused,
        packets_displaced,
        protocol_errors,
        dns_queries,
        dns_dropped,
    } = *counters;
    [
        ("requests", requests),
        ("granted", granted),
        ("denied", denied),
        ("unanswered", unanswered),
        ("revoked", revoked),
        ("gateways_lost", gateways_lost),
        ("packets", packets),
        ("packets_resumed", packets_resumed),
        ("packets_refused", packets_refused),
        ("packets_displaced", packets_displaced),
        ("protocol_errors", protocol_errors),
        ("dns_queries", dns_queries),
        ("dns_dropped", dns_dropped),
    ]
}
