//! `culvert portal schema`.

use super::common::{EXIT_STATUS, StateArguments, failure, print_json_line, print_json_line_ahead};
use super::database::DatabaseArguments;
use crate::exit::{Failure, Status, print, print_ahead};
use clap::Args;
use culvert_portal::Home;
use culvert_store::Store;
use culvert_store_sql::{SchemaStatus, SecretsAccess, SqlStore, SqliteOptions, StoreOptions};
use serde::Serialize;
use std::process::ExitCode;

/// Show which versions of culvert work on the database, and finish an upgrade
///
/// A new version extends the database at its start, and the version before works on it as before: several portals are
/// upgraded one after the other, and each may go back. With --finish, the database loses what the version before needs.
/// There is no way back then but the restoration of a backup.
///
/// Portals on PostgreSQL may be running, if all have the new version. A portal on SQLite must be stopped for --finish. Run
/// it as the portal's user, on its machine.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(super) struct SchemaArguments {
    /// Take away what earlier versions need; refused while a portal of one is running
    #[arg(long)]
    finish: bool,

    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    state: StateArguments,

    #[command(flatten)]
    database: DatabaseArguments,
}

const EXAMPLES: &str = "\
Examples:
  culvert portal schema
  culvert portal schema --json | jq -r .oldest

  Once all portals have the new version, and none is to go back:
    culvert portal schema --finish --database-file /etc/culvert/database-url

Exit status:
  0  done
  1  something failed
  2  the command line is wrong";

/// The schema of a database, for scripts.
#[derive(Debug, Serialize)]
struct Told {
    database: String,
    /// The version of the latest program that was there.
    latest: u32,
    /// The oldest version that may work on the database.
    oldest: u32,
    /// The version of this program.
    this: u32,
    /// The oldest version once the upgrade is finished; null if nothing is left to do.
    oldest_once_finished: Option<u32>,
}

pub(super) async fn run(arguments: &SchemaArguments) -> Result<ExitCode, Failure> {
    let (_home, options) = options(arguments)?;
    let place = options.to_string();
    let failed = |error| Failure::new(Status::Failed, format_args!("database {place}: {error}"));
    let store = SqlStore::open(options).await.map_err(failed)?;
    let status = match arguments.finish {
        true => store.finish_upgrade().await,
        false => store.schema().await,
    };
    let status = status.map_err(failed)?;
    store.close().await;
    let told = Told {
        database: place,
        latest: status.state.version,
        oldest: status.state.readable_by,
        this: status.known,
        oldest_once_finished: status.pending,
    };
    match (arguments.json, arguments.finish) {
        (true, true) => print_json_line_ahead(&told)?,
        (true, false) => print_json_line(&told)?,
        (false, true) => print_ahead(text(&told, &status).as_bytes())?,
        (false, false) => print(text(&told, &status).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The database, and the directory of its portal. Nobody else has the directory while a file is changed.
fn options(arguments: &SchemaArguments) -> Result<(Home, StoreOptions), Failure> {
    let state_dir = &arguments.state.state_dir;
    if let Some(options) = arguments.database.postgres()? {
        let home = Home::open_beside(state_dir).map_err(failure)?;
        return Ok((home, options.secrets(SecretsAccess::Nothing).into()));
    }
    let home = match arguments.finish {
        true => Home::open_stopped(state_dir),
        false => Home::open_beside(state_dir),
    };
    let home = home.map_err(failure)?;
    home.expect_file().map_err(failure)?;
    let path = home.database_path();
    if !path.exists() {
        let reason = "no portal ever ran here: start it first (culvert portal run)";
        return Err(Failure::new(Status::Failed, reason));
    }
    let options = SqliteOptions::file(path).secrets(SecretsAccess::Nothing);
    Ok((home, options.into()))
}

fn text(told: &Told, status: &SchemaStatus) -> String {
    let mut text = format!(
        "Database {} has schema version {}. Programs of version {} and later work on it; this one has {}.\n",
        told.database, told.latest, told.oldest, told.this
    );
    text += &match status.pending {
        Some(pending) => format!(
            "The upgrade is not finished. \"culvert portal schema --finish\" leaves it to programs of version {pending} and \
             later.\n"
        ),
        None => "No upgrade is left to finish.\n".to_owned(),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use culvert_store_sql::SchemaState;

    #[test]
    fn an_upgrade_that_is_not_finished_says_how_to() {
        let said = |pending| {
            let state = SchemaState {
                version: 7,
                readable_by: 5,
            };
            let status = SchemaStatus {
                state,
                known: 7,
                pending,
            };
            let told = Told {
                database: "portal.db".to_owned(),
                latest: 7,
                oldest: 5,
                this: 7,
                oldest_once_finished: pending,
            };
            text(&told, &status)
        };
        let pending = said(Some(6));
        assert!(pending.contains("version 5 and later"), "{pending}");
        assert!(
            pending.contains("--finish") && pending.contains("version 6"),
            "{pending}"
        );
        assert!(!said(None).contains("--finish"));
    }
}
