//! `culvert client`: a client from its start to its end.

mod clean_up;
mod metrics;

use crate::arguments::LogLevel;
use crate::confinement::Service;
use crate::end::told_to_end;
use crate::exit::{Failure, Status};
use crate::listeners::Listeners;
use crate::stored_descriptors::Store;
use crate::{logging, token_source};
use clap::builder::FalseyValueParser;
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use clean_up::CleanUpArguments;
pub(crate) use clean_up::{refuse_while_running, report};
use culvert_client::{ClientError, DnsScope, Enrolment, Settings, Upstream};
use culvert_host::{
    HostError, InterfaceName, Mark, ResolverChoice, ResolverMode, Routing, SystemHelper, Table,
    observe,
};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The default path of a client's token file.
const DEFAULT_TOKEN_FILE: &str = "/etc/culvert/token";

/// The default path of the socket on which a client answers `culvert status` and takes commands.
pub(crate) const DEFAULT_STATUS_SOCKET: &str = "/run/culvert/culvert.sock";

/// Threads besides the packet workers: one owns the client, the other carries what waits for the
/// network.
const RUNTIME_THREADS: usize = 2;

/// Use resources: ask the portal for access, and keep tunnels to gateways
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = EXIT_STATUS
)]
pub(crate) struct ClientArguments {
    #[command(subcommand)]
    command: ClientCommand,
}

#[derive(Debug, Subcommand)]
enum ClientCommand {
    Run(Box<RunArguments>),
    Cleanup(CleanUpArguments),
}

/// Run the client
///
/// Connects to the portal that its token names, brings up the tunnel's interface, leads resources into
/// it and answers their names on port 53 of its addresses, where the system then asks for them. Access is
/// asked for with the first packet or query. It runs in the foreground until SIGTERM or SIGINT; a portal
/// that cannot be reached is tried again for ever. When the client ends as asked, the host is as it was;
/// when it crashes, resources are unreachable until it runs again. "culvert status" shows what it does.
///
/// Where there is no token, it changes nothing and waits at its socket for "culvert sign-in", "up", "down"
/// and "sign-out", and comes back after a restart as it was.
#[derive(Debug, Args)]
#[command(after_help = EXIT_STATUS, after_long_help = RUN_EXAMPLES)]
struct RunArguments {
    /// A file with any of the options below [default: /etc/culvert/client.toml, where there is one]
    ///
    /// Its keys are the options' names with "_" for "-". Flags and environment variables go before it.
    #[arg(long, value_name = "FILE", env = "CULVERT_CLIENT_CONFIG")]
    config: Option<PathBuf>,

    /// The file with the client's token, mode 0600 [default: /etc/culvert/token]
    ///
    /// Without it, CULVERT_TOKEN may hold the token itself, or systemd may hand it over as the
    /// credential "token" (LoadCredential=token:FILE). A file that is named must be there.
    #[arg(long, value_name = "FILE", env = "CULVERT_CLIENT_TOKEN_FILE")]
    token_file: Option<PathBuf>,

