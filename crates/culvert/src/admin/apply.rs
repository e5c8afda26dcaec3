//! `culvert admin apply`: the configuration as code.

use super::access_file::AccessFile;
use super::api::{Api, Query};
use super::common::{ask, can_ask, usage};
use super::diff::{render, summary};
use super::http::RequestError;
use super::output;
use super::output::{Colours, Format, print_json, print_line};
use super::shell::CommonArguments;
use crate::exit::{Failure, Status, print, print_ahead};
use clap::Args;
use culvert_wire::api::{
    Actor, ActorKind, ApiRole, ApplyChange, ApplyOptions, ApplyReport, Group, Operation, Policy,
    Resource, Site,
};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Most bytes of a file: what the portal takes, 4 MiB of JSON, takes less room in TOML than twice that.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// Make the configuration what a file says
///
/// Shows what would change, asks, and then does all of it at once or nothing. Done again, it
/// changes nothing. Objects that the file does not name stay as they are, unless --prune is given.
/// The file is described in docs/access-toml.md.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ApplyArguments {
    /// The file, or - for standard input
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,
    /// Show what would change, and change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Delete sites, actors, groups, resources and policies that the file does not name
    ///
    /// Admins stay, and so do all tokens and machines of what stays. A file that would delete all
    /// there is of a kind is refused: see --prune-all.
    #[arg(long)]
    prune: bool,
    /// As --prune, and also where that deletes all there is of a kind
    #[arg(long)]
    prune_all: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin apply -f access.toml
  culvert admin apply -f access.toml --dry-run
  culvert admin apply -f access.toml --prune --yes";

pub(super) async fn run(
    common: &CommonArguments,
    arguments: &ApplyArguments,
) -> Result<(), Failure> {
    let path = &arguments.file;
    let prune = arguments.prune || arguments.prune_all;
    let file = read(path)?;
    if !arguments.dry_run && !arguments.yes {
        check_terminal(common.format(), path)?;
    }
    let mut shell = common.shell()?;
    let plan = ApplyOptions {
        dry_run: true,
        prune,
        allow_empty: false,
    };
    let planned = send(&mut shell.api, (path, &file), plan).await?;
    planned.warnings.iter().for_each(|text| output::warn(text));
    if !arguments.prune_all {
        let lost = kinds_lost(&mut shell.api, &planned.changes).await?;
        if !lost.is_empty() {
            let refused = format!(
                "{}: --prune would delete {}: is the file complete? If that is meant, say --prune-all",
                path.display(),
                lost.join(", ")
            );
            if !arguments.dry_run {
                return Err(usage(refused));
            }
            output::warn(&refused);
        }
    }
    if arguments.dry_run || planned.changes.is_empty() {
        return tell_plan(shell.format, &planned);
    }
    if shell.format == Format::Table {
        // Somebody who reads the first lines alone wants it done all the same.
        print_ahead(render(&planned.changes, Colours::detect()).as_bytes())?;
    }
    if !arguments.yes {
        ask(to_do(&planned.changes))?;
    }
    let wanted = ApplyOptions {
        dry_run: false,
        prune,
        allow_empty: arguments.prune_all,
    };
    let done = send(&mut shell.api, (path, &file), wanted).await?;
    tell_done(shell.format, &planned, &done)
}

/// Reads the configuration that a file, or standard input, asks for.
pub(super) fn read(path: &Path) -> Result<AccessFile, Failure> {
    AccessFile::parse(&read_text(path)?)
        .map_err(|error| usage(format_args!("{}:{error}", path.display())))
}

fn read_text(path: &Path) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limit = MAX_FILE_BYTES + 1;
    let read = match path == Path::new("-") {
        true => std::io::stdin().lock().take(limit).read_to_end(&mut bytes),
        false => File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    let path = path.display();
    read.map_err(|error| Failure::new(Status::Failed, format_args!("{path}: {error}")))?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        let message = format_args!("{path}: it is longer than {MAX_FILE_BYTES} bytes");
        return Err(usage(message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let understood = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = 1 + understood.iter().filter(|byte| **byte == b'\n').count();
        usage(format_args!("{path}:{line}: it is no text in UTF-8"))
    })
}

