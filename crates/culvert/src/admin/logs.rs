//! `culvert admin log`.

mod export;
mod follow;
mod rows;

use super::api::{MAX_LIST_LEN, Query};
use super::shell::Shell;
use super::words::{Ago, parse_ago};
use crate::exit::Failure;
use clap::{Args, Subcommand, ValueEnum};
use culvert_wire::api::{
    AccessLogEntry, Actor, ChangeLogEntry, Client, FlowLogEntry, Gateway, Resource,
};
use export::Form;
use rows::{Entry, LogNames};

/// Logs: changes, decisions about access, and forwarded flows
///
/// Shows the newest 50 entries, the newest first, unless you say otherwise. Filters narrow each other.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum LogCommand {
    /// Changes: the person who made each, and the value before it
    Changes(ChangesArguments),
    /// Decisions about access: allowed or denied, and the reason
    Access(AccessArguments),
    /// Ended flows that gateways forwarded, if there is a flow log
    Flows(FlowsArguments),
}

#[derive(Debug, Args)]
pub(super) struct ChangesArguments {
    /// Only changes to things of this kind
    #[arg(long, value_enum, value_name = "KIND")]
    entity: Option<EntityKind>,
    /// Only changes to the thing with this id
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Only changes by this actor
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    #[command(flatten)]
    part: Part,
}

#[derive(Debug, Args)]
pub(super) struct AccessArguments {
    /// Only of this client
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
    /// Only of clients of this actor
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Only to this resource
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Only through this gateway
    #[arg(long, value_name = "GATEWAY")]
    gateway: Option<String>,
    /// Only entries with this outcome
    #[arg(long, value_enum, value_name = "DECISION")]
    decision: Option<Decision>,
    #[command(flatten)]
    part: Part,
}

#[derive(Debug, Args)]
pub(super) struct FlowsArguments {
    /// Only of this client
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
    /// Only of clients of this actor
    #[arg(long, value_name = "ACTOR")]
    actor: Option<String>,
    /// Only to this resource
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Only through this gateway
    #[arg(long, value_name = "GATEWAY")]
    gateway: Option<String>,
    /// Only those that ended like this
    #[arg(long, value_enum, value_name = "END")]
    end: Option<End>,
    #[command(flatten)]
    part: Part,
}

/// The choice of entries of any log, and their form.
#[derive(Debug, Args)]
struct Part {
    /// Only with this in it: part of a name, an address or a reason, or an id; taken as it stands
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Only since then: 4h, yesterday, 2026-11-22, "2026-11-22 14:00" or an instant; in UTC
    #[arg(long, visible_alias = "from", value_name = "WHEN", value_parser = parse_ago)]
    since: Option<Ago>,
    /// Only before then, written in the same ways
    #[arg(long, value_name = "WHEN", value_parser = parse_ago)]
    until: Option<Ago>,
    /// At most so many, the newest; without, 50 as a table and all as CSV or JSON lines
    #[arg(long, value_name = "N", value_parser = crate::whole_number::whole_number(1..=MAX_LIST_LEN as u32))]
    limit: Option<u32>,
    /// Print new entries as they come, after the last ones, until Ctrl-C
    #[arg(long, short, conflicts_with_all = ["until", "csv"])]
    follow: bool,
    /// Print CSV, with names beside ids
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON lines: an entry a line
    #[arg(long)]
    json: bool,
}

/// Entries of a table, unless somebody says how many.
const TABLE_LEN: usize = 50;

/// Kinds of things that change, on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum EntityKind {
    Account,
    Actor,
    Group,
    Identity,
    Membership,
    Site,
    Resource,
    Policy,
    Provider,
    Token,
    Client,
    Gateway,
    Relay,
}

/// Ends of a request, on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Decision {
    Granted,
    Denied,
    Revoked,
    Ended,
}

/// Ends of a flow, on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum End {
    Closed,
    Idle,
    Policy,
    Replaced,
    Evicted,
    Stopped,
    Other,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin log changes --actor ada --since 7d
  culvert admin log changes --search 10.1.2.3
  culvert admin log access --client laptop --decision denied --since yesterday
  culvert admin log access --follow --decision denied
  culvert admin log flows --actor ada --since 2026-11-01 --until 2026-12-01 --csv > november.csv
  culvert admin log flows --follow --json | jq .resource

