//! `culvert up`, `down`, `sign-in` and `sign-out`: what a client without a token of the administrator's is
//! told to do. Each waits until that is so.

use crate::admin::SecretFile;
use crate::client::failure;
use crate::device_sign_in::{self, Manner, Obtained};
use crate::exit::{Failure, Status as Exit, print};
use crate::json;
use crate::service_socket::ClientSocket;
use crate::status::table;
use crate::token_input::{self, STANDARD_INPUT};
use crate::visible::visible;
use clap::Args;
use culvert_client::status::{Control, PortalState, ServiceState, Status, Trouble};
use culvert_client::{Enrolment, Request, SecretText, SignIn, StatusError, ask, ask_status};
use culvert_wire::token::{CertificatePin, Portal};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

/// Interval between two requests for the client's progress.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Connect the client on this machine, now and after each restart
///
/// It waits until the portal has welcomed the client and resources are led into the tunnel. The client
/// must have been started without a token of the administrator's: one that has such a token is up as
/// long as it runs.
#[derive(Debug, Args)]
#[command(after_help = UP_STATUS, after_long_help = UP_EXAMPLES)]
pub(crate) struct UpArguments {
    #[command(flatten)]
    wait: Wait,
}

/// Disconnect the client on this machine, until it is told to go up
///
/// It waits until the host is as it was before.
#[derive(Debug, Args)]
#[command(after_help = DOWN_STATUS, after_long_help = DOWN_EXAMPLES)]
pub(crate) struct DownArguments {
    #[command(flatten)]
    wait: Wait,
}

/// Sign the client on this machine in, and connect it
///
/// With --portal, or at a terminal where the client knows its portal already, it prints a URL and a code:
/// open the URL on any machine, sign in, compare the code and approve it. The client polls the portal
/// meanwhile, and Ctrl-C gives the sign-in up. Otherwise a token is read, from
/// --token-file or standard input, and asked for without showing it where that is a terminal. The client
/// keeps the token in its state directory, and takes the place of whom it was signed in as before.
#[derive(Debug, Args)]
#[command(after_help = UP_STATUS, after_long_help = SIGN_IN_EXAMPLES)]
pub(crate) struct SignInArguments {
    /// The file with the token, mode 0600; "-" is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["portal", "token_out"])]
    token_file: Option<PathBuf>,

    /// Sign in with a browser at this portal: https://HOST or https://HOST:PORT
    #[arg(long, value_name = "URL")]
    portal: Option<String>,

    /// The SHA-256 of the portal's certificate, as the portal prints it when it starts
    ///
    /// Without it, an authority that this system trusts has to vouch for the certificate.
    // One in 64 begins with a hyphen.
    #[arg(
        long,
        value_name = "SHA256",
        requires = "portal",
        allow_hyphen_values = true
    )]
    certificate: Option<CertificatePin>,

    /// Open no browser on this machine
    #[arg(long)]
    no_browser: bool,

    /// Write the token into FILE, mode 0600, instead of giving it to the client; FILE must not be there yet
    #[arg(long, value_name = "FILE", requires = "portal")]
    token_out: Option<PathBuf>,

    #[command(flatten)]
    wait: Wait,
}

/// Disconnect the client on this machine, and have it forget its token
///
/// The token stays good until an administrator revokes it.
#[derive(Debug, Args)]
#[command(after_help = DOWN_STATUS, after_long_help = SIGN_OUT_EXAMPLES)]
pub(crate) struct SignOutArguments {
    #[command(flatten)]
    wait: Wait,
}

/// The settings by which a command waits and reports.
#[derive(Debug, Args)]
struct Wait {
    /// Print one line of JSON with a schema_version: the client's state in the end
    #[arg(long)]
    json: bool,

    /// Wait at most that long; the client goes on by itself
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 30,
        value_parser = crate::whole_number::whole_number(1..=3_600_u32)
    )]
    timeout: u32,

    #[command(flatten)]
    socket: ClientSocket,
}

