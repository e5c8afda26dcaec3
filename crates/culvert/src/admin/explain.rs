//! `culvert admin explain`.

use super::api::Query;
use super::output::{Format, print_json, print_line};
use super::shell::Shell;
use crate::exit::{Failure, Status};
use crate::visible::visible;
use clap::Args;
use culvert_wire::api::{Client, Explanation, Resource, Verdict};
use culvert_wire::port::Port;
use serde::Serialize;
use std::process::ExitCode;

/// Say why a client may use a resource now, or why not
///
/// It is what the portal would decide if the client asked at this moment; nothing is granted.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ExplainArguments {
    /// The client's name or id
    #[arg(long, value_name = "CLIENT")]
    client: String,
    /// The resource's name or id
    #[arg(long, value_name = "RESOURCE")]
    resource: String,
    /// Say as well whether the resource's filters let this port through, such as tcp:443 or udp:53; 443 alone is TCP's
    #[arg(long, value_name = "PORT")]
    port: Option<Port>,
}

/// The answer about a port, for programs.
#[derive(Debug, Serialize)]
struct PortAnswer {
    port: String,
    /// True if the filters of the resource let it through.
    passes: bool,
    text: String,
}

#[derive(Debug, Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<&'a PortAnswer>,
}

const EXAMPLES: &str = "\
Examples:
  culvert admin explain --client laptop --resource db
  culvert admin explain --client laptop --resource db --port tcp:5432
  culvert admin explain --client laptop --resource db || echo \"not now\"

It ends with 0 if the client may and with 5 if it may not, or if the filters forbid the port.";

pub(super) async fn run(
    shell: &mut Shell,
    arguments: &ExplainArguments,
) -> Result<ExitCode, Failure> {
    let client = shell.api.id_of::<Client>(&arguments.client).await?;
    let resource = shell.api.find::<Resource>(&arguments.resource).await?;
    let query = Query::default()
        .with("client", client)
        .with("resource", resource.id);
    let explanation: Explanation = shell.api.get("/explain", &query).await?;
    let port = arguments.port.map(|port| PortAnswer {
        port: port.to_string(),
        passes: port.passes(&resource.filters),
        text: port.in_words(&resource.name, &resource.filters),
    });
    match shell.format {
        Format::Json => print_json(&Answer {
            explanation: &explanation,
            port: port.as_ref(),
        })?,
        Format::Table => {
            let port = port.iter().map(|port| port.text.as_str());
            for line in explanation.text.lines().chain(port) {
                print_line(visible(line))?;
            }
        }
    }
    let passes = port.is_none_or(|port| port.passes);
    Ok(match explanation.verdict {
        Verdict::Allow if passes => ExitCode::SUCCESS,
        Verdict::Allow | Verdict::Deny => Status::Denied.into(),
    })
}
