//! The command line: the commands and the way to one of them. Each has its options beside it.

use crate::admin::AdminArguments;
use crate::client::ClientArguments;
use crate::commands::{DownArguments, SignInArguments, SignOutArguments, UpArguments};
use crate::config_file::ConfigFile;
use crate::debug::DebugArguments;
use crate::exit::{Failure, Status};
use crate::gateway::GatewayArguments;
use crate::help;
use crate::netcheck::NetcheckArguments;
use crate::ping::PingArguments;
use crate::portal::PortalArguments;
use crate::relay::RelayArguments;
use crate::resources::ResourcesArguments;
use crate::run;
use crate::settings::SettingsArguments;
use crate::status::StatusArguments;
use crate::wg::WgArguments;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The file name under which the program is `culvert wg`: for `wg-quick` and whatever else wants a
/// userspace WireGuard that takes just the name of an interface.
const LINK_NAME: &str = "culvert-wg";

/// A self-hosted zero-trust tunnel.
#[derive(Debug, Parser)]
#[command(
    name = "culvert",
    version,
    propagate_version = true,
    after_help = EXIT_STATUS,
    after_long_help = EXAMPLES,
    disable_help_subcommand = true,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// The command line in `arguments`, the program's name first. Started through a link named
    /// `culvert-wg`, it reads as `culvert wg …`.
    pub(crate) fn of(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut arguments: Vec<OsString> = arguments.into_iter().collect();
        let program = arguments.first().map(Path::new).and_then(Path::file_name);
        if program.is_some_and(|name| name == LINK_NAME) {
            arguments.insert(1, "wg".into());
        }
        let command = help::teach(Self::command());
        let arguments = help_as_option(&command, arguments);
        Self::parse_by(command, arguments)
    }

    /// The same with the values of the configuration file, where `arguments` start a service that has
    /// one, or do something for it.
    pub(crate) fn configured(
        self,
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, Failure> {
        let (role, configured) = match &self.command {
            Command::Client(client) => ("client", client.configured()),
            Command::Gateway(gateway) => ("gateway", gateway.configured()),
            Command::Relay(relay) => ("relay", relay.configured()),
            _ => return Ok(self),
        };
        let Some((name, named)) = configured else {
            return Ok(self);
        };
        let Some(file) = ConfigFile::read(role, named)? else {
            return Ok(self);
        };
        let mut command = Self::command();
        if let Some(role) = command.find_subcommand_mut(role)
            && let Some(run) = role.find_subcommand("run").cloned()
            && let Some(chosen) = role.find_subcommand_mut(name)
        {
            *chosen = file.configure(&run, chosen.clone())?;
        }
        Self::parse_by(command, arguments.into_iter().collect())
            .map_err(|error| Failure::new(Status::Usage, error))
    }

    fn parse_by(mut command: clap::Command, arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        let mut matches = command.try_get_matches_from_mut(arguments)?;
        Self::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }
}

