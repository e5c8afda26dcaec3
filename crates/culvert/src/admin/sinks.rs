//! `culvert admin sink`.

use super::api::Query;
use super::common::{Consent, usage};
use super::output::instant;
use super::shell::Shell;
use crate::exit::{Failure, Status};
use crate::token_input;
use crate::whole_number::whole_number;
use clap::{Args, Subcommand};
use culvert_base::quoted;
use culvert_wire::api::{NewSink, SinkList, SinkPatch, SinkTest, SinkView};
use culvert_wire::model::{FILE_MIB, FILES_RETAINED, Log, Sink, SinkTarget};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Log sinks: where entries of the logs go besides, as JSON lines
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum SinkCommand {
    /// List sinks, how far they are behind, and what is in their way
    List,
    /// Make a sink; it begins with the next entry of each of its logs
    Create(CreateArguments),
    /// Have a sink get nothing for now; its place in the logs is kept
    Pause(Name),
    /// Have a sink go on from its place
    Resume(Name),
    /// Have a sink take one line that is of no log
    Test(Name),
    /// Delete a sink; what it has stays where it is
    Delete(DeleteArguments),
}

#[derive(Debug, Args)]
pub(super) struct Name {
    /// The sink
    #[arg(value_name = "SINK")]
    name: String,
}

#[derive(Debug, Args)]
pub(super) struct DeleteArguments {
    #[command(flatten)]
    name: Name,
    #[command(flatten)]
    consent: Consent,
}

#[derive(Debug, Args)]
pub(super) struct CreateArguments {
    /// Name: lower-case letters, digits, - and _
    #[arg(value_name = "SINK")]
    name: String,
    /// The logs that it gets: access, changes, flows [default: all]
    #[arg(long = "log", value_name = "LOG", value_delimiter = ',')]
    logs: Vec<Log>,
    /// A file, by its name in the directory "logs" of the portal's state directory
    #[arg(
        long,
        value_name = "NAME",
        required_unless_present = "url",
        conflicts_with = "url"
    )]
    file: Option<String>,
    /// After how many MiB another file is begun
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole_number(FILE_MIB), requires = "file")]
    max_mib: u32,
    /// Number of files kept beside the one that is written
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole_number(FILES_RETAINED), requires = "file")]
    keep: u32,
    /// An endpoint that takes POST: https://… or http://…
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// The file with the endpoint's bearer token, mode 0600, or - for standard input
    #[arg(long, value_name = "FILE", requires = "url")]
    bearer_file: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin sink create archive --file culvert.jsonl --max-mib 50 --keep 20
  culvert admin sink create siem --log access,changes --url https://siem.example/in --bearer-file token
  culvert admin sink test siem
  culvert admin sink list
  culvert admin sink pause siem
  culvert admin sink resume siem
  culvert admin sink delete siem";

pub(super) async fn run(shell: &mut Shell, command: SinkCommand) -> Result<(), Failure> {
    match command {
        SinkCommand::List => list(shell).await,
        SinkCommand::Create(create) => make(shell, create).await,
        SinkCommand::Pause(Name { name }) => pause(shell, &name, true).await,
        SinkCommand::Resume(Name { name }) => pause(shell, &name, false).await,
        SinkCommand::Test(Name { name }) => test(shell, &name).await,
        SinkCommand::Delete(delete) => {
            let name = delete.name.name;
            let mut consent = delete.consent.asked_for(shell.format)?;
            consent.obtain(format_args!("delete sink {}", quoted(&name)))?;
            shell.api.remove(&path(&name)?).await?;
            let sentence = format!("sink {name} deleted");
            shell.format.deleted(&name, sentence)
        }
    }
}

/// The name goes into a path: one that can't be a sink's is not asked for.
fn path(name: &str) -> Result<String, Failure> {
    let is_plain = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    match is_plain && !name.is_empty() {
        true => Ok(format!("/sinks/{name}")),
        false => Err(usage(format_args!("{} is no name of a sink", quoted(name)))),
    }
}

async fn list(shell: &mut Shell) -> Result<(), Failure> {
    let found: SinkList = shell.api.get("/sinks", &Query::default()).await?;
    let columns = ["NAME", "LOGS", "WHERE", "BEHIND", "LAST", "STATE"];
    shell
        .format
        .list(&found.items, &columns, |view: &SinkView| {
            let sink = &view.sink;
            let logs: Vec<_> = sink.logs.iter().map(|log| log.as_str()).collect();
            let behind: u64 = view.lag.values().sum();
            vec![
                sink.name.clone(),
                logs.join(","),
                match &sink.target {
                    SinkTarget::File { file, .. } => format!("file {file}"),
                    SinkTarget::Http { url } => url.clone(),
                },
                behind.to_string(),
                instant(view.delivered_at),
                match &view.error {
                    _ if sink.paused => "paused".to_owned(),
                    Some(error) => format!("takes nothing: {error}"),
                    None => "takes what comes".to_owned(),
                },
            ]
        })
}

async fn make(shell: &mut Shell, create: CreateArguments) -> Result<(), Failure> {
    let token = match &create.bearer_file {
        Some(file) => {
            let text = token_input::read(file)?;
            Some(text.trim().to_owned())
        }
        None => None,
    };
    let target = match (create.file, create.url) {
        (Some(file), _) => SinkTarget::File {
            file,
            max_mib: create.max_mib,
            keep: create.keep,
        },
        (None, Some(url)) => SinkTarget::Http { url },
        (None, None) => return Err(usage("say --file or --url")),
    };
    let logs: BTreeSet<Log> = match create.logs.is_empty() {
        true => Log::ALL.into(),
        false => create.logs.into_iter().collect(),
    };
    let new = NewSink {
        sink: Sink {
            name: create.name,
            logs,
            target,
            paused: false,
        },
        token,
    };
    let made: SinkView = shell.api.post("/sinks", &Query::default(), &new).await?;
    let sentence = format!("sink {} created", made.sink.name);
    shell.format.done(&made, sentence)
}

async fn pause(shell: &mut Shell, name: &str, paused: bool) -> Result<(), Failure> {
    let patch = SinkPatch {
        paused: Some(paused),
        ..SinkPatch::default()
    };
    let path = path(name)?;
    let found: SinkView = shell.api.get(&path, &Query::default()).await?;
    let version = Some(found.version);
    let changed: SinkView = shell.api.patch(&path, version, &patch).await?;
    let word = if paused { "paused" } else { "resumed" };
    let sentence = format!("sink {name} {word}");
    shell.format.done(&changed, sentence)
}

async fn test(shell: &mut Shell, name: &str) -> Result<(), Failure> {
    let path = format!("{}/test", path(name)?);
    let tried: SinkTest = shell.api.post(&path, &Query::default(), &()).await?;
    match &tried.error {
        None => shell
            .format
            .done(&tried, format!("sink {name} took a line")),
        Some(error) => Err(Failure::new(
            Status::Failed,
            format_args!("sink {name} did not take a line: {error}"),
        )),
    }
}
