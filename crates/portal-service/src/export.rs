//! A whole log as a stream: never more of it in memory than a page.

use super::{Caller, Service};
use culvert_ids::{ActorId, ClientId, GatewayId, ResourceId};
use culvert_log_sinks::entries;
use culvert_portal_base::Fault;
use culvert_store::{AccessFilter, AccessSeq, ChangeFilter, FlowFilter, FlowSeq, PageLimit, Seq};
use culvert_wire::api::{AccessLogEntry, ChangeLogEntry, FlowLogEntry};
use culvert_wire::messages::PathKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

/// Names that an export remembers, so that a name is read once and not for each of its entries.
const MAX_NAMES: usize = 4_096;

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Values with commas between them (RFC 4180), for spreadsheets: with names beside ids.
    Csv,
    /// An entry of the API a line.
    JsonLines,
}

impl ExportFormat {
    /// The media type.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv; charset=utf-8; header=present",
            Self::JsonLines => "application/x-ndjson",
        }
    }

    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::JsonLines => "jsonl",
        }
    }
}

impl FromStr for ExportFormat {
    type Err = Fault;

    fn from_str(text: &str) -> Result<Self, Fault> {
        match text {
            "csv" => Ok(Self::Csv),
            "jsonl" => Ok(Self::JsonLines),
            _ => Err(Fault::NotFound(
                "a log is exported as `csv` or `jsonl`".to_owned(),
            )),
        }
    }
}

/// The log to export, and the filter of its entries.
#[derive(Clone, Copy, Debug)]
pub enum ExportFilter {
    /// Of the access log.
    Access(AccessFilter),
    /// Of the change log.
    Changes(ChangeFilter),
    /// Of the flow log.
    Flows(FlowFilter),
}

impl ExportFilter {
    /// The name of a file with it, without its extension.
    pub const fn file_name(&self) -> &'static str {
        match self {
            Self::Access(_) => "access-log",
            Self::Changes(_) => "change-log",
            Self::Flows(_) => "flow-log",
        }
    }

    const fn columns(&self) -> &'static [&'static str] {
        match self {
            Self::Access(_) => &[
                "seq",
                "at",
                "decision",
                "actor",
                "client",
                "resource",
                "gateway",
                "reason",
                "actor_id",
                "client_id",
                "resource_id",
                "gateway_id",
                "policy_id",
                "grant_id",
            ],
            Self::Changes(_) => &[
                "seq",
                "at",
                "actor",
                "operation",
                "entity",
                "entity_id",
                "before",
                "after",
                "actor_id",
                "token_id",
            ],
            Self::Flows(_) => &[
                "seq",
                "at",
                "started",
                "duration_ms",
                "actor",
                "client",
                "resource",
                "gateway",
                "protocol",
                "address",
                "port",
                "application",
                "sent_bytes",
                "sent_packets",
                "received_bytes",
                "received_packets",
                "end",
                "actor_id",
                "client_id",
                "resource_id",
                "gateway_id",
                "grant_id",
                "path",
                "relay_id",
                "inbound",
            ],
        }
    }
}

/// An export, and its progress.
pub(super) struct Export {
    pub(super) service: Arc<Service>,
    pub(super) caller: Caller,
    filter: ExportFilter,
    format: ExportFormat,
    /// The entry before which the next page begins.
    before: Option<u64>,
    names: Names,
    step: Step,
}

enum Step {
    Head,
    Page,
    End,
}

impl Export {
    pub(super) fn new(
        service: Arc<Service>,
        caller: Caller,
        filter: ExportFilter,
        format: ExportFormat,
    ) -> Self {
        Self {
            service,
            caller,
            filter,
            format,
            before: None,
            names: Names::default(),
            step: match format {
                ExportFormat::Csv => Step::Head,
                ExportFormat::JsonLines => Step::Page,
            },
        }
    }

    /// The next lines; nothing at the end.
    pub(super) async fn next(&mut self) -> Result<Option<String>, Fault> {
        match self.step {
            Step::Head => {
                self.step = Step::Page;
                let columns = self.filter.columns().iter();
                Ok(Some(csv_line(columns.map(|column| (*column).to_owned()))))
            }
            Step::Page => self.page().await,
            Step::End => Ok(None),
        }
    }