/// Has the word `help` mean `--help`, wherever a command has others below it and takes no word of its own:
/// `admin help site` is `admin site --help`.
fn help_as_option(command: &clap::Command, mut arguments: Vec<OsString>) -> Vec<OsString> {
    let mut command = command;
    let mut at = 1;
    while let Some(word) = arguments.get(at).and_then(|word| word.to_str()) {
        if let Some(below) = command.find_subcommand(word) {
            command = below;
            at += 1;
        } else if word == "help"
            && command.has_subcommands()
            && command.get_positionals().next().is_none()
        {
            arguments.remove(at);
            arguments.push("--help".into());
            break;
        } else {
            break;
        }
    }
    arguments
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Wg(WgArguments),
    Portal(PortalArguments),
    Client(ClientArguments),
    Gateway(GatewayArguments),
    Relay(RelayArguments),
    Status(StatusArguments),
    Resources(ResourcesArguments),
    Ping(PingArguments),
    Netcheck(NetcheckArguments),
    Up(UpArguments),
    Down(DownArguments),
    SignIn(SignInArguments),
    SignOut(SignOutArguments),
    Settings(SettingsArguments),
    Run(run::RunArguments),
    Debug(DebugArguments),
    Admin(Box<AdminArguments>),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell to complete for
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command into a directory
    #[command(after_help = MAN_PAGES_EXAMPLES)]
    ManPages {
        /// The directory, which is there already
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

const EXIT_STATUS: &str = "\
Exit status:
  0  done, or what ran ended as asked
  1  something failed
  2  the command line is wrong
Others mean something else for each command: \"culvert COMMAND --help\" lists them.";

const EXAMPLES: &str = "\
Examples:
  A portal, a gateway beside a private network, and a client, each on a machine of its own:
    culvert portal run --state-dir ./portal
    culvert gateway run --enable-forwarding --token-file gateway.token
    culvert client run --token-file client.token

  Say who may use what, and make tokens:
    culvert admin --help

  See what the client on this machine does:
    culvert status

  A userspace WireGuard, and nothing else:
    culvert wg wg0

Exit status:
  0  done, or what ran ended as asked
  1  something failed
  2  the command line is wrong
Others mean something else for each command: \"culvert COMMAND --help\" lists them.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  culvert completions bash > /etc/bash_completion.d/culvert
  culvert completions zsh > /usr/share/zsh/site-functions/_culvert
  culvert completions fish > ~/.config/fish/completions/culvert.fish

Exit status:
  0  done
  1  something failed
  2  the command line is wrong";

const MAN_PAGES_EXAMPLES: &str = "\
Examples:
  culvert man-pages /usr/local/share/man/man1

Exit status:
  0  done
  1  something failed
  2  the command line is wrong";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wg::{RunArguments, WgCommand};
    use culvert_aead::Suite;

    #[test]
    fn every_option_with_an_address_says_how_to_write_one() {
        for line in [
            &["portal", "run", "--listen", "8443"][..],
            &["portal", "run", "--metrics", "9587"],
            &["client", "run", "--health", "9589"],
            &["client", "run", "--dns-listen", "53"],
            &["gateway", "run", "--health", "9588"],
            &["gateway", "run", "--metrics", "9588"],
            &["relay", "run", "--health", "9590"],
            &["wg", "wg0", "--metrics", "9586"],
        ] {
            let words = ["culvert"].iter().chain(line).map(Into::into);
            let error = Arguments::of(words).unwrap_err().to_string();
            assert!(error.contains("127.0.0.1:"), "{line:?}: {error}");
        }
    }

    #[test]
    fn a_number_that_is_none_is_said_in_plain_words() {
        for value in ["x", "99999999999999999999", ""] {
            for (line, wants) in [
                (
                    &["admin", "log", "access", "--limit", value][..],
                    "it must be a whole number from 1 to 100000",
                ),
                (
                    &[
                        "admin",
                        "site",
                        "set",
                        "a",
                        "--name",
                        "b",
                        "--if-version",
                        value,
                    ],
                    "it must be a version: a whole number",
                ),
                (
                    &["up", "--timeout", value],
                    "it must be a whole number from 1 to 3600",
                ),
            ] {
                let words = ["culvert"].iter().chain(line).map(Into::into);
                let error = Arguments::of(words).unwrap_err().to_string();
                let says = format!("invalid value '{value}' for '{} ", line[line.len() - 2]);
                assert!(error.contains(&says), "{error}");
                assert!(error.contains(wants), "{error}");
            }
        }
    }

    #[test]
    fn help_is_a_command_wherever_commands_are() {
        for (words, holds) in [
            (&["help"][..], "Usage: culvert <COMMAND>"),
            (&["help", "up"], "culvert up"),
            (&["help", "admin", "site"], "culvert admin site"),
            (&["admin", "help"], "culvert admin"),
            (
                &["admin", "help", "site", "create"],
                "culvert admin site create",
            ),
            (&["admin", "site", "help"], "culvert admin site"),
            (&["portal", "help", "run"], "culvert portal run"),
        ] {
            let words = ["culvert"].iter().chain(words).map(Into::into);
            let help = Arguments::of(words).unwrap_err();
            assert_eq!(help.kind(), clap::error::ErrorKind::DisplayHelp);
            assert!(help.to_string().contains(holds), "{help}");
        }
        // A name is a name.
        let words = ["culvert", "admin", "site", "show", "help"].map(Into::into);
        assert!(Arguments::of(words).is_ok());
    }

    #[test]
    fn the_command_line_is_consistent() {
        help::teach(Arguments::command()).debug_assert();
    }

    #[test]
    fn a_link_named_culvert_wg_takes_just_the_interface_name() {
        let run = run_of(&["/usr/local/bin/culvert-wg", "wg0"]);
        assert_eq!(name_of(&run), "wg0");
        assert!(!run.foreground);
        assert_eq!((run.mtu, run.cipher.0), (1420, Suite::ChaCha20Poly1305));
        assert!(run_of(&["culvert-wg", "-f", "wg0"]).foreground);
    }

    #[test]
    fn options_may_follow_the_name() {
        let run = run_of(&[
            "culvert",
            "wg",
            "wg0",
            "--cipher",
            "aes256gcm",
            "--workers=2",
            "--no-gso",
        ]);
        assert_eq!((run.cipher.0, run.workers), (Suite::Aes256Gcm, Some(2)));
        assert!(run.no_gso && !run.no_offload);
    }

    #[test]
    fn show_is_the_subcommand_and_two_dashes_make_it_a_name() {
        let Command::Wg(wg) = parse(&["culvert", "wg", "show", "wg0"]).command else {
            panic!("the wg command");
        };
        assert_eq!(wg.run.name, None);
        let Some(WgCommand::Show(show)) = wg.command else {
            panic!("the show command");
        };
        assert_eq!(show.name.unwrap().as_str(), "wg0");
        assert_eq!(name_of(&run_of(&["culvert", "wg", "--", "show"])), "show");
        assert_eq!(name_of(&run_of(&["culvert", "wg", "-f", "help"])), "help");
    }

    #[test]
    fn the_commands_that_the_console_gives_out_are_understood() {
        use culvert_console::machine_commands::{CLIENT, GATEWAY, RESOURCES, sign_in};
        use culvert_wire::token::{CertificatePin, Portal};
        let pin = Some(CertificatePin::of(b"certificate"));
        let signs_in = [None, pin].map(|pin| {
            let portal = Portal::new("https://portal.example:8443", pin).unwrap();
            sign_in(&portal)
        });
        let commands = [GATEWAY, CLIENT, RESOURCES];
        for command in commands
            .into_iter()
            .chain(signs_in.iter().map(|text| &**text))
        {
            let words: Vec<_> = command.split_whitespace().collect();
            let Some((&"sudo", words)) = words.split_first() else {
                panic!("{command}");
            };
            parse(words);
        }
    }

    fn parse(words: &[&str]) -> Arguments {
        Arguments::of(words.iter().map(Into::into)).unwrap()
    }

    fn run_of(words: &[&str]) -> RunArguments {
        let Command::Wg(wg) = parse(words).command else {
            panic!("the wg command");
        };
        assert!(wg.command.is_none());
        wg.run
    }

    fn name_of(run: &RunArguments) -> &str {
        run.name.as_ref().unwrap().as_str()
    }
}