--follow goes on over restarts of the portal, says on standard error while it can't be reached, and
ends with status 0 at Ctrl-C.";

pub(super) async fn run(shell: &mut Shell, command: LogCommand) -> Result<(), Failure> {
    match command {
        LogCommand::Changes(arguments) => changes(shell, &arguments).await,
        LogCommand::Access(arguments) => access(shell, &arguments).await,
        LogCommand::Flows(arguments) => flows(shell, &arguments).await,
    }
}

impl Part {
    fn query(&self) -> Query {
        Query::default()
            .with_some("search", self.search.as_ref())
            .with_some("from", self.since.map(Ago::timestamp))
            .with_some("until", self.until.map(Ago::timestamp))
    }

    fn limit(&self) -> Option<usize> {
        self.limit.and_then(|limit| usize::try_from(limit).ok())
    }

    /// Prints what the query leaves, as it was asked for.
    async fn print<T: Entry>(&self, shell: &mut Shell, query: &Query) -> Result<(), Failure> {
        let most = self.limit().unwrap_or(TABLE_LEN);
        if self.follow {
            return follow::run::<T>(shell, query, most, self.json).await;
        }
        let form = match (self.csv, self.json) {
            (true, _) => Form::Csv,
            (false, true) => Form::JsonLines,
            (false, false) => {
                let entries: Vec<T> = shell.api.list_of(T::PATH, query, most).await?;
                let names = LogNames::of(&mut shell.api).await?;
                let row = |entry: &T| entry.row(&names);
                return shell.format.list(&entries, T::COLUMNS, row);
            }
        };
        export::run(shell, T::PATH, query, form, self.limit()).await
    }
}

fn word<T: ValueEnum>(value: &T) -> Option<String> {
    Some(value.to_possible_value()?.get_name().to_owned())
}

async fn changes(shell: &mut Shell, arguments: &ChangesArguments) -> Result<(), Failure> {
    let actor = shell.api.id_of_some::<Actor>(arguments.actor.as_deref());
    let actor = actor.await?;
    let part = &arguments.part;
    let query = part
        .query()
        .with_some("entity", arguments.entity.as_ref().and_then(word))
        .with_some("entity_id", arguments.id.as_ref())
        .with_some("actor", actor);
    part.print::<ChangeLogEntry>(shell, &query).await
}

async fn access(shell: &mut Shell, arguments: &AccessArguments) -> Result<(), Failure> {
    let api = &mut shell.api;
    let client = arguments.client.as_deref();
    let client = api.id_of_some::<Client>(client).await?;
    let actor = api.id_of_some::<Actor>(arguments.actor.as_deref()).await?;
    let resource = arguments.resource.as_deref();
    let resource = api.id_of_some::<Resource>(resource).await?;
    let gateway = api.id_of_some::<Gateway>(arguments.gateway.as_deref());
    let gateway = gateway.await?;
    let part = &arguments.part;
    let query = part
        .query()
        .with_some("client", client)
        .with_some("actor", actor)
        .with_some("resource", resource)
        .with_some("gateway", gateway)
        .with_some("decision", arguments.decision.as_ref().and_then(word));
    part.print::<AccessLogEntry>(shell, &query).await
}

async fn flows(shell: &mut Shell, arguments: &FlowsArguments) -> Result<(), Failure> {
    let api = &mut shell.api;
    let client = arguments.client.as_deref();
    let client = api.id_of_some::<Client>(client).await?;
    let actor = api.id_of_some::<Actor>(arguments.actor.as_deref()).await?;
    let resource = arguments.resource.as_deref();
    let resource = api.id_of_some::<Resource>(resource).await?;
    let gateway = api.id_of_some::<Gateway>(arguments.gateway.as_deref());
    let gateway = gateway.await?;
    let part = &arguments.part;
    let query = part
        .query()
        .with_some("client", client)
        .with_some("actor", actor)
        .with_some("resource", resource)
        .with_some("gateway", gateway)
        .with_some("end", arguments.end.as_ref().and_then(word));
    part.print::<FlowLogEntry>(shell, &query).await
}
