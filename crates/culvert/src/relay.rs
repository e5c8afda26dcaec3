//! `culvert relay`: a relay from its start to its end.

mod failure;
mod metrics;
mod of_portal;
pub(crate) mod run_arguments;
mod status;
mod table;

use crate::confinement::Service;
use crate::end::{ended_by, told_to_end};
use crate::exit::{Failure, Status};
use crate::host_name::host_name;
use crate::listeners::Listeners;
use crate::proxy::proxy;
use crate::workers::default_workers;
use crate::{logging, token_source};
use clap::{Args, Subcommand};
use culvert_host::{SystemHelper, observe};
use culvert_relay::{Certificates, Enrolment, Settings, Sockets, TlsListen, TlsSettings};
use failure::failure;
pub(crate) use of_portal::OF_PORTAL_VARIABLE;
use run_arguments::{EXIT_STATUS, RunArguments};
use status::StatusArguments;
use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The default path of a relay's token file.
const DEFAULT_TOKEN_FILE: &str = "/etc/culvert/relay-token";

/// Threads besides the workers: one owns the session with the portal, the other carries what waits for the network.
const RUNTIME_THREADS: usize = 2;

/// The most bytes of a certificate's file, or of a key's: a chain of a few certificates has some kilobytes.
const PEM_MOST: u64 = 1 << 20;

/// Bytes in a megabit.
const BYTES_PER_MEGABIT: u64 = 125_000;

/// Forward the tunnels of ends that cannot reach each other
#[derive(Debug, Args)]
#[command(
    disable_help_subcommand = true,
    arg_required_else_help = true,
    after_help = EXIT_STATUS
)]
pub(crate) struct RelayArguments {
    #[command(subcommand)]
    command: RelayCommand,
}

#[derive(Debug, Subcommand)]
enum RelayCommand {
    Run(Box<RunArguments>),
    Status(StatusArguments),
}

impl RelayArguments {
    /// The name of the command, and the configuration file that was named for it, where there is one.
    pub(crate) fn configured(&self) -> Option<(&'static str, Option<&Path>)> {
        match &self.command {
            // The portal says all that there is to say.
            RelayCommand::Run(_) if of_portal::is_of_portal() => None,
            RelayCommand::Run(run) => Some(("run", run.config.as_deref())),
            RelayCommand::Status(_) => None,
        }
    }
}

/// Carries out `culvert relay`.
pub(crate) fn run(arguments: RelayArguments) -> Result<ExitCode, Failure> {
    let run = match arguments.command {
        RelayCommand::Run(run) => run,
        RelayCommand::Status(status) => return status::run(&status),
    };
    let (health, metrics) = (run.health, run.metrics);
    let (log_dir, log_level, user) = (run.log_dir.clone(), run.log_level, run.user.clone());
    let no_sandbox = run.no_sandbox;
    // Everything that only root may read or open is read and opened before root is given up: low ports, and sockets
    // with large buffers.
    let mut settings = settings(*run)?;
    let listeners = Listeners::bind(health, metrics)?;
    let sockets = Sockets::bind(&settings).map_err(|error| failure(&error))?;
    let service = Service {
        state_dir: &settings.state_dir,
        log_dir: log_dir.as_deref(),
        socket: &settings.status_socket,
        has_interface: false,
        has_cgroups: false,
        has_low_ports: false,
        resolver: None,
    };
    let confinement = service.confine(user.as_deref())?;
    let destination = logging::Destination::of(log_dir.as_deref(), "relay");
    logging::start_service(log_level, &destination)?;
    let (sandbox, helper) = service.enter_sandbox(no_sandbox);
    settings.sandbox = Some(sandbox);
    settings.confinement = Some(confinement);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(RUNTIME_THREADS)
        .enable_all()
        .thread_name("relay")
        .build()
        .map_err(|error| Failure::io("starting threads", &error))?;
    runtime.block_on(serve(settings, sockets, listeners, helper))
}

async fn serve(
    settings: Settings,
    sockets: Sockets,
    listeners: Listeners,
    helper: Option<SystemHelper>,
) -> Result<ExitCode, Failure> {
    let (observer, observed) = observe();
    listeners.serve(&observer, metrics::render)?;
    let (ended, lost) = if of_portal::is_of_portal() {
        let (stop, lost) = ended_by(helper, of_portal::told_by_portal()?);
        let ended = culvert_relay::run(settings, sockets, observed, stop).await;
        (ended, lost)
    } else {
        let (stop, lost) = told_to_end(helper)?;
        let ended = culvert_relay::run(settings, sockets, observed, stop).await;
        (ended, lost)
    };
    match ended {
        Ok(()) => lost.exit(),
        Err(error) => Err(failure(&error)),
    }
}

/// The certificate for TLS, if files of it are named.
fn certificates(files: Option<(&Path, &Path)>) -> Result<Option<Arc<Certificates>>, Failure> {
    let Some((chain, key)) = files else {
        return Ok(None);
    };
    let chain_pem = read_pem(chain)?;
    let key_pem = Zeroizing::new(read_pem(key)?);
    let certificates = Certificates::from_pem(&chain_pem, &key_pem).map_err(|error| {
        let (chain, key) = (chain.display(), key.display());
        Failure::new(
            Status::Failed,
            format_args!("--tls-cert {chain} and --tls-key {key}: {error}"),
        )
    })?;
    Ok(Some(Arc::new(certificates)))
}

/// A file of PEM, as far as it may be long: one that is longer is cut and no PEM then.
fn read_pem(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PEM_MOST).read_to_end(&mut content));
    read.map_err(|error| Failure::io(format_args!("reading {}", path.display()), &error))?;
    Ok(content)
}

fn settings(arguments: RunArguments) -> Result<Settings, Failure> {
    let usual = Path::new(DEFAULT_TOKEN_FILE);
    let found = match of_portal::is_of_portal() {
        true => of_portal::token()?,
        false => token_source::token(arguments.token_file.as_deref(), usual, "relay")?
            .ok_or_else(|| token_source::missing(usual, "relay"))?,
    };
    let enrolment = Enrolment::from_token(&found.token)
        .map_err(|error| failure(&error).about(&found.source))?;
    let workers = arguments.workers.unwrap_or_else(default_workers);
    let workers = u32::try_from(workers).ok().and_then(NonZeroU32::new);
    let proxy = proxy(
        arguments.proxy.as_deref(),
        arguments.proxy_credentials_file.as_deref(),
    )?;
    let certificates = certificates(
        arguments
            .tls_cert
            .as_deref()
            .zip(arguments.tls_key.as_deref()),
    )?;
    Ok(Settings {
        state_dir: arguments.state_dir,
        name: arguments.name.unwrap_or_else(host_name),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        id: arguments.id,
        enrolment,
        port: arguments.port,
        gateway_ports: arguments.gateway_ports,
        addresses: arguments.address,
        tls: TlsSettings {
            listen: arguments.tls.unwrap_or(TlsListen::Usual),
            certificates,
        },
        workers: workers.unwrap_or(NonZeroU32::MIN),
        rate_bytes_per_s: arguments
            .rate
            .map(|rate| u64::from(rate) * BYTES_PER_MEGABIT),
        status_socket: arguments.status_socket,
        proxy,
        exit_when_unreachable: arguments.exit_when_unreachable,
        confinement: None,
        sandbox: None,
    })
}
