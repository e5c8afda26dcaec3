//! `culvert admin portal`.

use super::api::Query;
use super::output::{Format, instant, print_json, table};
use super::shell::Shell;
use crate::exit::{Failure, print};
use clap::Subcommand;
use culvert_wire::api::{Page, PortalOfDatabase};

/// The difference of clocks from which on it is shown: expiries are not exact to less.
const SHOWN_CLOCK_MS: u64 = 1_000;

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
    let columns = ["PORTAL", "ADDRESS", "STATE", "VERSION", "SINCE", "CLOCK"];
    let rows = page.items.iter().map(|portal| {
        let address = portal.address.map(|address| address.to_string());
        vec![
            portal.portal.to_string(),
            address.unwrap_or_else(|| "-".to_owned()),
            state(portal),
            portal.version.clone(),
            instant(Some(portal.started)),
            clock(portal.clock_ahead_ms),
        ]
    });
    print(table(&columns, rows).as_bytes())
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

/// The difference between the portal's clock and the database's.
fn clock(ahead_ms: i64) -> String {
    let seconds = ahead_ms.unsigned_abs() / 1_000;
    match (ahead_ms.unsigned_abs() < SHOWN_CLOCK_MS, ahead_ms > 0) {
        (true, _) => "right".to_owned(),
        (false, true) => format!("{seconds} s ahead"),
        (false, false) => format!("{seconds} s behind"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_told_by_whole_seconds_in_both_directions() {
        for (ahead_ms, told) in [
            (0, "right"),
            (999, "right"),
            (-999, "right"),
            (1_000, "1 s ahead"),
            (-3_600_000, "3600 s behind"),
        ] {
            assert_eq!(clock(ahead_ms), told);
        }
    }
}
