//! `culvert gateway`: a gateway from its start to its end.

mod clean_up;
mod metrics;
mod status;
mod table;

use crate::arguments::LogLevel;
use crate::confinement::Service;
use crate::end::told_to_end;
use crate::exit::{Failure, Status};
use crate::listeners::Listeners;
use crate::stored_descriptors::Store;
use crate::{logging, token_source};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, Subcommand};
use clean_up::CleanUpArguments;
use culvert_gateway::{Enrolment, GatewayError, PublicEndpoint, Settings};
use culvert_host::{
    HostAccess, HostError, InterfaceName, Mark, Routing, SourceAddress, SystemHelper, Table,
    observe,
};
use status::StatusArguments;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The default path of a gateway's token file.
const DEFAULT_TOKEN_FILE: &str = "/etc/culvert/gateway-token";

/// The default path of the socket on which a gateway answers `culvert gateway status`.
pub(crate) const DEFAULT_STATUS_SOCKET: &str = "/run/culvert/gateway.sock";

/// Threads besides the packet workers: one owns the gateway, the other carries what waits for the
/// network.
const RUNTIME_THREADS: usize = 2;

/// Lead clients to the resources beside this machine
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = EXIT_STATUS
)]
pub(crate) struct GatewayArguments {
    #[command(subcommand)]
    command: GatewayCommand,
}

#[derive(Debug, Subcommand)]
enum GatewayCommand {
    Run(Box<RunArguments>),
    Status(StatusArguments),
    Cleanup(CleanUpArguments),
}

/// Run the gateway
///
/// Connects to the portal that its token names, and lets clients through to the resources of its site
/// as far as the portal's grants say: everything else is dropped. Clients must reach its UDP port. It
/// runs in the foreground until SIGTERM or SIGINT; a portal that cannot be reached is tried again for
/// ever, and grants go on until they expire. SIGUSR1 makes it drain: clients move to other gateways of
/// the site as their grants are renewed, or stay where there is none; SIGUSR1 again ends that. When the
/// gateway ends as asked, the host is as it was but for --enable-forwarding. "culvert gateway status"
/// shows what it does.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = RUN_EXAMPLES)]
struct RunArguments {
    /// A file with any of the options below [default: /etc/culvert/gateway.toml, where there is one]
    ///
    /// Its keys are the options' names with "_" for "-". Flags and environment variables go before it.
    #[arg(long, value_name = "FILE", env = "CULVERT_GATEWAY_CONFIG")]
    config: Option<PathBuf>,

    /// The file with the gateway's token, mode 0600 [default: /etc/culvert/gateway-token]
    ///
    /// Without it, CULVERT_TOKEN may hold the token itself, or systemd may hand it over as the
    /// credential "token" (LoadCredential=token:FILE).
    #[arg(long, value_name = "FILE", env = "CULVERT_GATEWAY_TOKEN_FILE")]
    token_file: Option<PathBuf>,