/// Exit statuses of commands that bring the client up.
macro_rules! up_status {
    () => {
        "\
Exit status:
  0  it is up
  1  no client answers, it may not be told so by this user or at all, or something failed
  2  the command line is wrong
  3  there is no token, or the portal does not accept it
  4  the portal can't be reached yet, or is another than the token names
  5  an administrator has revoked this client"
    };
}

/// Exit statuses of commands that bring the client down.
macro_rules! down_status {
    () => {
        "\
Exit status:
  0  it is so
  1  no client answers, it may not be told so by this user or at all, or something failed
  2  the command line is wrong"
    };
}

const UP_STATUS: &str = up_status!();

const UP_EXAMPLES: &str = concat!(
    "\
Examples:
  culvert up
  culvert up --timeout 5 || culvert netcheck

",
    up_status!()
);

const SIGN_IN_EXAMPLES: &str = concat!(
    "\
Examples:
  culvert sign-in --portal https://portal.example.com
  culvert sign-in --portal https://192.0.2.10:8443 --certificate 1KS-JH2dFWy6w02HNBrZZWfEo7teceA-zsiiMLyk0tI --token-out laptop.token
  culvert sign-in --token-file laptop.token
  pass show culvert | culvert sign-in --json

",
    up_status!()
);

const DOWN_STATUS: &str = down_status!();

const DOWN_EXAMPLES: &str = concat!(
    "\
Examples:
  culvert down
  culvert down --json | jq -r .service.state

",
    down_status!()
);

const SIGN_OUT_EXAMPLES: &str = concat!(
    "\
Examples:
  culvert sign-out

",
    down_status!()
);

/// Carries out `culvert up`.
pub(crate) fn up(arguments: &UpArguments) -> Result<ExitCode, Failure> {
    arguments.wait.execute(Request::Up, Goal::Up)
}

/// Carries out `culvert down`.
pub(crate) fn down(arguments: &DownArguments) -> Result<ExitCode, Failure> {
    arguments.wait.execute(Request::Down, Goal::Down)
}

/// Carries out `culvert sign-in`.
pub(crate) fn sign_in(arguments: &SignInArguments) -> Result<ExitCode, Failure> {
    let token = match (&arguments.token_file, arguments.portal()?) {
        (Some(path), _) => token_input::read(path)?,
        (None, None) => token_input::read(Path::new(STANDARD_INPUT))?,
        (None, Some(portal)) => return arguments.with_browser(portal),
    };
    Enrolment::from_token(token.trim()).map_err(|error| failure(&error))?;
    let request = Request::SignIn(SignIn::Token(SecretText::new(token)));
    arguments.wait.execute(request, Goal::Up)
}

/// Carries out `culvert sign-out`.
pub(crate) fn sign_out(arguments: &SignOutArguments) -> Result<ExitCode, Failure> {
    arguments.wait.execute(Request::SignOut, Goal::SignedOut)
}

impl SignInArguments {
    /// Signs in with a browser.
    fn with_browser(&self, portal: Portal) -> Result<ExitCode, Failure> {
        let wait = &self.wait;
        let manner = Manner {
            json: wait.json,
            no_browser: self.no_browser,
        };
        let runtime = runtime()?;
        if let Some(out) = &self.token_out {
            // Every error that can be found here is found before somebody signs in.
            let file = SecretFile::create(out)?;
            let obtained = runtime.block_on(device_sign_in::obtain(portal, manner))?;
            return wait.written(file, &obtained);
        }
        let socket = wait.socket.path()?;
        let status = runtime.block_on(ask_status(&socket));
        let status = status.map_err(|error| Failure::new(Exit::Failed, error))?;
        let is_older = status.service.control == Control::Commands && !status.service.signs_in;
        if is_older {
            let obtained = runtime.block_on(device_sign_in::obtain(portal, manner))?;
            let token = SecretText::new(obtained.token);
            return wait.execute(Request::SignIn(SignIn::Token(token)), Goal::Up);
        }
        runtime.block_on(device_sign_in::by_service(&socket, &portal, manner))?;
        wait.execute(Request::Status, Goal::Up)
    }

