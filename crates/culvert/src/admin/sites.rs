//! `culvert admin site`.

use super::common::{DeleteWithOthers, Search, Seen, Which, something};
use super::output::instant;
use super::shell::Shell;
use crate::exit::Failure;
use clap::{Args, Subcommand};
use culvert_wire::api::{NewSite, Relay, Site, SitePatch};

/// Sites: places with resources, and with the gateways that reach them
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum SiteCommand {
    /// List sites
    List(Search),
    /// Show a site
    Show(Which),
    /// Make a site
    Create {
        /// Its name
        name: String,
    },
    /// Rename a site, or choose its relays
    Set(SetArguments),
    /// Delete a site
    ///
    /// With --cascade its resources, gateways and tokens go with it.
    Delete(DeleteWithOthers),
}

#[derive(Debug, Args)]
pub(super) struct SetArguments {
    #[command(flatten)]
    seen: Seen,
    /// Its new name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The only relays that its gateways use, such as frankfurt,paris; any: all of the account; none: no relay
    #[arg(long, value_name = "RELAYS", value_delimiter = ',')]
    relays: Option<Vec<String>>,
}

/// The words by which a site uses all relays, or no relay.
const ANY: &str = "any";
const NONE: &str = "none";

const EXAMPLES: &str = "\
Examples:
  culvert admin site create office
  culvert admin site list
  culvert admin site show office
  culvert admin site set office --name headquarters
  culvert admin site set office --relays frankfurt,paris
  culvert admin site set office --relays any
  culvert admin site delete headquarters --cascade";

pub(super) async fn run(shell: &mut Shell, command: SiteCommand) -> Result<(), Failure> {
    match command {
        SiteCommand::List(search) => {
            let sites: Vec<Site> = shell.api.list(&search.query()).await?;
            shell.format.list(&sites, &["ID", "NAME"], |site| {
                vec![site.id.to_string(), site.name.clone()]
            })
        }
        SiteCommand::Show(which) => {
            let site: Site = shell.api.find(&which.which).await?;
            let relays = match &site.relays {
                None => ANY.to_owned(),
                Some(relays) if relays.is_empty() => NONE.to_owned(),
                Some(relays) => {
                    let names = shell.api.names::<Relay>().await?;
                    let names: Vec<_> = relays.iter().map(|relay| names.of(relay)).collect();
                    names.join(", ")
                }
            };
            shell.format.record(&site, || {
                vec![
                    ("id", site.id.to_string()),
                    ("name", site.name.clone()),
                    ("relays", relays),
                    ("created", instant(Some(site.created))),
                    ("changed", instant(Some(site.updated))),
                    ("version", site.version.to_string()),
                ]
            })
        }
        SiteCommand::Create { name } => shell.create::<Site>(&NewSite { name }).await.map(drop),
        SiteCommand::Set(set) => {
            if set.name.is_none() && set.relays.is_none() {
                something(SitePatch::default())?;
            }
            let relays = match set.relays {
                Some(written) => Some(relays_of(shell, written).await?),
                None => None,
            };
            let name = set.name;
            let patch = |_: &Site| Ok(SitePatch { name, relays });
            shell.change(&set.seen, patch).await
        }
        SiteCommand::Delete(delete) => shell.delete_with_others::<Site>(&delete).await,
    }
}

/// The relays as the API takes them: by their ids.
async fn relays_of(shell: &mut Shell, written: Vec<String>) -> Result<Vec<String>, Failure> {
    match &written[..] {
        [one] if one == ANY => return Ok(written),
        [one] if one == NONE => return Ok(Vec::new()),
        _ => {}
    }
    let mut ids = Vec::new();
    for name in &written {
        let relay: Relay = shell.api.find(name).await?;
        ids.push(relay.id.to_string());
    }
    Ok(ids)
}
