//! `culvert admin portal`.

use super::api::Query;
use super::output::{Format, instant, print_json, table};
use super::shell::Shell;
use super::status::shown;
use crate::exit::{Failure, print};
use clap::Subcommand;
use culvert_wire::api::{Page, PortalOfDatabase, PortalStatus};

/// The portals that share a PostgreSQL database
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum PortalCommand {
    /// List the portals of the database, and which of them leads
    ///
    /// The portal that leads decides about access for the machines of all. Those that ended within the last day are
    /// listed too.
    List,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin portal list
  culvert admin portal list --json | jq -r '.items[] | select(.leads).address'";

pub(super) async fn run(shell: &mut Shell, command: PortalCommand) -> Result<(), Failure> {
    let PortalCommand::List = command;
    let page: Page<PortalOfDatabase> = shell.api.get("/portals", &Query::default()).await?;
    if shell.format == Format::Json {
        return print_json(page);
    }
    let status: PortalStatus = shell.api.get("/status", &Query::default()).await?;
    let columns = ["PORTAL", "ADDRESS", "STATE", "VERSION", "SINCE", "CLOCK"];
    let rows = page.items.iter().map(|portal| {
        let address = portal.address.map(|address| address.to_string());
        vec![
            portal.portal.to_string(),
            address.unwrap_or_else(|| "-".to_owned()),
            state(portal),
            portal.version.clone(),
            instant(Some(portal.started)),
            portal.clock_in_words(),
        ]
    });
    let mut text = table(&columns, rows);
    let lag = match status.feed_lag {
        0 => String::new(),
        lag => format!(", {lag} changes are on their way to machines"),
    };
    text += &match &status.database {
        Some(database) => format!("\nDatabase: {}{lag}\n", shown(database)),
        None => format!("\nDatabase: no answer{lag}\n"),
    };
    print(text.as_bytes())
}

fn state(portal: &PortalOfDatabase) -> String {
    let state = match (portal.leads, portal.runs) {
        (true, _) => "leads".to_owned(),
        (false, true) => "follows".to_owned(),
        (false, false) => format!("silent since {}", instant(Some(portal.seen))),
    };
    match portal.answers {
        true => format!("{state} (this one)"),
        false => state,
    }
}
