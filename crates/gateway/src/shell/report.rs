//! The state of the gateway, for `culvert gateway status`, health and metrics.

use super::Shell;
use super::tunnel::TrafficCounts;
use crate::GatewayError;
use crate::status::{ClientStatus, CounterStatus, LoadStatus, SCHEMA_VERSION, Status};
use culvert_base::{UnixTime, whole_millis};
use culvert_gateway_core::Counters;
use culvert_policy::gate::DropReason;
use culvert_wire::{PublicKey, Timestamp};
use std::collections::BTreeMap;

impl Shell {
    /// Everything that there is to tell.
    pub(super) fn status(&self) -> Result<Status, GatewayError> {
        let (now, unix) = (culvert_engine::boot_time(), culvert_engine::unix_time());
        let traffic = self.devices.tunnel.traffic()?;
        let view = self.core.view(now, unix);
        let mut clients = view.clients;
        self.add_traffic(&mut clients, &traffic, unix);
        let mut problems = self.devices.host.problems();
        problems.extend(self.observation.problem().map(str::to_owned));
        problems.extend(self.devices.resolver.problem());
        problems.extend(self.devices.site_dns.problem());
        problems.extend(view.portal.clock_problem());
        problems.extend(self.core.host_problems(now));
        problems.extend(self.core.path_problems());
        problems.extend(host_address_problem(&traffic));
        let not_ready_because = self.not_ready();
        let (base, load) = (&self.base, self.meter.load());
        let counters = counter_list(&view.counters, &traffic);
        Ok(Status {
            schema_version: SCHEMA_VERSION,
            version: base.settings.version.clone(),
            at: Timestamp::from(unix),
            running_for_ms: whole_millis(now.saturating_since(base.began)),
            interface: base.settings.interface.to_string(),
            name: base.settings.name.clone(),
            machine: base.machine.clone(),
            gateway: view.gateway,
            site: view.site,
            site_name: view.site_name,
            public_key: base.public_key,
            fingerprint: base.public_key.fingerprint(),
            awaits_verification: self.core.awaits_verification(),
            ipv4: view.interface.map(|interface| interface.ipv4),
            ipv6: view.interface.map(|interface| interface.ipv6),
            listen_port: base.settings.listen_port,
            candidates: view.candidates,
            relays: view.relays,
            portal_url: self.devices.portal.link.url().to_owned(),
            portal: view.portal,
            ready: not_ready_because.is_none(),
            not_ready_because,
            draining: self.core.is_draining(),
            draining_by_itself: self.core.is_draining_by_itself(),
            clients,
            client_count: view.client_count,
            grant_count: view.grant_count,
            waiting_grants: view.waiting_grants,
            names: view.names,
            name_count: view.name_count,
            load: LoadStatus {
                flows: traffic.flows,
                bytes_per_s: load.rate_bytes_per_s,
                processor_permille: load.processor_permille,
            },
            sandbox: base.settings.sandbox.clone(),
            firewall: self.devices.host.guard.status(now),
            drops: traffic.drops,
            counters,
            problems,
        })
    }

    /// The reason why clients should not be sent here.
    pub(super) fn not_ready(&self) -> Option<String> {
        match self.core.readiness() {
            Err(why) => Some(why.to_string()),
            // Until the guard stands nothing is forwarded.
            Ok(()) if !self.devices.host.is_set_up() => {
                Some("its host is not set up yet".to_owned())
            }
            Ok(()) => None,
        }
    }

    fn add_traffic(&self, clients: &mut [ClientStatus], traffic: &TrafficCounts, unix: UnixTime) {
        let peers: BTreeMap<PublicKey, _> =
            traffic.peers.iter().map(|peer| (peer.key, peer)).collect();
        for client in clients {
            let Some(peer) = peers.get(&client.public_key) else {
                continue;
            };
            let handshake = peer.handshake;
            let rates = self.meter.rates(&client.public_key);
            client.endpoint = peer.endpoint;
            client.relay_name = peer.endpoint.and_then(|at| self.core.relay_at(at));
            client.handshake_age_ms = handshake.map(|at| whole_millis(unix.saturating_since(at)));
            client.heard_ms_ago = peer.heard_ms_ago;
            client.rx_bytes = peer.rx_bytes;
            client.tx_bytes = peer.tx_bytes;
            client.rx_bytes_per_s = rates.rx_bytes_per_s;
            client.tx_bytes_per_s = rates.tx_bytes_per_s;
        }
    }
}

/// Packets that a wider resource, or a name among others, led to this machine.
fn host_address_problem(traffic: &TrafficCounts) -> Option<String> {
    let reason = DropReason::HostAddress.name();
    let dropped = traffic.drops.iter().find(|drop| drop.reason == reason)?;
    let count = dropped.count;
    (count > 0).then(|| {
        format!(
            "{count} packets of clients to addresses of this machine were dropped: start the gateway with `--host-access` \
             if clients are to reach it"
        )
    })
}

fn counter_list(counters: &Counters, traffic: &TrafficCounts) -> Vec<CounterStatus> {
    let Counters {
        accepted,
        refused,
        revoked,
        expired,
        questions_refused,
        names_outside,
        names_evicted,
        protocol_errors,
    } = *counters;
    let list = [
        ("grants_accepted", accepted),
        ("grants_refused", refused),
        ("grants_revoked", revoked),
        ("grants_expired", expired),
        ("questions_refused", questions_refused),
        ("names_outside", names_outside),
        ("names_evicted", names_evicted),
        ("protocol_errors", protocol_errors),
        (
            "flows_evicted_by_own_client",
            traffic.flows_evicted.own_share,
        ),
        ("flows_evicted_when_full", traffic.flows_evicted.full),
        ("datagrams_evicted", traffic.flows_evicted.datagrams),
        ("portless_evicted", traffic.flows_evicted.addresses),
        ("generation_changes", traffic.generation_changes),
        ("path_messages_sent", traffic.path_messages.0),
        ("path_messages_unsent", traffic.path_messages.1),
    ];
    let counters = list.into_iter().map(|(name, count)| CounterStatus {
        name: name.to_owned(),
        count,
    });
    counters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_policy::gate::Evicted;

    #[test]
    fn what_the_device_counts_is_told_with_the_counters() {
        let traffic = TrafficCounts {
            generation_changes: 3,
            flows_evicted: Evicted {
                own_share: 4,
                full: 5,
                datagrams: 6,
                addresses: 7,
            },
            ..TrafficCounts::default()
        };
        let counters = counter_list(&Counters::default(), &traffic);
        let told = |name: &str| {
            let mut all = counters.iter();
            let counter = all.find(|counter| counter.name == name);
            counter.map(|counter| counter.count)
        };
        assert_eq!(told("generation_changes"), Some(3));
        assert_eq!(told("flows_evicted_by_own_client"), Some(4));
        assert_eq!(told("flows_evicted_when_full"), Some(5));
        assert_eq!(told("datagrams_evicted"), Some(6));
        assert_eq!(told("portless_evicted"), Some(7));
    }
}
