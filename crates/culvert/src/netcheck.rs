//! `culvert netcheck`: what stands in the way between this machine, the portal, relays and gateways, each with
//! what to do about it. It asks nobody else, but the resolver for a NAT64.

mod exchange;
mod finding;
mod gateways;
mod machine;
mod network;
mod portal;
mod relays;

use crate::exit::{Failure, Status as Exit, print};
use crate::json;
use crate::service_socket::ClientSocket;
use crate::status::table;
use crate::token_input;
use clap::Args;
use culvert_client::status::Status;
use culvert_client::{Enrolment, ask_status};
use culvert_link::{default_sources, find_nat64, system_look_up};
use culvert_wire::token::Portal;
use finding::{Finding, Verdict};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The default path of a client's token file.
const USUAL_TOKEN_FILE: &str = "/etc/culvert/token";

/// The time limit for a gateway that the client has only begun to speak with: a lost handshake is
/// repeated after five seconds.
const GATEWAY_LIMIT: Duration = Duration::from_secs(6);

/// Interval between two requests for the client's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Look at what a tunnel needs of this machine and its network, and say what is missing and what to do
///
/// Looked at are both address families, the way to the portal step by step, clocks, the NAT, relays,
/// gateways, the resolver, and what the kernel has. If a client runs, it tells where portal, gateways and
/// relays are; otherwise the token tells where the portal is. Nobody but those is asked anything, and on a
/// network without IPv4 the resolver for a NAT64.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(crate) struct NetcheckArguments {
    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    /// The file with the token that names the portal; "-" is standard input [default: as the running
    /// client says, otherwise /etc/culvert/token]
    #[arg(long, value_name = "FILE", env = "CULVERT_CLIENT_TOKEN_FILE")]
    token_file: Option<PathBuf>,

    /// A relay to ask besides those that the running client knows: HOST or HOST:PORT, an IPv6 address in brackets; repeatable
    #[arg(long, value_name = "HOST[:PORT]")]
    relay: Vec<String>,

    #[command(flatten)]
    socket: ClientSocket,
}

/// Exit statuses of the command.
macro_rules! exit_status {
    () => {
        "\
Exit status:
  0  nothing is in the way; there may be warnings
  1  something is, or the check failed
  2  the command line is wrong
  3  the token that was named is no good
  4  the portal does not answer as it should"
    };
}

const EXIT_STATUS: &str = exit_status!();

const EXAMPLES: &str = concat!(
    "\
Examples:
  culvert netcheck
  culvert netcheck --token-file laptop.token
  culvert netcheck --relay relay-1.example --relay relay-2.example
  culvert netcheck --json | jq '.findings[] | select(.verdict == \"failed\") | {check, fix}'

",
    exit_status!()
);

/// The JSON form.
#[derive(Serialize)]
struct Report {
    /// The portal's URL, where it is known.
    portal: Option<String>,
    /// True if a client runs.
    client_runs: bool,
    network: network::NetworkReport,
    /// The nearest first.
    relays: Vec<network::RelayReport>,
    findings: Vec<Finding>,
}

/// Carries out `culvert netcheck`.
pub(crate) fn run(arguments: &NetcheckArguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting", &error))?;
    let report = runtime.block_on(check(arguments))?;
    let text = match arguments.json {
        true => json::line(&report)?,
        false => render(&report),
    };
    print(text.as_bytes())?;
    let failed = |finding: &&Finding| finding.verdict == Verdict::Failed;
    let mut failed = report.findings.iter().filter(failed);
    Ok(match failed.next() {
        None => ExitCode::SUCCESS,
        Some(first) if first.is_of_portal() => Exit::PortalUnreachable.into(),
        Some(_) if failed.any(Finding::is_of_portal) => Exit::PortalUnreachable.into(),
        Some(_) => Exit::Failed.into(),
    })
}

async fn check(arguments: &NetcheckArguments) -> Result<Report, Failure> {
    let mut findings = Vec::new();
    let status = match ask_status(&arguments.socket.path()?).await {
        Ok(status) => Some(status),
        Err(error) => {
            findings.push(machine::no_client(&error));
            None
        }
    };
    if let Some(status) = &status {
        findings.push(machine::client(status));
    }
    let portal = find_portal(arguments.token_file.as_deref(), status.as_ref())?;
    let sources = default_sources(None);
    let relays = relays::find(status.as_ref(), &arguments.relay).await?;
    let nat64 = find_nat64(system_look_up, None).await;
    let (answers, of_portal) = tokio::join!(relays::ask(relays, nat64), async {
        match &portal {
            Some(portal) => portal::check(portal).await,
            None => portal::Checked::default(),
        }
    });
    let answers = answers?;
    let status = match status {
        Some(status) => Some(connected(&arguments.socket.path()?, status).await),
        None => None,
    };
    let judged = network::judge(&network::Observations {
        sources,
        nat64,
        portal: of_portal.tcp,
        relays: answers.relays,
        own: answers.own,
        has_path: status.as_ref().is_some_and(gateways::any_answers),
    });
    // Families come before the portal, which is reached by them.
    let (families, of_relays): (Vec<Finding>, Vec<Finding>) =
        judged.findings.into_iter().partition(Finding::is_of_family);
    findings.extend(families);
    match &portal {
        Some(_) => findings.extend(of_portal.findings),
        None => findings.push(Finding::skips(
            "portal",
            "it is not known where the portal is".to_owned(),
            "sign in, or name the token's file by --token-file".to_owned(),
        )),
    }
    findings.extend(of_relays);
    if let Some(status) = &status {
        findings.extend(gateways::check(status));
    }
    findings.extend(machine::resolver(status.as_ref()));
    findings.extend(machine::kernel(status.as_ref()));
    Ok(Report {
        portal: portal.map(|portal| portal.url),
        client_runs: status.is_some(),
        network: judged.network,
        relays: judged.relays,
        findings,
    })
}

/// The client's state once every gateway that it uses has answered, or has had the time to.
async fn connected(socket: &Path, status: Status) -> Status {
    let deadline = Instant::now() + GATEWAY_LIMIT;
    let mut status = status;
    while !gateways::have_answered(&status) && Instant::now() < deadline {
        sleep(POLL_INTERVAL).await;
        let Ok(newer) = ask_status(socket).await else {
            break;
        };
        status = newer;
    }
    status
}

/// Finds the portal: by the token that was named, by the client that runs, or by the token in its usual
/// place, if this user may read it.
fn find_portal(named: Option<&Path>, status: Option<&Status>) -> Result<Option<Portal>, Failure> {
    let of_token = |path: &Path| {
        let text = token_input::read(path)?;
        let enrolment = Enrolment::from_token(text.trim());
        let enrolment = enrolment.map_err(|error| crate::client::failure(&error));
        enrolment.map(|enrolment| enrolment.portal)
    };
    if let Some(path) = named {
        return of_token(path).map(Some);
    }
    let of_client = status.filter(|status| !status.portal_url.is_empty());
    if let Some(status) = of_client {
        let pin = status.portal_pin.as_ref().and_then(|pin| pin.parse().ok());
        return Ok(Portal::new(&status.portal_url, pin).ok());
    }
    Ok(of_token(Path::new(USUAL_TOKEN_FILE)).ok())
}

fn render(report: &Report) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let verdict = finding.verdict.word();
        table::line(
            &mut text,
            format_args!("{verdict:<8} {:<11} {}", finding.check, finding.found),
        );
        if let Some(fix) = &finding.fix {
            table::line(&mut text, format_args!("{:<8} {:<11} → {fix}", "", ""));
        }
    }
    text
}
