//! `culvert ping`: whether there is a way to a resource, step by step.

use crate::commands::OWNER_DISABLED;
use crate::exit::{Failure, Status as Exit, print};
use crate::json;
use crate::service_socket::ClientSocket;
use crate::status::table;
use crate::visible::visible;
use clap::Args;
use culvert_client::status::{AccessState, PortalState, ResourceStatus, ServiceState, Status};
use culvert_client::{Request, StatusError, ask, ask_status};
use culvert_ids::ResourceId;
use culvert_wire::model::Filter;
use culvert_wire::port::Port;
use culvert_wire::words::{Allowed, parse_allowed};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The time limit until a path exists: the portal has ten seconds for an answer, and a lost
/// handshake is repeated after five.
const LIMIT: Duration = Duration::from_secs(16);

/// Interval between two requests for the client's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Codes of a "no" that says that there shall be no access. Others say that there could not be any.
const FORBIDDEN: [&str; 7] = [
    "bad_token",
    "no_access",
    "condition_not_met",
    "expired",
    "policy_changed",
    "revoked",
    "owner_disabled",
];

/// Ask for access to a resource, and say at which step it fails if it does
///
/// It goes as far as the gateway: whether a program answers behind it, the resource itself decides. With
/// --port, the filters of the resource are asked first.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(crate) struct PingArguments {
    /// The resource's name, its id, or its address as "culvert resources" shows them
    #[arg(value_name = "RESOURCE")]
    resource: String,

    /// Say as well whether the resource's filters let this port through, such as tcp:443 or udp:53; 443 alone is TCP's
    #[arg(long, value_name = "PORT")]
    port: Option<Port>,

    /// Print one line of JSON with a schema_version, also where there is no way
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: ClientSocket,
}

/// The result, for programs.
#[derive(Debug, Serialize)]
struct Answer<'a> {
    /// As it was asked for.
    resource: &'a str,
    /// True if there is access and the gateway answers.
    reachable: bool,
    #[serde(flatten)]
    way: Option<Way>,
    /// The same for people, or at which step it fails.
    text: String,
}

/// The gateway that answers.
#[derive(Clone, Debug, Serialize)]
struct Way {
    gateway: String,
    endpoint: SocketAddr,
    handshake_age_ms: u64,
}

const EXIT_STATUS: &str = "\
Exit status:
  0  there is access, and the gateway answers
  1  no client answers, there is no such resource, no gateway answers, or something failed
  2  the command line is wrong
  4  the client is not up, or not connected to the portal
  5  access is denied, or the filters forbid the port";

const EXAMPLES: &str = "\
Examples:
  culvert ping web
  culvert ping web --port tcp:443
  culvert ping web --json | jq -r .gateway
  culvert ping db.corp.example && psql -h db.corp.example

Exit status:
  0  there is access, and the gateway answers
  1  no client answers, there is no such resource, no gateway answers, or something failed
  2  the command line is wrong
  4  the client is not up, or not connected to the portal
  5  access is denied, or the filters forbid the port";

/// The progress on the way to a resource.
enum Step {
    /// All the way, in words.
    There(String, Way),
    /// Nothing is decided yet; the text names the condition that is waited for.
    Waits(Exit, String),
    /// It ends here.
    Ends(Exit, String),
}

/// Carries out `culvert ping`.
pub(crate) fn run(arguments: &PingArguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting", &error))?;
    let socket = arguments.socket.path()?;
    let found = runtime.block_on(ping(&socket, &arguments.resource, arguments.port));
    let text = match (&found, arguments.json) {
        (Ok((text, _)), false) => format!("{}\n", visible(text)),
        (Err(_), false) => String::new(),
        (_, true) => json::line(&answer(&arguments.resource, &found))?,
    };
    print(text.as_bytes())?;
    found.map(|_| ExitCode::SUCCESS)
}

fn answer<'a>(resource: &'a str, found: &Result<(String, Way), Failure>) -> Answer<'a> {
    let (text, way) = match found {
        Ok((text, way)) => (text.clone(), Some(way.clone())),
        Err(failure) => (failure.to_string(), None),
    };
    Answer {
        resource,
        reachable: way.is_some(),
        way,
        text,
    }
}

