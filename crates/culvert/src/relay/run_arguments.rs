//! The options of `culvert relay run`.

use crate::log_level::LogLevel;
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args};
use culvert_relay::{PortRange, TlsListen};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The default path of the socket on which a relay answers `culvert relay status`.
pub(crate) const DEFAULT_STATUS_SOCKET: &str = "/run/culvert/relay.sock";

/// Run the relay
///
/// Forwards the encrypted records of clients and gateways that cannot reach each other, because both are behind NAT or
/// a firewall. It has no key of theirs: it can read and change nothing. It connects to the portal that its token names,
/// and forwards between ends with a token of that portal alone. Ends must reach its UDP ports. It runs in the
/// foreground until SIGTERM or SIGINT; a portal that cannot be reached is tried again for ever, and ends go on until
/// their tokens expire. SIGUSR1 makes it drain: no new ends come, and those that are there stay; SIGUSR1 again ends
/// that. "culvert relay status" shows what it does.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = RUN_EXAMPLES)]
pub(crate) struct RunArguments {
    /// A file with any of the options below [default: /etc/culvert/relay.toml, where there is one]
    ///
    /// Its keys are the options' names with "_" for "-". Flags and environment variables go before it.
    #[arg(long, value_name = "FILE", env = "CULVERT_RELAY_CONFIG")]
    pub(super) config: Option<PathBuf>,

    /// The file with the relay's token, mode 0600 [default: /etc/culvert/relay-token]
    ///
    /// Without it, CULVERT_TOKEN may hold the token itself, or systemd may hand it over as the
    /// credential "token" (LoadCredential=token:FILE).
    #[arg(long, value_name = "FILE", env = "CULVERT_RELAY_TOKEN_FILE")]
    pub(super) token_file: Option<PathBuf>,

    /// Main UDP port, at which ends learn their address from outside
    #[arg(long, value_name = "PORT", env = "CULVERT_RELAY_PORT", default_value_t = 3_478, value_parser = crate::whole_number::whole_number(1..=u16::MAX))]
    pub(super) port: u16,