    async fn page(&mut self) -> Result<Option<String>, Fault> {
        let service = Arc::clone(&self.service);
        let account = self.caller.account();
        let mut text = String::new();
        let next = match self.filter {
            ExportFilter::Access(filter) => {
                let before = self.before.map(AccessSeq);
                let page =
                    service
                        .database
                        .store
                        .access_log(account, &filter, before, PageLimit::MAX);
                let page = service.database.ask("export", page).await?;
                let mut items: Vec<_> = page.items.into_iter().map(entries::access).collect();
                service
                    .name_denials(
                        &self.caller,
                        items.iter_mut().map(|entry| &mut entry.reason),
                    )
                    .await?;
                for entry in &items {
                    self.access(entry, &mut text).await?;
                }
                page.next.map(|next| next.0)
            }
            ExportFilter::Changes(filter) => {
                let before = self.before.map(Seq);
                let page =
                    service
                        .database
                        .store
                        .change_log(account, &filter, before, PageLimit::MAX);
                let page = service.database.ask("export", page).await?;
                for row in page.items {
                    self.change(&entries::change(row), &mut text).await?;
                }
                page.next.map(|next| next.0)
            }
            ExportFilter::Flows(filter) => {
                let before = self.before.map(FlowSeq);
                let page =
                    service
                        .database
                        .store
                        .flow_log(account, &filter, before, PageLimit::MAX);
                let page = service.database.ask("export", page).await?;
                for row in page.items {
                    self.flow(&entries::flow(row), &mut text).await?;
                }
                page.next.map(|next| next.0)
            }
        };
        self.before = next;
        if next.is_none() {
            self.step = Step::End;
        }
        Ok(Some(text))
    }

    async fn access(&mut self, entry: &AccessLogEntry, text: &mut String) -> Result<(), Fault> {
        if self.format == ExportFormat::JsonLines {
            return json_line(entry, text);
        }
        let (service, caller) = (&self.service, &self.caller);
        text.push_str(&csv_line([
            entry.seq.to_string(),
            entry.at.to_string(),
            word(&entry.decision),
            self.names.actor(service, caller, entry.actor).await?,
            self.names.client(service, caller, entry.client).await?,
            self.names.resource(service, caller, entry.resource).await?,
            self.names.gateway(service, caller, entry.gateway).await?,
            entry.reason.clone(),
            id(entry.actor),
            entry.client.to_string(),
            entry.resource.to_string(),
            id(entry.gateway),
            id(entry.policy),
            id(entry.grant),
        ]));
        Ok(())
    }

    async fn change(&mut self, entry: &ChangeLogEntry, text: &mut String) -> Result<(), Fault> {
        if self.format == ExportFormat::JsonLines {
            return json_line(entry, text);
        }
        let json = |value: &Option<serde_json::Value>| {
            value.as_ref().map_or_else(String::new, ToString::to_string)
        };
        let actor = self.names.actor(&self.service, &self.caller, entry.actor);
        text.push_str(&csv_line([
            entry.seq.to_string(),
            entry.at.to_string(),
            actor.await?,
            word(&entry.operation),
            entry.entity.clone(),
            entry.entity_id.clone(),
            json(&entry.before),
            json(&entry.after),
            id(entry.actor),
            id(entry.token),
        ]));
        Ok(())
    }

    async fn flow(&mut self, entry: &FlowLogEntry, text: &mut String) -> Result<(), Fault> {
        if self.format == ExportFormat::JsonLines {
            return json_line(entry, text);
        }
        let (service, caller) = (&self.service, &self.caller);
        let gateway = Some(entry.gateway);
        text.push_str(&csv_line([
            entry.seq.to_string(),
            entry.at.to_string(),
            entry.started.to_string(),
            entry.lasted_ms().to_string(),
            self.names.actor(service, caller, entry.actor).await?,
            self.names.client(service, caller, entry.client).await?,
            self.names.resource(service, caller, entry.resource).await?,
            self.names.gateway(service, caller, gateway).await?,
            entry.protocol.clone(),
            entry.address.to_string(),
            id(entry.port),
            entry.application.clone().unwrap_or_default(),
            entry.sent_bytes.to_string(),
            entry.sent_packets.to_string(),
            entry.received_bytes.to_string(),
            entry.received_packets.to_string(),
            entry.end.as_str().to_owned(),
            id(entry.actor),
            entry.client.to_string(),
            entry.resource.to_string(),
            entry.gateway.to_string(),
            entry.grant.to_string(),
            entry.path.map_or("", PathKind::as_str).to_owned(),
            id(entry.relay),
            entry.inbound.to_string(),
        ]));
        Ok(())
    }
}

