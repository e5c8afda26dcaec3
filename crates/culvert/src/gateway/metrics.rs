//! The gateway's state as metrics.

use crate::exposition::{Exposition, Format};
use crate::node_metrics;
use culvert_gateway::status::{ClientStatus, FirewallState, Status};

/// All metrics of a gateway.
pub(super) fn render(status: &Status, format: Format) -> String {
    let mut text = Exposition::new("culvert_gateway", Vec::new(), format);
    machine(status, &mut text);
    node_metrics::portal(&status.portal, &mut text);
    access(status, &mut text);
    clients(&status.clients, &mut text);
    host(status, &mut text);
    text.finish()
}

fn machine(status: &Status, text: &mut Exposition<'_>) {
    let id = |id: Option<String>| id.unwrap_or_default();
    let gateway = id(status.gateway.map(|gateway| gateway.to_string()));
    let site = id(status.site.map(|site| site.to_string()));
    text.gauge("info", "Version, name, id and site of the gateway.");
    let labels = [
        ("version", status.version.as_str()),
        ("name", &status.name),
        ("gateway", &gateway),
        ("site", &site),
    ];
    text.sample("info", &labels, 1);
    text.gauge("uptime_seconds", "Time since the start.");
    text.seconds("uptime_seconds", &[], status.running_for_ms);
    text.gauge("ready", "Whether clients may be sent here.");
    text.sample("ready", &[], u8::from(status.ready));
    text.gauge("draining", "Whether it takes no new clients.");
    text.sample("draining", &[], u8::from(status.draining));
    text.gauge(
        "awaits_verification",
        "Whether it waits for verification by an administrator, and has no grants.",
    );
    text.sample(
        "awaits_verification",
        &[],
        u8::from(status.awaits_verification),
    );
    text.gauge("problems", "Things that are wrong on the machine.");
    text.sample("problems", &[], status.problems.len());
}

fn access(status: &Status, text: &mut Exposition<'_>) {
    for (name, help, count) in [
        ("clients", "Clients that hold a grant.", status.client_count),
        ("grants", "Grants in force.", status.grant_count),
        (
            "grants_waiting",
            "Grants that wait for the DNS.",
            status.waiting_grants,
        ),
        ("names", "Names that are resolved.", status.name_count),
        ("flows", "Flows that pass.", status.load.flows),
    ] {
        text.gauge(name, help);
        text.sample(name, &[], count);
    }
    node_metrics::events(
        &status.counters,
        "What happened to grants and messages.",
        text,
    );
    node_metrics::drops(&status.drops, text);
}

fn clients(clients: &[ClientStatus], text: &mut Exposition<'_>) {
    let ids: Vec<String> = clients.iter().map(|client| client.id.to_string()).collect();
    let of_each = || ids.iter().map(String::as_str).zip(clients);
    text.counter(
        "client_received_bytes",
        "Bytes that came from the client, headers included.",
    );
    for (id, client) in of_each() {
        text.sample(
            "client_received_bytes_total",
            &[("client", id)],
            client.rx_bytes,
        );
    }
    text.counter(
        "client_sent_bytes",
        "Bytes that went to the client, headers included.",
    );
    for (id, client) in of_each() {
        text.sample(
            "client_sent_bytes_total",
            &[("client", id)],
            client.tx_bytes,
        );
    }
    text.gauge(
        "client_handshake_age_seconds",
        "Time since the last handshake, where there was one.",
    );
    for (id, client) in of_each() {
        if let Some(age_ms) = client.handshake_age_ms {
            text.seconds("client_handshake_age_seconds", &[("client", id)], age_ms);
        }
    }
}

fn host(status: &Status, text: &mut Exposition<'_>) {
    text.gauge("rate_bytes_per_second", "Throughput, both directions.");
    text.sample("rate_bytes_per_second", &[], status.load.bytes_per_s);
    text.gauge(
        "processor_ratio",
        "Share of the machine's processors that the gateway uses.",
    );
    text.seconds(
        "processor_ratio",
        &[],
        status.load.processor_permille.into(),
    );
    let is_intact = status.firewall.state == FirewallState::Intact;
    text.gauge("firewall_intact", "Whether its firewall table stands.");
    text.sample("firewall_intact", &[], u8::from(is_intact));
    text.counter(
        "firewall_restored",
        "Times that the table had been changed or removed.",
    );
    text.sample("firewall_restored_total", &[], status.firewall.restored);
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::status;
    use super::*;
    use crate::exposition::tests::assert_well_formed;

    #[test]
    fn the_text_is_well_formed() {
        let text = render(&status(), Format::OpenMetrics);
        assert!(assert_well_formed(&text) > 20, "{text}");
    }

    #[test]
    fn drops_carry_stage_and_reason_and_clients_their_id() {
        let text = render(&status(), Format::Prometheus);
        for line in [
            r#"culvert_gateway_drops_total{stage="gate",reason="no_grant"} 3"#.to_owned(),
            format!(
                "culvert_gateway_client_received_bytes_total{{client=\"{}\"}} 1000",
                status().clients[0].id
            ),
            "culvert_gateway_ready 0".to_owned(),
            "culvert_gateway_processor_ratio 0.125".to_owned(),
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}
