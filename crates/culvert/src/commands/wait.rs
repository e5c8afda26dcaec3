//! A command that waits until the client has done it, and says meanwhile the condition that it waits for.

use crate::exit::{Failure, Status as Exit, print};
use crate::json;
use crate::service_socket::ClientSocket;
use crate::status::table;
use crate::visible::visible;
use clap::Args;
use culvert_client::status::{PortalState, ServiceState, Status, Trouble};
use culvert_client::{Request, StatusError, ask, ask_status};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

/// The answer to somebody who waits for a client whose owner is disabled.
pub(crate) const OWNER_DISABLED: &str = "the owner of this client is disabled: it connects by itself within 30 s after an \
                              administrator enables the owner";

/// Interval between two requests for the client's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The settings by which a command waits and reports.
#[derive(Debug, Args)]
pub(super) struct Wait {
    /// Print one line of JSON with a schema_version: the client's state in the end
    #[arg(long)]
    pub(super) json: bool,

    /// Wait at most that long; the client goes on by itself
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = crate::whole_number::whole_number(1..=3_600_u32)
    )]
    timeout: u32,

    #[command(flatten)]
    pub(super) socket: ClientSocket,
}

/// The state that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goal {
    Up,
    Down,
    SignedOut,
}

/// The progress towards the goal.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It is so, in words.
    There(String),
    /// Not yet; the text names the condition that is waited for.
    Waits(Exit, String),
    /// It won't be.
    Ends(Exit, String),
}

