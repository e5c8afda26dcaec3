//! The client's state as metrics.

use crate::exposition::{Exposition, Format};
use crate::node_metrics;
use culvert_client::status::{AccessState, GatewayStatus, Status};

/// All metrics of a client.
pub(super) fn render(status: &Status, format: Format) -> String {
    let mut text = Exposition::new("culvert_client", Vec::new(), format);
    machine(status, &mut text);
    node_metrics::portal(&status.portal, &mut text);
    access(status, &mut text);
    gateways(&status.gateways, &mut text);
    text.finish()
}

fn machine(status: &Status, text: &mut Exposition<'_>) {
    let client = status.client.map(|client| client.to_string());
    text.gauge("info", "Version, name and id of the client.");
    let labels = [
        ("version", status.version.as_str()),
        ("name", &status.name),
        ("client", &client.unwrap_or_default()),
    ];
    text.sample("info", &labels, 1);
    text.gauge("uptime_seconds", "Time since the start.");
    text.seconds("uptime_seconds", &[], status.running_for_ms);
    text.gauge(
        "ready",
        "Whether packets for resources have somewhere to go.",
    );
    text.sample("ready", &[], u8::from(status.ready));
    text.gauge("problems", "Things that are wrong on the machine.");
    text.sample("problems", &[], status.problems.len());
}

fn access(status: &Status, text: &mut Exposition<'_>) {
    text.gauge("resources", "Resources, by the state of access to them.");
    for (name, state) in [
        ("idle", AccessState::Idle),
        ("asking", AccessState::Asking),
        ("granted", AccessState::Granted),
        ("denied", AccessState::Denied),
    ] {
        let resources = status.resources.iter();
        let count = resources.filter(|resource| resource.state == state).count();
        text.sample("resources", &[("state", name)], count);
    }
    let held = status
        .resources
        .iter()
        .map(|resource| resource.held_packets);
    text.gauge("held_packets", "Packets that wait for access.");
    text.sample("held_packets", &[], held.sum::<usize>());
    text.gauge("names", "Names that gateways translate.");
    text.sample("names", &[], status.names.len());
    node_metrics::events(
        &status.counters,
        "What happened to requests, packets and queries.",
        text,
    );
    node_metrics::drops(&status.drops, text);
}

fn gateways(gateways: &[GatewayStatus], text: &mut Exposition<'_>) {
    let ids: Vec<String> = gateways
        .iter()
        .map(|gateway| gateway.id.to_string())
        .collect();
    let of_each = || ids.iter().map(String::as_str).zip(gateways);
    text.gauge("gateways", "Gateways in use.");
    text.sample("gateways", &[], gateways.len());
    text.counter(
        "gateway_received_bytes",
        "Bytes that came from the gateway, headers included.",
    );
    for (id, gateway) in of_each() {
        let labels = [("gateway", id)];
        text.sample("gateway_received_bytes_total", &labels, gateway.rx_bytes);
    }
    text.counter(
        "gateway_sent_bytes",
        "Bytes that went to the gateway, headers included.",
    );
    for (id, gateway) in of_each() {
        let labels = [("gateway", id)];
        text.sample("gateway_sent_bytes_total", &labels, gateway.tx_bytes);
    }
    text.gauge(
        "gateway_handshake_age_seconds",
        "Time since the last handshake, where there was one.",
    );
    for (id, gateway) in of_each() {
        if let Some(age_ms) = gateway.handshake_age_ms {
            text.seconds("gateway_handshake_age_seconds", &[("gateway", id)], age_ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exposition::tests::assert_well_formed;
    use crate::status::table::tests::status;

    #[test]
    fn the_text_is_well_formed() {
        let text = render(&status(), Format::OpenMetrics);
        assert_eq!(assert_well_formed(&text), 20, "{text}");
    }

    #[test]
    fn resources_carry_their_state_drops_their_stage_and_gateways_their_id() {
        let text = render(&status(), Format::Prometheus);
        let gateway = status().gateways[0].id;
        for line in [
            r#"culvert_client_resources{state="granted"} 1"#.to_owned(),
            r#"culvert_client_drops_total{stage="outbound",reason="no_peer"} 3"#.to_owned(),
            r#"culvert_client_events_total{event="granted"} 5"#.to_owned(),
            format!("culvert_client_gateway_received_bytes_total{{gateway=\"{gateway}\"}} 1000"),
            "culvert_client_ready 0".to_owned(),
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}
