//! The state of the relay, for `culvert relay status`, health and metrics.

use super::Shell;
use crate::clock;
use crate::exchange::Report;
use crate::status::{CounterStatus, DropStatus, GatewayPort, LoadStatus, SCHEMA_VERSION, Status};
use culvert_base::whole_millis;
use culvert_relay_tls::Report as TlsReport;
use culvert_wire::Timestamp;

impl Shell {
    /// Everything that there is to tell.
    pub(super) fn status(&self) -> Status {
        let (now, unix) = (clock::boot_time(), clock::unix_time());
        let report = self.workers.report();
        let portal = self.core.session().status(now, unix);
        let not_ready = self.core.not_ready();
        let mut problems: Vec<String> = self
            .status_socket
            .as_ref()
            .err()
            .cloned()
            .into_iter()
            .collect();
        problems.extend(portal.clock_problem());
        if self.core.addresses().is_empty() {
            problems.push(NO_ADDRESS.to_owned());
        }
        problems.extend(self.tls.problem.clone());
        let tls_report = self.tls.report();
        let settings = &self.settings;
        Status {
            schema_version: SCHEMA_VERSION,
            version: settings.version.clone(),
            at: Timestamp::from(unix),
            running_for_ms: whole_millis(now.saturating_since(self.began)),
            name: settings.name.clone(),
            machine: self.machine.clone(),
            relay: self.core.relay(),
            addresses: self.core.addresses().to_vec(),
            port: settings.port,
            first_gateway_port: settings.gateway_ports.first(),
            gateway_ports: settings.gateway_ports.count(),
            tls: self.tls.status(),
            workers: settings.workers.get(),
            rate_limit_bytes_per_s: settings.rate_bytes_per_s,
            portal_url: self.portal.link.url().to_owned(),
            portal,
            ready: not_ready.is_none(),
            not_ready_because: not_ready.map(str::to_owned),
            draining: self.core.is_draining(),
            draining_by_itself: self.core.drains_itself(),
            gateways: gateway_ports(&report),
            gateway_count: report.gateways,
            client_count: report.clients,
            load: LoadStatus {
                bytes_per_s: self.load.last.rate_bytes_per_s,
                processor_permille: self.load.last.processor_permille,
            },
            sandbox: settings.sandbox.clone(),
            drops: drops(&report, &tls_report),
            counters: counters(&report, &tls_report),
            problems,
        }
    }
}

const NO_ADDRESS: &str =
    "no address of this machine can be told to ends: name one that they reach by --address";

fn gateway_ports(report: &Report) -> Vec<GatewayPort> {
    let ports = report.ports.iter().map(|port| GatewayPort {
        port: port.port,
        gateway: port.gateway,
        registered: port.is_gateway_registered,
        clients: port.clients,
    });
    ports.collect()
}

fn counters(report: &Report, tls: &TlsReport) -> Vec<CounterStatus> {
    let counters = &report.counters;
    let list = [
        ("records_forwarded", counters.records),
        ("bytes_forwarded", counters.bytes),
        ("batches_forwarded", counters.batches),
        ("registered", counters.registered),
        ("left", counters.left),
        ("tls_connections", tls.connections),
        ("tls_datagrams_in", tls.datagrams_in),
        ("tls_bytes_in", tls.bytes_in),
        ("tls_datagrams_out", tls.datagrams_out),
        ("tls_bytes_out", tls.bytes_out),
    ];
    let counters = list.into_iter().map(|(name, count)| CounterStatus {
        name: name.to_owned(),
        count,
    });
    counters.collect()
}

fn drops(report: &Report, tls: &TlsReport) -> Vec<DropStatus> {
    let drop = |stage: &str, reason: String, count: u64| {
        (count > 0).then(|| DropStatus {
            stage: stage.to_owned(),
            reason,
            count,
        })
    };
    let dropped = report.counters.dropped();
    let dropped = dropped.map(|(reason, count)| drop("relay", reason.name().to_owned(), count));
    let refused = report.counters.refused();
    let refused =
        refused.map(|(reason, count)| drop("registration", reason.name().to_owned(), count));
    let sending = report.sending;
    let unsent = [
        ("queue_full", sending.queue_full),
        ("no_family", sending.no_family),
        ("refused", sending.refused),
    ];
    let unsent = unsent.map(|(reason, count)| drop("send", reason.to_owned(), count));
    let tls = [
        ("too_slow", tls.too_slow),
        ("not_delivered", tls.not_delivered),
        ("too_many_streams", tls.too_many),
        ("failed_handshake", tls.failed_handshakes),
        ("wrong_port", tls.wrong_ports),
        ("unregistered", tls.unregistered),
        ("broken", tls.broken),
    ];
    let tls = tls.map(|(reason, count)| drop("tls", reason.to_owned(), count));
    let all = dropped.chain(refused).chain(unsent).chain(tls);
    all.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::SendCounters;

    #[test]
    fn drops_that_are_zero_are_left_out() {
        let mut report = Report::default();
        let mut tls = TlsReport::default();
        assert_eq!(drops(&report, &tls), []);
        tls.too_slow = 4;
        report.sending = SendCounters {
            queue_full: 3,
            ..SendCounters::default()
        };
        let told = drops(&report, &tls);
        assert_eq!(told.len(), 2);
        assert_eq!((told[1].stage.as_str(), told[1].count), ("tls", 4));
        assert_eq!(
            (told[0].stage.as_str(), told[0].reason.as_str()),
            ("send", "queue_full")
        );
    }
}
