//! `culvert admin client`.

use super::api::{MAX_LIST_LEN, Query};
use super::common::{Connection, Delete, Rename, Search, Seen, Which, yes_or_no};
use super::output::{Listed, connected, instant};
use super::shell::Shell;
use crate::exit::Failure;
use clap::{Args, Subcommand};
use culvert_ids::ClientId;
use culvert_wire::Timestamp;
use culvert_wire::api::{Actor, Client, ClientPatch, ClientSession, Gateway, PlainClientEndpoint};
use std::collections::HashMap;

/// Clients: machines that use resources
///
/// A machine becomes a client when it first connects with a client token ("culvert admin token create
/// --kind client"). A device without Culvert is added by "culvert admin plain-client".
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum ClientCommand {
    /// List clients
    List(ListArguments),
    /// Show a client
    Show(Which),
    /// Rename a client
    Set(Rename),
    /// Vouch for a client: policies may ask for that; a new key of the client ends it
    Verify(Seen),
    /// Vouch for a client no longer
    Unverify(Seen),
    /// Refuse a client from now on, for good; its access ends at once
    Revoke(Seen),
    /// Delete a client; with a good token it may come back as a new one
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    search: Search,
    /// Only those of this actor
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin client list --actor ada
  culvert admin client list --connected
  culvert admin client show laptop
  culvert admin client set laptop --name thinkpad
  culvert admin client verify laptop
  culvert admin client unverify laptop
  culvert admin client revoke laptop
  culvert admin client delete laptop";

pub(super) async fn run(shell: &mut Shell, command: ClientCommand) -> Result<(), Failure> {
    match command {
        ClientCommand::List(list) => self::list(shell, &list).await,
        ClientCommand::Show(which) => show(shell, &which).await,
        ClientCommand::Set(rename) => {
            let name = Some(rename.name);
            let patch = |_: &Client| Ok(ClientPatch { name });
            shell.change(&rename.seen, patch).await
        }
        ClientCommand::Verify(seen) => shell.act::<Client>(&seen, "verify", "verified").await,
        ClientCommand::Unverify(seen) => {
            let done = "verified no longer";
            shell.act::<Client>(&seen, "unverify", done).await
        }
        ClientCommand::Revoke(seen) => shell.act::<Client>(&seen, "revoke", "revoked").await,
        ClientCommand::Delete(delete) => shell.delete::<Client>(&delete).await,
    }
}

async fn list(shell: &mut Shell, list: &ListArguments) -> Result<(), Failure> {
    let actor = shell.api.id_of_some::<Actor>(list.actor.as_deref()).await?;
    let query = list.search.query().with_some("actor", actor);
    let clients: Vec<Client> = shell.api.list(&query).await?;
    let actors = shell.api.names::<Actor>().await?;
    let columns = [
        "ID",
        "NAME",
        "ACTOR",
        "STATE",
        "CONNECTED",
        "SINCE",
        "VERSION",
        "SEEN",
    ];
    let since = connected_since(shell).await?;
    let listed: Vec<_> = clients
        .into_iter()
        .map(|client| Listed::of(client, &since))
        .filter(|listed| list.connection.includes(listed.connected))
        .collect();
    shell.format.list(&listed, &columns, |listed| {
        let client = &listed.thing;
        vec![
            client.id.to_string(),
            client.name.clone(),
            actors.of(&client.actor),
            state(client).to_owned(),
            yes_or_no(listed.connected).to_owned(),
            instant(listed.connected_since),
            client.software.clone().unwrap_or("-".to_owned()),
            instant(client.last_seen),
        ]
    })
}

async fn show(shell: &mut Shell, which: &Which) -> Result<(), Failure> {
    let client: Client = shell.api.find(&which.which).await?;
    let actor: Actor = shell.api.by_id(client.actor).await?;
    let gateways = gateways_of(shell, &client).await?;
    let since = connected_since(shell).await?;
    let heard = heard_by(shell, &client).await?;
    let shown = Listed::of(client, &since);
    shell.format.record(&shown, || {
        let client = &shown.thing;
        let from = client.last_address.map(|address| address.to_string());
        vec![
            ("id", client.id.to_string()),
            ("name", client.name.clone()),
            ("actor", format!("{} ({})", actor.name, actor.id)),
            ("state", state(client).to_owned()),
            ("verified", instant(client.verified)),
            ("revoked", instant(client.revoked)),
            ("key", client.public_key.to_string()),
            ("addresses", format!("{}, {}", client.ipv4, client.ipv6)),
            ("gateways", gateways.clone()),
            (
                "software",
                client.software.clone().unwrap_or("-".to_owned()),
            ),
            ("connected", connected(shown.connected_since)),
            ("seen", instant(client.last_seen)),
            ("seen from", from.unwrap_or_else(|| "-".to_owned())),
            ("heard by", heard.clone()),
            ("created", instant(Some(client.created))),
            ("changed", instant(Some(client.updated))),
            ("version", client.version.to_string()),
        ]
    })
}

/// The gateways in the file of a plain WireGuard device.
async fn gateways_of(shell: &mut Shell, client: &Client) -> Result<String, Failure> {
    if client.gateways.is_empty() {
        return Ok("-".to_owned());
    }
    let names = shell.api.names::<Gateway>().await?;
    let named: Vec<_> = client.gateways.iter().map(|id| names.of(id)).collect();
    Ok(format!("{} (plain WireGuard)", named.join(", ")))
}

/// The gateways that hear a plain WireGuard device, and where.
async fn heard_by(shell: &mut Shell, client: &Client) -> Result<String, Failure> {
    if client.gateways.is_empty() {
        return Ok("-".to_owned());
    }
    let path = format!("/plain-clients/{}/endpoints", client.id);
    let heard: Vec<PlainClientEndpoint> = shell.api.get(&path, &Query::default()).await?;
    if heard.is_empty() {
        return Ok("-".to_owned());
    }
    let names = shell.api.names::<Gateway>().await?;
    let lines = heard.iter().map(|endpoint| {
        let address = endpoint.address.map(|address| address.to_string());
        let address = address.unwrap_or_else(|| "changing addresses".to_owned());
        let age = match endpoint.counts {
            true => "",
            false => ", too old for conditions",
        };
        let gateway = names.of(&endpoint.gateway);
        let at = endpoint.last_handshake;
        format!("{gateway} at {address} (handshake {at}{age})")
    });
    Ok(lines.collect::<Vec<_>>().join(", "))
}

/// The clients that are connected, and since when.
async fn connected_since(shell: &mut Shell) -> Result<HashMap<ClientId, Timestamp>, Failure> {
    let all = Query::default();
    let sessions = shell.api.list_of("/sessions/clients", &all, MAX_LIST_LEN);
    let sessions: Vec<ClientSession> = sessions.await?;
    let since = sessions
        .iter()
        .map(|session| (session.client, session.since));
    Ok(since.collect())
}

const fn state(client: &Client) -> &'static str {
    match (client.revoked, client.verified) {
        (Some(_), _) => "revoked",
        (None, Some(_)) => "verified",
        (None, None) => "active",
    }
}