/// The kinds of which the plan deletes every item, in words. Such a file is more often truncated, or the wrong one,
/// than meant.
async fn kinds_lost(api: &mut Api, changes: &[ApplyChange]) -> Result<Vec<String>, Failure> {
    let mut lost = Vec::new();
    for (kind, several) in [
        ("site", "sites"),
        ("actor", "users and service accounts"),
        ("group", "groups"),
        ("resource", "resources"),
        ("policy", "policies"),
    ] {
        let deleted = changes
            .iter()
            .filter(|change| change.entity == kind && change.operation == Operation::Delete)
            .count();
        if deleted == 0 || deleted < count(api, kind).await? {
            continue;
        }
        lost.push(match deleted {
            1 => format!("the only {kind}"),
            count => format!("all {count} {several}"),
        });
    }
    Ok(lost)
}

/// The number of items of a kind that may be deleted.
async fn count(api: &mut Api, kind: &str) -> Result<usize, Failure> {
    let all = &Query::default();
    Ok(match kind {
        "site" => api.list::<Site>(all).await?.len(),
        "group" => api.list::<Group>(all).await?.len(),
        "resource" => api.list::<Resource>(all).await?.len(),
        "policy" => api.list::<Policy>(all).await?.len(),
        _ => {
            let actors: Vec<Actor> = api.list(all).await?;
            let administers = |actor: &Actor| {
                let role = actor.sign_in.map(|sign_in| sign_in.role);
                actor.kind == ActorKind::Admin || role.is_some_and(|role| role != ApiRole::User)
            };
            let is_pruned = |actor: &&Actor| !administers(actor);
            actors.iter().filter(is_pruned).count()
        }
    })
}

/// Refuses before anything is shown where nobody can answer.
fn check_terminal(format: Format, path: &Path) -> Result<(), Failure> {
    match can_ask(format) && path != Path::new("-") {
        true => Ok(()),
        false => Err(usage(
            "nobody can be asked whether to go on: add --yes, or --dry-run to see what would change",
        )),
    }
}

pub(super) async fn send(
    api: &mut Api,
    (path, file): (&Path, &AccessFile),
    options: ApplyOptions,
) -> Result<ApplyReport, Failure> {
    let mut query = Query::default()
        .with("dry_run", options.dry_run)
        .with("prune", options.prune);
    if options.allow_empty {
        // An older portal does not know it.
        query = query.with("allow_empty", true);
    }
    let sent = api.post("/apply", &query, &file.desired).await;
    sent.map_err(|refusal| match refusal {
        RequestError::Problem(problem) if !problem.errors.is_empty() => {
            let path = path.display();
            let errors = problem.errors.iter();
            let errors = errors.map(|error| format!("{path}:{}", file.locate(error)));
            usage(errors.collect::<Vec<_>>().join("; "))
        }
        refusal => refusal.into(),
    })
}

fn tell_plan(format: Format, planned: &ApplyReport) -> Result<(), Failure> {
    match format {
        Format::Json => print_json(planned),
        Format::Table if planned.changes.is_empty() => print_line("nothing to change"),
        Format::Table => {
            print(render(&planned.changes, Colours::detect()).as_bytes())?;
            print_line(to_do(&planned.changes))
        }
    }
}

fn tell_done(format: Format, planned: &ApplyReport, done: &ApplyReport) -> Result<(), Failure> {
    if format == Format::Json {
        return print_json(done);
    }
    if done.changes != planned.changes {
        output::note("Others changed the configuration in the meantime; this is what was done:");
        print(render(&done.changes, Colours::detect()).as_bytes())?;
    }
    match done.changes.is_empty() {
        true => print_line("nothing to change"),
        false => print_line(what_was_done(&done.changes)),
    }
}

pub(super) fn what_was_done(changes: &[ApplyChange]) -> String {
    summary(changes, ["created", "changed", "deleted"])
}

fn to_do(changes: &[ApplyChange]) -> String {
    summary(changes, ["to create", "to change", "to delete"])
}
