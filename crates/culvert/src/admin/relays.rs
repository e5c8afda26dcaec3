//! `culvert admin relay`.

use super::api::{MAX_LIST_LEN, Query};
use super::common::{Connection, Delete, Rename, Search, Seen, Which, yes_or_no};
use super::output::{Listed, connected, instant};
use super::shell::Shell;
use crate::exit::Failure;
use clap::{Args, Subcommand};
use culvert_ids::RelayId;
use culvert_wire::api::{Relay, RelayPatch, RelaySession};
use std::collections::HashMap;

/// Relays: machines that forward what clients and gateways behind NATs send each other
///
/// A machine becomes a relay when it first connects with a relay token ("culvert admin token create --kind relay").
/// "culvert admin account set --paths" says whether relays are used, and "culvert admin site set --relays" which ones.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum RelayCommand {
    /// List relays
    List(ListArguments),
    /// Show a relay, with its load
    Show(Which),
    /// Rename a relay
    Set(Rename),
    /// Give a relay no new ends; gateways and clients move to another one, if there is one
    Drain(Seen),
    /// Give a relay new ends again
    Undrain(Seen),
    /// Refuse a relay from now on, for good
    Revoke(Seen),
    /// Delete a relay; with a good token it may come back as a new one
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    search: Search,
    #[command(flatten)]
    connection: Connection,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin relay list
  culvert admin relay list --not-connected
  culvert admin relay show relay-1
  culvert admin relay set relay-1 --name frankfurt
  culvert admin relay drain relay-1
  culvert admin relay undrain relay-1
  culvert admin relay revoke relay-1
  culvert admin relay delete relay-1";

pub(super) async fn run(shell: &mut Shell, command: RelayCommand) -> Result<(), Failure> {
    match command {
        RelayCommand::List(list) => self::list(shell, &list).await,
        RelayCommand::Show(which) => show(shell, &which).await,
        RelayCommand::Set(rename) => {
            let name = Some(rename.name);
            let patch = |_: &Relay| Ok(RelayPatch { name });
            shell.change(&rename.seen, patch).await
        }
        RelayCommand::Drain(seen) => shell.act::<Relay>(&seen, "drain", "draining").await,
        RelayCommand::Undrain(seen) => {
            let done = "draining no longer";
            shell.act::<Relay>(&seen, "undrain", done).await
        }
        RelayCommand::Revoke(seen) => shell.act::<Relay>(&seen, "revoke", "revoked").await,
        RelayCommand::Delete(delete) => shell.delete::<Relay>(&delete).await,
    }
}

async fn list(shell: &mut Shell, list: &ListArguments) -> Result<(), Failure> {
    let relays: Vec<Relay> = shell.api.list(&list.search.query()).await?;
    let sessions = sessions(shell).await?;
    let columns = [
        "ID",
        "NAME",
        "STATE",
        "CONNECTED",
        "GATEWAYS",
        "CLIENTS",
        "CPU",
        "BYTES/S",
        "VERSION",
        "SEEN",
    ];
    let since = sessions.iter().map(|(id, session)| (*id, session.since));
    let since: HashMap<_, _> = since.collect();
    let listed: Vec<_> = relays
        .into_iter()
        .map(|relay| Listed::of(relay, &since))
        .filter(|listed| list.connection.includes(listed.connected))
        .collect();
    shell.format.list(&listed, &columns, |listed| {
        let relay = &listed.thing;
        let session = sessions.get(&relay.id);
        let number = |of: fn(&RelaySession) -> u64| {
            session.map_or("-".to_owned(), |session| of(session).to_string())
        };
        vec![
            relay.id.to_string(),
            relay.name.clone(),
            state(relay, session).to_owned(),
            yes_or_no(listed.connected).to_owned(),
            number(|session| session.gateways),
            number(|session| session.clients),
            session.map_or("-".to_owned(), processor),
            number(|session| session.rate_bytes_per_s),
            relay.software.clone().unwrap_or("-".to_owned()),
            instant(relay.last_seen),
        ]
    })
}

async fn show(shell: &mut Shell, which: &Which) -> Result<(), Failure> {
    let relay: Relay = shell.api.find(&which.which).await?;
    let sessions = sessions(shell).await?;
    let session = sessions.get(&relay.id);
    let since = session.map(|session| (relay.id, session.since));
    let shown = Listed::of(relay, &since.into_iter().collect());
    shell.format.record(&shown, || {
        let relay = &shown.thing;
        let addresses = session.map_or(&relay.addresses, |session| &session.addresses);
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let number = |of: fn(&RelaySession) -> u64| {
            session.map_or("-".to_owned(), |session| of(session).to_string())
        };
        let tls = session.and_then(|session| session.tls_port);
        vec![
            ("id", relay.id.to_string()),
            ("name", relay.name.clone()),
            ("state", state(relay, session).to_owned()),
            ("revoked", instant(relay.revoked)),
            ("addresses", addresses.join(", ")),
            (
                "TLS port",
                tls.map_or("-".to_owned(), |port| port.to_string()),
            ),
            ("software", relay.software.clone().unwrap_or("-".to_owned())),
            ("connected", connected(shown.connected_since)),
            ("gateways", number(|session| session.gateways)),
            ("clients", number(|session| session.clients)),
            ("CPU", session.map_or("-".to_owned(), processor)),
            ("bytes/s", number(|session| session.rate_bytes_per_s)),
            ("seen", instant(relay.last_seen)),
            ("created", instant(Some(relay.created))),
            ("changed", instant(Some(relay.updated))),
            ("version", relay.version.to_string()),
        ]
    })
}

/// The relays that are connected.
async fn sessions(shell: &mut Shell) -> Result<HashMap<RelayId, RelaySession>, Failure> {
    let all = Query::default();
    let sessions = shell.api.list_of("/sessions/relays", &all, MAX_LIST_LEN);
    let sessions: Vec<RelaySession> = sessions.await?;
    let by_relay = sessions.into_iter().map(|session| (session.relay, session));
    Ok(by_relay.collect())
}

fn state(relay: &Relay, session: Option<&RelaySession>) -> &'static str {
    let drains = relay.draining || session.is_some_and(|session| session.draining);
    match (relay.revoked, drains) {
        (Some(_), _) => "revoked",
        (None, true) => "draining",
        (None, false) => "active",
    }
}

fn processor(session: &RelaySession) -> String {
    format!("{} %", session.processor_permille / 10)
}
