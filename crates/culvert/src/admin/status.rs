//! `culvert admin status`.

use super::api::{MAX_LIST_LEN, Query};
use super::output::{Format, instant, print_json, record, table};
use super::shell::Shell;
use crate::exit::{Failure, print};
use clap::Args;
use culvert_wire::api::{
    Client, ClientSession, DatabaseStatus, Gateway, GatewaySession, OwnRelayStatus, PortalStatus,
    Relay, RelaySession,
};
use serde::Serialize;

/// Show how the portal is, and which gateways, relays and clients are connected
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
    relays: Vec<RelaySession>,
    clients: Vec<ClientSession>,
}

pub(super) async fn run(shell: &mut Shell) -> Result<(), Failure> {
    let all = Query::default();
    let portal: PortalStatus = shell.api.get("/status", &all).await?;
    let gateways = shell.api.list_of("/sessions/gateways", &all, MAX_LIST_LEN);
    let gateways: Vec<GatewaySession> = gateways.await?;
    let relays = shell.api.list_of("/sessions/relays", &all, MAX_LIST_LEN);
    let relays: Vec<RelaySession> = relays.await?;
    let clients = shell.api.list_of("/sessions/clients", &all, MAX_LIST_LEN);
    let clients: Vec<ClientSession> = clients.await?;
    if shell.format == Format::Json {
        let url = shell.api.url();
        return print_json(Shown {
            url,
            portal,
            gateways,
            relays,
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
    if !relays.is_empty() {
        let names = shell.api.names::<Relay>().await?;
        let columns = ["RELAY", "GATEWAYS", "CLIENTS", "CPU", "BYTES/S"];
        let rows = relays.iter().map(|session| {
            let drains = if session.draining { " (draining)" } else { "" };
            vec![
                format!("{}{drains}", names.of(&session.relay)),
                session.gateways.to_string(),
                session.clients.to_string(),
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
            format!(
                "{} gateways, {} relays, {} clients",
                status.gateways, status.relays, status.clients
            ),
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
    if let Some(database) = &status.database {
        fields.push(("database", shown(database)));
    }
    if let Some(relay) = &status.own_relay {
        fields.push(("relay", own_relay(relay)));
    }
    fields
}

/// The relay beside the portal in words, such as `ready, 203.0.113.7:3478, UDP ports 3478 and 3479-3542`.
fn own_relay(relay: &OwnRelayStatus) -> String {
    let state = match relay.ready {
        true => "ready",
        false => "not ready",
    };
    let addresses = relay.addresses.iter().map(|address| format!(", {address}"));
    let problems = relay.problems.iter().map(|problem| format!("; {problem}"));
    format!(
        "{state}{}, UDP ports {}{}",
        addresses.collect::<String>(),
        relay.ports,
        problems.collect::<String>()
    )
}

/// The database in words, such as `PostgreSQL 15.14, culvert, 48.1 MB, answers in 1.2 ms`.
pub(super) fn shown(database: &DatabaseStatus) -> String {
    let DatabaseStatus {
        program, version, ..
    } = database;
    let name = database.name.iter().map(|name| format!(", {name}"));
    format!(
        "{program} {version}{}, {}.{} MB, answers in {}.{} ms",
        name.collect::<String>(),
        database.size_bytes / 1_000_000,
        database.size_bytes % 1_000_000 / 100_000,
        database.answered_in_us / 1_000,
        database.answered_in_us % 1_000 / 100,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_told_with_its_version_its_size_and_the_time_of_its_answer() {
        let mut database = DatabaseStatus {
            program: "PostgreSQL".to_owned(),
            version: "15.14".to_owned(),
            name: Some("culvert".to_owned()),
            size_bytes: 48_190_000,
            answered_in_us: 1_299,
        };
        let told = "PostgreSQL 15.14, culvert, 48.1 MB, answers in 1.2 ms";
        assert_eq!(shown(&database), told);
        database.name = None;
        assert!(shown(&database).starts_with("PostgreSQL 15.14, 48.1 MB,"));
    }
}
