//! `culvert admin log`.

use super::Shell;
use super::api::{MAX_LIST_LEN, Query};
use super::diff;
use super::output::instant;
use super::words::{Ago, parse_ago};
use crate::exit::Failure;
use clap::{Args, Subcommand, ValueEnum};
use culvert_wire::api::{
    AccessDecision, AccessLogEntry, Actor, ChangeLogEntry, Client, FieldChange, FlowLogEntry,
    Gateway, Operation, Resource,
};
use serde_json::{Map, Value};

/// Logs: who changed what, and who was let to what; the newest first
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true, after_help = EXAMPLES)]
pub(super) enum LogCommand {
    /// Who changed what, and how it was before
    Changes(ChangesArguments),
    /// Who was let to what, who was not, and why
    Access(AccessArguments),
    /// What was carried: flows that have ended, where there is a flow log
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
    period: Period,
}

#[derive(Debug, Args)]
pub(super) struct AccessArguments {
    /// Only of this client
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
    /// Only to this resource
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// Only through this gateway
    #[arg(long, value_name = "GATEWAY")]
    gateway: Option<String>,
    /// Only what came out like this
    #[arg(long, value_enum, value_name = "DECISION")]
    decision: Option<Decision>,
    #[command(flatten)]
    period: Period,
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
    #[command(flatten)]
    period: Period,
}

#[derive(Debug, Args)]
struct Period {
    /// Only since then: so long ago, such as 4h, or an instant
    #[arg(long, value_name = "WHEN", value_parser = parse_ago)]
    from: Option<Ago>,
    /// Only before then: so long ago, such as 1h, or an instant
    #[arg(long, value_name = "WHEN", value_parser = parse_ago)]
    until: Option<Ago>,
    /// At most so many, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=MAX_LIST_LEN as i64))]
    limit: u32,
}

/// Kinds of things that change, on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum EntityKind {
    Account,
    Actor,
    Group,
    Membership,
    Site,
    Resource,
    Policy,
    Token,
    Client,
    Gateway,
}

/// Ends of a request, on the command line.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Decision {
    Granted,
    Denied,
    Revoked,
    Ended,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin log changes --actor ada --from 7d
  culvert admin log changes --entity policy --output json
  culvert admin log access --client laptop --decision denied --from 1h
  culvert admin log flows --actor ada --from 1d";

pub(super) async fn run(shell: &mut Shell, command: LogCommand) -> Result<(), Failure> {
    match command {
        LogCommand::Changes(arguments) => changes(shell, &arguments).await,
        LogCommand::Access(arguments) => access(shell, &arguments).await,
        LogCommand::Flows(arguments) => flows(shell, &arguments).await,
    }
}

impl Period {
    fn query(&self) -> Query {
        Query::default()
            .with_some("from", self.from.map(Ago::timestamp))
            .with_some("until", self.until.map(Ago::timestamp))
    }

    fn most(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(MAX_LIST_LEN)
    }
}

async fn changes(shell: &mut Shell, arguments: &ChangesArguments) -> Result<(), Failure> {
    let actor = shell.api.id_of_some::<Actor>(arguments.actor.as_deref());
    let actor = actor.await?;
    let query = arguments
        .period
        .query()
        .with_some("entity", arguments.entity.as_ref().and_then(word))
        .with_some("entity_id", arguments.id.as_ref())
        .with_some("actor", actor);
    let most = arguments.period.most();
    let entries: Vec<ChangeLogEntry> = shell.api.list_of("/log/changes", &query, most).await?;
    let actors = shell.api.names::<Actor>().await?;
    let columns = ["TIME", "BY", "CHANGE"];
    shell.format.list(&entries, &columns, |entry| {
        let by = entry.actor.as_ref();
        vec![
            instant(Some(entry.at)),
            by.map_or_else(|| "portal".to_owned(), |actor| actors.of(actor)),
            change(entry),
        ]
    })
}

fn word<T: ValueEnum>(value: &T) -> Option<String> {
    Some(value.to_possible_value()?.get_name().to_owned())
}

