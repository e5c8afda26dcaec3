//! `culvert admin gateway`.

use super::Shell;
use super::common::{Rename, Search, Seen, Which};
use super::output::{day, instant};
use crate::exit::Failure;
use clap::{Args, Subcommand};
use culvert_wire::api::{Gateway, GatewayPatch, Site};

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
    /// Give a gateway no new access; what it carries goes on and ends by itself
    Drain(Seen),
    /// Give a gateway new access again
    Undrain(Seen),
    /// Refuse a gateway from now on, for good; access through it moves to others
    Revoke(Seen),
    /// Delete a gateway; with a good token it may come back as a new one
    Delete(Seen),
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    #[command(flatten)]
    search: Search,
    /// Only those of this site
    #[arg(long, value_name = "SITE")]
    site: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin gateway list --site office
  culvert admin gateway show gateway-1
  culvert admin gateway set gateway-1 --name cellar
  culvert admin gateway drain gateway-1
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
        GatewayCommand::Drain(seen) => shell.act::<Gateway>(&seen, "drain", "draining").await,
        GatewayCommand::Undrain(seen) => {
            let done = "draining no longer";
            shell.act::<Gateway>(&seen, "undrain", done).await
        }
        GatewayCommand::Revoke(seen) => shell.act::<Gateway>(&seen, "revoke", "revoked").await,
        GatewayCommand::Delete(seen) => shell.delete::<Gateway>(&seen).await,
    }
}

async fn list(shell: &mut Shell, list: &ListArguments) -> Result<(), Failure> {
    let site = shell.api.id_of_some::<Site>(list.site.as_deref()).await?;
    let query = list.search.query().with_some("site", site);
    let gateways: Vec<Gateway> = shell.api.list(&query).await?;
    let sites = shell.api.names::<Site>().await?;
    let columns = ["ID", "NAME", "SITE", "STATE", "SEEN"];
    shell.format.list(&gateways, &columns, |gateway| {
        vec![
            gateway.id.to_string(),
            gateway.name.clone(),
            sites.of(&gateway.site),
            state(gateway).to_owned(),
            day(gateway.last_seen),
        ]
    })
}

async fn show(shell: &mut Shell, which: &Which) -> Result<(), Failure> {
    let gateway: Gateway = shell.api.find(&which.which).await?;
    let site: Site = shell.api.by_id(gateway.site).await?;
    shell.format.record(&gateway, || {
        vec![
            ("id", gateway.id.to_string()),
            ("name", gateway.name.clone()),
            ("site", format!("{} ({})", site.name, site.id)),
            ("state", state(&gateway).to_owned()),
            ("revoked", instant(gateway.revoked)),
            ("key", gateway.public_key.to_string()),
            ("addresses", format!("{}, {}", gateway.ipv4, gateway.ipv6)),
            (
                "software",
                gateway.software.clone().unwrap_or("-".to_owned()),
            ),
            ("seen", instant(gateway.last_seen)),
            ("created", instant(Some(gateway.created))),
            ("changed", instant(Some(gateway.updated))),
            ("version", gateway.version.to_string()),
        ]
    })
}

const fn state(gateway: &Gateway) -> &'static str {
    match (gateway.revoked, gateway.draining) {
        (Some(_), _) => "revoked",
        (None, true) => "draining",
        (None, false) => "active",
    }
}