async fn ping(socket: &Path, wanted: &str, port: Option<Port>) -> Result<(String, Way), Failure> {
    let failed = |error: StatusError| Failure::new(Exit::Failed, error);
    let deadline = Instant::now() + LIMIT;
    let mut status = ask_status(socket).await.map_err(failed)?;
    if status.service.state != ServiceState::Up {
        let why = status.not_ready_because.unwrap_or_default();
        let what = format!("the client is not up: {why}");
        return Err(Failure::new(Exit::PortalUnreachable, what));
    }
    let id = loop {
        if let Some(id) = find(&status, wanted, Instant::now() < deadline)? {
            break id;
        }
        sleep(POLL_INTERVAL).await;
        status = ask_status(socket).await.map_err(failed)?;
    };
    if let Some(port) = port {
        passes(&status, id, port)?;
    }
    status = ask(socket, Request::Ask(id)).await.map_err(failed)?;
    loop {
        match step(&status, id) {
            Step::There(found, way) => return Ok((found, way)),
            Step::Ends(exit, why) => return Err(Failure::new(exit, why)),
            Step::Waits(exit, why) if deadline <= Instant::now() => {
                return Err(Failure::new(exit, why));
            }
            Step::Waits(..) => sleep(POLL_INTERVAL).await,
        }
        status = ask_status(socket).await.map_err(failed)?;
    }
}

/// The resource that is meant. None where the portal is listing the resources and may name it yet, if `waits` says to wait for
/// that.
fn find(status: &Status, wanted: &str, waits: bool) -> Result<Option<ResourceId>, Failure> {
    // First: a client that was started meanwhile knows no resource.
    if status.portal.owner_disabled {
        return Err(Failure::new(Exit::Denied, OWNER_DISABLED));
    }
    let is_meant = |resource: &&ResourceStatus| {
        resource.name == wanted || resource.target == wanted || resource.id.to_string() == wanted
    };
    if let Some(found) = status.resources.iter().find(is_meant) {
        return Ok(Some(found.id));
    }
    let mut unreadable = status.unreadable.iter();
    let why = match unreadable.find(|it| it.name.as_deref() == Some(wanted)) {
        Some(unreadable) => format!("`{wanted}` can't be read: {}", unreadable.why),
        None if status.portal.listing && waits => return Ok(None),
        None => format!(
            "this client has no resource `{wanted}`: \"culvert resources\" lists them; if it should \
             have it, no policy lets it, or the portal has not been reached yet"
        ),
    };
    Err(Failure::new(Exit::Failed, why))
}

/// Fails where the filters of a resource do not let the port through.
fn passes(status: &Status, id: ResourceId, port: Port) -> Result<(), Failure> {
    let mut resources = status.resources.iter();
    let Some(resource) = resources.find(|resource| resource.id == id) else {
        return Ok(());
    };
    let name = &resource.name;
    let Some(allow) = &resource.allow else {
        let why = format!(
            "{name}: the client is older than this program and tells no filters: restart it"
        );
        return Err(Failure::new(Exit::Failed, why));
    };
    let filters = allow.iter().filter_map(|text| match parse_allowed(text) {
        Ok(Allowed::Filter(filter)) => Some(filter),
        Ok(Allowed::Nothing) | Err(_) => None,
    });
    let filters: Vec<Filter> = filters.collect();
    match port.passes(&filters) {
        true => Ok(()),
        false => Err(Failure::new(Exit::Denied, port.in_words(name, &filters))),
    }
}

