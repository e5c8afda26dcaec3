//! The options of `culvert client run`.

use crate::log_level::LogLevel;
use crate::routing_numbers::{mark, table};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, ValueEnum};
use culvert_client::{DnsScope, Upstream};
use culvert_host::{InterfaceName, Mark, ResolverChoice, ResolverMode, Table};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The default path of the socket on which a client answers `culvert status` and takes commands.
pub(crate) const DEFAULT_STATUS_SOCKET: &str = "/run/culvert/culvert.sock";

/// Run the client
///
/// Connects to the portal that its token names, brings up the tunnel's interface, leads resources into
/// it and answers their names on port 53 of its addresses, where the system then asks for them. Access is
/// asked for with the first packet or query. It runs in the foreground until SIGTERM or SIGINT; a portal
/// that cannot be reached is tried again for ever. When the client ends as asked, the host is as it was;
/// when it crashes, resources are unreachable until it runs again. "culvert status" shows what it does.
///
/// If there is no token, it changes nothing and waits at its socket for "culvert sign-in", "up", "down"
/// and "sign-out", and comes back after a restart as it was.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = RUN_EXAMPLES)]
pub(crate) struct RunArguments {
    /// A file with any of the options below [default: /etc/culvert/client.toml, where there is one]
    ///
    /// Its keys are the options' names with "_" for "-". Flags and environment variables go before it.
    #[arg(long, value_name = "FILE", env = "CULVERT_CLIENT_CONFIG")]
    pub(super) config: Option<PathBuf>,

    /// The file with the client's token, mode 0600 [default: /etc/culvert/token]
    ///
    /// Without it, CULVERT_TOKEN may hold the token itself, or systemd may hand it over as the
    /// credential "token" (LoadCredential=token:FILE). A file that is named must be there.
    #[arg(long, value_name = "FILE", env = "CULVERT_CLIENT_TOKEN_FILE")]
    pub(super) token_file: Option<PathBuf>,

    /// The name of the tunnel's interface
    #[arg(
        long,
        value_name = "NAME",
        env = "CULVERT_CLIENT_INTERFACE",
        default_value = "culvert0"
    )]
    pub(super) interface: InterfaceName,

    /// Directory of the machine's id and key; nobody else may enter it
    #[arg(
        long,
        value_name = "DIR",
        env = "CULVERT_CLIENT_STATE_DIR",
        default_value = "/var/lib/culvert/client"
    )]
    pub(super) state_dir: PathBuf,

    /// Become that user once it has started as root, and keep CAP_NET_ADMIN of root's rights
    ///
    /// CAP_BPF, for the tunnel's queues, and CAP_NET_BIND_SERVICE, for port 53, stay too. The state
    /// directory must be that user's; where there is none, it is made so.
    #[arg(long, value_name = "NAME", env = "CULVERT_CLIENT_USER")]
    pub(super) user: Option<String>,

    /// Display name of the machine [default: its host name]
    #[arg(long, value_name = "TEXT", env = "CULVERT_CLIENT_NAME")]
    pub(super) name: Option<String>,

    /// The machine's id, instead of the one in the state directory
    ///
    /// With the token's owner it says which client this is: two machines must not have the same one.
    #[arg(long, value_name = "ID", env = "CULVERT_CLIENT_ID")]
    pub(super) id: Option<String>,

    /// MTU of the interface, in bytes
    #[arg(long, value_name = "N", env = "CULVERT_CLIENT_MTU", default_value_t = crate::wg::DEFAULT_MTU, value_parser = crate::whole_number::whole_number(1_280..=65_475_u16))]
    pub(super) mtu: u16,

    /// Packet workers (threads)
    #[arg(long, value_name = "N", env = "CULVERT_CLIENT_WORKERS", value_parser = crate::workers::worker_count)]
    pub(super) workers: Option<usize>,

    /// Mark of the packets that carry the tunnel, so that they stay out of it
    #[arg(long, value_name = "N", env = "CULVERT_CLIENT_MARK", value_parser = mark)]
    pub(super) mark: Option<Mark>,

    /// Routing table for resources; the next number is taken too, for routes to everywhere
    #[arg(long, value_name = "N", env = "CULVERT_CLIENT_TABLE", value_parser = table)]
    pub(super) table: Option<Table>,

    /// Method by which the system is set to ask the client for names of resources
    #[arg(
        long,
        value_name = "MODE",
        env = "CULVERT_CLIENT_DNS",
        value_enum,
        default_value_t = DnsMode::Auto
    )]
    pub(super) dns: DnsMode,

    /// For which names the system asks the client, where it can tell names apart
    ///
    /// systemd-resolved asks different resolvers for different names. With "split" it asks the
    /// client for names of resources, and for those in domains that the portal's administrator has
    /// set ("culvert admin dns"). All other names it asks as before. With "all" it asks the client
    /// for every name. The client then asks the servers that the system used before, or those that
    /// the administrator or --dns-upstream names: nothing is asked past the tunnel by other
    /// interfaces. resolvconf and /etc/resolv.conf can't tell names apart: there it is always every
    /// name.
    #[arg(
        long,
        value_name = "NAMES",
        env = "CULVERT_CLIENT_DNS_SCOPE",
        value_enum,
        default_value_t = DnsNames::Split
    )]
    pub(super) dns_scope: DnsNames,

    /// Answer DNS at ADDR:PORT as well, for anyone who reaches it; may be repeated
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "CULVERT_CLIENT_DNS_LISTEN",
        value_delimiter = ',',
        value_parser = crate::listen_address::listen_address
    )]
    pub(super) dns_listen: Vec<SocketAddr>,

    /// Ask this resolver for names that are no resource; may be repeated
    ///
    /// With a name behind #, it is asked over TLS and never in the clear, on port 853 unless another is given;
    /// the system's certificate authorities must vouch for that name: 9.9.9.9#dns.quad9.net.
    /// Without any, those are asked that the system asked before; with --dns off, such names are refused.
    /// Domains for which the portal's administrator has set servers are asked of those.
    #[arg(
        long,
        value_name = "ADDR[:PORT][#NAME]",
        env = "CULVERT_CLIENT_DNS_UPSTREAM",
        value_delimiter = ','
    )]
    pub(super) dns_upstream: Vec<Upstream>,

    /// Socket that answers "culvert status" and takes commands
    #[arg(
        long,
        value_name = "PATH",
        env = "CULVERT_CLIENT_STATUS_SOCKET",
        default_value = DEFAULT_STATUS_SOCKET
    )]
    pub(super) status_socket: PathBuf,

    /// Serve http://ADDR/healthz, /readyz and /metrics, for example on 127.0.0.1:9589
    ///
    /// /healthz is 200 while the client works. /readyz is 200 while it can carry packets for
    /// resources: interface and routes are up, and the portal has welcomed it or it goes on with
    /// access that it was given. /metrics are those of Prometheus. There is no authentication: bind
    /// to an address that only supervisor and collector reach.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_CLIENT_HEALTH", value_parser = crate::listen_address::listen_address)]
    pub(super) health: Option<SocketAddr>,

    /// HTTP proxy by which it connects to the portal, and to relays by TLS,
    ///
    /// The proxy must allow CONNECT, and looks up names. The tunnel goes through it only in a TLS stream to a relay.
    #[arg(long, value_name = "http://HOST:PORT", env = "CULVERT_CLIENT_PROXY")]
    pub(super) proxy: Option<String>,

    /// The file with USER:PASSWORD for the proxy, mode 0600 [default: /etc/culvert/proxy-credentials, where there is one]
    ///
    /// Without it, systemd may hand it over as the credential "proxy-credentials"
    /// (LoadCredential=proxy-credentials:FILE).
    #[arg(
        long,
        value_name = "FILE",
        env = "CULVERT_CLIENT_PROXY_CREDENTIALS_FILE"
    )]
    pub(super) proxy_credentials_file: Option<PathBuf>,

    /// End with status 4 if the portal cannot be reached at the start
    #[arg(long, env = "CULVERT_CLIENT_EXIT_WHEN_UNREACHABLE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(super) exit_when_unreachable: bool,

    /// Leave files and system calls open to it that it does not need
    ///
    /// Otherwise it closes them to itself before it begins, as far as the kernel can.
    #[arg(long, env = "CULVERT_CLIENT_NO_SANDBOX", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(super) no_sandbox: bool,

    /// Log into files of DIR, one a day, instead of to standard error
    ///
    /// The last 14 are kept. DIR is made where it is missing; nobody else may write to it.
    #[arg(long, value_name = "DIR", env = "CULVERT_CLIENT_LOG_DIR")]
    pub(super) log_dir: Option<PathBuf>,

    /// Log level
    #[arg(
        long,
        value_name = "LEVEL",
        env = "CULVERT_CLIENT_LOG_LEVEL",
        value_enum,
        default_value_t = LogLevel::Info
    )]
    pub(super) log_level: LogLevel,
}

