//! The options of `culvert gateway run`.

use crate::log_level::LogLevel;
use crate::routing_numbers::{mark, table};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};
use culvert_gateway::PublicEndpoint;
use culvert_host::{InterfaceName, Mark, Table};
use std::net::SocketAddr;
use std::path::PathBuf;

/// The default path of the socket on which a gateway answers `culvert gateway status`.
pub(crate) const DEFAULT_STATUS_SOCKET: &str = "/run/culvert/gateway.sock";

/// Run the gateway
///
/// Connects to the portal that its token names, and lets clients through to the resources of its site
/// as far as the portal's grants say: everything else is dropped. Clients reach its UDP port, or a
/// relay where it is behind NAT. It runs in the foreground until SIGTERM or SIGINT; a portal that cannot be reached is tried again for
/// ever, and grants go on until they expire. SIGUSR1 makes it drain: clients move to other gateways of
/// the site as their grants are renewed, or stay where there is none; SIGUSR1 again ends that. When the
/// gateway ends as asked, the host is as it was but for --enable-forwarding. "culvert gateway status"
/// shows what it does.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = RUN_EXAMPLES)]
pub(crate) struct RunArguments {
    /// A file with any of the options below [default: /etc/culvert/gateway.toml, where there is one]
    ///
    /// Its keys are the options' names with "_" for "-". Flags and environment variables go before it.
    #[arg(long, value_name = "FILE", env = "CULVERT_GATEWAY_CONFIG")]
    pub(super) config: Option<PathBuf>,

    /// The file with the gateway's token, mode 0600 [default: /etc/culvert/gateway-token]
    ///
    /// Without it, CULVERT_TOKEN may hold the token itself, or systemd may hand it over as the
    /// credential "token" (LoadCredential=token:FILE).
    #[arg(long, value_name = "FILE", env = "CULVERT_GATEWAY_TOKEN_FILE")]
    pub(super) token_file: Option<PathBuf>,