fn id(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// The word that stands for a value in JSON.
fn word(value: &impl Serialize) -> String {
    let json = serde_json::to_value(value).unwrap_or_default();
    json.as_str().unwrap_or_default().to_owned()
}

fn json_line(entry: &impl Serialize, text: &mut String) -> Result<(), Fault> {
    text.push_str(&serde_json::to_string(entry).map_err(Fault::internal)?);
    text.push('\n');
    Ok(())
}

/// Names that were looked up.
#[derive(Default)]
struct Names {
    actors: BTreeMap<ActorId, String>,
    clients: BTreeMap<ClientId, String>,
    resources: BTreeMap<ResourceId, String>,
    gateways: BTreeMap<GatewayId, String>,
}

macro_rules! remembered {
    ($map:expr, $id:expr, $look:expr) => {{
        if let Some(name) = $map.get(&$id) {
            return Ok(name.clone());
        }
        let name: String = $look.await?;
        if $map.len() >= MAX_NAMES {
            $map.clear();
        }
        $map.insert($id, name.clone());
        Ok(name)
    }};
}

impl Names {
    async fn actor(
        &mut self,
        service: &Service,
        caller: &Caller,
        id: Option<ActorId>,
    ) -> Result<String, Fault> {
        let Some(id) = id else {
            return Ok(String::new());
        };
        remembered!(self.actors, id, service.actor_name(caller, id))
    }

    async fn client(
        &mut self,
        service: &Service,
        caller: &Caller,
        id: ClientId,
    ) -> Result<String, Fault> {
        remembered!(self.clients, id, service.client_name(caller, id))
    }

    async fn resource(
        &mut self,
        service: &Service,
        caller: &Caller,
        id: ResourceId,
    ) -> Result<String, Fault> {
        remembered!(self.resources, id, service.resource_name(caller, id))
    }

    async fn gateway(
        &mut self,
        service: &Service,
        caller: &Caller,
        id: Option<GatewayId>,
    ) -> Result<String, Fault> {
        let Some(id) = id else {
            return Ok(String::new());
        };
        remembered!(self.gateways, id, service.gateway_name(caller, id))
    }
}

/// A line of values. A value that a spreadsheet would take for a formula gets an apostrophe in
/// front, so that it is shown as text: clients choose their own names.
fn csv_line(values: impl IntoIterator<Item = String>) -> String {
    let mut line = String::new();
    for (number, value) in values.into_iter().enumerate() {
        if number > 0 {
            line.push(',');
        }
        let is_formula = is_formula(&value);
        let is_quoted = is_formula || value.contains(['"', ',', '\n', '\r']);
        if is_quoted {
            line.push('"');
        }
        if is_formula {
            line.push('\'');
        }
        line.push_str(&value.replace('"', "\"\""));
        if is_quoted {
            line.push('"');
        }
    }
    line.push_str("\r\n");
    line
}

/// True if a spreadsheet may evaluate the value as a formula. Some drop blanks before the sign when
/// they import, and some, by their locale, read a full-width sign (U+FF1D and so on) as the ASCII
/// one.
fn is_formula(value: &str) -> bool {
    // A byte order mark is no white space by Unicode, yet importers drop it.
    let after_blanks = value.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    value.starts_with(['\t', '\r', '\n'])
        || after_blanks.starts_with([
            '=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}',
        ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(values: &[&str]) -> String {
        csv_line(values.iter().map(|value| (*value).to_owned()))
    }

    #[test]
    fn values_are_quoted_where_they_need_it() {
        assert_eq!(line(&["a", "b c", ""]), "a,b c,\r\n");
        assert_eq!(
            line(&["a,b", "say \"x\"", "1\n2"]),
            "\"a,b\",\"say \"\"x\"\"\",\"1\n2\"\r\n"
        );
    }

    #[test]
    fn nothing_in_a_spreadsheet_is_a_formula() {
        for formula in [
            "=1+1",
            "+1",
            "-1",
            "@SUM(A1)",
            "\t=1",
            "\r=1",
            "\n=1",
            "=cmd|'/c calc'!A1",
            // Full width, which some spreadsheets read as the sign itself.
            "\u{ff1d}1+1",
            "\u{ff0b}1",
            "\u{ff0d}1",
            "\u{ff20}SUM(A1)",
            // Blanks before the sign, which some spreadsheets drop when they import.
            " =1",
            "  \u{ff1d}1",
            "\u{a0}+1",
            "\u{3000}@SUM(A1)",
            "\u{feff}=1",
            " \t-1",
        ] {
            let line = line(&[formula]);
            assert!(line.starts_with("\"'"), "{line:?}");
        }
        for text in ["a=1", "1-2", " a", "\u{3000}a", "a\u{ff1d}1", " ", ""] {
            assert_eq!(line(&[text]), format!("{text}\r\n"));
        }
    }
}