/// `update policy "NAME": disabled: no → yes`.
fn change(entry: &ChangeLogEntry) -> String {
    let operation = match entry.operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
    };
    let row = entry.after.as_ref().or(entry.before.as_ref());
    let name = row.and_then(|row| row.get("name")).and_then(Value::as_str);
    let name = name.map_or_else(|| entry.entity_id.clone(), |name| format!("{name:?}"));
    let what = format!("{operation} {} {name}", entry.entity);
    let fields = match (&entry.before, &entry.after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => changed_fields(before, after),
        _ => String::new(),
    };
    match fields.is_empty() {
        true => what,
        false => format!("{what}: {fields}"),
    }
}

/// Fields of every row that count and date its changes.
const STAMP: [&str; 3] = ["version", "created", "updated"];

/// The fields that differ.
fn changed_fields(before: &Map<String, Value>, after: &Map<String, Value>) -> String {
    let keys = before
        .keys()
        .chain(after.keys().filter(|key| !before.contains_key(*key)));
    let differ =
        keys.filter(|key| !STAMP.contains(&key.as_str()) && before.get(*key) != after.get(*key));
    let shown = differ.map(|key| {
        let change = FieldChange {
            field: key.clone(),
            before: before.get(key).cloned(),
            after: after.get(key).cloned(),
        };
        diff::field(&change)
    });
    shown.collect::<Vec<_>>().join("; ")
}

async fn access(shell: &mut Shell, arguments: &AccessArguments) -> Result<(), Failure> {
    let api = &mut shell.api;
    let client = api
        .id_of_some::<Client>(arguments.client.as_deref())
        .await?;
    let resource = arguments.resource.as_deref();
    let resource = api.id_of_some::<Resource>(resource).await?;
    let gateway = api.id_of_some::<Gateway>(arguments.gateway.as_deref());
    let gateway = gateway.await?;
    let query = arguments
        .period
        .query()
        .with_some("client", client)
        .with_some("resource", resource)
        .with_some("gateway", gateway)
        .with_some("decision", arguments.decision.as_ref().and_then(word));
    let entries = api.list_of("/log/access", &query, arguments.period.most());
    let entries: Vec<AccessLogEntry> = entries.await?;
    let clients = api.names::<Client>().await?;
    let resources = api.names::<Resource>().await?;
    let columns = ["TIME", "CLIENT", "RESOURCE", "DECISION", "WHY"];
    shell.format.list(&entries, &columns, |entry| {
        vec![
            instant(Some(entry.at)),
            clients.of(&entry.client),
            resources.of(&entry.resource),
            decision(entry.decision).to_owned(),
            entry.reason.clone(),
        ]
    })
}

async fn flows(shell: &mut Shell, arguments: &FlowsArguments) -> Result<(), Failure> {
    let api = &mut shell.api;
    let client = api
        .id_of_some::<Client>(arguments.client.as_deref())
        .await?;
    let actor = api.id_of_some::<Actor>(arguments.actor.as_deref()).await?;
    let resource = arguments.resource.as_deref();
    let resource = api.id_of_some::<Resource>(resource).await?;
    let gateway = api.id_of_some::<Gateway>(arguments.gateway.as_deref());
    let gateway = gateway.await?;
    let query = arguments
        .period
        .query()
        .with_some("client", client)
        .with_some("actor", actor)
        .with_some("resource", resource)
        .with_some("gateway", gateway);
    let entries = api.list_of("/log/flows", &query, arguments.period.most());
    let entries: Vec<FlowLogEntry> = entries.await?;
    let clients = api.names::<Client>().await?;
    let resources = api.names::<Resource>().await?;
    let columns = [
        "ENDED", "CLIENT", "RESOURCE", "TO", "SENT", "RECEIVED", "SECONDS", "END",
    ];
    shell.format.list(&entries, &columns, |entry| {
        let port = entry
            .port
            .map_or_else(String::new, |port| format!(" {port}"));
        vec![
            instant(Some(entry.at)),
            clients.of(&entry.client),
            resources.of(&entry.resource),
            format!("{} {}{port}", entry.protocol, entry.address),
            entry.sent_bytes.to_string(),
            entry.received_bytes.to_string(),
            (entry.lasted_ms() / 1_000).to_string(),
            entry.end.as_str().to_owned(),
        ]
    })
}

const fn decision(decision: AccessDecision) -> &'static str {
    match decision {
        AccessDecision::Granted => "granted",
        AccessDecision::Denied => "denied",
        AccessDecision::Revoked => "revoked",
        AccessDecision::Ended => "ended",
    }
}