    /// The name of the tunnel's interface
    #[arg(
        long,
        value_name = "NAME",
        env = "CULVERT_GATEWAY_INTERFACE",
        default_value = "culvert-gw0"
    )]
    interface: InterfaceName,

    /// Where the machine's id, its key and its grants are kept; nobody else may enter it
    #[arg(
        long,
        value_name = "DIR",
        env = "CULVERT_GATEWAY_STATE_DIR",
        default_value = "/var/lib/culvert/gateway"
    )]
    state_dir: PathBuf,

    /// Become that user once it has started as root, and keep CAP_NET_ADMIN of root's rights
    ///
    /// CAP_BPF, for the tunnel's queues, and CAP_NET_BIND_SERVICE, where --listen-port is below 1024, stay
    /// too. The state directory must be that user's; where there is none, it is made so.
    #[arg(long, value_name = "NAME", env = "CULVERT_GATEWAY_USER")]
    user: Option<String>,

    /// Display name of the machine [default: its host name]
    #[arg(long, value_name = "TEXT", env = "CULVERT_GATEWAY_NAME")]
    name: Option<String>,

    /// The machine's id, instead of the one in the state directory
    ///
    /// With the token's site it says which gateway this is: two machines must not have the same one.
    #[arg(long, value_name = "ID", env = "CULVERT_GATEWAY_ID")]
    id: Option<String>,

    /// UDP port that clients send to
    #[arg(long, value_name = "PORT", env = "CULVERT_GATEWAY_LISTEN_PORT", default_value_t = 51_820, value_parser = clap::value_parser!(u16).range(1..))]
    listen_port: u16,

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
    public_endpoint: Vec<PublicEndpoint>,

    /// MTU of the interface, in bytes
    #[arg(long, value_name = "N", env = "CULVERT_GATEWAY_MTU", default_value_t = crate::arguments::DEFAULT_MTU, value_parser = clap::value_parser!(u16).range(1280..=65_475))]
    mtu: u16,

    /// Packet workers (threads)
    #[arg(long, value_name = "N", env = "CULVERT_GATEWAY_WORKERS", value_parser = crate::arguments::worker_count)]
    workers: Option<usize>,

    /// Let resources see clients' own addresses instead of the gateway's
    ///
    /// The network behind the gateway must route the range of clients' addresses to it.
    #[arg(long, env = "CULVERT_GATEWAY_KEEP_SOURCE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    keep_source: bool,

    /// Let clients reach this host itself, as far as their grants allow it
    #[arg(long, env = "CULVERT_GATEWAY_HOST_ACCESS", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    host_access: bool,

    /// Switch the kernel's forwarding on where it is off
    #[arg(long, env = "CULVERT_GATEWAY_ENABLE_FORWARDING", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    enable_forwarding: bool,

    /// Mark of the packets that carry the tunnel
    #[arg(long, value_name = "N", env = "CULVERT_GATEWAY_MARK", value_parser = crate::client::mark)]
    mark: Option<Mark>,

    /// Routing table for clients; the next number is taken too
    #[arg(long, value_name = "N", env = "CULVERT_GATEWAY_TABLE", value_parser = crate::client::table)]
    table: Option<Table>,

    /// Socket that answers "culvert gateway status"
    #[arg(
        long,
        value_name = "PATH",
        env = "CULVERT_GATEWAY_STATUS_SOCKET",
        default_value = DEFAULT_STATUS_SOCKET
    )]
    status_socket: PathBuf,

    /// Serve http://ADDR/healthz and /readyz, for example on 127.0.0.1:9588
    ///
    /// /healthz is 200 while the gateway works. /readyz is 200 while clients may be sent to it: it
    /// does not drain, and the portal has welcomed it or it goes on with grants that it holds.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_GATEWAY_HEALTH", value_parser = crate::arguments::socket_address)]
    health: Option<SocketAddr>,

    /// Serve Prometheus metrics at http://ADDR/metrics; it may be the address of --health
    ///
    /// They name clients by their ids. There is no authentication: bind to an address that only the
    /// collector reaches.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_GATEWAY_METRICS", value_parser = crate::arguments::socket_address)]
    metrics: Option<SocketAddr>,

    /// End with status 4 if the portal cannot be reached at the start
    #[arg(long, env = "CULVERT_GATEWAY_EXIT_WHEN_UNREACHABLE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    exit_when_unreachable: bool,

    /// Leave files and system calls open to it that it does not need
    ///
    /// Otherwise it closes them to itself before it begins, as far as the kernel can.
    #[arg(long, env = "CULVERT_GATEWAY_NO_SANDBOX", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    no_sandbox: bool,

    /// Log into files of DIR, one a day, instead of to standard error
    ///
    /// The last 14 are kept. DIR is made where it is missing; nobody else may write to it.
    #[arg(long, value_name = "DIR", env = "CULVERT_GATEWAY_LOG_DIR")]
    log_dir: Option<PathBuf>,

    /// Log level
    #[arg(
        long,
        value_name = "LEVEL",
        env = "CULVERT_GATEWAY_LOG_LEVEL",
        value_enum,
        default_value_t = LogLevel::Info
    )]
    log_level: LogLevel,
}

impl GatewayArguments {
    /// The name of the command, and the configuration file that was named for it, where there is one.
    pub(crate) fn configured(&self) -> Option<(&'static str, Option<&Path>)> {
        match &self.command {
            GatewayCommand::Run(run) => Some(("run", run.config.as_deref())),
            GatewayCommand::Cleanup(clean_up) => Some(("cleanup", clean_up.config.as_deref())),
            GatewayCommand::Status(_) => None,
        }
    }
}

const EXIT_STATUS: &str = "\
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

