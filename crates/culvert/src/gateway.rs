//! `culvert gateway`: a gateway from its start to its end.

mod clean_up;
mod failure;
mod metrics;
pub(crate) mod run_arguments;
mod status;
mod table;

use crate::confinement::Service;
use crate::end::told_to_end;
use crate::exit::{Failure, Status};
use crate::host_name::host_name;
use crate::listeners::Listeners;
use crate::proxy::proxy;
use crate::routing_numbers::routing;
use crate::stored_descriptors::Store;
use crate::workers::default_workers;
use crate::{logging, token_source};
use clap::{Args, Subcommand};
use clean_up::CleanUpArguments;
use culvert_gateway::{Enrolment, Settings};
use culvert_host::{HostAccess, Routing, SourceAddress, SystemHelper, observe};
use failure::failure;
use run_arguments::{EXIT_STATUS, RunArguments};
use status::StatusArguments;
use std::path::Path;
use std::process::ExitCode;

/// The default path of a gateway's token file.
const DEFAULT_TOKEN_FILE: &str = "/etc/culvert/gateway-token";

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
        has_interface: true,
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
    let routing = routing(Routing::GATEWAY, arguments.mark, arguments.table)
        .map_err(|error| Failure::new(Status::Usage, error))?;
    let proxy = proxy(
        arguments.proxy.as_deref(),
        arguments.proxy_credentials_file.as_deref(),
    )?;
    Ok(Settings {
        interface: arguments.interface,
        state_dir: arguments.state_dir,
        name: arguments.name.unwrap_or_else(host_name),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        id: arguments.id,
        enrolment,
        listen_port: arguments.listen_port,
        public_endpoints: arguments.public_endpoint,
        workers: arguments.workers.unwrap_or_else(default_workers),
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
        proxy,
        exit_when_unreachable: arguments.exit_when_unreachable,
        confinement: None,
        sandbox: None,
        store: None,
    })
}
