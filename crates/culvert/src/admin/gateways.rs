//! `culvert admin gateway`.

use super::api::{MAX_LIST_LEN, Query};
use super::common::{Connection, Delete, Rename, Search, Seen, Which, yes_or_no};
use super::output::{Listed, connected, instant};
use super::shell::Shell;
use crate::exit::{Failure, Status};
use clap::{Args, Subcommand};
use culvert_base::quoted;
use culvert_ids::GatewayId;
use culvert_wire::api::{Gateway, GatewayPatch, GatewaySession, Site, Token};
use std::collections::HashMap;

/// Gateways: machines that give access to the resources of their site
///
/// A machine becomes a gateway when it first connects with a gateway token ("culvert admin token create
/// --kind gateway").
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum GatewayCommand {
    /// List gateways
    List(ListArguments),
    /// Show a gateway
    Show(Which),
    /// Rename a gateway
    Set(Rename),
    /// Vouch for a gateway's key, once its fingerprint is the one that "culvert gateway status" shows there
    ///
    /// The account may require it ("culvert admin account set --require-verified-gateways on"): until then the
    /// gateway waits, and no client is led to it. A new key of the gateway ends it.
    Verify(VerifyArguments),
    /// Vouch for a gateway no longer; where the account requires it, access through it ends at once
    Unverify(Seen),
    /// Give a gateway no new access; what it carries goes on and ends by itself
    ///
    /// A client stays until its grant is renewed or ends, 40 to 60 minutes by default. With --now, clients move to another
    /// gateway of the site within seconds: new connections go there, and connections through this gateway break.
    Drain(DrainArguments),
    /// Give a gateway new access again
    Undrain(Seen),
    /// Refuse a gateway from now on, for good; access through it moves to others
    Revoke(Seen),
    /// Delete a gateway; with a good token it may come back as a new one
    Delete(Delete),
}

