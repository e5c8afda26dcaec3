//! The signals that end a client or gateway, and the end of its helper.

use crate::exit::{Failure, Status};
use culvert_host::{Shutdown, SystemHelper, notify_stopping};
use std::future::Future;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// True if the helper ended first.
#[derive(Clone, Default)]
pub(crate) struct HelperLost(Arc<AtomicBool>);

impl HelperLost {
    /// The status of a service that has ended in order.
    pub(crate) fn exit(&self) -> Result<ExitCode, Failure> {
        match self.0.load(Ordering::Relaxed) {
            false => Ok(ExitCode::SUCCESS),
            true => Err(Failure::new(
                Status::Failed,
                "the helper that looks up names and files has ended: start this service again",
            )),
        }
    }
}

/// Done once a signal asks the process to end: by SIGTERM or SIGINT for good, by SIGUSR2 for a restart
/// (`RestartKillSignal=` of systemd.kill(5)). Without its helper it finds no names, and a process in a sandbox can't
/// start another: it ends for a restart then.
pub(crate) fn told_to_end(
    helper: Option<SystemHelper>,
) -> Result<(impl Future<Output = Shutdown>, HelperLost), Failure> {
    let watch = |kind| signal(kind).map_err(|error| Failure::io("watching for signals", &error));
    let mut terminate = watch(SignalKind::terminate())?;
    let mut interrupt = watch(SignalKind::interrupt())?;
    let mut restart = watch(SignalKind::user_defined2())?;
    let lost = HelperLost::default();
    let is_lost = Arc::clone(&lost.0);
    let stop = async move {
        let shutdown = tokio::select! {
            _ = terminate.recv() => Shutdown::ForGood,
            _ = interrupt.recv() => Shutdown::ForGood,
            _ = restart.recv() => Shutdown::ForRestart,
            () = ended(helper) => {
                is_lost.store(true, Ordering::Relaxed);
                tracing::error!("the helper that looks up names and files has ended: this service ends too");
                Shutdown::ForRestart
            }
        };
        match shutdown {
            Shutdown::ForGood => tracing::info!("ending"),
            Shutdown::ForRestart => tracing::info!("ending for a restart: what is set up stays"),
        }
        notify_stopping("ending");
        shutdown
    };
    Ok((stop, lost))
}

/// The same for a process that another one ends, which `asked` tells, and no signal.
pub(crate) fn ended_by(
    helper: Option<SystemHelper>,
    asked: impl Future<Output = ()>,
) -> (impl Future<Output = Shutdown>, HelperLost) {
    let lost = HelperLost::default();
    let is_lost = Arc::clone(&lost.0);
    let stop = async move {
        tokio::select! {
            () = asked => {
                tracing::info!("ending");
                Shutdown::ForGood
            }
            () = ended(helper) => {
                is_lost.store(true, Ordering::Relaxed);
                tracing::error!("the helper that looks up names and files has ended: this process ends too");
                Shutdown::ForRestart
            }
        }
    };
    (stop, lost)
}

/// Returns once the helper has ended; never where there is none.
async fn ended(helper: Option<SystemHelper>) {
    let Some(helper) = helper else {
        return std::future::pending().await;
    };
    if let Err(error) = helper.ended().await {
        tracing::debug!(%error, "the helper is not watched");
        std::future::pending::<()>().await;
    }
}