    /// The name of the tunnel's interface
    #[arg(
        long,
        value_name = "NAME",
        env = "CULVERT_CLIENT_INTERFACE",
        default_value = "culvert0"
    )]
    interface: InterfaceName,

    /// Directory of the machine's id and key; nobody else may enter it
    #[arg(
        long,
        value_name = "DIR",
        env = "CULVERT_CLIENT_STATE_DIR",
        default_value = "/var/lib/culvert/client"
    )]
    state_dir: PathBuf,

    /// Become that user once it has started as root, and keep CAP_NET_ADMIN of root's rights
    ///
    /// CAP_BPF, for the tunnel's queues, and CAP_NET_BIND_SERVICE, for port 53, stay too. The state
    /// directory must be that user's; where there is none, it is made so.
    #[arg(long, value_name = "NAME", env = "CULVERT_CLIENT_USER")]
    user: Option<String>,

    /// Display name of the machine [default: its host name]
    #[arg(long, value_name = "TEXT", env = "CULVERT_CLIENT_NAME")]
    name: Option<String>,

    /// The machine's id, instead of the one in the state directory
    ///
    /// With the token's owner it says which client this is: two machines must not have the same one.
    #[arg(long, value_name = "ID", env = "CULVERT_CLIENT_ID")]
    id: Option<String>,

    /// MTU of the interface, in bytes
    #[arg(long, value_name = "N", env = "CULVERT_CLIENT_MTU", default_value_t = crate::arguments::DEFAULT_MTU, value_parser = clap::value_parser!(u16).range(1280..=65_475))]
    mtu: u16,

    /// Packet workers (threads)
    #[arg(long, value_name = "N", env = "CULVERT_CLIENT_WORKERS", value_parser = crate::arguments::worker_count)]
    workers: Option<usize>,

    /// Mark of the packets that carry the tunnel, so that they stay out of it
    #[arg(long, value_name = "N", env = "CULVERT_CLIENT_MARK", value_parser = mark)]
    mark: Option<Mark>,

    /// Routing table for resources; the next number is taken too, for routes to everywhere
    #[arg(long, value_name = "N", env = "CULVERT_CLIENT_TABLE", value_parser = table)]
    table: Option<Table>,

    /// Method by which the system is set to ask the client for names of resources
    #[arg(
        long,
        value_name = "MODE",
        env = "CULVERT_CLIENT_DNS",
        value_enum,
        default_value_t = DnsMode::Auto
    )]
    dns: DnsMode,

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
    dns_scope: DnsNames,

    /// Answer DNS at ADDR:PORT as well, for anyone who reaches it; may be repeated
    #[arg(
        long,
        value_name = "ADDR:PORT",
        env = "CULVERT_CLIENT_DNS_LISTEN",
        value_delimiter = ',',
        value_parser = crate::arguments::socket_address
    )]
    dns_listen: Vec<SocketAddr>,

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
    dns_upstream: Vec<Upstream>,

    /// Socket that answers "culvert status" and takes commands
    #[arg(
        long,
        value_name = "PATH",
        env = "CULVERT_CLIENT_STATUS_SOCKET",
        default_value = DEFAULT_STATUS_SOCKET
    )]
    status_socket: PathBuf,

    /// Serve http://ADDR/healthz, /readyz and /metrics, for example on 127.0.0.1:9589
    ///
    /// /healthz is 200 while the client works. /readyz is 200 while it can carry packets for
    /// resources: interface and routes are up, and the portal has welcomed it or it goes on with
    /// access that it was given. /metrics are those of Prometheus. There is no authentication: bind
    /// to an address that only supervisor and collector reach.
    #[arg(long, value_name = "ADDR:PORT", env = "CULVERT_CLIENT_HEALTH", value_parser = crate::arguments::socket_address)]
    health: Option<SocketAddr>,

    /// End with status 4 if the portal cannot be reached at the start
    #[arg(long, env = "CULVERT_CLIENT_EXIT_WHEN_UNREACHABLE", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    exit_when_unreachable: bool,

    /// Leave files and system calls open to it that it does not need
    ///
    /// Otherwise it closes them to itself before it begins, as far as the kernel can.
    #[arg(long, env = "CULVERT_CLIENT_NO_SANDBOX", action = ArgAction::SetTrue, value_parser = FalseyValueParser::new())]
    no_sandbox: bool,

    /// Log into files of DIR, one a day, instead of to standard error
    ///
    /// The last 14 are kept. DIR is made where it is missing; nobody else may write to it.
    #[arg(long, value_name = "DIR", env = "CULVERT_CLIENT_LOG_DIR")]
    log_dir: Option<PathBuf>,

    /// Log level
    #[arg(
        long,
        value_name = "LEVEL",
        env = "CULVERT_CLIENT_LOG_LEVEL",
        value_enum,
        default_value_t = LogLevel::Info
    )]
    log_level: LogLevel,
}

