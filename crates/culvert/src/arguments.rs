//! The command line: every option, its environment variable, and the help that teaches them.

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
use crate::resources::ResourcesArguments;
use crate::run;
use crate::status::StatusArguments;
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use culvert_aead::Suite;
use culvert_datapath::Mechanism;
use culvert_uapi::{InterfaceName, cipher_name, parse_cipher};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use tracing_subscriber::filter::LevelFilter;

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

/// An address and a port to listen on.
pub(crate) fn socket_address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let example = "such as 127.0.0.1:8443, or [::]:8443 for every address";
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    let is_port = port.parse::<u16>().is_ok();
    Err(if let Ok(address) = bare.parse::<IpAddr>() {
        let address = SocketAddr::new(address, 8443).to_string();
        let address = address.trim_end_matches("8443");
        format!("the port is missing: write {address}PORT")
    } else if is_port && host.is_empty() {
        format!("that is a port alone: write 127.0.0.1:{port}, or [::]:{port} for every address")
    } else if is_port && host.parse::<IpAddr>().is_ok() {
        format!("write an IPv6 address in brackets: [{host}]:{port}")
    } else if is_port {
        format!("{host:?} is no address: write an address of this machine and no name, {example}")
    } else {
        format!("write an address and a port, {example}")
    })
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Wg(WgArguments),
    Portal(PortalArguments),
    Client(ClientArguments),
    Gateway(GatewayArguments),
    Status(StatusArguments),
    Resources(ResourcesArguments),
    Ping(PingArguments),
    Netcheck(NetcheckArguments),
    Up(UpArguments),
    Down(DownArguments),
    SignIn(SignInArguments),
    SignOut(SignOutArguments),
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

/// Run an interface as a userspace WireGuard, or show one
///
/// Creates the interface NAME and serves /var/run/wireguard/NAME.sock, so that wg, wg-quick and
/// every tool that configures a userspace WireGuard work with it unchanged. Goes into the
/// background once the interface is ready; ends when the interface or the socket is deleted, or on
/// SIGTERM or SIGINT.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = WG_EXIT_STATUS,
    after_long_help = WG_EXAMPLES
)]
pub(crate) struct WgArguments {
    #[command(subcommand)]
    pub(crate) command: Option<WgCommand>,
    #[command(flatten)]
    pub(crate) run: RunArguments,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WgCommand {
    Show(ShowArguments),
}

/// Show peers, throughput, batches, drops and offloads of running interfaces
///
/// Throughput is that of the half second in which the command runs (with --watch, that of the
/// interval). "culvert wg show" shows every Culvert interface of this machine.
#[derive(Debug, Args)]
#[command(after_help = SHOW_EXAMPLES)]
pub(crate) struct ShowArguments {
    /// The interface; all of them without it
    pub(crate) name: Option<InterfaceName>,
    /// Print one line of JSON with a schema_version: totals since the start, no throughput
    #[arg(long)]
    pub(crate) json: bool,
    /// Print again every SECONDS (2 without a number) until interrupted
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "2",
        value_parser = clap::value_parser!(u32).range(1..=86_400)
    )]
    pub(crate) watch: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    // There is none when a subcommand stands in its place: environment variables of the options
    // below must not get in the way of that.
    /// The name of the interface to create, at most 15 bytes
    #[arg(required = true)]
    pub(crate) name: Option<InterfaceName>,

    /// Stay in the foreground
    ///
    /// WG_PROCESS_FOREGROUND=1, which wireguard-go knows, does the same.
    #[arg(short, long, env = "CULVERT_FOREGROUND", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(crate) foreground: bool,

    /// Packet workers (threads); 1 with up to two processors, beyond that half of them, at most 4
    #[arg(long, value_name = "N", env = "CULVERT_WORKERS", value_parser = worker_count)]
    pub(crate) workers: Option<usize>,

    /// MTU to start with, in bytes; "ip link set mtu" changes it at any time
    #[arg(long, value_name = "N", env = "CULVERT_MTU", default_value_t = DEFAULT_MTU, value_parser = clap::value_parser!(u16).range(i64::from(MIN_MTU)..=i64::from(MAX_MTU)))]
    pub(crate) mtu: u16,

    /// Exchange single packets with the host instead of TCP and UDP superframes
    #[arg(long, env = "CULVERT_NO_OFFLOAD", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(crate) no_offload: bool,

    /// Send and receive single datagrams instead of segmented batches
    #[arg(long, env = "CULVERT_NO_GSO", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(crate) no_gso: bool,

    /// Leave these mechanisms out
    ///
    /// Each makes the road faster; without one, the same packets pass. For hosts whose kernel or
    /// network card has a fault in it, and to find out what it is worth.
    #[arg(
        long,
        value_name = "MECHANISM",
        env = "CULVERT_WITHOUT",
        value_enum,
        value_delimiter = ','
    )]
    pub(crate) without: Vec<LeftOut>,

    /// Cipher of peers that are not given one of their own
    ///
    /// Both ends must choose the same, or no handshake completes. Plain WireGuard is
    /// chacha20poly1305; aes256gcm is for two Culvert ends. The configuration socket can change it
    /// (cipher=…), for the interface or for one peer.
    #[arg(long, env = "CULVERT_CIPHER", value_enum, default_value_t = Cipher::default())]
    pub(crate) cipher: Cipher,

    /// Serve Prometheus metrics at http://ADDR/metrics, for example 127.0.0.1:9586
    ///
    /// They name peers by public key. There is no authentication: bind to an address that only the
    /// collector reaches.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_METRICS", value_parser = socket_address)]
    pub(crate) metrics: Option<SocketAddr>,

    /// Log level: info in the foreground or with --log-file, otherwise warn
    ///
    /// LOG_LEVEL (verbose, debug, error or silent), which wireguard-go knows, counts where neither
    /// this nor CULVERT_LOG_LEVEL is given.
    #[arg(long, value_name = "LEVEL", env = "CULVERT_LOG_LEVEL", value_enum)]
    pub(crate) log_level: Option<LogLevel>,

    /// Append the log to FILE instead of writing it to standard error
    ///
    /// In the background it is the only log: standard error is closed once the interface is ready.
    #[arg(long, value_name = "FILE", env = "CULVERT_LOG_FILE")]
    pub(crate) log_file: Option<PathBuf>,
}