    /// UDP ports of gateways, one for each gateway that uses the relay; at most 1024
    ///
    /// A firewall in front of the relay must let them through, beside --port.
    #[arg(
        long,
        value_name = "FIRST-LAST",
        env = "CULVERT_RELAY_GATEWAY_PORTS",
        default_value = "3479-3542"
    )]
    pub(super) gateway_ports: PortRange,

    /// Address at which ends reach it, instead of those of its interfaces; may be repeated
    ///
    /// For a machine whose public address is not its own, as in most clouds. At most 8 count.
    #[arg(
        long,
        value_name = "IP",
        env = "CULVERT_RELAY_ADDRESS",
        value_delimiter = ','
    )]
    pub(super) address: Vec<IpAddr>,

    /// TCP port for TLS, or ADDR:PORT, or "off" [default: 443 where it can be had]
    ///
    /// Ends whose networks block UDP reach the relay there. Port 443 takes CAP_NET_BIND_SERVICE.
    #[arg(long, value_name = "PORT", env = "CULVERT_RELAY_TLS")]
    pub(super) tls: Option<TlsListen>,

    /// The certificate for TLS, in PEM, with the chain behind it [default: its own]
    ///
    /// Ends know it by its hash, which the portal tells them: neither its name nor its dates matter. It is read at the
    /// start.
    #[arg(
        long,
        value_name = "FILE",
        env = "CULVERT_RELAY_TLS_CERT",
        requires = "tls_key"
    )]
    pub(super) tls_cert: Option<PathBuf>,

    /// The private key of --tls-cert, in PEM
    #[arg(
        long,
        value_name = "FILE",
        env = "CULVERT_RELAY_TLS_KEY",
        requires = "tls_cert"
    )]
    pub(super) tls_key: Option<PathBuf>,

    /// Threads that carry records, each with a share of the gateway ports
    #[arg(long, value_name = "N", env = "CULVERT_RELAY_WORKERS", value_parser = crate::workers::worker_count)]
    pub(super) workers: Option<usize>,

    /// The most that it forwards in all, in megabits a second [default: no limit]
    ///
    /// More than that is dropped. Each end has a limit of its own too, which the portal sets.
    #[arg(long, value_name = "MBIT", env = "CULVERT_RELAY_RATE", value_parser = crate::whole_number::whole_number(1..=1_000_000_u32))]
    pub(super) rate: Option<u32>,

    /// Directory of the machine's id; nobody else may enter it
    #[arg(
        long,
        value_name = "DIR",
        env = "CULVERT_RELAY_STATE_DIR",
        default_value = "/var/lib/culvert/relay"
    )]
    pub(super) state_dir: PathBuf,

    /// Become that user once it has started as root, and keep none of root's rights
    ///
    /// The state directory must be that user's; where there is none, it is made so.
    #[arg(long, value_name = "NAME", env = "CULVERT_RELAY_USER")]
    pub(super) user: Option<String>,

    /// Display name of the machine [default: its host name]
    #[arg(long, value_name = "TEXT", env = "CULVERT_RELAY_NAME")]
    pub(super) name: Option<String>,

    /// The machine's id, instead of the one in the state directory
    ///
    /// It says which relay this is: two machines must not have the same one.
    #[arg(long, value_name = "ID", env = "CULVERT_RELAY_ID")]
    pub(super) id: Option<String>,

    /// Socket that answers "culvert relay status"
    #[arg(
        long,
        value_name = "PATH",
        env = "CULVERT_RELAY_STATUS_SOCKET",
        default_value = DEFAULT_STATUS_SOCKET
    )]
    pub(super) status_socket: PathBuf,

    /// Serve http://ADDR/healthz and /readyz, for example on 127.0.0.1:9590
    ///
    /// /healthz is 200 while the relay works. /readyz is 200 while ends may be sent to it: it does not drain, and the
    /// portal has welcomed it once.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_RELAY_HEALTH", value_parser = crate::listen_address::listen_address)]
    pub(super) health: Option<SocketAddr>,

    /// Serve Prometheus metrics at http://ADDR/metrics; it may be the address of --health
    ///
    /// They name gateways by their ids. There is no authentication: bind to an address that only the
    /// collector reaches.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_RELAY_METRICS", value_parser = crate::listen_address::listen_address)]
    pub(super) metrics: Option<SocketAddr>,

    /// HTTP proxy by which it connects to the portal
    ///
    /// The proxy must allow CONNECT. It looks up the portal's name. Records that are forwarded never go through it.
    #[arg(long, value_name = "http://HOST:PORT", env = "CULVERT_RELAY_PROXY")]
    pub(super) proxy: Option<String>,

    /// The file with USER:PASSWORD for the proxy, mode 0600 [default: /etc/culvert/proxy-credentials, where there is one]
    ///
    /// Without it, systemd may hand it over as the credential "proxy-credentials"
    /// (LoadCredential=proxy-credentials:FILE).
    #[arg(
        long,
        value_name = "FILE",
        env = "CULVERT_RELAY_PROXY_CREDENTIALS_FILE"
    )]
    pub(super) proxy_credentials_file: Option<PathBuf>,

    /// End with status 4 if the portal cannot be reached at the start
    #[arg(long, env = "CULVERT_RELAY_EXIT_WHEN_UNREACHABLE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(super) exit_when_unreachable: bool,

    /// Leave files and system calls open to it that it does not need
    ///
    /// Otherwise it closes them to itself before it begins, as far as the kernel can.
    #[arg(long, env = "CULVERT_RELAY_NO_SANDBOX", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    pub(super) no_sandbox: bool,

    /// Log into files of DIR, one a day, instead of to standard error
    ///
    /// The last 14 are kept. DIR is made where it is missing; nobody else may write to it.
    #[arg(long, value_name = "DIR", env = "CULVERT_RELAY_LOG_DIR")]
    pub(super) log_dir: Option<PathBuf>,

    /// Log level
    #[arg(
        long,
        value_name = "LEVEL",
        env = "CULVERT_RELAY_LOG_LEVEL",
        value_enum,
        default_value_t = LogLevel::Info
    )]
    pub(super) log_level: LogLevel,
}

pub(super) const EXIT_STATUS: &str = "\
Exit status:
  0  the relay ended as asked
  1  something failed
  2  the command line or the configuration file is wrong
  3  not enrolled: there is no token, or the portal refuses it
  4  the portal cannot be reached (with --exit-when-unreachable)
  5  an administrator has revoked this relay";

const RUN_EXAMPLES: &str = "\
Examples:
  With a token from the portal's administrator:
    install -m 600 -D /dev/stdin /etc/culvert/relay-token   # paste the token, then Ctrl-D
    culvert relay run

  On a machine of a cloud, whose public address is not its own:
    culvert relay run --address 203.0.113.7

  Beside a portal that has port 443 of this machine:
    culvert relay run --tls 8443

  With fewer ports to open in a firewall, and 500 Mbit/s at most:
    culvert relay run --gateway-ports 3479-3486 --rate 500

  End its work without breaking connections:
    systemctl kill -s USR1 culvert-relay

Exit status:
  0  the relay ended as asked
  1  something failed
  2  the command line or the configuration file is wrong
  3  not enrolled: there is no token, or the portal refuses it
  4  the portal cannot be reached (with --exit-when-unreachable)
  5  an administrator has revoked this relay";