    /// The name of the tunnel's interface
    #[arg(
        long,
        value_name = "NAME",
        env = "CULVERT_GATEWAY_INTERFACE",
        default_value = "culvert-gw0"
    )]
    pub(super) interface: InterfaceName,

    /// Directory of the machine's id, its key and its grants; nobody else may enter it
    #[arg(
        long,
        value_name = "DIR",
        env = "CULVERT_GATEWAY_STATE_DIR",
        default_value = "/var/lib/culvert/gateway"
    )]
    pub(super) state_dir: PathBuf,

    /// Become that user once it has started as root, and keep CAP_NET_ADMIN of root's rights
    ///
    /// CAP_BPF, for the tunnel's queues, and CAP_NET_BIND_SERVICE, where --listen-port is below 1024, stay
    /// too. The state directory must be that user's; where there is none, it is made so.
    #[arg(long, value_name = "NAME", env = "CULVERT_GATEWAY_USER")]
    pub(super) user: Option<String>,

    /// Display name of the machine [default: its host name]
    #[arg(long, value_name = "TEXT", env = "CULVERT_GATEWAY_NAME")]
    pub(super) name: Option<String>,

    /// The machine's id, instead of the one in the state directory
    ///
    /// With the token's site it says which gateway this is: two machines must not have the same one.
    #[arg(long, value_name = "ID", env = "CULVERT_GATEWAY_ID")]
    pub(super) id: Option<String>,

    /// UDP port that clients send to
    #[arg(long, value_name = "PORT", env = "CULVERT_GATEWAY_LISTEN_PORT", default_value_t = 51_820, value_parser = crate::whole_number::whole_number(1..=u16::MAX))]
    pub(super) listen_port: u16,

    /// Address at which clients reach it, besides those of its interfaces; may be repeated
    ///
    /// For a gateway behind a router that forwards a port to it. A name is looked up again every
    /// minute.
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "CULVERT_GATEWAY_PUBLIC_ENDPOINT",
        value_delimiter = ','
    )]
    pub(super) public_endpoint: Vec<PublicEndpoint>,

    /// MTU of the interface, in bytes
    #[arg(long, value_name = "N", env = "CULVERT_GATEWAY_MTU", default_value_t = crate::wg::DEFAULT_MTU, value_parser = crate::whole_number::whole_number(1_280..=65_475_u16))]
    pub(super) mtu: u16,

    /// Packet workers (threads)
    #[arg(long, value_name = "N", env = "CULVERT_GATEWAY_WORKERS", value_parser = crate::workers::worker_count)]
    pub(super) workers: Option<usize>,

    /// Let resources see clients' own addresses instead of the gateway's
    ///
    /// The network behind the gateway must route the range of clients' addresses to it.
    #[arg(long, env = "CULVERT_GATEWAY_KEEP_SOURCE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(super) keep_source: bool,

    /// Let clients reach this host itself, as far as their grants allow it
    #[arg(long, env = "CULVERT_GATEWAY_HOST_ACCESS", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(super) host_access: bool,

    /// Switch the kernel's forwarding on where it is off
    #[arg(long, env = "CULVERT_GATEWAY_ENABLE_FORWARDING", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(super) enable_forwarding: bool,

    /// Mark of the packets that carry the tunnel
    #[arg(long, value_name = "N", env = "CULVERT_GATEWAY_MARK", value_parser = mark)]
    pub(super) mark: Option<Mark>,

    /// Routing table for clients; the next number is taken too
    #[arg(long, value_name = "N", env = "CULVERT_GATEWAY_TABLE", value_parser = table)]
    pub(super) table: Option<Table>,

    /// Socket that answers "culvert gateway status"
    #[arg(
        long,
        value_name = "PATH",
        env = "CULVERT_GATEWAY_STATUS_SOCKET",
        default_value = DEFAULT_STATUS_SOCKET
    )]
    pub(super) status_socket: PathBuf,

    /// Serve http://ADDR/healthz and /readyz, for example on 127.0.0.1:9588
    ///
    /// /healthz is 200 while the gateway works. /readyz is 200 while clients may be sent to it: it
    /// does not drain, and the portal has welcomed it or it goes on with grants that it holds.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_GATEWAY_HEALTH", value_parser = crate::listen_address::listen_address)]
    pub(super) health: Option<SocketAddr>,

    /// Serve Prometheus metrics at http://ADDR/metrics; it may be the address of --health
    ///
    /// They name clients by their ids. There is no authentication: bind to an address that only the
    /// collector reaches.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_GATEWAY_METRICS", value_parser = crate::listen_address::listen_address)]
    pub(super) metrics: Option<SocketAddr>,

    /// HTTP proxy by which it connects to the portal, and to relays by TLS,
    ///
    /// The proxy must allow CONNECT, and looks up names. The tunnel goes through it only in a TLS stream to a relay.
    #[arg(long, value_name = "http://HOST:PORT", env = "CULVERT_GATEWAY_PROXY")]
    pub(super) proxy: Option<String>,

    /// The file with USER:PASSWORD for the proxy, mode 0600 [default: /etc/culvert/proxy-credentials, where there is one]
    ///
    /// Without it, systemd may hand it over as the credential "proxy-credentials"
    /// (LoadCredential=proxy-credentials:FILE).
    #[arg(
        long,
        value_name = "FILE",
        env = "CULVERT_GATEWAY_PROXY_CREDENTIALS_FILE"
    )]
    pub(super) proxy_credentials_file: Option<PathBuf>,

    /// End with status 4 if the portal cannot be reached at the start
    #[arg(long, env = "CULVERT_GATEWAY_EXIT_WHEN_UNREACHABLE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(super) exit_when_unreachable: bool,

    /// Leave files and system calls open to it that it does not need
    ///
    /// Otherwise it closes them to itself before it begins, as far as the kernel can.
    #[arg(long, env = "CULVERT_GATEWAY_NO_SANDBOX", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(super) no_sandbox: bool,

    /// Log into files of DIR, one a day, instead of to standard error
    ///
    /// The last 14 are kept. DIR is made where it is missing; nobody else may write to it.
    #[arg(long, value_name = "DIR", env = "CULVERT_GATEWAY_LOG_DIR")]
    pub(super) log_dir: Option<PathBuf>,

    /// Log level
    #[arg(
        long,
        value_name = "LEVEL",
        env = "CULVERT_GATEWAY_LOG_LEVEL",
        value_enum,
        default_value_t = LogLevel::Info
    )]
    pub(super) log_level: LogLevel,
}

pub(super) const EXIT_STATUS: &str = "\
Exit status:
  0  the gateway ended as asked
  1  something failed
  2  the command line or the configuration file is wrong
  3  not enrolled: there is no token, or the portal refuses it
  4  the portal cannot be reached (with --exit-when-unreachable)
  5  an administrator has revoked this gateway";

const RUN_EXAMPLES: &str = "\
Examples:
  With a token from the portal's administrator:
    install -m 600 -D /dev/stdin /etc/culvert/gateway-token   # paste the token, then Ctrl-D
    culvert gateway run --enable-forwarding

  With health for a supervisor and metrics for a collector on the same machine:
    culvert gateway run --health 127.0.0.1:9588 --metrics 127.0.0.1:9588

  Behind a router that forwards UDP port 51820:
    culvert gateway run --public-endpoint gw.example:51820

  End its work without breaking connections:
    systemctl kill -s USR1 culvert-gateway

Exit status:
  0  the gateway ended as asked
  1  something failed
  2  the command line or the configuration file is wrong
  3  not enrolled: there is no token, or the portal refuses it
  4  the portal cannot be reached (with --exit-when-unreachable)
  5  an administrator has revoked this gateway";
