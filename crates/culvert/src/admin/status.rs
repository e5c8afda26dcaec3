//! `culvert admin status`.

use super::api::{MAX_LIST_LEN, Query};
use super::output::{Format, instant, print_json, record, table};
use super::shell::Shell;
use crate::exit::{Failure, print};
use clap::Args;
use culvert_wire::api::{Client, ClientSession, Gateway, GatewaySession, PortalStatus};
use serde::Serialize;

/// Show how the portal is, and which gateways and clients are connected
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct StatusArguments {}

const EXAMPLES: &str = "\
Examples:
  culvert admin status
  culvert admin status --json | jq -r '.gateways[].gateway'";

#[derive(Serialize)]
struct Shown<'a> {
    url: &'a str,
    portal: PortalStatus,
    gateways: Vec<GatewaySession>,
    clients: Vec<ClientSession>,
}

pub(super) async fn run(shell: &mut Shell) -> Result<(), Failure> {
    let all = Query::default();
    let portal: PortalStatus = shell.api.get("/status", &all).await?;
    let gateways = shell.api.list_of("/sessions/gateways", &all, MAX_LIST_LEN);
    let gateways: Vec<GatewaySession> = gateways.await?;
    let clients = shell.api.list_of("/sessions/clients", &all, MAX_LIST_LEN);
    let clients: Vec<ClientSession> = clients.await?;
    if shell.format == Format::Json {
        let url = shell.api.url();
        return print_json(Shown {
            url,
            portal,
            gateways,
            clients,
        });
    }
    let mut text = record(&about(shell.api.url(), &portal));
    if !gateways.is_empty() {
        let names = shell.api.names::<Gateway>().await?;
        let columns = ["GATEWAY", "CLIENTS", "GRANTS", "FLOWS", "CPU", "BYTES/S"];
        let rows = gateways.iter().map(|session| {
            let drains = match (session.awaits_verification, session.draining) {
                (true, _) => " (waiting)",
                (false, true) => " (draining)",
                (false, false) => "",
            };
            vec![
                format!("{}{drains}", names.of(&session.gateway)),
                session.clients.to_string(),
                session.grants.to_string(),
                session.flows.to_string(),
                format!("{} %", session.processor_permille / 10),
                session.rate_bytes_per_s.to_string(),
            ]
        });
        text += "\n";
        text += &table(&columns, rows);
    }
    if !clients.is_empty() {
        let names = shell.api.names::<Client>().await?;
        let columns = ["CLIENT", "SINCE", "RESOURCES", "GRANTS"];
        let rows = clients.iter().map(|session| {
            vec![
                names.of(&session.client),
                instant(Some(session.since)),
                session.resources.to_string(),
                session.grants.to_string(),
            ]
        });
        text += "\n";
        text += &table(&columns, rows);
    }
    print(text.as_bytes())
}

fn about(url: &str, status: &PortalStatus) -> Vec<(&'static str, String)> {
    let state = match status.ready {
        true => "ready".to_owned(),
        false => format!("not ready: {}", status.reasons.join("; ")),
    };
    let mut fields = vec![
        ("portal", format!("{url}, culvert {}", status.version)),
        ("state", state),
        ("since", instant(Some(status.started))),
        (
            "changes",
            format!(
                "{}, {} on their way to sessions",
                status.feed_seq, status.feed_lag
            ),
        ),
        (
            "connected",
            format!("{} gateways, {} clients", status.gateways, status.clients),
        ),
        ("grants", status.grants.to_string()),
    ];
    if status.faults > 0 {
        let faults = format!(
            "{} rows of the configuration are not understood and allow nothing; the portal's log \
             names them",
            status.faults
        );
        fields.push(("faults", faults));
    }
    if status.records_waiting > 0 || status.records_lost > 0 {
        let records = format!(
            "{} wait for the database, {} were lost",
            status.records_waiting, status.records_lost
        );
        fields.push(("records", records));
    }
    fields
}