impl Wait {
    /// Has the client do `request`, waits for `goal`, and prints the result.
    pub(super) fn execute(&self, request: Request, goal: Goal) -> Result<ExitCode, Failure> {
        let runtime = runtime()?;
        let socket = self.socket.path()?;
        let limit = Duration::from_secs(self.timeout.into());
        let (status, line) = runtime.block_on(wait_for(&socket, request, goal, limit))?;
        let text = match self.json {
            true => json::line_of(&status)?,
            false => format!("{}\n", visible(&line)),
        };
        print(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

pub(super) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting", &error))
}

/// Has the client do it, and waits until it has; reports meanwhile the condition that it waits for.
async fn wait_for(
    socket: &Path,
    request: Request,
    goal: Goal,
    limit: Duration,
) -> Result<(Status, String), Failure> {
    let failed = |error: StatusError| Failure::new(Exit::Failed, error);
    let deadline = Instant::now() + limit;
    if request == Request::Up {
        let status = ask_status(socket).await.map_err(failed)?;
        if status.service.state == ServiceState::SignedOut {
            let what = "the client is signed out: run `culvert sign-in` first";
            return Err(Failure::new(Exit::NotEnrolled, what));
        }
        if status.service.state == ServiceState::Up && status.ready {
            let line = format!(
                "already connected: {} to {}",
                status.name, status.portal_url
            );
            return Ok((status, line));
        }
    }
    let mut answer = ask(socket, request).await;
    let mut told = String::new();
    loop {
        let (exit, waits_for) = match answer {
            // It is busy with going up or down.
            Err(error) if error.is_timeout() => (Exit::Failed, "the client is busy".to_owned()),
            Err(error) => return Err(failed(error)),
            Ok(status) => match step(&status, goal) {
                Step::There(line) => return Ok((status, line)),
                Step::Ends(exit, why) => return Err(Failure::new(exit, why)),
                Step::Waits(exit, waits_for) => (exit, waits_for),
            },
        };
        if deadline <= Instant::now() {
            let what = format!(
                "after {} s: {waits_for}; the client goes on trying, see \"culvert status\"",
                limit.as_secs()
            );
            return Err(Failure::new(exit, what));
        }
        if told != waits_for {
            // The caller may have closed standard error.
            let _unseen = writeln!(std::io::stderr(), "{}", visible(&waits_for));
            told = waits_for;
        }
        sleep(POLL_INTERVAL).await;
        answer = ask_status(socket).await;
    }
}

fn step(status: &Status, goal: Goal) -> Step {
    match (goal, status.service.state) {
        (Goal::Up, _) => step_up(status),
        (Goal::Down, ServiceState::Down) => Step::There("down".to_owned()),
        (Goal::Down | Goal::SignedOut, ServiceState::SignedOut) => {
            Step::There("signed out".to_owned())
        }
        (Goal::Down | Goal::SignedOut, _) => Step::Waits(Exit::Failed, "going down".to_owned()),
    }
}

fn step_up(status: &Status) -> Step {
    let why = || status.not_ready_because.clone().unwrap_or_default();
    match status.service.state {
        ServiceState::Up if status.ready => Step::There(format!(
            "up: {} is connected to {}",
            status.name, status.portal_url
        )),
        ServiceState::Up if status.portal.state == PortalState::Connected => {
            Step::Waits(Exit::Failed, why())
        }
        ServiceState::Up if status.portal.owner_disabled => {
            Step::Ends(Exit::Failed, OWNER_DISABLED.to_owned())
        }
        ServiceState::Up => Step::Waits(Exit::PortalUnreachable, table::portal(&status.portal)),
        ServiceState::GoingDown => Step::Waits(Exit::Failed, "going down first".to_owned()),
        ServiceState::Refused | ServiceState::Failed => {
            let trouble = status.service.trouble.as_ref();
            let (exit, why) = trouble.map_or((Exit::Failed, why()), |trouble| {
                (exit(trouble.code), trouble.text.clone())
            });
            Step::Ends(exit, why)
        }
        ServiceState::Down | ServiceState::SignedOut => {
            let why = "somebody else has told the client to go down meanwhile";
            Step::Ends(Exit::Failed, why.to_owned())
        }
    }
}

const fn exit(trouble: Trouble) -> Exit {
    match trouble {
        Trouble::NotEnrolled => Exit::NotEnrolled,
        Trouble::Denied => Exit::Denied,
        Trouble::WrongPortal => Exit::PortalUnreachable,
        Trouble::Refused | Trouble::Failed => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::table::tests::status;
    use culvert_client::status::{ServiceStatus, TroubleStatus};

    fn at(state: ServiceState) -> Status {
        let service = ServiceStatus {
            state,
            ..ServiceStatus::default()
        };
        Status {
            service,
            ..status()
        }
    }

    #[test]
    fn up_is_there_once_packets_have_somewhere_to_go() {
        let mut status = at(ServiceState::Up);
        let waits = step(&status, Goal::Up);
        assert!(
            matches!(&waits, Step::Waits(Exit::PortalUnreachable, why) if why.contains("it does not answer")),
            "{waits:?}"
        );
        status.portal.state = PortalState::Connected;
        assert!(matches!(
            step(&status, Goal::Up),
            Step::Waits(Exit::Failed, _)
        ));
        status.ready = true;
        assert!(matches!(step(&status, Goal::Up), Step::There(_)));
    }

    #[test]
    fn who_waits_hears_at_once_that_the_owner_is_disabled() {
        let mut status = at(ServiceState::Up);
        status.portal.owner_disabled = true;
        let ends = Step::Ends(Exit::Failed, OWNER_DISABLED.to_owned());
        assert_eq!(step(&status, Goal::Up), ends);
    }

    #[test]
    fn who_waits_hears_why_the_portal_will_not_have_it() {
        for (code, exit) in [
            (Trouble::NotEnrolled, Exit::NotEnrolled),
            (Trouble::Denied, Exit::Denied),
            (Trouble::WrongPortal, Exit::PortalUnreachable),
            (Trouble::Failed, Exit::Failed),
        ] {
            let mut status = at(ServiceState::Refused);
            let text = "because".to_owned();
            status.service.trouble = Some(TroubleStatus { code, text });
            let ends = Step::Ends(exit, "because".to_owned());
            assert_eq!(step(&status, Goal::Up), ends);
        }
    }

    #[test]
    fn down_is_there_once_nothing_is_being_taken_back_any_more() {
        for (state, is_there) in [
            (ServiceState::Up, false),
            (ServiceState::GoingDown, false),
            (ServiceState::Failed, false),
            (ServiceState::Down, true),
            (ServiceState::SignedOut, true),
        ] {
            let there = matches!(step(&at(state), Goal::Down), Step::There(_));
            assert_eq!(there, is_there, "{state:?}");
        }
        assert!(matches!(
            step(&at(ServiceState::Down), Goal::SignedOut),
            Step::Waits(..)
        ));
    }
}