impl ClientArguments {
    /// The name of the command, and the configuration file that was named for it.
    pub(crate) fn configured(&self) -> Option<(&'static str, Option<&Path>)> {
        match &self.command {
            ClientCommand::Run(run) => Some(("run", run.config.as_deref())),
            ClientCommand::Cleanup(clean_up) => Some(("cleanup", clean_up.config.as_deref())),
        }
    }
}

/// The method by which the system's resolver is pointed at the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DnsMode {
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
enum DnsNames {
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

const EXIT_STATUS: &str = "\
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

/// Carries out `culvert client`.
pub(crate) fn run(arguments: ClientArguments) -> Result<ExitCode, Failure> {
    let run = match arguments.command {
        ClientCommand::Run(run) => run,
        ClientCommand::Cleanup(clean_up) => return clean_up::run(&clean_up),
    };
    let (health, log_dir, log_level) = (run.health, run.log_dir.clone(), run.log_level);
    let (user, no_sandbox) = (run.user.clone(), run.no_sandbox);
    // Everything that only root may read or open is read and opened before root is given up.
    let mut settings = settings(*run)?;
    let store = Store::open()?;
    // A client has one address for all that it tells.
    let listeners = Listeners::bind(health, health)?;
    let service = Service {
        state_dir: &settings.state_dir,
        log_dir: log_dir.as_deref(),
        socket: &settings.status_socket,
        // That of DNS, on the tunnel's addresses.
        has_low_ports: true,
        has_cgroups: true,
        resolver: Some(settings.dns),
    };
    let confinement = service.confine(user.as_deref())?;
    let destination = logging::Destination::of(log_dir.as_deref(), "client");
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
        .thread_name("client")
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
    let ready = |summary: &str| tracing::info!("{summary}");
    let (observer, observed) = observe();
    listeners.serve(&observer, metrics::render)?;
    match culvert_client::run(settings, observed, stop, ready).await {
        Ok(()) => lost.exit(),
        Err(error) => Err(failure(&error)),
    }
}

fn settings(arguments: RunArguments) -> Result<Settings, Failure> {
    let usual = Path::new(DEFAULT_TOKEN_FILE);
    let found = token_source::token(arguments.token_file.as_deref(), usual, "client")?;
    let enrolment = found.map(|found| {
        Enrolment::from_token(&found.token).map_err(|error| failure(&error).about(&found.source))
    });
    let enrolment = enrolment.transpose()?;
    let routing = routing(Routing::CLIENT, arguments.mark, arguments.table)
        .map_err(|error| Failure::new(Status::Usage, error))?;
    check_upstreams(&arguments.dns_upstream).map_err(|error| Failure::new(Status::Usage, error))?;
    Ok(Settings {
        interface: arguments.interface,
        state_dir: arguments.state_dir,
        name: arguments.name.unwrap_or_else(host_name),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        id: arguments.id,
        enrolment,
        workers: arguments.workers.unwrap_or_else(crate::wg::default_workers),
        mtu: arguments.mtu,
        routing,
        dns: arguments.dns.into(),
        dns_scope: arguments.dns_scope.into(),
        dns_listen: arguments.dns_listen,
        dns_upstreams: arguments.dns_upstream,
        status_socket: arguments.status_socket,
        exit_when_unreachable: arguments.exit_when_unreachable,
        confinement: None,
        sandbox: None,
        store: None,
    })
}

/// `usual` with the numbers that were chosen instead. A table takes the next number along.
pub(crate) fn routing(
    usual: Routing,
    mark: Option<Mark>,
    table: Option<Table>,
) -> Result<Routing, HostError> {
    let mut routing = usual;
    routing.mark = mark.unwrap_or(usual.mark);
    if let Some(table) = table {
        routing.table = table;
        routing.default_table = Table::new(table.get().wrapping_add(1))?;
    }
    Ok(routing)
}

pub(crate) fn host_name() -> String {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    match name.trim() {
        "" => "client".to_owned(),
        name => name.to_owned(),
    }
}

/// A mark other than that of all packets.
pub(crate) fn mark(text: &str) -> Result<Mark, String> {
    Mark::new(number(text)?).map_err(|error| error.to_string())
}

/// A table that is not the kernel's, and neither is the next one.
pub(crate) fn table(text: &str) -> Result<Table, String> {
    let number = number(text)?;
    Table::new(number.wrapping_add(1))
        .and_then(|_| Table::new(number))
        .map_err(|error| error.to_string())
}

/// A number in decimal, or in hexadecimal behind `0x`, as `ip` writes marks and tables.
fn number(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "it must be a number below 2^32, such as 51820 or 0xca6c".to_owned())
}