    /// The portal at which somebody is to sign in with a browser; nothing where a token is to be read.
    fn portal(&self) -> Result<Option<Portal>, Failure> {
        if self.token_file.is_some() {
            return Ok(None);
        }
        let usage = |error| Failure::new(Exit::Usage, error);
        if let Some(url) = &self.portal {
            let portal = Portal::new(url, self.certificate).map_err(usage)?;
            return Ok(Some(portal));
        }
        if !std::io::stdin().is_terminal() {
            return Ok(None);
        }
        let socket = self.wait.socket.path()?;
        // Without an answer nothing is known; that it is missing is said where the token is handed over.
        let Ok(status) = runtime()?.block_on(ask_status(&socket)) else {
            return Ok(None);
        };
        if status.portal_url.is_empty() {
            return Ok(None);
        }
        let pin = status.portal_pin.as_deref().map(str::parse).transpose();
        let pin: Option<CertificatePin> = pin.map_err(usage)?;
        Portal::new(&status.portal_url, pin)
            .map(Some)
            .map_err(usage)
    }
}

fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::io("starting", &error))
}

/// The result of `--token-out`, for programs.
#[derive(Serialize)]
struct Written<'a> {
    token_file: PathBuf,
    actor: &'a str,
}

/// The answer to somebody who waits for a client whose owner is disabled.
pub(crate) const OWNER_DISABLED: &str = "the owner of this client is disabled: it connects by itself within 30 s after an \
                              administrator enables the owner";

/// The state that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
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
    /// Says that the token is in a file.
    fn written(&self, file: SecretFile, obtained: &Obtained) -> Result<ExitCode, Failure> {
        let token_file = file.write(&obtained.token)?;
        let actor = obtained.actor.as_str();
        print(self.line_of(token_file, actor)?.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }

    fn line_of(&self, token_file: PathBuf, actor: &str) -> Result<String, Failure> {
        match self.json {
            true => json::line(&Written { token_file, actor }),
            false => {
                let text = format!("the token of {actor} is in {}", token_file.display());
                Ok(format!("{}\n", visible(&text)))
            }
        }
    }

    fn execute(&self, request: Request, goal: Goal) -> Result<ExitCode, Failure> {
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

    #[derive(Debug, clap::Parser)]
    struct SignInLine {
        #[command(flatten)]
        arguments: SignInArguments,
    }

    #[test]
    fn a_certificate_whose_hash_begins_with_a_hyphen_is_one() {
        use clap::Parser;
        for begin in ["-W", "--", "_-"] {
            let pin = format!("{begin}{}", "A".repeat(41));
            let line = [
                "sign-in",
                "--portal",
                "https://192.0.2.1",
                "--certificate",
                &pin,
                "--json",
            ];
            let parsed = SignInLine::try_parse_from(line).unwrap().arguments;
            assert!(parsed.certificate.is_some() && parsed.wait.json);
        }
    }

    #[test]
    fn a_token_in_a_file_is_told_of_in_one_line() {
        use clap::Parser;
        let lines = [&["sign-in"][..], &["sign-in", "--json"]].map(|words| {
            let parsed = SignInLine::try_parse_from(words).unwrap().arguments;
            parsed.wait.line_of("/run/token".into(), "ada").unwrap()
        });
        assert_eq!(lines[0], "the token of ada is in /run/token\n");
        assert_eq!(lines[1].lines().count(), 1, "{:?}", lines[1]);
        let written: serde_json::Value = serde_json::from_str(&lines[1]).unwrap();
        assert_eq!(written["token_file"], "/run/token");
        assert_eq!(written["actor"], "ada");
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