/// Lower ones take a right of root's (net.ipv4.ip_unprivileged_port_start, unless it was changed).
const FIRST_UNPRIVILEGED_PORT: u16 = 1024;

/// Carries out `culvert gateway`.
pub(crate) fn run(arguments: GatewayArguments) -> Result<ExitCode, Failure> {
    let run = match arguments.command {
        GatewayCommand::Run(run) => run,
        GatewayCommand::Status(status) => return status::run(&status),
        GatewayCommand::Cleanup(clean_up) => return clean_up::run(&clean_up),
    };
    let (health, metrics) = (run.health, run.metrics);
    let (log_dir, log_level, user) = (run.log_dir.clone(), run.log_level, run.user.clone());
    let no_sandbox = run.no_sandbox;
    // Everything that only root may read or open is read and opened before root is given up.
    let mut settings = settings(*run)?;
    let store = Store::open()?;
    let listeners = Listeners::bind(health, metrics)?;
    let service = Service {
        state_dir: &settings.state_dir,
        log_dir: log_dir.as_deref(),
        socket: &settings.status_socket,
        has_cgroups: false,
        has_low_ports: (1..FIRST_UNPRIVILEGED_PORT).contains(&settings.listen_port),
        resolver: None,
    };
    let confinement = service.confine(user.as_deref())?;
    let destination = logging::Destination::of(log_dir.as_deref(), "gateway");
    logging::start_service(log_level, &destination)?;
    let (sandbox, helper) = service.enter_sandbox(no_sandbox);
    settings.sandbox = Some(sandbox);
    settings.confinement = Some(confinement);
    if let Some(store) = store {
        store.drop_unknown();
        settings.store = Some(store);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .enable_all()
        .thread_name("gateway")
        .build()
        .map_err(|error| Failure::io("starting threads", &error))?;
    runtime.block_on(serve(settings, listeners, helper))
}

async fn serve(
    settings: Settings,
    listeners: Listeners,
    helper: Option<SystemHelper>,
) -> Result<ExitCode, Failure> {
    let (stop, lost) = told_to_end(helper)?;
    let (observer, observed) = observe();
    listeners.serve(&observer, metrics::render)?;
    match culvert_gateway::run(settings, observed, stop).await {
        Ok(()) => lost.exit(),
        Err(error) => Err(failure(&error)),
    }
}

fn settings(arguments: RunArguments) -> Result<Settings, Failure> {
    let usual = Path::new(DEFAULT_TOKEN_FILE);
    let found = token_source::token(arguments.token_file.as_deref(), usual, "gateway")?
        .ok_or_else(|| token_source::missing(usual, "gateway"))?;
    let enrolment = Enrolment::from_token(&found.token)
        .map_err(|error| failure(&error).about(&found.source))?;
    let routing = crate::client::routing(Routing::GATEWAY, arguments.mark, arguments.table)
        .map_err(|error| Failure::new(Status::Usage, error))?;
    Ok(Settings {
        interface: arguments.interface,
        state_dir: arguments.state_dir,
        name: arguments.name.unwrap_or_else(crate::client::host_name),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        id: arguments.id,
        enrolment,
        listen_port: arguments.listen_port,
        public_endpoints: arguments.public_endpoint,
        workers: arguments.workers.unwrap_or_else(crate::wg::default_workers),
        mtu: arguments.mtu,
        routing,
        source: match arguments.keep_source {
            true => SourceAddress::Keep,
            false => SourceAddress::Masquerade,
        },
        host_access: match arguments.host_access {
            true => HostAccess::Allow,
            false => HostAccess::Deny,
        },
        enable_forwarding: arguments.enable_forwarding,
        status_socket: arguments.status_socket,
        exit_when_unreachable: arguments.exit_when_unreachable,
        confinement: None,
        sandbox: None,
        store: None,
    })
}

fn failure(error: &GatewayError) -> Failure {
    let status = match error {
        GatewayError::BadToken(_)
        | GatewayError::NoPortal
        | GatewayError::BadUrl(_)
        | GatewayError::NotEnrolled(_) => Status::NotEnrolled,
        GatewayError::Unreachable(_) => Status::PortalUnreachable,
        GatewayError::Revoked(_) => Status::Denied,
        GatewayError::Host(HostError::InvalidMachineId { .. }) => Status::Usage,
        _ => Status::Failed,
    };
    Failure::new(status, error)
}