#[derive(Debug, Args)]
pub(super) struct VerifyArguments {
    #[command(flatten)]
    seen: Seen,
    /// Only if its key has this fingerprint, as "culvert gateway status" shows it there
    #[arg(long, value_name = "FINGERPRINT")]
    fingerprint: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct DrainArguments {
    #[command(flatten)]
    seen: Seen,
    /// Move its clients to another gateway of the site at once
    #[arg(long)]
    now: bool,
    /// With --now: even where no other gateway can take its clients, so that they lose their access
    #[arg(long, requires = "now")]
    force: bool,
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    search: Search,
    /// Only those of this site
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin gateway list --site office
  culvert admin gateway list --not-connected
  culvert admin gateway show gateway-1
  culvert admin gateway set gateway-1 --name cellar
  culvert admin gateway verify gateway-1 \\
    --fingerprint 704d-8c8d-4124-f4ac-6295-476a-47d5-af9a
  culvert admin gateway unverify gateway-1
  culvert admin gateway drain gateway-1
  culvert admin gateway drain gateway-1 --now
  culvert admin gateway undrain gateway-1
  culvert admin gateway revoke gateway-1
  culvert admin gateway delete gateway-1";

pub(super) async fn run(shell: &mut Shell, command: GatewayCommand) -> Result<(), Failure> {
    match command {
        GatewayCommand::List(list) => self::list(shell, &list).await,
        GatewayCommand::Show(which) => show(shell, &which).await,
        GatewayCommand::Set(rename) => {
            let name = Some(rename.name);
            let patch = |_: &Gateway| Ok(GatewayPatch { name });
            shell.change(&rename.seen, patch).await
        }
        GatewayCommand::Verify(arguments) => verify(shell, &arguments).await,
        GatewayCommand::Unverify(seen) => {
            let done = "verified no longer";
            shell.act::<Gateway>(&seen, "unverify", done).await
        }
        GatewayCommand::Drain(drain) => self::drain(shell, &drain).await,
        GatewayCommand::Undrain(seen) => {
            let done = "draining no longer";
            shell.act::<Gateway>(&seen, "undrain", done).await
        }
        GatewayCommand::Revoke(seen) => shell.act::<Gateway>(&seen, "revoke", "revoked").await,
        GatewayCommand::Delete(delete) => shell.delete::<Gateway>(&delete).await,
    }
}

async fn verify(shell: &mut Shell, arguments: &VerifyArguments) -> Result<(), Failure> {
    let seen = &arguments.seen;
    let found: Gateway = shell.api.find(&seen.which.which).await?;
    let expected = match &arguments.fingerprint {
        None => seen.if_version,
        // It may get another key before the request comes.
        Some(wanted) if *wanted == found.fingerprint => seen.if_version.or(Some(found.version)),
        Some(_) => {
            let (name, fingerprint) = (quoted(&found.name), &found.fingerprint);
            return Err(Failure::new(
                Status::Failed,
                format_args!(
                    "gateway {name} has a key with another fingerprint, {fingerprint}: it was not verified"
                ),
            ));
        }
    };
    let changed: Gateway = shell.api.act(&found, expected, "verify").await?;
    shell.say("verified", &changed)
}

async fn drain(shell: &mut Shell, arguments: &DrainArguments) -> Result<(), Failure> {
    if !arguments.now {
        return shell
            .act::<Gateway>(&arguments.seen, "drain", "draining")
            .await;
    }
    let seen = &arguments.seen;
    let found: Gateway = shell.api.find(&seen.which.which).await?;
    let word = match arguments.force {
        true => "drain?now=true&force=true",
        false => "drain?now=true",
    };
    let changed = shell.api.act(&found, seen.if_version, word).await?;
    shell.say("draining, its clients move to other gateways now", &changed)
}

async fn list(shell: &mut Shell, list: &ListArguments) -> Result<(), Failure> {
    let site = shell.api.id_of_some::<Site>(list.site.as_deref()).await?;
    let query = list.search.query().with_some("site", site);
    let gateways: Vec<Gateway> = shell.api.list(&query).await?;
    let sites = shell.api.names::<Site>().await?;
    let is_required = shell.api.account().await?.require_verified_gateways;
    let columns = [
        "ID",
        "NAME",
        "SITE",
        "STATE",
        "CONNECTED",
        "SINCE",
        "VERSION",
        "SEEN",
    ];
    let sessions = sessions(shell).await?;
    let listed: Vec<_> = gateways
        .into_iter()
        .map(|gateway| listed(gateway, &sessions))
        .filter(|listed| list.connection.includes(listed.connected))
        .collect();
    shell.format.list(&listed, &columns, |listed| {
        let gateway = &listed.thing;
        vec![
            gateway.id.to_string(),
            gateway.name.clone(),
            sites.of(&gateway.site),
            state(listed, is_required),
            yes_or_no(listed.connected).to_owned(),
            instant(listed.connected_since),
            gateway.software.clone().unwrap_or("-".to_owned()),
            instant(gateway.last_seen),
        ]
    })
}

async fn show(shell: &mut Shell, which: &Which) -> Result<(), Failure> {
    let gateway: Gateway = shell.api.find(&which.which).await?;
    let site: Site = shell.api.by_id(gateway.site).await?;
    let is_required = shell.api.account().await?.require_verified_gateways;
    let tokens = shell.api.names::<Token>().await?;
    let enrolled_with = gateway.enrolled_with.as_ref();
    let enrolled_with = enrolled_with.map(|id| format!("{} ({id})", tokens.of(id)));
    let shown = listed(gateway, &sessions(shell).await?);
    shell.format.record(&shown, || {
        let gateway = &shown.thing;
        vec![
            ("id", gateway.id.to_string()),
            ("name", gateway.name.clone()),
            ("site", format!("{} ({})", site.name, site.id)),
            ("state", state(&shown, is_required)),
            ("verified", instant(gateway.verified)),
            ("revoked", instant(gateway.revoked)),
            ("key", gateway.public_key.to_string()),
            ("fingerprint", gateway.fingerprint.clone()),
            ("token", enrolled_with.unwrap_or_else(|| "-".to_owned())),
            ("addresses", format!("{}, {}", gateway.ipv4, gateway.ipv6)),
            (
                "software",
                gateway.software.clone().unwrap_or("-".to_owned()),
            ),
            ("connected", connected(shown.connected_since)),
            ("seen", instant(gateway.last_seen)),
            ("created", instant(Some(gateway.created))),
            ("changed", instant(Some(gateway.updated))),
            ("version", gateway.version.to_string()),
        ]
    })
}

/// The gateways that are connected.
async fn sessions(shell: &mut Shell) -> Result<HashMap<GatewayId, GatewaySession>, Failure> {
    let all = Query::default();
    let sessions = shell.api.list_of("/sessions/gateways", &all, MAX_LIST_LEN);
    let sessions: Vec<GatewaySession> = sessions.await?;
    let by_gateway = sessions
        .into_iter()
        .map(|session| (session.gateway, session));
    Ok(by_gateway.collect())
}

fn listed(gateway: Gateway, sessions: &HashMap<GatewayId, GatewaySession>) -> Listed<Gateway> {
    let session = sessions.get(&gateway.id);
    Listed {
        connected: session.is_some(),
        connected_since: session.map(|session| session.since),
        clients: session.map(|session| session.clients),
        thing: gateway,
    }
}

/// `is_required`: whether the account has no use for gateways that are not verified.
fn state(listed: &Listed<Gateway>, is_required: bool) -> String {
    let gateway = &listed.thing;
    let state = match (gateway.revoked, gateway.verified, gateway.draining) {
        (Some(_), _, _) => "revoked",
        (None, None, _) if is_required => "waiting",
        (None, _, true) => return draining(listed.clients),
        (None, Some(_), false) => "verified",
        (None, None, false) => "active",
    };
    state.to_owned()
}

/// The state of a gateway that drains: how many clients are left, where it is connected.
fn draining(clients: Option<u64>) -> String {
    match clients {
        None => "draining".to_owned(),
        Some(1) => "draining, 1 client left".to_owned(),
        Some(clients) => format!("draining, {clients} clients left"),
    }
}

#[cfg(test)]
mod tests {
    use super::draining;

    #[test]
    fn a_draining_gateway_says_how_many_clients_are_left() {
        assert_eq!(draining(None), "draining");
        assert_eq!(draining(Some(0)), "draining, 0 clients left");
        assert_eq!(draining(Some(1)), "draining, 1 client left");
    }
}