/// All resolvers are asked over TLS, or none is: nothing falls back to clear text by going to the next one.
fn check_upstreams(upstreams: &[Upstream]) -> Result<(), String> {
    let has_tls = upstreams.iter().any(|it| it.tls_name.is_some());
    let in_clear = upstreams.iter().find(|it| it.tls_name.is_none());
    if let (true, Some(upstream)) = (has_tls, in_clear) {
        return Err(format!(
            "--dns-upstream: {upstream} would be asked in the clear and others over TLS: name a certificate for each \
             (ADDR#NAME) or for none"
        ));
    }
    let mut seen = BTreeSet::new();
    match upstreams.iter().find(|it| !seen.insert(it.address)) {
        Some(upstream) => Err(format!(
            "--dns-upstream: {} is there twice",
            upstream.address
        )),
        None => Ok(()),
    }
}

pub(crate) fn failure(error: &ClientError) -> Failure {
    let status = match error {
        ClientError::BadToken(_)
        | ClientError::NoPortal
        | ClientError::BadUrl(_)
        | ClientError::SignedOut
        | ClientError::NotEnrolled(_) => Status::NotEnrolled,
        ClientError::Unreachable(_) => Status::PortalUnreachable,
        ClientError::Denied(_) => Status::Denied,
        ClientError::Host(HostError::InvalidMachineId { .. }) | ClientError::Dns(_) => {
            Status::Usage
        }
        _ => Status::Failed,
    };
    Failure::new(status, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_are_all_asked_over_tls_or_none_is() {
        for (texts, fault) in [
            (&["9.9.9.9", "8.8.8.8"][..], None),
            (&["9.9.9.9#dns.quad9.net", "1.1.1.1#one.one.one.one"], None),
            (
                &["9.9.9.9#dns.quad9.net", "8.8.8.8"],
                Some("8.8.8.8:53 would be asked in the clear"),
            ),
            (
                &["9.9.9.9#a.example", "9.9.9.9#b.example"],
                Some("9.9.9.9:853 is there twice"),
            ),
        ] {
            let upstreams: Vec<Upstream> = texts.iter().map(|it| it.parse().unwrap()).collect();
            match (check_upstreams(&upstreams), fault) {
                (Ok(()), None) => {}
                (Err(said), Some(fault)) => assert!(said.contains(fault), "{said}"),
                (said, _) => panic!("{texts:?}: {said:?}"),
            }
        }
    }

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(number("0xca6c"), Ok(0xca6c));
        assert_eq!(number("51820"), Ok(51820));
        assert!(number("-1").is_err() && number("0x100000000").is_err());
    }

    #[test]
    fn a_table_takes_the_next_number_along() {
        let routing = routing(Routing::CLIENT, mark("7").ok(), table("1000").ok()).unwrap();
        let tables = (routing.table.get(), routing.default_table.get());
        assert_eq!((routing.mark.get(), tables), (7, (1000, 1001)));
        assert!(table("252").is_err(), "253 is the kernel's");
        assert!(mark("0").is_err());
    }
}