/// The default MTU of the kernel's WireGuard: 1500 bytes less the headers of IPv6, UDP and
/// WireGuard, and 8 to spare for PPPoE.
pub(crate) const DEFAULT_MTU: u16 = 1420;
/// Every IPv4 host takes datagrams of 576 bytes (RFC 791); IPv6 inside needs 1280.
const MIN_MTU: u16 = 576;
/// The largest UDP payload over IPv4, 65507, less 32 bytes of WireGuard's data message.
const MAX_MTU: u16 = 65_475;

/// A mechanism by its name on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftOut(pub(crate) Mechanism);

impl ValueEnum for LeftOut {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [LeftOut; Mechanism::ALL.len()] = {
            let mut all = [LeftOut(Mechanism::Steering); Mechanism::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = LeftOut(Mechanism::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        let value = clap::builder::PossibleValue::new(self.0.name()).help(self.0.about());
        Some(value.aliases(self.0.former_name()))
    }
}

/// A cipher suite by its name on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cipher(pub(crate) Suite);

impl ValueEnum for Cipher {
    fn value_variants<'a>() -> &'a [Self] {
        &[Self(Suite::ChaCha20Poly1305), Self(Suite::Aes256Gcm)]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(cipher_name(self.0)))
    }

    fn from_str(word: &str, _ignore_case: bool) -> Result<Self, String> {
        parse_cipher(word)
            .map(Self)
            .ok_or_else(|| "no such cipher".to_owned())
    }
}

/// The amount that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The level that `LOG_LEVEL` names in wireguard-go's words; it ignores others as well.
    pub(crate) fn of_wireguard_go(word: &str) -> Option<Self> {
        match word {
            "verbose" | "debug" => Some(Self::Debug),
            "error" => Some(Self::Error),
            "silent" => Some(Self::Off),
            _ => None,
        }
    }
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

pub(crate) fn worker_count(text: &str) -> Result<usize, String> {
    let most = culvert_engine::MAX_WORKERS;
    match text.parse() {
        Ok(count) if (1..=most).contains(&count) => Ok(count),
        _ => Err(format!("it must be a number from 1 to {most}")),
    }
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

const WG_EXIT_STATUS: &str = "\
Exit status:
  0  done, or the interface ended as asked
  1  something failed
  2  the command line is wrong
  3  a permission is missing (CAP_NET_ADMIN, /dev/net/tun, the configuration socket)
  4  the interface name or the port is in use";

const WG_EXAMPLES: &str = "\
Examples:
  Create wg0 in the background and configure it as any WireGuard:
    culvert wg wg0
    wg setconf wg0 /etc/wireguard/wg0.conf
    ip address add 10.0.0.1/24 dev wg0
    ip link set wg0 up

  Let wg-quick use it:
    ln -s /usr/bin/culvert /usr/local/bin/culvert-wg
    WG_QUICK_USERSPACE_IMPLEMENTATION=culvert-wg wg-quick up wg0

  Under a service manager, with metrics:
    culvert wg --foreground wg0 --metrics 127.0.0.1:9586

  Between two Culvert ends with AES in hardware:
    culvert wg --cipher aes256gcm wg0

  See what it does:
    culvert wg show wg0

  An interface that is itself called \"show\":
    culvert wg -- show

Exit status:
  0  done, or the interface ended as asked
  1  something failed
  2  the command line is wrong
  3  a permission is missing (CAP_NET_ADMIN, /dev/net/tun, the configuration socket)
  4  the interface name or the port is in use";

const SHOW_EXAMPLES: &str = "\
Examples:
  culvert wg show
  culvert wg show wg0 --watch=1
  culvert wg show wg0 --json | jq '.drops[] | select(.count > 0)'

Exit status:
  0  done
  1  something failed, or nobody serves the interface
  2  the command line is wrong
  3  the configuration socket may not be used";

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

    #[test]
    fn what_is_no_socket_address_is_answered_with_one_that_is() {
        for (wrong, right) in [
            ("8443", "127.0.0.1:8443"),
            (":8443", "[::]:8443"),
            ("localhost:8444", "127.0.0.1:8443"),
            ("127.0.0.1", "127.0.0.1:PORT"),
            ("::1", "[::1]:PORT"),
            ("[::1]", "[::1]:PORT"),
            ("fe80:::8443", "[fe80::]:8443"),
            ("*:80", "[::]:8443"),
            ("127.0.0.1:99999", "127.0.0.1:8443"),
            ("", "127.0.0.1:8443"),
        ] {
            let error = socket_address(wrong).unwrap_err();
            assert!(error.contains(right), "{wrong:?}: {error}");
        }
        for line in [
            &["portal", "run", "--listen", "8443"][..],
            &["portal", "run", "--metrics", "9587"],
            &["client", "run", "--health", "9589"],
            &["client", "run", "--dns-listen", "53"],
            &["gateway", "run", "--health", "9588"],
            &["gateway", "run", "--metrics", "9588"],
            &["wg", "wg0", "--metrics", "9586"],
        ] {
            let words = ["culvert"].iter().chain(line).map(Into::into);
            let error = Arguments::of(words).unwrap_err().to_string();
            assert!(error.contains("127.0.0.1:"), "{line:?}: {error}");
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
        use culvert_console::machine_commands::{CLIENT, GATEWAY, RESOURCES};
        for command in [GATEWAY, CLIENT, RESOURCES] {
            let words: Vec<_> = command.split_whitespace().collect();
            let Some((&"sudo", words)) = words.split_first() else {
                panic!("{command}");
            };
            parse(words);
        }
    }

    #[test]
    fn words_of_wireguard_go_name_levels() {
        assert_eq!(LogLevel::of_wireguard_go("verbose"), Some(LogLevel::Debug));
        assert_eq!(LogLevel::of_wireguard_go("silent"), Some(LogLevel::Off));
        assert_eq!(LogLevel::of_wireguard_go("loud"), None);
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
