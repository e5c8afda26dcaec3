//! `culvert admin retention`.

use super::api::Query;
use super::common::{Switch, on_or_off, something};
use super::shell::Shell;
use crate::exit::Failure;
use crate::whole_number::whole_number;
use clap::{Args, Subcommand};
use culvert_wire::api::{Retention, RetentionPatch};
use culvert_wire::model::Keep;
use culvert_wire::model::{MAX_LOG_DAYS, MAX_LOG_ENTRIES, MIN_LOG_ENTRIES};

/// Retention time of logs, and the switch of the flow log
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum RetentionCommand {
    /// Show how long logs are kept
    Show,
    /// Change how long logs are kept
    Set(SetArguments),
}

#[derive(Debug, Args)]
pub(super) struct SetArguments {
    /// Flow log: gateways report flows, which show the activity of each person with its time
    #[arg(long, value_name = "ON|OFF")]
    flow_log: Option<Switch>,
    /// Days of the access log: 1 to 3650
    #[arg(long, value_name = "N", value_parser = whole_number(1..=MAX_LOG_DAYS))]
    access_days: Option<u32>,
    /// Entries of the access log at most: 1000 to 100000000
    #[arg(long, value_name = "N", value_parser = whole_number(MIN_LOG_ENTRIES..=MAX_LOG_ENTRIES))]
    access_entries: Option<u64>,
    /// Days of the flow log: 1 to 3650
    #[arg(long, value_name = "N", value_parser = whole_number(1..=MAX_LOG_DAYS))]
    flow_days: Option<u32>,
    /// Entries of the flow log at most: 1000 to 100000000
    #[arg(long, value_name = "N", value_parser = whole_number(MIN_LOG_ENTRIES..=MAX_LOG_ENTRIES))]
    flow_entries: Option<u64>,
    /// Days of the change log: 90 to 3650, or 0 to keep it for good; for owners
    #[arg(long, value_name = "N", value_parser = whole_number(0..=MAX_LOG_DAYS))]
    change_days: Option<u32>,
    /// Only if the account is still at version N, as "show" said
    #[arg(long, value_name = "N", value_parser = crate::whole_number::version)]
    if_version: Option<u64>,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin retention show
  culvert admin retention set --flow-log on --flow-days 14
  culvert admin retention set --access-days 365";

pub(super) async fn run(shell: &mut Shell, command: RetentionCommand) -> Result<(), Failure> {
    let found: Retention = shell.api.get("/retention", &Query::default()).await?;
    let set = match command {
        RetentionCommand::Show => return show(shell, &found),
        RetentionCommand::Set(set) => set,
    };
    let keep = |before: Keep, days: Option<u32>, entries: Option<u64>| {
        let keep = Keep {
            days: days.unwrap_or(before.days),
            entries: entries.unwrap_or(before.entries),
        };
        (days.is_some() || entries.is_some()).then_some(keep)
    };
    let patch = something(RetentionPatch {
        flow_log: set.flow_log.map(|on| matches!(on, Switch::On)),
        access: keep(found.access, set.access_days, set.access_entries),
        flows: keep(found.flows, set.flow_days, set.flow_entries),
        change_days: set.change_days,
    })?;
    let version = set.if_version.unwrap_or(found.version);
    let changed: Retention = shell.api.patch("/retention", Some(version), &patch).await?;
    shell
        .format
        .done(&changed, "changed how long logs are kept")
}

fn show(shell: &Shell, found: &Retention) -> Result<(), Failure> {
    let retained = |keep: Keep| format!("{} days, at most {} entries", keep.days, keep.entries);
    shell.format.record(found, || {
        vec![
            ("flow log", on_or_off(found.flow_log).to_owned()),
            ("access entries", retained(found.access)),
            ("flow entries", retained(found.flows)),
            (
                "changes",
                match found.change_days {
                    0 => "for good".to_owned(),
                    days => format!("{days} days"),
                },
            ),
            ("flows lost", found.flows_lost.to_string()),
            ("version", found.version.to_string()),
        ]
    })
}
