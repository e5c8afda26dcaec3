//! The state of the client, for `culvert status`.

use super::EventLoop;
use crate::shell::clock::Now;
use crate::shell::tunnel::Told;
use crate::status::{CounterStatus, DnsStatus, ServiceState, Status};
use culvert_client_core::{Counters, View};

impl EventLoop<'_> {
    /// The reason for which packets for resources don't get there.
    pub(super) fn not_ready(&self) -> Option<String> {
        match self.core.is_of_use() {
            false => Some(format!(
                "{}; it holds no grant",
                self.core.summary(self.devices.portal.url())
            )),
            true => self.devices.host.not_set_up(),
        }
    }

    /// Everything that there is to tell.
    pub(in crate::shell) fn status(&self) -> Status {
        let now = Now::read();
        self.status_of(self.core.view(now.boot, now.unix))
    }

    /// The same without resources and names.
    pub(super) fn status_without_resources(&self, now: Now) -> Status {
        self.status_of(self.core.view_without_resources(now.boot, now.unix))
    }

    fn status_of(&self, view: View) -> Status {
        let settings = &self.base.settings;
        let mut problems = self.devices.host.problems();
        problems.extend(self.answering.problem().map(str::to_owned));
        let over_tls = self.devices.tls_servers.status();
        problems.extend(over_tls.iter().filter_map(|it| it.trouble.clone()));
        let resolver = self.devices.resolver.state.borrow();
        problems.extend(resolver.problem.clone());
        problems.extend(view.portal.clock_problem());
        problems.extend(self.core.path_problems());
        problems.extend(self.core.guard_fault().map(|why| {
            format!("resources that only some applications may use can't be reached: {why}")
        }));
        let Told {
            drops,
            generation_changes,
            counters: of_device,
            problems: of_tunnel,
        } = self.devices.tunnel.told();
        problems.extend(of_tunnel);
        let counters = counter_list(&view.counters)
            .into_iter()
            .chain([("generation_changes", generation_changes)])
            .chain(of_device)
            .map(|(name, count)| CounterStatus {
                name: name.to_owned(),
                count,
            });
        let not_ready_because = self.not_ready();
        let at_rest = self.base.status_at_rest(ServiceState::Up, String::new());
        let mut service = at_rest.service.clone();
        self.socket.report(&mut service);
        Status {
            service,
            interface: Some(settings.interface.to_string()),
            client: view.client,
            ipv4: view.interface.map(|interface| interface.ipv4),
            ipv6: view.interface.map(|interface| interface.ipv6),
            portal_url: self.devices.portal.url().to_owned(),
            portal_pin: self.devices.portal.pin().map(|pin| pin.to_string()),
            portal: view.portal,
            ready: not_ready_because.is_none(),
            not_ready_because,
            resources: view.resources,
            unreadable: view.unreadable,
            gateways: view.gateways,
            relays: view.relays,
            names: view.names,
            dns: DnsStatus {
                listening: self.devices.listeners.addresses(),
                upstreams: self.core.dns_upstreams().to_vec(),
                over_tls,
                control: resolver.status.clone(),
                search: view.search,
                zones: view.zones,
            },
            drops,
            counters: counters.collect(),
            problems,
            ..at_rest
        }
    }
}

fn counter_list(counters: &Counters) -> [(&'static str, u64); 15] {
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
        packets_of_ended_access,
        packets_refused_by_gateway,
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
        ("packets_of_ended_access", packets_of_ended_access),
        ("packets_refused_by_gateway", packets_refused_by_gateway),
        ("packets_displaced", packets_displaced),
        ("protocol_errors", protocol_errors),
        ("dns_queries", dns_queries),
        ("dns_dropped", dns_dropped),
    ]
}