/// The method by which the system's resolver is pointed at the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DnsMode {
    /// The method that fits the machine
    Auto,
    /// systemd-resolved, for the domains of resources
    Resolved,
    /// The program resolvconf
    Resolvconf,
    /// /etc/resolv.conf, which is put back at the end
    File,
    /// Not at all
    Off,
}

impl From<DnsMode> for ResolverChoice {
    fn from(mode: DnsMode) -> Self {
        match mode {
            DnsMode::Auto => Self::Auto,
            DnsMode::Resolved => Self::Mode(ResolverMode::Resolved),
            DnsMode::Resolvconf => Self::Mode(ResolverMode::Resolvconf),
            DnsMode::File => Self::Mode(ResolverMode::File),
            DnsMode::Off => Self::Mode(ResolverMode::Off),
        }
    }
}

/// For which names the system asks the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum DnsNames {
    /// Names of resources, and domains that the administrator has set
    Split,
    /// Every name
    All,
}

impl From<DnsNames> for DnsScope {
    fn from(names: DnsNames) -> Self {
        match names {
            DnsNames::Split => Self::Split,
            DnsNames::All => Self::All,
        }
    }
}

pub(super) const EXIT_STATUS: &str = "\
Exit status:
  0  the client ended as asked
  1  something failed
  2  the command line or the configuration file is wrong
  3  not enrolled: the token is not where it was said to be, is no good, or the portal refuses it
  4  the portal cannot be reached (with --exit-when-unreachable)
  5  an administrator has revoked this client";

const RUN_EXAMPLES: &str = "\
Examples:
  With a token from the portal's administrator:
    install -m 600 -D /dev/stdin /etc/culvert/token   # paste the token, then Ctrl-D
    culvert client run

  Without one, have people sign in by tokens of their own:
    culvert client run
    culvert sign-in

  Without a change to the system's resolver, ask for a name of a resource:
    culvert client run --dns off
    dig @$(culvert status --json | jq -r .ipv4) db.corp.example

  Have every name asked of the client, with systemd-resolved too:
    culvert client run --dns-scope all

  With health for a supervisor and metrics for a collector on the same machine:
    culvert client run --health 127.0.0.1:9589

Exit status:
  0  the client ended as asked
  1  something failed
  2  the command line or the configuration file is wrong
  3  not enrolled: the token is not where it was said to be, is no good, or the portal refuses it
  4  the portal cannot be reached (with --exit-when-unreachable)
  5  an administrator has revoked this client";
