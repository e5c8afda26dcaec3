//! The signals that end a client or gateway.

use crate::exit::Failure;
use culvert_host::{Farewell, notify_stopping};
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// Done once the process is told to end: by SIGTERM or SIGINT for good, by SIGUSR2 for a restart
/// (`RestartKillSignal=` of systemd.kill(5)).
pub(crate) fn told_to_end() -> Result<impl Future<Output = Farewell>, Failure> {
    let watch = |kind| signal(kind).map_err(|error| Failure::io("watching for signals", &error));
    let mut terminate = watch(SignalKind::terminate())?;
    let mut interrupt = watch(SignalKind::interrupt())?;
    let mut restart = watch(SignalKind::user_defined2())?;
    Ok(async move {
        let farewell = tokio::select! {
            _ = terminate.recv() => Farewell::ForGood,
            _ = interrupt.recv() => Farewell::ForGood,
            _ = restart.recv() => Farewell::ForRestart,
        };
        match farewell {
            Farewell::ForGood => tracing::info!("ending"),
            Farewell::ForRestart => tracing::info!("ending for a restart: what is set up stays"),
        }
        notify_stopping("ending");
        farewell
    })
}
