//! The client's state as metrics.

use crate::exposition::{Exposition, Format};
use culvert_client::status::{AccessState, GatewayStatus, PortalState, Status};

/// All metrics of a client.
pub(super) fn render(status: &Status, format: Format) -> String {
    let mut text = Exposition::new("culvert_client", Vec::new(), format);
    machine(status, &mut text);
    portal(status, &mut text);
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

fn portal(status: &Status, text: &mut Exposition<'_>) {
    let portal = &status.portal;
    let is_connected = portal.state == PortalState::Connected;
    text.gauge("portal_connected", "Whether the portal has welcomed it.");
    text.sample("portal_connected", &[], u8::from(is_connected));
    text.gauge(
        "portal_state_seconds",
        "Since the session with the portal was opened, or lost.",
    );
    text.seconds("portal_state_seconds", &[], portal.state_for_ms);
    text.counter("portal_attempts", "Attempts to connect to the portal.");
    text.sample("portal_attempts_total", &[], portal.attempts);
    text.counter("portal_sessions", "Sessions that came about.");
    text.sample("portal_sessions_total", &[], portal.sessions);
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
    text.counter("events", "What happened to requests, packets and queries.");
    for counter in &status.counters {
        let labels = [("event", counter.name.as_str())];
        text.sample("events_total", &labels, counter.count);
    }
    text.counter(
        "drops",
        "Packets, records and datagrams that were not passed on.",
    );
    for drop in &status.drops {
        let labels = [("stage", drop.stage.as_str()), ("reason", &drop.reason)];
        text.sample("drops_total", &labels, drop.count);
    }
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
