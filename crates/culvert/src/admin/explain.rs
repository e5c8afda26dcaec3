//! `culvert admin explain`.

use super::Shell;
use super::api::Query;
use super::output::{Format, print_json, print_line};
use crate::exit::{Failure, Status};
use crate::visible::visible;
use clap::Args;
use culvert_wire::api::{Client, Explanation, Resource, Verdict};
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
}

const EXAMPLES: &str = "\
Examples:
  culvert admin explain --client laptop --resource db
  culvert admin explain --client laptop --resource db || echo \"not now\"

It ends with 0 if the client may and with 5 if it may not.";

pub(super) async fn run(
    shell: &mut Shell,
    arguments: &ExplainArguments,
) -> Result<ExitCode, Failure> {
    let client = shell.api.id_of::<Client>(&arguments.client).await?;
    let resource = shell.api.id_of::<Resource>(&arguments.resource).await?;
    let query = Query::default()
        .with("client", client)
        .with("resource", resource);
    let explanation: Explanation = shell.api.get("/explain", &query).await?;
    match shell.format {
        Format::Json => print_json(&explanation)?,
        Format::Table => {
            for line in explanation.text.lines() {
                print_line(visible(line))?;
            }
        }
    }
    Ok(match explanation.verdict {
        Verdict::Allow => ExitCode::SUCCESS,
        Verdict::Deny => Status::Denied.into(),
    })
}
