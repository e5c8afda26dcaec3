//! `culvert settings`: the settings of a client that its users change while it runs.

use crate::exit::{Failure, Status as Exit, print};
use crate::json;
use crate::service_socket::ClientSocket;
use clap::{Args, ValueEnum};
use culvert_client::status::{Control, SettingsStatus, Status};
use culvert_client::{Request, SettingsChange, StatusError, ask, ask_status};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};

/// A client takes in a setting as soon as it is between two steps.
const TAKEN_IN_WITHIN: Duration = Duration::from_secs(10);

/// Interval between two requests for the client's state.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Show the settings of the client on this machine, or change them
///
/// A change holds from now on and after each restart. The client must have been started without a token of
/// the administrator's.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = EXAMPLES)]
pub(crate) struct SettingsArguments {
    /// Have the system ask the client for names while it is connected, or not
    ///
    /// With "off", resources have their addresses, and names of the account are unknown. An administrator
    /// rules it out with `--dns off` of the client.
    #[arg(long, value_name = "on|off", hide_possible_values = true)]
    dns: Option<Switch>,

    /// Print one line of JSON with a schema_version
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    socket: ClientSocket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

macro_rules! exit_status {
    () => {
        "\
Exit status:
  0  the settings are shown, and are as they were asked to be
  1  no client answers, its settings may not be changed by this user or at all, or something failed
  2  the command line is wrong"
    };
}

const EXIT_STATUS: &str = exit_status!();

const EXAMPLES: &str = concat!(
    "\
Examples:
  culvert settings
  culvert settings --dns off
  culvert settings --json | jq .dns

",
    exit_status!()
);

/// Carries out `culvert settings`.
pub(crate) fn run(arguments: &SettingsArguments) -> Result<ExitCode, Failure> {
    let socket = arguments.socket.path()?;
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::io("starting", &error))?;
    let settings = runtime.block_on(arguments.in_force(&socket))?;
    let text = match arguments.json {
        true => json::line(&settings)?,
        false => line(&settings),
    };
    print(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

impl SettingsArguments {
    fn change(&self) -> SettingsChange {
        SettingsChange {
            dns: self.dns.map(|switch| switch == Switch::On),
        }
    }

    /// The settings, once they are as they are to be.
    async fn in_force(&self, socket: &Path) -> Result<SettingsStatus, Failure> {
        let failed = |error: StatusError| Failure::new(Exit::Failed, error);
        let change = self.change();
        let mut answer = match change == SettingsChange::default() {
            true => ask_status(socket).await,
            false => ask(socket, Request::Settings(change)).await,
        };
        let deadline = Instant::now() + TAKEN_IN_WITHIN;
        loop {
            match answer {
                // It is busy with going up or down.
                Err(error) if error.is_timeout() => {}
                Err(error) => return Err(failed(error)),
                Ok(status) => {
                    let settings = settings_of(status)?;
                    if holds(change, &settings) {
                        return Ok(settings);
                    }
                }
            }
            if deadline <= Instant::now() {
                let what = "the client is busy: see \"culvert settings\" in a moment";
                return Err(Failure::new(Exit::Failed, what));
            }
            sleep(POLL_INTERVAL).await;
            answer = ask_status(socket).await;
        }
    }
}

/// The settings of a client that has some.
fn settings_of(status: Status) -> Result<SettingsStatus, Failure> {
    let why = match status.service.control {
        Control::Token => {
            "this client was started with a token, and its options are its settings: an administrator changes those"
        }
        Control::Commands => "this client is older than its settings: restart it",
    };
    let settings = status.service.settings;
    settings.ok_or_else(|| Failure::new(Exit::Failed, why))
}

fn holds(change: SettingsChange, settings: &SettingsStatus) -> bool {
    change.dns.is_none_or(|dns| dns == settings.dns)
}

fn line(settings: &SettingsStatus) -> String {
    match settings.dns {
        true => "dns  on   the system asks the client for names while it is connected\n".to_owned(),
        false => "dns  off  the system does not ask the client for names\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::table::tests::status;
    use culvert_client::status::ServiceStatus;

    fn told(control: Control, dns: Option<bool>) -> Status {
        let service = ServiceStatus {
            control,
            settings: dns.map(|dns| SettingsStatus { dns }),
            ..ServiceStatus::default()
        };
        Status {
            service,
            ..status()
        }
    }

    #[test]
    fn a_client_without_settings_says_who_changes_them() {
        let refused = |control| settings_of(told(control, None)).unwrap_err().to_string();
        assert!(refused(Control::Token).contains("an administrator changes those"));
        assert!(refused(Control::Commands).contains("restart it"));
        let settings = settings_of(told(Control::Commands, Some(false))).unwrap();
        assert!(!settings.dns);
    }

    #[test]
    fn a_change_holds_once_the_client_says_so() {
        let off = SettingsChange { dns: Some(false) };
        assert!(!holds(off, &SettingsStatus { dns: true }));
        assert!(holds(off, &SettingsStatus { dns: false }));
        assert!(holds(
            SettingsChange::default(),
            &SettingsStatus { dns: false }
        ));
    }
}
