//! `culvert portal migrate`.

use super::common::{EXIT_STATUS, StateArguments, failure, print_json_line_ahead};
use super::database::DatabaseArguments;
use crate::exit::{Failure, Status, print_ahead};
use crate::visible::visible;
use clap::Args;
use culvert_portal::Home;
use culvert_store_sql::{Migrated, Migration, PostgresOptions, SqliteOptions, Step, StoreOptions};
use serde::Serialize;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

/// The time between two looks whether the portal has ended.
const PAUSE: Duration = Duration::from_secs(1);

/// The time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(5);

/// Move a portal's data to a PostgreSQL server, or from there into a file
///
/// All of it is copied: configuration, secrets, tokens, machines and logs. Encrypted secrets stay encrypted with the
/// same key. The target must be empty, and is written in one transaction, which is committed after all rows were compared.
/// Ended before that in any way, nothing is changed. The old database is not written; its file gets another name.
///
/// The portal may run at first: its logs are copied meanwhile. Then the command asks for its end, and the rest takes a
/// few seconds. Run it as the portal's user, on its machine.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(super) struct MigrateArguments {
    /// The new place: a postgres:// URL without a password, postgres, or sqlite
    ///
    /// With "postgres" the database is the one of --database-file, --database, or the credential of the service
    /// manager. With "sqlite" the data goes from that database into a file in --state-dir.
    #[arg(long, value_name = "URL|postgres|sqlite", value_parser = parse_place)]
    to: Place,

    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    state: StateArguments,

    #[command(flatten)]
    database: DatabaseArguments,
}

/// The new place of a portal's data.
#[derive(Clone, Debug)]
enum Place {
    /// The database of this URL, or of the other options.
    Server(Option<String>),
    File,
}

fn parse_place(text: &str) -> Result<Place, String> {
    match text {
        "postgres" => Ok(Place::Server(None)),
        "sqlite" => Ok(Place::File),
        url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok(Place::Server(Some(url.to_owned())))
        }
        _ => Err(
            "a URL such as postgres://culvert@db.example.com/culvert, postgres, or sqlite"
                .to_owned(),
        ),
    }
}

impl MigrateArguments {
    const fn to_postgres(&self) -> bool {
        matches!(self.to, Place::Server(_))
    }