fn step(status: &Status, id: ResourceId) -> Step {
    let Some(resource) = status.resources.iter().find(|resource| resource.id == id) else {
        let why = "the portal has just taken the resource away: no policy lets this client use it";
        return Step::Ends(Exit::Denied, why.to_owned());
    };
    let name = &resource.name;
    let (code, why) = resource
        .why
        .as_ref()
        .map_or(("", ""), |why| (why.code.as_str(), why.text.as_str()));
    let is_connected = status.portal.state == PortalState::Connected;
    let no_portal = || {
        let portal = table::portal(&status.portal);
        format!("{name}: the portal can't be asked for access: {portal}")
    };
    match resource.state {
        AccessState::Granted => at_gateway(status, resource),
        AccessState::Denied if FORBIDDEN.contains(&code) => {
            Step::Ends(Exit::Denied, format!("{name}: access is denied: {why}"))
        }
        AccessState::Denied if !is_connected => Step::Ends(Exit::PortalUnreachable, no_portal()),
        AccessState::Denied => {
            Step::Ends(Exit::Failed, format!("{name}: access was not given: {why}"))
        }
        AccessState::Asking | AccessState::Idle if !is_connected => {
            Step::Waits(Exit::PortalUnreachable, no_portal())
        }
        AccessState::Asking | AccessState::Idle => Step::Waits(
            Exit::Failed,
            format!("{name}: the portal has not answered the request for access"),
        ),
    }
}

fn at_gateway(status: &Status, resource: &ResourceStatus) -> Step {
    let name = &resource.name;
    let mut gateways = status.gateways.iter();
    let gateway = gateways.find(|gateway| Some(gateway.id) == resource.gateway);
    let Some(gateway) = gateway else {
        return Step::Waits(Exit::Failed, format!("{name}: the grant names no gateway"));
    };
    match (gateway.handshake_age_ms, gateway.endpoint) {
        (Some(handshake_age_ms), Some(endpoint)) if gateway.path != "none" => Step::There(
            format!(
                "{name}: access is granted, {} answers at {endpoint} (handshake {} ago)",
                gateway.name,
                table::span(handshake_age_ms)
            ),
            Way {
                gateway: gateway.name.clone(),
                endpoint,
                handshake_age_ms,
            },
        ),
        _ => {
            let candidates = gateway.candidates.iter().map(ToString::to_string);
            let candidates = candidates.collect::<Vec<_>>().join(", ");
            Step::Waits(
                Exit::Failed,
                format!(
                    "{name}: access is granted, but {} does not answer at {candidates}: a firewall, or \
                     a router and no --public-endpoint at the gateway",
                    gateway.name
                ),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::table::tests::status;

    #[test]
    fn of_a_disabled_owner_no_policy_is_to_blame() {
        let mut status = status();
        status.resources.clear();
        let failure = find(&status, "web", true).unwrap_err();
        assert!(failure.to_string().contains("no policy lets it"));
        status.portal.owner_disabled = true;
        let failure = find(&status, "web", true).unwrap_err();
        assert_eq!(failure.status, Exit::Denied);
        assert_eq!(failure.to_string(), OWNER_DISABLED);
    }

    #[test]
    fn a_resource_that_the_portal_may_list_yet_is_waited_for() {
        let mut status = status();
        status.portal.listing = true;
        let web = status.resources[0].id;
        assert_eq!(find(&status, "web", true).unwrap(), Some(web));
        assert_eq!(find(&status, "mail", true).unwrap(), None);
        let late = find(&status, "mail", false).unwrap_err();
        assert!(late.to_string().contains("no resource `mail`"));
        status.portal.listing = false;
        assert!(find(&status, "mail", true).is_err());
    }

    #[test]
    fn json_says_whether_there_is_a_way_and_which() {
        let way = Way {
            gateway: "nu-gw".to_owned(),
            endpoint: "192.0.2.20:51820".parse().unwrap(),
            handshake_age_ms: 7,
        };
        let found = Ok(("web: it answers".to_owned(), way));
        assert_eq!(
            json::line(&answer("web", &found)).unwrap(),
            "{\"schema_version\":1,\"resource\":\"web\",\"reachable\":true,\"gateway\":\"nu-gw\",\
             \"endpoint\":\"192.0.2.20:51820\",\"handshake_age_ms\":7,\"text\":\"web: it answers\"}\n"
        );
        let denied = Err(Failure::new(Exit::Denied, "web: access is denied"));
        assert_eq!(
            json::line(&answer("web", &denied)).unwrap(),
            "{\"schema_version\":1,\"resource\":\"web\",\"reachable\":false,\
             \"text\":\"web: access is denied\"}\n"
        );
    }
}
