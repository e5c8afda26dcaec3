//! The relay's state for people.

use crate::status::table::{columns, drops, line, portal, rate, sandbox, span};
use culvert_relay::status::{GatewayPort, Status};

/// The state as text.
pub(super) fn render(status: &Status) -> String {
    let mut text = String::new();
    machine(status, &mut text);
    gateways(&status.gateways, &mut text);
    drops(&status.drops, &mut text);
    if !status.problems.is_empty() {
        text.push_str("\nPROBLEMS\n");
        for problem in &status.problems {
            line(&mut text, format_args!("  {problem}"));
        }
    }
    text
}

fn machine(status: &Status, text: &mut String) {
    let relay = status.relay.map(|relay| format!(" ({relay})"));
    let relay = relay.unwrap_or_default();
    line(text, format_args!("relay      {}{relay}", status.name));
    let session = portal(&status.portal);
    line(
        text,
        format_args!("portal     {}: {session}", status.portal_url),
    );
    let not_ready = status.not_ready_because.as_ref();
    let readiness = not_ready.map_or_else(|| "ready".to_owned(), |why| format!("not ready: {why}"));
    line(text, format_args!("ends       {readiness}"));
    let addresses: Vec<String> = status.addresses.iter().map(ToString::to_string).collect();
    if !addresses.is_empty() {
        line(text, format_args!("reached    {}", addresses.join(", ")));
    }
    let last = status.first_gateway_port + (status.gateway_ports - 1);
    line(
        text,
        format_args!(
            "ports      UDP {} and {}-{last}, {} workers",
            status.port, status.first_gateway_port, status.workers
        ),
    );
    if let Some(tls) = &status.tls {
        let streams = format_args!("TCP {}, {} streams", tls.port, tls.streams);
        line(text, format_args!("TLS        {streams}"));
    }
    let limit = status.rate_limit_bytes_per_s;
    let limit = limit.map_or_else(String::new, |limit| format!(" of {}", rate(limit)));
    line(
        text,
        format_args!(
            "load       {} gateways, {} clients, {}{limit}, processors {}.{} %",
            status.gateway_count,
            status.client_count,
            rate(status.load.bytes_per_s),
            status.load.processor_permille / 10,
            status.load.processor_permille % 10
        ),
    );
    sandbox(status.sandbox.as_ref(), text);
    let running = span(status.running_for_ms);
    line(
        text,
        format_args!("running    {running}, culvert {}", status.version),
    );
}

fn gateways(gateways: &[GatewayPort], text: &mut String) {
    text.push_str("\nGATEWAYS\n");
    if gateways.is_empty() {
        text.push_str("  none has a port\n");
        return;
    }
    let rows = gateways.iter().map(|gateway| {
        let state = match gateway.registered {
            true => "registered",
            false => "not registered",
        };
        vec![
            gateway.port.to_string(),
            gateway.gateway.to_string(),
            state.to_owned(),
            format!("{} clients", gateway.clients),
        ]
    });
    columns(rows.collect(), text);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use culvert_ids::{GatewayId, RelayId};
    use culvert_relay::status::{
        CounterStatus, DropStatus, LoadStatus, PortalStatus, SCHEMA_VERSION, TlsStatus,
    };
    use culvert_wire::Timestamp;
    use culvert_wire::token::CertificatePin;

    /// A relay with one gateway.
    pub(crate) fn status() -> Status {
        Status {
            schema_version: SCHEMA_VERSION,
            version: "1.2.3".to_owned(),
            at: Timestamp::from_unix_ms(1_000),
            running_for_ms: 61_000,
            name: "relay-1".to_owned(),
            machine: "m".to_owned(),
            relay: Some(RelayId::from_bytes([1; 16])),
            addresses: vec!["203.0.113.7:3478".parse().unwrap()],
            port: 3478,
            first_gateway_port: 3479,
            gateway_ports: 64,
            tls: Some(TlsStatus {
                port: 443,
                pin: CertificatePin::of(b"test"),
                streams: 12,
                newcomers: 1,
            }),
            workers: 2,
            rate_limit_bytes_per_s: Some(125_000_000),
            portal_url: "https://portal.example".to_owned(),
            portal: PortalStatus::default(),
            ready: false,
            not_ready_because: Some("it drains".to_owned()),
            draining: true,
            draining_by_itself: true,
            gateways: vec![GatewayPort {
                port: 3481,
                gateway: GatewayId::from_bytes([2; 16]),
                registered: true,
                clients: 7,
            }],
            gateway_count: 1,
            client_count: 7,
            load: LoadStatus {
                bytes_per_s: 1_000,
                processor_permille: 125,
            },
            sandbox: None,
            drops: vec![DropStatus {
                stage: "relay".to_owned(),
                reason: "unknown_receiver".to_owned(),
                count: 3,
            }],
            counters: vec![CounterStatus {
                name: "records_forwarded".to_owned(),
                count: 9,
            }],
            problems: vec!["something is wrong: mend it".to_owned()],
        }
    }

    #[test]
    fn everything_that_matters_is_in_the_text() {
        let text = render(&status());
        for part in [
            "relay-1 (rly_",
            "https://portal.example",
            "not ready: it drains",
            "203.0.113.7:3478",
            "UDP 3478 and 3479-3542, 2 workers",
            "TCP 443, 12 streams",
            "1 gateways, 7 clients",
            "processors 12.5 %",
            "3481",
            "registered",
            "unknown_receiver",
            "something is wrong: mend it",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