    /// The options that name the database on a server.
    fn server(&self) -> Result<Cow<'_, DatabaseArguments>, Failure> {
        match &self.to {
            Place::Server(Some(url)) => self.database.with_url(url).map(Cow::Owned),
            Place::Server(None) | Place::File => Ok(Cow::Borrowed(&self.database)),
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  To PostgreSQL, with the URL of an empty database in the file:
    culvert portal migrate --to postgres --database-file /etc/culvert/database-url

  Back into a file of the state directory:
    culvert portal migrate --to sqlite --database-file /etc/culvert/database-url

  A portal in a directory of your own, to a server on this machine:
    culvert portal migrate --to postgres://culvert@localhost/culvert --state-dir ./portal

Exit status:
  0  done
  1  something failed, or it was ended before it was done
  2  the command line is wrong";

/// A portal that was moved, for scripts.
#[derive(Debug, Serialize)]
struct Told<'a> {
    state_dir: &'a Path,
    /// The database that the portal runs on from now on: a file, or one on a server without a password.
    database: String,
    /// The old database; nothing was changed in it.
    old_database: String,
    /// True if a key encrypts the secrets.
    is_encrypted: bool,
    /// The number of rows by table.
    rows: &'a BTreeMap<&'static str, u64>,
    seconds: f64,
    /// The command that starts the portal.
    command: String,
}

/// The two databases of a migration.
struct Way {
    to_postgres: bool,
    server: PostgresOptions,
    file: PathBuf,
}

pub(super) async fn run(arguments: &MigrateArguments) -> Result<ExitCode, Failure> {
    let begun = Instant::now();
    let home = Home::open_beside(&arguments.state.state_dir).map_err(failure)?;
    let way = way(arguments, &home)?;
    let mut ended = Ended::watch()?;
    let copied = tokio::select! {
        copied = copy(&arguments.state.state_dir, &way) => copied?,
        () = ended.next() => {
            return Err(Failure::new(
                Status::Failed,
                "ended before it was done: nothing is changed, and the portal keeps its old database",
            ));
        }
    };
    // From here on it goes on to its end: the server may have committed.
    let (home, compared) = copied;
    let migrated = compared.commit().await;
    let migrated = migrated.map_err(|error| Failure::new(Status::Failed, error))?;
    let (database, old_database) = moved(&home, &way).map_err(|failure| {
        failure.about("all is copied, but the state directory could not be changed")
    })?;
    let told = Told {
        state_dir: &arguments.state.state_dir,
        database,
        old_database,
        is_encrypted: migrated.is_encrypted(),
        rows: &migrated.rows,
        seconds: begun.elapsed().as_secs_f64(),
        command: command(arguments, &migrated)?,
    };
    match arguments.json {
        true => print_json_line_ahead(&told)?,
        false => print_ahead(text(&told, &migrated, &way).as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The databases, if the portal of the directory can go that way.
fn way(arguments: &MigrateArguments, home: &Home) -> Result<Way, Failure> {
    let server = arguments.server()?.postgres()?.ok_or_else(|| {
        let text = "no database on a server is named: give the file with its URL (--database-file FILE), or a URL \
                    without a password (--to URL)";
        Failure::new(Status::Usage, text)
    })?;
    let to_postgres = arguments.to_postgres();
    let state_dir = arguments.state.state_dir.display();
    let refused = |text: String| Err(Failure::new(Status::Failed, text));
    let file = match (home.postgres().map_err(failure)?, to_postgres) {
        (Some(place), true) => {
            return refused(format!(
                "the portal in {state_dir} is on PostgreSQL already: {place}"
            ));
        }
        (None, false) => {
            return refused(format!(
                "the portal in {state_dir} has its database in a file already"
            ));
        }
        (Some(place), false) if place != server.to_string() => {
            return refused(format!(
                "the portal in {state_dir} is on database {place}, and {server} was named: name the right one, or start \
                 the portal once on the one that you named"
            ));
        }
        (Some(_), false) => home.new_database_path(),
        (None, true) => home.database_path(),
    };
    if to_postgres && !file.exists() {
        return refused(format!(
            "no portal ever ran in {state_dir}: start it there (culvert portal run), or give another --state-dir"
        ));
    }
    Ok(Way {
        to_postgres,
        server,
        file,
    })
}

impl Way {
    fn from(&self) -> StoreOptions {
        self.database(!self.to_postgres)
    }

    fn to(&self) -> StoreOptions {
        self.database(self.to_postgres)
    }

    fn database(&self, is_server: bool) -> StoreOptions {
        match is_server {
            true => self.server.clone().into(),
            false => SqliteOptions::file(&self.file).into(),
        }
    }
}

/// Copies and compares all of it, and waits for the end of the portal between. Returns the portal's directory, which nobody else
/// has from then on.
async fn copy(state_dir: &Path, way: &Way) -> Result<(Home, culvert_store_sql::Compared), Failure> {
    let failed = |error| Failure::new(Status::Failed, error);
    let mut home = open_unless_running(state_dir).await?;
    let mut migration = Migration::begin(way.from(), way.to())
        .await
        .map_err(failed)?;
    let mut progress = Progress::new();
    let mut is_asked = false;
    loop {
        let report = &mut |step| progress.report(step);
        let rows = migration.copy_logs(report).await.map_err(failed)?;
        if home.is_none() {
            home = open_unless_running(state_dir).await?;
        }
        if home.is_some() && migration.take_source().await.map_err(failed)? {
            break;
        }
        if !is_asked {
            is_asked = true;
            say(&format!(
                "Stop the portal: {rows} rows of its logs are copied, and the rest takes a few seconds. Ctrl-C ends \
                 this, and nothing is changed."
            ));
        }
        tokio::time::sleep(PAUSE).await;
    }
    if is_asked {
        say("The portal has ended. Copying the rest.");
    }
    let report = &mut |step| progress.report(step);
    let compared = migration.finish(report).await.map_err(failed)?;
    match home {
        Some(home) => Ok((home, compared)),
        None => Err(Failure::new(Status::Failed, "the portal still runs")),
    }
}

/// The portal's directory; none while a portal runs there. Looking takes up to 2 s.
async fn open_unless_running(state_dir: &Path) -> Result<Option<Home>, Failure> {
    let path = state_dir.to_owned();
    let opened = tokio::task::spawn_blocking(move || Home::open_unless_running(&path)).await;
    let opened = opened.map_err(|error| Failure::new(Status::Failed, error))?;
    opened.map_err(failure)
}

/// The portal runs on the new database from here on. Returns this one and the old one, for people.
fn moved(home: &Home, way: &Way) -> Result<(String, String), Failure> {
    let server = way.server.to_string();
    if way.to_postgres {
        let mark = jiff::Timestamp::now()
            .strftime("%Y%m%dT%H%M%SZ")
            .to_string();
        let old = home.move_to_postgres(&server, &mark).map_err(failure)?;
        return Ok((server, old.display().to_string()));
    }
    home.move_to_file().map_err(failure)?;
    Ok((home.database_path().display().to_string(), server))
}

/// The command that starts the portal on its new database.
fn command(arguments: &MigrateArguments, migrated: &Migrated) -> Result<String, Failure> {
    let state_dir = arguments.state.state_dir.display().to_string();
    let mut words = vec!["--state-dir".to_owned(), state_dir];
    if arguments.to_postgres() {
        words.extend(arguments.server()?.words());
    }
    let mut command = "culvert portal run".to_owned();
    for word in words {
        command.push(' ');
        command += &shell_word(&word);
    }
    if migrated.is_encrypted() {
        command += " --secrets-key FILE";
    }
    Ok(command)
}

/// A word as a shell takes it.
fn shell_word(word: &str) -> String {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "-_./:@%+=,".contains(sign);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn text(told: &Told<'_>, migrated: &Migrated, way: &Way) -> String {
    let old = match way.to_postgres {
        true => format!(
            "The old one is {}: remove it once you are sure that you need it no more.",
            told.old_database
        ),
        false => format!("The old one, {}, is as it was.", told.old_database),
    };
    format!(
        "The portal in {} has its data in {} now. {old}\n\
         {} rows of logs and {} other rows were copied and compared in {:.1} s.\n\
         Start the portal:\n  {}\n",
        told.state_dir.display(),
        told.database,
        migrated.log_rows(),
        migrated.other_rows(),
        told.seconds,
        told.command,
    )
}

/// Lines about what is done, on standard error, not too many.
struct Progress {
    said: Instant,
}

impl Progress {
    fn new() -> Self {
        Self {
            said: Instant::now(),
        }
    }

    fn report(&mut self, step: Step) {
        if self.said.elapsed() < PROGRESS {
            return;
        }
        self.said = Instant::now();
        let (done, table, rows) = match step {
            Step::Copied { table, rows } => ("copied", table, rows),
            Step::Compared { table, rows } => ("compared", table, rows),
        };
        say(&format!("{table}: {rows} rows {done}"));
    }
}

fn say(line: &str) {
    // Standard error may be closed; then nobody sits there.
    let _unseen = writeln!(std::io::stderr(), "{}", visible(line));
}

/// SIGINT and SIGTERM.
struct Ended {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Ended {
    fn watch() -> Result<Self, Failure> {
        let watch = |kind| {
            signal(kind).map_err(|error| {
                let text = format_args!("watching for signals: {error}");
                Failure::new(Status::Failed, text)
            })
        };
        Ok(Self {
            interrupt: watch(SignalKind::interrupt())?,
            terminate: watch(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_to_go_on_with_can_be_given_to_a_shell() {
        assert_eq!(
            shell_word("/var/lib/culvert/portal"),
            "/var/lib/culvert/portal"
        );
        let url = "postgres:///culvert?host=/run/postgresql&user=culvert";
        assert_eq!(shell_word(url), format!("'{url}'"));
        assert_eq!(shell_word("it's"), r"'it'\''s'");
        assert_eq!(shell_word(""), "''");
    }
}
