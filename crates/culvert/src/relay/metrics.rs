//! The relay's state as metrics.

use crate::exposition::{Exposition, Format};
use crate::node_metrics;
use culvert_relay::status::Status;

/// All metrics of a relay.
pub(super) fn render(status: &Status, format: Format) -> String {
    let mut text = Exposition::new("culvert_relay", Vec::new(), format);
    machine(status, &mut text);
    node_metrics::portal(&status.portal, &mut text);
    ends(status, &mut text);
    node_metrics::events(
        &status.counters,
        "Records and bytes that were forwarded, and ends that came and left.",
        &mut text,
    );
    node_metrics::drops(&status.drops, &mut text);
    tls(status, &mut text);
    load(status, &mut text);
    text.finish()
}

fn machine(status: &Status, text: &mut Exposition<'_>) {
    let relay = status.relay.map(|relay| relay.to_string());
    let relay = relay.unwrap_or_default();
    text.gauge("info", "Version, name and id of the relay.");
    let labels = [
        ("version", status.version.as_str()),
        ("name", &status.name),
        ("relay", &relay),
    ];
    text.sample("info", &labels, 1);
    text.gauge("uptime_seconds", "Time since the start.");
    text.seconds("uptime_seconds", &[], status.running_for_ms);
    text.gauge("ready", "Whether ends may be sent here.");
    text.sample("ready", &[], u8::from(status.ready));
    text.gauge("draining", "Whether it takes no new ends.");
    text.sample("draining", &[], u8::from(status.draining));
    text.gauge("problems", "Things that are wrong on the machine.");
    text.sample("problems", &[], status.problems.len());
}

fn ends(status: &Status, text: &mut Exposition<'_>) {
    text.gauge("gateways", "Gateways that are registered.");
    text.sample("gateways", &[], status.gateway_count);
    text.gauge("clients", "Clients that are registered.");
    text.sample("clients", &[], status.client_count);
    text.gauge(
        "gateway_clients",
        "Clients of a gateway that are registered.",
    );
    for port in &status.gateways {
        let gateway = port.gateway.to_string();
        text.sample("gateway_clients", &[("gateway", &gateway)], port.clients);
    }
}

fn tls(status: &Status, text: &mut Exposition<'_>) {
    let Some(tls) = &status.tls else {
        return;
    };
    text.gauge("tls_streams", "TLS streams, by their state.");
    for (state, count) in [("registered", tls.streams), ("new", tls.newcomers)] {
        text.sample("tls_streams", &[("state", state)], count);
    }
}

fn load(status: &Status, text: &mut Exposition<'_>) {
    text.gauge("rate_bytes_per_second", "Bytes a second that it forwards.");
    text.sample("rate_bytes_per_second", &[], status.load.bytes_per_s);
    text.gauge(
        "processor_ratio",
        "Share of the machine's processors that the relay uses.",
    );
    text.seconds(
        "processor_ratio",
        &[],
        status.load.processor_permille.into(),
    );
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::status;
    use super::*;
    use crate::exposition::tests::assert_well_formed;

    #[test]
    fn the_text_is_well_formed() {
        let text = render(&status(), Format::OpenMetrics);
        assert!(assert_well_formed(&text) > 12, "{text}");
    }

    #[test]
    fn drops_carry_stage_and_reason() {
        let text = render(&status(), Format::Prometheus);
        for line in [
            r#"culvert_relay_drops_total{stage="relay",reason="unknown_receiver"} 3"#,
            r#"culvert_relay_events_total{event="records_forwarded"} 9"#,
            "culvert_relay_clients 7",
            r#"culvert_relay_tls_streams{state="registered"} 12"#,
            "culvert_relay_processor_ratio 0.125",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }
}
