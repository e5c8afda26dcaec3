//! `culvert admin site`.

use super::common::{DeleteWithOthers, Rename, Search, Which};
use super::output::instant;
use super::shell::Shell;
use crate::exit::Failure;
use clap::Subcommand;
use culvert_wire::api::{NewSite, Site, SitePatch};

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
    /// Rename a site
    Set(Rename),
    /// Delete a site
    ///
    /// With --cascade its resources, gateways and tokens go with it.
    Delete(DeleteWithOthers),
}

const EXAMPLES: &str = "\
Examples:
  culvert admin site create office
  culvert admin site list
  culvert admin site show office
  culvert admin site set office --name headquarters
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
            shell.format.record(&site, || {
                vec![
                    ("id", site.id.to_string()),
                    ("name", site.name.clone()),
                    ("created", instant(Some(site.created))),
                    ("changed", instant(Some(site.updated))),
                    ("version", site.version.to_string()),
                ]
            })
        }
        SiteCommand::Create { name } => shell.create::<Site>(&NewSite { name }).await.map(drop),
        SiteCommand::Set(rename) => {
            let name = Some(rename.name);
            let patch = |_: &Site| Ok(SitePatch { name });
            shell.change(&rename.seen, patch).await
        }
        SiteCommand::Delete(delete) => shell.delete_with_others::<Site>(&delete).await,
    }
}
