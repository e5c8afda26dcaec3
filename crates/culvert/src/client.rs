//! `culvert client`: a client from its start to its end.

mod clean_up;
mod failure;
mod metrics;
pub(crate) mod run_arguments;

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
pub(crate) use clean_up::{refuse_while_running, report};
use culvert_client::{Enrolment, Settings, Upstream};
use culvert_host::{RecentLog, Routing, SystemHelper, observe};
pub(crate) use failure::failure;
use run_arguments::{EXIT_STATUS, RunArguments};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The default path of a client's token file.
const DEFAULT_TOKEN_FILE: &str = "/etc/culvert/token";

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

impl ClientArguments {
    /// The name of the command, and the configuration file that was named for it.
    pub(crate) fn configured(&self) -> Option<(&'static str, Option<&Path>)> {
        match &self.command {
            ClientCommand::Run(run) => Some(("run", run.config.as_deref())),
            ClientCommand::Cleanup(clean_up) => Some(("cleanup", clean_up.config.as_deref())),
        }
    }
}

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
        has_interface: true,
        has_cgroups: true,
        resolver: Some(settings.dns),
    };
    let confinement = service.confine(user.as_deref())?;
    let destination = logging::Destination::of(log_dir.as_deref(), "client");
    let log = Arc::new(RecentLog::default());
    logging::start_recorded_service(log_level, &destination, Some(Arc::clone(&log)))?;
    settings.log = Some(log);
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
        workers: arguments.workers.unwrap_or_else(default_workers),
        mtu: arguments.mtu,
        routing,
        dns: arguments.dns.into(),
        dns_scope: arguments.dns_scope.into(),
        dns_listen: arguments.dns_listen,
        dns_upstreams: arguments.dns_upstream,
        status_socket: arguments.status_socket,
        proxy,
        exit_when_unreachable: arguments.exit_when_unreachable,
        confinement: None,
        sandbox: None,
        log: None,
        store: None,
    })
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
}
